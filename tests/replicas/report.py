"""The table of faults of replicas and their outcomes, as the run saw them."""

from __future__ import annotations

import math
import os
from collections import Counter
from datetime import datetime, timezone

from history.check import EARLY, LOST, NO_REASON, TWICE, WRONG

from .storm import REPLICAS, Outcome


def render(outcome: Outcome, seed: int, seconds: float, server: str) -> str:
    return "\n".join([*_summary(outcome, seed, seconds, server), "", *_table(outcome)])


def percentile(times: list[float], of_hundred: float) -> float:
    return sorted(times)[max(0, math.ceil(len(times) * of_hundred / 100) - 1)]


def _summary(outcome: Outcome, seed: int, seconds: float, server: str) -> list[str]:
    again = ", ".join(f"{what}: {count}" for what, count in sorted(outcome.repeated.items()))
    today = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    accepted = [strike.accepted for strike in outcome.strikes if strike.accepted is not None]
    sent = [strike.sent for strike in outcome.strikes if strike.sent is not None]
    lines = [
        f"Run of {today}, seed {seed}, {seconds:.0f} s on {os.cpu_count()} cores: {REPLICAS} "
        f"replicas on {server}, {len(outcome.strikes)} faults, {outcome.jobs} jobs accepted and "
        f"ended.",
        "",
        f"- The lead changed {outcome.epochs} times. Two that led at the same time: "
        f"{len(outcome.leaders)}.",
        f"- Submissions repeated by their clients: {again or 'none'}.",
    ]
    if accepted and sent:
        lines.append(
            f"- Over all faults: next accept p50 {percentile(accepted, 50):.2f} s, p99 "
            f"{percentile(accepted, 99):.2f} s; next dispatch p50 {percentile(sent, 50):.2f} s, "
            f"p99 {percentile(sent, 99):.2f} s."
        )
    return lines


def _table(outcome: Outcome) -> list[str]:
    lines = [
        "| fault | times | jobs under it | lost | run twice | wrong final status | too early "
        "| without a reason | next accept: p50, p99 | next dispatch: p50, p99 |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in sorted({strike.fault for strike in outcome.strikes}):
        strikes = [strike for strike in outcome.strikes if strike.fault == name]
        jobs = set().union(*(strike.jobs for strike in strikes))
        found = Counter(v.kind for v in outcome.violations if v.job in jobs)
        kinds = [str(found[kind]) for kind in (LOST, TWICE, WRONG, EARLY, NO_REASON)]
        accepted = _times([strike.accepted for strike in strikes])
        sent = _times([strike.sent for strike in strikes])
        cells = [name, str(len(strikes)), str(len(jobs)), *kinds, accepted, sent]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _times(times: list[float | None]) -> str:
    known = [time for time in times if time is not None]
    if not known:
        return "–"
    return f"{percentile(known, 50):.2f} s, {percentile(known, 99):.2f} s"
