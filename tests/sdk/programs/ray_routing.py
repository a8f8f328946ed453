"""Two clusters behind the plain `ray` functions; tests/sdk/test_ray_routing.py asks."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable

from ray_multicluster_scheduler import cluster_context
from ray_multicluster_scheduler._ray import ClusterAddress, Connections
from ray_multicluster_scheduler.errors import ActorNameTakenError, ForeignHandleError
from support.asked import serve

assert "ray" not in sys.modules

import ray  # noqa: E402
from ray.exceptions import GetTimeoutError, RayTaskError  # noqa: E402
from ray.util import ActorPool  # noqa: E402

CLUSTERS = json.loads(os.environ["CLUSTERS"])
#: More by hand, because each actor is a process to start: SDK_ACTORS=50 SDK_ROUNDS=20.
ACTORS = int(os.environ.get("SDK_ACTORS", "24"))
ROUNDS = int(os.environ.get("SDK_ROUNDS", "1"))


def describe(name: str) -> ClusterAddress:
    known = CLUSTERS[name]
    return ClusterAddress(
        name,
        known["head_address"],
        token=known["token"],
        runtime_env={"env_vars": {"CLUSTER": name}},
        ray_version=known["ray_version"],
        incarnation=known["incarnation"],
    )


CONNECTIONS = Connections(describe)


def on(cluster: str, function: Any, *args: Any, **options: Any) -> Any:
    return CONNECTIONS.get(cluster).submit_task(function, args, {}, options)


def actor_on(cluster: str, actor_class: Any, *args: Any, **options: Any) -> Any:
    options = {"num_cpus": 0, **options}
    return CONNECTIONS.get(cluster).submit_actor(actor_class, args, {}, options)


def place(value: Any = None) -> tuple[str, Any]:
    return os.environ["CLUSTER"], value


def sleep_long() -> None:
    time.sleep(600)


class Counter:
    def __init__(self, name: str = "") -> None:
        self.name = name
        self.count = 0

    def add(self, value: Any = 1) -> tuple[str, str, Any]:
        self.count += 1
        return os.environ["CLUSTER"], self.name, value

    def counted(self) -> int:
        return self.count


def refused(kind: type[Exception], call: Callable[[], Any]) -> str:
    try:
        result = call()
    except kind as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError(f"no {kind.__name__}, but {result!r}")


def connect() -> list[str]:
    """In parallel, and once for all concurrent callers."""
    with ThreadPoolExecutor() as threads:
        opened = list(threads.map(CONNECTIONS.get, ["centos", "mac"] * 4))
    assert len(set(map(id, opened))) == 2
    assert all(connection.alive() for connection in opened)
    return [connection.job_id for connection in opened[:2]]


def mixed_gets_and_waits() -> None:
    a, b = on("centos", place, 1), on("mac", place, 2)
    assert ray.get([a, b, a]) == [("centos", 1), ("mac", 2), ("centos", 1)]
    assert ray.get(b, timeout=60) == ("mac", 2)
    assert ray.get([]) == []

    never = [on(name, sleep_long, num_cpus=0) for name in CLUSTERS]
    refs = [never[0], a, never[1], b]
    assert ray.wait(refs, num_returns=2) == ([a, b], never)
    # From whichever cluster answers first.
    assert ray.wait(refs) in (([a], [never[0], *never[1:], b]), ([b], [never[0], a, never[1]]))
    assert ray.wait(refs, num_returns=3, timeout=0.5) == ([a, b], never)
    assert ray.wait(never, timeout=0) == ([], never)
    assert ray.wait([a, b], num_returns=2, timeout=0) == ([a, b], [])
    assert refused(GetTimeoutError, lambda: ray.get(refs, timeout=0.5))
    assert refused(GetTimeoutError, lambda: ray.get(never[1], timeout=0.5))
    assert refused(ValueError, lambda: ray.wait([a], num_returns=2))
    assert refused(TypeError, lambda: ray.wait(a))
    assert CONNECTIONS.get("mac").ready([b, never[1], b]) == [True, False, True]
    for ref in never:
        ray.cancel(ref, force=True)
    for ref in never:
        assert refused(Exception, lambda r=ref: ray.get(r, timeout=60))


def awaits_and_futures() -> None:
    refs = [on("centos", place, 1), on("mac", place, 2)]
    actor = actor_on("mac", Counter)

    async def both() -> list[Any]:
        return await asyncio.gather(*refs, actor.add.remote(3))

    assert asyncio.run(both()) == [("centos", 1), ("mac", 2), ("mac", "", 3)]
    assert [ref.future().result(60) for ref in refs] == [("centos", 1), ("mac", 2)]

    async def fails() -> None:
        await on("mac", fail)

    assert "on purpose" in refused(RayTaskError, lambda: asyncio.run(fails()))


def fail() -> None:
    raise ZeroDivisionError("on purpose")


def lose_something() -> None:
    raise ConnectionError("of the task")


def errors_stay_what_they_are() -> None:
    good = on("centos", place)
    for name in CLUSTERS:
        bad = on(name, fail)
        assert "on purpose" in refused(ZeroDivisionError, lambda b=bad: ray.get([good, b]))
        assert refused(RayTaskError, lambda b=bad: ray.get(b, timeout=60))
        # An error of the task, not of the cluster: the connection still works.
        lost = on(name, lose_something)
        assert "of the task" in refused(RayTaskError, lambda r=lost: ray.get([good, r]))
        assert CONNECTIONS.get(name).alive()
    # Too many arguments are reported at the call.
    assert "too many" in refused(TypeError, lambda: on("mac", place, 1, 2))


def put_inside() -> list[Any]:
    return [ray.put(os.environ["CLUSTER"])]


def refs_inside_of_values() -> None:
    found = ray.get([on("mac", put_inside), on("centos", put_inside)])
    assert ray.get([found[0][0], found[1][0]]) == ["mac", "centos"]

    async def fetched() -> Any:
        return await on("mac", put_inside)

    ref = asyncio.run(fetched())[0]
    assert ray.get([ref, found[1][0]]) == ["mac", "centos"]

    @ray.remote(num_cpus=0)
    class Keeper:
        def itself(self) -> Any:
            return [ray.get_runtime_context().current_actor]

        def where(self) -> str:
            return os.environ["CLUSTER"]

    # A handle from within a value, of which only the id is known here.
    keepers = {name: actor_on(name, Keeper) for name in CLUSTERS}
    for name, keeper in keepers.items():
        (handle,) = ray.get(keeper.itself.remote())
        assert ray.get(handle.where.remote()) == name


def length(value: Any) -> int:
    return len(ray.get(value["deep"][0]) if isinstance(value, dict) else value)


def foreign_refs_are_moved() -> None:
    a = on("centos", place, 1)
    assert ray.get(on("mac", place, a)) == ("mac", ("centos", 1))
    actor = actor_on("mac", Counter)
    assert ray.get(actor.add.remote(a)) == ("mac", "", ("centos", 1))
    # Larger than Ray sends along with a call, at any depth, and in a put.
    big = on("centos", lambda: bytes(5_000_000))
    assert ray.get(on("mac", length, big)) == 5_000_000
    assert ray.get(on("mac", length, {"deep": [big]})) == 5_000_000
    assert len(big._moved) == 1
    with cluster_context("mac"):
        held = ray.put({"deep": [big]})
    assert ray.get(on("mac", length, held)) == 5_000_000
    # In the closure of a function.
    assert ray.get(on("mac", lambda: length({"deep": [big]}))) == 5_000_000
    # From a task that fails, the error.
    assert "on purpose" in refused(ZeroDivisionError, lambda: on("mac", place, on("centos", fail)))


def foreign_handles_are_refused() -> None:
    here, there = actor_on("centos", Counter), actor_on("mac", Counter)
    for call in (
        lambda: on("mac", place, {"deep": [here]}),
        lambda: there.add.remote(here),
        lambda: actor_on("mac", Counter, here),
        lambda: on("mac", lambda: here),
        lambda: on("mac", place, here.add),
    ):
        text = refused(ForeignHandleError, call)
        assert "'centos'" in text, text
        assert "'mac'" in text, text
    assert ray.get(on("centos", lambda actor: ray.get(actor.add.remote(5)), here))[2] == 5
    assert ray.get([here.counted.remote(), there.counted.remote()]) == [1, 0]


def many_actors_from_many_threads() -> int:
    """Every answer comes from the actor that was called, whichever cluster it is on."""

    def one_thread(number: int) -> int:
        # This thread's share, on one cluster and the other in turn.
        wanted = [
            (["centos", "mac"][index % 2], f"{number}-{index}")
            for index in range(ACTORS)
            if index // 2 % 8 == number
        ]
        mine = [(cluster, name, actor_on(cluster, Counter, name)) for cluster, name in wanted]
        right = 0
        for turn in range(10):
            refs = [actor.add.remote((number, turn)) for _, _, actor in mine]
            expected = [(cluster, name, (number, turn)) for cluster, name, _ in mine]
            assert ray.get(refs) == expected
            ready, rest = ray.wait(refs, num_returns=len(refs), timeout=60)
            assert (ready, rest) == (refs, [])
            right += len(refs)
        for _, _, actor in mine:
            ray.kill(actor)
        return right

    total = 0
    for _ in range(ROUNDS):
        with ThreadPoolExecutor(8) as threads:
            right = sum(threads.map(one_thread, range(8)))
        assert right == ACTORS * 10
        total += right
        print(f"{total} right answers", file=sys.stderr, flush=True)
    return total


def plain_functions_find_their_cluster() -> None:
    @ray.remote(num_cpus=0)
    def remote_place(value: Any = None) -> Any:
        return place(value)

    @ray.remote(num_cpus=0)
    class RemoteCounter(Counter):
        pass

    first = ray.get(remote_place.remote())[0]
    other = "mac" if first == "centos" else "centos"
    # On the cluster of its refs, of its handles, and of the thread.
    assert ray.get(remote_place.remote(on(other, place, 1))) == (other, (other, 1))
    there = actor_on(other, Counter)
    asks = ray.remote(num_cpus=0)(lambda actor: ray.get(actor.add.remote()))
    assert ray.get(asks.remote(there))[0] == other
    with cluster_context(other):
        assert ray.get(remote_place.options(max_retries=0).remote())[0] == other
        counter = RemoteCounter.options(max_restarts=0).remote("it")
        assert ray.get(ray.put("x")) == "x"
    assert ray.get(counter.add.remote())[:2] == (other, "it")
    pool = ActorPool([there, counter, actor_on(first, Counter)])
    found = list(pool.map(lambda actor, value: actor.add.remote(value), range(20)))
    assert [value for _, _, value in found] == list(range(20))
    assert {name for name, _, _ in found} == set(CLUSTERS)


def names_of_actors() -> None:
    held = actor_on("centos", Counter, name="only")
    text = refused(ActorNameTakenError, lambda: actor_on("centos", Counter, name="only"))
    assert "'only'" in text, text
    assert "'centos'" in text, text
    # A name belongs to one cluster, and so does an actor without one.
    assert ray.get(actor_on("centos", Counter).add.remote())[0] == "centos"
    assert ray.get(actor_on("centos", Counter).add.remote())[0] == "centos"
    assert ray.get(ray.get_actor("only").add.remote())[0] == "centos"
    twin = actor_on("mac", Counter, name="only")
    assert "several clusters" in refused(ValueError, lambda: ray.get_actor("only"))
    with cluster_context("mac"):
        assert ray.get(ray.get_actor("only").add.remote())[0] == "mac"
    assert refused(ValueError, lambda: ray.get_actor("nobody"))
    ray.kill(twin)
    assert refused(Exception, lambda: ray.get(twin.add.remote(), timeout=60))
    assert ray.get(held.add.remote())[0] == "centos"


def options_reach_ray() -> None:
    @ray.remote(num_cpus=2, num_returns=2)
    def two() -> tuple[Any, Any]:
        return ray.get_runtime_context().get_assigned_resources(), 2

    used, number = on("mac", two)
    assert ray.get([used, number]) == [{"CPU": 2.0}, 2]
    used, _ = on("mac", two, num_cpus=1)
    assert ray.get(used) == {"CPU": 1.0}
    wrapped = two.options(num_cpus=0, resources={"mac_only": 1})
    used, _ = on("mac", wrapped)
    assert ray.get(used) == {"mac_only": 1.0}
    used, _ = on("mac", wrapped, num_cpus=1)
    assert ray.get(used) == {"CPU": 1.0, "mac_only": 1.0}

    @ray.remote(concurrency_groups={"io": 2})
    class Grouped:
        @ray.method(concurrency_group="io", num_returns=2)
        def pair(self) -> tuple[int, int]:
            return 1, 2

    for grouped in (Grouped, Grouped.options(num_cpus=0)):
        assert ray.get(actor_on("mac", grouped).pair.remote()) == [1, 2]
    assert "takes a class" in refused(Exception, lambda: actor_on("mac", place))
    assert "takes a function" in refused(Exception, lambda: on("mac", Counter))
    assert "lambda" in refused(Exception, lambda: on("mac", time.sleep, 1))
    assert refused(ValueError, lambda: on("mac", place, no_such_option=1))


def functions_are_let_go() -> int:
    """Lambdas change all the time: the number of kept ones is bounded."""
    from ray_multicluster_scheduler._ray import client

    client.STUBS = 5
    refs = [on("mac", lambda n=n: n) for n in range(20)]
    assert ray.get(refs) == list(range(20))
    client.STUBS = 512
    gc.collect()
    return len(CONNECTIONS.get("mac")._stubs)


def colliding_ids() -> list[str]:
    """The next connection at first gets the job id of a present one."""
    from ray_multicluster_scheduler._ray import internals

    used = CONNECTIONS.get("centos").job_id
    ask, tampered = internals.session, []

    def session(worker: Any, timeout: float) -> tuple[str, str | None]:
        job_id, name = ask(worker, timeout)
        if not tampered:
            tampered.append(worker)
            return used, name
        return job_id, name

    internals.session = session
    others = Connections(describe)
    try:
        again = others.get("mac")
    finally:
        internals.session = ask
    assert again.job_id not in {used, CONNECTIONS.get("mac").job_id}
    assert again.worker is not tampered[0]
    ref = again.submit_task(place, (1,), {}, {})
    assert ray.get([ref, on("mac", place, 2)]) == [("mac", 1), ("mac", 2)]
    others.close()
    assert "was closed" in refused(ConnectionError, lambda: ray.get(ref))
    deadline = time.monotonic() + 30
    while tampered[0].is_connected() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not tampered[0].is_connected()
    assert ray.get(on("mac", place, 3)) == ("mac", 3)
    return [used, again.job_id]


def closed() -> None:
    """Only errors that say so, and no local Ray."""
    refs = [on("centos", place), on("mac", place)]
    ray.get(refs)
    handle = actor_on("mac", Counter)
    decorated = ray.remote(place)
    CONNECTIONS.close()
    for call in (
        lambda: ray.get(refs[0]),
        lambda: ray.get(refs),
        lambda: ray.get(handle.add.remote()),
        lambda: ray.kill(handle),
        lambda: ray.cancel(refs[1]),
        lambda: refs[1].future(),
    ):
        text = refused(ConnectionError, call)
        assert "was closed" in text, text
        assert "'centos'" in text or "'mac'" in text, text
    for call in (lambda: ray.put(1), decorated.remote, lambda: ray.get_actor("only")):
        assert "no Ray cluster is connected" in refused(ConnectionError, call)
    assert not ray.is_initialized()
    assert ray.wait(refs, num_returns=2) == (refs, [])
    # A later call connects again.
    assert ray.get(on("mac", place, 4)) == ("mac", 4)
    assert "was closed" in refused(ConnectionError, lambda: ray.get(refs[1]))
    opened = CONNECTIONS.get("mac")
    ray.shutdown()
    assert not opened.alive()


def close() -> None:
    CONNECTIONS.close()


if __name__ == "__main__":
    serve(globals())
