"""A job's log, followed to its end over connections that break."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from .._plane.client import ControlPlane
from .._plane.events import EventStream


def follow(plane: ControlPlane, path: str) -> Iterator[str]:
    """Pieces of the log, each once.

    A new connection begins with the present attempt; the part of it that was passed on before is
    left out. A replica that is behind may begin with an earlier attempt, which was passed on, too.
    """
    # In bytes, not characters: the control plane counts bytes.
    attempt, passed = 0, 0
    told: set[str] = set()
    with contextlib.closing(EventStream(plane, path, resume=False)) as stream:
        for event in stream:
            if event.kind == "end":
                return
            if event.kind == "note" and event.data["text"] not in told:
                told.add(event.data["text"])
                yield event.data["text"]
            elif event.kind == "log":
                if event.data["attempt"] < attempt:
                    continue
                if event.data["attempt"] > attempt:
                    attempt, passed = event.data["attempt"], 0
                piece = event.data["text"].encode()
                fresh = piece[max(passed - event.data["from"], 0) :]
                passed = max(passed, event.data["from"] + len(piece))
                if fresh:
                    yield fresh.decode("utf-8", "replace")
