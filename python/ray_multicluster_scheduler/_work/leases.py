"""Requests placements on clusters, and waits for them.

The control plane decides where a task or an actor runs, and counts it there for as long as this
program sends heartbeats. The payload never leaves this program.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
import uuid
from collections.abc import Iterator
from typing import Any, Callable, TypeVar

from .._plane import notices
from .._plane.client import ControlPlane, refusal, segment
from .._plane.events import may_pass
from .._plane.wire import ClusterVerdict, Placement
from ..errors import (
    NoHealthyClusterError,
    PlacementTimeoutError,
    SchedulerError,
    TaskSubmissionError,
    VersionMismatchError,
)
from .held import Held, Lease, returned

log = logging.getLogger("ray_multicluster_scheduler")
T = TypeVar("T")

#: One request waits this long; then it is repeated.
LONGEST_WAIT = 20.0
#: Queued work is reported after this long, and then every minute.
FIRST_WORD, FURTHER_WORDS = 5.0, 60.0
#: A free placement is granted within this time.
AT_ONCE = 0.05
#: A control plane that is away for longer than this is an error.
PATIENCE = 60.0
#: Reasons why a cluster will never accept the work, as things are.
NEVER = ("other_versions", "other_cluster", "missing_tags")
#: The same, with those of a cluster that may change by itself.
TOO_SMALL = ("other_platform", "not_supported", "no_such_node", "infeasible", "node_too_small")
#: Reasons why a cluster accepts no work at all.
NOT_HEALTHY = (
    "never_seen",
    "unhealthy",
    "unauthorized",
    "no_nodes",
    "breaker_open",
    "breaker_probing",
)


def new_id(kind: str) -> str:
    """Created here, so that a request whose answer was lost can be repeated."""
    return f"{kind}-{uuid.uuid4().hex}"


class Leases(Held):
    """All placements of this program, granted or queued. Safe to use from any thread.

    Deadlines are times of `time.monotonic()`.
    """

    def __init__(self, plane: ControlPlane, asked_to_stop: Callable[[Lease], None]) -> None:
        super().__init__(plane, asked_to_stop)
        self._asking_since: dict[str, float] = {}

    def is_asking(self) -> bool:
        """Whether any work of this program requests a placement."""
        return bool(self._asking_since)

    def held_up(self) -> bool:
        """Whether work of this program waits for a placement."""
        now = time.monotonic()
        return any(now - since > AT_ONCE for since in list(self._asking_since.values()))

    def obtain(self, request: dict[str, Any], deadline: float | None) -> Lease:
        """Waits for a placement, or takes one in which the same kind of task has just ended.

        Raises:
            PlacementTimeoutError: there was none in time; the request is withdrawn.
            VersionMismatchError: no cluster has this program's Ray and Python.
        """
        shape = _shape(request)
        spare = self.take_spare(shape) if shape is not None else None
        if spare is not None:
            return spare
        words = _Words(request["id"])
        with self._asking([request["id"]]):
            placement = self._ask(request, deadline, words)
            notices.warn(placement["id"], placement.get("notices"))
            return self._granted(placement, deadline, words, shape)

    def obtain_elsewhere(self, lease: Lease, why: str, deadline: float | None) -> Lease:
        """Gives back a placement whose cluster cannot be reached, and waits for another."""
        words = _Words(lease.id)
        with self._asking([lease.id]):
            self.forget(lease)
            told = {"leases": [returned(lease, "unreachable", why)]}
            _patiently(lambda: self._plane.post("/v1/placements/release", told))
            return self._granted(self._look(lease.id, deadline, words), deadline, words)

    def obtain_some(self, requests: list[dict[str, Any]], deadline: float | None) -> list[Lease]:
        """Requests many placements at once and takes the granted ones: at least one."""
        ids = [request["id"] for request in requests]
        # Placements kept for single tasks would be missing here.
        self.return_spare()
        with self._asking(ids):
            asked = {"placements": requests}
            answer = _patiently(lambda: self._plane.post("/v1/placements/batch", asked))
            for result in answer["results"]:
                if "error" in result:
                    refused = refusal(result["error"])
                    refused.job_id = ids[0]
                    raise refused
            found = [result["placement"] for result in answer["results"]]
            for one in found:
                notices.warn(one["id"], one.get("notices"))
            granted = [self.hold(one) for one in found if one["status"] == "granted"]
            # If none is granted, the first of them waits for all.
            left = [one for one in found if one["status"] != "granted"][0 if granted else 1 :]
            self._withdraw([one["id"] for one in left])
            return granted or [self._granted(found[0], deadline, _Words(ids[0]))]

    @contextlib.contextmanager
    def _asking(self, ids: list[str]) -> Iterator[None]:
        self._asking_since.update(dict.fromkeys(ids, time.monotonic()))
        try:
            yield
        except BaseException:
            # Failed or interrupted: the placement would stay unused.
            self._withdraw(ids)
            raise
        finally:
            for id in ids:
                self._asking_since.pop(id, None)

    def _granted(
        self,
        placement: Placement,
        deadline: float | None,
        words: _Words,
        shape: str | None = None,
    ) -> Lease:
        while placement["status"] == "queued":
            _check_versions(placement)
            if deadline is not None and time.monotonic() >= deadline:
                raise _too_late(placement)
            words.say(placement)
            placement = self._look(placement["id"], deadline, words)
        if placement["status"] == "ended":
            raise TaskSubmissionError(
                f"{placement['id']} was withdrawn: {placement.get('message') or 'stopped'}",
                hint="it never started; submit it again unless it was stopped on purpose",
                job_id=placement["id"],
            )
        return self.hold(placement, shape)

    def _ask(self, request: dict[str, Any], deadline: float | None, words: _Words) -> Placement:
        def ask() -> Placement:
            wait = min(_this_long(deadline), words.due_in())
            return self._plane.post(
                "/v1/placements", request, wait=f"{wait:.3f}s", timeout=wait + 30
            )

        return _patiently(ask)

    def _look(self, id: str, deadline: float | None, words: _Words) -> Placement:
        def look() -> Placement:
            wait = min(_this_long(deadline), words.due_in())
            path = f"/v1/placements/{segment(id)}"
            return self._plane.get(path, wait=f"{wait:.3f}s", timeout=wait + 30)

        return _patiently(look)

    def _withdraw(self, ids: list[str]) -> None:
        """Queued or just granted, and no longer wanted. If this does not arrive, they expire."""
        if ids:
            given_up = [{"id": id, "outcome": "stopped"} for id in ids]
            with contextlib.suppress(SchedulerError):
                self._plane.post("/v1/placements/release", {"leases": given_up}, is_repeatable=True)


def _shape(request: dict[str, Any]) -> str | None:
    """Its demand. None for actors: they live on, so no task can follow in their placement."""
    if request["kind"] != "task":
        return None
    return json.dumps({**request, "id": None}, sort_keys=True)


def _patiently(ask: Callable[[], T]) -> T:
    """Retries while the control plane restarts. Repeating is harmless: the ids are ours."""
    began, pause = time.monotonic(), 0.2
    while True:
        try:
            return ask()
        except SchedulerError as error:
            if not may_pass(error) or time.monotonic() - began > PATIENCE:
                raise
        time.sleep(pause)
        pause = min(pause * 2, 3.0)


def _too_late(placement: Placement) -> PlacementTimeoutError:
    verdicts = _verdicts(placement)
    reasons = [one.get("reason") for one in verdicts]
    could_run_it = [reason for reason in reasons if reason not in (*NEVER, *TOO_SMALL)]
    is_down = [reason in NOT_HEALTHY for reason in could_run_it]
    if is_down and all(is_down):
        return NoHealthyClusterError(
            f"{placement['id']} found no cluster: none that could run it is healthy: "
            f"{_why(placement)}",
            hint="see `ray-multicluster clusters`; with a longer timeout it waits for one",
            job_id=placement["id"],
        )
    return PlacementTimeoutError(
        f"{placement['id']} found no cluster in time: {_why(placement)}",
        hint="give it a longer timeout, or ask for less",
        job_id=placement["id"],
    )


def _check_versions(placement: Placement) -> None:
    """Waiting does not help if every cluster that could run it has other versions."""
    verdicts = _verdicts(placement)
    others = [one for one in verdicts if one.get("reason") == "other_versions"]
    if not others or any(one.get("reason") not in NEVER or _is_down(one) for one in verdicts):
        return
    told = "; ".join(f"{one['cluster']} {one['text']}" for one in others)
    raise VersionMismatchError(
        f"{placement['id']} cannot run on any cluster: {told}",
        hint="submit it as a job (submit_job), whose versions may differ, or run this program "
        "with the Ray and Python versions of a cluster",
        job_id=placement["id"],
        cluster=others[0]["cluster"],
    )


def _is_down(verdict: ClusterVerdict) -> bool:
    """Its versions are those of its last answer: it may come back with others."""
    return any(other["reason"] in NOT_HEALTHY for other in verdict.get("others", ()))


class _Words:
    """Logs, not too often, why work waits."""

    def __init__(self, id: str) -> None:
        self._id = id
        self._since = time.monotonic()
        self._next = self._since + FIRST_WORD

    def due_in(self) -> float:
        return max(0.05, self._next - time.monotonic())

    def say(self, placement: Placement) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + FURTHER_WORDS
            log.warning("%s queued for %.0f s: %s", self._id, now - self._since, _why(placement))


def _verdicts(placement: Placement) -> list[ClusterVerdict]:
    why = placement.get("why")
    return why["clusters"] if why else []


def _why(placement: Placement) -> str:
    why = placement.get("why")
    summary = why["summary"] if why else None
    return summary or placement.get("message") or "the control plane gave no reason"


def _this_long(deadline: float | None) -> float:
    if deadline is None:
        return LONGEST_WAIT
    return min(LONGEST_WAIT, max(0.0, deadline - time.monotonic()))
