"""Sustained submissions, polls, logs and watchers: are all answered, and does usage grow?

`make load` runs two minutes of it on an optimised binary; here it is a few seconds. Latencies are
not asserted, because they depend on the machine: they are in the table and in
target/bench/load.json.

| variable | |
| --- | --- |
| `LOAD_SECONDS` | how long jobs are submitted |
| `LOAD_RATE` | how many per second; who asks and follows comes in proportion |
| `LOAD_WATCHERS` | how many watch all events all the time |
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

import pytest

from support.plane import Plane
from support.pool import Pool

from .fakes import fake_clusters
from .gauges import Bound, Gauges
from .load import Load, Shape
from .report import report
from .wire import Wire

SECONDS = float(os.environ.get("LOAD_SECONDS", "12"))
RATE = float(os.environ.get("LOAD_RATE", "10"))
WATCHERS = int(os.environ.get("LOAD_WATCHERS", "5"))
# So few ended jobs are kept that the bound is reached in the first third.
RETAINED = max(200, int(RATE * SECONDS / 6))

LONG = {
    "rss_mib": Bound(0.10, 8),
    "open_files": Bound(0.10, 40),
    "threads": Bound(0.2, 8),
    "state_mib": Bound(0.10, 8),
}
# In a few seconds caches fill and pools open; only runaway growth can be detected.
SHORT = {
    "rss_mib": Bound(0.5, 32),
    "open_files": Bound(0.5, 100),
    "threads": Bound(0, 20),
}


@pytest.mark.timeout(240 + 3 * SECONDS)
def test_under_load_everybody_is_answered_every_job_ends_and_nothing_grows(tmp_path: Path) -> None:
    with fake_clusters(4, cpus=64) as clusters:
        pool = Pool([], {"retain_finished": RETAINED, "poll_interval": "2s"})
        pool.clusters = clusters
        plane = Plane(tmp_path / "plane", pool)
        try:
            plane.start()
            plane.wait_healthy()
            load, gauges = asyncio.run(under_load(plane))
        finally:
            plane.close()
    print("\n" + report(load, gauges))
    assert not load.meter.errors()
    # Not all: a busy machine sends them late.
    assert len(load.accepted) >= RATE * SECONDS / 2
    missing = sorted(load.accepted - load.ended.keys())
    assert not missing, f"{len(missing)} jobs have not ended: {missing[:10]}"
    failed = {job for job, state in load.ended.items() if state == "failed"}
    assert failed == {job for job in load.accepted if int(job.rpartition("-")[2]) % 50 == 7}
    grown = gauges.grown(LONG if SECONDS >= 60 else SHORT)
    assert not grown, grown


async def under_load(plane: Plane) -> tuple[Load, Gauges]:
    wire = Wire(plane.port)
    load, gauges = Load(wire, Shape(SECONDS, RATE, WATCHERS)), Gauges(plane.pid, plane.state)
    sampling = asyncio.create_task(gauges.keep_sampling())
    try:
        await load.run()
    finally:
        sampling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sampling
        wire.close()
    return load, gauges
