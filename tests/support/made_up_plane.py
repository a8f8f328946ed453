"""A control plane that grants placements as a test says, without a network."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from ray_multicluster_scheduler._plane.addresses import Addresses
from ray_multicluster_scheduler.errors import ControlPlaneError


class MadeUpPlane:
    """Grants `grants` in order: a cluster, or None for "wait"."""

    def __init__(self) -> None:
        self.grants: deque[str | None] = deque()
        self.lease_seconds = 30.0
        self.reuse_seconds = 0.0
        self.calls: list[tuple[str, Any]] = []
        self.said: dict[str, str] = {}
        self.fails = False
        self.verdicts: list[dict[str, str]] = []
        self.addresses = Addresses("http://made-up")

    def post(self, path: str, body: Any = None, **query: Any) -> Any:
        self.calls.append((path, body))
        if self.fails:
            raise ControlPlaneError("nobody answers", code="http_503")
        if path == "/v1/placements":
            return self._placement(body["id"])
        if path == "/v1/placements/batch":
            found = [self._placement(asked["id"]) for asked in body["placements"]]
            return {"results": [{"placement": one} for one in found]}
        if path.endswith("/release"):
            return {
                "leases": [{"id": lease["id"], "status": "released"} for lease in body["leases"]]
            }
        if path.endswith("/heartbeat"):
            status = [self.said.get(lease["id"], "alive") for lease in body["leases"]]
            return {"leases": [{**a, "status": s} for a, s in zip(body["leases"], status)]}
        return None

    def get(self, path: str, **query: Any) -> Any:
        self.calls.append((path, None))
        return self._placement(path.rsplit("/", 1)[1])

    def sent(self, ending: str) -> list[Any]:
        return [body for path, body in list(self.calls) if path.endswith(ending)]

    def withdrawn(self) -> list[str]:
        given_back = [lease for body in self.sent("/release") for lease in body["leases"]]
        return [lease["id"] for lease in given_back if "attempt" not in lease]

    def given_back(self) -> list[tuple[str, str]]:
        told = [lease for body in self.sent("/release") for lease in body["leases"]]
        return [(lease["id"], lease["outcome"]) for lease in told]

    def _placement(self, id: str) -> dict[str, Any]:
        cluster = self.grants.popleft() if self.grants else None
        if cluster is None:
            time.sleep(0.01)
            why = {"summary": "centos: over 70 % CPU", "clusters": self.verdicts}
            return {"id": id, "status": "queued", "why": why}
        if cluster == "ended":
            return {"id": id, "status": "ended", "message": "stopped by an operator"}
        granted = {
            "cluster": cluster,
            "attempt": 1,
            "lease_seconds": self.lease_seconds,
            "reuse_seconds": self.reuse_seconds,
        }
        return {"id": id, "status": "granted", "granted": granted}
