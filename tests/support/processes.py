"""Processes by pid, found in /proc: nothing here can hit a process of somebody else.

Several people run Ray on one machine, so `ray stop` and anything that goes by a program's name
are out of the question. A cluster's processes are known by its own temporary directory.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

PROC = Path("/proc")


def all_pids() -> list[int]:
    return [int(entry) for entry in os.listdir(PROC) if entry.isdigit()]


def command_line(pid: int) -> str:
    return _read(pid, "cmdline").replace("\0", " ").strip()


def parent(pid: int) -> int | None:
    # The name in parentheses may hold anything, so count from the last one.
    fields = _read(pid, "stat").rpartition(")")[2].split()
    return int(fields[1]) if len(fields) > 1 else None


def is_running(pid: int) -> bool:
    """False for a zombie too: it does nothing any more and cannot be killed."""
    fields = _read(pid, "stat").rpartition(")")[2].split()
    return bool(fields) and fields[0] not in "ZX"


def resident_bytes(pid: int) -> int:
    pages = _read(pid, "statm").split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if len(pages) > 1 else 0


def remote_ports(pid: int) -> set[int]:
    """The ports that a process has connections to, other than those it listens on itself."""
    with contextlib.suppress(OSError):
        names = [os.readlink(entry.path) for entry in os.scandir(PROC / str(pid) / "fd")]
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
    """Everything that was started for `directory`, and everything that those started.

    Ray's workers overwrite their command line, so it is not enough to look there: the environment
    they were started with and their log files tell too.
    """
    needle = str(directory)
    mine = _self_and_ancestors()
    pids = all_pids()
    found = {pid for pid in pids if pid not in mine and _mentions(pid, needle)}
    children: dict[int, list[int]] = {}
    for pid in pids:
        ppid = parent(pid)
        if ppid is not None:
            children.setdefault(ppid, []).append(pid)
    todo = list(found)
    while todo:
        for child in children.get(todo.pop(), []):
            if child not in found and child not in mine:
                found.add(child)
                todo.append(child)
    return sorted(pid for pid in found if is_running(pid))


def send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def kill_all_of(directory: Path, timeout: float = 30.0) -> None:
    """SIGKILL, again and again until nothing is left: a process may start another meanwhile."""
    deadline = time.monotonic() + timeout
    while pids := belonging_to(directory):
        if time.monotonic() > deadline:
            lines = [f"{pid} {command_line(pid)[:120]}" for pid in pids]
            raise AssertionError("cannot be killed:\n" + "\n".join(lines))
        send(pids, signal.SIGKILL)
        time.sleep(0.05)


def _self_and_ancestors() -> set[int]:
    pid: int | None = os.getpid()
    chain: set[int] = set()
    while pid:
        chain.add(pid)
        pid = parent(pid)
    return chain


def _mentions(pid: int, needle: str) -> bool:
    if needle in _read(pid, "cmdline") or needle in _read(pid, "environ"):
        return True
    with contextlib.suppress(OSError):
        # Standard output and standard error: where Ray's workers log to.
        return any(os.readlink(PROC / str(pid) / "fd" / n).startswith(needle) for n in "12")
    return False


def _read(pid: int, name: str) -> str:
    try:
        return (PROC / str(pid) / name).read_text(errors="replace")
    except OSError:
        return ""
