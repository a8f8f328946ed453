"""A job as it is shown to callers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from .._plane.wire import JobDetail
from ..errors import ConfigurationError

PENDING = "PENDING"
RUNNING = "RUNNING"
SUCCEEDED = "SUCCEEDED"
FAILED = "FAILED"
STOPPED = "STOPPED"

#: The control plane's states in Ray's five words. A job whose cluster cannot be asked is not known
#: to have ended, so it is RUNNING.
RAY_STATUS = {
    "queued": PENDING,
    "dispatching": PENDING,
    "pending": PENDING,
    "running": RUNNING,
    "unknown": RUNNING,
    "succeeded": SUCCEEDED,
    "failed": FAILED,
    "stopped": STOPPED,
}

#: States that a job leaves only if an operator runs it again.
ENDED = frozenset({"succeeded", "failed", "stopped"})


@dataclass(frozen=True)
class JobInfo:
    """What is known about a job. ``status`` is one of Ray's five words, as plain text."""

    id: str
    status: str
    #: The control plane's own, finer word: ``queued``, ``dispatching``, ``unknown``, ….
    state: str
    #: Where it is or was.
    cluster: str | None = None
    #: The number of the latest attempt, from 1; 0 before the first.
    attempt: int = 0
    #: How it ended, or what went wrong last; from `list_jobs` the line of it that says so.
    message: str | None = None
    #: What it waits for, cluster by cluster; only of a single job, while it waits.
    why: str | None = None
    #: The id of the latest attempt on its Ray cluster.
    ray_submission_id: str | None = None
    entrypoint: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    #: What it reserves: ``{"CPU": 2, "memory": 1073741824}``.
    resources: Mapping[str, float] = field(default_factory=dict)
    priority: int = 0
    preferred_cluster: str | None = None
    parent_job: str | None = None
    submitted_at: datetime | None = None
    running_at: datetime | None = None
    ended_at: datetime | None = None
    #: Why it failed, in one line: the end of its traceback, pip's error, the last line it printed.
    cause: str | None = None
    #: The exit code of its latest attempt, if that failed.
    exit_code: int | None = None
    #: Everything the control plane said, as it said it.
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def submission_id(self) -> str:
        """The same as ``id``, as Ray calls it."""
        return self.id

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @classmethod
    def of(cls, told: JobDetail) -> JobInfo:
        """From a job of the native API."""
        state, why = told["state"], told.get("why")
        return cls(
            id=told["id"],
            # A state of a newer control plane: it knows Ray's word for it.
            status=RAY_STATUS.get(state) or told["ray_status"],
            state=state,
            cluster=told.get("cluster"),
            attempt=told.get("attempts", 0),
            message=told.get("message"),
            cause=told.get("cause"),
            exit_code=told.get("exit_code"),
            why=why["summary"] if why else None,
            ray_submission_id=told.get("submission_id"),
            entrypoint=told.get("entrypoint"),
            metadata=dict(told.get("metadata") or {}),
            tags=tuple(told.get("tags") or ()),
            resources=dict(told.get("demand") or {}),
            priority=told.get("priority", 0),
            preferred_cluster=told.get("preferred_cluster"),
            parent_job=told.get("parent_job"),
            submitted_at=_moment(told.get("submitted_at")),
            running_at=_moment(told.get("running_at")),
            ended_at=_moment(told.get("ended_at")),
            raw=dict(told),
        )


def native_states(wanted: str | Iterable[str]) -> list[str]:
    """States to filter by, from Ray's words or the control plane's, in any case.

    Ray's ``PENDING`` and ``RUNNING`` stand for several; in lower case they are one each.
    """
    words = [wanted] if isinstance(wanted, str) else [str(word) for word in wanted]
    states: list[str] = []
    for word in words:
        of_ray = [state for state, status in RAY_STATUS.items() if status == word]
        if not of_ray and word.lower() not in RAY_STATUS:
            known = ", ".join([*dict.fromkeys(RAY_STATUS.values()), *RAY_STATUS])
            raise ConfigurationError(f"{word!r} is not a job state", hint=f"use {known}")
        states += of_ray or [word.lower()]
    return states


def _moment(milliseconds: int | None) -> datetime | None:
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, tz=timezone.utc).astimezone()
