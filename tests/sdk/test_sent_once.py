"""A connection that breaks after a call was sent: the call is not sent to another cluster."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path
from typing import Callable

import pytest

from support import program
from support.gate import Gate
from support.plane import MakePlane, Plane
from support.pool import Pool
from support.ray_cluster import Clusters, RayCluster
from support.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.ray_client


@pytest.fixture
def gate(mac: RayCluster) -> Gate:
    return Gate(mac.head_address)


@pytest.fixture
def plane(make_plane: MakePlane, gate: Gate) -> Plane:
    def through_the_gate(pool: Pool) -> None:
        pool["mac"]["head_address"] = gate.address

    return make_plane(through_the_gate, resource_threshold=1.0)


def test_an_actor_is_not_created_twice(
    clusters: Clusters, plane: Plane, gate: Gate, tmp_path: Path
) -> None:
    name = f"model-{uuid.uuid4().hex[:8]}"

    def cut_when_created() -> None:
        wait_until(lambda: actors(clusters["mac"], name) == 1, "mac has the actor", 60)
        gate.cut()

    def hold_answers() -> None:
        gate.hold_answers()
        threading.Thread(target=cut_when_created, daemon=True).start()

    said = play(plane, tmp_path, "actor", name, {"hold answers": hold_answers})
    assert "may have started on cluster mac" in said
    assert "ray.get_actor" in said
    assert [actors(clusters[one], name) for one in ("mac", "centos")] == [1, 0]


def test_of_a_batch_a_sent_call_is_not_sent_again(plane: Plane, gate: Gate, tmp_path: Path) -> None:
    folder = tmp_path / "calls"
    folder.mkdir()
    said = play(plane, tmp_path, "batch", str(folder), {"cut": gate.cut})
    assert "1 of 2 calls may have started on cluster mac" in said
    assert [one.name for one in folder.iterdir()] == ["call0"]
    assert (folder / "call0").read_text() == "darwin\n"


def play(plane: Plane, home: Path, what: str, where: str, acts: dict[str, Callable]) -> str:
    """What the program printed about the error that it got."""
    running = program.start("sent_once", plane, home, what, where)
    assert running.stdin is not None
    assert running.stdout is not None
    said = []
    for line in running.stdout:
        said.append(line)
        act = acts.get(line.strip())
        if act is not None:
            act()
            print("done", file=running.stdin, flush=True)
    assert running.wait(30 * PATIENCE) == 0, "".join(said)[-6000:]
    return next(line for line in said if line.startswith("raised: "))


def actors(cluster: RayCluster, name: str) -> int:
    """How many live there under this name."""
    listed = cluster.get("/api/v0/actors?limit=10000")["data"]["result"]["result"]
    return len([one for one in listed if one["name"] == name and one["state"] == "ALIVE"])
