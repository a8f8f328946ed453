"""A control plane that is made up: the console's own files, and answers that a test chooses.

The console needs pages that a real pool shows only after hours, or never twice in the same way: a
job that failed an hour ago, a read token, a refused reload. Its requests are kept.
"""

from __future__ import annotations

import contextlib
import json
import mimetypes
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable
from urllib.parse import parse_qs, unquote, urlsplit

from .plane import REPOSITORY

DIST = REPOSITORY / "console/dist"
GIB = 2**30
HOUR = 3_600_000

Json = dict[str, Any]
# Of a request: the path, the query, the body.
Answer = Callable[[str, dict[str, list[str]], Any], Any]


class Refused(Exception):
    """An answer that is an error of the API."""

    def __init__(self, status: int, code: str, message: str):
        super().__init__(message)
        self.status = status
        self.body = {"code": code, "message": message}


def cluster(name: str, **more: Any) -> Json:
    """A healthy cluster of 32 CPU, a quarter of it in use."""
    share = {"cpu": 0.25, "memory": 0.1}
    return {
        "name": name,
        "dashboard": f"http://{name}:8265",
        "head_address": f"{name}:10001",
        "tags": ["linux", "x86_64"],
        "weight": 1.0,
        "prefer": False,
        "source": "file",
        "health": {"state": "healthy"},
        "breaker": {"state": "closed"},
        "connection": {"has_token": False, "insecure_tls": False},
        "draining": False,
        "leaving": False,
        "limits": {"resource_threshold": 0.7, "submission_interval_seconds": 40},
        "live": 1,
        "top_level_jobs": 1,
        "total": {"CPU": 32, "memory": 128 * GIB},
        "used": {"CPU": 8, "memory": 12.8 * GIB},
        "free": {"CPU": 24, "memory": 115.2 * GIB},
        "claimed": {"CPU": 8},
        "promised": {},
        "logical": share,
        "physical": share,
        "nodes": 2,
        "runtime_env": {},
        **more,
    }


def job(name: str, state: str = "running", **more: Any) -> Json:
    """A job that was submitted ten minutes ago."""
    submitted = more.pop("submitted_at", now() - 600_000)
    made: Json = {
        "id": name,
        "kind": "job",
        "state": state,
        "ray_status": "PENDING" if state == "queued" else state.upper(),
        "entrypoint": f"python {name}.py",
        "demand": {"CPU": 2},
        "priority": 0,
        "max_retries": 0,
        "on_cluster_loss": "wait",
        "attempts": 0 if state == "queued" else 1,
        "submitted_at": submitted,
        "queued_at": submitted,
    }
    if state != "queued":
        made.update(cluster="centos", dispatched_at=submitted + 1000, running_at=submitted + 3000)
    if state in ("succeeded", "failed", "stopped"):
        made["ended_at"] = submitted + 65_000
    return {**made, **more}


def ray_failure(code: int, log: str = "") -> str:
    """The message of Ray for a command that failed: the end of its log below a line of its own."""
    end = "last available logs (truncated to 20,000 chars):"
    return f"Job entrypoint command failed with exit code {code}, {end}\n{log}"


def verdict(name: str, reason: str, text: str) -> Json:
    return {"cluster": name, "verdict": "rejected", "reason": reason, "text": text}


def head(of: Json, waiting: int, *verdicts: Json, **more: Any) -> Json:
    """The next of some queued jobs with the same requirements."""
    own = ("id", "kind", "demand", "priority", "queued_at", "tags", "preferred_cluster", "required")
    shown = {key: of[key] for key in own if key in of}
    lines = [f"{each['cluster']}: {each['text']}" for each in verdicts]
    summary = "\n".join(["queued for 10 min, next in line", *lines])
    return {**shown, "waiting": waiting, "summary": summary, "clusters": list(verdicts), **more}


def now() -> int:
    return int(time.time() * 1000)


class MadeUp:
    """Change its parts before the page asks for them; `asked` has what was sent."""

    def __init__(self) -> None:
        self.version: Json = {
            "version": "0.0.0",
            "api": "1",
            "plane": "made-up",
            "started_at": now() - 24 * HOUR,
        }
        self.plane: Json = {
            "plane": "made-up",
            "replica": "a",
            "role": "only",
            "store": "sqlite",
        }
        self.clusters = [cluster("centos"), cluster("mac", tags=["macos", "arm64"])]
        self.jobs: list[Json] = []
        self.heads: list[Json] = []
        # More than what a list shows, by id of the job.
        self.details: dict[str, Json] = {}
        self.job_events: dict[str, list[Json]] = {}
        self.events: list[Json] = []
        self.logs: dict[str, list[Json]] = {}
        # By method and path; these come first.
        self.answers: dict[str, Any] = {}
        self.asked: list[tuple[str, str, Any]] = []
        self.lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def sent(self, method: str, path: str) -> list[Any]:
        """The bodies of these requests, or of all below a path that ends with a star."""
        start = path.rstrip("*")
        matches = (lambda p: p.startswith(start)) if path.endswith("*") else (lambda p: p == path)
        with self.lock:
            return [body for verb, at, body in self.asked if verb == method and matches(at)]

    def posted(self) -> list[str]:
        """The paths of everything that was to change something, in order."""
        with self.lock:
            return [f"{verb} {path}" for verb, path, _ in self.asked if verb != "GET"]

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> Any:
        given = self.answers.get(f"{method} {path}")
        if callable(given):
            chosen: Answer = given
            return chosen(path, query, body)
        if given is not None:
            return given
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if parts[:2] == ["v1", "jobs"] and len(parts) > 2:
            return self._job(method, parts[2], parts[3:], query)
        plain: dict[str, Json] = {
            "GET /v1/version": self.version,
            "GET /v1/clusters": {"items": self.clusters},
            "GET /v1/jobs": {"items": self.jobs},
            "GET /v1/pool": self._pool(),
            "GET /v1/plane": self.plane,
            "GET /v1/queue": self._queues(),
            "GET /v1/history": self._history(),
            "GET /v1/decisions": {"items": []},
            "GET /v1/owners": {"at": now(), "half_life_seconds": 86_400, "items": [], "more": 0},
            "POST /v1/what-if": {"clusters": [], "chosen": "centos"},
            "POST /v1/jobs": {"id": (body or {}).get("id") or "generated"},
        }
        found = plain.get(f"{method} {path}")
        if found is None:
            if method == "GET":
                raise Refused(404, "not_found", f"no such route: {path}")
            return {}
        return found

    def _job(self, method: str, name: str, rest: list[str], query: dict[str, list[str]]) -> Any:
        found = next((each for each in self.jobs if each["id"] == name), None)
        if found is None:
            raise Refused(404, "unknown_job", f"unknown job {name}")
        if method == "DELETE" and not rest:
            self.jobs.remove(found)
            return None
        if method != "GET":
            return found
        what = rest[0] if rest else ""
        if what == "events":
            items = self.job_events.get(name, [])
            return {"items": items, "last_seq": items[-1]["seq"] if items else 0}
        if what == "decisions":
            return {"items": []}
        if what == "resolved":
            return {
                "as_of": "now",
                "cluster": found.get("cluster", ""),
                "entrypoint": found["entrypoint"],
                "runtime_env": {},
            }
        if what == "logs":
            pieces = self.logs.get(name, [])
            latest = pieces[-1]["attempt"] if pieces else 1
            attempt = int(query.get("attempt", [latest])[0])
            text = "".join(piece["text"] for piece in pieces if piece["attempt"] == attempt)
            return {
                "id": name,
                "attempt": attempt,
                "source": "cluster",
                "text": text,
                "truncated": False,
            }
        return {**found, "history": [], **self.details.get(name, {})}

    def _pool(self) -> Json:
        return {
            "clusters": len(self.clusters),
            "available": sum(each["health"]["state"] == "healthy" for each in self.clusters),
            "live": sum(each["state"] == "running" for each in self.jobs),
            "waiting": sum(each["waiting"] for each in self.heads),
            "nodes": 4,
            "health": {},
            "logical": {},
            **{name: {} for name in ("total", "used", "free", "claimed", "promised")},
        }

    def _queues(self) -> Json:
        waiting = sum(each["waiting"] for each in self.heads)
        queue = {
            "name": "jobs",
            "kind": "jobs",
            "limit": 10_000,
            "waiting": waiting,
            "heads": self.heads,
        }
        return {"items": [queue], "waiting": waiting}

    def _history(self) -> Json:
        steps = 240
        moments = [now() - (steps - step) * 15_000 for step in range(steps)]
        failed = [0] * steps
        for each in self.jobs:
            ago = now() - each.get("ended_at", 0)
            if each["state"] == "failed" and ago < HOUR:
                failed[steps - 1 - int(ago // 15_000)] += 1
        flat = {"cpu": 0.25, "gpu": None, "memory": 0.1, "live": 1, "waiting": 0, "healthy": True}
        names = ("live", "started", "stopped", "submitted", "succeeded", "waiting")
        return {
            "moments": moments,
            "step_seconds": 15,
            "clusters": {
                each["name"]: {key: [value] * steps for key, value in flat.items()}
                for each in self.clusters
            },
            "pool": {**{name: [0] * steps for name in names}, "failed": failed},
        }

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        plane = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def handle_any(self) -> None:
                url = urlsplit(self.path)
                length = int(self.headers.get("content-length") or 0)
                raw = self.rfile.read(length)
                is_json = "json" in self.headers.get("content-type", "")
                body = json.loads(raw) if is_json and raw else raw
                with plane.lock:
                    plane.asked.append((self.command, url.path, body))
                if url.path == "/v1/events":
                    self.stream([(each["type"], each) for each in plane.events], True)
                elif url.path.endswith("/logs/follow"):
                    pieces = plane.logs.get(unquote(url.path.split("/")[3]), [])
                    only = parse_qs(url.query).get("attempt")
                    told: list[tuple[str, Json]] = [
                        ("log", piece)
                        for piece in pieces
                        if only is None or piece["attempt"] == int(only[0])
                    ]
                    self.stream([*told, ("end", {})], False)
                elif url.path.startswith(("/v1/", "/api/")):
                    self.json(url.path, parse_qs(url.query), body)
                else:
                    self.file(url.path)

            do_GET = do_POST = do_PUT = do_DELETE = handle_any

            def json(self, path: str, query: dict[str, list[str]], body: Any) -> None:
                try:
                    found = plane.answer(self.command, path, query, body)
                    status = 200 if found is not None else 204
                except Refused as refused:
                    found, status = refused.body, refused.status
                text = b"" if found is None else json.dumps(found).encode()
                self.reply(status, "application/json", text)

            def reply(self, status: int, kind: str, text: bytes) -> None:
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(text)))
                # The page may be gone.
                with contextlib.suppress(OSError):
                    self.end_headers()
                    self.wfile.write(text)

            def file(self, path: str) -> None:
                name = "index.html" if path == "/" else path.lstrip("/")
                found = DIST / name
                if found.is_file():
                    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
                    self.reply(200, kind, found.read_bytes())
                else:
                    self.reply(404, "text/plain", b"")

            def stream(self, events: list[tuple[str, Json]], stays: bool) -> None:
                self.close_connection = True
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                try:
                    for kind, data in events:
                        self.wfile.write(f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode())
                    self.wfile.flush()
                    while stays:
                        time.sleep(0.5)
                        self.wfile.write(b": alive\n\n")
                        self.wfile.flush()
                except OSError:
                    return

        return Handler
