"""The statements of docs/diagnosis.md, checked with the process table and with Ray itself."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from ray_multicluster_scheduler import Scheduler, initialize_scheduler_environment
from support import processes, program
from support.jobs import ENDED, Ended, unique_id, wait_for_all
from support.plane import REPOSITORY, MakePlane, Plane
from support.pool import HOMES, Pool
from support.ray_cluster import Clusters, where
from support.waiting import PATIENCE, holds_for, wait_until

pytestmark = pytest.mark.ray_client

FLAVOURS = {"centos": "linux", "mac": "darwin"}
SCRIPTS = "project/pycharm/Fund/Index_Markup_Forecasting"


@pytest.fixture
def roomy(make_plane: MakePlane) -> Plane:
    """A plane that uses clusters to the last CPU, so that nothing here waits for room."""
    return make_plane(resource_threshold=1.0)


@pytest.fixture
def scheduler(roomy: Plane, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scheduler]:
    monkeypatch.setenv("RAY_MULTICLUSTER_ADDRESS", roomy.address)
    with initialize_scheduler_environment() as scheduler:
        yield scheduler


def test_a_job_on_centos_has_its_actors_there_and_no_daemon_on_mac_although_mac_is_preferred(
    make_plane: MakePlane, clusters: Clusters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Report 1: the prototype decided again inside the job, and by these weights for mac."""
    plane = make_plane(lambda pool: as_the_users_have(pool, "prefer", "weight"))
    assert plane.post("/v1/what-if", {"entrypoint": "true"})["chosen"] == "mac"
    before, elsewhere = client_servers(clusters), actors(clusters, "mac")
    monkeypatch.setenv("RAY_MULTICLUSTER_ADDRESS", plane.address)
    with initialize_scheduler_environment() as scheduler:
        go_on = tmp_path / "go-on"
        job_id = submit_within(scheduler, "centos", go_on)
        wait_until_it_used_its_cluster(scheduler, "centos", job_id)
        on_ray = clusters["centos"].job(job_id)
        assert on_ray is not None
        own = [actor for actor in actors(clusters, "centos") if actor[0] == on_ray["job_id"]]
        assert [(name, state) for _, _, name, state in own] == [("Keeper", "ALIVE")]
        assert actors(clusters, "mac") == elsewhere
        assert count_since(before, clusters) == {"centos": 0, "mac": 0}
        go_on.touch()
        assert scheduler.wait_for_all_jobs([job_id], timeout=120 * PATIENCE)


def test_monitoring_and_jobs_start_no_client_server_and_neither_does_work_inside_a_job(
    scheduler: Scheduler, clusters: Clusters, tmp_path: Path
) -> None:
    before = client_servers(clusters)
    go_on = tmp_path / "go-on"
    ids = {name: submit_within(scheduler, name, go_on) for name in clusters}
    for name, job_id in ids.items():
        wait_until_it_used_its_cluster(scheduler, name, job_id)
    # Both jobs, their tasks and actors run, and have been watched all the time.
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
        # The process of a connection that was dropped while another was opened (their ids were the
        # same) stays for half a minute.
        wait_until(
            lambda: count_since(before, clusters) == wanted, f"there are {wanted}", timeout=90
        )

    with connected(roomy, tmp_path, "mac") as found:
        assert found == ["mac darwin darwin"] * 2
        wait_for_count(centos=0, mac=1)
        (daemon,) = client_servers(clusters)["mac"] - before["mac"]
        assert is_a_driver_on_the_dashboard(clusters, "mac", daemon)
        with connected(roomy, tmp_path, "centos", "mac") as found:
            assert sorted(found) == ["centos linux linux"] * 2 + ["mac darwin darwin"] * 2
            wait_for_count(centos=1, mac=2)


def test_jobs_without_a_runtime_env_are_sent_that_of_their_own_cluster(
    make_plane: MakePlane, clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Report 2, with the users' values: the prototype sent all of them that of the first cluster
    in the file. There is no conda here: Ray writes down what it was sent, and fails to set it up.
    """
    plane = make_plane(
        lambda pool: as_the_users_have(pool, "prefer", "weight", "runtime_env"),
        submission_interval="20s",
    )
    monkeypatch.setenv("RAY_MULTICLUSTER_ADDRESS", plane.address)
    with initialize_scheduler_environment() as scheduler:
        # The third has to wait, like one of the prototype's that took the wrong values.
        ids = [
            scheduler.submit_job(
                f"python /Users/zorro/{SCRIPTS}/{name}/predict_cluster.py",
                submission_id=unique_id(name),
                metadata={"job_name": name},
            )
            for name in ("bunch_and_reverse_model", "index_ts_forecasting_model", "third")
        ]
        assert plane.native_job(ids[2])["state"] == "queued"
        went_to = []
        for job_id in ids:
            assert not plane.native_job(job_id).get("runtime_env"), "it is kept as it was given"
            (name,) = wait_until(
                lambda j=job_id: where(clusters, j), f"{job_id} is on a cluster", timeout=60
            )
            home = HOMES[name]
            sent = runtime_env_at_ray(clusters, name, job_id)
            assert sent["conda"] == {"centos": "ts", "mac": "k8s"}[name]
            assert sent["env_vars"]["home_dir"] == home
            folders = ("Fund", "tools", "rlops", "mlops", "ray_multicluster_scheduler")
            path = [f"{home}project/pycharm/{folder}" for folder in folders]
            assert sent["env_vars"]["PYTHONPATH"] == ":".join([*path, "${PYTHONPATH}"])
            assert sent["env_vars"]["RAY_MULTICLUSTER_CURRENT_CLUSTER"] == name
            shown = plane.get(f"/v1/jobs/{job_id}/resolved?cluster={name}")
            assert shown["entrypoint"].startswith(f"python {home}{SCRIPTS}/")
            assert (shown["cluster"], shown["runtime_env"]["conda"]) == (name, sent["conda"])
            for variable in ("home_dir", "PYTHONPATH", "RAY_MULTICLUSTER_CURRENT_CLUSTER"):
                assert shown["runtime_env"]["env_vars"][variable] == sent["env_vars"][variable]
            # Otherwise it is tried on the other cluster, before later jobs.
            scheduler.stop_job(job_id)
            went_to.append(name)
    assert set(went_to[:2]) == {"centos", "mac"}


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


def as_the_users_have(pool: Pool, *keys: str) -> None:
    for entry in yaml.safe_load((REPOSITORY / "examples/cluster.yaml").read_text())["clusters"]:
        # The control plane removes the newlines of a block. The pool is not written as blocks.
        variables = entry["runtime_env"]["env_vars"]
        variables["PYTHONPATH"] = variables["PYTHONPATH"].replace("\n", "")
        pool[entry["name"]].update({key: entry[key] for key in keys})


def submit_within(scheduler: Scheduler, cluster: str, go_on: Path) -> str:
    """A job that makes the users' calls, and ends when that file exists."""
    return scheduler.submit_job(
        shlex.join(["python", str(program.PROGRAMS / "within.py"), str(go_on)]),
        {"env_vars": {"PYTHONPATH": str(REPOSITORY / "python")}},
        submission_id=unique_id(cluster),
        preferred_cluster=cluster,
    )


def wait_until_it_used_its_cluster(scheduler: Scheduler, cluster: str, job_id: str) -> None:
    found = f"found: {FLAVOURS[cluster]} {FLAVOURS[cluster]}"
    wait_until(
        lambda: found in log_of_a_live_job(scheduler, job_id),
        f"{job_id} has used its cluster",
        timeout=120,
    )


@contextmanager
def connected(plane: Plane, home: Path, *clusters: str) -> Iterator[list[str]]:
    """The program of that name, running; yields its output. It exits, or is ended."""
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
    """How many have been started since, and still run."""
    return {name: len(now - before[name]) for name, now in client_servers(clusters).items()}


def is_a_driver_on_the_dashboard(clusters: Clusters, cluster: str, daemon: int) -> bool:
    """Where the page says to look: an entry of its own, which belongs to no submitted job."""
    return any(
        (job["type"], job["submission_id"]) == ("DRIVER", None)
        and job["driver_info"]["pid"] == str(daemon)
        and "--mode=specific-server" in job["entrypoint"]
        for job in clusters[cluster].get("/api/jobs/")
    )


def actors(clusters: Clusters, cluster: str) -> list[tuple[str, str, str, str]]:
    """(driver, actor, class, state), as the cluster itself reports."""
    listed = clusters[cluster].get("/api/v0/actors?limit=10000")["data"]["result"]["result"]
    keys = ("job_id", "actor_id", "class_name", "state")
    return sorted(tuple(actor[key] for key in keys) for actor in listed)


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
