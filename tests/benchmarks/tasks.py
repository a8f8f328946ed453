"""Tasks through the SDK and over a plain Ray Client connection, in one run.

Both sides run the same function on the same cluster: one over plain Ray Client, the other as
tasks that prefer it. Rounds alternate, so that a busy moment of the machine hits both. Each side
has a process of its own, which answers to lines on its standard input.

Ray keeps as many idle workers as the cluster has CPUs, and each side has its own: those of the side
that ran last. Starting others takes longer than a thousand tasks. So each side warms up before it
is measured.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from support.plane import Plane
from support.program import environment
from support.ray_cluster import RayCluster
from support.waiting import wait_until

WARM_UP = 100

PLAIN = """
import sys, time, ray
for last in (False, False, True):
    try:
        ray.init(sys.argv[1])
        break
    except (ConnectionError, RuntimeError):  # Ray fails to start a client server now and then.
        if last:
            raise
@ray.remote
def f(n):
    return n
def one(n):
    return ray.get(f.remote(n))
def many(n):
    return ray.get([f.remote(i) for i in range(n)])
"""

ROUTED = """
import sys, time, ray
import ray_multicluster_scheduler as rms
rms.initialize_scheduler_environment()
def f(n):
    return n
def one(n):
    return ray.get(rms.submit_task(f, (n,), preferred_cluster="centos")[1])
def many(n):
    submitted = rms.submit_tasks(f, range(n), preferred_cluster="centos")
    return ray.get([ref for _, ref in submitted])
"""

LOOP = """
one(0), many(10), print("ready", flush=True)
for line in sys.stdin:
    what, count = line.split()
    times = []
    if what == "many":
        began = time.perf_counter()
        assert many(int(count)) == list(range(int(count)))
        times.append(time.perf_counter() - began)
    else:
        one_of_them = globals()[what]
        for n in range(int(count)):
            began = time.perf_counter()
            assert one_of_them(n) == n
            times.append(time.perf_counter() - began)
    print(*times, flush=True)
"""


class Side:
    """One of the two sides, in its own process."""

    def __init__(self, code: str, env: dict[str, str], *arguments: str) -> None:
        self.times: dict[str, list[float]] = defaultdict(list)
        self._process = subprocess.Popen(
            [sys.executable, "-c", code + LOOP, *arguments],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        while self._line().strip() != "ready":
            pass

    def measure(self, what: str, count: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what} {count}\n")
        self._process.stdin.flush()
        self.times[what] += [float(word) for word in self._line().split()]

    def warm_up(self) -> None:
        self.measure("many", WARM_UP)
        self.times["many"].pop()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the program ended"
        return line


def measure(
    cluster: RayCluster, plane: Plane, home: Path, rounds: int, calls: int = 50, batch: int = 1000
) -> dict[str, Any]:
    """`calls` single tasks and one batch of `batch` tasks in each round."""
    env = environment(plane, home)
    sides: list[Side] = []
    try:
        sides.append(Side(PLAIN, env, f"ray://{cluster.head_address}"))
        sides.append(Side(ROUTED, env))
        for number in range(rounds):
            for what, count in (("one", calls), ("many", batch)):
                for side in sides if number % 2 else sides[::-1]:
                    side.warm_up()
                    since = time.time() * 1000
                    wait_until(
                        lambda since=since: is_idle(plane, since), "the cluster is seen idle", 60
                    )
                    side.measure(what, count)
    finally:
        for side in sides:
            side.close()
    plain, routed = sides
    return {
        "rounds": rounds,
        "calls": calls,
        "batch": batch,
        **{what: beside(plain.times[what], routed.times[what]) for what in ("one", "many")},
    }


def is_idle(plane: Plane, since: float) -> bool:
    """Does the control plane know that earlier work is over? Ray reports it seconds late."""
    cluster = plane.cluster("centos")
    is_fresh = cluster["snapshot_at"] > since
    return is_fresh and not cluster["live"] and not cluster["used"].get("CPU")


def beside(plain: list[float], routed: list[float]) -> dict[str, float]:
    ours, theirs = statistics.median(routed), statistics.median(plain)
    return {"sdk_p50_s": ours, "plain_p50_s": theirs, "ratio": ours / theirs}
