"""What `up` shows while it waits."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TextIO

CLEAR = "\r\x1b[K"
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Progress:
    """A line for each cluster that has come up, and on a terminal a line that lives below them."""

    def __init__(self, names: Sequence[str], timeout: int, stream: TextIO | None = None) -> None:
        self._began = time.monotonic()
        self._names = list(names)
        self._waiting = list(names)
        self._timeout = timeout
        self._stream = stream or sys.stderr
        self._is_live = self._stream.isatty()
        self._looks = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_error: object) -> None:
        # Whatever is printed next begins on an empty line.
        self.clear()

    def show(self, waiting: Sequence[str]) -> None:
        """These clusters are not up yet."""
        seconds = time.monotonic() - self._began
        came = [name for name in self._waiting if name not in waiting]
        self._waiting = [name for name in self._waiting if name in waiting]
        self.clear()
        for name in came:
            up = len(self._names) - len(self._waiting)
            self._write(f"{name} is up after {seconds:.0f} s ({up} of {len(self._names)})\n")
        if self._is_live and self._waiting:
            self._looks += 1
            turn = SPINNER[self._looks % len(SPINNER)]
            names = " and ".join(self._waiting)
            self._write(f"{turn} waiting for {names}: {seconds:.0f} s of at most {self._timeout} s")

    def clear(self) -> None:
        """Removes the line that lives."""
        if self._is_live:
            self._write(CLEAR)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
