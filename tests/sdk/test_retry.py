"""Tasks and actors that cannot be started, or are lost: which are tried elsewhere, which not.

The control plane and the clusters are made up.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ray_multicluster_scheduler import cluster_context
from ray_multicluster_scheduler._work import work as module
from ray_multicluster_scheduler._work.known import Known
from ray_multicluster_scheduler._work.work import Wishes, Work
from ray_multicluster_scheduler.errors import ClusterConnectionError, ConfigurationError
from support.made_up_plane import MadeUpPlane
from support.waiting import wait_until


class Ref:
    """A ref of a task on a made-up cluster."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster


class Cluster:
    """A connection whose cluster can be lost, before or after a request."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_closed = False
        self.is_lost = False
        #: This many calls pass; the next one finds the cluster lost.
        self.passes = 1000
        self.answers = True
        self.sent = 0

    def submit_task(self, *_: Any) -> Ref:
        if self.passes == 0:
            raise self.gone()
        self.passes -= 1
        self.sent += 1
        return Ref(self.name)

    def submit_actor(self, *_: Any) -> Ref:
        self.sent += 1
        if not self.answers:
            error = self.gone()
            error.may_have_started = True
            raise error
        return Ref(self.name)

    def ready(self, refs: list[Any]) -> list[bool]:
        if self.is_lost:
            raise self.gone()
        return [False] * len(refs)

    def alive(self) -> bool:
        return not self.is_lost

    def gone(self) -> ClusterConnectionError:
        return ClusterConnectionError(f"{self.name} was lost", cluster=self.name)


class Pool:
    """Replaces `Connections`."""

    def __init__(self) -> None:
        self.clusters = {name: Cluster(name) for name in ("mac", "centos")}
        self.unreachable: set[str] = set()

    def get(self, name: str) -> Cluster:
        if name in self.unreachable:
            raise self.clusters[name].gone()
        return self.clusters[name]

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def plane() -> MadeUpPlane:
    plane = MadeUpPlane()
    plane.grants.extend(["mac", "centos"])
    return plane


@pytest.fixture
def pool() -> Pool:
    return Pool()


@pytest.fixture
def known() -> Known:
    return Known("task")


@pytest.fixture
def work(
    plane: MadeUpPlane, pool: Pool, known: Known, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Work]:
    # There is no Ray that could cancel anything, and none must be started for it.
    monkeypatch.setattr(module, "_cancel", lambda refs: None)
    work = Work(plane, None, pool, known)  # type: ignore[arg-type]
    yield work
    work.close()


def wishes(**more: Any) -> Wishes:
    return Wishes.of(None, None, "", None, more)


def run(work: Work, **more: Any) -> Any:
    return work.task("task-1", lambda: None, (), {}, wishes(**more))


def test_a_task_that_could_not_be_started_is_tried_elsewhere(
    plane: MadeUpPlane, pool: Pool, work: Work
) -> None:
    pool.unreachable.add("mac")
    assert run(work).cluster == "centos"
    assert ("task-1", "unreachable") in plane.given_back()


def test_an_actor_that_may_have_started_is_not_started_elsewhere(
    plane: MadeUpPlane, pool: Pool, work: Work
) -> None:
    pool.clusters["mac"].answers = False
    with pytest.raises(ClusterConnectionError) as caught:
        work.actor("actor-1", Ref, ("mac",), {}, wishes(lifetime="detached"))
    assert caught.value.may_have_started
    assert (caught.value.job_id, caught.value.cluster) == ("actor-1", "mac")
    for word in ("actor-1", "mac", "hint: check that cluster"):
        assert word in str(caught.value)
    assert pool.clusters["centos"].sent == 0
    wait_until(lambda: plane.given_back() == [("actor-1", "failed")], "its place is given back")


def test_of_a_batch_nothing_is_sent_twice(plane: MadeUpPlane, pool: Pool, work: Work) -> None:
    plane.grants.clear()
    plane.grants.extend(["mac", None, None, None, "centos"])
    pool.clusters["mac"].passes = 2
    with pytest.raises(
        ClusterConnectionError, match="2 of 4 calls may have started on cluster mac"
    ):
        work.tasks(lambda: None, [((), {})] * 4, wishes())
    assert (pool.clusters["mac"].sent, pool.clusters["centos"].sent) == (2, 0)


def test_a_batch_that_was_partly_sent_says_so_whatever_ends_it(
    plane: MadeUpPlane, pool: Pool, work: Work
) -> None:
    plane.grants.clear()
    plane.grants.extend(["mac", "centos", None, None])
    pool.unreachable.add("centos")
    hurried = wishes(timeout=0.01)
    with pytest.raises(ClusterConnectionError, match="2 of 4 calls may have started on") as caught:
        work.tasks(lambda: None, [((), {})] * 4, hurried)
    assert caught.value.may_have_started
    assert "cluster mac," in str(caught.value)
    assert pool.clusters["mac"].sent == 2


def test_a_batch_of_which_nothing_was_sent_goes_elsewhere(
    plane: MadeUpPlane, pool: Pool, work: Work
) -> None:
    plane.grants.clear()
    plane.grants.extend(["mac", None, None, None, "centos"])
    pool.clusters["mac"].passes = 0
    found = work.tasks(lambda: None, [((), {})] * 4, wishes())
    assert [ref.cluster for _, ref in found] == ["centos"] * 4


def test_a_task_that_may_run_again_does_so_once_when_its_cluster_is_lost(
    pool: Pool, work: Work, known: Known
) -> None:
    first = run(work, on_cluster_loss="requeue")
    assert first.cluster == "mac"
    pool.clusters["mac"].is_lost = True
    wait_until(lambda: known.get("task-1").cluster == "centos", "it runs elsewhere")
    again = first._multicluster_again[0]
    followed = again(pool.clusters["mac"].gone()).result(10)
    assert [ref.cluster for ref in followed] == ["centos"]
    assert followed[0] is known.get("task-1").value
    assert pool.clusters["centos"].sent == 1


def test_it_runs_again_as_it_was_submitted_whoever_notices_the_loss(
    plane: MadeUpPlane, pool: Pool, work: Work
) -> None:
    with cluster_context("mac"):
        again = run(work, on_cluster_loss="requeue")._multicluster_again[0]
    with cluster_context("elsewhere"):
        again(pool.clusters["mac"].gone()).result(10)
    asked = plane.sent("/v1/placements")
    assert [one["preferred_cluster"] for one in asked] == ["mac", "mac"]
    assert asked[0]["id"] != asked[1]["id"]


def test_who_asks_first_starts_it_again_and_the_others_share_it(
    plane: MadeUpPlane, pool: Pool, work: Work
) -> None:
    again = run(work, on_cluster_loss="requeue")._multicluster_again[0]
    plane.grants.clear()
    lost = pool.clusters["mac"].gone()
    futures: list[Any] = []
    askers = [threading.Thread(target=lambda: futures.append(again(lost))) for _ in range(8)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert again.waits()
    plane.grants.append("centos")
    assert len({future.result(10)[0] for future in futures}) == 1
    assert not again.waits()


@pytest.mark.parametrize("what", ["not allowed", "closed by the program"])
def test_a_task_is_not_run_again_if_that_is(
    plane: MadeUpPlane, pool: Pool, work: Work, what: str
) -> None:
    ref = run(work, **({} if what == "not allowed" else {"on_cluster_loss": "requeue"}))
    pool.clusters["mac"].is_closed = what != "not allowed"
    pool.clusters["mac"].is_lost = True
    wait_until(lambda: plane.given_back() == [("task-1", "failed")], "its place is given back")
    assert pool.clusters["centos"].sent == 0
    assert hasattr(ref, "_multicluster_again") == (what != "not allowed")


def test_a_task_that_cannot_run_again_says_so_by_its_id(
    plane: MadeUpPlane, pool: Pool, work: Work, known: Known
) -> None:
    ref = run(work, on_cluster_loss="requeue")
    plane.grants.clear()
    plane.grants.append("ended")
    with pytest.raises(Exception, match="stopped by an operator"):
        ref._multicluster_again[0](pool.clusters["mac"].gone()).result(10)
    assert "stopped by an operator" in str(known.get("task-1").error)


def test_only_a_single_task_may_run_again(work: Work) -> None:
    allowed = wishes(on_cluster_loss="requeue")
    with pytest.raises(ConfigurationError, match="submit_actor"):
        work.actor("actor-1", Ref, (), {}, allowed)
    with pytest.raises(ConfigurationError, match="submit_tasks"):
        work.tasks(lambda: None, [((), {})], allowed)
    with pytest.raises(ConfigurationError, match="always"):
        wishes(on_cluster_loss="always")


def test_rays_own_retries_stay_rays() -> None:
    assert wishes(max_retries=2, on_cluster_loss="requeue").options == {"max_retries": 2}
