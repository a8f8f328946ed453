"""Submissions in the background, in threads that do not delay the end of a program."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future
from typing import Any, Callable, TypeVar

from .._context import chosen_cluster, cluster_context

T = TypeVar("T")

#: How many submissions may wait for a placement at the same time; others wait for them.
MOST = 64


class Later:
    """Like an executor with daemon threads, because a submission may wait forever."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._todo: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._threads = 0
        self._idle = 0

    def do(self, submit: Callable[[], T], future: Future[T]) -> None:
        """With the cluster that the calling thread chose."""
        chosen = chosen_cluster()

        def there() -> T:
            with cluster_context(chosen):
                return submit()

        self._todo.put((future, there))
        with self._lock:
            if self._idle < self._todo.qsize() and self._threads < MOST:
                self._threads += 1
                threading.Thread(
                    target=self._run, name="ray-multicluster-submit", daemon=True
                ).start()

    def close(self) -> None:
        """Cancels submissions that have not begun."""
        while True:
            try:
                future, _ = self._todo.get_nowait()
            except queue.Empty:
                return
            if future.cancel():
                # Only this notifies callers that wait for several futures.
                future.set_running_or_notify_cancel()

    def _run(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            future, submit = self._todo.get()
            with self._lock:
                self._idle -= 1
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(submit())
            except BaseException as error:
                future.set_exception(error)
            # Not kept alive while this thread waits for the next.
            del future, submit
