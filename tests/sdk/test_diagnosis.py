"""What docs/diagnosis.md says, checked on the process table and on Ray's own side."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ray_multicluster_scheduler import Scheduler, initialize_scheduler_environment
from support import processes, program
from support.jobs import ENDED, Ended, unique_id, wait_for_all
from support.plane import REPOSITORY, MakePlane, Plane
from support.pool import HOMES
from support.ray_cluster import Clusters, where
from support.waiting import PATIENCE, holds_for, wait_until

FLAVOURS = {"centos": "linux", "mac": "darwin"}


@pytest.fixture
def roomy(make_plane: MakePlane) -> Plane:
    """A plane that uses clusters to the last CPU, so that nothing here waits for room."""
    return make_plane(resource_threshold=1.0)


@pytest.fixture
def scheduler(roomy: Plane, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scheduler]:
    """The SDK in this very program. It only submits jobs, so it never connects to a cluster."""
    monkeypatch.setenv("RAY_MULTICLUSTER_ADDRESS", roomy.address)
    with initialize_scheduler_environment() as scheduler:
        yield scheduler


def test_monitoring_and_jobs_start_no_client_server_and_neither_does_work_inside_a_job(
    scheduler: Scheduler, clusters: Clusters, tmp_path: Path
) -> None:
    before = client_servers(clusters)
    go_on = tmp_path / "go-on"
    entrypoint = shlex.join(["python", str(program.PROGRAMS / "within.py"), str(go_on)])
    environment = {"env_vars": {"PYTHONPATH": str(REPOSITORY / "python")}}
    ids = {
        name: scheduler.submit_job(
            entrypoint, environment, submission_id=unique_id(name), preferred_cluster=name
        )
        for name in clusters
    }
    for name, job_id in ids.items():
        found = f"found: {FLAVOURS[name]} {FLAVOURS[name]}"
        wait_until(
            lambda j=job_id, line=found: line in log_of_a_live_job(scheduler, j),
            f"{job_id} has used its cluster",
            timeout=120,
        )
    # Both jobs, their tasks and actors are there, and have been watched all the while.
    holds_for(
        lambda: count_since(before, clusters) == {"centos": 0, "mac": 0},
        3,
        "no specific-server while jobs run and clusters are watched",
    )
    go_on.touch()
    assert scheduler.wait_for_all_jobs(list(ids.values()), timeout=120 * PATIENCE)
    assert [where(clusters, job_id) for job_id in ids.values()] == [[name] for name in ids]
    assert count_since(before, clusters) == {"centos": 0, "mac": 0}


def test_a_program_outside_has_one_client_server_on_each_cluster_it_uses(
    roomy: Plane, clusters: Clusters, tmp_path: Path
) -> None:
    before = client_servers(clusters)

    def wait_for_count(**wanted: int) -> None:
        # The process of a connection that was dropped while another was opened (their ids were
        # the same) stays for half a minute.
        wait_until(
            lambda: count_since(before, clusters) == wanted, f"there are {wanted}", timeout=90
        )

    with connected(roomy, tmp_path, "mac") as found:
        assert found == ["mac darwin darwin"] * 2
        wait_for_count(centos=0, mac=1)
        with connected(roomy, tmp_path, "centos", "mac") as found:
            assert sorted(found) == ["centos linux linux"] * 2 + ["mac darwin darwin"] * 2
            wait_for_count(centos=1, mac=2)


def test_jobs_for_two_clusters_at_once_each_run_with_their_own_clusters_runtime_env(
    scheduler: Scheduler, roomy: Plane, clusters: Clusters
) -> None:
    """From as many threads as jobs; the runtime_env they share is one dictionary."""
    shared = {"env_vars": {"MINE": "/home/zorro/data"}}
    wanted = list(clusters) * 2

    def submit(name: str) -> str:
        return scheduler.submit_job(
            "env", shared, submission_id=unique_id(name), preferred_cluster=name
        )

    with ThreadPoolExecutor(len(wanted)) as threads:
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
        assert own.items() <= printed_environment(scheduler.get_job_logs(job_id)).items()
        assert where(clusters, job_id) == [name]
        assert own.items() <= runtime_env_at_ray(clusters, name, job_id)["env_vars"].items()
    assert shared == {"env_vars": {"MINE": "/home/zorro/data"}}


def test_the_tests_that_the_page_names_are_there() -> None:
    page = (REPOSITORY / "docs/diagnosis.md").read_text()
    named = set(re.findall(r"\btest_\w+\b(?!\.py)", page))
    tests = "".join(file.read_text() for file in (REPOSITORY / "tests").rglob("test_*.py"))
    assert len(named) >= 4
    assert {name for name in named if f"def {name}(" not in tests} == set()


@contextmanager
def connected(plane: Plane, home: Path, *clusters: str) -> Iterator[list[str]]:
    """The program of that name, alive; gives what it found. It ends by itself, or is ended."""
    process = program.start("connected", plane, home, *clusters)
    try:
        yield what_it_found(process)
        rest, _ = process.communicate(timeout=60 * PATIENCE)
        assert process.returncode == 0, rest[-3000:]
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def what_it_found(process: subprocess.Popen[str]) -> list[str]:
    lines: list[str] = []
    for line in process.stdout or []:
        if line.strip() == "ready":
            return [line[len("found: ") :] for line in lines if line.startswith("found: ")]
        lines.append(line.strip())
    raise AssertionError("it ended early:\n" + "\n".join(lines[-40:]))


def client_servers(clusters: Clusters) -> dict[str, set[int]]:
    """The processes on each cluster that serve one Ray Client connection each. Those of programs
    that have ended stay for half a minute."""
    return {
        name: {p for p in cluster.pids if "--mode=specific-server" in processes.command_line(p)}
        for name, cluster in clusters.items()
    }


def count_since(before: dict[str, set[int]], clusters: Clusters) -> dict[str, int]:
    """How many have been started since, and are there."""
    return {name: len(now - before[name]) for name, now in client_servers(clusters).items()}


def log_of_a_live_job(scheduler: Scheduler, job_id: str) -> str:
    log = scheduler.get_job_logs(job_id)
    if scheduler.get_job_status(job_id) in ENDED:
        raise Ended(f"{job_id} has ended early:\n{log[-3000:]}")
    return log


def printed_environment(log: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in log.splitlines() if "=" in line)


def runtime_env_at_ray(clusters: Clusters, cluster: str, job_id: str) -> dict[str, Any]:
    job = clusters[cluster].job(job_id)
    assert job is not None
    return job["runtime_env"]
