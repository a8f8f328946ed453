"""Ray's Jobs API by its own client: each test passes against Ray itself and against the plane."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import ray
import requests
from ray.dashboard.modules.job.common import JobInfo
from ray.job_submission import JobDetails, JobStatus, JobType

from support.door import Door
from support.jobs import hints, own_metadata, unique_id, wait_for
from support.plane import MakePlane, Plane
from support.ray_cluster import RayCluster
from support.waiting import wait_until


def test_a_job_runs_and_its_details_are_those_of_ray(door: Door) -> None:
    job_id = door.client.submit_job(entrypoint="echo hello from the job")
    assert job_id.startswith("raysubmit_")
    info = wait_for(door.client, job_id, "SUCCEEDED")
    assert info.type is JobType.SUBMISSION
    assert info.submission_id == job_id
    assert info.entrypoint == "echo hello from the job"
    assert isinstance(info.start_time, int)
    assert isinstance(info.end_time, int)
    assert 0 < info.start_time <= info.end_time
    assert door.client.get_job_status(job_id) is JobStatus.SUCCEEDED
    assert "hello from the job\n" in door.client.get_job_logs(job_id)


def test_a_failed_job_says_its_exit_code_and_last_lines(door: Door) -> None:
    job_id = door.client.submit_job(entrypoint="echo the last words; exit 3")
    info = wait_for(door.client, job_id, "FAILED")
    assert "exit code 3" in info.message
    assert "the last words" in info.message


def test_the_end_of_a_failures_text_is_kept(door: Door) -> None:
    # Ray passes on the last ten lines, up to 20,000 characters.
    lines = "for n in range(9): print(str(n) * 2100)"
    job_id = door.client.submit_job(entrypoint=f"python -c '{lines}'; echo the last words; exit 3")
    info = wait_for(door.client, job_id, "FAILED")
    assert info.message.startswith("Job entrypoint command failed with exit code 3")
    assert info.message.rstrip().endswith("the last words")
    assert ("bytes left out]…" in info.message) is door.is_plane
    listed = next(job for job in door.client.list_jobs() if job.submission_id == job_id)
    assert listed.message == info.message


CONNECTS = """python -c 'import ray, time; ray.init(); print("connected"); time.sleep({seconds})'"""


def test_the_driver_of_a_job_that_called_ray_init_is_told(door: Door) -> None:
    job_id = door.client.submit_job(entrypoint=CONNECTS.format(seconds=300))
    wait_until(
        lambda: door.client.get_job_info(job_id).driver_info is not None, "its driver is seen", 90
    )
    info = door.client.get_job_info(job_id)
    driver = info.driver_info
    assert driver is not None
    assert info.status is JobStatus.RUNNING
    assert len(driver.id) == 8
    assert driver.id == info.job_id
    assert driver.node_ip_address == "127.0.0.1"
    assert Path(f"/proc/{int(driver.pid)}").exists()
    door.client.stop_job(job_id)
    ended = wait_for(door.client, job_id, "STOPPED")
    listed = next(job for job in door.client.list_jobs() if job.submission_id == job_id)
    for shown in (ended, listed):
        assert (shown.job_id, shown.driver_info) == (info.job_id, driver)
        assert shown.driver_node_id == info.driver_node_id


def test_what_was_seen_of_a_job_outlives_its_cluster_and_the_plane(
    make_plane: MakePlane, mac: RayCluster
) -> None:
    plane = make_plane(lambda pool: pool.clusters.remove(pool["centos"]))
    job_id = plane.client.submit_job(entrypoint=CONNECTS.format(seconds=0) + "; exit 3")
    info = wait_for(plane.client, job_id, "FAILED")
    assert (info.driver_exit_code, info.error_type) == (3, "JOB_ENTRYPOINT_COMMAND_ERROR")
    assert info.driver_info is not None
    plane.stop()
    plane.pool["mac"]["dashboard"] = "http://127.0.0.1:1"
    plane.start()
    assert plane.client.get_job_info(job_id) == info
    assert [job for job in plane.client.list_jobs() if job.submission_id == job_id] == [info]


def test_a_job_that_waits_says_so_in_rays_words_and_then_why(plane: Plane) -> None:
    job_id = plane.client.submit_job(entrypoint="true", entrypoint_num_cpus=64)
    rays = JobInfo(status=JobStatus.PENDING, entrypoint="true", entrypoint_num_cpus=64)
    assert "waiting for resources" in rays.message
    info = plane.client.get_job_info(job_id)
    assert info.message.startswith(f"{rays.message}\n")
    assert "centos: too small: CPU 64 requested" in info.message
    listed = next(job for job in plane.client.list_jobs() if job.submission_id == job_id)
    assert listed.message.startswith(rays.message)
    plane.client.stop_job(job_id)
    stopped = JobInfo(status=JobStatus.STOPPED, entrypoint="true")
    assert wait_for(plane.client, job_id, "STOPPED").message.startswith(stopped.message)


def test_two_identical_submissions_without_an_id_are_two_jobs(plane: Plane) -> None:
    def submit(**metadata: str) -> str:
        # Larger than any cluster: it waits.
        return plane.client.submit_job(
            entrypoint="true", entrypoint_num_cpus=65, metadata=hints(**metadata)
        )

    ids = [submit(), submit(), submit(dedup="content"), submit(dedup="content")]
    assert len({*ids}) == 3
    assert ids[2] == ids[3]
    for job_id in {*ids}:
        assert plane.client.stop_job(job_id) is True


def test_what_ray_knows_of_the_driver_is_told(door: Door) -> None:
    fine = door.client.submit_job(entrypoint="exit 0")
    fails = door.client.submit_job(entrypoint="exit 3")
    info = wait_for(door.client, fine, "SUCCEEDED")
    assert (info.driver_exit_code, info.error_type) == (0, None)
    assert info.driver_node_id
    assert info.driver_agent_http_address
    info = wait_for(door.client, fails, "FAILED")
    assert (info.driver_exit_code, info.error_type) == (3, "JOB_ENTRYPOINT_COMMAND_ERROR")


def test_id_metadata_and_runtime_env_are_kept_as_given(door: Door) -> None:
    job_id = unique_id("kept")
    metadata = {"team": "quant", "ünïcode": "✓", "empty": ""}
    returned = door.client.submit_job(
        entrypoint='echo "colour=$COLOUR"',
        submission_id=job_id,
        metadata=metadata,
        runtime_env={"env_vars": {"COLOUR": "deep blue"}},
    )
    assert returned == job_id
    info = wait_for(door.client, job_id, "SUCCEEDED")
    assert own_metadata(info) == metadata
    # The plane adds the cluster's own below; the job's own values are unchanged.
    assert info.runtime_env["env_vars"]["COLOUR"] == "deep blue"
    assert "colour=deep blue\n" in door.client.get_job_logs(job_id)


def test_a_taken_id_is_refused_in_rays_words(door: Door) -> None:
    job_id = door.client.submit_job(entrypoint="true", submission_id=unique_id("taken"))
    with pytest.raises(RuntimeError, match=f"{job_id} already exists"):
        door.client.submit_job(entrypoint="echo another", submission_id=job_id)
    wait_for(door.client, job_id, "SUCCEEDED")


@pytest.mark.parametrize(
    "call", ["get_job_status", "get_job_info", "get_job_logs", "stop_job", "delete_job"]
)
def test_an_unknown_id_is_an_error(door: Door, call: str) -> None:
    with pytest.raises(RuntimeError, match=r"404(?s:.*)no-such-job does not exist"):
        getattr(door.client, call)("no-such-job")


def test_tailing_an_unknown_id_is_an_error(door: Door) -> None:
    # The client reports that the upgrade was refused, with the status.
    with pytest.raises(aiohttp.WSServerHandshakeError, match="404"):
        asyncio.run(tail(door, "no-such-job"))


def test_a_running_job_is_stopped(door: Door) -> None:
    job_id = door.client.submit_job(entrypoint="sleep 300")
    wait_for(door.client, job_id, "RUNNING")
    assert door.client.stop_job(job_id) is True
    info = wait_for(door.client, job_id, "STOPPED")
    assert info.end_time is not None
    assert info.message == "Job was intentionally stopped."
    # Nothing is left to stop.
    assert door.client.stop_job(job_id) is False


def test_only_an_ended_job_is_deleted(door: Door) -> None:
    job_id = door.client.submit_job(entrypoint="sleep 300")
    wait_for(door.client, job_id, "RUNNING")
    with pytest.raises(RuntimeError, match="non-terminal state RUNNING"):
        door.client.delete_job(job_id)
    door.client.stop_job(job_id)
    wait_for(door.client, job_id, "STOPPED")
    if not door.is_plane:
        # Ray brings a job back that is deleted within a second of its end. The plane must not.
        time.sleep(3)
    assert door.client.delete_job(job_id) is True
    with pytest.raises(RuntimeError, match="does not exist"):
        door.client.get_job_info(job_id)
    assert job_id not in {job.submission_id for job in door.client.list_jobs()}


def test_the_list_holds_every_job_with_its_details(door: Door) -> None:
    ids = [door.client.submit_job(entrypoint=f"echo {n}") for n in range(2)]
    for job_id in ids:
        wait_for(door.client, job_id, "SUCCEEDED")
    listed: dict[str | None, JobDetails] = {j.submission_id: j for j in door.client.list_jobs()}
    for n, job_id in enumerate(ids):
        assert listed[job_id].entrypoint == f"echo {n}"
        assert listed[job_id].status is JobStatus.SUCCEEDED
        assert listed[job_id] == door.client.get_job_info(job_id)


async def tail(door: Door, job_id: str, first: list[JobStatus] | None = None) -> str:
    text = ""
    async for lines in door.client.tail_job_logs(job_id):
        if first is not None and not first:
            first.append(door.client.get_job_status(job_id))
        text += lines
    return text


def test_logs_are_tailed_while_the_job_runs(door: Door) -> None:
    job_id = door.client.submit_job(
        entrypoint="for n in 1 2 3 4 5 6; do echo line $n; sleep 1; done"
    )
    at_first_line: list[JobStatus] = []
    text = asyncio.run(tail(door, job_id, at_first_line))
    # Ray's own first lines come before, and the job's in order and once.
    assert [line for line in text.splitlines() if line.startswith("line ")] == [
        f"line {n}" for n in range(1, 7)
    ]
    assert at_first_line == [JobStatus.RUNNING], "the first line came before the job had ended"
    # The end of the tail is the end of the job, because `ray job submit` reads the state only once.
    assert door.client.get_job_status(job_id) is JobStatus.SUCCEEDED


def test_the_tail_of_an_ended_job_is_its_whole_log(door: Door) -> None:
    job_id = door.client.submit_job(entrypoint="seq 1 5000; echo grüße ✓")
    wait_for(door.client, job_id, "SUCCEEDED")
    logs = door.client.get_job_logs(job_id)
    wanted = [*map(str, range(1, 5001)), "grüße ✓"]
    assert [line for line in logs.splitlines() if line in set(wanted)] == wanted
    assert asyncio.run(tail(door, job_id)) == logs


def test_the_version_is_that_of_ray(door: Door) -> None:
    assert int(door.client.get_version()) >= 4
    assert door.client.get_address() == door.address
    version = requests.get(f"{door.address}/api/version", timeout=20).json()
    assert set(version) == {"version", "ray_version", "ray_commit", "session_name"}
    assert version["ray_version"] == ray.__version__
    assert version["ray_commit"] == ray.__commit__


def a_program(directory: Path) -> Path:
    """A working directory with a module beside the program, and a file it must not upload."""
    directory.mkdir()
    (directory / "main.py").write_text("import helper\nprint('answer', helper.ANSWER)\n")
    (directory / "helper.py").write_text(f"ANSWER = {str(directory)!r}\n")
    (directory / ".gitignore").write_text("secret.txt\n")
    (directory / "secret.txt").write_text("not for upload")
    return directory


def test_a_working_directory_is_uploaded_and_used(door: Door, tmp_path: Path) -> None:
    program = a_program(tmp_path / "program")
    for _ in range(2):  # the second time, the package exists already
        job_id = door.client.submit_job(
            entrypoint="python main.py && ls", runtime_env={"working_dir": str(program)}
        )
        wait_for(door.client, job_id, "SUCCEEDED")
        logs = door.client.get_job_logs(job_id)
        assert f"answer {program}" in logs
        assert "secret.txt" not in logs


def test_python_modules_are_uploaded_and_importable(door: Door, tmp_path: Path) -> None:
    module = tmp_path / "e2e_module"
    module.mkdir()
    (module / "__init__.py").write_text(f"WHERE = {str(tmp_path)!r}\n")
    job_id = door.client.submit_job(
        entrypoint="python -c 'import e2e_module; print(e2e_module.WHERE)'",
        runtime_env={"py_modules": [str(module)]},
    )
    wait_for(door.client, job_id, "SUCCEEDED")
    assert str(tmp_path) in door.client.get_job_logs(job_id)


def test_entrypoint_resources_are_reserved_on_the_cluster(door: Door, centos: RayCluster) -> None:
    job_id = door.client.submit_job(
        entrypoint="sleep 300",
        entrypoint_num_cpus=1.5,
        entrypoint_memory=64 * 1024 * 1024,
        # Only centos has it, so that the plane has no choice either.
        entrypoint_resources={"linux_only": 2},
    )
    wait_for(door.client, job_id, "RUNNING")

    def used() -> bool:
        nodes = centos.get("/nodes?view=summary&nocache=1")["data"]["nodeLogicalResources"]
        text = "\n".join(nodes.values())
        return all(part in text for part in ("1.5/4.0 CPU", "2.0/4.0 linux_only", "64.00MiB/"))

    wait_until(used, "Ray shows what the job has reserved", timeout=30)
    door.client.stop_job(job_id)
    wait_for(door.client, job_id, "STOPPED")


REFUSED: list[tuple[str, Any, str]] = [
    ("no entrypoint", {}, "entrypoint"),
    ("entrypoint of a wrong type", {"entrypoint": 5}, "must be"),
    ("unknown key", {"entrypoint": "true", "colour": "blue"}, "unexpected keyword argument"),
    ("id of a wrong type", {"entrypoint": "true", "submission_id": 7}, "must be"),
    ("metadata of a wrong type", {"entrypoint": "true", "metadata": [1]}, "must be"),
    ("metadata values of a wrong type", {"entrypoint": "true", "metadata": {"a": 1}}, "must be"),
    ("runtime_env of a wrong type", {"entrypoint": "true", "runtime_env": ["x"]}, ""),
    ("CPUs of a wrong type", {"entrypoint": "true", "entrypoint_num_cpus": "two"}, "must be"),
]


@pytest.mark.parametrize(("body", "words"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_a_malformed_request_is_refused(door: Door, body: object, words: str) -> None:
    answer = requests.post(f"{door.address}/api/jobs/", json=body, timeout=20)
    assert answer.status_code == 400, answer.text
    assert words in answer.text
    assert answer.headers["content-type"].startswith("text/plain")


def test_nulls_count_as_absent(door: Door) -> None:
    body = {"entrypoint": "true", "runtime_env": None, "metadata": None, "submission_id": None}
    answer = requests.post(f"{door.address}/api/jobs/", json=body, timeout=20)
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {"job_id", "submission_id"}
    wait_for(door.client, answer.json()["submission_id"], "SUCCEEDED")


def test_a_package_is_there_once_it_was_put(door: Door) -> None:
    url = f"{door.address}/api/packages/gcs/_ray_pkg_{unique_id('e2e')}.zip"
    missing = requests.get(url, timeout=20)
    assert missing.status_code == 404
    assert "does not exist" in missing.text
    assert requests.put(url, data=b"PK\x05\x06" + bytes(18), timeout=20).status_code == 200
    assert requests.get(url, timeout=20).status_code == 200


def test_the_trailing_slash_of_the_list_matters(door: Door) -> None:
    assert requests.get(f"{door.address}/api/jobs", timeout=20).status_code == 404
