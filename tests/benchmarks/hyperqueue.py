"""Accepting work in batches, compared with HyperQueue: the fastest scheduler we know for one
laptop.

Both get the same number of commands in one call from Python, and neither has a worker that could
start them. The difference: HyperQueue keeps them in memory, the control plane on disk.
"""

from __future__ import annotations

import contextlib
import io
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hyperqueue import Job, LocalCluster

from ray_multicluster_scheduler._plane.client import ControlPlane
from support.plane import Plane
from support.pool import Pool

# Nothing listens there, so everything stays queued.
NOWHERE = {"name": "nowhere", "head_address": "127.0.0.1:1", "dashboard": "http://127.0.0.1:1"}


def measure(rounds: int, batch: int = 2000) -> dict[str, Any]:
    times: dict[str, list[float]] = {"hyperqueue": [], "plane": []}
    with tempfile.TemporaryDirectory(prefix="multicluster-bench-") as directory:
        pool = Pool([], {"max_queue": 10_000_000})
        pool.clusters = [NOWHERE]
        plane = Plane(Path(directory), pool)
        try:
            client = ControlPlane(plane.start().address)
            # HyperQueue prints a table of what it started.
            with contextlib.redirect_stdout(io.StringIO()), LocalCluster() as other:
                submit = other.client().submit
                for n in range(rounds + 1):
                    ours = [{"entrypoint": f"true {n} {i}"} for i in range(batch)]
                    theirs = Job()
                    for i in range(batch):
                        theirs.program(["true", str(n), str(i)])
                    taken = {
                        "plane": timed(
                            lambda ours=ours: client.post("/v1/jobs/batch", {"jobs": ours})
                        ),
                        "hyperqueue": timed(lambda theirs=theirs: submit(theirs)),
                    }
                    for name in times if n else ():  # The first round warms both up.
                        times[name].append(taken[name])
        finally:
            plane.close()
    rates = {f"{name}_per_s": batch / statistics.median(each) for name, each in times.items()}
    return {
        "rounds": rounds,
        "batch": batch,
        **rates,
        "ratio": rates["plane_per_s"] / rates["hyperqueue_per_s"],
    }


def timed(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
