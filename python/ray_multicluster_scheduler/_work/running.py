"""Which tasks of this program still run, so that their placements are given back when they end.

Ray does not report that a task has ended. So fetching a result reports it, and a thread asks Ray
about the rest: often while work of this program waits for a placement, seldom otherwise.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import ClusterConnectionError
from .held import Lease
from .leases import Leases
from .rerun import Rerun

if TYPE_CHECKING:
    from .._ray import Connection

log = logging.getLogger("ray_multicluster_scheduler")

#: The pause between two looks at running tasks: while work waits for a placement, and otherwise.
EAGER, CALM = 0.05, 0.5
#: Looking takes at most this share of the time, unless a cluster is slow to answer.
SHARE, LONGEST = 0.1, 2.0
#: The most references of one look.
MOST_AT_ONCE = 1000


@dataclass(eq=False)
class Share:
    """A placement, and the references of the tasks that run in it."""

    lease: Lease
    connection: Connection
    #: By identity: reading the id of a Ray Client reference may block.
    refs: dict[int, Any]
    #: For a task that may run again when its cluster is lost.
    again: Rerun | None = None


class Running:
    """Safe to use from any thread."""

    def __init__(self, leases: Leases) -> None:
        self.leases = leases
        self._changed = threading.Condition()
        self._shares: dict[Share, None] = {}
        self._watcher: threading.Thread | None = None
        self._closed = False

    def add(
        self, lease: Lease, connection: Connection, refs: list[Any], again: Rerun | None = None
    ) -> Share:
        """Watches a placement, in which these run, from now on."""
        share = Share(lease, connection, {id(ref): ref for ref in refs}, again)
        if not refs:
            # A task that returns nothing never shows that it has ended.
            self.leases.give_back(lease, is_free=False)
            return share
        with self._changed:
            self._shares[share] = None
            if self._watcher is None and not self._closed:
                self._watcher = threading.Thread(
                    target=self._watch, name="ray-multicluster-running", daemon=True
                )
                self._watcher.start()
            self._changed.notify_all()
        return share

    def ended(self, share: Share, ref: int, error: BaseException | None = None) -> None:
        """The task of the reference with this `id()` has ended."""
        with self._changed:
            share.refs.pop(ref, None)
            if share.refs or self._shares.pop(share, self) is self:
                return
        if error is None:
            self.leases.give_back(share.lease)
        else:
            self.leases.give_back(share.lease, "failed", type(error).__name__)
        if share.again is None or not isinstance(error, ClusterConnectionError):
            return
        if not share.connection.alive() and not share.connection.is_closed:
            # At once: the result may be requested only hours later.
            share.again(error)

    def of(self, lease: Lease) -> list[Any]:
        """The references of the tasks in this placement."""
        with self._changed:
            shares = [share for share in self._shares if share.lease == lease]
            return [ref for share in shares for ref in share.refs.values()]

    def close(self) -> None:
        """Stops watching."""
        with self._changed:
            self._closed = True
            for share in self._shares:
                share.refs.clear()
            self._shares.clear()
            self._changed.notify_all()

    def _watch(self) -> None:
        took = 0.0
        while True:
            with self._changed:
                while not self._shares and not self._closed:
                    self._changed.wait()
            # Most results are fetched before we have to ask.
            self._pause(least=min(took / SHARE, LONGEST))
            with self._changed:
                if self._closed:
                    return
                shares = list(self._shares)
            began = time.monotonic()
            try:
                self._look(shares)
            except Exception:
                log.exception("checking what still runs failed, will retry")
            took = time.monotonic() - began

    def _pause(self, least: float) -> None:
        began = time.monotonic()
        pause = max(CALM, least)
        while time.monotonic() - began < pause and not self._closed:
            time.sleep(EAGER)
            if self.leases.held_up():
                pause = least

    def _look(self, shares: list[Share]) -> None:
        """A share has ended when all of it has, so one reference of each is asked about first."""
        with self._changed:
            lasts = [(share, next(reversed(share.refs.values()), None)) for share in shares]
        ended = self._ask([(share, ref) for share, ref in lasts if ref is not None])
        with self._changed:
            rest = [(share, ref) for share in ended for ref in share.refs.values()]
        self._ask(rest)

    def _ask(self, running: list[tuple[Share, Any]]) -> list[Share]:
        """The shares of the references that have ended."""
        by_connection: dict[Connection, list[tuple[Share, Any]]] = {}
        for share, ref in running:
            by_connection.setdefault(share.connection, []).append((share, ref))
        shares = []
        for connection, entries in by_connection.items():
            for start in range(0, len(entries), MOST_AT_ONCE):
                some = entries[start : start + MOST_AT_ONCE]
                error = None
                try:
                    found = connection.ready([ref for _, ref in some])
                except ClusterConnectionError as lost:
                    found, error = [True] * len(some), lost
                for (share, ref), has_ended in zip(some, found):
                    if has_ended:
                        shares.append(share)
                        self.ended(share, id(ref), error)
        return shares
