"""Server-Sent Events, read in the background as a browser does."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from typing import Any
from urllib.parse import urlsplit

from .waiting import wait_until


class EventStream:
    """`with EventStream(url) as events:` all events sent since, in `events.seen`."""

    def __init__(self, url: str, headers: dict[str, str] | None = None) -> None:
        self.seen: list[dict[str, Any]] = []
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.netloc, timeout=120)
        self._connection.connect()
        # Kept, because an answer without a length takes over the connection.
        self._socket = self._connection.sock
        self._connection.request("GET", f"{parts.path}?{parts.query}", headers=headers or {})
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200, self._answer.read()
        assert self._answer.headers["content-type"].startswith("text/event-stream")
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> EventStream:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Ends the read that is under way; a plain close would wait for it.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._answer.close()
        self._connection.close()

    def wait_for(self, timeout: float = 30, **fields: object) -> dict[str, Any]:
        """The first event that has these fields."""

        def look() -> dict[str, Any] | None:
            return next((e for e in self.seen if fields.items() <= e.items()), None)

        return wait_until(look, f"an event with {fields} among {len(self.seen)}", timeout)

    def _read(self) -> None:
        fields: dict[str, str] = {}
        with contextlib.suppress(OSError, http.client.HTTPException):
            for raw in self._answer:
                line = raw.decode().rstrip("\r\n")
                if line:
                    name, _, value = line.partition(":")
                    fields[name] = value.strip()
                elif "data" in fields:
                    event = json.loads(fields["data"])
                    assert str(event["seq"]) == fields["id"]
                    assert event["type"] == fields["event"]
                    self.seen.append(event)
                    fields = {}
