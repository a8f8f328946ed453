"""The leases of this program: kept alive by heartbeats, given back in few requests."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Any, Callable, cast

from .._plane.client import TIMEOUT, ControlPlane
from .._plane.events import may_pass
from .._plane.wire import Granted, LeaseAnswer, Placement
from ..errors import SchedulerError

log = logging.getLogger("ray_multicluster_scheduler")

#: Leases returned within this time go into one request.
GATHER = 0.005
#: The pause between two looks at dropped leases.
LOOK_FOR_DROPPED = 1.0
#: A placement whose task has ended is kept this long for the next task of the same shape.
SPARE = 0.05
#: The pause between two tries to reach a control plane that is away.
PAUSE = 1.0
#: With several addresses, a heartbeat waits at least this long for one of them.
SHORTEST_BEAT = 1.0
#: The most items of one request.
MOST_BEATS, MOST_RETURNED = 10_000, 1000
#: The longest message. Errors of a task are private: only their type is sent.
LONGEST_MESSAGE = 200


@dataclass(frozen=True)
class Lease:
    """A placement on a cluster."""

    id: str
    attempt: int
    cluster: str


class Held:
    """Safe to use from any thread.

    `asked_to_stop` is called, in a thread of ours, for a lease that must be given back.
    """

    def __init__(self, plane: ControlPlane, asked_to_stop: Callable[[Lease], None]) -> None:
        self._plane = plane
        self._asked_to_stop = asked_to_stop
        self._changed = threading.Condition()
        self._held: dict[Lease, None] = {}
        #: Placements that may serve one task after another: their shape, and until when.
        self._reusable: dict[Lease, tuple[str, float]] = {}
        #: Reusable placements without a running task: since when.
        self._spare: dict[Lease, float] = {}
        self._looks_at_spare = False
        #: One thread reports at a time, in order.
        self._telling = threading.Lock()
        self._returned: deque[dict[str, Any]] = deque()
        #: Given back when there is time. Finalizers run anywhere, even while our own locks are
        #: held, so they may only append to this.
        self.dropped: deque[Lease] = deque()
        self._time_to_live = 30.0
        self._keeper: threading.Thread | None = None
        self._closed = False

    def hold(self, placement: Placement, shape: str | None = None) -> Lease:
        """Keeps a granted placement alive from now on.

        With a `shape` it may serve further tasks of that shape, for as long as the control plane
        allows it: not at all if it spaces submissions.
        """
        granted = cast(Granted, placement["granted"])
        lease = Lease(placement["id"], granted["attempt"], granted["cluster"])
        with self._changed:
            if self._closed:
                raise SchedulerError(
                    f"the scheduler was stopped while {lease.id} was submitted",
                    hint="initialize the scheduler again, then submit it",
                    job_id=lease.id,
                    cluster=lease.cluster,
                )
            self._time_to_live = float(granted["lease_seconds"])
            self._held[lease] = None
            if shape is not None and granted.get("reuse_seconds"):
                until = time.monotonic() + float(granted["reuse_seconds"])
                self._reusable[lease] = (shape, until)
            if self._keeper is None:
                self._keeper = threading.Thread(
                    target=self._keep, name="ray-multicluster-leases", daemon=True
                )
                self._keeper.start()
        return lease

    def take_spare(self, shape: str) -> Lease | None:
        """A placement in which a task of this shape has just ended."""
        with self._changed:
            now = time.monotonic()
            for lease in reversed(self._spare):
                kept_for, until = self._reusable[lease]
                if kept_for == shape and now < until:
                    del self._spare[lease]
                    return lease
        return None

    def give_back(
        self,
        lease: Lease,
        outcome: str = "succeeded",
        message: str | None = None,
        *,
        is_free: bool = True,
    ) -> None:
        """The work is over. Returns at once; the control plane is notified soon.

        `is_free`: none of it still runs there.
        """
        with self._changed:
            if lease not in self._held:
                return
            now = time.monotonic()
            _, reusable_until = self._reusable.get(lease, ("", 0.0))
            is_reusable = outcome == "succeeded" and is_free and now < reusable_until
            # Other work of this program waits for a placement and comes first.
            if is_reusable and not self._closed and not self.is_asking():
                self._spare[lease] = now
                if self._looks_at_spare:
                    return
            else:
                self._forget(lease)
                self._returned.append(returned(lease, outcome, message))
            self._changed.notify_all()

    def is_asking(self) -> bool:
        """Whether any work of this program requests a placement."""
        return False

    def return_spare(self) -> None:
        """Gives back placements without a running task at once."""
        with self._changed:
            self._return_spare(before=float("inf"))
            if not self._returned:
                return
        self._try(self._tell_returned)

    def forget(self, lease: Lease) -> None:
        """It is no longer held, and the control plane knows."""
        with self._changed:
            self._forget(lease)

    def close(self) -> None:
        """Gives all leases back."""
        with self._changed:
            self._closed = True
            self._return_spare(before=float("inf"))
            self._returned.extend(returned(lease, "stopped") for lease in self._held)
            self._held.clear()
            self._changed.notify_all()
            keeper = self._keeper
        if keeper is not None:
            keeper.join(timeout=10)

    def _forget(self, lease: Lease) -> None:
        self._held.pop(lease, None)
        self._reusable.pop(lease, None)
        self._spare.pop(lease, None)

    def _return_spare(self, before: float) -> None:
        for lease in [lease for lease, since in self._spare.items() if since <= before]:
            self._forget(lease)
            self._returned.append(returned(lease, "succeeded"))

    def _keep(self) -> None:
        next_beat = time.monotonic() + self._time_to_live / 3
        while True:
            closing = self._wait(next_beat)
            # Separately: a failure to give leases back must not lose the others.
            is_told = self._try(self._tell_returned)
            if closing:
                return
            if time.monotonic() >= next_beat and self._try(self._beat):
                next_beat = time.monotonic() + self._time_to_live / 3
            elif not is_told or time.monotonic() >= next_beat:
                time.sleep(PAUSE)

    def _wait(self, next_beat: float) -> bool:
        """Waits until there is something to do; True if it is the last round."""
        with self._changed:
            while not self._returned and not self._closed and time.monotonic() < next_beat:
                # While there are spare placements, look again soon without being woken.
                self._looks_at_spare = bool(self._spare)
                pause = SPARE if self._spare else LOOK_FOR_DROPPED
                self._changed.wait(min(pause, next_beat - time.monotonic()))
                self._return_spare(before=time.monotonic() - SPARE)
                while self.dropped:
                    self.give_back(self.dropped.popleft())
            self._looks_at_spare = False
            if self._closed:
                return True
        time.sleep(GATHER)
        return False

    def _try(self, tell: Callable[[], None]) -> bool:
        try:
            tell()
        except SchedulerError as error:
            log.info("cannot reach the control plane, will retry: %s", error.message)
            return False
        except Exception:
            log.exception("renewing leases failed, will retry")
            return False
        return True

    def _tell_returned(self) -> None:
        """Only what there is now: later returns must not delay heartbeats."""
        with self._telling:
            left = len(self._returned)
            while left:
                count = min(left, MOST_RETURNED)
                batch = [self._returned[n] for n in range(count)]
                try:
                    self._tell("release", batch)
                except SchedulerError as error:
                    # Leases that stay will expire; a refused return would be refused again.
                    if may_pass(error):
                        raise
                    log.warning(
                        "the control plane did not take %d leases back: %s", count, error.message
                    )
                for _ in range(count):
                    self._returned.popleft()
                left -= count

    def _tell(self, what: str, leases: list[dict[str, Any]]) -> Any:
        timeout = TIMEOUT
        if len(self._plane.addresses) > 1:
            # A replica whose machine is gone never answers: the others are asked while the leases
            # still live.
            timeout = min(TIMEOUT, max(SHORTEST_BEAT, self._time_to_live / 6))
        # No patience: while one request waits, the other leases get no heartbeat.
        return self._plane.post(
            f"/v1/placements/{what}",
            {"leases": leases},
            timeout=timeout,
            patience=0,
            is_repeatable=True,
        )

    def _beat(self) -> None:
        with self._changed:
            held = list(self._held)
        for start in range(0, len(held), MOST_BEATS):
            some = held[start : start + MOST_BEATS]
            said = [{"id": lease.id, "attempt": lease.attempt} for lease in some]
            answer = self._tell("heartbeat", said)
            about: LeaseAnswer
            for lease, about in zip(some, answer["leases"]):
                if about["status"] == "stopping":
                    # Everything that runs there must stop, and no task follows it.
                    with self._changed:
                        self._reusable.pop(lease, None)
                        if self._spare.pop(lease, None) is not None:
                            self._forget(lease)
                            self._returned.append(returned(lease, "stopped"))
                    self._asked_to_stop(lease)
                elif about["status"] == "gone":
                    # No heartbeat arrived for too long. The work goes on, but is not counted.
                    log.info("the lease of %s on %s has expired", lease.id, lease.cluster)
                    self.forget(lease)


def returned(lease: Lease, outcome: str, message: str | None = None) -> dict[str, Any]:
    """As the control plane accepts it."""
    about = {"id": lease.id, "attempt": lease.attempt, "outcome": outcome}
    return {**about, "message": message[:LONGEST_MESSAGE]} if message else about
