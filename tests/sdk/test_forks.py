"""Programs that fork, spawn and use a forkserver while tasks, actors and refs are alive.

By hand, hundreds of times: `tests/sdk/programs/forks.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support import program
from support.plane import MakePlane

pytestmark = pytest.mark.ray_client


def test_a_child_leaves_its_parents_tasks_actors_and_refs_alone(
    make_plane: MakePlane, tmp_path: Path
) -> None:
    plane = make_plane(resource_threshold=1.0)
    said = program.run("forks", plane, tmp_path, 4, "fork", timeout=120)
    assert said.endswith("all is well\n"), said[-3000:]


def test_a_spawned_child_uses_clusters_of_its_own(make_plane: MakePlane, tmp_path: Path) -> None:
    plane = make_plane(resource_threshold=1.0)
    said = program.run("forks", plane, tmp_path, 1, "spawn", "forkserver", timeout=180)
    assert said.endswith("all is well\n"), said[-3000:]
