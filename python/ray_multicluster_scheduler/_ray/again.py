"""Refs of tasks that may run again: refs lost with a cluster are followed elsewhere."""

from __future__ import annotations

import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from typing import Any, Callable

from ray.exceptions import GetTimeoutError

from ..errors import ClusterConnectionError
from . import internals

_MARK = "_multicluster_again"

#: A call may fail a little before the connection is known to be lost: wait this long for that.
UNTIL_LOST = 15.0

#: Runs the task again, once; returns a future of the refs that replace the lost ones.
Again = Callable[[ClusterConnectionError], "Future[list[Any]]"]


def when_lost(refs: list[Any], again: Again) -> None:
    """`ray.get`, `await` and `.future()` of these refs continue with the result of `again`.

    `again` must not hold the refs: they would keep each other alive.
    """
    for number, ref in enumerate(refs):
        ref.__dict__[_MARK] = (again, number)


def followed(refs: list[Any], error: ClusterConnectionError, deadline: float | None) -> list[Any]:
    """The same refs, with new ones for those whose cluster was lost.

    Raises:
        ClusterConnectionError: none of them may run again: `error` itself.
        GetTimeoutError: no other cluster ran it by `deadline`.
    """
    found = [_successor(ref, error, deadline) for ref in refs]
    if all(ref is None for ref in found):
        raise error
    return [old if new is None else new for old, new in zip(refs, found)]


def register(ref: Any, tell: Callable[[Any], None], ask: Callable[..., None]) -> None:
    """Calls `ask(ref, tell)`, and again for the ref's successor if its cluster is lost."""
    mark = ref.__dict__.get(_MARK)
    if mark is None:
        ask(ref, tell)
        return
    again, number = mark

    def answered(answer: Any) -> None:
        # Errors of a task arrive as data: this is an error of the connection itself, and final.
        is_lost = isinstance(answer, ClusterConnectionError)
        if is_lost and not _worker(ref).connection.is_closed:
            again(answer).add_done_callback(moved)
        else:
            tell(answer)

    def moved(future: Future[list[Any]]) -> None:
        failed = future.exception()
        if failed is not None:
            tell(failed)
        else:
            new = future.result()[number]
            _worker(new).register_callback(new, tell)

    try:
        ask(ref, answered)
    except ClusterConnectionError as error:
        answered(error)


def _successor(ref: Any, error: ClusterConnectionError, deadline: float | None) -> Any:
    mark = ref.__dict__.get(_MARK) if isinstance(ref, internals.ClientObjectRef) else None
    left = None if deadline is None else max(0.0, deadline - time.monotonic())
    if mark is None or not _is_lost(ref, UNTIL_LOST if left is None else min(left, UNTIL_LOST)):
        return None
    again, number = mark
    try:
        return again(error).result(left)[number]
    except NotInTime:
        raise GetTimeoutError(
            f"Get timed out: {error.message}; the task will run again, and is still queued"
        ) from error


def _worker(ref: Any) -> Any:
    """Only refs of Ray Client are marked, and each has a worker."""
    return internals.owner(ref)


def _is_lost(ref: Any, patience: float) -> bool:
    """Not if we closed it: `stop()` ends tasks for good."""
    connection = _worker(ref).connection
    if connection.alive():
        connection.ended.wait(patience)
    return not connection.alive() and not connection.is_closed
