"""Programs that fork: the parent's objects stay in the child, alive and unused.

A forked child has one thread, the copy of the one that forked. The parent's other threads are gone,
the locks that they held stay locked, and its connections are still the parent's. So a child never
finalises or uses what its parent had: an id that had not arrived never arrives, and closing a
stream would wait for a thread that is not there. Everything stays in memory until the child exits,
and the objects that programs hold (schedulers, refs, handles) let go of it.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any, Protocol


class Forkable(Protocol):
    """Something with locks, threads or connections."""

    def after_fork(self) -> None:
        """In the child: lets go of all that the parent had. Must not take any of its locks."""


_here: weakref.WeakSet[Any] = weakref.WeakSet()
#: What the parent had.
_kept: list[Any] = []
# One reference too many: the interpreter clears modules when it exits, but never frees this list.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_kept))


def belongs_here(thing: Forkable) -> None:
    """Calls `after_fork` of it in every forked child, and keeps there all that it held."""
    _here.add(thing)


def _in_child() -> None:
    ours = list(_here)
    for thing in ours:
        _kept.append((thing, dict(vars(thing))))
    for thing in ours:
        thing.after_fork()


os.register_at_fork(after_in_child=_in_child)
