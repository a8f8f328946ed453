"""Plain `ray` functions over refs and handles of two real clusters, in one program."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support import processes
from support.ray_cluster import Clusters
from support.ray_program import RayProgram, servers
from support.waiting import wait_until

pytestmark = pytest.mark.ray_client


@pytest.fixture(scope="module")
def program(clusters: Clusters, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayProgram]:
    program = RayProgram("ray_routing", clusters, tmp_path_factory.mktemp("program"))
    yield program
    program.end()


def test_connections_are_opened_side_by_side_and_once(program: RayProgram) -> None:
    assert len(set(program.call("connect", timeout=120))) == 2


@pytest.mark.parametrize(
    "what",
    [
        "mixed_gets_and_waits",
        "awaits_and_futures",
        "errors_stay_what_they_are",
        "refs_inside_of_values",
        "foreign_refs_are_moved",
        "foreign_handles_are_refused",
        "plain_functions_find_their_cluster",
        "names_of_actors",
        "options_reach_ray",
        "colliding_ids",
    ],
)
def test_with_two_clusters(program: RayProgram, what: str) -> None:
    program.call(what, timeout=120)


def test_many_actors_are_called_from_eight_threads(program: RayProgram) -> None:
    assert program.call("many_actors_from_many_threads", timeout=2400) >= 240


def test_functions_are_not_kept_for_ever(program: RayProgram) -> None:
    assert program.call("functions_are_let_go") == 5


def test_each_cluster_in_use_has_one_server_process(
    program: RayProgram, clusters: Clusters
) -> None:
    program.call("connect")
    for name, cluster in clusters.items():
        # Connections that were dropped before (ids collided) end within half a minute.
        wait_until(
            lambda c=cluster: len(servers(c)) == 1, f"one server process on {name}", timeout=90
        )


def test_what_was_closed_says_so_and_no_local_ray_is_started(program: RayProgram) -> None:
    program.call("closed")
    # Ray's own processes would be children of the program.
    assert not children(program.process.pid)


def test_closed_connections_leave_no_process_behind(
    program: RayProgram, clusters: Clusters
) -> None:
    program.call("close")
    for name, cluster in clusters.items():
        wait_until(
            lambda c=cluster: not servers(c), f"no server process is left on {name}", timeout=90
        )


def children(pid: int) -> list[str]:
    found = [one for one in processes.all_pids() if processes.parent(one) == pid]
    return [processes.command_line(one) for one in found if processes.is_running(one)]
