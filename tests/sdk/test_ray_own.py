"""Programs that have a Ray of their own, and connections that cannot be made."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import ray

from support.ray_cluster import Clusters
from support.ray_program import RayProgram, servers
from support.waiting import PATIENCE

pytestmark = pytest.mark.ray_client


@pytest.fixture
def program(clusters: Clusters, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayProgram]:
    program = RayProgram("ray_own", clusters, tmp_path_factory.mktemp("program"))
    yield program
    program.end()


def test_a_job_uses_its_own_cluster_natively_beside_another(
    program: RayProgram, clusters: Clusters
) -> None:
    before = set(servers(clusters["centos"]))
    running = program.begin("native_and_client")
    started: set[int] = set()
    while not running.done():
        started |= set(servers(clusters["centos"])) - before
        time.sleep(0.2)
    program.answer(running)
    assert not started, "no server process is needed where the job runs"


@pytest.mark.parametrize("when", ["own_client_first", "own_client_later"])
def test_the_users_own_connection_goes_on(program: RayProgram, when: str) -> None:
    program.call(when, timeout=120)


def test_connections_that_cannot_be_made(program: RayProgram) -> None:
    assert "ping_server" in (text := program.call("unsupported"))
    assert f"Ray {ray.__version__}" in text
    text = program.call("mismatch")
    assert "2.9.3" in text
    assert ray.__version__ in text
    assert "3.7" in text
    assert "submit_job" in text
    assert "2.0.0" in program.call("ray_says_mismatch")
    gone = program.call("unreachable")
    assert "'gone'" in gone["text"]
    assert gone["seconds"] < 15 * PATIENCE
