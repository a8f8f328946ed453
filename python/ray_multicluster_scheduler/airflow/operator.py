"""Runs a job of the pool as an Airflow task."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NoReturn

from .._jobs.failure import because
from .._jobs.info import JobInfo
from ..errors import JobFailedError, JobTimeoutError, SchedulerError
from ._airflow import AirflowFailException, BaseOperator, TaskDeferralTimeout, conf
from ._ids import job_id
from ._log import Copied
from ._run import TaskJob, is_overdue
from .hook import RayMulticlusterHook
from .trigger import STOP_TIMEOUT, RayMulticlusterJobTrigger

#: Lines of the job's log that a deferred task copies when the job has ended.
LAST_LINES = 1000


class RayMulticlusterJobOperator(BaseOperator):
    """Runs a job on the cluster of the pool that suits it, and waits for its end.

    The id of the job is made from dag, task, run and map index. So a task that lost its worker
    finds its job again, and a task that is tried again after its job failed runs that job again.
    If the task is killed, its job is stopped. Returns the job's id.

    :param entrypoint: the shell command
    :param conn_id: the Airflow connection to the control plane
    :param working_dir: a folder of the worker's machine, an archive or a URI
    :param env_vars: environment variables of the job
    :param runtime_env: Ray's `runtime_env`; `working_dir` and `env_vars` are added to it
    :param needs: what must be free on the cluster for the tasks and actors that the job starts,
        such as ``{"CPU": 16, "memory": "32GiB"}``
    :param driver_resources: what Ray reserves for the entrypoint itself
    :param preferred_cluster: the cluster to run on, if it is available
    :param required: run on `preferred_cluster` or not at all
    :param tags: tags that the cluster must have, and labels
    :param os: the operating system of the cluster, such as ``linux``
    :param arch: the processor architecture of the cluster, such as ``arm64``
    :param priority: a higher priority goes first
    :param max_retries: how often the control plane retries a job that failed, before the task fails
    :param retry_on: retry only if the exit code of the job is one of these
    :param never_retry_on: do not retry if the exit code of the job is one of these
    :param preemptible: the job may be stopped to make room for other work, and runs again later
    :param stop_grace: how long the job may take to end when it is stopped: ``10m``, or seconds
    :param on_cluster_loss: ``requeue`` if the job may run twice
    :param metadata: kept with the job
    :param timeout: how long the job may run, in seconds or as a timedelta. Time in queues does not
        count; Airflow's `execution_timeout` counts it
    :param deferrable: wait in the triggerer instead of a worker
    :param poll_interval: how often the triggerer looks at the job, in seconds
    """

    template_fields: Sequence[str] = (
        "entrypoint",
        "conn_id",
        "working_dir",
        "env_vars",
        "runtime_env",
        "needs",
        "driver_resources",
        "preferred_cluster",
        "tags",
        "os",
        "arch",
        "priority",
        "metadata",
    )
    template_fields_renderers = {  # noqa: RUF012 (Airflow's own has no ClassVar)
        "entrypoint": "bash",
        "env_vars": "json",
        "runtime_env": "json",
        "needs": "json",
        "driver_resources": "json",
        "metadata": "json",
    }
    ui_color = "#d9ecff"

    def __init__(
        self,
        *,
        entrypoint: str,
        conn_id: str = RayMulticlusterHook.default_conn_name,
        working_dir: str | None = None,
        env_vars: Mapping[str, str] | None = None,
        runtime_env: Mapping[str, Any] | None = None,
        needs: Mapping[str, Any] | None = None,
        driver_resources: Mapping[str, Any] | None = None,
        preferred_cluster: str | None = None,
        required: bool = False,
        tags: Sequence[str] | str | None = None,
        os: str | None = None,
        arch: str | None = None,
        priority: int | str | None = None,
        max_retries: int | None = None,
        retry_on: Sequence[int] | None = None,
        never_retry_on: Sequence[int] | None = None,
        preemptible: bool = False,
        stop_grace: str | float | timedelta | None = None,
        on_cluster_loss: str | None = None,
        metadata: Mapping[str, str] | None = None,
        timeout: float | timedelta | None = None,
        deferrable: bool | None = None,
        poll_interval: float = 10.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.entrypoint = entrypoint
        self.conn_id = conn_id
        self.working_dir = working_dir
        self.env_vars = env_vars
        self.runtime_env = runtime_env
        self.needs = needs
        self.driver_resources = driver_resources
        self.preferred_cluster = preferred_cluster
        self.required = required
        self.tags = tags
        self.os = os
        self.arch = arch
        self.priority = priority
        self.max_retries = max_retries
        self.retry_on = retry_on
        self.never_retry_on = never_retry_on
        self.preemptible = preemptible
        self.stop_grace = stop_grace
        self.on_cluster_loss = on_cluster_loss
        self.metadata = metadata
        self.timeout = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        if deferrable is None:
            deferrable = conf.getboolean("operators", "default_deferrable", fallback=False)
        self.deferrable = deferrable
        self.poll_interval = poll_interval
        self._job_id: str | None = None
        self._was_killed = False

    @functools.cached_property
    def hook(self) -> RayMulticlusterHook:
        return RayMulticlusterHook(self.conn_id)

    def execute(self, context: Mapping[str, Any]) -> str:
        task = self._task_job(context)
        self._job_id = task.id
        job, was_found = task.begin(
            self.hook.jobs, self._job(context), is_retry=_is_retry(context["ti"])
        )
        if self._was_killed:
            # Airflow 3 calls on_kill and lets the task go on: the job was submitted after that.
            self.on_kill()
        if self.deferrable and not job.has_ended:
            self._defer(was_found)
        return self._finish(task, self._follow(task), was_found)

    def execute_complete(
        self, context: Mapping[str, Any], event: Mapping[str, Any], was_found: bool = False
    ) -> str:
        """The trigger has fired."""
        task = self._task_job(context)
        self._job_id = task.id
        job = task.look()
        if not job.has_ended:
            if is_overdue(job, self.timeout):
                self._overdue(task, job)
            # It ended, and somebody runs it again.
            self._defer(was_found)
        for line in task.last_lines(LAST_LINES).splitlines():
            self.log.info("%s", line)
        return self._finish(task, job, was_found)

    def resume_execution(self, next_method: str, next_kwargs: Any, context: Any) -> Any:
        """Airflow's own, and the job does not outlive a deferral that timed out."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralTimeout:
            self._task_job(context).stop()
            raise

    def on_kill(self) -> None:
        """Stops the job. Airflow calls this from a signal handler."""
        self._was_killed = True
        if self._job_id is None:
            return
        try:
            # Not the connections in use: the signal may have come while one of them was locked.
            TaskJob(self.hook.get_new_conn(), self._job_id, self.log).stop(timeout=STOP_TIMEOUT)
            self.log.info("stopped job %s: its task was killed", self._job_id)
        except SchedulerError as error:
            self.log.error("job %s could not be stopped: %s", self._job_id, error)

    def _follow(self, task: TaskJob) -> JobInfo:
        with Copied(self.hook.get_conn(), task.id, self.log):
            job = task.wait(self.timeout)
            if not job.has_ended:
                self._overdue(task, job)
        return job

    def _finish(self, task: TaskJob, job: JobInfo, was_found: bool) -> str:
        """The id of a job that succeeded."""
        if job.state == "succeeded":
            self.log.info("job %s succeeded on %s", job.id, job.cluster)
            return job.id
        if job.state == "stopped" and was_found and not self._was_killed:
            # An earlier try of this task was killed, and its stop took effect only now.
            job = task.again(job)
            if self.deferrable:
                self._defer(was_found=False)
            return self._finish(task, self._follow(task), was_found=False)
        raise _failure(job, self._was_killed)

    def _overdue(self, task: TaskJob, job: JobInfo) -> NoReturn:
        task.stop()
        raise JobTimeoutError(
            f"job {job.id} ran for longer than {self.timeout:g} s, and is stopped",
            job_id=job.id,
            cluster=job.cluster,
        )

    def _defer(self, was_found: bool) -> NoReturn:
        assert self._job_id is not None
        self.defer(
            trigger=RayMulticlusterJobTrigger(
                self._job_id, self.conn_id, self.timeout, self.poll_interval
            ),
            method_name="execute_complete",
            kwargs={"was_found": was_found},
        )
        raise AssertionError("defer raises")

    def _task_job(self, context: Mapping[str, Any]) -> TaskJob:
        ti = context["ti"]
        name = job_id(self.hook.prefix, ti.dag_id, ti.task_id, ti.run_id, ti.map_index)
        return TaskJob(self.hook.get_conn(), name, self.log)

    def _job(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of `Jobs.submit`; the same for every try, so that it is the same job."""
        ti = context["ti"]
        env = dict(self.runtime_env or {})
        if self.working_dir is not None:
            env["working_dir"] = self.working_dir
        if self.env_vars:
            env["env_vars"] = {**env.get("env_vars", {}), **self.env_vars}
        of_airflow = {
            "airflow.dag": ti.dag_id,
            "airflow.task": ti.task_id,
            "airflow.run": ti.run_id,
        }
        if ti.map_index >= 0:
            of_airflow["airflow.map_index"] = str(ti.map_index)
        return {
            "entrypoint": self.entrypoint,
            "runtime_env": env,
            "metadata": {**of_airflow, **(self.metadata or {})},
            "preferred_cluster": self.preferred_cluster or None,
            "required": self.required,
            "resource_requirements": _numbers(self.needs),
            "driver_resources": _numbers(self.driver_resources),
            "tags": self.tags,
            "priority": None if self.priority in (None, "") else int(self.priority),
            "max_retries": self.max_retries,
            "retry_on": self.retry_on,
            "never_retry_on": self.never_retry_on,
            "preemptible": self.preemptible,
            "stop_grace": self.stop_grace,
            "on_cluster_loss": self.on_cluster_loss,
            "os": self.os or None,
            "arch": self.arch or None,
        }


def _is_retry(ti: Any) -> bool:
    """Whether Airflow tries the task again. The first try after somebody cleared it is none:
    clearing sets `max_tries` to the tries so far and the retries of the task.
    """
    return int(ti.try_number) > int(ti.max_tries) - int(ti.task.retries or 0) + 1


def _numbers(amounts: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Templates make texts of numbers; ``32GiB`` stays one."""
    if amounts is None:
        return None
    return {name: _number(value) for name, value in amounts.items()}


def _number(value: Any) -> Any:
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _failure(job: JobInfo, was_killed: bool) -> Exception:
    where = f" on {job.cluster}" if job.cluster else ""
    verb = "failed" if job.state == "failed" else "was stopped"
    # The log is in the task's log already.
    why = because(job.cause, job.exit_code, job.message)
    text = f"job {job.id} {verb}{where}{why}"
    if job.state == "stopped" and not was_killed:
        # Somebody stopped it outside of Airflow, and does not want to do that once per retry.
        return AirflowFailException(f"{text}\n  hint: clear the task to run the job again")
    return JobFailedError(
        text, status=job.status, status_message=job.message, job_id=job.id, cluster=job.cluster
    )
