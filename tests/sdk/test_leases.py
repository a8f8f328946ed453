"""Placements of tasks and actors: requested, kept alive, given back. The plane is made up."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ray_multicluster_scheduler._work import held as held_module
from ray_multicluster_scheduler._work import leases as module
from ray_multicluster_scheduler._work.held import Lease
from ray_multicluster_scheduler._work.leases import Leases
from ray_multicluster_scheduler.errors import (
    NoHealthyClusterError,
    PlacementTimeoutError,
    TaskSubmissionError,
    VersionMismatchError,
)
from support.made_up_plane import MadeUpPlane


@pytest.fixture
def plane() -> MadeUpPlane:
    return MadeUpPlane()


@pytest.fixture
def wanted_back() -> list[Lease]:
    return []


@pytest.fixture
def leases(plane: MadeUpPlane, wanted_back: list[Lease]) -> Iterator[Leases]:
    leases = Leases(plane, wanted_back.append)  # type: ignore[arg-type]
    yield leases
    leases.close()


def until(condition: Any) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def ask(id: str = "task-1") -> dict[str, Any]:
    return {"id": id, "kind": "task"}


def test_a_free_place_costs_one_request(plane: MadeUpPlane, leases: Leases) -> None:
    plane.grants.append("mac")
    assert leases.obtain(ask(), None) == Lease("task-1", 1, "mac")
    assert len(plane.calls) == 1


def test_what_waits_is_asked_for_until_it_is_granted(plane: MadeUpPlane, leases: Leases) -> None:
    plane.grants.extend([None, None, "mac"])
    assert leases.obtain(ask(), time.monotonic() + 30).cluster == "mac"
    assert [path for path, _ in plane.calls][1:] == ["/v1/placements/task-1"] * 2


def test_a_place_that_is_not_found_in_time_is_an_error_that_says_why_and_is_withdrawn(
    plane: MadeUpPlane, leases: Leases
) -> None:
    with pytest.raises(PlacementTimeoutError, match="centos: over 70 % CPU") as late:
        leases.obtain(ask(), time.monotonic() + 0.05)
    assert late.value.job_id == "task-1"
    assert isinstance(late.value, TimeoutError)
    assert plane.withdrawn() == ["task-1"]


def test_what_no_cluster_can_run_is_told_at_once(plane: MadeUpPlane, leases: Leases) -> None:
    text = "has Ray 2.46.0 with Python 3.10.4, the caller has Ray 2.60.0 with Python 3.11"
    plane.verdicts = [
        {"cluster": "centos", "reason": "other_versions", "text": text},
        {"cluster": "mac", "reason": "other_cluster", "text": "the work asks for centos"},
    ]
    with pytest.raises(VersionMismatchError, match=r"centos has Ray 2\.46\.0") as mismatch:
        leases.obtain(ask(), None)
    assert "submit_job" in str(mismatch.value.hint)
    assert plane.withdrawn() == ["task-1"]


def test_a_cluster_that_is_down_may_come_back_with_other_versions(
    plane: MadeUpPlane, leases: Leases
) -> None:
    down = [{"reason": "unhealthy", "text": "unhealthy for 20 s"}]
    plane.verdicts = [
        {"cluster": "centos", "reason": "other_versions", "text": "has Ray 2.46.0", "others": down}  # type: ignore[dict-item]
    ]
    plane.grants.extend([None, "centos"])
    assert leases.obtain(ask(), None).cluster == "centos"


@pytest.mark.parametrize(
    ("reasons", "kind"),
    [
        (["unhealthy", "never_seen"], NoHealthyClusterError),
        (["breaker_open", "other_cluster"], NoHealthyClusterError),
        (["unhealthy", "infeasible"], NoHealthyClusterError),
        (["unhealthy", "no_room"], PlacementTimeoutError),
        (["other_cluster"], PlacementTimeoutError),
        ([], PlacementTimeoutError),
    ],
)
def test_a_caller_who_does_not_wait_hears_whether_any_cluster_is_healthy(
    plane: MadeUpPlane, leases: Leases, reasons: list[str], kind: type
) -> None:
    plane.verdicts = [{"cluster": f"c{n}", "reason": reason} for n, reason in enumerate(reasons)]
    with pytest.raises(PlacementTimeoutError) as late:
        leases.obtain(ask(), time.monotonic())
    assert type(late.value) is kind
    assert (late.value.job_id, plane.withdrawn()) == ("task-1", ["task-1"])
    assert late.value.hint


def test_a_control_plane_that_is_being_replaced_is_asked_again_for_the_same(
    plane: MadeUpPlane, leases: Leases
) -> None:
    plane.grants.append("mac")
    plane.fails = True
    threading.Timer(0.3, lambda: setattr(plane, "fails", False)).start()
    assert leases.obtain(ask(), None) == Lease("task-1", 1, "mac")
    asked = plane.sent("/v1/placements")
    assert len(asked) >= 2
    assert {body["id"] for body in asked} == {"task-1"}


def test_a_release_that_is_refused_stops_no_heartbeats(
    plane: MadeUpPlane, leases: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane.lease_seconds = 0.3
    plane.grants.extend(["mac", "mac"])
    first, second = [leases.obtain(ask(f"task-{n}"), None) for n in range(2)]
    post = plane.post

    def too_large(path: str, body: Any = None, **query: Any) -> Any:
        if path.endswith("/release"):
            raise TaskSubmissionError("too large", code="too_large")
        return post(path, body, **query)

    monkeypatch.setattr(plane, "post", too_large)
    leases.give_back(first)
    until(lambda: len(plane.sent("/heartbeat")) >= 2)
    assert [lease["id"] for lease in plane.sent("/heartbeat")[-1]["leases"]] == [second.id]


def test_an_ask_that_is_interrupted_is_withdrawn(
    plane: MadeUpPlane, leases: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(plane, "get", interrupted)
    with pytest.raises(KeyboardInterrupt):
        leases.obtain(ask(), None)
    assert plane.withdrawn() == ["task-1"]
    assert not leases.held_up()


def test_work_that_was_stopped_while_it_waited_says_so(plane: MadeUpPlane, leases: Leases) -> None:
    plane.grants.extend([None, "ended"])
    with pytest.raises(TaskSubmissionError, match="stopped by an operator"):
        leases.obtain(ask(), None)


def test_a_batch_takes_the_places_there_are_and_withdraws_the_rest(
    plane: MadeUpPlane, leases: Leases
) -> None:
    plane.grants.extend(["mac", "centos", None, None])
    asked = [ask(f"task-{n}") for n in range(4)]
    assert [lease.cluster for lease in leases.obtain_some(asked, None)] == ["mac", "centos"]
    assert plane.withdrawn() == ["task-2", "task-3"]


def test_a_batch_without_a_free_place_waits_for_one(plane: MadeUpPlane, leases: Leases) -> None:
    plane.grants.extend([None, None, None, "mac"])
    places = leases.obtain_some([ask(f"task-{n}") for n in range(3)], None)
    assert places == [Lease("task-0", 1, "mac")]


def test_what_is_given_back_is_told_in_few_requests(plane: MadeUpPlane, leases: Leases) -> None:
    plane.grants.extend(["mac"] * 100)
    held = [leases.obtain(ask(f"task-{n}"), None) for n in range(100)]
    for lease in held:
        leases.give_back(lease)
        leases.give_back(lease)  # Twice is once.
    until(lambda: sum(len(body["leases"]) for body in plane.sent("/release")) == 100)
    assert len(plane.sent("/release")) < 20


def test_what_is_given_back_survives_a_control_plane_that_is_away(
    plane: MadeUpPlane, leases: Leases
) -> None:
    plane.grants.append("mac")
    lease = leases.obtain(ask(), None)
    plane.fails = True
    leases.give_back(lease, "failed", "ValueError: no")
    until(lambda: plane.sent("/release"))
    plane.fails = False
    tries = len(plane.sent("/release"))
    until(lambda: len(plane.sent("/release")) > tries)
    assert plane.sent("/release")[-1]["leases"] == [
        {"id": "task-1", "attempt": 1, "outcome": "failed", "message": "ValueError: no"}
    ]


def test_heartbeats_tell_what_is_held_and_hear_what_is_wanted_back(
    plane: MadeUpPlane, leases: Leases, wanted_back: list[Lease]
) -> None:
    plane.lease_seconds = 0.3
    plane.grants.extend(["mac", "mac", "centos"])
    alive, stopping, gone = [leases.obtain(ask(f"task-{n}"), None) for n in range(3)]
    plane.said = {stopping.id: "stopping", gone.id: "gone"}
    until(lambda: len(plane.sent("/heartbeat")) >= 2)
    assert set(wanted_back) == {stopping}
    last = [lease["id"] for lease in plane.sent("/heartbeat")[-1]["leases"]]
    assert last == [alive.id, stopping.id]


def test_what_nobody_has_any_more_is_given_back(plane: MadeUpPlane, leases: Leases) -> None:
    plane.grants.append("mac")
    leases.dropped.append(leases.obtain(ask(), None))
    until(lambda: plane.sent("/release"))


def test_the_end_gives_everything_back(plane: MadeUpPlane, leases: Leases) -> None:
    plane.grants.extend(["mac", "mac"])
    for n in range(2):
        leases.obtain(ask(f"task-{n}"), None)
    leases.close()
    (told,) = plane.sent("/release")
    assert [lease["outcome"] for lease in told["leases"]] == ["stopped", "stopped"]
    threads = [thread.name for thread in threading.enumerate()]
    assert "ray-multicluster-leases" not in threads


def test_what_waits_long_says_why_but_not_all_the_time(
    plane: MadeUpPlane,
    leases: Leases,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "FIRST_WORD", 0.02)
    plane.grants.extend([None] * 20 + ["mac"])
    leases.obtain(ask(), None)
    (line,) = caplog.messages
    assert line.startswith("task-1 queued for ")
    assert line.endswith(" s: centos: over 70 % CPU")


def test_tasks_of_one_shape_follow_each_other_in_one_place(
    plane: MadeUpPlane, leases: Leases
) -> None:
    plane.reuse_seconds = 60
    plane.grants.append("mac")
    first = leases.obtain(ask("task-1"), None)
    leases.give_back(first)
    assert leases.obtain(ask("task-2"), None) is first
    assert len(plane.calls) == 1, "the second did not have to ask"
    leases.give_back(first)
    until(lambda: plane.given_back() == [("task-1", "succeeded")])


@pytest.mark.parametrize("other", [{"tags": ["linux"]}, {"kind": "actor"}, {"demand": {"CPU": 2}}])
def test_a_spare_place_is_for_the_same_shape_only(
    plane: MadeUpPlane, leases: Leases, other: dict[str, Any]
) -> None:
    plane.reuse_seconds = 60
    plane.grants.extend(["mac", "centos"])
    leases.give_back(leases.obtain(ask("task-1"), None))
    assert leases.obtain({**ask("task-2"), **other}, None).cluster == "centos"


def test_no_place_is_kept_while_others_of_this_program_wait_for_one(
    plane: MadeUpPlane, leases: Leases
) -> None:
    plane.reuse_seconds = 60
    plane.grants.append("mac")
    first = leases.obtain(ask("task-1"), None)
    waiting = threading.Thread(
        target=lambda: leases.obtain(ask("task-2"), time.monotonic() + 20), daemon=True
    )
    waiting.start()
    until(lambda: any(path.endswith("task-2") for path, _ in plane.calls))
    leases.give_back(first)
    until(lambda: plane.given_back() == [("task-1", "succeeded")])
    plane.grants.append("mac")
    waiting.join(timeout=10)
    assert not waiting.is_alive()


def test_a_batch_finds_the_places_that_were_kept_for_single_tasks(
    plane: MadeUpPlane, leases: Leases
) -> None:
    plane.reuse_seconds = 60
    plane.grants.extend(["mac", "mac"])
    leases.give_back(leases.obtain(ask("task-1"), None))
    leases.obtain_some([ask("task-2")], None)
    told = [path for path, _ in plane.calls]
    assert told.index("/v1/placements/release") < told.index("/v1/placements/batch")


def test_a_place_whose_task_may_still_run_is_not_kept(plane: MadeUpPlane, leases: Leases) -> None:
    plane.reuse_seconds = 60
    plane.grants.extend(["mac", "centos"])
    leases.give_back(leases.obtain(ask("task-1"), None), is_free=False)
    assert leases.obtain(ask("task-2"), None).cluster == "centos"


def test_a_place_in_use_is_not_shared(plane: MadeUpPlane, leases: Leases) -> None:
    plane.reuse_seconds = 60
    plane.grants.extend(["mac", "centos"])
    first = leases.obtain(ask("task-1"), None)
    assert leases.obtain(ask("task-2"), None) != first


def test_a_place_serves_only_as_long_as_the_control_plane_allows(
    plane: MadeUpPlane, leases: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_module, "SPARE", 60)
    plane.reuse_seconds = 0.2
    plane.grants.extend(["mac", "centos"])
    first = leases.obtain(ask("task-1"), None)
    leases.give_back(first)
    time.sleep(0.25)
    assert leases.obtain(ask("task-2"), None).cluster == "centos"


@pytest.mark.parametrize(("reuse_seconds", "outcome"), [(60, "failed"), (0, "succeeded")])
def test_no_place_is_kept_after_a_failure_or_where_submissions_are_spaced(
    plane: MadeUpPlane, leases: Leases, reuse_seconds: float, outcome: str
) -> None:
    plane.reuse_seconds = reuse_seconds
    plane.grants.extend(["mac", "centos"])
    leases.give_back(leases.obtain(ask("task-1"), None), outcome)
    assert leases.obtain(ask("task-2"), None).cluster == "centos"
    until(lambda: plane.given_back() == [("task-1", outcome)])


def test_a_place_that_is_wanted_back_serves_no_further_task(
    plane: MadeUpPlane, leases: Leases, wanted_back: list[Lease]
) -> None:
    plane.reuse_seconds, plane.lease_seconds = 60, 0.3
    plane.grants.extend(["mac", "centos"])
    plane.said["task-1"] = "stopping"
    first = leases.obtain(ask("task-1"), None)
    until(lambda: wanted_back)
    leases.give_back(first)
    assert leases.obtain(ask("task-2"), None).cluster == "centos"


def test_a_spare_place_has_succeeded_when_the_program_ends(
    plane: MadeUpPlane, leases: Leases
) -> None:
    plane.reuse_seconds = 60
    plane.grants.extend(["mac", "centos"])
    busy = leases.obtain(ask("task-1"), None)
    leases.give_back(leases.obtain(ask("task-2"), None))
    leases.close()
    assert plane.given_back() == [("task-2", "succeeded"), (busy.id, "stopped")]
