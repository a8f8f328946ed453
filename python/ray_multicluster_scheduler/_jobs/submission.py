"""Sending a job to the control plane."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import urllib3

from .. import _context
from .._plane import notices, trace
from .._plane.client import ControlPlane
from .._plane.events import may_pass
from .._plane.failover import MAY_BE_DONE, never_arrived
from .._plane.wire import Accepted
from ..errors import ConfigurationError, ControlPlaneError, SchedulerError

logger = logging.getLogger(__name__)

#: How long a job with an id is sent again if its answer is lost.
PATIENCE = 30.0


def body(
    entrypoint: object,
    *,
    submission_id: str | None,
    metadata: Mapping[str, Any] | None,
    tags: str | Iterable[str] | None,
    preferred_cluster: str | None,
    **fields: Any,
) -> dict[str, Any]:
    """The request, without options that were not given.

    Raises:
        ConfigurationError: something cannot be meant.
    """
    context = _context.current_context()
    parent = context if context is not None and context.job_id is not None else None
    wanted = {
        "id": _id(submission_id),
        "entrypoint": _entrypoint(entrypoint),
        "metadata": _metadata(metadata),
        "tags": [tags] if isinstance(tags, str) else list(tags or ()),
        "preferred_cluster": preferred_cluster or _preferred(context),
        "home": _home(),
        # Work of a job stays on that job's cluster by default.
        "parent_job": parent.job_id if parent else None,
        "parent_cluster": parent.cluster if parent else None,
        **fields,
    }
    return {key: value for key, value in wanted.items() if _is_said(value)}


def exit_codes(field: str, given: object) -> list[int]:
    """The codes of `retry_on` or `never_retry_on`.

    Raises:
        ConfigurationError: they are not a list of whole numbers.
    """
    if given is None:
        return []
    if isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping)):
        codes = list(given)
        if all(isinstance(code, int) and not isinstance(code, bool) for code in codes):
            return codes
    raise ConfigurationError(f"{field} is {given!r:.80}", hint="give exit codes, such as [3, 4]")


def flag(field: str, given: object) -> bool:
    """True or false.

    Raises:
        ConfigurationError: it is neither.
    """
    if given is None or isinstance(given, bool):
        return bool(given)
    raise ConfigurationError(f"{field} is {given!r:.80}", hint="give True or False")


def length(field: str, given: object) -> str | float | None:
    """A length of time as the control plane reads it: a text, or seconds.

    Raises:
        ConfigurationError: it is none of these.
    """
    if isinstance(given, timedelta):
        return given.total_seconds()
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, (int, float)) and not isinstance(given, bool) and math.isfinite(given):
        return given
    raise ConfigurationError(
        f"{field} is {given!r:.80}", hint='give a length of time such as "10m", or seconds'
    )


def _preferred(context: _context.JobContext | None) -> str | None:
    """A task without a job at least prefers its own cluster for work that it submits."""
    chosen = _context.chosen_cluster()
    if chosen is None and context is not None and context.job_id is None:
        return context.cluster
    return chosen


def send(plane: ControlPlane, job: Mapping[str, Any]) -> tuple[str, bool]:
    """The job's id, and whether it is new.

    With an id, a job may be sent again until there is an answer: it is one job. Without one, it
    would be unknown whether the first request arrived.
    """
    deadline = time.monotonic() + PATIENCE
    pause, was_lost = 0.2, False
    while True:
        try:
            accepted: Accepted = plane.post("/v1/jobs", dict(job), headers=trace.headers())
            break
        except SchedulerError as error:
            lost = _is_lost(error)
            if lost and "id" not in job:
                raise ControlPlaneError(
                    f"the job may or may not have been accepted: {error.message}",
                    hint="check list_jobs(); "
                    "a job with a submission_id is retried automatically and never runs twice",
                ) from error
            if not may_pass(error) or time.monotonic() > deadline:
                raise
            was_lost = was_lost or lost
        time.sleep(pause)
        pause = min(pause * 2, 3.0)
    job_id = accepted["id"]
    duplicate = accepted.get("duplicate")
    if duplicate == "same_content":
        logger.warning(
            "an identical job is already queued, so none was added: %s "
            "(set a submission_id to run it again)",
            job_id,
        )
    # A control plane of the version before says only one.
    said = accepted.get("notices") or filter(None, [accepted.get("notice")])
    notices.warn(job_id, said)
    # If an answer was lost, the existing job is most likely the one we sent before.
    return job_id, duplicate is None or (duplicate == "same_id" and was_lost)


def _is_said(value: object) -> bool:
    # Zero CPUs is a value to send.
    return value is not None and value is not False and value != [] and value != {}


def _is_lost(error: SchedulerError) -> bool:
    """True if the request may have arrived, although there was no answer."""
    cause = error.__cause__
    is_broken = isinstance(cause, urllib3.exceptions.HTTPError) and not never_arrived(cause)
    return is_broken or error.code in MAY_BE_DONE


def _id(given: object) -> str | None:
    if given is None or isinstance(given, str):
        # An empty value counts as none.
        return given or None
    raise ConfigurationError(f"submission_id is {given!r:.80}", hint="use a string")


def _entrypoint(given: object) -> str:
    if isinstance(given, str) and given.strip():
        return given
    shown = "empty" if isinstance(given, str) else f"{given!r:.80}"
    hint = 'give the shell command to run, such as "python train.py"'
    if isinstance(given, (list, tuple)):
        hint = 'give one string, such as shlex.join(["python", "train.py"])'
    raise ConfigurationError(f"the entrypoint is {shown}", hint=hint)


def _metadata(given: Mapping[str, Any] | None) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"metadata is {given!r:.80}", hint='write {"name": "text"}')
    texts = {}
    for key, value in given.items():
        if not isinstance(key, str) or not isinstance(value, (str, int, float)):
            raise ConfigurationError(
                f"metadata {key!r} is {value!r:.80}: names and values must be strings",
                hint="json.dumps(…) turns a value into a string",
            )
        texts[key] = value if isinstance(value, str) else str(value)
    return texts


def _home() -> str | None:
    """The submitter's home: paths below it mean the same folder on every cluster."""
    home = os.path.expanduser("~")
    return home if os.path.isabs(home) else None
