"""Calls that may hang, in threads of their own."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any, Callable


def start(call: Callable[[], Any]) -> Future:
    """Runs it in its own thread, which a hanging cluster may block: no pool runs out."""
    future: Future = Future()

    def run() -> None:
        try:
            result = call()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, daemon=True, name="ray-multicluster-call").start()
    return future
