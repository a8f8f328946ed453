"""Restarts the control plane whenever it has exited, as systemd does, and counts the restarts."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from support.plane import Plane


class Keeper(threading.Thread):
    def __init__(self, plane: Plane) -> None:
        super().__init__(daemon=True)
        self.plane = plane
        self.restarts = 0
        #: Its error when it could not start.
        self.refusals: list[str] = []
        self._lock = threading.Lock()
        self._over = threading.Event()

    @contextlib.contextmanager
    def killed(self) -> Iterator[None]:
        """SIGKILL; within, it stays down."""
        with self._lock:
            self.plane.kill()
            yield

    def run(self) -> None:
        while not self._over.is_set():
            with self._lock:
                if self.plane.has_ended():
                    self._start()
            time.sleep(0.2)

    def _start(self) -> None:
        self.plane.kill()
        try:
            self.plane.start()
            self.restarts += 1
        except AssertionError as refusal:
            self.refusals.append(str(refusal))
            time.sleep(1)

    def close(self) -> None:
        self._over.set()
        self.join(60)
