"""What routing alone adds to a plain Ray Client connection: no control plane, no placement.

Two clusters are connected on the routed side, one on the plain side; the work is the same, on
the same cluster, in rounds that alternate. `python tests/bench_sdk_routing.py`
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bench_sdk import BATCH, CALLS, PLAIN, ROUNDS, Side
from support.plane import REPOSITORY
from support.ray_cluster import RayCluster, clean_environment, remove_abandoned

ACTOR = """
class A:
    def echo(self, n):
        return n
"""

PLAIN_ACTOR = """
actor = ray.remote(A).remote()
def one(n):
    return ray.get(actor.echo.remote(n))
"""

ROUTED = """
import sys, time, ray
from ray_multicluster_scheduler._ray import ClusterAddress, Connections
addresses = dict(zip(["centos", "mac"], sys.argv[1:]))
connections = Connections(lambda name: ClusterAddress(name, addresses[name]))
mac, centos = connections.get("mac"), connections.get("centos")
def f(n):
    return n
def one(n):
    return ray.get(centos.submit_task(f, (n,), {}, {"num_cpus": 1}))
def many(n):
    return ray.get([centos.submit_task(f, (i,), {}, {"num_cpus": 1}) for i in range(n)])
"""

ROUTED_ACTOR = """
actor = centos.submit_actor(A, (), {}, {"num_cpus": 0})
def one(n):
    return ray.get(actor.echo.remote(n))
"""


def main() -> int:
    remove_abandoned()
    clusters = [RayCluster("centos"), RayCluster("mac")]
    sides: list[Side] = []
    with tempfile.TemporaryDirectory(prefix="multicluster-bench-") as directory:
        try:
            with ThreadPoolExecutor() as threads:
                list(threads.map(RayCluster.start, clusters))
            env = {**clean_environment(Path(directory)), "PYTHONPATH": str(REPOSITORY / "python")}
            centos, mac = (cluster.head_address for cluster in clusters)
            # One after the other: heads on one host must not start server processes at once.
            sides.append(Side(PLAIN, env, f"ray://{centos}"))
            sides.append(Side(ROUTED, env, centos, mac))
            sides.append(Side(PLAIN + ACTOR + PLAIN_ACTOR, env, f"ray://{centos}"))
            sides.append(Side(ROUTED + ACTOR + ROUTED_ACTOR, env, centos, mac))
            tasks, actors = sides[:2], sides[2:]
            for number in range(ROUNDS):
                for what, count, pair in (
                    ("one", CALLS, tasks),
                    ("many", BATCH, tasks),
                    ("one", CALLS, actors),
                ):
                    for side in pair if number % 2 else pair[::-1]:
                        if pair is tasks:
                            side.warm_up()
                        side.measure(what, count)
            report("submit_task + ray.get", "one", *tasks)
            report(f"{BATCH} tasks", "many", *tasks)
            report("actor call + ray.get", "one", *actors)
        finally:
            for side in sides:
                side.close()
            for cluster in clusters:
                cluster.remove()
    return 0


def report(name: str, what: str, plain: Side, routed: Side) -> None:
    ours, theirs = statistics.median(routed.times[what]), statistics.median(plain.times[what])
    print(
        f"{name:22} p50 {ours * 1000:8.2f} ms, plain Ray Client {theirs * 1000:8.2f} ms: "
        f"{ours / theirs:.2f} x"
    )


if __name__ == "__main__":
    os.environ["RAY_AUTH_MODE"] = "disabled"
    sys.exit(main())
