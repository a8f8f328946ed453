"""Actors from outside, by one program on two clusters."""

from __future__ import annotations

import gc
import os
import time

import pytest
import ray

import ray_multicluster_scheduler as rms
from support.waiting import wait_until


class Counter:
    def __init__(self, start: int = 0) -> None:
        self.value = start

    def add(self, n: int) -> int:
        self.value += n
        return self.value

    def where(self) -> str:
        return os.environ["CLUSTER_FLAVOUR"]

    def assigned(self) -> dict[str, float]:
        return ray.get_runtime_context().get_assigned_resources()

    def leave(self) -> None:
        os._exit(1)


@ray.remote(num_cpus=0, max_restarts=1)
class Decorated(Counter):
    pass


def live() -> int:
    return sum(cluster["live"] for cluster in rms.list_clusters())


def an_actor_gets_what_it_asks_for() -> None:
    needs = {"CPU": 1, "memory": 1 << 28}
    id, actor = rms.submit_actor(
        Counter, args=(5,), resource_requirements=needs, tags=["macos", "fund"]
    )
    assert ray.get(actor.add.remote(1)) == 6
    assert ray.get(actor.where.remote()) == "darwin"
    assert ray.get(actor.assigned.remote()) == {"CPU": 1, "memory": 1 << 28}
    assert rms.get_actor_status(id) == "ALIVE"
    ray.kill(actor)
    wait_until(lambda: rms.get_actor_status(id) == "DEAD", "a killed actor is dead", 30)
    # The SDK tells the control plane in the background.
    wait_until(lambda: live() == 0, "a killed actor gives its place back", 30)


def two_unnamed_actors_of_one_class_are_two() -> None:
    actors = [rms.submit_actor(Counter, preferred_cluster="mac")[1] for _ in range(2)]
    assert ray.get([actor.add.remote(1) for actor in actors]) == [1, 1]


def a_name_that_is_taken_is_an_error_of_submit_actor() -> None:
    _, first = rms.submit_actor(Counter, name="single", preferred_cluster="centos")
    assert ray.get(first.add.remote(1)) == 1
    with pytest.raises(rms.ActorNameTakenError) as caught:
        rms.submit_actor(Counter, name="single", preferred_cluster="centos")
    assert "single" in str(caught.value)
    assert "centos" in str(caught.value)
    # On another cluster the name is free.
    _, other = rms.submit_actor(Counter, name="single", preferred_cluster="mac")
    assert ray.get([first.add.remote(1), other.add.remote(5)]) == [2, 5]


def options_reach_ray() -> None:
    _, restarts = rms.submit_actor(Decorated, preferred_cluster="centos")
    assert ray.get(restarts.add.remote(3)) == 3
    restarts.leave.remote()

    def is_back() -> bool:
        try:
            return ray.get(restarts.add.remote(1), timeout=20) == 1
        except ray.exceptions.RayActorError:
            return False

    wait_until(is_back, "it was restarted, as its decorator says", 60)
    _, kept = rms.submit_actor(
        Counter, name="kept", lifetime="detached", namespace="apart", preferred_cluster="mac"
    )
    ray.get(kept.add.remote(1))
    found = ray.get_actor("kept", namespace="apart")
    assert ray.get(found.add.remote(1)) == 2
    ray.kill(found)


def an_actor_that_nobody_has_gives_its_place_back() -> None:
    # Also those held by the frames of errors.
    gc.collect()
    wait_until(lambda: live() == 0, "handles that are gone give their places back", 30)


def the_timeout_holds() -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError) as caught:
        rms.submit_actor(Counter, resource_requirements={"CPU": 500}, timeout=1)
    assert "centos" in str(caught.value)
    assert time.monotonic() - began < 10
    future = rms.submit_actor_async(Counter, preferred_cluster="mac")
    id, actor = future.result(60)
    assert id == future.id
    assert ray.get(actor.add.remote(1)) == 1


if __name__ == "__main__":
    with rms.initialize_scheduler_environment():
        an_actor_gets_what_it_asks_for()
        two_unnamed_actors_of_one_class_are_two()
        a_name_that_is_taken_is_an_error_of_submit_actor()
        options_reach_ray()
        an_actor_that_nobody_has_gives_its_place_back()
        the_timeout_holds()
    print("all is well")
