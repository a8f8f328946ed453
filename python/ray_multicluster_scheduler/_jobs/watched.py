"""What is known about a job that the program waits for."""

from __future__ import annotations

import time
from dataclasses import dataclass

from .._plane.wire import Job, JobDetail, JobEvent
from .info import ENDED

#: Shown as one word: the job has a cluster and does not run yet.
_WORDS = {"dispatching": "starting", "pending": "starting", "unknown": "unreachable"}


#: Seconds. What ended later is news; and two clocks never agree.
LONG_AGO = 10.0


@dataclass
class Watched:
    id: str
    state: str = "queued"
    cluster: str | None = None
    attempt: int = 0
    message: str | None = None
    #: Why it failed, in one line, and with which exit code.
    cause: str | None = None
    exit_code: int | None = None
    #: Why it waits, as text that may count seconds, and as stable words.
    why: str | None = None
    reasons: tuple[tuple[str, str], ...] = ()
    #: When it was submitted, its present state began, and it ended: seconds since 1970.
    submitted: float | None = None
    began: float = 0.0
    ended: float | None = None
    #: The age that was shown last: the clock of this machine may be set back.
    shown: float = 0.0
    #: It has been read.
    is_known: bool = False
    #: It had ended long before it was read for the first time.
    was_over: bool = False

    @property
    def word(self) -> str:
        """Its state, as shown."""
        return _WORDS.get(self.state, self.state)

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    def elapsed(self) -> float:
        """Seconds in its present state; for an ended job, since it ended."""
        return time.time() - (self.ended or self.began)

    def age(self) -> float:
        """Seconds from its submission to now or, once it has ended, to its end. It never counts
        backwards while the job goes from state to state.
        """
        submitted = self.began if self.submitted is None else self.submitted
        if self.ended is not None:
            return self.ended - submitted
        self.shown = max(self.shown, time.time() - submitted)
        return self.shown

    def ago(self) -> float | None:
        """How long ago it ended, if that was long before anybody waited for it."""
        return time.time() - self.ended if self.was_over and self.ended is not None else None

    def look(self, told: JobDetail) -> None:
        """Takes over a job of the native API."""
        is_first, self.is_known = not self.is_known, True
        self.state = told["state"]
        self.cluster = told.get("cluster")
        self.attempt = told.get("attempts", 0)
        self.message = told.get("message")
        self.cause, self.exit_code = told.get("cause"), told.get("exit_code")
        why = told.get("why")
        summary = why["summary"] if why else None
        verdicts = why["clusters"] if why else []
        self.why, self.reasons = None, ()
        if self.state == "queued":
            self.cluster = None
            self.reasons = tuple((each["cluster"], each.get("reason") or "") for each in verdicts)
            self.why = "; ".join(f"{each['cluster']}: {each['text']}" for each in verdicts)
            self.why = self.why or summary
        elif self.state == "unknown":
            self.why = summary
        self._times(told)
        if is_first and self.ended is not None:
            self.was_over = time.time() - self.ended > LONG_AGO

    def hear(self, event: JobEvent) -> None:
        """Takes over an event."""
        word, self.state = self.word, event["state"]
        self.cluster = event.get("cluster")
        self.attempt = event.get("attempt") or self.attempt
        self.message = event.get("message")
        self.why, self.reasons = None, ()
        at = event["at"] / 1000
        if self.has_ended:
            self.ended = at
        elif self.word != word or not self.began:
            self.began, self.ended = at, None

    def _times(self, told: Job) -> None:
        if self.state == "queued":
            began = told.get("queued_at")
        elif self.state == "unknown":
            began = told.get("unreachable_at")
        elif self.word == "starting":
            began = told.get("dispatched_at")
        else:
            began = told.get("running_at") or told.get("dispatched_at")
        submitted = told.get("submitted_at")
        self.submitted = submitted / 1000 if submitted else None
        began, ended = began or told.get("submitted_at"), told.get("ended_at")
        self.began = began / 1000 if began else time.time()
        self.ended = ended / 1000 if ended and self.has_ended else None
