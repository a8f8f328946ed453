"""Waiting for jobs.

The control plane sends an event when a job ends. Events can be missed when a connection breaks or
the control plane restarts, so the jobs are also read after each reconnect, and a few of them every
`check_interval`.
"""

from __future__ import annotations

import contextlib
import logging
import math
import queue
import sys
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from typing import Callable, cast

from .._plane.client import ControlPlane, segment
from .._plane.events import CONNECTED, Event, EventStream, may_pass
from .._plane.wire import JobEvent
from ..errors import (
    ConfigurationError,
    JobFailedError,
    JobTimeoutError,
    SchedulerError,
)
from . import progress
from .failure import because
from .progress import duration, plain, say
from .watched import Watched

logger = logging.getLogger(__name__)

#: Up to this many jobs are named to the control plane, which then sends only their events.
MOST_NAMED = 200

#: How many jobs are read every `check_interval`, the least recently read first.
LOOKED_AT = 50

#: A read takes milliseconds, unless the control plane is away.
LOOK_TIMEOUT = 10.0

#: If the control plane is away for longer than this, the user is notified.
WORTH_TELLING = 10.0

LAST_LINES = 20


def wait(
    plane: ControlPlane,
    job_ids: str | Iterable[str],
    *,
    check_interval: float,
    timeout: float | None,
    on_end: Callable[[str], None],
    earlier: Collection[str] = (),
) -> None:
    """Returns when all have succeeded; calls `on_end` for each job that has ended. `earlier` are
    jobs that existed when this program submitted them.

    Raises:
        JobFailedError: as soon as one failed or was stopped. The others go on.
        JobTimeoutError: some have not ended in time. They go on.
        UnknownJobError: there is no such job; the call did not wait.
    """
    if isinstance(job_ids, str):
        job_ids = [job_ids]
    jobs = {job_id: Watched(job_id) for job_id in job_ids}
    for job_id in jobs:
        if not isinstance(job_id, str) or not job_id:
            raise ConfigurationError(f"{job_id!r:.80} is not a job id")
    if not jobs:
        return
    deadline = None if timeout is None else time.monotonic() + timeout
    with _news(plane, list(jobs)) as news, contextlib.closing(progress.on(sys.stderr)) as shown:
        waiting = Waiting(plane, jobs, news, shown, on_end, deadline)
        waiting.earlier = earlier
        waiting.run(max(check_interval, 0.1))


class Waiting:
    """One call of :func:`wait`."""

    def __init__(
        self,
        plane: ControlPlane,
        jobs: dict[str, Watched],
        news: queue.Queue[Event],
        shown: progress.Progress,
        on_end: Callable[[str], None],
        deadline: float | None,
    ) -> None:
        self._plane = plane
        self._jobs = jobs
        self._news = news
        self._shown = shown
        self._on_end = on_end
        self._deadline = math.inf if deadline is None else deadline
        #: The jobs that have not ended, the least recently read first.
        self._live = dict(jobs)
        self._away_since: float | None = None
        self._told_away = False
        self.earlier: Collection[str] = ()

    def run(self, check_interval: float) -> None:
        # Events arrive from the connection on, so the first read comes after it. If there is no
        # connection (it is retried in the background), the read still happens.
        with contextlib.suppress(queue.Empty):
            self._take(self._news.get(timeout=3.0))
        while not all(job.is_known for job in self._jobs.values()):
            if time.monotonic() >= self._deadline:
                raise self._timed_out()
            self._look_at([job for job in self._jobs.values() if not job.is_known])
            if self._away_since is not None:
                time.sleep(min(check_interval, 1.0))
        self._tell_earlier()
        self._judge()
        check_at = time.monotonic() + check_interval
        while self._live:
            now = time.monotonic()
            if now >= self._deadline:
                self._look_at(list(self._live.values())[:LOOKED_AT])
                self._judge()
                if not self._live:
                    return
                raise self._timed_out()
            until = min(check_at, self._deadline, now + (self._shown.every or check_interval))
            self._hear(max(until - now, 0.0))
            if time.monotonic() >= check_at:
                self._look_at(list(self._live.values())[:LOOKED_AT])
                check_at = time.monotonic() + check_interval
            self._judge()

    def _tell_earlier(self) -> None:
        """The same program run twice does not run its jobs twice. It says so."""
        over = [job for job in self._jobs.values() if job.has_ended and job.id in self.earlier]
        if not over:
            return
        one = len(over) == 1
        told = ", ".join(f"{job.id} {job.word} {_when(job)}" for job in over[:3])
        told += f" and {len(over) - 3} more" if len(over) > 3 else ""
        again = "to run it again" if one else "to run them again"
        text = f"submitted before, and not run again: {told}; {again}, give another submission_id"
        failed = [job.id for job in over if job.state != "succeeded"]
        if failed:
            text += f", or `ray-multicluster retry {failed[0]}`"
        say(text)

    def _hear(self, patience: float) -> None:
        """Waits for events, and handles all that have arrived."""
        unclear: dict[str, Watched] = {}
        with contextlib.suppress(queue.Empty):
            unclear.update(self._take(self._news.get(timeout=patience)))
            while True:
                unclear.update(self._take(self._news.get_nowait()))
        self._look_at([job for job in unclear.values() if job.id in self._live])

    def _take(self, news: Event) -> dict[str, Watched]:
        """Returns the jobs that must be read."""
        if news.kind == CONNECTED:
            return dict(self._live)
        job = self._live.get(news.data.get("job", ""))
        if job is None:
            return {}
        job.hear(cast(JobEvent, news.data))
        # Only a read shows what it waits for.
        return {job.id: job} if job.state == "queued" else {}

    def _look_at(self, jobs: list[Watched]) -> None:
        """A control plane that is away comes back; until then nothing can be read."""
        try:
            for job in jobs:
                left = max(self._deadline - time.monotonic(), 1.0)
                self._look(job, min(left, LOOK_TIMEOUT))
        except SchedulerError as error:
            if not may_pass(error):
                raise
            now = time.monotonic()
            self._away_since = self._away_since or now
            if now - self._away_since > WORTH_TELLING and not self._told_away:
                self._told_away = True
                say(f"{error.message}; the jobs keep running, still waiting")
        else:
            self._away_since, self._told_away = None, False

    def _look(self, job: Watched, timeout: float) -> None:
        job.look(self._plane.get(f"/v1/jobs/{segment(job.id)}", timeout=timeout))
        # To the end of the reading order.
        if job.id in self._live:
            self._live[job.id] = self._live.pop(job.id)

    def _judge(self) -> None:
        """Shows the current states, and drops jobs that have ended."""
        self._shown.show(list(self._jobs.values()))
        ended = [job for job in self._live.values() if job.has_ended]
        for job in ended:
            del self._live[job.id]
            self._on_end(job.id)
        failed = [job for job in ended if job.state != "succeeded"]
        if failed:
            raise self._failed(failed)

    def _failed(self, failed: list[Watched]) -> JobFailedError:
        job = failed[0]
        # Events have only one line of the message.
        with contextlib.suppress(SchedulerError):
            self._look(job, LOOK_TIMEOUT)
        where = f" on {job.cluster}" if job.cluster else ""
        verb = "failed" if job.state == "failed" else "was stopped"
        text = f"job {job.id} {verb}{where}{because(job.cause, job.exit_code, job.message)}"
        lines = self._last_lines(job)
        if lines:
            text += "\n  last lines of its log:\n" + "\n".join(
                f"    {x}" for x in lines.splitlines()
            )
        for others, words in ((failed[1:], "also failed"), (self._live.values(), "not finished")):
            if others:
                text += f"\n  {words}: {_listed(others)}"
        return JobFailedError(
            text,
            hint=f"get_job_logs({job.id!r}) returns the whole log",
            status="FAILED" if job.state == "failed" else "STOPPED",
            status_message=job.message,
            last_lines=lines,
            job_id=job.id,
            cluster=job.cluster,
        )

    def _last_lines(self, job: Watched) -> str:
        """Empty if the log cannot be read: the failure itself matters more."""
        if not job.cluster:
            return ""
        with contextlib.suppress(SchedulerError):
            path = f"/v1/jobs/{segment(job.id)}/logs"
            return str(self._plane.get(path, lines=LAST_LINES, timeout=10.0)["text"])
        return ""

    def _timed_out(self) -> JobTimeoutError:
        jobs = list(self._live.values())
        return JobTimeoutError(
            f"{len(jobs)} of {len(self._jobs)} jobs did not finish in time\n"
            + "\n".join(f"  {_told(job)}" for job in jobs[:LOOKED_AT])
            + (f"\n  … and {len(jobs) - LOOKED_AT} more" if len(jobs) > LOOKED_AT else ""),
            hint="they keep running: wait again, or stop them with stop_job(…)",
            job_id=jobs[0].id,
            cluster=jobs[0].cluster,
        )


@contextlib.contextmanager
def _news(plane: ControlPlane, ids: list[str]) -> Iterator[queue.Queue[Event]]:
    """The events of these jobs, read in the background."""
    stream = EventStream(plane, "/v1/events", job=ids if len(ids) <= MOST_NAMED else None)
    news: queue.Queue[Event] = queue.Queue()
    wanted = {None, *ids}

    def read() -> None:
        try:
            for event in stream:
                if event.data.get("job") in wanted:
                    news.put(event)
        except SchedulerError as error:
            # The jobs are still read every `check_interval`.
            logger.debug("the control plane sends no events: %s", error)
        news.put(Event("silence"))

    threading.Thread(target=read, name="ray-multicluster-events", daemon=True).start()
    try:
        yield news
    finally:
        stream.close()


def _when(job: Watched) -> str:
    if job.ended is None:
        return "before"
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(job.ended))
    return f"at {moment} ({duration(time.time() - job.ended)} ago)"


def _listed(jobs: Iterable[Watched]) -> str:
    told = [f"{job.id} ({job.word}{' on ' + job.cluster if job.cluster else ''})" for job in jobs]
    return ", ".join(told[:10]) + (f" and {len(told) - 10} more" if len(told) > 10 else "")


def _told(job: Watched) -> str:
    where = f" on {job.cluster}" if job.cluster else ""
    why = f": {plain(job.why)}" if job.why else ""
    return f"{job.id} {job.word}{where} for {duration(job.elapsed())}{why}"
