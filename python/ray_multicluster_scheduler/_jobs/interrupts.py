"""Ctrl-C and SIGTERM stop what this program has submitted."""

from __future__ import annotations

import contextlib
import functools
import os
import queue
import signal
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Callable, TypeVar, overload

from ..errors import SchedulerError, UnknownJobError
from .progress import say

if TYPE_CHECKING:
    from .info import JobInfo
    from .jobs import Jobs

    _Job = tuple[Jobs, str]

#: A control plane that does not answer delays the end of a program by no more than this.
PATIENCE = 10.0

#: How many jobs are stopped at the same time.
AT_ONCE = 8

F = TypeVar("F", bound=Callable[..., Any])

_all: list[Jobs] = []
_is_guarded = False


class Terminated(SystemExit):
    """SIGTERM, as an exception: code under way is left in order, and the exit code is right."""

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGTERM)


def remember(jobs: Jobs) -> None:
    """Jobs submitted through this object are stopped too."""
    _all.append(jobs)


@overload
def graceful_shutdown_on_keyboard_interrupt(function: F, **_: Any) -> F: ...


@overload
def graceful_shutdown_on_keyboard_interrupt(
    function: None = None, **_: Any
) -> Callable[[F], F]: ...


def graceful_shutdown_on_keyboard_interrupt(function: F | None = None, **_: Any) -> Any:
    """Decorates a main function: Ctrl-C and SIGTERM stop the jobs that the program submitted.

    Use it with or without ``()``. `wait_for_all_jobs` does the same while it waits.
    """
    if function is None:
        return graceful_shutdown_on_keyboard_interrupt

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        with stopping_on_interrupt():
            return function(*args, **kwargs)

    return guarded


@contextlib.contextmanager
def stopping_on_interrupt() -> Iterator[None]:
    """Within, an interrupt stops the jobs that this program has submitted, and then takes its usual
    effect. Only in the main thread, which alone receives signals; the outermost call counts.
    """
    global _is_guarded
    if _is_guarded or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    # The program ignores the signal, or has a handler that Python cannot call.
    hears_it = before is not signal.SIG_IGN and before is not None
    if hears_it:
        signal.signal(signal.SIGTERM, _terminate)
    _is_guarded = True
    try:
        yield
    except KeyboardInterrupt:
        stop_what_was_submitted()
        raise
    except Terminated:
        stop_what_was_submitted()
        if callable(before):
            before(signal.SIGTERM, None)
        raise
    finally:
        _is_guarded = False
        if hears_it:
            signal.signal(signal.SIGTERM, before)


def stop_what_was_submitted() -> None:
    """Prints what happens to each job. A second interrupt ends this at once."""
    # A forked process has not submitted the jobs of its parent.
    mine = [jobs for jobs in _all if jobs.process == os.getpid()]
    left = {(jobs, job_id) for jobs in mine for job_id in jobs.submitted}
    if not left:
        return
    count = "1 job" if len(left) == 1 else f"{len(left)} jobs"
    say(f"interrupted: stopping {count} of this program (press Ctrl-C again to leave them running)")
    todo: queue.SimpleQueue[_Job] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[_Job, str]] = queue.SimpleQueue()
    for job in left:
        todo.put(job)
    for _ in range(min(AT_ONCE, len(left))):
        threading.Thread(target=_stop_each, args=(todo, done), daemon=True).start()
    deadline = time.monotonic() + PATIENCE
    try:
        while left and time.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                job, what = done.get(timeout=max(deadline - time.monotonic(), 0.01))
                left.discard(job)
                say(f"  {job[1]}: {what}")
    finally:
        if left:
            ids = ", ".join(sorted(job_id for _, job_id in left))
            say(f"not stopped, may still be running: {ids}")


def _stop_each(todo: queue.SimpleQueue[_Job], done: queue.SimpleQueue[tuple[_Job, str]]) -> None:
    with contextlib.suppress(queue.Empty):
        while True:
            job = todo.get_nowait()
            jobs, job_id = job
            try:
                what = _words(jobs.ask_to_stop(job_id, timeout=PATIENCE / 2))
            except UnknownJobError:
                what = "no longer exists"
            except SchedulerError as error:
                what = f"NOT stopped: {error.message}"
            done.put((job, what))


def _words(job: JobInfo | None) -> str:
    if job is None:
        return "had already ended"
    return "stopped" if job.has_ended else f"stopping on {job.cluster}"


def _terminate(number: int, frame: object) -> None:
    raise Terminated
