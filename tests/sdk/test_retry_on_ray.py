"""Retries of tasks on two real clusters, one of which is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import program
from support.plane import MakePlane
from support.pool import Pool
from support.ray_cluster import Clusters
from support.waiting import PATIENCE

pytestmark = pytest.mark.ray_client

#: No server listens there; the address is only passed on.
ADDRESS = "http://127.0.0.1:9"


def test_a_task_is_retried_on_its_cluster_and_followed_to_another(
    mended: Clusters, make_plane: MakePlane, tmp_path: Path
) -> None:
    def told(pool: Pool) -> None:
        pool["centos"]["plane_address"] = ADDRESS

    plane = make_plane(told, resource_threshold=1.0)
    running = program.start("retries", plane, tmp_path, ADDRESS, plane.address)
    assert running.stdin is not None
    assert running.stdout is not None
    said = []
    for line in running.stdout:
        said.append(line)
        if line == "kill mac\n":
            mended["mac"].kill()
            print("killed", file=running.stdin, flush=True)
    assert running.wait(30 * PATIENCE) == 0, "".join(said)[-6000:]
    assert said[-1] == "all is well\n"
