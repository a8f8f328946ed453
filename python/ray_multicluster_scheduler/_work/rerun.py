"""Tasks that their caller allowed to run again."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any, Callable

from ..errors import ClusterConnectionError


class Rerun:
    """For one run of a task: the next run, if its cluster is lost. Safe to use from any thread.

    `start` is called at most once, with the error and the future to fill.
    """

    def __init__(self, start: Callable[[ClusterConnectionError, Future[list[Any]]], None]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._next: Future[list[Any]] | None = None

    def __call__(self, lost: ClusterConnectionError) -> Future[list[Any]]:
        """The references of the next run, which begins now if it has not begun."""
        with self._lock:
            is_first = self._next is None
            if self._next is None:
                self._next = Future()
        if is_first:
            self._start(lost, self._next)
        return self._next

    def waits(self) -> bool:
        """Is the next run waiting for a placement?"""
        return self._next is not None and not self._next.done()
