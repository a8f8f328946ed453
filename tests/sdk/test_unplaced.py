"""Messages about work that Ray cannot place, and when there are none."""

from __future__ import annotations

from threading import Event
from typing import Any, Callable

import pytest

from ray_multicluster_scheduler._ray import unplaced
from ray_multicluster_scheduler._ray.unplaced import Room, Waiting, Watch, cannot_start
from support.waiting import PATIENCE

FULL = Room(total=[{"CPU": 4.0}], free=[{}])


def an_actor(name: str, cpus: float = 1) -> Waiting:
    return Waiting(id=name, kind="actor", name=name, asks={"CPU": cpus})


def a_task(name: str) -> Waiting:
    return Waiting(id=name, kind="task", name=name, asks={"CPU": 1.0})


@pytest.fixture
def look(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[bool, list[str]]]:
    """One look at waiting work: whether another look is needed, and the messages."""
    watch = Watch("centos")
    monkeypatch.setattr(unplaced, "driver_holds", dict)

    def look(
        *waiting: Waiting, room: Room = FULL, tasks_run: bool = False, given: float = 4
    ) -> tuple[bool, list[str]]:
        answers: dict[str, Any] = {"pending": [*waiting], "_has_running_tasks": tasks_run}
        answers["given_out"] = {"CPU": given}
        for name, answer in answers.items():
            monkeypatch.setattr(unplaced, name, lambda answer=answer: answer)
        monkeypatch.setattr(Room, "now", lambda: room)
        again = watch._look()
        prefix = "ray-multicluster: "
        return again, [line[len(prefix) :] for line in capsys.readouterr().err.splitlines()]

    return look


def test_each_is_said_once_and_those_that_ask_the_same_together(look: Any) -> None:
    free = "free on centos: 0 of 4 CPU"
    first = [an_actor("a"), an_actor("b"), an_actor("c", cpus=2)]
    assert look(*first) == (
        False,
        [
            f"2 actors (a, b) cannot start: each asks for 1 CPU; {free}",
            f"actor c cannot start: it asks for 2 CPU; {free}",
        ],
    )
    assert look(*first, a_task("load")) == (
        False,
        [f"task load cannot start: it asks for 1 CPU; {free}"],
    )
    assert look(*first, a_task("load")) == (False, [])


def test_nothing_is_said_of_what_is_on_its_way(look: Any) -> None:
    assert look() == (False, [])
    assert look(an_actor("a"), room=Room([{"CPU": 4.0}], [{"CPU": 1.0}])) == (True, [])
    # Tasks behind others of the same job make progress; actors do not end by themselves.
    assert look(a_task("t"), tasks_run=True) == (True, [])
    again, said = look(a_task("t"), an_actor("a"), tasks_run=True)
    assert again
    assert [line.split(" cannot")[0] for line in said] == ["actor a"]


def test_nothing_is_said_of_actors_whose_processes_are_starting(look: Any) -> None:
    """Four CPUs are taken, and running work holds one: three are set aside for starting actors."""
    starting = [an_actor("a"), an_actor("b"), an_actor("c")]
    assert look(*starting, given=1) == (True, [])
    again, said = look(*starting, an_actor("d"), given=1)
    assert again
    assert [line.split(" cannot")[0] for line in said] == ["actor d"]


def test_what_was_started_just_before_a_look_is_seen_by_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unplaced, "FIRST", 0.2)
    monkeypatch.setattr(Room, "now", lambda: FULL)
    monkeypatch.setattr(unplaced, "driver_holds", dict)
    monkeypatch.setattr(unplaced, "given_out", lambda: {"CPU": 4.0})
    watch, looks, said = Watch("centos"), [], Event()

    def pending() -> list[Waiting]:
        looks.append(1)
        if len(looks) > 1:
            return [an_actor("late")]
        # Too young to be in the list.
        watch.note()
        return []

    monkeypatch.setattr(unplaced, "pending", pending)
    monkeypatch.setattr(unplaced, "say", lambda text: said.set())
    watch.note()
    try:
        assert said.wait(10 * PATIENCE)
    finally:
        watch.close()


@pytest.mark.parametrize(
    ("asks", "nodes", "free", "held", "said"),
    [
        (
            {"memory": float(1 << 30), "CPU": 1.0},
            [{"CPU": 16.0, "memory": float(64 << 30)}],
            [{"memory": float(60 << 30)}],
            {"CPU": 16.0},
            "it asks for 1 CPU, 1 GiB memory; free on mac: 0 of 16 CPU; "
            "this job's own driver holds 16 CPU (entrypoint_num_cpus)",
        ),
        (
            {"CPU": 4.0},
            [{"CPU": 4.0}, {"CPU": 4.0}],
            [{"CPU": 3.0}, {"CPU": 2.0}],
            {"memory": 1.0},
            "it asks for 4 CPU; free on mac: 5 of 8 CPU (at most 3 on one node)",
        ),
        (
            {"CPU": 6.0, "tpu": 1.0},
            [{"CPU": 4.0}],
            [{"CPU": 4.0}],
            {},
            "it asks for 6 CPU, 1 tpu; no node of mac has that much, "
            "the largest has 4 CPU, 0 tpu",
        ),
    ],
)  # fmt: skip
def test_what_is_missing_and_who_holds_it(
    asks: Any, nodes: Any, free: Any, held: Any, said: str
) -> None:
    line = cannot_start("actor", ["a"], asks, "mac", Room(nodes, free), held)
    assert line == f"actor a cannot start: {said}"
