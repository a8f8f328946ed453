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

ACTOR_CALLS = """
class A:
    def echo(self, n):
        return n
actor = start(A)
def actor_call(n):
    return ray.get(actor.echo.remote(n))
"""

PLAIN_START = """
def start(cls):
    return ray.remote(cls).remote()
"""

ROUTED = """
import sys, time, ray
from ray_multicluster_scheduler._ray import ClusterAddress, Connections
centos, mac, token = sys.argv[1:]
known = [ClusterAddress("centos", centos), ClusterAddress("mac", mac, token or None)]
connections = Connections({one.name: one for one in known}.__getitem__)
mac, centos = connections.get("mac"), connections.get("centos")
def f(n):
    return n
def one(n):
    return ray.get(centos.submit_task(f, (n,), {}, {"num_cpus": 1}))
def many(n):
    return ray.get([centos.submit_task(f, (i,), {}, {"num_cpus": 1}) for i in range(n)])
def start(cls):
    return centos.submit_actor(cls, (), {}, {"num_cpus": 0})
"""


def measure(
    centos: RayCluster, mac: RayCluster, home: Path, rounds: int, calls: int = 50
) -> dict[str, Any]:
    env = {**clean_environment(home), "PYTHONPATH": str(REPOSITORY / "python")}
    known = centos.head_address, mac.head_address, mac.token or ""
    sides: list[Side] = []
    try:
        # One after the other: heads on one host must not start server processes at once.
        plain = PLAIN + PLAIN_START + ACTOR_CALLS
        sides.append(Side(plain, env, f"ray://{centos.head_address}"))
        sides.append(Side(ROUTED + ACTOR_CALLS, env, *known))
        for number in range(rounds):
            for side in sides if number % 2 else sides[::-1]:
                side.warm_up()
                side.measure("one", calls)
                side.measure("actor_call", calls)
    finally:
        for side in sides:
            side.close()
    kinds = {"task": "one", "actor_call": "actor_call"}
    figures = {kind: beside(*(side.times[what] for side in sides)) for kind, what in kinds.items()}
    return {"rounds": rounds, **figures}
