"""Every error of this package, as one tree.

    SchedulerError
    ├── ConfigurationError           the configuration, a setting or an argument cannot be used
    ├── ControlPlaneError            the control plane cannot be started or reached
    ├── PolicyEvaluationError        a placement policy cannot be used
    ├── QueueFullError               too many jobs are queued: submit later
    ├── RateLimitedError             this token submits too fast, even after waiting
    ├── TaskSubmissionError          a job, task or actor was refused
    │   ├── IdConflictError          the id belongs to other work
    │   └── ActorNameTakenError      an actor of that name lives on the chosen cluster
    ├── AccessError                  a token is needed, or one of another role
    ├── UnknownJobError              there is no such job, or it was forgotten
    ├── JobFailedError               a job that was waited for failed or was stopped
    ├── JobTimeoutError              jobs did not finish in time; also a TimeoutError
    ├── ClusterConnectionError       a cluster cannot be reached; also a ConnectionError
    │   └── VersionMismatchError     Ray or Python differ between here and the cluster
    ├── ForeignHandleError           an actor handle was sent to another cluster than its own
    └── PlacementTimeoutError        no cluster accepted the work in time; also a TimeoutError
        └── NoHealthyClusterError    because none is healthy

Each names the job and the cluster if there is one, and says what to do (``hint``).
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "AccessError",
    "ActorNameTakenError",
    "ClusterConnectionError",
    "ConfigurationError",
    "ControlPlaneError",
    "ForeignHandleError",
    "IdConflictError",
    "JobFailedError",
    "JobTimeoutError",
    "NoHealthyClusterError",
    "PlacementTimeoutError",
    "PolicyEvaluationError",
    "QueueFullError",
    "RateLimitedError",
    "SchedulerError",
    "TaskSubmissionError",
    "UnknownJobError",
    "VersionMismatchError",
]


class SchedulerError(Exception):
    """The base of every error of this package."""

    #: The task or actor, or some of a batch, had been sent to a cluster when this happened, and was
    #: not sent elsewhere. Check the cluster before you submit it again.
    may_have_started = False

    #: An earlier try of the refused request may have been done: its answer was lost.
    was_repeated = False

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        code: str | None = None,
        job_id: str | None = None,
        cluster: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        #: What to do about it.
        self.hint = hint
        #: The control plane's stable word for it, such as ``queue_full``.
        self.code = code
        self.job_id = job_id
        self.cluster = cluster

    def __str__(self) -> str:
        unnamed = [
            name for name in (self.job_id, self.cluster) if name and name not in self.message
        ]
        text = f"{self.message} ({', '.join(unnamed)})" if unnamed else self.message
        return f"{text}\n  hint: {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross processes when a task raises them; the default forgets keywords.
        return (_rebuild, (type(self), self.message, dict(self.__dict__)))


def _rebuild(kind: type[SchedulerError], message: str, state: dict[str, Any]) -> SchedulerError:
    error = kind.__new__(kind, message)
    Exception.__init__(error, message)
    error.__dict__.update(state)
    return error


class ConfigurationError(SchedulerError):
    """The configuration, a setting or an argument cannot be used."""


class ControlPlaneError(SchedulerError):
    """The control plane cannot be started or reached."""


class PolicyEvaluationError(SchedulerError):
    """A placement policy cannot be used."""


class QueueFullError(SchedulerError):
    """Too many jobs are queued: submit later."""


class RateLimitedError(SchedulerError):
    """This token submits more per second than it may, even after waiting."""


class TaskSubmissionError(SchedulerError):
    """A job, task or actor was refused."""


class IdConflictError(TaskSubmissionError):
    """The id belongs to a job with other content."""


class ActorNameTakenError(TaskSubmissionError):
    """An actor of that name lives on the chosen cluster."""


class AccessError(SchedulerError):
    """The control plane needs a token, another one, or one of another role."""


class UnknownJobError(SchedulerError):
    """There is no such job; ended jobs are forgotten after a while."""


class JobFailedError(SchedulerError, RuntimeError):
    """A job that was waited for failed or was stopped."""

    def __init__(
        self,
        message: str,
        *,
        status: str = "FAILED",
        status_message: str | None = None,
        last_lines: str = "",
        **about: str | None,
    ) -> None:
        super().__init__(message, **about)
        #: ``FAILED`` or ``STOPPED``.
        self.status = status
        self.status_message = status_message
        #: The end of its log.
        self.last_lines = last_lines


class JobTimeoutError(SchedulerError, TimeoutError):
    """Jobs that were waited for did not finish in time. They keep running."""


class ClusterConnectionError(SchedulerError, ConnectionError):
    """A cluster cannot be reached, or was lost."""


class VersionMismatchError(ClusterConnectionError):
    """Ray or Python differ between here and the cluster."""


class ForeignHandleError(SchedulerError, ValueError):
    """An actor handle was sent to another cluster than its own."""


class PlacementTimeoutError(SchedulerError, TimeoutError):
    """No cluster accepted the work in time."""


class NoHealthyClusterError(PlacementTimeoutError):
    """No cluster is healthy, and the time to wait for one is over."""
