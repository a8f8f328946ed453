"""The job of an Airflow task, without Airflow: its id, and which job a try of the task runs.

tests/integrations has the same with a real Airflow.
"""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import time

import pytest

from ray_multicluster_scheduler._jobs.jobs import Jobs
from ray_multicluster_scheduler._plane.client import ControlPlane
from ray_multicluster_scheduler.airflow import _log, _run
from ray_multicluster_scheduler.airflow._ids import job_id
from ray_multicluster_scheduler.airflow._run import TaskJob
from ray_multicluster_scheduler.errors import IdConflictError
from support.fake_plane import FakePlane
from support.plane import REPOSITORY

JOB = {"entrypoint": "python train.py"}
RUN = "scheduled__2026-11-18T00:00:00+00:00"
LOG = logging.getLogger("task")


@pytest.fixture
def task(fake: FakePlane) -> TaskJob:
    return TaskJob(ControlPlane(fake.address), "a-task", LOG)


def submissions(fake: FakePlane) -> int:
    return len(fake.asked("POST", "/v1/jobs$"))


# -- ids


def test_an_id_is_readable_stable_and_accepted() -> None:
    made = job_id("airflow", "etl", "train", RUN)
    assert made.startswith("airflow.etl.train.scheduled__2026-11-18T00-00-00-00-00-")
    assert made == job_id("airflow", "etl", "train", RUN, -1)
    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", made)


@pytest.mark.parametrize(
    "other",
    [
        ("staging", "etl", "train", RUN, -1),
        ("airflow", "etl.train", "train", RUN, -1),
        ("airflow", "etl", "train", RUN.replace("+", "-"), -1),
        ("airflow", "etl", "train", RUN, 0),
        ("airflow", "etl", "train.0", RUN, -1),
    ],
)
def test_another_task_has_another_id(other: tuple[str, str, str, str, int]) -> None:
    assert job_id(*other) != job_id("airflow", "etl", "train", RUN, -1)


@pytest.mark.parametrize("name", ["x" * 250, "数据", "../../etc", "a b;c"])
def test_any_name_makes_an_accepted_id(name: str) -> None:
    first, second = job_id("p", name, "train", RUN, 7), job_id("p", name, "train", RUN, 8)
    for made in (first, second):
        assert re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", made)
    assert first != second


# -- which job


def test_the_first_try_submits(task: TaskJob, jobs: Jobs, fake: FakePlane) -> None:
    job, was_found = task.begin(jobs, JOB, is_retry=False)
    assert (job.id, was_found, submissions(fake)) == ("a-task", False, 1)


@pytest.mark.parametrize("state", ["queued", "running", "unknown"])
def test_a_job_that_goes_on_is_found(
    task: TaskJob, jobs: Jobs, fake: FakePlane, state: str
) -> None:
    fake.add("a-task", state)
    _, was_found = task.begin(jobs, {"entrypoint": "python changed.py"}, is_retry=True)
    assert was_found
    assert submissions(fake) == 0


def test_a_job_that_succeeded_after_its_worker_was_lost_does_not_run_twice(
    task: TaskJob, jobs: Jobs, fake: FakePlane
) -> None:
    fake.add("a-task", "succeeded")
    job, was_found = task.begin(jobs, JOB, is_retry=True)
    assert (job.state, was_found, submissions(fake)) == ("succeeded", True, 0)


def test_a_cleared_task_runs_a_job_that_succeeded_from_the_start(
    task: TaskJob, jobs: Jobs, fake: FakePlane
) -> None:
    fake.add("a-task", "succeeded")
    job, was_found = task.begin(jobs, JOB, is_retry=False)
    assert (job.state, was_found) == ("queued", False)


@pytest.mark.parametrize("state", ["failed", "stopped"])
def test_a_job_that_failed_runs_again_under_its_id(
    task: TaskJob, jobs: Jobs, fake: FakePlane, state: str
) -> None:
    task.begin(jobs, JOB, is_retry=False)
    fake.change("a-task", state)
    job, was_found = task.begin(jobs, JOB, is_retry=True)
    assert (job.state, was_found) == ("queued", False)
    assert len(fake.asked("POST", "/v1/jobs/a-task/rerun")) == 1


def test_a_changed_task_replaces_its_failed_job(task: TaskJob, jobs: Jobs, fake: FakePlane) -> None:
    task.begin(jobs, JOB, is_retry=False)
    fake.change("a-task", "failed")
    task.begin(jobs, {"entrypoint": "python corrected.py"}, is_retry=False)
    assert fake.jobs["a-task"]["sent"]["entrypoint"] == "python corrected.py"
    assert fake.jobs["a-task"]["state"] == "queued"


def test_the_job_of_someone_else_is_not_deleted(task: TaskJob, jobs: Jobs, fake: FakePlane) -> None:
    fake.refuse = [(409, "conflict", "0")]
    with pytest.raises(IdConflictError):
        task.begin(jobs, JOB, is_retry=False)
    assert fake.asked("DELETE", ".*") == []


# -- waiting


def test_only_running_time_counts(task: TaskJob, fake: FakePlane) -> None:
    hour = 3_600_000
    fake.add("a-task", "queued", submitted_at=int(time.time() * 1000) - hour)
    assert not _run.is_overdue(task.look(), 60)
    fake.change("a-task", "running", running_at=int(time.time() * 1000) - hour)
    assert _run.is_overdue(task.look(), 60)
    assert not _run.is_overdue(task.look(), None)
    assert task.wait(60).state == "running"
    fake.change("a-task", "succeeded")
    assert not _run.is_overdue(task.look(), 60)


def test_a_control_plane_that_restarts_fails_no_task(
    task: TaskJob, fake: FakePlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_run, "SHORTEST_PAUSE", 0.05)
    fake.add("a-task", "running")
    fake.go_away()
    assert task.look_once() is None

    def comes_back(_: float) -> None:
        if fake._server is None:
            fake.change("a-task", "succeeded", tell=False)
            fake.come_back()

    monkeypatch.setattr(_run.time, "sleep", comes_back)
    assert task.wait().state == "succeeded"


def test_stopping_a_job_that_has_ended_is_no_error(task: TaskJob, fake: FakePlane) -> None:
    assert not task.stop()
    fake.add("a-task", "succeeded")
    assert not task.stop()
    fake.change("a-task", "running")
    assert task.stop()


# -- its log


def test_the_log_is_copied_line_by_line_and_bounded(
    fake: FakePlane, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_log, "MOST", 20)
    fake.add("a-task", "running")
    pieces = ["one\ntw", "o\nthree\n", "four is too much\n", "five\n"]
    starts = [sum(map(len, pieces[:n])) for n in range(len(pieces))]
    fake.log_events = [
        [
            *(
                ("log", {"attempt": 1, "from": at, "text": text})
                for at, text in zip(starts, pieces)
            ),
            ("end", {}),
        ]
    ]
    with caplog.at_level("INFO", "task"), _log.Copied(ControlPlane(fake.address), "a-task", LOG):
        pass
    copied = [record.getMessage() for record in caplog.records if record.name == "task"]
    assert copied[:3] == ["one", "two", "three"]
    assert len(copied) == 4
    assert "ray-multicluster logs a-task" in copied[3]


def test_a_log_may_end_without_a_newline() -> None:
    assert list(_log.lines(["a", "b\n", "c"])) == ["ab", "c"]
    # A progress bar without a newline: what is kept stays small, and nothing is lost.
    endless = list(_log.lines(["x" * 100_000] * 5))
    assert sum(map(len, endless)) == 500_000
    assert max(map(len, endless)) <= _log.LONGEST


# -- without Airflow


def test_the_provider_needs_no_airflow_to_describe_itself() -> None:
    program = (
        "import sys\n"
        "from ray_multicluster_scheduler.airflow import get_provider_info\n"
        "print(get_provider_info()['connection-types'][0]['connection-type'])\n"
        "assert not {'airflow', 'ray'} & set(sys.modules)\n"
    )
    env = {"PYTHONPATH": str(REPOSITORY / "python"), "PATH": "/usr/bin:/bin"}
    said = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "ray_multicluster"
