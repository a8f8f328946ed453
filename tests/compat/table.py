"""The table of docs/compatibility.md."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from .versions import ALL

START, END = "<!-- make compat: begin -->", "<!-- make compat: end -->"

#: The tests in the order of the columns, and each one's heading.
COLUMNS = {
    "test_resources_and_versions_are_read": "resources",
    "test_its_own_command_line_submits_a_folder_and_follows_the_log": "submit, package, tail, logs",
    "test_its_own_command_line_stops_a_job": "stop",
    "test_a_failed_job_says_why": "failure",
    "test_a_job_of_the_sdk_submits_tasks_and_actors_from_inside": "SDK job, work inside",
    "test_a_program_submits_tasks_and_actors": "SDK tasks, actors",
    "test_nothing_is_lost_or_run_twice_when_the_control_plane_is_killed": "`kill -9`",
    "test_a_label_selector_works_or_the_job_says_why": "label selector of a job",
    "test_one_pool_has_it_beside_the_newest": "beside 2.60",
}


@dataclass(frozen=True)
class Cell:
    """What one test found on one version."""

    shown: str
    #: Why it is not simply a yes.
    reason: str = ""

    @classmethod
    def of(cls, report: Any) -> Cell:
        if report.passed:
            told = dict(report.user_properties)
            return cls(told.get("shown", "yes"), told.get("reason", ""))
        if report.skipped:
            return cls("not tried", str(report.longrepr[2]).removeprefix("Skipped: "))
        crash = getattr(report.longrepr, "reprcrash", None)
        said = str(crash.message if crash else report.longrepr).strip().splitlines()
        return cls("**no**", said[0] if said else "no reason given")


def written_into(page: str, found: dict[str, dict[str, Cell]]) -> str:
    """The page with the table between its two marks."""
    before, rest = page.split(START)
    _, after = rest.split(END)
    lines = [
        f"Measured on {datetime.now(timezone.utc):%Y-%m-%d}, Linux x86_64, by `make compat`.",
        "",
        "| Ray | Python | " + " | ".join(COLUMNS.values()) + " |",
        "| --- " * (len(COLUMNS) + 2) + "|",
    ]
    reasons: list[str] = []
    for version in ALL:
        cells = found[str(version)]
        row = [version.ray, version.python]
        for test in COLUMNS:
            cell = cells[test]
            row.append(cell.shown)
            if cell.reason:
                reasons.append(f"- Ray {version.ray}, {COLUMNS[test]}: {cell.reason}")
        lines.append("| " + " | ".join(row) + " |")
    return f"{before}{START}\n" + "\n".join([*lines, "", *reasons]).rstrip() + f"\n{END}{after}"
