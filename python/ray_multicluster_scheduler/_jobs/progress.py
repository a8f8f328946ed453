"""Progress of a wait: a live line per job on a terminal, a line per change in a log file."""

from __future__ import annotations

import os
import sys
import time
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Protocol, TextIO

from .watched import Watched

#: By colour, and in this order if not all can be shown: the most interesting first.
_COLOURS = {
    "failed": "31",
    "stopped": "31",
    "unreachable": "35",
    "running": "36",
    "starting": "36",
    "queued": "33",
    "succeeded": "32",
}


def _order(word: str) -> int:
    """States of a newer control plane come last."""
    words = list(_COLOURS)
    return words.index(word) if word in _COLOURS else len(words)


def say(text: str, stream: TextIO | None = None) -> None:
    """A message on stderr, separate from the program's results."""
    stream = stream or sys.stderr
    try:
        stream.write(f"ray-multicluster: {text}\n")
        stream.flush()
    except (AttributeError, OSError, ValueError):
        # There is no stderr, or its reader is gone. That must not end the wait.
        return


class Progress(Protocol):
    #: How often it is shown even if nothing has changed; None: never.
    every: float | None

    def show(self, jobs: Sequence[Watched]) -> None: ...

    def close(self) -> None: ...


def on(stream: TextIO) -> Progress:
    """The progress display for this stream."""
    try:
        is_terminal = stream.isatty() and os.get_terminal_size(stream.fileno()).columns > 0
    except (AttributeError, OSError, ValueError):
        is_terminal = False
    if is_terminal and os.environ.get("TERM", "") not in ("", "dumb"):
        return Live(stream)
    return Log(stream)


class Log:
    """One line for each change, with the time."""

    every: float | None = None

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._told: dict[str, tuple[object, ...]] = {}

    def show(self, jobs: Sequence[Watched]) -> None:
        for job in jobs:
            # Not the text of why it waits: that counts the seconds.
            change = (job.word, job.cluster, job.attempt, job.reasons)
            if self._told.get(job.id) == change:
                continue
            self._told[job.id] = change
            where = f" on {job.cluster}" if job.cluster else ""
            again = f", attempt {job.attempt}" if job.attempt > 1 else ""
            after = f" after {duration(job.age())}" if job.has_ended else ""
            ago = job.ago()
            after += f", {duration(ago)} ago" if ago is not None else ""
            why = f": {plain(job.why)}" if job.why else ""
            now = time.strftime("%Y-%m-%d %H:%M:%S")
            say(f"{now} {job.id} {job.word}{where}{again}{after}{why}", self._stream)

    def close(self) -> None:
        """There is nothing to tidy up."""


class Live:
    """A line for each job, drawn again in place."""

    every: float | None = 1.0

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._drawn = 0
        self._colours = not os.environ.get("NO_COLOR")
        self._write("\x1b[?25l")

    def show(self, jobs: Sequence[Watched]) -> None:
        try:
            columns, rows = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            # The stream was closed. The wait goes on.
            return
        lines = self._lines(jobs, max(columns - 1, 20), max(rows - 1, 2))
        # One write, each line cleared as it is replaced: no flicker.
        up = f"\x1b[{self._drawn}F" if self._drawn else ""
        self._write(up + "".join(f"\x1b[2K{line}\n" for line in lines) + "\x1b[J")
        self._drawn = len(lines)

    def close(self) -> None:
        """Keeps the last lines, except a ^C below them, and shows the cursor again."""
        self._write("\r\x1b[K\x1b[?25h")

    def _lines(self, jobs: Sequence[Watched], columns: int, rows: int) -> list[str]:
        shown = list(jobs)
        rest: list[Watched] = []
        if len(shown) > rows:
            shown.sort(key=lambda job: _order(job.word))
            shown, rest = shown[: rows - 1], shown[rows - 1 :]
        ids = min(max(len(job.id) for job in shown), max(columns // 3, 12))
        clusters = max(len(job.cluster or "") for job in shown)
        lines = []
        for job in shown:
            head = f"{cut(job.id, ids):<{ids}}  "
            state = f"{job.word:<11}"
            tail = f" {job.cluster or '':<{clusters}} {duration(job.age()):>8}"
            ago = job.ago()
            if ago is not None:
                tail += f"  {duration(ago)} ago"
            if job.attempt > 1:
                tail += f"  attempt {job.attempt}"
            if job.why:
                tail += f"  {plain(job.why)}"
            tail = cut(tail, max(columns - len(head) - len(state), 0))
            lines.append(head + self._coloured(state, job.word) + tail)
        if rest:
            counts = Counter(job.word for job in rest)
            told = ", ".join(f"{counts[word]} {word}" for word in sorted(counts, key=_order))
            lines.append(cut(f"… and {len(rest)} more: {told}", columns))
        return lines

    def _coloured(self, text: str, word: str) -> str:
        return f"\x1b[{_COLOURS.get(word, '0')}m{text}\x1b[0m" if self._colours else text

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            return


def duration(seconds: float) -> str:
    """``42 s``, ``3:07 min``, ``5:03 h``."""
    whole = max(int(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02} min"
    return f"{whole // 3600}:{whole // 60 % 60:02} h"


def plain(text: str) -> str:
    """One line without anything that could move the cursor."""
    joined = "; ".join(line.strip() for line in text.splitlines() if line.strip())
    return "".join(letter if letter.isprintable() else " " for letter in joined)


def cut(text: str, columns: int) -> str:
    """The part that fits; East Asian letters take two columns."""
    width, fits_with_dots = 0, 0
    for at, letter in enumerate(text):
        width += 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        if width > columns:
            return text[:fits_with_dots] + "…" if columns > 0 else ""
        if width < columns:
            fits_with_dots = at + 1
    return text
