"""dagster-ray, unchanged: its run launcher and its Pipes client."""

from __future__ import annotations

import subprocess
import uuid
from pathlib import Path

import pytest
import yaml

from integrations.airflows import environment
from support.plane import Plane
from support.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.timeout(600)

DEFINITIONS = Path(__file__).parent / "dagster_code" / "defs.py"

STATUS = """
import sys, dagster
with dagster.DagsterInstance.get() as instance:
    for run in instance.get_runs():
        if run.run_id == sys.argv[1]:
            print(run.status.value)
"""

TERMINATE = """
import sys, dagster
with dagster.DagsterInstance.get() as instance:
    print(instance.run_launcher.terminate(sys.argv[1]))
"""


class Failed(BaseException):
    """Not an Exception: waiting for another state would be in vain."""


class Dagster:
    """An instance whose runs are jobs of the pool."""

    def __init__(self, home: Path, plane: Plane) -> None:
        self._bin = environment("dagster")
        self._home = home
        self._plane = plane
        launcher = {
            "module": "dagster_ray",
            "class": "RayRunLauncher",
            "config": {
                "ray": {
                    "address": plane.address,
                    # Jobs call `dagster` by its name.
                    "env_vars": [f"PATH={self._bin}:/usr/bin:/bin"],
                    "metadata": {"multicluster.preferred_cluster": "centos"},
                }
            },
        }
        # The default one queues runs for Dagster's daemon, which these tests do without.
        at_once = {"module": "dagster.core.run_coordinator", "class": "DefaultRunCoordinator"}
        settings = {
            "run_launcher": launcher,
            "run_coordinator": at_once,
            "telemetry": {"enabled": False},
        }
        (home / "dagster.yaml").write_text(yaml.safe_dump(settings))
        self._env = {
            "PATH": f"{self._bin}:/usr/bin:/bin",
            "HOME": str(home),
            "DAGSTER_HOME": str(home),
            "DAGSTER_PYTHON": str(self._bin / "python"),
            "PLANE": plane.address,
            "NO_PROXY": "*",
        }

    def run(self, program: str, *arguments: str) -> str:
        done = subprocess.run(
            [self._bin / program, *arguments],
            env=self._env,
            cwd=self._home,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120 * PATIENCE,
        )
        assert done.returncode == 0, f"{program} {arguments}:\n{done.stdout[-6000:]}"
        return done.stdout

    def launch(self, job: str) -> str:
        """The id of the run."""
        run = str(uuid.uuid4())
        where = ("-f", str(DEFINITIONS), "-j", job, "--run-id", run)
        self.run("dagster", "job", "launch", *where)
        return run

    def wait_for(self, run: str, status: str) -> None:
        def look() -> bool:
            now = self.run("python", "-c", STATUS, run).split()[-1]
            # Dagster notices a job that failed only by its daemon.
            job = self._plane.native_job(f"dagster-run-{run}")
            if now != status and job["state"] == "failed":
                raise Failed(job["message"])
            return now == status

        wait_until(
            look,
            f"run {run} is {status}",
            60,
            every=1,
        )


@pytest.fixture(scope="module")
def dagster(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Dagster:
    return Dagster(tmp_path_factory.mktemp("dagster"), plane)


def test_the_launcher_runs_each_run_as_a_job(dagster: Dagster, plane: Plane) -> None:
    run = dagster.launch("one_ray_job")
    dagster.wait_for(run, "SUCCESS")
    job = plane.native_job(f"dagster-run-{run}")
    assert job["cluster"] == "centos", "the launcher's metadata is a hint"


def test_a_terminated_run_stops_its_job(dagster: Dagster, plane: Plane) -> None:
    run = dagster.launch("waiting")
    dagster.wait_for(run, "STARTED")
    assert dagster.run("python", "-c", TERMINATE, run).split()[-1] == "True"
    wait_until(lambda: plane.native_job(f"dagster-run-{run}")["state"] == "stopped", "stopped")


def test_the_pipes_client_reads_what_its_job_reports(dagster: Dagster, plane: Plane) -> None:
    said = dagster.run("dagster", "job", "execute", "-f", str(DEFINITIONS), "-j", "pipes")
    assert "answer 42 from centos" in said
