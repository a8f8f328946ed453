"""Places on clusters: asked for, kept alive by heartbeats, given back.

The control plane decides where a task or an actor runs and counts it there for as long as this
program says that it lives. What it runs never leaves this program.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from collections import deque
from dataclasses import dataclass
from typing import Any, Callable

from .._plane.client import ControlPlane, refusal, segment
from ..errors import (
    PlacementTimeoutError,
    SchedulerError,
    TaskSubmissionError,
    VersionMismatchError,
)

log = logging.getLogger("ray_multicluster_scheduler")

#: One request waits this long; then it is asked again.
LONGEST_WAIT = 20.0
#: What waits says so after this long, and then every minute.
FIRST_WORD, FURTHER_WORDS = 5.0, 60.0
#: A place that is free is given within this time.
AT_ONCE = 0.05
#: Releases of this long go into one request.
GATHER = 0.005
#: Between two looks at what was dropped.
LOOK_FOR_DROPPED = 1.0
#: Why a cluster will never take a piece of work, as things are.
NEVER = ("other_versions", "other_cluster", "missing_tags")
#: Items of one request.
MOST_AT_ONCE = 10_000


@dataclass(frozen=True)
class Lease:
    """A place on a cluster."""

    id: str
    attempt: int
    cluster: str


def new_id(kind: str) -> str:
    """Made here, so that a request whose answer was lost can be repeated."""
    return f"{kind}-{uuid.uuid4().hex}"


class Leases:
    """All places this program holds. Safe to use from any thread.

    `asked_to_stop` is called, in a thread of ours, for a place that somebody wants back.
    """

    def __init__(self, plane: ControlPlane, asked_to_stop: Callable[[Lease], None]) -> None:
        self._plane = plane
        self._asked_to_stop = asked_to_stop
        self._changed = threading.Condition()
        self._held: dict[Lease, None] = {}
        self._asking_since: dict[str, float] = {}
        self._returned: list[dict[str, Any]] = []
        #: Given back when there is time. Finalizers run anywhere, even within our own locks, so
        #: they may do no more than append to this.
        self.dropped: deque[Lease] = deque()
        self._time_to_live = 30.0
        self._keeper: threading.Thread | None = None
        self._closed = False

    def held_up(self) -> bool:
        """Is there work of this program that waits for a place?"""
        return any(
            since < time.monotonic() - AT_ONCE for since in list(self._asking_since.values())
        )

    def obtain(self, request: dict[str, Any], timeout: float | None) -> Lease:
        """Waits for a place.

        Raises:
            PlacementTimeoutError: there was none in time; the request is withdrawn.
        """
        deadline = _deadline(timeout)
        words = _Words(request["id"])
        with self._asking([request["id"]]):
            wait = min(_this_long(deadline), words.due_in())
            placement = self._plane.post(
                "/v1/placements", request, wait=f"{wait:.3f}s", timeout=wait + 30
            )
            return self._granted(placement, deadline, words)

    def obtain_elsewhere(self, lease: Lease, why: str, timeout: float | None) -> Lease:
        """Gives back a place whose cluster cannot be reached, and waits for another."""
        deadline = _deadline(timeout)
        with self._asking([lease.id]):
            self._forget(lease)
            self._send_returned([_returned(lease, "unreachable", why)])
            words = _Words(lease.id)
            return self._granted(self._look(lease.id, deadline, words), deadline, words)

    def obtain_some(self, requests: list[dict[str, Any]], timeout: float | None) -> list[Lease]:
        """Asks for many places at once and takes those there are: one at least."""
        deadline = _deadline(timeout)
        ids = [request["id"] for request in requests]
        with self._asking(ids):
            answer = self._plane.post("/v1/placements/batch", {"placements": requests}, wait="0s")
            results = answer["results"]
            for result in results:
                if "error" in result:
                    self._withdraw(ids)
                    raise refusal(result["error"])
            found = [result["placement"] for result in results]
            granted = [self._hold(one) for one in found if one["status"] == "granted"]
            left = [one["id"] for one in found if one["status"] != "granted"]
            if granted:
                self._withdraw(left)
                return granted
            # Nothing is free: the first of them waits for all.
            self._withdraw(left[1:])
            return [self._granted(found[0], deadline, _Words(ids[0]))]

    def give_back(
        self, lease: Lease, outcome: str = "succeeded", message: str | None = None
    ) -> None:
        """Says that the work is over; at once for the caller, soon for the control plane."""
        with self._changed:
            if self._held.pop(lease, self) is self:
                return
            self._returned.append(_returned(lease, outcome, message))
            self._changed.notify_all()

    def close(self) -> None:
        """Gives everything back."""
        with self._changed:
            self._closed = True
            self._returned += [_returned(lease, "stopped", None) for lease in self._held]
            self._held.clear()
            self._changed.notify_all()
            keeper = self._keeper
        if keeper is not None:
            keeper.join(timeout=10)

    # -- asking

    @contextlib.contextmanager
    def _asking(self, ids: list[str]) -> Any:
        self._asking_since.update(dict.fromkeys(ids, time.monotonic()))
        try:
            yield
        except (PlacementTimeoutError, TaskSubmissionError, VersionMismatchError):
            raise
        except BaseException:
            # Interrupted, or the answer was lost: nobody would use the place.
            with contextlib.suppress(SchedulerError):
                self._withdraw(ids)
            raise
        finally:
            for id in ids:
                self._asking_since.pop(id, None)

    def _granted(self, placement: dict[str, Any], deadline: float | None, words: _Words) -> Lease:
        while placement["status"] == "queued":
            if deadline is not None and time.monotonic() >= deadline:
                self._withdraw([placement["id"]])
                raise PlacementTimeoutError(
                    f"{placement['id']} found no place in time: {_why(placement)}",
                    hint="raise timeout, or ask for less; `why` is in the message",
                    job_id=placement["id"],
                )
            self._check_versions(placement)
            words.say(placement)
            placement = self._look(placement["id"], deadline, words)
        if placement["status"] == "ended":
            raise TaskSubmissionError(
                f"{placement['id']} was given up: {placement.get('message') or 'stopped'}",
                job_id=placement["id"],
            )
        return self._hold(placement)

    def _check_versions(self, placement: dict[str, Any]) -> None:
        """Waiting does not help if every cluster that may take it runs something else."""
        verdicts = (placement.get("why") or {}).get("clusters") or []
        others = [one for one in verdicts if one.get("reason") == "other_versions"]
        if not others or any(one.get("reason") not in NEVER for one in verdicts):
            return
        self._withdraw([placement["id"]])
        told = "; ".join(f"{one['cluster']} {one['text']}" for one in others)
        raise VersionMismatchError(
            f"{placement['id']} can run nowhere: {told}",
            hint="submit it as a job (submit_job), for which versions may differ, or run this "
            "program in an environment with the Ray and the Python of a cluster",
            job_id=placement["id"],
            cluster=others[0]["cluster"],
        )

    def _look(self, id: str, deadline: float | None, words: _Words) -> dict[str, Any]:
        wait = min(_this_long(deadline), words.due_in())
        path = f"/v1/placements/{segment(id)}"
        return self._plane.get(path, wait=f"{wait:.3f}s", timeout=wait + 30)

    def _hold(self, placement: dict[str, Any]) -> Lease:
        granted = placement["granted"]
        lease = Lease(placement["id"], granted["attempt"], granted["cluster"])
        with self._changed:
            self._time_to_live = float(granted["lease_seconds"])
            self._held[lease] = None
            if self._keeper is None and not self._closed:
                self._keeper = threading.Thread(
                    target=self._keep, name="ray-multicluster-leases", daemon=True
                )
                self._keeper.start()
        return lease

    def _withdraw(self, ids: list[str]) -> None:
        """Queued or just granted: nobody will use them. What is not heard expires."""
        if ids:
            with contextlib.suppress(SchedulerError):
                self._plane.post("/v1/placements/stop", {"ids": ids})

    # -- keeping

    def _forget(self, lease: Lease) -> None:
        with self._changed:
            self._held.pop(lease, None)

    def _keep(self) -> None:
        next_beat = time.monotonic() + self._time_to_live / 3
        while True:
            with self._changed:
                while not self._returned and not self._closed and time.monotonic() < next_beat:
                    self._changed.wait(min(LOOK_FOR_DROPPED, next_beat - time.monotonic()))
                    while self.dropped:
                        self.give_back(self.dropped.popleft())
                if self._closed and not self._returned:
                    return
                closing = self._closed
            if not closing:
                time.sleep(GATHER)
            try:
                self._send_all_returned()
                if time.monotonic() >= next_beat and not closing:
                    next_beat = time.monotonic() + self._time_to_live / 3
                    self._beat()
            except SchedulerError as error:
                if closing:
                    log.info("could not give back places: %s", error.message)
                    return
                # What is not given back expires; what lives is said again in a moment.
                log.info("the control plane was not reached: %s", error.message)
                time.sleep(1.0)
            except Exception:
                log.exception("keeping places alive failed; going on")
                time.sleep(1.0)

    def _send_all_returned(self) -> None:
        while True:
            with self._changed:
                batch = self._returned[:MOST_AT_ONCE]
            if not batch:
                return
            self._send_returned(batch)
            with self._changed:
                del self._returned[: len(batch)]

    def _send_returned(self, batch: list[dict[str, Any]]) -> None:
        self._plane.post("/v1/placements/release", {"leases": batch})

    def _beat(self) -> None:
        with self._changed:
            held = list(self._held)
        for start in range(0, len(held), MOST_AT_ONCE):
            some = held[start : start + MOST_AT_ONCE]
            said = [{"id": lease.id, "attempt": lease.attempt} for lease in some]
            answer = self._plane.post("/v1/placements/heartbeat", {"leases": said})
            for lease, about in zip(some, answer["leases"]):
                if about["status"] == "stopping":
                    self._asked_to_stop(lease)
                elif about["status"] == "gone":
                    # A stall of ours: the work goes on, only nobody counts it any more.
                    log.info("the place %s on %s has expired", lease.id, lease.cluster)
                    self._forget(lease)


class _Words:
    """Tells, not too often, why something waits."""

    def __init__(self, id: str) -> None:
        self._id = id
        self._since = time.monotonic()
        self._next = self._since + FIRST_WORD

    def due_in(self) -> float:
        return max(0.05, self._next - time.monotonic())

    def say(self, placement: dict[str, Any]) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + FURTHER_WORDS
            log.warning("%s waits for %.0f s: %s", self._id, now - self._since, _why(placement))


def _why(placement: dict[str, Any]) -> str:
    summary = (placement.get("why") or {}).get("summary")
    return summary or placement.get("message") or "the control plane did not say why"


def _returned(lease: Lease, outcome: str, message: str | None) -> dict[str, Any]:
    about = {"id": lease.id, "attempt": lease.attempt, "outcome": outcome}
    return {**about, "message": message[:1000]} if message else about


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def _this_long(deadline: float | None) -> float:
    if deadline is None:
        return LONGEST_WAIT
    return min(LONGEST_WAIT, max(0.0, deadline - time.monotonic()))
