"""Measurements of the callers: how long answers took, and their statuses."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from typing import Any

PERCENTILES = (50, 95, 99)


class Meter:
    """Latencies and statuses by kind of call."""

    def __init__(self) -> None:
        self._latencies: dict[str, list[float]] = defaultdict(list)
        self.statuses: dict[str, Counter[str]] = defaultdict(Counter)
        # How late our own calls began: if that is much, the load generator is the bottleneck.
        self.lag: list[float] = []

    def note(self, kind: str, since: float, status: int | str) -> None:
        self._latencies[kind].append(time.perf_counter() - since)
        self.statuses[kind][str(status)] += 1

    def errors(self) -> dict[str, dict[str, int]]:
        """Every answer that is not a success."""
        bad = {
            kind: {status: count for status, count in each.items() if not status.startswith("2")}
            for kind, each in self.statuses.items()
        }
        return {kind: each for kind, each in bad.items() if each}

    def summary(self, seconds: float) -> dict[str, dict[str, Any]]:
        return {
            kind: {
                "calls": len(taken),
                "per_second": round(len(taken) / seconds, 1),
                **milliseconds(taken),
                "statuses": dict(self.statuses[kind]),
            }
            for kind, taken in sorted(self._latencies.items())
        }


def milliseconds(taken: list[float]) -> dict[str, float]:
    """Percentiles and the longest."""
    if not taken:
        return {}
    ordered = sorted(taken)
    at = {f"p{p}_ms": ordered[min(len(ordered) - 1, len(ordered) * p // 100)] for p in PERCENTILES}
    return {name: round(value * 1e3, 2) for name, value in {**at, "max_ms": ordered[-1]}.items()}


class Metronome:
    """Beats at a rate, however long the started calls take.

    So a control plane that stalls for a second gets as many requests as ever, and each of them
    counts the stall: closed loops would measure it once.
    """

    def __init__(self, per_second: float, until: float, meter: Meter) -> None:
        self._step, self._until, self._meter = 1 / per_second, until, meter
        self._next = time.perf_counter()

    def __aiter__(self) -> Metronome:
        return self

    async def __anext__(self) -> float:
        """When this beat was due."""
        due = self._next
        if due >= self._until:
            raise StopAsyncIteration
        self._next += self._step
        # Even if we are late: other tasks must get their turn.
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        self._meter.lag.append(time.perf_counter() - due)
        return due
