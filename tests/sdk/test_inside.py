"""Work that a scheduled job submits, with the SDK from the control plane."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ray_multicluster_scheduler import __version__
from ray_multicluster_scheduler._jobs.jobs import Jobs
from ray_multicluster_scheduler._plane.client import ControlPlane
from support.jobs import unique_id, wait_for, wait_for_all
from support.plane import REPOSITORY, MakePlane, Plane, binary
from support.pool import Pool
from support.program import PROGRAMS, environment
from support.ray_cluster import Clusters
from support.waiting import PATIENCE, wait_until

FLAVOURS = {"centos": "linux", "mac": "darwin"}


def a_plane_that_jobs_can_reach(make_plane: MakePlane) -> Plane:
    def inject(pool: Pool) -> None:
        for cluster in pool.clusters:
            cluster["inject_sdk"] = True

    # The job itself has to wait for this long; work that it submits does not. Work on its own
    # cluster is not placed by the control plane: this filter does not apply to it.
    filters = [{"name": "no_tasks", "filter": "cluster != 'centos' || kind == 'job'"}]
    plane = make_plane(inject, submission_interval="300s", policies=[{"name": "score"}, *filters])
    for cluster in plane.pool.clusters:
        cluster["plane_address"] = plane.address
    plane.pool.write(plane.config)
    plane.post("/v1/config/reload")
    return plane


def printed(plane: Plane, job: str) -> str:
    return plane.get(f"/v1/jobs/{job}/logs")["text"]


def found_by(plane: Plane, job: str, mark: str = "found: ") -> Any:
    (line,) = [line for line in printed(plane, job).splitlines() if line.startswith(mark)]
    return json.loads(line[len(mark) :])


def test_what_a_job_submits_stays_on_its_cluster(make_plane: MakePlane) -> None:
    plane = a_plane_that_jobs_can_reach(make_plane)
    job = unique_id("inside")
    entrypoint = f"python {PROGRAMS / 'inside.py'}"
    plane.post("/v1/jobs", {"id": job, "entrypoint": entrypoint, "preferred_cluster": "centos"})
    wait_for_all(plane.client, [job], timeout=150)
    assert plane.native_job(job)["state"] == "succeeded", plane.get(f"/v1/jobs/{job}/logs")["text"]
    found = found_by(plane, job)
    assert (found["job"], found["cluster"]) == (job, "centos")
    assert found["tasks"] == ["linux"] * 6
    assert found["batch"] == ["linux"] * 3
    assert found["actor"] == "linux"
    assert found["tagged"] == "linux", "mac carries that tag"
    assert found["taken"] == "centos"
    assert found["nested"] == ["linux", "linux"]
    assert found["sub_job_cluster"] == "centos"
    assert found["mixed"] == ["darwin", "linux"], "another cluster, if it says so"


IMPORTS = f"python {PROGRAMS / 'imports_sdk.py'}"


def checkouts(folder: Path) -> dict[str, Path]:
    """The last entries of the users' PYTHONPATH: the prototype's checkout, and ours."""
    prototype = folder / "prototype" / "ray_multicluster_scheduler"
    package = prototype / "ray_multicluster_scheduler"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('__version__ = "prototype"\n')
    ours = folder / "ours" / "ray_multicluster_scheduler"
    (ours / "python" / "ray_multicluster_scheduler").mkdir(parents=True)
    return {"centos": prototype, "mac": ours}


def submit_there(plane: Plane, cluster: str, entrypoint: str) -> str:
    """Through the SDK, as a program does."""
    jobs = Jobs(ControlPlane(plane.address))
    return jobs.submit(entrypoint, preferred_cluster=cluster, required=True)


def test_a_job_imports_the_sdk_that_submitted_it_whatever_its_pythonpath_holds(
    make_plane: MakePlane, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folders = checkouts(tmp_path)
    also = f"{tmp_path}/project:{tmp_path}/common"

    def as_the_users_have_it(pool: Pool) -> None:
        for name, folder in folders.items():
            variables = pool[name]["runtime_env"]["env_vars"]
            variables["PYTHONPATH"] = f"{also}:{folder}:${{PYTHONPATH}}"

    def without(pool: Pool) -> None:
        as_the_users_have_it(pool)
        for cluster in pool.clusters:
            cluster["inject_sdk"] = False

    # Otherwise they import the wrong copy: this is the users' report.
    bare = make_plane(without)
    wrong, nothing = (submit_there(bare, name, IMPORTS) for name in folders)
    wait_for_all(bare.client, [wrong, nothing])
    assert found_by(bare, wrong)["driver"][0] == "prototype"
    assert "No module named 'ray_multicluster_scheduler'" in printed(bare, nothing)

    plane = make_plane(as_the_users_have_it)
    capfd.readouterr()
    ids = [submit_there(plane, name, IMPORTS) for name in folders]
    wait_for_all(plane.client, ids)
    for job in ids:
        copies = found_by(plane, job)
        assert {version for version, _ in copies.values()} == {__version__}, copies
        assert {"py_modules_files" in file for _, file in copies.values()} == {True}, copies
    # The submitting program is warned of those copies, once.
    told = capfd.readouterr().err
    for name, folder in folders.items():
        line = f"cluster {name} has another copy of this package on its PYTHONPATH, {folder}"
        assert told.count(line) == 1, told


def test_only_jobs_that_the_sdk_submits_find_it_where_nobody_installed_it(
    make_plane: MakePlane, clusters: Clusters
) -> None:
    plane = make_plane()
    ours = submit_there(plane, "mac", IMPORTS)
    of_ray = plane.client.submit_job(
        entrypoint=IMPORTS, metadata={"multicluster.preferred_cluster": "mac"}
    )
    wait_for_all(plane.client, [ours, of_ray])
    assert found_by(plane, ours)["driver"][0] == __version__
    assert "No module named 'ray_multicluster_scheduler'" in printed(plane, of_ray)
    # One package for all its jobs there, by content.
    again = submit_there(plane, "mac", "true")
    wait_for(plane.client, again, "SUCCEEDED")
    modules = [clusters["mac"].job(job)["runtime_env"]["py_modules"] for job in (ours, again)]
    assert modules[0] == modules[1]
    assert len(modules[0]) == 1


def test_a_program_with_another_version_sends_its_own_and_the_job_says_so(
    make_plane: MakePlane, tmp_path: Path
) -> None:
    package = REPOSITORY / "python" / "ray_multicluster_scheduler"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(package, tmp_path / "newer" / package.name, ignore=ignored)
    (tmp_path / "newer" / package.name / "_version.py").write_text('__version__ = "9.9.9"\n')
    plane = make_plane()
    job = unique_id("newer")
    attach = "import ray_multicluster_scheduler as rms; rms.initialize_scheduler_environment()"
    program = (
        f"import ray_multicluster_scheduler as rms\n"
        f"rms.submit_job({f'python -c {shlex.quote(attach)}'!r}, submission_id={job!r})\n"
    )
    env = {**environment(plane, tmp_path), "PYTHONPATH": str(tmp_path / "newer")}
    subprocess.run([sys.executable, "-c", program], env=env, check=True, timeout=60 * PATIENCE)
    wait_for(plane.client, job, "SUCCEEDED")
    (line,) = [line for line in printed(plane, job).splitlines() if "ray-multicluster:" in line]
    assert line.startswith("ray-multicluster: this job imports ray_multicluster_scheduler 9.9.9")
    assert line.endswith(f"its control plane is {__version__}: use the same version on both sides")


def test_what_a_job_starts_and_ray_cannot_place_is_told_in_its_output_and_by_why(
    make_plane: MakePlane, tmp_path: Path
) -> None:
    def inject(pool: Pool) -> None:
        pool["centos"]["inject_sdk"] = True

    plane = make_plane(inject)
    job, end = unique_id("stuck"), tmp_path / "end"
    entrypoint = f"python {PROGRAMS / 'cannot_start.py'} {end}"
    whole = {"entrypoint_num_cpus": 4, "preferred_cluster": "centos", "required": True}
    plane.post("/v1/jobs", {"id": job, "entrypoint": entrypoint, **whole})
    try:
        holder = "this job's own driver holds 4 CPU (entrypoint_num_cpus)"
        free = f"free on centos: 0 of 4 CPU; {holder}"
        actors = f"cannot start: each asks for 1 CPU, 64 MiB memory; {free}"
        task = f"task load cannot start: it asks for 1 CPU; {free}"
        wait_until(
            lambda: all(line in printed(plane, job) for line in (actors, task)),
            "the job says what cannot start",
            timeout=60,
        )
        why = plane.get(f"/v1/jobs/{job}/explain")
        told = {one["kind"]: one for one in why["inside"]}
        assert told["task"]["text"] == task
        assert told["actor"]["text"].endswith(actors)
        assert sorted(told["actor"]["names"]) == ["hs300", "zz500"]
        assert told["actor"]["asks"] == {"CPU": 1, "memory": 64 << 20}
        assert all(one["text"] in why["summary"] for one in why["inside"])
        ran = subprocess.run(
            [binary(), "why", job, "--address", plane.address], capture_output=True, text=True
        )
        assert actors in ran.stdout, ran.stdout + ran.stderr
    finally:
        end.touch()
    wait_for(plane.client, job, "SUCCEEDED")
    said, cluster = found_by(plane, job, "refused: ")
    assert said == (
        "Ray found no place within 1 s: actor impatient cannot start: it asks for 1 CPU; " + free
    )
    assert cluster == "centos"
    # Each once, and soon.
    waits = found_by(plane, job, "said after: ")
    assert len(waits) == 2
    assert max(waits) < 10 * PATIENCE
    assert plane.get(f"/v1/jobs/{job}/explain").get("inside") is None


def test_a_job_that_stops_the_scheduler_goes_on_with_ray_and_ends_quietly(
    make_plane: MakePlane,
) -> None:
    plane = make_plane()
    job = submit_there(plane, "centos", f"python {PROGRAMS / 'stops_inside.py'}")
    wait_for(plane.client, job, "SUCCEEDED")
    # Lines of Ray itself, which any driver has.
    of_ray = ("\tINFO ", "Running entrypoint for job")
    lines = printed(plane, job).splitlines()
    assert [line for line in lines if not any(mark in line for mark in of_ray)] == [
        "before: test-0 test-1",
        "after: test-0 test-1",
        "by name: train-7",
        "plain Ray: works",
        "again: train-3",
    ]
