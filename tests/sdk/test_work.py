"""Tasks and actors over the control plane, on two real clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import program
from support.plane import Plane

pytestmark = pytest.mark.ray_client


def test_tasks_from_outside(plane: Plane, tmp_path: Path) -> None:
    assert "all is well" in program.run("tasks", plane, tmp_path)


def test_actors_from_outside(plane: Plane, tmp_path: Path) -> None:
    assert "all is well" in program.run("actors", plane, tmp_path)
