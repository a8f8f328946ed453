"""Which tasks of this program still run, so that their places are given back when they end.

Ray tells nobody that a task has ended. So whoever fetches a result tells us (`fetched`), and a
thread asks Ray about the rest: often while something of this program waits for a place, seldom
otherwise.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import ClusterConnectionError
from .leases import Lease, Leases

if TYPE_CHECKING:
    from .._ray import Connection

log = logging.getLogger("ray_multicluster_scheduler")

#: Between two looks at what still runs: while something waits for a place, and otherwise.
EAGER, CALM = 0.05, 0.5
#: Looking takes at most this share of the time.
SHARE = 0.1
#: References of one look.
MOST_AT_ONCE = 1000
#: Where a reference carries what we know of it.
MARK = "_multicluster_share"


@dataclass(eq=False)
class Share:
    """A place, and the references of the tasks that run in it."""

    lease: Lease
    connection: Connection
    #: By identity: the id of a reference of Ray Client may have to be waited for.
    refs: dict[int, Any]


class Running:
    """Safe to use from any thread."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self._changed = threading.Condition()
        self._shares: dict[Share, None] = {}
        self._watcher: threading.Thread | None = None
        self._closed = False

    def add(self, lease: Lease, connection: Connection, refs: list[Any]) -> None:
        """Takes care of a place, in which these run, from now on."""
        share = Share(lease, connection, {id(ref): ref for ref in refs})
        for ref in refs:
            ref.__dict__[MARK] = share
        with self._changed:
            self._shares[share] = None
            if self._watcher is None and not self._closed:
                self._watcher = threading.Thread(
                    target=self._watch, name="ray-multicluster-running", daemon=True
                )
                self._watcher.start()
            self._changed.notify_all()

    def fetched(self, refs: list[Any], error: BaseException | None = None) -> None:
        """These have ended: somebody has their results, or what they raised."""
        for ref in refs:
            share = ref.__dict__.pop(MARK, None)
            if share is None:
                continue
            with self._changed:
                share.refs.pop(id(ref), None)
                if share.refs or self._shares.pop(share, self) is self:
                    continue
            if error is None:
                self._leases.give_back(share.lease)
            else:
                self._leases.give_back(share.lease, "failed", f"{type(error).__name__}: {error}")

    def of(self, lease: Lease) -> list[Any]:
        """What runs in this place."""
        with self._changed:
            shares = [share for share in self._shares if share.lease == lease]
            return [ref for share in shares for ref in share.refs.values()]

    def close(self) -> None:
        """Looks no more."""
        with self._changed:
            self._closed = True
            self._shares.clear()
            self._changed.notify_all()

    def _watch(self) -> None:
        while True:
            with self._changed:
                while not self._shares and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                running = [
                    (share.connection, ref) for share in self._shares for ref in share.refs.values()
                ]
            began = time.monotonic()
            try:
                self._look(running)
            except Exception:
                log.exception("looking at what still runs failed; going on")
            self._pause(least=(time.monotonic() - began) / SHARE)

    def _pause(self, least: float) -> None:
        began = time.monotonic()
        pause = max(CALM, least)
        while time.monotonic() - began < pause and not self._closed:
            time.sleep(EAGER)
            if self._leases.held_up():
                pause = least

    def _look(self, running: list[tuple[Connection, Any]]) -> None:
        by_connection: dict[Connection, list[Any]] = {}
        for connection, ref in running:
            by_connection.setdefault(connection, []).append(ref)
        for connection, refs in by_connection.items():
            for start in range(0, len(refs), MOST_AT_ONCE):
                some = refs[start : start + MOST_AT_ONCE]
                try:
                    ended = connection.ready(some)
                except ClusterConnectionError as error:
                    self.fetched(refs, error)
                    break
                self.fetched([ref for ref, has_ended in zip(some, ended) if has_ended])
