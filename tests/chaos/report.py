"""The table of faults and outcomes, as the run saw them."""

from __future__ import annotations

import os
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from statistics import median

from history.check import EARLY, LOST, NO_REASON, TWICE, WRONG, Violation, head_lost

from .storm import Storm


def render(storm: Storm, found: list[Violation], seed: int, seconds: float) -> str:
    return "\n".join([*_summary(storm, seed, seconds), "", *_table(storm, found)])


def write(text: str, path: Path, name: str = "chaos") -> None:
    """Writes between the markers of this name; a page without them gets them at its end."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    path.parent.mkdir(parents=True, exist_ok=True)
    page = path.read_text() if path.exists() else ""
    if begin not in page:
        page += f"{begin}\n{end}\n"
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    path.write_text(f"{before}{begin}\n{text}\n{end}{after}")


def _summary(storm: Storm, seed: int, seconds: float) -> list[str]:
    stage, keeper = storm.stage, storm.stage.keeper
    history, looks = stage.history, stage.watcher.looks
    statuses = Counter(history.final.values())
    ends = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
    proxied = sum((proxy.done for proxy in stage.proxies.values()), Counter())
    network = ", ".join(f"{what} {count}" for what, count in sorted(proxied.items()))
    again = ", ".join(f"{what}: {count}" for what, count in sorted(stage.client.repeated.items()))
    today = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    return [
        f"Run of {today}, seed {seed}, {seconds:.0f} s on {os.cpu_count()} cores: "
        f"{len(history.final)} jobs accepted and ended ({ends}).",
        "",
        f"- {len(head_lost(history.facts()))} of them are FAILED because their head was killed "
        "under them, as the rules have it.",
        f"- {len(storm.strikes)} faults. The control plane was started again "
        f"{keeper.restarts} times, and refused to start {len(keeper.refusals)} times, saying why.",
        f"- Submissions repeated by their clients: {again or 'none'}.",
        f"- On the network: {network or 'nothing'}.",
        f"- Looked at the jobs {looks} times, asked {history.explained()} times why one waits.",
    ]


def _table(storm: Storm, violations: list[Violation]) -> list[str]:
    lines = [
        "| fault | times | jobs under it | lost | run twice | wrong final status "
        "| too early | without a reason | a job runs again after: median, longest |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    names = sorted({strike.fault for strike in storm.strikes})
    for name in names:
        strikes = [strike for strike in storm.strikes if strike.fault == name]
        jobs = set().union(*(strike.jobs for strike in strikes))
        found = Counter(v.kind for v in violations if v.job in jobs)
        outcome = [str(found[kind]) for kind in (LOST, TWICE, WRONG, EARLY, NO_REASON)]
        times = [strike.recovered for strike in strikes if strike.recovered is not None]
        again = f"{median(times):.1f} s, {max(times):.1f} s" if times else "–"
        cells = [name, str(len(strikes)), str(len(jobs)), *outcome, again]
        lines.append(f"| {' | '.join(cells)} |")
    for name, why in sorted(storm.not_tried.items()):
        lines.append(f"| {name} | not tried: {why} | | | | | | | |")
    return lines
