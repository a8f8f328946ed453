"""Waits for a job in Airflow's triggerer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from ..errors import SchedulerError
from ._airflow import BaseTrigger, TriggerEvent
from ._run import TaskJob, is_overdue
from .hook import RayMulticlusterHook

#: For requests while a task is being killed.
STOP_TIMEOUT = 15.0


class RayMulticlusterJobTrigger(BaseTrigger):
    """Fires when the job has ended, or has run for `timeout` seconds.

    If the task is killed, cleared or marked while it is deferred, the job is stopped. If only the
    triggerer stops or restarts, the job goes on.
    """

    def __init__(
        self,
        job_id: str,
        conn_id: str = RayMulticlusterHook.default_conn_name,
        timeout: float | None = None,
        poll_interval: float = 10.0,
    ) -> None:
        super().__init__()
        self.job_id = job_id
        self.conn_id = conn_id
        self.timeout = timeout
        self.poll_interval = poll_interval
        self._has_fired = False

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "job_id": self.job_id,
                "conn_id": self.conn_id,
                "timeout": self.timeout,
                "poll_interval": self.poll_interval,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        try:
            # In threads: the SDK's client and Airflow's connections block.
            task_job = await asyncio.to_thread(self._task_job)
            while True:
                job = await asyncio.to_thread(task_job.look_once)
                if job is not None and (job.has_ended or is_overdue(job, self.timeout)):
                    break
                await asyncio.sleep(self.poll_interval)
        except asyncio.CancelledError:
            # From Airflow 3.3 on, on_kill is called.
            if not hasattr(BaseTrigger, "on_kill") and await self._was_killed():
                await self.on_kill()
            raise
        self._has_fired = True
        yield TriggerEvent({"job_id": self.job_id, "state": job.state})

    async def on_kill(self) -> None:
        """Stops the job: somebody killed, cleared or marked the deferred task."""
        if not self._has_fired:
            await asyncio.to_thread(self._stop)

    def _task_job(self) -> TaskJob:
        return TaskJob(RayMulticlusterHook(self.conn_id).get_conn(), self.job_id, self.log)

    def _stop(self) -> None:
        try:
            self._task_job().stop(timeout=STOP_TIMEOUT)
            self.log.info("stopped job %s: its task was killed", self.job_id)
        except SchedulerError as error:
            self.log.warning("job %s could not be stopped: %s", self.job_id, error)

    async def _was_killed(self) -> bool:
        """A trigger is also cancelled when its triggerer stops. Then its task is still deferred."""
        try:
            return await asyncio.to_thread(_state, self.task_instance) != "deferred"
        except Exception as error:
            self.log.warning(
                "job %s goes on, because the state of its task is unknown: %s", self.job_id, error
            )
            return False


def _state(task: Any) -> str | None:
    """The state of a task instance now, in Airflow before 3.3."""
    try:
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
    except ImportError:
        from airflow.models.taskinstance import TaskInstance
        from airflow.utils.session import create_session

        with create_session() as session:
            now = TaskInstance.get_task_instance(
                dag_id=task.dag_id,
                run_id=task.run_id,
                task_id=task.task_id,
                map_index=task.map_index,
                session=session,
            )
            return None if now is None else now.state
    states = RuntimeTaskInstance.get_task_states(
        dag_id=task.dag_id,
        map_index=task.map_index,
        task_ids=[task.task_id],
        run_ids=[task.run_id],
    )
    named = task.task_id if task.map_index < 0 else f"{task.task_id}_{task.map_index}"
    return states[task.run_id][named]
