"""Jobs of programs on two real clusters: run, failed, interrupted, left alone."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ray_multicluster_scheduler import errors
from ray_multicluster_scheduler._jobs.jobs import Jobs
from ray_multicluster_scheduler._plane.client import ControlPlane
from support import program
from support.jobs import unique_id
from support.plane import REPOSITORY, MakePlane, Plane
from support.ray_cluster import Clusters, where
from support.waiting import PATIENCE, wait_until

PROGRAM = """
import pathlib, sys
print(sorted(path.name for path in pathlib.Path(".").iterdir()), flush=True)
import mine
print(mine.__doc__, flush=True)
sys.exit("that was it")
"""


@pytest.fixture(scope="module")
def jobs(plane: Plane) -> Jobs:
    return Jobs(ControlPlane(plane.address))


def test_a_job_runs_with_what_it_brought_along_and_its_failure_is_told(
    jobs: Jobs, tmp_path: Path
) -> None:
    work, library = tmp_path / "work", tmp_path / "mine"
    for folder in (work / "data", work / ".git", library):
        folder.mkdir(parents=True)
    (work / "main.py").write_text(PROGRAM)
    (work / "data/big.csv").write_text("not here")
    (work / "notes.log").write_text("nor here")
    (work / ".gitignore").write_text("*.log")
    (library / "__init__.py").write_text('"""brought along"""')
    job = jobs.submit(
        "python main.py",
        submission_id=unique_id("brings"),
        runtime_env={
            "working_dir": str(work),
            "py_modules": [str(library)],
            "excludes": ["data/"],
        },
        preferred_cluster="mac",
        resource_requirements={"CPU": 1},
        metadata={"run": 7},
    )
    followed = "".join(jobs.tail(job))
    assert "['.gitignore', 'main.py']\nbrought along\nthat was it\n" in followed
    with pytest.raises(errors.JobFailedError) as failed:
        jobs.wait(job)
    assert f"job {job} failed on mac: that was it (exit code 1)" in str(failed.value)
    assert failed.value.last_lines.endswith("brought along\nthat was it\n")
    assert jobs.logs(job) == followed
    assert jobs.logs(job, lines=1) == "that was it\n"
    info = jobs.info(job)
    assert (info.status, info.cluster, info.attempt) == ("FAILED", "mac", 1)
    assert (info.metadata, info.resources) == ({"run": "7"}, {"CPU": 1})
    assert jobs.list(state="FAILED", cluster="mac", limit=1)[0].id == job


INSIDE = """
from ray_multicluster_scheduler import get_job_info, submit_job, wait_for_all_jobs
job = submit_job("true")
wait_for_all_jobs([job])
print("inside:", get_job_info(job).cluster, job, flush=True)
"""


def test_what_a_job_submits_stays_on_its_cluster(
    jobs: Jobs, clusters: Clusters, tmp_path: Path
) -> None:
    (tmp_path / "outer.py").write_text(INSIDE)
    outer = jobs.submit(
        "python outer.py",
        runtime_env={
            "working_dir": str(tmp_path),
            "env_vars": {"PYTHONPATH": str(REPOSITORY / "python")},
        },
        preferred_cluster="mac",
    )
    assert jobs.wait(outer, timeout=120 * PATIENCE)
    said = next(line for line in jobs.logs(outer).splitlines() if line.startswith("inside:"))
    inner = said.split()[2]
    assert said.split()[1] == "mac"
    assert where(clusters, inner) == ["mac"]
    assert jobs.info(inner).parent_job == outer


@contextlib.contextmanager
def script(plane: Plane, home: Path, *jobs: str) -> Iterator[subprocess.Popen[str]]:
    home.mkdir()
    # Their own configuration: folders of clusters are uploaded only if it names them.
    own = str(plane.config)
    running = program.start("submits_and_waits", plane, home, *jobs, CLUSTER_CONFIG_FILE=own)
    try:
        yield running
    finally:
        running.kill()
        running.wait()


def read_until(running: subprocess.Popen[str], text: str) -> None:
    assert running.stdout is not None
    for line in running.stdout:
        if text in line:
            return
    raise AssertionError(f"it ended before it said {text!r}")


def test_ctrl_c_and_sigterm_stop_what_a_script_submitted(
    plane: Plane, jobs: Jobs, tmp_path: Path
) -> None:
    """Two scripts in parallel, one for each signal: neither touches the other's jobs."""
    mine = jobs.submit("sleep 600", submission_id=unique_id("mine"), preferred_cluster="mac")
    ids = {name: unique_id(name) for name in ("runs_a", "waits_a", "runs_b", "waits_b")}

    def wanted(which: str) -> list[str]:
        return [f"{ids['runs_' + which]}:0.1:sleep 600", f"{ids['waits_' + which]}:500:true"]

    with contextlib.ExitStack() as scripts:
        a = scripts.enter_context(script(plane, tmp_path / "a", *wanted("a")))
        b = scripts.enter_context(script(plane, tmp_path / "b", *wanted("b")))
        read_until(a, f"{ids['runs_a']} running on mac")
        read_until(b, f"{ids['runs_b']} running on mac")
        a.send_signal(signal.SIGINT)
        said = a.communicate(timeout=30 * PATIENCE)[0]
        assert f"{ids['runs_a']}: stopping on mac" in said
        assert f"{ids['waits_a']}: stopped" in said
        assert "KeyboardInterrupt" in said
        assert jobs.status(ids["waits_b"]) == "PENDING"
        assert jobs.status(ids["runs_b"]) == "RUNNING"
        b.send_signal(signal.SIGTERM)
        b.communicate(timeout=30 * PATIENCE)
        assert b.returncode == 143
    for job in ids.values():
        wait_until(lambda job=job: jobs.status(job) == "STOPPED", f"{job} is stopped", 60)
    assert jobs.status(mine) == "RUNNING", "it is somebody else's"
    assert jobs.stop(mine)


def test_queued_jobs_of_a_killed_program_still_run(
    make_plane: MakePlane, clusters: Clusters, tmp_path: Path
) -> None:
    """With the folders that their cluster's own runtime_env names: the program uploaded them."""
    of_cluster = tmp_path / "of_cluster"
    of_cluster.mkdir()
    (of_cluster / "settings.txt").write_text("")
    plane = make_plane(lambda pool: pool["mac"]["runtime_env"].update(working_dir=str(of_cluster)))
    plane.post("/v1/clusters/mac/cordon", {"note": "until the program is dead"})
    plane.post("/v1/clusters/centos/cordon", {"note": "until the program is dead"})
    ids = [unique_id("survives") for _ in range(2)]
    wanted = [f"{job}:0.1:cat settings.txt" for job in ids]
    with script(plane, tmp_path / "home", *wanted) as running:
        read_until(running, f"{ids[1]} queued: centos: cordoned")
        running.kill()
    plane.post("/v1/clusters/mac/uncordon")
    # Another program, which knows only the ids.
    later = Jobs(ControlPlane(plane.address))
    assert later.wait(ids, timeout=120 * PATIENCE)
    assert [where(clusters, job) for job in ids] == [["mac"], ["mac"]]
    assert later.submitted == []
