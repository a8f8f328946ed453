"""Our operator in a real Airflow 2 and 3, and the stock provider in Airflow 3."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any, Callable

import pytest

from integrations.airflows import Airflow
from ray_multicluster_scheduler.airflow._ids import job_id
from support.plane import Plane
from support.waiting import holds_for, wait_until

pytestmark = pytest.mark.timeout(600)

#: Triggered together at the start.
DAGS = ("journey", "fails_once", "lost", "killed", "restarted", "cleared")


class Task:
    """A task of one run, and its job."""

    def __init__(self, airflow: Airflow, plane: Plane, *names: str) -> None:
        self.names = names
        self._airflow = airflow
        self._plane = plane

    def job(self, map_index: int = -1) -> dict[str, Any]:
        dag, run, task = self.names
        return self._plane.native_job(job_id(f"af{self._airflow.major}", dag, task, run, map_index))

    def wait_for_job(self, *states: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            job = self.job()
            return job if job["state"] in states else None

        return wait_until(look, f"the job of {self.names} is {states}", 90)

    def wait_for(self, *states: str) -> None:
        self._airflow.wait_for(*self.names, *states)

    @property
    def state(self) -> str:
        return self._airflow.task(*self.names)["state"]

    def log(self) -> str:
        return self._airflow.log(*self.names)

    def mark_failed(self) -> None:
        self._airflow.mark_failed(*self.names)

    def clear(self) -> None:
        self._airflow.clear(*self.names)


GetTask = Callable[..., Task]


@pytest.fixture(scope="module")
def task(airflow: Airflow, plane: Plane) -> GetTask:
    """A task of the one run of a DAG. All runs at once: to start a task takes Airflow seconds."""
    code = airflow.files / "code"
    code.mkdir()
    (code / "data.txt").write_text("data that came along\n")
    stock = ["stock"] if airflow.major == 3 else []
    runs = {dag: airflow.trigger(dag) for dag in [*DAGS, *stock]}

    def get(dag: str, task: str = "job") -> Task:
        if dag not in runs:
            runs[dag] = airflow.trigger(dag)
        return Task(airflow, plane, dag, runs[dag], task)

    return get


def runs_of(file: Path) -> int:
    """How often a job ran that writes a line each time."""
    return len(file.read_text().split()) if file.exists() else 0


def test_jobs_with_hints_and_templates_run_and_their_logs_are_in_airflow(task: GetTask) -> None:
    first, second, mapped = (task("journey", name) for name in ("first", "second", "mapped"))
    first.wait_for("success")
    job = first.job()
    assert (job["state"], job["cluster"], job["priority"]) == ("succeeded", "mac", 5)
    assert set(job["tags"]) == {"macos", "first"}
    assert job["demand"]["CPU"] == 1
    assert job["metadata"]["team"] == "quant"
    assert job["metadata"]["airflow.dag"] == "journey"
    assert "hello journey from mac" in first.log()
    assert "data that came along" in first.log()

    second.wait_for("success")
    assert second.job()["state"] == "succeeded"
    assert "deferred on purpose" in second.log()

    wait_until(lambda: [mapped.job(index)["state"] for index in (0, 1)] == ["succeeded"] * 2, "all")


def test_a_task_whose_job_failed_runs_that_job_again(task: GetTask) -> None:
    failing = task("fails_once")
    failing.wait_for("success")
    job = failing.job()
    assert (job["state"], job["attempts"]) == ("succeeded", 2)


def test_a_task_that_lost_its_worker_finds_its_job_again(task: GetTask, airflow: Airflow) -> None:
    lost = task("lost")
    lost.wait_for_job("running")
    os.kill(int((airflow.files / "lost.pid").read_text()), signal.SIGKILL)
    wait_until(lambda: "found job" in lost.log(), "the next try has found it", 90)
    (airflow.files / "lost").touch()
    lost.wait_for("success")
    assert lost.job()["attempts"] == 1
    assert runs_of(airflow.files / "lost.runs") == 1


@pytest.mark.parametrize("name", ["waits", "deferred"])
def test_a_killed_task_stops_its_job(task: GetTask, name: str) -> None:
    killed = task("killed", name)
    killed.wait_for_job("running")
    killed.wait_for("deferred" if name == "deferred" else "running")
    killed.mark_failed()
    assert killed.wait_for_job("stopped")["attempts"] == 1


def test_a_restarted_triggerer_stops_no_job(task: GetTask, airflow: Airflow) -> None:
    restarted = task("restarted")
    restarted.wait_for_job("running")
    restarted.wait_for("deferred")
    airflow.stop_component("triggerer")
    holds_for(lambda: restarted.job()["state"] == "running", 2, "the job goes on")
    airflow.start_component("triggerer")
    (airflow.files / "restarted").touch()
    restarted.wait_for("success")
    assert restarted.job()["attempts"] == 1


@pytest.mark.parametrize("airflow", [3], indirect=True, ids=["airflow3"])
def test_a_cleared_task_runs_its_job_from_the_start(task: GetTask, airflow: Airflow) -> None:
    cleared = task("cleared")
    cleared.wait_for("success")
    cleared.clear()
    wait_until(lambda: runs_of(airflow.files / "cleared.runs") == 2, "it ran again", 90)
    cleared.wait_for("success")


def test_only_running_time_counts_for_the_timeout(task: GetTask, plane: Plane) -> None:
    plane.post("/v1/clusters/mac/cordon")
    queued, too_long, deferred = (
        task("timed", name) for name in ("queued_first", "too_long", "deferred")
    )
    queued.wait_for_job("queued")
    began = time.monotonic()
    for overdue in (too_long, deferred):
        overdue.wait_for("failed")
        assert overdue.wait_for_job("stopped")["attempts"] == 1
        assert "ran for longer than 2 s" in overdue.log()
    wait_until(
        lambda: time.monotonic() - began > 7, "it has been queued for longer than it may run"
    )
    assert queued.state == "running"
    plane.post("/v1/clusters/mac/uncordon")
    queued.wait_for("success")


@pytest.mark.parametrize("airflow", [3], indirect=True, ids=["airflow3"])
def test_the_stock_provider_runs_three_jobs_unchanged(task: GetTask, plane: Plane) -> None:
    for name in ("job1", "job2", "job3"):
        task("stock", name).wait_for("success")
    entrypoints = [job.entrypoint for job in plane.client.list_jobs() if job.status == "SUCCEEDED"]
    assert {f"echo stock job {n}" for n in (1, 2, 3)} <= set(entrypoints)
    assert "stock job 2" in task("stock", "job2").log()
