"""examples/quant_prediction as it is, with its own numbers: two clusters of 16 CPUs, jobs that
need 16 and start 16 actors."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import ray
import yaml

from performance.fakes import fake_clusters
from ray_multicluster_scheduler import __version__
from support import conda, packages, processes
from support.packages import Environment
from support.plane import REPOSITORY, Plane
from support.pool import Pool
from support.program import environment
from support.ray_cluster import Clusters, RayCluster
from support.user import User
from support.waiting import PATIENCE

EXAMPLE = REPOSITORY / "examples" / "quant_prediction"
#: From the users' cluster.yaml: their first PYTHONPATH entry is the project.
PROJECT = Path("project/pycharm/Fund")
POOL = yaml.safe_load((REPOSITORY / "examples" / "cluster.yaml").read_text())
USERS = {cluster["name"]: cluster for cluster in POOL["clusters"]}
ACTORS = {"graph_prediction": "graph", "fund_prediction": "fund"}

# A program in a conda environment, and its job.
SUBMITS_FROM_CONDA = """
import sys
import ray_multicluster_scheduler as rms

with rms.initialize_scheduler_environment():
    job = rms.submit_job(f"python {sys.argv[1]}", preferred_cluster="centos", required=True)
    rms.wait_for_all_jobs([job])
    print(rms.get_job_logs(job))
"""
IN_CONDA = """
import os, shutil, sys
import ray, ray_multicluster_scheduler

ray.init(log_to_driver=False)
print("driver", sys.prefix)
print("worker", ray.get(ray.remote(lambda: sys.prefix).remote()))
print("named", os.environ["CONDA_DEFAULT_ENV"])
print("ray", ray.__version__, os.path.dirname(ray.__file__))
print("program", shutil.which("ray-multicluster"))
print("sdk", ray_multicluster_scheduler.__version__)
"""


@pytest.fixture(scope="module")
def sixteen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    """`centos` and `mac` with exactly 16 CPUs each, and as much of conda as Ray needs."""
    both: Clusters = {}
    try:
        for name, cluster in USERS.items():
            env = conda.install(
                tmp_path_factory.mktemp(name) / "conda", cluster["runtime_env"]["conda"]
            )
            both[name] = RayCluster(name, num_cpus=16, env=env)
        with ThreadPoolExecutor() as threads:
            list(threads.map(RayCluster.start, both.values()))
        yield both
    finally:
        for cluster in both.values():
            cluster.remove()


@pytest.fixture
def homes(tmp_path: Path) -> dict[str, Path]:
    """The laptop and each cluster have a copy below their own home."""
    homes = {name: tmp_path / name / "zorro" for name in ("laptop", *USERS)}
    for home in homes.values():
        shutil.copytree(EXAMPLE, home / PROJECT)
    return homes


def at_home(cluster: dict[str, Any], home: Path) -> dict[str, Any]:
    """The users' runtime_env, below a home that exists here."""
    theirs = cluster["runtime_env"]
    variables = theirs["env_vars"]
    moved = {
        name: value.replace(variables["home_dir"], f"{home}/") for name, value in variables.items()
    }
    return {**theirs, "env_vars": moved}


def a_plane(directory: Path, clusters: list[RayCluster], more: list[dict[str, Any]]) -> Plane:
    pool = Pool(clusters)
    pool.clusters += more
    return Plane(directory, pool)


def test_the_users_programs_run_as_they_stand_and_a_third_job_waits_for_the_first(
    sixteen: Clusters, homes: dict[str, Path], tmp_path: Path
) -> None:
    """Each of two jobs that need 16 CPUs has a cluster of 16 to itself, with that cluster's paths,
    variables and conda, and all its 16 actors on it. The third reports what it waits for, and never
    goes to a cluster of 10."""
    before = companions(sixteen)
    with fake_clusters(1, cpus=10) as [small]:
        plane = a_plane(tmp_path / "plane", list(sixteen.values()), [{**small, "name": "small"}])
        for name, cluster in USERS.items():
            plane.pool[name].update(
                prefer=cluster["prefer"],
                weight=cluster["weight"],
                tags=cluster["tags"],
                runtime_env=at_home(cluster, homes[name]),
            )
        try:
            plane.start()
            plane.wait_healthy()
            program = [sys.executable, homes["laptop"] / PROJECT / "main.py"]
            done = subprocess.run(
                [*program, "graph_prediction", "fund_prediction", "graph_prediction"],
                env=environment(plane, homes["laptop"]),
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=220 * PATIENCE,
            )
            said = done.stdout + done.stderr
            assert done.returncode == 0, said + plane.output()[-4000:]
            ids = [job["id"] for job in plane.get("/v1/jobs")["items"]]
            jobs = sorted(map(plane.native_job, ids), key=lambda job: job["submitted_at"])
            assert [job["cluster"] for job in jobs[:2]] in (["centos", "mac"], ["mac", "centos"])
            check_the_third(jobs, done.stderr)
            for job in jobs:
                check_job(plane, sixteen[job["cluster"]], job, homes[job["cluster"]])
        finally:
            plane.close()
    assert companions(sixteen) <= before


def check_the_third(jobs: list[dict[str, Any]], said: str) -> None:
    """It waited until one of the first two had ended, and the terminal showed why."""
    first_end = min(job["ended_at"] for job in jobs[:2])
    assert jobs[2]["dispatched_at"] >= first_end
    waits = [line for line in said.splitlines() if jobs[2]["id"] in line and " queued" in line]
    assert waits, said
    # Their actors fill the clusters; before and after that, the jobs' claims count.
    full = ("busy: CPU 100 % in use", "no room: CPU 16 requested, 0 free, running jobs need 16")
    for line in waits:
        for cluster in USERS:
            assert any(f"{cluster}: {why}" in line for why in full), line
        assert "small: too small: CPU 16 requested, 10 in total" in line


def check_job(plane: Plane, cluster: RayCluster, job: dict[str, Any], home: Path) -> None:
    script = job["metadata"]["job_name"]
    folder = home / PROJECT
    assert job["demand"] == {"CPU": 16}
    assert job["reserves"] == {}
    on_ray = cluster.job(job["id"])
    assert on_ray is not None
    assert (on_ray["status"], on_ray["entrypoint"]) == (
        "SUCCEEDED",
        f"python {folder}/jobs/{script}.py",
    )
    assert on_ray["runtime_env"]["conda"] == USERS[cluster.name]["runtime_env"]["conda"]
    printed = plane.get(f"/v1/jobs/{job['id']}/logs")["text"]
    said = f"{script} runs on {cluster.name}, at home in {home}/, with the models in {folder}"
    assert said in printed
    assert printed.count(f"Predictor on {cluster.name}: test ") == 16
    # As the cluster itself reports, and for this job alone.
    actors = cluster.get("/api/v0/actors?limit=10000&detail=1")["data"]["result"]["result"]
    ours = [actor for actor in actors if actor["job_id"] == on_ray["job_id"]]
    assert {actor["name"] for actor in ours} == {f"{ACTORS[script]}-{n}" for n in range(16)}
    assert all(
        actor["required_resources"] == {"CPU": 1.0, "memory": float(1 << 30)} for actor in ours
    )


def test_a_program_whose_jobs_fit_on_no_cluster_says_so_at_once_and_waits(
    homes: dict[str, Path], tmp_path: Path
) -> None:
    with fake_clusters(2, cpus=10) as small:
        plane = a_plane(tmp_path / "plane", [], small)
        try:
            plane.start()
            plane.wait_healthy()
            program = subprocess.Popen(
                [sys.executable, homes["laptop"] / PROJECT / "main.py", "graph_prediction"],
                env=environment(plane, homes["laptop"]),
                cwd=tmp_path,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert program.stderr is not None
            first = program.stderr.readline()
            notice = "needs CPU 16, but the largest cluster has 10; queued until a cluster grows"
            assert first.rstrip().endswith(notice), first
            [job] = plane.get("/v1/jobs")["items"]
            assert job["state"] == "queued"
            program.send_signal(signal.SIGINT)
            program.communicate(timeout=60 * PATIENCE)
            assert program.returncode != 0
        finally:
            plane.close()


# If it was not built before, the program is compiled first.
@pytest.mark.timeout(900)
def test_a_program_in_conda_and_its_job_run_in_the_environment_ts(
    sixteen: Clusters, tmp_path: Path
) -> None:
    """The wheel is installed into `ts`, and the cluster has `runtime_env: {conda: ts}`."""
    centos = sixteen["centos"]
    place = Path(centos.env["RAY_CONDA_HOME"]) / "envs" / "ts"
    ts = Environment(place, packages.platform_wheel(tmp_path / "wheel"))
    ts.add(f"ray[default]=={ray.__version__}")
    script = tmp_path / "in_conda.py"
    script.write_text(IN_CONDA)
    user = User(tmp_path / "user")
    plane = a_plane(tmp_path / "plane", [centos], [])
    plane.pool["centos"]["runtime_env"] = {"conda": "ts"}
    try:
        plane.start()
        plane.wait_healthy()
        address = {"RAY_MULTICLUSTER_ADDRESS": plane.address}
        ran = ts.run(user, "python", "-c", SUBMITS_FROM_CONDA, script, **address)
    finally:
        plane.close()
        user.leave()
    assert ran.returncode == 0, ran.stderr + plane.output()[-4000:]
    said = dict(line.split(" ", 1) for line in ran.stdout.splitlines() if " " in line)
    packages_of_ts = sysconfig.get_path("platlib", vars={"platbase": str(place)})
    assert said.get("driver") == said.get("worker") == str(place), ran.stdout
    assert said["named"] == "ts"
    assert said["ray"] == f"{ray.__version__} {packages_of_ts}/ray"
    assert said["program"] == str(place / "bin" / "ray-multicluster")
    assert said["sdk"] == __version__


def companions(clusters: Clusters) -> set[int]:
    """The processes that Ray starts for programs outside of a cluster; see docs/diagnosis.md."""
    pids = [pid for cluster in clusters.values() for pid in cluster.pids]
    return {pid for pid in pids if "specific-server" in processes.command_line(pid)}
