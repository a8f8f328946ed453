"""A job that is waited for, as far as it is known."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .info import ENDED

#: Two states are one to those who wait: it has a cluster and does not run yet.
_WORDS = {"dispatching": "starting", "pending": "starting", "unknown": "unreachable"}


@dataclass
class Watched:
    id: str
    state: str = "queued"
    cluster: str | None = None
    attempt: int = 0
    message: str | None = None
    #: What it waits for, in words that may count seconds, and by stable words.
    why: str | None = None
    reasons: tuple[tuple[str, str], ...] = ()
    #: When its present state began and, if it ended, how long that took: seconds since 1970.
    began: float = 0.0
    ended: float | None = None
    #: It has been looked at.
    is_known: bool = False

    @property
    def word(self) -> str:
        """Its state, as it is shown."""
        return _WORDS.get(self.state, self.state)

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    def elapsed(self) -> float:
        """Seconds in its present state; of a job that has ended, those that it ran."""
        return (self.ended or time.time()) - self.began

    def look(self, told: Mapping[str, Any]) -> None:
        """Takes over a job of the native API."""
        self.is_known = True
        self.state = told["state"]
        self.cluster = told.get("cluster")
        self.attempt = told.get("attempts", 0)
        self.message = told.get("message")
        why = told.get("why") or {}
        verdicts = why.get("clusters") or []
        self.why, self.reasons = None, ()
        if self.state == "queued":
            self.cluster = None
            self.reasons = tuple((each["cluster"], each.get("reason", "")) for each in verdicts)
            self.why = "; ".join(f"{each['cluster']}: {each['text']}" for each in verdicts)
            self.why = self.why or why.get("summary")
        elif self.state == "unknown":
            self.why = why.get("summary")
        self._times(told)

    def hear(self, event: Mapping[str, Any]) -> None:
        """Takes over a change, as it is told."""
        self.state = event["state"]
        self.cluster = event.get("cluster")
        self.attempt = event.get("attempt") or self.attempt
        self.message = event.get("message")
        self.why, self.reasons = None, ()
        at = event["at"] / 1000
        if self.has_ended:
            self.ended = at
        else:
            self.began, self.ended = at, None

    def _times(self, told: Mapping[str, Any]) -> None:
        def seconds(*names: str) -> float | None:
            found = (told[name] for name in names if told.get(name) is not None)
            return next((moment / 1000 for moment in found), None)

        begin = {
            "queued": ("queued_at", "submitted_at"),
            "unknown": ("unreachable_at", "submitted_at"),
        }.get(self.state, ("running_at", "dispatched_at", "submitted_at"))
        self.began = seconds(*begin) or time.time()
        self.ended = seconds("ended_at") if self.has_ended else None
