"""One run as a table and as JSON."""

from __future__ import annotations

import json
from typing import Any

from support.plane import REPOSITORY

from .gauges import Gauges
from .load import Load
from .meter import milliseconds

FILE = REPOSITORY / "target/bench/load.json"
COLUMNS = ("calls", "per_second", "p50_ms", "p95_ms", "p99_ms", "max_ms")
NEEDS = ("rss_mib", "open_files", "threads", "state_mib")


def report(load: Load, gauges: Gauges) -> str:
    """Writes `target/bench/load.json`; returns the same as text."""
    shape = load.shape
    summary = load.meter.summary(shape.seconds)
    told: dict[str, Any] = {
        "seconds": shape.seconds,
        "submits_per_second": shape.submits,
        "watchers": shape.watchers,
        "jobs": len(load.accepted),
        "events_delivered": load.events,
        "calls": summary,
        "errors": load.meter.errors(),
        "our_own_lag": milliseconds(load.meter.lag),
        "plane_cores": round(gauges.cores(), 2),
        "thirds": {name: gauges.thirds(name) for name in NEEDS},
        "samples": gauges.as_json(),
    }
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps(told, indent=2) + "\n")
    return "\n".join(
        [
            f"{len(load.accepted)} jobs in {shape.seconds:.0f} s, "
            f"{load.events} events to {shape.watchers} watchers, {FILE}",
            "",
            f"{'':20}" + "".join(f"{name:>12}" for name in COLUMNS),
            *(
                f"{kind:20}" + "".join(f"{each[name]:>12}" for name in COLUMNS)
                for kind, each in summary.items()
            ),
            "",
            f"{'':20}{'2nd third':>12}{'last third':>12}",
            *(
                f"{name:20}" + "".join(f"{value:>12.1f}" for value in gauges.thirds(name))
                for name in NEEDS
            ),
            "",
            f"processor: {gauges.cores():.2f} cores; our own lag: {told['our_own_lag']}",
            f"errors: {told['errors'] or 'none'}",
        ]
    )
