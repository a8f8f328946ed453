"""Running tasks, and the return of their placements. Ray and the control plane are made up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from ray_multicluster_scheduler._work import running as module
from ray_multicluster_scheduler._work.held import Lease
from ray_multicluster_scheduler._work.running import Running
from ray_multicluster_scheduler.errors import ClusterConnectionError

LEASE = Lease("task-1", 1, "mac")


class MadeUpLeases:
    def __init__(self) -> None:
        self.given_back: list[tuple[Lease, str, str | None]] = []

    def give_back(
        self,
        lease: Lease,
        outcome: str = "succeeded",
        message: str | None = None,
        *,
        is_free: bool = True,
    ) -> None:
        self.given_back.append((lease, outcome, message))
        self.is_free = is_free

    def held_up(self) -> bool:
        return True


class Ref:
    pass


class MadeUpConnection:
    name = "mac"

    def __init__(self) -> None:
        self.ended: set[Ref] = set()
        self.asked: list[int] = []
        self.is_lost = False

    def ready(self, refs: list[Any]) -> list[bool]:
        self.asked.append(len(refs))
        if self.is_lost:
            raise ClusterConnectionError("it is lost", cluster="mac")
        return [ref in self.ended for ref in refs]


@pytest.fixture
def leases() -> MadeUpLeases:
    return MadeUpLeases()


@pytest.fixture
def running(leases: MadeUpLeases, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr(module, "EAGER", 0.01)
    running = Running(leases)  # type: ignore[arg-type]
    yield running
    running.close()


def until(condition: Any) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def test_a_place_is_given_back_once_all_in_it_have_ended_and_one_is_asked_about_first(
    running: Running, leases: MadeUpLeases
) -> None:
    connection, refs = MadeUpConnection(), [Ref() for _ in range(100)]
    running.add(LEASE, connection, refs)  # type: ignore[arg-type]
    connection.ended.update(refs[:99])
    until(lambda: len(connection.asked) >= 3)
    assert set(connection.asked) == {1}, "the last one runs, so nothing else matters"
    assert not leases.given_back
    connection.ended.add(refs[99])
    until(lambda: leases.given_back)
    assert leases.given_back == [(LEASE, "succeeded", None)]


def test_a_result_that_is_fetched_gives_its_place_back_at_once(
    running: Running, leases: MadeUpLeases
) -> None:
    ref = Ref()
    share = running.add(LEASE, MadeUpConnection(), [ref])  # type: ignore[arg-type]
    running.ended(share, id(ref), ValueError("of the user's data"))
    running.ended(share, id(ref))
    assert leases.given_back == [(LEASE, "failed", "ValueError")], "once, without what it said"


def test_a_cluster_that_is_lost_has_no_tasks_any_more(
    running: Running, leases: MadeUpLeases
) -> None:
    connection = MadeUpConnection()
    connection.is_lost = True
    running.add(LEASE, connection, [Ref(), Ref()])  # type: ignore[arg-type]
    until(lambda: leases.given_back)
    assert leases.given_back == [(LEASE, "failed", "ClusterConnectionError")]


def test_a_task_that_returns_nothing_is_not_looked_after(
    running: Running, leases: MadeUpLeases
) -> None:
    connection = MadeUpConnection()
    running.add(LEASE, connection, [])  # type: ignore[arg-type]
    assert leases.given_back == [(LEASE, "succeeded", None)]
    assert running.of(LEASE) == []
    time.sleep(0.1)
    assert not connection.asked
