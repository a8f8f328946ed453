"""The load: submissions, and clients that ask, wait, follow and watch."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from .meter import Meter, Metronome
from .wire import Wire

TERMINAL = {"succeeded", "failed", "stopped"}


@dataclass
class Shape:
    """The size of the load. All rates are per second, and follow from that of the submissions."""

    seconds: float
    submits: float
    watchers: int

    @property
    def asked(self) -> dict[str, float]:
        return {
            "status": 2 * self.submits,
            "status (Ray)": self.submits,
            "wait": self.submits / 5,
            "follow a log": self.submits / 10,
            "logs": self.submits / 5,
            "list": 1.0,
            "queue": 1.0,
            "metrics": 0.5,
        }


@dataclass
class Load:
    """One run. `ended` has every job's end, as a watcher saw it."""

    wire: Wire
    shape: Shape
    meter: Meter = field(default_factory=Meter)
    accepted: set[str] = field(default_factory=set)
    ended: dict[str, str] = field(default_factory=dict)
    events: int = 0
    # The latest jobs, which people ask about.
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=64))
    _calls: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self) -> None:
        """Runs everything for the given time; then finishes the calls under way."""
        # One watcher records the events; the others only count, which is cheaper.
        each = (self._watch(keeps=n == 0) for n in range(self.shape.watchers))
        watchers = [asyncio.create_task(watcher) for watcher in each]
        until = time.perf_counter() + self.shape.seconds
        beats = [self._submit(until), self._reconnect(until)]
        beats += [self._keep_asking(kind, rate, until) for kind, rate in self.shape.asked.items()]
        await asyncio.gather(*beats)
        await asyncio.gather(*self._calls, return_exceptions=True)
        await self._until_all_ended(time.perf_counter() + 60 + self.shape.seconds)
        for watcher in watchers:
            watcher.cancel()
        for seen in await asyncio.gather(*watchers, return_exceptions=True):
            # A watcher that has ended early has found an error.
            if not isinstance(seen, asyncio.CancelledError):
                raise AssertionError(f"a watcher broke off: {seen!r}")

    async def _submit(self, until: float) -> None:
        numbers = itertools.count()
        async for due in Metronome(self.shape.submits, until, self.meter):
            self._begin("submit", due, self._submit_one(next(numbers), due))

    async def _submit_one(self, n: int, due: float) -> None:
        job = {
            "id": f"load-{n}",
            "entrypoint": f"echo begin && sleep {0.2 * (n % 5)} && exit {int(n % 50 == 7)}",
            "entrypoint_num_cpus": 1 + n % 2,
            "metadata": {"team": f"team-{n % 5}"},
        }
        status, _ = await self._ask("submit", due, "POST", "/v1/jobs", job)
        if status == 201:
            self.accepted.add(job["id"])
            self.recent.append(job["id"])

    async def _keep_asking(self, kind: str, rate: float, until: float) -> None:
        turns = itertools.count()
        async for due in Metronome(rate, until, self.meter):
            if self.recent:
                # The newest jobs have not ended, so there is something to wait for.
                turn = -1 if kind in ("wait", "follow a log") else next(turns) % len(self.recent)
                self._begin(kind, due, self._ask_about(kind, self.recent[turn], due))

    async def _ask_about(self, kind: str, job: str, due: float) -> None:
        if kind == "follow a log":
            await self._follow_log(kind, job, due)
            return
        path = {
            "status": f"/v1/jobs/{job}",
            "status (Ray)": f"/api/jobs/{job}",
            "wait": f"/v1/jobs/{job}/wait?timeout=30s",
            "logs": f"/v1/jobs/{job}/logs",
            "list": "/v1/jobs?limit=100",
            "queue": "/v1/queue",
            "metrics": "/metrics",
        }[kind]
        await self._ask(kind, due, "GET", path)

    async def _follow_log(self, kind: str, job: str, due: float) -> None:
        async with self.wire.follow(f"/v1/jobs/{job}/logs/follow") as (status, events):
            kinds = [event.get("event") async for event in events] if status == 200 else ["end"]
        self.meter.note(kind, due, status if kinds[-1:] == ["end"] else "broke off")

    async def _watch(self, keeps: bool) -> None:
        """All events from the first: none is missing, none comes twice."""
        async with self.wire.follow("/v1/events?after=0") as (status, events):
            assert status == 200, f"events: {status}"
            last = 0
            async for event in events:
                if "data" not in event:
                    continue
                number = int(event["id"])
                assert number == last + 1 or not last, f"event {number} came after {last}"
                last = number
                self.events += 1
                if keeps:
                    self._keep(json.loads(event["data"]))
        raise AssertionError("the stream of events ended")

    def _keep(self, event: dict[str, Any]) -> None:
        if event.get("state") in TERMINAL:
            job, state = event["job"], event["state"]
            assert job not in self.ended, f"{job} ended twice: {self.ended[job]}, then {state}"
            self.ended[job] = state

    async def _reconnect(self, until: float) -> None:
        """Watchers that connect, read the backlog, and leave."""
        async for due in Metronome(1.0, until, self.meter):
            self._begin("watch: first event", due, self._glance("watch: first event", due))

    async def _glance(self, kind: str, due: float) -> None:
        async with self.wire.follow("/v1/events?after=0") as (status, events):
            if status == 200:
                await events.__anext__()
            self.meter.note(kind, due, status)

    async def _until_all_ended(self, until: float) -> None:
        while not self.accepted <= self.ended.keys() and time.perf_counter() < until:
            await asyncio.sleep(0.1)

    async def _ask(
        self, kind: str, due: float, method: str, path: str, body: Any = None
    ) -> tuple[int, Any]:
        status, answer = await self.wire.ask(method, path, body)
        self.meter.note(kind, due, status)
        return status, answer

    def _begin(self, kind: str, due: float, call: Coroutine[Any, Any, None]) -> None:
        """A call in the background: one that breaks off is recorded like an answer."""

        def over(task: asyncio.Task[None]) -> None:
            self._calls.discard(task)
            if not task.cancelled() and (error := task.exception()):
                self.meter.note(kind, due, type(error).__name__)

        task = asyncio.create_task(call)
        self._calls.add(task)
        task.add_done_callback(over)
