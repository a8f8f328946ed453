"""Processes by pid, found in /proc: nothing here can affect processes of others.

The processes of a cluster or a user are identified by the directory they were started for.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from ray_multicluster_scheduler._sandbox import processes


def all_pids() -> list[int]:
    return processes.pids()


def command_line(pid: int) -> str:
    return _read(pid, "cmdline").replace("\0", " ").strip()


def parent(pid: int) -> int | None:
    seen = processes.look(pid)
    return seen.parent if seen else None


def is_running(pid: int) -> bool:
    """False for a zombie too: it does nothing any more and cannot be killed."""
    return processes.find(pid) is not None


def resident_bytes(pid: int) -> int:
    pages = _read(pid, "statm").split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if len(pages) > 1 else 0


def remote_ports(pid: int) -> set[int]:
    """The ports that a process has connections to, other than those it listens on itself."""
    with contextlib.suppress(OSError):
        names = [os.readlink(entry.path) for entry in os.scandir(processes.PROC / str(pid) / "fd")]
        inodes = {name[len("socket:[") : -1] for name in names if name.startswith("socket:[")}
        rows = [
            line.split()
            for table in ("net/tcp", "net/tcp6")
            for line in _read(pid, table).splitlines()[1:]
        ]
        rows = [row for row in rows if row[9] in inodes]
        # Local address, remote address, state; 0A is "listens".
        listens = {row[1].rpartition(":")[2] for row in rows if row[3] == "0A"}
        out = [row for row in rows if row[3] != "0A" and row[1].rpartition(":")[2] not in listens]
        return {int(row[2].rpartition(":")[2], 16) for row in out}
    return set()


def belonging_to(directory: Path) -> list[int]:
    """Every process that was started for `directory`, and their descendants.

    Ray's workers overwrite their command line, so that alone is not enough: the environment they
    were started with and their log files are checked too.
    """
    seen = processes.everything()
    mine = processes.self_and_ancestors(seen)
    found = {pid for pid in seen if pid not in mine and _mentions(pid, str(directory))}
    return sorted(processes.with_children(found, seen))


def send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def kill_all_of(directory: Path, timeout: float = 30.0) -> None:
    """SIGKILL, repeated until none is left: a process may start another meanwhile."""
    deadline = time.monotonic() + timeout
    while pids := belonging_to(directory):
        if time.monotonic() > deadline:
            lines = [f"{pid} {command_line(pid)[:120]}" for pid in pids]
            raise AssertionError("cannot be killed:\n" + "\n".join(lines))
        send(pids, signal.SIGKILL)
        time.sleep(0.05)


def _mentions(pid: int, needle: str) -> bool:
    if needle in _read(pid, "cmdline") or needle in _read(pid, "environ"):
        return True
    with contextlib.suppress(OSError):
        # Standard output and standard error: the log files of Ray's workers.
        return any(
            os.readlink(processes.PROC / str(pid) / "fd" / n).startswith(needle) for n in "12"
        )
    return False


def _read(pid: int, name: str) -> str:
    return processes.read(pid, name).decode(errors="replace")
