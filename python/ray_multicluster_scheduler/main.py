"""A process that keeps a control plane for this user's programs, as the earlier prototype's did.

Deprecated: the SDK starts a control plane itself; ``ray-multicluster serve`` starts one that others
can use too.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import threading
from types import FrameType

from ._scheduler import attached, initialize_scheduler_environment
from .common.logging import configure_logging
from .errors import SchedulerError

__all__ = ["main", "shutdown_scheduler", "signal_handler"]

#: An idle control plane exits after a while, so it gets a request this often.
PAUSE = 30.0

_log = logging.getLogger("ray_multicluster_scheduler")
_ended = threading.Event()


def main() -> None:
    """Starts this user's control plane if none runs, and blocks until SIGTERM or Ctrl-C."""
    configure_logging()
    _ended.clear()
    with contextlib.suppress(ValueError):  # Signals are the main thread's.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal_handler)
    scheduler = initialize_scheduler_environment()
    _log.info("attached to the control plane at %s", scheduler.plane.address)
    while not _ended.wait(PAUSE):
        try:
            scheduler.plane.get("/v1/pool")
        except SchedulerError as error:
            _log.warning("%s", error)


def signal_handler(signum: int, frame: FrameType | None) -> None:
    """Lets go of the control plane and ends this process; jobs go on."""
    shutdown_scheduler()
    sys.exit(0)


def shutdown_scheduler() -> None:
    """Ends `main()` and stops this program's scheduler, if it has one; jobs go on."""
    _ended.set()
    scheduler = attached()
    if scheduler is not None:
        scheduler.stop()


if __name__ == "__main__":
    main()
