"""The earlier prototype's calls, on two real clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import program
from support.plane import MakePlane

pytestmark = pytest.mark.ray_client


def test_a_program_of_the_prototype_runs_from_top_to_bottom(
    make_plane: MakePlane, tmp_path: Path
) -> None:
    plane = make_plane(resource_threshold=1.0)
    assert "all is well" in program.run("prototype", plane, tmp_path)
