"""A program with a Ray of its own, native or not, beside ours; tests/sdk/test_ray_own.py asks."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from typing import Any, Callable

from ray_multicluster_scheduler._ray import ClusterAddress, Connections
from ray_multicluster_scheduler.errors import (
    ActorNameTakenError,
    ClusterConnectionError,
    ForeignHandleError,
    VersionMismatchError,
)
from support.asked import serve

CLUSTERS = json.loads(os.environ["CLUSTERS"])


def describe(name: str) -> ClusterAddress:
    known = CLUSTERS[name]
    return ClusterAddress(
        name, known["head_address"], token=known["token"], incarnation=known["incarnation"]
    )


CONNECTIONS = Connections(describe)


def session() -> str:
    """Which cluster it runs on."""
    import ray

    return ray.get_runtime_context().get_session_name()


def length(value: Any) -> int:
    import ray

    return len(ray.get(value["deep"][0]) if isinstance(value, dict) else value)


def five_megabytes() -> bytes:
    return bytes(5_000_000)


def sleep_long() -> None:
    time.sleep(600)


class Actor:
    def where(self, _value: Any = None) -> str:
        return session()

    def length(self, value: Any) -> int:
        return length(value)


def refused(kind: type[Exception], call: Callable[[], Any]) -> str:
    try:
        result = call()
    except kind as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError(f"no {kind.__name__}, but {result!r}")


def from_a_worker() -> list[str]:
    """Work that a task of the job submits."""
    import ray

    connection = Connections(describe).native("centos")
    ref = connection.submit_task(session, (), {}, {"num_cpus": 0})
    found = [ray.get(ref), ray.get(connection.submit_actor(Actor, (), {}, {}).where.remote())]
    connection.close()
    assert connection.alive(), "a worker is not ours to disconnect"
    return found


def native_and_client() -> None:
    """As a job on centos, which also uses mac."""
    import ray
    from ray.exceptions import RayActorError

    here, there = CLUSTERS["centos"]["incarnation"], CLUSTERS["mac"]["incarnation"]
    # The environment that Ray gives a job's driver, whose workers find the SDK as it does.
    os.environ["RAY_ADDRESS"] = CLUSTERS["centos"]["gcs_address"]
    job = {"runtime_env": {"env_vars": {"PYTHONPATH": os.environ["PYTHONPATH"]}}, "metadata": {}}
    os.environ["RAY_JOB_CONFIG_JSON_ENV_VAR"] = json.dumps(job)
    native = CONNECTIONS.native("centos")
    assert CONNECTIONS.native("centos") is native

    def of_job(function: Any, *args: Any, **options: Any) -> Any:
        return native.submit_task(function, args, {}, {"num_cpus": 0, **options})

    assert ray.get(of_job(session)) == here
    assert ray.get(of_job(from_a_worker)) == [here, here]
    decorated = ray.remote(num_cpus=0)(session)
    assert ray.get([of_job(decorated), of_job(decorated.options(max_retries=0))]) == [here, here]
    actor = native.submit_actor(Actor, (), {}, {"num_cpus": 0, "name": "taken"})
    text = refused(
        ActorNameTakenError, lambda: native.submit_actor(Actor, (), {}, {"name": "taken"})
    )
    assert "'centos'" in text, text
    assert native.ready([of_job(session), of_job(sleep_long)])[1] is False

    mac = CONNECTIONS.get("mac")

    def elsewhere(function: Any, *args: Any) -> Any:
        return mac.submit_task(function, args, {}, {"num_cpus": 0})

    refs = [of_job(session), elsewhere(session)]
    assert ray.get(refs) == [here, there]
    assert ray.get(refs, timeout=60) == [here, there]
    assert ray.wait(refs, num_returns=2, timeout=60) == (refs, [])
    stranger = mac.submit_actor(Actor, (), {}, {"num_cpus": 0})
    assert ray.get([actor.where.remote(), stranger.where.remote()]) == [here, there]

    async def both() -> list[str]:
        return await asyncio.gather(*refs, stranger.where.remote(), actor.where.remote())

    assert asyncio.run(both()) == [here, there, there, here]
    # Calls without a cluster stay with the job.
    assert ray.get(decorated.remote()) == here
    assert ray.get(decorated.options(max_retries=0).remote()) == here
    counted = ray.remote(num_cpus=0)(Actor).remote()
    assert ray.get(counted.where.remote()) == here
    assert "linux_only" in ray.cluster_resources()
    assert ray.get_runtime_context().get_session_name() == here
    assert ray.get(ray.get_actor("taken").where.remote()) == here
    # Values can be passed both ways, handles cannot.
    ours, theirs = of_job(five_megabytes), elsewhere(five_megabytes)
    for value in (ours, {"deep": [ours]}):
        assert ray.get(elsewhere(length, value)) == 5_000_000
    for value in (theirs, {"deep": [theirs]}):
        assert ray.get(of_job(length, value)) == 5_000_000
    assert ray.get(of_job(length, ray.put({"deep": [theirs]}))) == 5_000_000
    for value in (theirs, {"deep": [theirs]}):
        assert ray.get(actor.length.remote(value)) == 5_000_000
    for call in (
        lambda: elsewhere(length, [actor]),
        lambda: actor.length.remote(stranger),
        lambda: actor.length.remote([stranger]),
        lambda: of_job(length, [stranger]),
        lambda: of_job(length, stranger),
        lambda: stranger.where.remote(actor),
    ):
        text = refused(ForeignHandleError, call)
        assert "'mac'" in text, text
    ray.kill(actor)
    assert refused(RayActorError, lambda: [ray.get(actor.where.remote()) for _ in range(1000)])
    CONNECTIONS.close()
    assert not mac.alive()
    assert ray.get(of_job(session)) == here, "the job's driver goes on until it exits"


def init(name: str) -> Any:
    """As users do it, which fails now and then."""
    import ray

    for attempt in range(4):
        try:
            return ray.init(f"ray://{CLUSTERS[name]['head_address']}")
        except ConnectionError:
            if attempt == 3:
                raise
    raise AssertionError


def own_client_first() -> None:
    """The user is connected to centos; then we connect to mac."""
    import ray

    here, there = CLUSTERS["centos"]["incarnation"], CLUSTERS["mac"]["incarnation"]
    context = init("centos")
    where = ray.remote(num_cpus=0)(session)
    before = where.remote()
    assert ray.get(before) == here
    mac = CONNECTIONS.get("mac")
    theirs = mac.submit_task(session, (), {}, {"num_cpus": 0})
    assert ray.get([before, theirs, where.remote(), ray.put(1)]) == [here, there, here, 1]
    assert ray.get(where.options(max_retries=0).remote()) == here
    actor = ray.remote(num_cpus=0)(Actor).remote()
    assert ray.get(actor.where.remote(theirs)) == here
    assert "ray://" in refused(
        ForeignHandleError, lambda: mac.submit_task(length, ([actor],), {}, {})
    )
    context.disconnect()
    assert ray.get(theirs) == there
    assert ray.get(mac.submit_task(session, (), {}, {"num_cpus": 0})) == there
    text = refused(ClusterConnectionError, lambda: ray.get(before))
    assert CLUSTERS["centos"]["head_address"] in text, text
    # A cluster in place of the one that is gone.
    assert ray.get(where.remote()) == there


def own_client_later() -> None:
    """The other way round, to the end; and then a driver of its own."""
    import ray

    here, there = CLUSTERS["centos"]["incarnation"], CLUSTERS["mac"]["incarnation"]
    mac = CONNECTIONS.get("mac")
    theirs = mac.submit_task(session, (), {}, {"num_cpus": 0})
    where = ray.remote(num_cpus=0)(session)
    assert ray.get([where.remote(), theirs]) == [there, there]
    init("centos")
    ours = where.remote()
    assert ray.get([ours, theirs]) == [here, there]
    assert refused(RuntimeError, lambda: ray.init(f"ray://{CLUSTERS['mac']['head_address']}"))
    ray.shutdown()
    assert not mac.alive()
    for ref in (ours, theirs):
        assert refused(ClusterConnectionError, lambda r=ref: ray.get(r))
    assert refused(ClusterConnectionError, where.remote)
    ray.init(address=CLUSTERS["centos"]["gcs_address"])
    assert ray.get(where.remote()) == here
    assert refused(ClusterConnectionError, lambda: ray.get(theirs))
    ray.shutdown()
    assert refused(ClusterConnectionError, where.remote)


def mismatch() -> str:
    import ray

    wrong = [
        ClusterAddress("old", "127.0.0.1:1", ray_version="2.9.3"),
        ClusterAddress("snake", "127.0.0.1:1", ray_version=ray.__version__, python_version="3.7.9"),
    ]
    texts = []
    for address in wrong:
        connections = Connections(lambda _name, a=address: a)
        texts.append(refused(VersionMismatchError, lambda c=connections: c.get("it")))
    return "\n".join(texts)


def ray_says_mismatch() -> str:
    """The cluster's version was not known before."""
    from ray_multicluster_scheduler._ray import opening

    known, opening.ray = opening.ray, type("other", (), {"__version__": "2.0.0"})
    try:
        return refused(VersionMismatchError, lambda: Connections(describe).get("mac"))
    finally:
        opening.ray = known


def unreachable() -> dict[str, Any]:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = ClusterAddress("gone", f"127.0.0.1:{nobody.getsockname()[1]}")
        began = time.monotonic()
        text = refused(ClusterConnectionError, lambda: Connections(lambda _: address).get("gone"))
        return {"text": text, "seconds": time.monotonic() - began}


def unsupported() -> str:
    """A Ray that lacks something this package needs."""
    import ray.util.client.worker

    from ray_multicluster_scheduler.errors import ConfigurationError

    ping = ray.util.client.worker.Worker.ping_server
    del ray.util.client.worker.Worker.ping_server
    try:
        return refused(ConfigurationError, lambda: Connections(describe).get("mac"))
    finally:
        ray.util.client.worker.Worker.ping_server = ping


if __name__ == "__main__":
    serve(globals())
