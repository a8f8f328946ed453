"""Measurements of the control plane: its resource usage over time, and whether it grows."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path

MIB = 1 << 20


@dataclass
class Sample:
    at: float
    rss_mib: float
    open_files: int
    threads: int
    cpu_seconds: float
    state_mib: float


@dataclass
class Bound:
    """How much more the last third may use than the second: a fraction of it, plus a constant."""

    share: float
    some: float

    def broken(self, before: float, after: float) -> bool:
        return after > before * (1 + self.share) + self.some


class Gauges:
    """Samples of one process and its state directory."""

    def __init__(self, pid: int, state: Path) -> None:
        self._pid, self._state, self._started = pid, state, time.perf_counter()
        self.samples: list[Sample] = []

    async def keep_sampling(self) -> None:
        while True:
            self.sample()
            await asyncio.sleep(0.5)

    def sample(self) -> None:
        proc = Path("/proc") / str(self._pid)
        lines = (line.partition(":") for line in (proc / "status").read_text().splitlines())
        status = {name: text.split() for name, _, text in lines}
        ticks = (proc / "stat").read_text().rpartition(")")[2].split()[11:13]
        self.samples.append(
            Sample(
                at=round(time.perf_counter() - self._started, 2),
                rss_mib=round(int(status["VmRSS"][0]) / 1024, 1),
                open_files=len(os.listdir(proc / "fd")),
                threads=int(status["Threads"][0]),
                cpu_seconds=sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"),
                state_mib=round(_size(self._state) / MIB, 2),
            )
        )

    def grown(self, bounds: dict[str, Bound]) -> list[str]:
        """The gauges whose last third exceeds its bound. The first third is for warming up."""
        return [
            f"{name} grew from {before:.1f} to {after:.1f}"
            for name, bound in bounds.items()
            for before, after in [self.thirds(name)]
            if bound.broken(before, after)
        ]

    def thirds(self, name: str) -> tuple[float, float]:
        """The medians of the second and of the last third of the time."""
        third = len(self.samples) // 3
        assert third, "too short to tell"
        values = [getattr(sample, name) for sample in self.samples]
        return statistics.median(values[third : 2 * third]), statistics.median(values[-third:])

    def cores(self) -> float:
        """Processor time per time, over the whole run."""
        first, last = self.samples[0], self.samples[-1]
        return (last.cpu_seconds - first.cpu_seconds) / max(last.at - first.at, 1e-9)

    def as_json(self) -> list[dict[str, float]]:
        return [asdict(sample) for sample in self.samples]


def _size(folder: Path) -> int:
    """Of all files below. A file deleted meanwhile does not count."""
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.stat().st_size if file.is_file() else 0
        except FileNotFoundError:
            continue
    return total
