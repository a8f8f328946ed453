"""The processes of a cluster, and how to end them.

By number, never by name: other people run Ray on this machine too. A number may belong to another
process by now, so the time of birth is compared too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
HAS_PROC = (PROC / "self" / "stat").exists()

#: How long processes have to exit. Ray drains first, which may take long.
GRACE = 6.0
#: How long they may take to be gone after they were killed.
PATIENCE = 30.0
STEP = 0.05


class Process(NamedTuple):
    """One process, distinct from every other that ever has its number."""

    pid: int
    #: As the system reports it, with a part that differs between boots.
    birth: str

    def is_running(self) -> bool:
        return find(self.pid) == self

    def send(self, number: signal.Signals) -> None:
        if self.pid > 1 and self.is_running():
            # It may exit at this very moment.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


class Seen(NamedTuple):
    process: Process
    parent: int
    session: int


class Family(NamedTuple):
    """What identifies the processes of one cluster."""

    #: ``NAME=value`` in the environment of each; no other process has it.
    mark: str
    #: The first process, which leads their session.
    leader: Process | None = None

    def end(self, grace: float = GRACE) -> int:
        """SIGTERM for the first, which ends the others; then SIGKILL until none is left. Returns
        how many there were.

        Raises:
            OSError: some do not end.
        """
        # Kept once found: after its parent has ended, a process can no longer be linked to it.
        known: dict[int, Process] = {}
        self._look(known)
        if self.leader is not None:
            self.leader.send(signal.SIGTERM)
            deadline = time.monotonic() + grace
            while self.leader.is_running() and time.monotonic() < deadline:
                time.sleep(STEP)
                self._look(known)
        deadline = time.monotonic() + PATIENCE
        while True:
            self._look(known)
            left = [process for process in known.values() if process.is_running()]
            if not left:
                return len(known)
            if time.monotonic() > deadline:
                raise OSError(f"cannot end processes {', '.join(str(one.pid) for one in left)}")
            for process in left:
                process.send(signal.SIGKILL)
            time.sleep(STEP)

    def members(self) -> list[Process]:
        """The processes that run now."""
        known: dict[int, Process] = {}
        self._look(known)
        return list(known.values())

    def _look(self, known: dict[int, Process]) -> None:
        seen = everything()
        marked = with_mark(self.mark)
        session = self._session(seen.values(), marked)
        ours = {
            pid
            for pid, one in seen.items()
            if one.process in (self.leader, known.get(pid))
            or (session is not None and one.session == session)
            or pid in marked
        }
        known.update({pid: seen[pid].process for pid in with_children(ours, seen)})

    def _session(self, seen: Iterable[Seen], marked: set[int]) -> int | None:
        """The leader's session, if it is still ours. While a process is in it, the system gives its
        number to no other session: if one of ours is in it, all processes in it are ours.
        """
        leader = self.leader
        if leader is not None and any(
            one.process == leader or (one.process.pid in marked and one.session == leader.pid)
            for one in seen
        ):
            return leader.pid
        return None


def find(pid: int) -> Process | None:
    """The process that has this number now; None if it has ended, reaped or not."""
    one = look(pid)
    return one.process if one else None


def look(pid: int) -> Seen | None:
    """The same, with its relations."""
    return _of_proc(pid) if HAS_PROC else next(iter(_ps("-p", str(pid))), None)


def everything() -> dict[int, Seen]:
    """All running processes, by number."""
    found = map(_of_proc, pids()) if HAS_PROC else _ps("-A")
    return {one.process.pid: one for one in found if one is not None}


def with_children(ours: set[int], seen: dict[int, Seen]) -> set[int]:
    """These, their children, and theirs; but not this process and its ancestors: a job on the
    cluster may be asking.
    """
    children: dict[int, list[int]] = {}
    for number, one in seen.items():
        children.setdefault(one.parent, []).append(number)
    found, todo = set(), list(ours)
    while todo:
        number = todo.pop()
        if number not in found:
            found.add(number)
            todo += children.get(number, [])
    return found - self_and_ancestors(seen)


def self_and_ancestors(seen: dict[int, Seen]) -> set[int]:
    chain, pid = set(), os.getpid()
    while pid not in chain:
        chain.add(pid)
        pid = seen[pid].parent if pid in seen else pid
    return chain


def with_mark(mark: str) -> set[int]:
    """Processes that were started with this ``NAME=value``, as far as we may look."""
    if HAS_PROC:
        return {pid for pid in pids() if mark.encode() in read(pid, "environ").split(b"\0")}
    # `-E` shows the environment after the command line.
    lines = [line.split() for line in _ps_lines("-A", "-E", "-ww", "-o", "pid=,command=")]
    return {int(words[0]) for words in lines if mark in words}


def pids() -> list[int]:
    """All numbers that /proc lists."""
    return [int(entry) for entry in os.listdir(PROC) if entry.isdigit()]


def read(pid: int, name: str) -> bytes:
    """A file of a process in /proc; empty if it has ended or we may not read it."""
    try:
        return (PROC / str(pid) / name).read_bytes()
    except OSError:
        return b""


def _of_proc(pid: int) -> Seen | None:
    # The name in parentheses may contain anything, so count from the last one: state, parent,
    # group, session, … and as the twentieth the ticks from the boot to the birth.
    fields = read(pid, "stat").decode(errors="replace").rpartition(")")[2].split()
    if len(fields) < 20 or fields[0] in "ZX":
        return None
    boot = ""
    with contextlib.suppress(OSError):
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
    return Seen(Process(pid, f"{boot} {fields[19]}"), int(fields[1]), int(fields[3]))


def _ps(*which: str) -> list[Seen]:
    """Without /proc (macOS). Lines like `4711 1 4711 Ss Mon Nov 16 05:19:02 2026`.

    `ps` does not show sessions everywhere. Groups are good enough: the leader of a session leads a
    group, and processes that Ray itself starts stay in it.
    """
    found = []
    for line in _ps_lines(*which, "-o", "pid=,ppid=,pgid=,stat=,lstart="):
        pid, parent, group, state, *birth = line.split()
        if not state.startswith("Z"):
            found.append(Seen(Process(int(pid), " ".join(birth)), int(parent), int(group)))
    return found


def _ps_lines(*arguments: str) -> list[str]:
    try:
        done = subprocess.run(
            ["ps", *arguments], env={**os.environ, "LC_ALL": "C"}, capture_output=True, text=True
        )
    except OSError:
        return []
    return done.stdout.splitlines()
