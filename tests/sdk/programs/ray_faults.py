"""Uses two clusters while one of them dies or hangs; tests/sdk/test_ray_faults.py asks."""

from __future__ import annotations

import asyncio
import json
import os
import time
from typing import Any

from ray_multicluster_scheduler._ray import ClusterAddress, Connections
from support.asked import serve

CLUSTERS = json.loads(os.environ["CLUSTERS"])
KEPT: dict[str, Any] = {}


def describe(name: str) -> ClusterAddress:
    known = CLUSTERS[name]
    return ClusterAddress(
        name, known["head_address"], token=known["token"], incarnation=known["incarnation"]
    )


CONNECTIONS = Connections(describe)


def on(cluster: str, function: Any, *args: Any) -> Any:
    return CONNECTIONS.get(cluster).submit_task(function, args, {}, {"num_cpus": 0})


def echo(value: Any) -> Any:
    return value


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


class Actor:
    def echo(self, value: Any) -> Any:
        return value


def prepare(name: str) -> None:
    """Creates refs and handles to be used after the fault, and a task that does not end."""
    import ray

    KEPT["never"] = on(name, sleep, 600)
    KEPT["ref"] = on(name, echo, 1)
    KEPT["actor"] = CONNECTIONS.get(name).submit_actor(Actor, (), {}, {"num_cpus": 0})
    KEPT["other"] = [on(other, echo, other) for other in CLUSTERS if other != name]
    ray.get([KEPT["ref"], KEPT["actor"].echo.remote(1), *KEPT["other"]])


def works(name: str, value: int) -> bool:
    """With the present connection."""
    import ray

    return ray.get(on(name, echo, value), timeout=60) == value


def takes_long(name: str, seconds: float) -> float:
    import ray

    return ray.get(on(name, sleep, seconds))


def use(name: str, how: str) -> dict[str, Any]:
    """How one call to the cluster ends, and after how long."""
    import ray

    connection = CONNECTIONS._open[name]
    calls = {
        "get": lambda: ray.get(KEPT["never"]),
        "mixed get": lambda: ray.get([*KEPT["other"], KEPT["never"]]),
        "get what is there": lambda: ray.get(KEPT["ref"]),
        "await": lambda: asyncio.run(_awaited(KEPT["never"])),
        "actor call": lambda: ray.get(KEPT["actor"].echo.remote(1)),
        "kill": lambda: ray.kill(KEPT["actor"]),
        "submit": lambda: ray.get(connection.submit_task(echo, (1,), {}, {})),
        "submit again and again": lambda: _again(connection),
        "new function": lambda: connection.submit_task(lambda: 1, (), {}, {}),
        "new actor": lambda: connection.submit_actor(Actor, (), {}, {}),
        "ready": lambda: connection.ready([KEPT["ref"]]),
        "put": lambda: connection.put(1),
        "move": lambda: on("centos", echo, KEPT["never"]),
        "connect": lambda: Connections(describe).get(name),
    }
    began = time.monotonic()
    try:
        outcome = repr(calls[how]())
    except Exception as error:
        outcome = f"{type(error).__name__}: {error}"
    return {"outcome": outcome, "seconds": time.monotonic() - began}


def _again(connection: Any) -> None:
    """Sending alone is no sign of life."""
    while True:
        connection.submit_task(echo, (1,), {}, {})
        time.sleep(0.3)


async def _awaited(ref: Any) -> Any:
    return await ref


def waits(name: str) -> dict[str, Any]:
    """`ray.wait` counts lost refs as ready, so that a loop ends."""
    import ray

    began = time.monotonic()
    ready, _ = ray.wait([*KEPT["other"], KEPT["never"]], num_returns=2)
    return {"ready": len(ready), "seconds": time.monotonic() - began}


def timeout_holds(seconds: float) -> dict[str, Any]:
    import ray
    from ray.exceptions import GetTimeoutError

    began = time.monotonic()
    try:
        ray.get(KEPT["never"], timeout=seconds)
    except GetTimeoutError:
        return {"seconds": time.monotonic() - began}
    raise AssertionError("no GetTimeoutError")


def restarted(name: str, facts: dict[str, str]) -> None:
    CLUSTERS[name] = facts


def close() -> float:
    began = time.monotonic()
    CONNECTIONS.close()
    return time.monotonic() - began


if __name__ == "__main__":
    serve(globals())
