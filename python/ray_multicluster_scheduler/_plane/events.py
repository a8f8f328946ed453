"""Server-Sent Events of the control plane, read over connections that break."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import urllib3

from ..errors import SchedulerError
from .client import ControlPlane

#: The control plane sends at least one line every 15 s.
SILENCE = 45.0

#: The pause between two tries to connect: doubled each time.
SHORTEST_PAUSE = 0.1
LONGEST_PAUSE = 5.0

#: The event of :class:`EventStream` itself, each time it connects: earlier changes must be looked
#: up, later events will arrive.
CONNECTED = "connected"


@dataclass(frozen=True)
class Event:
    kind: str
    data: dict[str, Any] = field(default_factory=dict)


class EventStream:
    """``for event in stream``: endless, until any thread calls :meth:`close`.

    It reconnects when the control plane goes away and comes back, or another replica leads it. With
    `resume`, it asks for the events after the last one, wherever that came from.

    Raises:
        SchedulerError: the control plane refuses; asking again would not help.
    """

    def __init__(
        self, plane: ControlPlane, path: str, *, resume: bool = True, **query: Any
    ) -> None:
        self._plane = plane
        self._path = path
        self._query = query
        self._resume = resume
        self._last_id: str | None = None
        self._closed = threading.Event()
        self._answer: urllib3.BaseHTTPResponse | None = None

    def __iter__(self) -> Iterator[Event]:
        pause = SHORTEST_PAUSE
        while not self._closed.is_set():
            try:
                answer = self._connect()
            except SchedulerError as error:
                if not may_pass(error):
                    raise
            else:
                self._answer = answer
                try:
                    yield Event(CONNECTED)
                    # The cause of a broken connection does not matter: the stream reconnects.
                    with contextlib.suppress(urllib3.exceptions.HTTPError, OSError, ValueError):
                        for event in self._read(answer):
                            pause = SHORTEST_PAUSE
                            yield event
                finally:
                    answer.close()
            self._closed.wait(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def close(self) -> None:
        self._closed.set()
        # Ends the read that is under way. Older urllib3 cannot; there it ends with the next data.
        shutdown = getattr(self._answer, "shutdown", None)
        if shutdown is not None:
            with contextlib.suppress(OSError, ValueError, RuntimeError):
                shutdown()

    def _connect(self) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": "text/event-stream"}
        if self._resume and self._last_id is not None:
            headers["Last-Event-ID"] = self._last_id
        return self._plane.open(
            "GET",
            self._path,
            query=self._query,
            timeout=SILENCE,
            patience=0,
            stream=True,
            headers=headers,
        )

    def _read(self, answer: urllib3.BaseHTTPResponse) -> Iterator[Event]:
        fields: dict[str, str] = {}
        for raw in answer:
            if self._closed.is_set():
                return
            line = raw.decode("utf-8", "replace").rstrip("\r\n")
            if line:
                name, _, value = line.partition(":")
                fields[name] = value[1:] if value.startswith(" ") else value
                continue
            # An empty line ends an event; an incomplete event at the end of a connection is
            # dropped. A number alone says where the stream begins.
            self._last_id = fields.get("id", self._last_id)
            if "data" in fields:
                yield Event(fields.get("event", "message"), json.loads(fields["data"]))
            fields = {}


def may_pass(error: SchedulerError) -> bool:
    """True if the same request may succeed later, e.g. when the control plane restarts."""
    if isinstance(error.__cause__, urllib3.exceptions.HTTPError):
        return True
    return error.code in (
        "busy",
        "overloaded",
        "stopping",
        "cannot_write",
        "no_leader",
        "leader_lost",
        "http_502",
        "http_503",
        "http_504",
    )
