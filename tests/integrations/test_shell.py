"""What docs/schedulers.md promises to users of cron and shells: exit codes, ids that run once."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Callable

import pytest

from support.jobs import appends, unique_id
from support.plane import Plane, binary
from support.ray_cluster import clean_environment
from support.waiting import PATIENCE

Shell = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def shell(plane: Plane, tmp_path: Path) -> Shell:
    # Elsewhere than the files of the jobs: paths below a home are translated for each cluster.
    home = tmp_path / "home"
    home.mkdir()

    def run(*arguments: str, address: str = plane.address) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(binary()), *arguments],
            env={**clean_environment(home), "RAY_MULTICLUSTER_ADDRESS": address},
            capture_output=True,
            text=True,
            timeout=90 * PATIENCE,
        )

    return run


def test_a_job_with_an_id_runs_once_and_each_caller_gets_its_outcome(
    shell: Shell, tmp_path: Path
) -> None:
    runs, job = tmp_path / "runs", unique_id("nightly")
    submit = ("submit", "--id", job, "--", appends("ran", runs, "echo hello"))
    for _ in range(2):
        done = shell(*submit)
        assert (done.returncode, "hello" in done.stdout) == (0, True), done.stderr
    assert runs.read_text() == "ran\n"
    assert shell("submit", "--id", job, "--", "echo other").returncode == 4
    assert shell("retry", job).returncode == 4, "it has succeeded"
    assert shell("stop", job).returncode == 4, "it has ended"


def test_a_failed_job_exits_with_1_until_it_is_retried(shell: Shell, tmp_path: Path) -> None:
    runs, job = tmp_path / "runs", unique_id("fails")
    entrypoint = appends("ran", runs, f"[ $(wc -l < {runs}) -ge 2 ]")
    submit = ("submit", "--wait", "--id", job, "--", entrypoint)
    assert [shell(*submit).returncode for _ in range(2)] == [1, 1]
    assert runs.read_text() == "ran\n", "asking again runs nothing"
    assert shell("retry", job).returncode == 0
    assert shell(*submit).returncode == 0
    assert shell("logs", job).returncode == 0


def test_a_stopped_job_exits_with_1(shell: Shell) -> None:
    job = unique_id("stopped")
    accepted = shell("submit", "--no-wait", "--id", job, "--", "sleep 600")
    assert (accepted.returncode, accepted.stdout.strip()) == (0, job)
    assert shell("stop", job).returncode == 0
    assert shell("submit", "--wait", "--id", job, "--", "sleep 600").returncode == 1


def test_mistakes_have_codes_of_their_own(shell: Shell) -> None:
    assert shell("submit", "--cluster", "moc", "--", "true").returncode == 2
    assert shell("job", "no-such-job").returncode == 3
    assert shell("status", address="http://127.0.0.1:1").returncode == 5
