"""`make bench`: what the SDK adds to a plain Ray Client connection, side by side in one run.

Two real clusters and a control plane above them. Both sides run the same function on the same
cluster: one over plain Ray Client, the other as tasks that prefer it. Rounds alternate, so that a
busy moment of the machine hits both. Each side has a process of its own, which answers to lines
on its standard input.

Ray keeps as many idle workers as the cluster has CPUs, and each side has its own: those of the
side that ran last. To start others takes longer than a thousand tasks. So each side warms up
before it is measured.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ["RAY_AUTH_MODE"] = "disabled"

from support.plane import REPOSITORY, Plane
from support.pool import Pool
from support.program import environment
from support.ray_cluster import RayCluster, remove_abandoned
from support.waiting import wait_until

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "12"))
CALLS = 50
BATCH = 1000
WARM_UP = 100
TARGET = REPOSITORY / "target" / "bench" / "sdk.json"

PLAIN = """
import sys, time, ray
ray.init(sys.argv[1])
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
    if what == "one":
        for n in range(int(count)):
            began = time.perf_counter()
            assert one(n) == n
            times.append(time.perf_counter() - began)
    else:
        began = time.perf_counter()
        assert many(int(count)) == list(range(int(count)))
        times.append(time.perf_counter() - began)
    print(*times, flush=True)
"""


class Side:
    """One of the two, in a process of its own."""

    def __init__(self, code: str, env: dict[str, str], *arguments: str) -> None:
        self.times: dict[str, list[float]] = {"one": [], "many": []}
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


def main() -> int:
    remove_abandoned()
    clusters = [RayCluster("centos"), RayCluster("mac")]
    with tempfile.TemporaryDirectory(prefix="multicluster-bench-") as directory:
        plane = Plane(Path(directory), Pool(clusters))
        sides: list[Side] = []
        try:
            with ThreadPoolExecutor() as threads:
                list(threads.map(RayCluster.start, clusters))
            plane.start()
            plane.wait_healthy()
            env = environment(plane, Path(directory))
            sides.append(Side(PLAIN, env, f"ray://{clusters[0].head_address}"))
            sides.append(Side(ROUTED, env))
            for number in range(ROUNDS):
                for what, count in (("one", CALLS), ("many", BATCH)):
                    for side in sides if number % 2 else sides[::-1]:
                        side.warm_up()
                        since = time.time() * 1000
                        wait_until(
                            lambda since=since: is_idle(plane, since),
                            "the cluster is seen idle",
                            60,
                        )
                        side.measure(what, count)
            report(*sides)
        finally:
            for side in sides:
                side.close()
            plane.close()
            for cluster in clusters:
                cluster.remove()
    return 0


def is_idle(plane: Plane, since: float) -> bool:
    """What ran before is not in what the control plane knows of the cluster any more: it tells
    threshold and room from what Ray reports, some seconds late.
    """
    cluster = plane.cluster("centos")
    is_fresh = cluster["snapshot_at"] > since
    return is_fresh and not cluster["live"] and not cluster["used"].get("CPU")


def report(plain: Side, routed: Side) -> None:
    found = {}
    for what, name in (("one", "submit_task + ray.get"), ("many", f"{BATCH} tasks")):
        ours, theirs = statistics.median(routed.times[what]), statistics.median(plain.times[what])
        found[what] = {"sdk_p50_s": ours, "plain_p50_s": theirs, "ratio": ours / theirs}
        print(
            f"{name:22} p50 {ours * 1000:8.2f} ms, plain Ray Client {theirs * 1000:8.2f} ms: "
            f"{ours / theirs:.2f} x"
        )
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(json.dumps({"rounds": ROUNDS, "calls": CALLS, **found}, indent=2))


if __name__ == "__main__":
    sys.exit(main())
