"""The end-to-end core on one version after another: by default the oldest that is supported.

`make compat` runs all of them (COMPAT=all) and writes docs/compatibility.md.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import pytest
import ray

from support.jobs import appends, hints, unique_id, wait_for, wait_for_all
from support.plane import REPOSITORY, MakePlane, Plane
from support.pool import Pool
from support.ray_cli import RayCli
from support.ray_cluster import BIN, RayCluster, clean_environment
from support.waiting import PATIENCE, wait_until

from .versions import ALL, NEWEST, OLDEST, Version

pytestmark = [pytest.mark.ray_client, pytest.mark.timeout(600)]
PROGRAM = Path(__file__).parent / "program.py"
TRIED = ALL if os.environ.get("COMPAT") == "all" else [OLDEST]


def test_the_versions_that_are_claimed_are_those_that_are_tested() -> None:
    from ray_multicluster_scheduler._ray import internals

    assert (OLDEST.ray, NEWEST.ray) == internals.TESTED
    assert ray.__version__ == NEWEST.ray, "the rest of the suite"
    extra = f'ray = ["ray[client]>={OLDEST.ray},<{next_minor(NEWEST.ray)}"]'
    for file in ("pyproject.toml", "python/pyproject.toml"):
        assert extra in (REPOSITORY / file).read_text().splitlines(), file


def next_minor(version: str) -> str:
    major, minor, _ = version.split(".")
    return f"{major}.{int(minor) + 1}"


@dataclass(frozen=True)
class Tried:
    """A cluster of one version, a control plane above it, and a user with the same version."""

    version: Version
    cluster: RayCluster
    plane: Plane
    home: Path

    @property
    def cli(self) -> RayCli:
        return RayCli(self.plane.address, self.home, self.cluster.bin)

    def program(self, part: str) -> str:
        return program(self.cluster.bin, self.home, self.plane, part)


def program(bin: Path, home: Path, plane: Plane, *arguments: str) -> str:
    """What a user's program prints, run with the Python and the Ray of that `bin`."""
    done = subprocess.run(
        [str(bin / "python"), str(PROGRAM), *arguments],
        env={
            **clean_environment(home, bin),
            "PYTHONPATH": str(REPOSITORY / "python"),
            "RAY_MULTICLUSTER_ADDRESS": plane.address,
        },
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=180 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


@pytest.fixture(scope="module", params=TRIED, ids=str)
def tried(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tried]:
    version: Version = request.param
    python = version.interpreter()
    if python is None:
        pytest.skip(f"Python {version.python} is not installed here")
    cluster = RayCluster("tried", bin=version.installed(python))
    plane = None
    try:
        cluster.start()
        plane = Plane(tmp_path_factory.mktemp("plane"), Pool([cluster])).start()
        plane.wait_healthy()
        yield Tried(version, cluster, plane, tmp_path_factory.mktemp("home"))
    finally:
        if plane is not None:
            plane.close()
        cluster.remove()


def test_resources_and_versions_are_read(tried: Tried) -> None:
    found = tried.plane.cluster("tried")
    assert found["ray_version"] == tried.version.ray
    assert found["python_version"].startswith(f"{tried.version.python}.")
    assert found["total"]["CPU"] == 4
    job = tried.plane.client.submit_job(entrypoint="sleep 60", entrypoint_num_cpus=2)

    def used() -> bool:
        return tried.plane.cluster("tried")["used"].get("CPU") == 2

    wait_until(used, "the cluster shows what the job's driver has", 60)
    tried.plane.client.stop_job(job)
    wait_for(tried.plane.client, job, "STOPPED")


def test_its_own_command_line_submits_a_folder_and_follows_the_log(
    tried: Tried, tmp_path: Path
) -> None:
    (tmp_path / "main.py").write_text("print('from the folder')\n")
    job = unique_id("folder")
    arguments = ["--submission-id", job, "--working-dir", str(tmp_path), "--", "python", "main.py"]
    followed = tried.cli.job("submit", *arguments).ok()
    assert "from the folder" in followed
    assert "succeeded" in tried.cli.job("status", job).ok().lower()
    assert "from the folder" in tried.cli.job("logs", job).ok()
    assert job in tried.cli.job("list").ok()


def test_its_own_command_line_stops_a_job(tried: Tried) -> None:
    job = unique_id("long")
    tried.cli.job("submit", "--no-wait", "--submission-id", job, "--", "sleep", "600").ok()
    wait_for(tried.plane.client, job, "RUNNING")
    tried.cli.job("stop", job).ok()
    wait_for(tried.plane.client, job, "STOPPED")


def test_a_failed_job_says_why(tried: Tried) -> None:
    entrypoint = f"sh -c {shlex.quote('echo decisive; exit 3')}"
    job = tried.plane.client.submit_job(entrypoint=entrypoint)
    assert "decisive" in wait_for(tried.plane.client, job, "FAILED").message


def test_a_job_of_the_sdk_submits_tasks_and_actors_from_inside(tried: Tried) -> None:
    assert "all is well" in tried.program("job")


def test_a_program_submits_tasks_and_actors(tried: Tried) -> None:
    assert "all is well" in tried.program("work")


def test_nothing_is_lost_or_run_twice_when_the_control_plane_is_killed(
    tried: Tried, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    names = [unique_id("killed") for _ in range(3)]
    for name in names:
        entrypoint = f"sh -c {shlex.quote(appends(name, ran, 'sleep 3'))}"
        tried.plane.client.submit_job(entrypoint=entrypoint, submission_id=name)
    wait_until(ran.exists, "the first one runs", 60)
    tried.plane.kill()
    tried.plane.start()
    wait_for_all(tried.plane.client, names)
    told = [tried.plane.native_job(name) for name in names]
    assert [(job["state"], job["attempts"]) for job in told] == [("succeeded", 1)] * 3, told
    assert sorted(ran.read_text().split()) == sorted(names), json.dumps(told)


def test_a_label_selector_works_or_the_job_says_why(
    tried: Tried, record_property: Callable[[str, object], None]
) -> None:
    """Every node matches, so only Ray's version decides."""
    job = {
        "id": unique_id("labelled"),
        "entrypoint": "true",
        "entrypoint_label_selector": {"ray.io/node-id": "!in(x)"},
    }
    tried.plane.post("/v1/jobs", job)
    ended = wait_for(tried.plane.client, job["id"])
    if ended.status != "SUCCEEDED":
        (reason,) = re.findall(r"unexpected keyword argument '\w+'", ended.message)
        assert "entrypoint_label_selector" in reason
        record_property("shown", "no")
        record_property("reason", f"the job fails at once: {reason}")


def test_one_pool_has_it_beside_the_newest(
    tried: Tried, centos: RayCluster, make_plane: MakePlane, tmp_path: Path
) -> None:
    if tried.version == NEWEST:
        pytest.skip("this is the newest")

    def both(pool: Pool) -> None:
        pool.clusters = Pool([tried.cluster, centos]).clusters

    plane = make_plane(both)
    ids = {cluster: unique_id("mixed") for cluster in ("tried", "centos")}
    for cluster, job in ids.items():
        told = hints(cluster, required=True)
        plane.client.submit_job(entrypoint=f"echo on {cluster}", submission_id=job, metadata=told)
    wait_for_all(plane.client, list(ids.values()))
    # Either command line shows the jobs of both clusters.
    for bin in (tried.cluster.bin, BIN):
        for cluster, job in ids.items():
            assert f"on {cluster}" in RayCli(plane.address, tmp_path, bin).job("logs", job).ok()

    said = program(tried.cluster.bin, tmp_path, plane, "mixed", "tried", "centos")
    assert f"Ray {NEWEST.ray}" in said.partition("answered:")[2], said
    said = program(BIN, tmp_path, plane, "mixed", "centos", "tried")
    assert f"Ray {tried.version.ray}" in said.partition("answered:")[2], said
