"""Programs of users, each in its own process, so that changes to Ray stay there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from .plane import REPOSITORY, Plane
from .ray_cluster import clean_environment
from .waiting import PATIENCE

PROGRAMS = REPOSITORY / "tests" / "sdk" / "programs"


def environment(plane: Plane, home: Path) -> dict[str, str]:
    """Finds the SDK, the tests' own helpers and the control plane."""
    found = f"{REPOSITORY / 'python'}:{REPOSITORY / 'tests'}"
    return {
        **clean_environment(home),
        "PYTHONPATH": found,
        "RAY_MULTICLUSTER_ADDRESS": plane.address,
    }


def start(
    name: str, plane: Plane, home: Path, *arguments: object, **env: str
) -> subprocess.Popen[str]:
    """One of tests/sdk/programs."""
    return subprocess.Popen(
        [sys.executable, str(PROGRAMS / f"{name}.py"), *map(str, arguments)],
        env={**environment(plane, home), **env},
        cwd=home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def run(
    name: str, plane: Plane, home: Path, *arguments: object, timeout: float = 120, **env: str
) -> str:
    """The same to its end; returns its output."""
    program = start(name, plane, home, *arguments, **env)
    try:
        output, _ = program.communicate(timeout=timeout * PATIENCE)
    except subprocess.TimeoutExpired:
        program.kill()
        output, _ = program.communicate()
        raise AssertionError(f"{name} did not come to an end:\n{output[-6000:]}") from None
    assert program.returncode == 0, f"{name} failed:\n{output[-6000:]}"
    return output
