"""docs/benchmarks.md: one table, written by the run."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable, NamedTuple

REPOSITORY = Path(__file__).resolve().parents[2]
STAMPS = "measured.json"


class Row(NamedTuple):
    what: str
    goal: str
    #: The file below target/bench with the figures.
    file: str
    show: Callable[[dict[str, Any]], str]


def seconds(value: float) -> str:
    if value < 0.001:
        return f"{value * 1e6:.1f} µs"
    return f"{value * 1000:.1f} ms" if value < 0.1 else f"{value:.2f} s"


def number(value: float) -> str:
    return f"{value:,.0f}"


def beside(figures: dict[str, float], ours: str, theirs: str, other: str) -> str:
    ratio = f"**{figures['ratio']:.2f} ×**"
    return f"{seconds(figures[ours])}; {other} {seconds(figures[theirs])}: {ratio}"


def job(what: str) -> Callable[[dict[str, Any]], str]:
    return lambda f: beside(f[what], "plane_p50_s", "direct_p50_s", "direct")


def task(what: str) -> Callable[[dict[str, Any]], str]:
    return lambda f: beside(f[what], "sdk_p50_s", "plain_p50_s", "plain")


SECTIONS: dict[str, list[Row]] = {
    "A job, beside `JobSubmissionClient` on the same cluster (median)": [
        Row(
            "from `submit_job` to its answer (ours is durable)",
            "≤ 1 ×",
            "job_start",
            job("accepted"),
        ),
        Row("from `submit_job` to the job's first line", "≤ 1.1 ×", "job_start", job("first_line")),
        Row(
            "the same for a job that makes an empty cluster grow",
            "≤ 1.2 ×",
            "growth",
            job("first_line"),
        ),
        Row(
            "from the first line until a caller sees the job running",
            "≤ 0.3 s",
            "job_start",
            lambda f: (
                f"{seconds(f['plane_seen_after_first_line_p50_s'])}; "
                f"direct {seconds(f['direct_seen_after_first_line_p50_s'])}"
            ),
        ),
    ],
    "Tasks and actors, beside plain Ray Client on the same cluster (median)": [
        Row("`submit_task` + `ray.get`", "≤ 1.05 ×", "tasks", task("one")),
        Row("1,000 tasks by `submit_tasks` + `ray.get`", "≤ 1.05 ×", "tasks", task("many")),
        Row("a task, routing alone: no control plane", "≤ 1.05 ×", "routing", task("task")),
        Row("a call of an actor", "≤ 1.05 ×", "routing", task("actor_call")),
    ],
    "The control plane over HTTP": [
        Row(
            "durable accepts per second, one job per request, 64 clients",
            "10,000",
            "server",
            lambda f: accepts(f["single"]["native_64_clients"]),
        ),
        Row(
            "… 256 clients",
            "10,000",
            "server",
            lambda f: accepts(f["single"]["native_256_clients"]),
        ),
        Row(
            "… through Ray's Jobs API, 64 clients",
            "10,000",
            "server",
            lambda f: accepts(f["single"]["ray_jobs_api_64_clients"]),
        ),
        Row(
            "durable accepts per second, 2,000 jobs per request",
            "100,000",
            "server",
            lambda f: number(f["batch"]["accepts_per_second"]),
        ),
        Row(
            "2,000 jobs in one call from Python, jobs per second, beside HyperQueue (in memory)",
            "≥ 1 ×",
            "hyperqueue",
            lambda f: (
                f"{number(f['plane_per_s'])}; HyperQueue {number(f['hyperqueue_per_s'])}: "
                f"**{f['ratio']:.2f} ×**"
            ),
        ),
        Row(
            "100,000 queued jobs are back after `kill -9`",
            "5 s",
            "server",
            lambda f: seconds(f["restart"]["seconds_to_ready"]),
        ),
        Row(
            "100 clusters polled every 5 s: CPU of one core; memory",
            "5 %; 100 MB",
            "server",
            lambda f: (
                f"{f['fleet']['cpu_percent_of_one_core']:.1f} %; {f['fleet']['rss_mb']:.0f} MB"
            ),
        ),
    ],
    "Replicas on a PostgreSQL of the same machine; SQLite in the same run": [
        Row(
            "durable accepts per second, one job per request, 64 clients",
            "10,000",
            "postgres",
            lambda f: beside_sqlite(f, "single"),
        ),
        Row(
            "durable accepts per second, 2,000 jobs per request",
            "40,000",
            "postgres",
            lambda f: beside_sqlite(f, "batch"),
        ),
        Row(
            "`kill -9` of the leader of 100,000 queued jobs: until the next accept",
            "3 s",
            "postgres",
            lambda f: seconds(f["takeover"]["seconds_after_kill"]),
        ),
        Row(
            "… SIGTERM",
            "0.5 s",
            "postgres",
            lambda f: seconds(f["takeover"]["seconds_after_hand_over"]),
        ),
        Row(
            "a follower that is asked nothing: CPU of one core",
            "1 %",
            "postgres",
            lambda f: f"{f['takeover']['follower_percent_of_one_core']:.1f} %",
        ),
    ],
    "The core, on one thread": [
        *(
            Row(
                f"decisions per second, {clusters} clusters",
                goal,
                "core",
                lambda f, n=clusters: number(f["decisions_per_s"][str(n)]),
            )
            for clusters, goal in ((10, "1,000,000"), (1000, "50,000"))
        ),
        *(
            Row(
                f"placements per second, {clusters} clusters",
                "",
                "core",
                lambda f, n=clusters: number(f["placements_per_s"][str(n)]),
            )
            for clusters in (10, 1000)
        ),
        Row(
            "whole lives per second: submit, dispatch, run, finish",
            "",
            "core",
            lambda f: number(f["lifecycle_jobs_per_s"]),
        ),
        Row(
            "one cycle over 1,000,000 queued jobs of 100 shapes",
            "",
            "core",
            lambda f: seconds(f["cycle_ms"]["100"] / 1000),
        ),
        Row(
            "memory per queued job", "", "core", lambda f: f"{f['bytes_per_queued_job']:.0f} bytes"
        ),
    ],
    "The store (SQLite), on one thread": [
        Row(
            "one durable write of 4 KiB on this disk",
            "",
            "store",
            lambda f: f"{f['fdatasync of 4 KiB, median, µs']:.0f} µs",
        ),
        Row(
            "jobs accepted per second in batches of 1,000",
            "",
            "store",
            lambda f: number(f["accept in batches of 1000, jobs/s"]),
        ),
        Row(
            "1,000,000 jobs read at a start",
            "",
            "store",
            lambda f: seconds(f["1000000 jobs: load, ms"] / 1000),
        ),
        Row(
            "one job by its id among 1,000,000",
            "",
            "store",
            lambda f: f"{f['1000000 jobs: one job by id, µs']:.0f} µs",
        ),
    ],
}


def beside_sqlite(figures: dict[str, Any], part: str) -> str:
    ours, sqlite = (figures[store][part]["accepts_per_second"] for store in ("postgres", "sqlite"))
    return f"{number(ours)}; SQLite {number(sqlite)}: **{ours / sqlite:.2f} ×**"


def accepts(figures: dict[str, float]) -> str:
    return f"{number(figures['accepts_per_second'])} (p99 {figures['p99_ms']:.0f} ms)"


def write(results: Path, page: Path) -> str:
    text = render(results)
    page.write_text(text)
    return text


def render(results: Path) -> str:
    """Rows whose part was never run are left out; each part shows when it was run."""
    lines = [
        "# Benchmarks",
        "",
        "`make bench` writes this page. Do not edit it. Expect other figures on another machine,",
        "and worse ones on a slower disk; ratios come from runs that alternate on one machine.",
        "",
        f"Machine: {machine()}. The load generator ran on the same cores.",
        "",
    ]
    for title, rows in SECTIONS.items():
        shown = [line for row in rows if (line := render_row(row, results))]
        if shown:
            lines += [
                f"## {title}",
                "",
                "| what | goal | measured | when |",
                "| --- | --- | --- | --- |",
            ]
            lines += [*shown, ""]
    return "\n".join(lines)


def render_row(row: Row, results: Path) -> str | None:
    path = results / f"{row.file}.json"
    if not path.exists():
        return None
    figures = json.loads(path.read_text())
    try:
        measured = row.show(figures)
    except KeyError:
        return None  # `cargo bench -- PART` measured only a part of it.
    stamps = json.loads((results / STAMPS).read_text()) if (results / STAMPS).exists() else {}
    return f"| {row.what} | {row.goal or '–'} | {measured} | {stamps.get(row.file, 'unknown')} |"


def stamp(results: Path, part: str) -> None:
    """Records when this part was measured, and at which commit."""
    path = results / STAMPS
    stamps = json.loads(path.read_text()) if path.exists() else {}
    stamps[part] = f"{datetime.now(timezone.utc).date()}, `{commit()}`"
    path.write_text(json.dumps(stamps, indent=2) + "\n")


def commit() -> str:
    """The measured commit, marked if there were uncommitted changes."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=9", "--exclude=*"]
    told = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return told.stdout.strip() or "unknown"


def machine() -> str:
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines() if os.path.exists("/proc") else ():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return f"{os.cpu_count()} cores, {model}"
