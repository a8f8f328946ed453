"""The overhead of routing over a plain Ray Client connection: no control plane, no placement.

Two clusters are connected on the routed side, one on the plain side; the work is the same, on
the same cluster, in rounds that alternate.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.plane import REPOSITORY
from support.ray_cluster import RayCluster, clean_environment

from .tasks import PLAIN, Side, beside

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


def measure(
    centos: RayCluster, mac: RayCluster, home: Path, rounds: int, calls: int = 50
) -> dict[str, Any]:
    env = {**clean_environment(home), "PYTHONPATH": str(REPOSITORY / "python")}
    addresses = centos.head_address, mac.head_address
    sides: list[Side] = []
    try:
        # One after the other: heads on one host must not start server processes at once.
        sides.append(Side(PLAIN, env, f"ray://{centos.head_address}"))
        sides.append(Side(ROUTED, env, *addresses))
        sides.append(Side(PLAIN + ACTOR + PLAIN_ACTOR, env, f"ray://{centos.head_address}"))
        sides.append(Side(ROUTED + ACTOR + ROUTED_ACTOR, env, *addresses))
        tasks, actors = sides[:2], sides[2:]
        for number in range(rounds):
            for pair in (tasks, actors):
                for side in pair if number % 2 else pair[::-1]:
                    if pair is tasks:
                        side.warm_up()
                    side.measure("one", calls)
    finally:
        for side in sides:
            side.close()
    pairs = {"task": tasks, "actor_call": actors}
    each = {what: [side.times["one"] for side in pair] for what, pair in pairs.items()}
    return {"rounds": rounds, **{what: beside(*times) for what, times in each.items()}}
