"""What docs/diagnosis.md says, checked on the process table and on Ray's own side."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support import processes
from support.jobs import unique_id, wait_for_all
from support.plane import REPOSITORY, MakePlane, Plane
from support.pool import HOMES
from support.ray_cluster import Clusters, RayCluster, clean_environment, where
from support.waiting import PATIENCE, holds_for, wait_until

FLAVOURS = {"centos": "linux", "mac": "darwin"}
SDK = str(REPOSITORY / "python")

# A program that uses the clusters it is told, from several threads, and then waits for a line.
OUTSIDE = """
import os, sys, threading
from concurrent.futures import ThreadPoolExecutor
import ray
import ray_multicluster_scheduler as rms

def flavour():
    return os.environ["CLUSTER_FLAVOUR"]

class Keeper:
    def flavour(self):
        return os.environ["CLUSTER_FLAVOUR"]

def use(cluster):
    _, ref = rms.submit_task(flavour, preferred_cluster=cluster)
    _, actor = rms.submit_actor(Keeper, preferred_cluster=cluster)
    return cluster, ray.get([ref, actor.flavour.remote()])

with rms.initialize_scheduler_environment():
    with ThreadPoolExecutor(6) as threads:
        for cluster, flavours in threads.map(use, sys.argv[1].split(",") * 3):
            print(cluster, *flavours)
    print("ready", flush=True)
    sys.stdin.readline()
"""

# A job that uses its own cluster by way of the SDK, and then waits until a file appears.
INSIDE = """
import json, os, sys, time
import ray
from ray_multicluster_scheduler.app.client_api import submit_actor, submit_task

def flavour():
    return os.environ["CLUSTER_FLAVOUR"]

class Keeper:
    def flavour(self):
        return os.environ["CLUSTER_FLAVOUR"]

_, ref = submit_task(func=flavour)
_, actor = submit_actor(actor_class=Keeper, resource_requirements={"CPU": 1})
print("INSIDE", json.dumps(ray.get([ref, actor.flavour.remote()])), flush=True)
deadline = time.monotonic() + 120
while not os.path.exists(sys.argv[1]) and time.monotonic() < deadline:
    time.sleep(0.2)
"""


@pytest.fixture
def roomy(make_plane: MakePlane) -> Plane:
    """A plane that uses clusters to the last CPU, so that nothing here waits for room."""
    return make_plane(resource_threshold=1.0)


def test_monitoring_and_jobs_start_no_client_server_and_neither_does_work_inside_a_job(
    roomy: Plane, clusters: Clusters, tmp_path: Path
) -> None:
    wait_until(lambda: not any(client_servers(clusters).values()), "earlier programs are gone")
    script, go_on = tmp_path / "inside.py", tmp_path / "go-on"
    script.write_text(INSIDE)
    entrypoint = shlex.join(["python", str(script), str(go_on)])
    environment = {"env_vars": {"PYTHONPATH": SDK}}
    with sdk(roomy) as scheduler:
        ids = {
            name: scheduler.submit_job(
                entrypoint,
                runtime_env=environment,
                submission_id=unique_id(name),
                preferred_cluster=name,
            )
            for name in clusters
        }
        for name, job_id in ids.items():
            line = f'INSIDE ["{FLAVOURS[name]}", "{FLAVOURS[name]}"]'
            wait_until(
                lambda j=job_id, text=line: text in scheduler.get_job_logs(j),
                f"{job_id} has used its cluster",
                timeout=120,
            )
        # Both jobs, their tasks and actors are there, and have been looked at all the while.
        holds_for(
            lambda: client_servers(clusters) == {"centos": 0, "mac": 0},
            3,
            "no specific-server while jobs run and clusters are watched",
        )
        go_on.touch()
        assert scheduler.wait_for_all_jobs(list(ids.values()), timeout=120 * PATIENCE)
    assert {name: where(clusters, job_id) for name, job_id in ids.items()} == {
        name: [name] for name in clusters
    }
    assert client_servers(clusters) == {"centos": 0, "mac": 0}


def test_a_program_outside_has_one_client_server_on_each_cluster_it_uses(
    roomy: Plane, clusters: Clusters, tmp_path: Path
) -> None:
    def counted(centos: int, mac: int) -> None:
        wanted = {"centos": centos, "mac": mac}
        wait_until(lambda: client_servers(clusters) == wanted, f"specific-servers are {wanted}")

    counted(0, 0)
    with outside(roomy, tmp_path / "one", "mac") as said:
        assert said == ["mac darwin darwin"] * 3
        counted(0, 1)
        with outside(roomy, tmp_path / "two", "centos,mac") as said:
            assert sorted(said) == ["centos linux linux"] * 3 + ["mac darwin darwin"] * 3
            counted(1, 2)
        counted(0, 1)
    counted(0, 0)


def test_jobs_for_two_clusters_at_once_each_run_with_their_own_clusters_runtime_env(
    roomy: Plane, clusters: Clusters
) -> None:
    """From as many threads as jobs; the runtime_env they share is one dictionary."""
    shared = {"env_vars": {"MINE": "/home/zorro/data"}}
    wanted = list(clusters) * 3
    with sdk(roomy) as scheduler, ThreadPoolExecutor(len(wanted)) as threads:

        def submit(name: str) -> str:
            return scheduler.submit_job(
                "env", runtime_env=shared, submission_id=unique_id(name), preferred_cluster=name
            )

        ids = list(threads.map(submit, wanted))
        jobs = wait_for_all(roomy.client, ids)
        assert {job.status for job in jobs.values()} == {"SUCCEEDED"}
        for name, job_id in zip(wanted, ids):
            own = {
                "CLUSTER_FLAVOUR": FLAVOURS[name],
                "home_dir": HOMES[name],
                "MINE": f"{HOMES[name]}data",
                "RAY_MULTICLUSTER_CURRENT_CLUSTER": name,
            }
            # Inside, and as Ray has it.
            assert own.items() <= printed_environment(scheduler.get_job_logs(job_id)).items()
            assert own.items() <= seen_by_ray(clusters, name, job_id)["env_vars"].items()
    assert shared == {"env_vars": {"MINE": "/home/zorro/data"}}


@contextmanager
def sdk(plane: Plane) -> Iterator[Any]:
    """The SDK of this program, attached to `plane`."""
    from ray_multicluster_scheduler import initialize_scheduler_environment

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_MULTICLUSTER_ADDRESS", plane.address)
        with initialize_scheduler_environment() as scheduler:
            yield scheduler


@contextmanager
def outside(plane: Plane, directory: Path, clusters: str) -> Iterator[list[str]]:
    """The program `OUTSIDE`, alive; gives what it printed. It ends by itself, or is ended."""
    directory.mkdir()
    program = directory / "outside.py"
    program.write_text(OUTSIDE)
    environment = clean_environment(directory)
    environment.update(RAY_MULTICLUSTER_ADDRESS=plane.address, PYTHONPATH=SDK)
    log = directory / "stderr"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, str(program), clusters],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        said: list[str] = []
        for line in process.stdout:
            if line.strip() == "ready":
                break
            said.append(line.strip())
        else:
            raise AssertionError(f"it ended early: {said}\n{log.read_text()[-3000:]}")
        yield said
        process.communicate("go on\n", timeout=60 * PATIENCE)
        assert process.returncode == 0, log.read_text()[-3000:]
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def client_servers(clusters: Clusters) -> dict[str, int]:
    """How many processes there are on each cluster that serve one Ray Client connection."""
    return {name: len(specific_servers(cluster)) for name, cluster in clusters.items()}


def specific_servers(cluster: RayCluster) -> list[int]:
    lines = {pid: processes.command_line(pid) for pid in cluster.pids}
    return [pid for pid, line in lines.items() if "--mode=specific-server" in line]


def printed_environment(log: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in log.splitlines() if "=" in line)


def seen_by_ray(clusters: Clusters, cluster: str, job_id: str) -> dict[str, Any]:
    """The runtime_env of a job as its cluster has it."""
    assert where(clusters, job_id) == [cluster]
    job = clusters[cluster].job(job_id)
    assert job is not None
    found = job["runtime_env"]
    return json.loads(found) if isinstance(found, str) else found
