"""Whether growth is detected, on made-up samples."""

from __future__ import annotations

import os
from pathlib import Path

from .gauges import Bound, Gauges, Sample
from .meter import Meter, milliseconds


def sampled(rss: list[float]) -> Gauges:
    gauges = Gauges(os.getpid(), Path("."))
    gauges.samples = [Sample(float(at), mib, 10, 3, 0.0, 1.0) for at, mib in enumerate(rss)]
    return gauges


def test_what_warms_up_and_wobbles_does_not_grow_and_what_leaks_does() -> None:
    bounds = {"rss_mib": Bound(0.1, 8), "open_files": Bound(0, 1)}
    warm = [min(float(n), 40.0) + n % 3 for n in range(120)]
    assert sampled(warm).grown(bounds) == []
    leaks = sampled([100.0 + n for n in range(120)])
    assert leaks.grown(bounds) == ["rss_mib grew from 159.5 to 199.5"]


def test_a_process_and_its_directory_are_measured(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"x" * (3 << 20))
    gauges = Gauges(os.getpid(), tmp_path)
    gauges.sample()
    (sample,) = gauges.samples
    assert sample.state_mib == 3
    assert sample.rss_mib > 1
    assert sample.threads >= 1
    assert sample.open_files >= 3


def test_percentiles_and_answers_that_are_no_yes() -> None:
    taken = milliseconds([n / 1000 for n in range(1, 101)])
    assert taken == {"p50_ms": 51, "p95_ms": 96, "p99_ms": 100, "max_ms": 100}
    meter = Meter()
    for status in (200, 201, 503, "TimeoutError"):
        meter.note("submit", 0.0, status)
    assert meter.errors() == {"submit": {"503": 1, "TimeoutError": 1}}
