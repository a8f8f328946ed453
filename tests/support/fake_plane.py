"""A control plane that only answers, and fails as configured.

For events that the real one cannot be made to cause at a given moment: losing an answer, breaking a
stream, being away and coming back with changes.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

ENDED = {"succeeded", "failed", "stopped"}


class FakePlane:
    """``with FakePlane() as plane``: `jobs` and `packages` are what it knows."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.packages: dict[str, bytes] = {}
        self.clusters: list[dict[str, Any]] = []
        self.log_events: list[list[tuple[str, dict[str, Any]]]] = []
        #: The token that every request must carry, if any.
        self.token: str | None = None
        #: Every request, as (method, path with query, body).
        self.requests: list[tuple[str, str, bytes]] = []
        #: The header ``traceparent`` of each job that was submitted with an id.
        self.traceparents: dict[str, str | None] = {}
        #: This many of the next submissions are accepted, and their answers lost.
        self.lose_answers = 0
        #: The next submissions are refused with these: status, code, Retry-After.
        self.refuse: list[tuple[int, str, str]] = []
        #: Everything is refused as overload, with this Retry-After in seconds.
        self.overloaded: str | None = None
        #: This many of the next uploads break off.
        self.break_uploads = 0
        #: Accepts connections, but never answers.
        self.frozen = threading.Event()
        self.tells_events = True
        self.port = 0
        self._events: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self._connections: set[socket.socket] = set()
        self._streams: set[socket.socket] = set()
        self._server: ThreadingHTTPServer | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> FakePlane:
        self.come_back()
        return self

    def __exit__(self, *_: object) -> None:
        self.frozen.clear()
        self.go_away()

    def come_back(self) -> None:
        plane = self

        class Bound(self.handler()):  # type: ignore[misc]
            fake = plane

        self._server = Server(("127.0.0.1", self.port), Bound)
        self.port = self._server.server_address[1]
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()

    @staticmethod
    def handler() -> type[Handler]:
        return Handler

    def go_away(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        self.break_streams()
        self._break(self._connections)

    def break_streams(self) -> None:
        self._break(self._streams)

    def _break(self, connections: set[socket.socket]) -> None:
        with self._changed:
            broken = list(connections)
            connections.clear()
        for connection in broken:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def add(self, job_id: str, state: str = "queued", **fields: Any) -> str:
        now = int(time.time() * 1000)
        if "why" in fields:
            fields["why"] = {"summary": "", "clusters": [], **fields["why"]}
        job = {"id": job_id, "state": state, "attempts": 0, "submitted_at": now, **fields}
        self.jobs[job_id] = {"kind": "job", "ray_status": "", "demand": {}, "priority": 0, **job}
        return job_id

    def change(self, job_id: str, state: str, *, tell: bool = True, **fields: Any) -> None:
        """Without `tell` no event is sent, as if it had happened while the plane was away."""
        now = int(time.time() * 1000)
        with self._changed:
            job = self.jobs[job_id]
            job.update(state=state, **fields)
            if state in ENDED:
                job["ended_at"] = now
            if tell:
                told = {key: fields[key] for key in ("cluster", "message") if key in fields}
                if "message" in told:
                    # Events have only the informative line of a text.
                    told["message"] = told["message"].strip().splitlines()[-1]
                told["attempt"] = job["attempts"]
                event = {
                    "type": "job",
                    "seq": len(self._events) + 1,
                    "at": now,
                    "job": job_id,
                    "state": state,
                }
                self._events.append({**event, **told})
                self._changed.notify_all()

    def asked(self, method: str, pattern: str) -> list[str]:
        """The requests that match, in order."""
        return [
            path for verb, path, _ in self.requests if verb == method and re.match(pattern, path)
        ]

    def watchers(self) -> int:
        return len(self._streams)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections break here all the time."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body in one piece: two would wait for each other's acknowledgement.
    wbufsize = -1
    fake: FakePlane

    def setup(self) -> None:
        super().setup()
        with self.fake._changed:
            self.fake._connections.add(self.connection)

    def finish(self) -> None:
        with self.fake._changed:
            self.fake._connections.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PUT = do_DELETE = do_GET

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.fake.requests.append((self.command, self.path, body))
        if (self.command, self.path) == ("POST", "/v1/jobs"):
            self.fake.traceparents[json.loads(body).get("id")] = self.headers.get("traceparent")
        if self.fake.token and self.headers.get("Authorization") != f"Bearer {self.fake.token}":
            said = {"code": "no_token", "message": "Unauthorized: Missing authentication token"}
            self._answer(401, said)
            return
        while self.fake.frozen.is_set():
            time.sleep(0.05)
        if self.fake.overloaded is not None:
            said = {"code": "overloaded", "message": "it does not keep up"}
            self._answer(503, said, {"Retry-After": self.fake.overloaded})
            return
        parts = urlsplit(self.path)
        steps = [unquote(step) for step in parts.path.strip("/").split("/")]
        query = parse_qs(parts.query)
        if steps[:2] == ["api", "packages"]:
            self._package(steps[-1], body)
        elif steps == ["v1", "events"] and self.fake.tells_events:
            self._stream(set(query.get("job", [])))
        elif steps == ["v1", "jobs"] and self.command == "POST":
            self._submit(json.loads(body))
        elif steps == ["v1", "version"]:
            self._answer(200, {"version": "0.1.0", "api": "v1", "plane": "fake", "started_at": 0})
        elif steps == ["v1", "settings"]:
            self._answer(200, {"items": []})
        elif steps == ["v1", "clusters"]:
            self._answer(200, {"items": self.fake.clusters})
        elif steps[:2] == ["v1", "jobs"] and len(steps) > 2:
            self._job(steps[2], steps[3:])
        else:
            self._answer(404, {"code": "not_found", "message": "there is nothing"})

    def _package(self, name: str, body: bytes) -> None:
        if self.command == "PUT" and self.fake.break_uploads > 0:
            self.fake.break_uploads -= 1
            self._break_off()
            return
        if self.command == "PUT":
            self.fake.packages[name] = body
        there = name in self.fake.packages
        self._answer(200 if there else 404, b"" if there else b"Package does not exist")

    def _submit(self, sent: dict[str, Any]) -> None:
        if self.fake.refuse:
            status, code, seconds = self.fake.refuse.pop(0)
            self._answer(status, {"code": code, "message": "no"}, {"Retry-After": seconds})
            return
        fresh = sent.get("id") not in self.fake.jobs
        if not fresh and self.fake.jobs[sent["id"]].get("sent", sent) != sent:
            self._answer(409, {"code": "conflict", "message": "other content"})
            return
        job_id = sent.get("id") or f"raysubmit_{len(self.fake.jobs)}"
        if fresh:
            self.fake.add(job_id, sent=sent)
        if self.fake.lose_answers > 0:
            self.fake.lose_answers -= 1
            self._break_off()
            return
        answer = {"id": job_id} if fresh else {"id": job_id, "duplicate": "same_id"}
        self._answer(201 if fresh else 200, answer)

    def _job(self, job_id: str, rest: list[str]) -> None:
        job = self.fake.jobs.get(job_id)
        if job is None:
            self._answer(404, {"code": "unknown_job", "message": f"job {job_id} does not exist"})
        elif rest == ["stop"] and job["state"] in ENDED:
            self._answer(409, {"code": "wrong_state", "message": "it has ended"})
        elif rest == ["stop"]:
            self.fake.change(job_id, "stopped" if job["state"] == "queued" else job["state"])
            self._answer(202, job)
        elif rest == ["rerun"] and job["state"] not in ("failed", "stopped"):
            self._answer(409, {"code": "wrong_state", "message": "it has not failed"})
        elif rest == ["rerun"]:
            self.fake.change(job_id, "queued", attempts=job["attempts"] + 1)
            self._answer(202, job)
        elif self.command == "DELETE":
            del self.fake.jobs[job_id]
            self._answer(204, b"")
        elif rest == ["logs"]:
            self._answer(200, {"text": "".join(f"line {n}\n" for n in range(3))})
        elif rest == ["logs", "follow"]:
            self._follow()
        else:
            self._answer(200, job)

    def _answer(
        self, status: int, content: dict[str, Any] | bytes, headers: dict[str, str] | None = None
    ) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, jobs: set[str]) -> None:
        last = self.headers.get("Last-Event-ID")
        with self.fake._changed:
            seen = int(last) if last else len(self.fake._events)
            self.fake._streams.add(self.connection)
        self._begin_events()
        try:
            while self.connection in self.fake._streams:
                with self.fake._changed:
                    news = [event for event in self.fake._events if event["seq"] > seen]
                    if not news:
                        self.fake._changed.wait(0.1)
                for event in news:
                    seen = event["seq"]
                    if not jobs or event["job"] in jobs:
                        self._event("job", event, event["seq"])
        except OSError:
            pass
        self.close_connection = True

    def _follow(self) -> None:
        """Sends what was prepared for this connection, and then breaks it."""
        self._begin_events()
        for kind, data in self.fake.log_events.pop(0):
            self._event(kind, data)
        self._break_off()

    def _break_off(self) -> None:
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def _begin_events(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()

    def _event(self, kind: str, data: dict[str, Any], number: int | None = None) -> None:
        text = f"event: {kind}\ndata: {json.dumps(data)}\n\n"
        text = text if number is None else f"id: {number}\n{text}"
        self.wfile.write(f"{len(text.encode()):x}\r\n{text}\r\n".encode())
        self.wfile.flush()
