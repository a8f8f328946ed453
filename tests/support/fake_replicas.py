"""Replicas of one control plane that only answer, and fail as configured.

They share what a database would hold. What each does wrong is said by `fault`, for all requests
until it is taken back, or by `faults`, once each.
"""

from __future__ import annotations

import json
import time
from typing import Any

from .fake_plane import FakePlane, Handler

#: 503: nothing was done.
NO_LEADER = "no_leader"
#: It does it, and says 503: it may have been done.
LEADER_LOST = "leader_lost"
#: It does it, and the answer breaks off after its first bytes.
DIES = "dies"


class FakeReplica(FakePlane):
    """``with FakeReplica() as a, FakeReplica(a) as b``: two of one control plane."""

    def __init__(self, first: FakeReplica | None = None) -> None:
        super().__init__()
        self.fault: str | None = None
        self.faults: list[str] = []
        #: How the requests begin that this is about: method and path.
        self.faulty = ""
        self.retry_after = "0.05"
        self.lease_seconds = 30.0
        #: The granted placements, and when each last had a heartbeat.
        self.beats: dict[str, float] = {}
        #: The longest time that each was without one.
        self.gaps: dict[str, float] = {}
        if first is not None:
            shared = ("jobs", "packages", "clusters", "log_events", "beats", "gaps")
            for name in (*shared, "_events", "_changed"):
                setattr(self, name, getattr(first, name))

    @staticmethod
    def handler() -> type[Handler]:
        return ReplicaHandler

    def next_fault(self, request: str) -> str | None:
        if not request.startswith(self.faulty):
            return None
        return self.faults.pop(0) if self.faults else self.fault

    def beat(self, ids: list[str]) -> list[dict[str, Any]]:
        now = time.monotonic()
        answers = []
        for each in ids:
            gap = now - self.beats[each]
            self.gaps[each] = max(self.gaps.get(each, 0.0), gap)
            alive = gap <= self.lease_seconds
            if alive:
                self.beats[each] = now
            answers.append({"id": each, "attempt": 1, "status": "alive" if alive else "gone"})
        return answers


class ReplicaHandler(Handler):
    fake: FakeReplica
    #: What is wrong with the request that is being answered.
    fault: str | None = None

    def _serve(self) -> None:
        while self.fake.frozen.is_set():
            time.sleep(0.05)
        # Followers answer these themselves.
        is_read = self.path.startswith(("/v1/version", "/v1/settings"))
        self.fault = None if is_read else self.fake.next_fault(f"{self.command} {self.path}")
        if self.fault == NO_LEADER:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.fake.requests.append((self.command, self.path, b""))
            self._say(503, NO_LEADER)
        elif self.path.startswith("/v1/placements"):
            self._placement(self.path.partition("?")[0].split("/")[3:])
        else:
            super()._serve()

    def _placement(self, rest: list[str]) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        self.fake.requests.append((self.command, self.path, b""))
        if rest == ["heartbeat"]:
            self._answer(200, {"leases": self.fake.beat([each["id"] for each in body["leases"]])})
        elif rest == ["release"]:
            self._answer(
                200, {"leases": [{**each, "status": "released"} for each in body["leases"]]}
            )
        else:
            self.fake.beats.setdefault(body["id"], time.monotonic())
            granted = {
                "cluster": "mac",
                "attempt": 1,
                "lease_seconds": self.fake.lease_seconds,
                "reuse_seconds": 0,
            }
            self._answer(200, {"id": body["id"], "status": "granted", "granted": granted})

    def _answer(
        self, status: int, content: dict[str, Any] | bytes, headers: dict[str, str] | None = None
    ) -> None:
        fault, self.fault = self.fault, None
        if fault == LEADER_LOST:
            self._say(503, LEADER_LOST)
        elif fault == DIES:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"')
            self.wfile.flush()
            self._break_off()
        else:
            super()._answer(status, content, headers)

    def _say(self, status: int, code: str) -> None:
        said = {"code": code, "message": f"the replica says {code}"}
        super()._answer(status, said, {"Retry-After": self.fake.retry_after})
