"""The tasks and actors that this program submitted, by id."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any

from ..errors import UnknownJobError
from .rerun import Rerun

#: A result stays in the memory of its cluster for as long as its reference is kept here.
MOST_KEPT = 100


@dataclass(frozen=True)
class Entry:
    """One task or actor: its cluster and its refs, or why it has none."""

    cluster: str | None = None
    #: A reference, several, or a handle; None while it is queued.
    value: Any = None
    error: BaseException | None = None
    #: SUCCEEDED or FAILED, once that is known.
    outcome: str | None = None
    #: The same, if the caller decides how long it is kept.
    weak: weakref.ref[Any] | None = None
    #: The run after this one, for a task that may run again.
    again: Rerun | None = None


class Known:
    """The latest of them, for callers that kept only the id. Safe to use from any thread."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, Entry] = OrderedDict()

    def put(self, id: str, entry: Entry) -> None:
        """Remembers it, or its outcome."""
        with self._lock:
            self._entries[id] = entry
            while len(self._entries) > MOST_KEPT:
                self._entries.popitem(last=False)

    def get(self, id: str) -> Entry:
        """The entry of this id.

        Raises:
            UnknownJobError: not submitted by this program, or too long ago.
        """
        with self._lock:
            entry = self._entries.get(id)
        if entry is not None and entry.weak is not None:
            entry = replace(entry, value=entry.weak()) if entry.weak() is not None else None
        if entry is None:
            raise UnknownJobError(
                f"this program has no {self._what} {id}",
                hint=f"keep what submit_{self._what} returns: only the last {MOST_KEPT} can be "
                "found by id, until their result is fetched",
                job_id=id,
            )
        return entry

    def fade(self, id: str) -> None:
        """Its result was fetched: from now on, only the caller keeps the reference alive."""
        with self._lock:
            entry = self._entries.get(id)
            if entry is not None and not isinstance(entry.value, (list, type(None))):
                weak = weakref.ref(entry.value)
                self._entries[id] = Entry(entry.cluster, weak=weak, again=entry.again)

    def clear(self) -> None:
        """Forgets all."""
        with self._lock:
            self._entries.clear()
