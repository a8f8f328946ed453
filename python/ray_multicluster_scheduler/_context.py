"""Where this code runs, and where work that it submits should run.

There are two sources, tried in this order by :func:`current_cluster`:

1. ``with cluster_context("mac"):`` in this thread;
2. the scheduled work this process belongs to, if any.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from . import _env

_thread = threading.local()


@dataclass(frozen=True)
class JobContext:
    """The placement of the work that this process belongs to."""

    #: None for a task or an actor that belongs to no job.
    job_id: str | None
    cluster: str
    attempt: int
    #: Where the control plane can be reached from this cluster, if it can.
    address: str | None
    #: The control plane's version; None for a task or an actor that belongs to no job.
    plane_version: str | None = None


def current_context(env: Mapping[str, str] | None = None) -> JobContext | None:
    """The scheduled work that this process runs in; ``None`` outside of any."""
    env = os.environ if env is None else env
    cluster = env.get(_env.CURRENT_CLUSTER)
    if not cluster:
        return None
    return JobContext(
        job_id=env.get(_env.JOB_ID) or None,
        cluster=cluster,
        attempt=int(env.get(_env.ATTEMPT, "1")),
        address=env.get(_env.ADDRESS) or None,
        plane_version=env.get(_env.VERSION) or None,
    )


@contextlib.contextmanager
def cluster_context(cluster: str | None) -> Iterator[None]:
    """Inside the block, work of this thread goes to this cluster, unless a call names another."""
    before = chosen_cluster()
    choose_cluster(cluster)
    try:
        yield
    finally:
        choose_cluster(before)


def choose_cluster(cluster: str | None) -> None:
    """The same without an end; ``None`` undoes it."""
    _thread.cluster = cluster


def chosen_cluster() -> str | None:
    """The cluster of :func:`cluster_context` in this thread."""
    return getattr(_thread, "cluster", None)


def current_cluster() -> str | None:
    """The default cluster for work of this thread."""
    chosen = chosen_cluster()
    if chosen is not None:
        return chosen
    context = current_context()
    return context.cluster if context else None
