"""The output of a healthy program: nothing that looks like a failure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.plane import Plane
from support.program import PROGRAMS, environment
from support.waiting import PATIENCE

pytestmark = pytest.mark.ray_client


def test_a_program_with_tasks_and_actors_on_two_clusters_prints_no_noise(
    plane: Plane, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / "quiet.py")],
        env=environment(plane, tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120 * PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "all is well\n", "")
