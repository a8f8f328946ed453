"""The job of one task: started, found again, or run again; waited for; stopped. Without Airflow."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Mapping
from typing import Any, Callable, TypeVar, Union

from .._jobs.info import JobInfo
from .._jobs.jobs import Jobs
from .._plane.client import TIMEOUT, ControlPlane, segment
from .._plane.events import may_pass
from ..errors import IdConflictError, SchedulerError, UnknownJobError

#: How long one request waits for the end of a job: a job that runs for too long is noticed as late.
STEP = 10.0
#: How often the task's log says what its job waits for.
TELL_EVERY = 60.0
#: How long a task whose job has not begun waits for its control plane. Later it waits for as long
#: as it takes: the job goes on meanwhile.
PATIENCE = 60.0
#: The pause after a request that failed: doubled each time.
SHORTEST_PAUSE, LONGEST_PAUSE = 0.5, 15.0

Log = Union[logging.Logger, "logging.LoggerAdapter[Any]"]
T = TypeVar("T")


class TaskJob:
    """The job of a task, by its id."""

    def __init__(self, plane: ControlPlane, job_id: str, log: Log) -> None:
        self.id = job_id
        self._plane = plane
        self._path = "/v1/jobs/" + segment(job_id)
        self._log = log

    def begin(self, jobs: Jobs, job: Mapping[str, Any], *, is_retry: bool) -> tuple[JobInfo, bool]:
        """The job, and whether an earlier try of the task had started it.

        `job` has the arguments of `Jobs.submit`. `is_retry`: Airflow tries the task again, and it
        is not somebody who cleared it.
        """
        known = self._known()
        if known is not None and not known.has_ended:
            self._log.info("found job %s again: %s", self.id, told(known))
            return known, True
        if known is not None and known.state == "succeeded":
            if is_retry:
                self._log.info("job %s has succeeded since the last try of this task", self.id)
                return known, True
            # The task was cleared after it had succeeded, so its job runs from the start.
            self._forget()
            known = None
        try:
            jobs.submit(submission_id=self.id, **job)
        except IdConflictError:
            # Other content under this id: the task was changed since. If the job was not known
            # before, it is someone else's.
            if known is None:
                raise
            self._log.info("the task has changed since its last try: job %s is replaced", self.id)
            self._forget()
            known = None
            jobs.submit(submission_id=self.id, **job)
        if known is not None:
            return self.again(known), False
        now = self.look(PATIENCE)
        self._log.info("submitted job %s: %s", self.id, told(now))
        return now, False

    def again(self, ended: JobInfo) -> JobInfo:
        """Runs the failed or stopped job again, under its id."""

        def rerun() -> None:
            try:
                self._plane.post(self._path + "/rerun")
            except SchedulerError as error:
                # It runs already: the answer to an earlier request was lost.
                if error.code != "wrong_state":
                    raise

        self._patiently(rerun, PATIENCE)
        now = self.look(PATIENCE)
        self._log.info("job %s (%s) runs again: %s", self.id, ended.state, told(now))
        return now

    def look(self, patience: float | None = None) -> JobInfo:
        """Everything that is known about it."""
        return JobInfo.of(self._patiently(lambda: self._plane.get(self._path), patience))

    def look_once(self) -> JobInfo | None:
        """The same; None if the control plane does not answer now."""
        try:
            return JobInfo.of(self._plane.get(self._path, timeout=10.0))
        except SchedulerError as error:
            if not may_pass(error):
                raise
            self._log.warning("job %s: %s", self.id, error.message)
            return None

    def wait(self, timeout: float | None = None) -> JobInfo:
        """The job when it has ended, or has run for `timeout` seconds. Queues do not count."""
        job = self.look()
        state, told_at = job.state, time.monotonic()
        while not job.has_ended and not is_overdue(job, timeout):
            job = JobInfo.of(self._patiently(functools.partial(self._wait, _step(job, timeout))))
            if job.state != state or time.monotonic() - told_at > TELL_EVERY:
                state, told_at = job.state, time.monotonic()
                # Why it waits is only in the answer about the job itself.
                job = self.look()
                self._log.info("job %s: %s", self.id, told(job))
        return job

    def stop(self, timeout: float = TIMEOUT) -> bool:
        """False if it has ended, or does not exist."""
        try:
            self._plane.post(self._path + "/stop", timeout=timeout, is_repeatable=True)
        except UnknownJobError:
            return False
        except SchedulerError as error:
            if error.code != "wrong_state":
                raise
            # If the first try's answer was lost, that is what stopped it.
            return error.was_repeated
        return True

    def last_lines(self, lines: int) -> str:
        """The end of its log; empty if it cannot be read."""
        try:
            return str(self._plane.get(self._path + "/logs", lines=lines)["text"])
        except SchedulerError as error:
            self._log.warning("the log of job %s cannot be read: %s", self.id, error.message)
            return ""

    def _wait(self, seconds: float) -> Any:
        query = {"timeout": f"{int(seconds * 1000) + 1}ms"}
        return self._plane.request("GET", self._path + "/wait", query=query, timeout=seconds + 20)

    def _known(self) -> JobInfo | None:
        try:
            return self.look(PATIENCE)
        except UnknownJobError:
            return None

    def _forget(self) -> None:
        try:
            self._patiently(lambda: self._plane.request("DELETE", self._path), PATIENCE)
        except UnknownJobError:
            # The answer to an earlier request was lost.
            return

    def _patiently(self, ask: Callable[[], T], patience: float | None = None) -> T:
        """Asks until there is an answer; at most for `patience` seconds."""
        began, pause = time.monotonic(), SHORTEST_PAUSE
        while True:
            try:
                return ask()
            except SchedulerError as error:
                waited = time.monotonic() - began
                if not may_pass(error) or (patience is not None and waited > patience):
                    raise
                self._log.warning("%s; trying again in %s s", error.message, pause)
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)


def is_overdue(job: JobInfo, timeout: float | None) -> bool:
    """Whether it has run for longer than `timeout` seconds. Time in queues does not count."""
    left = _left(job, timeout)
    return left is not None and left <= 0


def told(job: JobInfo) -> str:
    """Where the job is, in one line."""
    where = f" on {job.cluster}" if job.cluster else ""
    why = "; ".join((job.why or "").splitlines()) if job.state in ("queued", "unknown") else ""
    return f"{job.state}{where}" + (f" ({why})" if why else "")


def _left(job: JobInfo, timeout: float | None) -> float | None:
    if timeout is None or job.running_at is None or job.state not in ("running", "unknown"):
        return None
    return timeout - (time.time() - job.running_at.timestamp())


def _step(job: JobInfo, timeout: float | None) -> float:
    left = _left(job, timeout)
    if left is None:
        # It may begin to run meanwhile.
        return STEP if timeout is None else min(STEP, timeout)
    return min(STEP, left)
