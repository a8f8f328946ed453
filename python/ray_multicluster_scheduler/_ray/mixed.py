"""`ray.get` and `ray.wait` over refs of several clusters."""

from __future__ import annotations

import time
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, Future, wait
from functools import partial
from typing import Any

import ray
from ray.exceptions import GetTimeoutError

from ..errors import ClusterConnectionError
from . import internals
from .again import followed
from .done import done
from .router import ROUTER
from .threads import start

#: The longest round trip of a wait: it blocks a server thread for as long.
ROUND = 2.0

#: The same when clusters are asked in turn, because none knows the others' refs.
SHORT_ROUND = 0.1

#: A cluster's own timeout error is better than ours, so it gets this much longer.
SLACK = 0.5

Groups = dict[Any, list[int]]


def get(refs: list[Any], timeout: float | None) -> list[Any]:
    """The values, in order; the first error that shows up is raised.

    A task that was lost with its cluster and may run again is awaited on its new cluster.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        try:
            return _get(refs, timeout)
        except ClusterConnectionError as error:
            refs = followed(refs, error, deadline)
            timeout = None if deadline is None else max(0.0, deadline - time.monotonic())


def _get(refs: list[Any], timeout: float | None) -> list[Any]:
    groups = grouped(refs)
    if len(groups) == 1 and timeout is None:
        # In this thread: as fast as Ray itself.
        (worker,) = groups
        return _get_of(worker, refs, None)
    running = {
        start(partial(_get_of, worker, [refs[place] for place in places], timeout)): places
        for worker, places in groups.items()
    }
    limit = None if timeout is None else timeout + SLACK
    ended, pending = wait(running, timeout=limit, return_when=FIRST_EXCEPTION)
    values: list[Any] = [None] * len(refs)
    for future in ended:
        for place, value in zip(running[future], future.result()):
            values[place] = value
    if pending:
        raise GetTimeoutError(f"Get timed out: not all objects were there within {timeout} s")
    return values


def wait_for(
    refs: list[Any], num_returns: int, timeout: float | None, fetch_local: bool
) -> tuple[list[Any], list[Any]]:
    """The ready ones and the others, both in order; at most `num_returns` ready ones.

    Refs of a lost cluster count as ready, as those of failed tasks do: getting them raises the
    error at once, and a loop over `ray.wait` goes on with the others.
    """
    if not isinstance(refs, list):
        raise TypeError(f"wait() expected a list of ray.ObjectRef, got {type(refs)}")
    if not 0 < num_returns <= len(refs):
        raise ValueError(
            f"num_returns is {num_returns}, which has to be between 1 and the number of refs, "
            f"{len(refs)}"
        )
    deadline = None if timeout is None else time.monotonic() + timeout
    left = grouped(refs)
    ready: set[int] = set()
    running: dict[Future[list[int]], Any] = {}

    def collect(ended: set[Future[list[int]]]) -> None:
        for future in ended:
            worker = running.pop(future)
            ready.update(future.result())
            left[worker] = [place for place in left[worker] if place not in ready]
            if not left[worker]:
                del left[worker]

    while left and len(ready) < num_returns:
        remaining = None if deadline is None else max(0.0, deadline - time.monotonic())
        need = num_returns - len(ready)
        # One cluster alone decides, or all refs are needed: each cluster may block.
        blocks = len(left) == 1 or need == 1 or need == sum(map(len, left.values()))
        round_ = ROUND if blocks else SHORT_ROUND
        if remaining is not None:
            round_ = min(round_, remaining)
        for worker, places in left.items():
            if worker not in running.values():
                call = partial(_ready_of, worker, places, refs, need, round_, fetch_local)
                running[start(call)] = worker
        limit = None if remaining is None else remaining + SLACK
        collect(wait(running, timeout=limit, return_when=FIRST_COMPLETED).done)
        if deadline is not None and time.monotonic() >= deadline:
            # The timeout has passed, but answers may be about to arrive.
            collect(wait(running, timeout=SLACK).done)
            break
    chosen = sorted(ready)[:num_returns]
    others = sorted(set(range(len(refs))) - set(chosen))
    return [refs[i] for i in chosen], [refs[i] for i in others]


def grouped(refs: list[Any]) -> Groups:
    """Positions in the list by the worker that they belong to; None is the native driver."""
    groups: Groups = {}
    for place, ref in enumerate(refs):
        groups.setdefault(internals.owner(ref), []).append(place)
    return groups


def _get_of(worker: Any, refs: list[Any], timeout: float | None) -> list[Any]:
    if worker is None:
        with internals.disable_client_hook():
            return ray.get(refs, timeout=timeout)
    try:
        values = ROUTER.adopt(worker).worker.get(refs, timeout=timeout)
    except (GetTimeoutError, ClusterConnectionError):
        raise
    except Exception as error:
        if len(refs) == 1:
            done(refs, error)
        raise
    done(refs)
    return values


def _ready_of(
    worker: Any, places: list[int], refs: list[Any], need: int, timeout: float, fetch_local: bool
) -> list[int]:
    asked = [refs[place] for place in places]
    need = min(need, len(asked))
    if worker is None:
        with internals.disable_client_hook():
            found, _ = ray.wait(asked, num_returns=need, timeout=timeout, fetch_local=fetch_local)
        same = {id(ref) for ref in found}
        return [place for place in places if id(refs[place]) in same]
    try:
        found, _ = ROUTER.adopt(worker).worker.wait(asked, num_returns=need, timeout=timeout)
    except ClusterConnectionError:
        return places
    known = {ref.binary() for ref in found}
    return [place for place in places if refs[place].binary() in known]
