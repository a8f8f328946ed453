"""One of two clusters hangs, then dies: the other is not affected, and no call waits for long."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.ray_cluster import Clusters
from support.ray_program import RayProgram, facts
from support.waiting import PATIENCE

pytestmark = pytest.mark.ray_client

#: The default of the SDK: the longest call to a cluster that does not answer.
BOUND = 15.0

USES = [
    "get",
    "mixed get",
    "get what is there",
    "await",
    "actor call",
    "kill",
    "submit",
    "submit again and again",
    "new function",
    "new actor",
    "ready",
    "put",
    "move",
]


@pytest.fixture(scope="module")
def program(clusters: Clusters, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayProgram]:
    program = RayProgram("ray_faults", clusters, tmp_path_factory.mktemp("program"))
    yield program
    program.end()


def test_a_frozen_cluster(program: RayProgram, mended: Clusters) -> None:
    program.call("prepare", "mac", timeout=120)
    before = [program.begin("use", "mac", how) for how in ("get", "mixed get", "await")]
    waiting = program.begin("waits", "mac")
    # Longer than a frozen cluster gets: on a healthy one, that is allowed.
    long = program.begin("takes_long", "centos", BOUND + 5)
    mended["mac"].freeze()
    held = program.begin("timeout_holds", 1.0)
    after = [program.begin("use", "mac", how) for how in [*USES, "connect"]]
    for value in range(5):
        assert program.call("works", "centos", value)
    assert program.answer(held)["seconds"] < 5 * PATIENCE
    for future in [*before, *after]:
        lost_in_time(program.answer(future))
    assert program.answer(waiting)["ready"] == 2
    mended["mac"].thaw()
    # A new connection; refs of the old one stay lost.
    assert program.call("works", "mac", 1)
    lost_in_time(program.call("use", "mac", "get what is there"))
    assert program.answer(long) == BOUND + 5


def test_a_dead_cluster(program: RayProgram, mended: Clusters) -> None:
    program.call("prepare", "mac", timeout=120)
    before = [program.begin("use", "mac", how) for how in ("get", "mixed get", "await")]
    mended["mac"].kill()
    after = [program.begin("use", "mac", how) for how in [*USES, "connect"]]
    for value in range(5):
        assert program.call("works", "centos", value)
    for future in [*before, *after]:
        lost_in_time(program.answer(future))
    mended["mac"].restart()
    program.call("restarted", "mac", facts(mended["mac"]))
    assert program.call("works", "mac", 1)
    lost_in_time(program.call("use", "mac", "get what is there"))


def test_closing_does_not_wait_for_a_cluster_that_hangs(
    program: RayProgram, mended: Clusters
) -> None:
    assert program.call("works", "mac", 1)
    mended["mac"].freeze()
    assert program.call("close") < BOUND * PATIENCE


def lost_in_time(end: dict[str, object]) -> None:
    assert str(end["outcome"]).startswith("ClusterConnectionError"), end
    assert "'mac'" in str(end["outcome"]), end
    assert float(str(end["seconds"])) < BOUND * PATIENCE, end
