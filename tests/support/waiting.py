"""Polling with a deadline: the tests never sleep for a fixed time and hope."""

from __future__ import annotations

import os
import time
from typing import Callable, TypeVar

T = TypeVar("T")

# Machines with other load are slow; one factor for all deadlines.
PATIENCE = float(os.environ.get("E2E_PATIENCE", "1"))


def wait_until(
    probe: Callable[[], T | None],
    what: str,
    timeout: float = 60.0,
    every: float = 0.2,
) -> T:
    """Calls `probe` until it returns something true, and returns that.

    An exception of `probe` counts as "not yet"; the last one, or the last value, is part of the
    failure, because "timed out" alone explains nothing.
    """
    deadline = time.monotonic() + timeout * PATIENCE
    last: object = None
    while True:
        try:
            value = probe()
            if value:
                return value
            last = value
        except Exception as error:
            last = error
        if time.monotonic() >= deadline:
            break
        time.sleep(every)
    raise AssertionError(f"not within {timeout * PATIENCE:.0f} s: {what}; last: {last!r:.2000}")


def holds_for(probe: Callable[[], bool], seconds: float, what: str, every: float = 0.2) -> None:
    """Asserts that `probe` stays true for that long: for events that must *not* happen."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert probe(), f"did not hold for {seconds} s: {what}"
        time.sleep(every)
