"""A small disk for the state: it can be filled, made read-only, and its files torn.

A tmpfs in its own mount namespace, which a process of ours holds: no other process on the machine
sees it, and it is gone with that process, however the test ends. Root needs no more; other users
are root in a user namespace, if the machine allows that.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
from pathlib import Path

MIB = 1024 * 1024


class NoDisk(Exception):
    """This machine does not allow mounting a disk; with the reason."""


class Disk:
    def __init__(self, directory: Path, size: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        as_root = os.geteuid() == 0
        unshare = ["unshare", "--mount"] if as_root else ["unshare", "--user", "-r", "--mount"]
        # Its input ends with this process; then it exits too, and the disk is gone.
        script = f"mount -t tmpfs -o size={size},mode=700 chaos {directory} && echo mounted && cat"
        self._holder = subprocess.Popen(
            [*unshare, "sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline().strip() != "mounted":
            _, why = self._holder.communicate(timeout=10)
            raise NoDisk(" ".join(why.split()) or "unshare says nothing")
        enter = ["nsenter", f"--target={self._holder.pid}", "--mount"]
        self.enter = enter if as_root else [*enter, "--user", "--preserve-credentials"]

    @property
    def path(self) -> Path:
        """Its files, reached from outside the namespace."""
        return Path(f"/proc/{self._holder.pid}/root{self._directory}")

    def fill(self) -> None:
        """Leaves no free byte. Repeated, because deletions since then leave room."""
        with (self.path / "ballast").open("ab", buffering=0) as file:
            for size in (MIB, 4096):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(size))

    def make_room(self) -> None:
        (self.path / "ballast").unlink(missing_ok=True)

    def remount(self, how: str) -> None:
        """`ro` needs a disk that no process writes to."""
        command = [*self.enter, "mount", "-o", f"remount,bind,{how}", str(self._directory)]
        subprocess.run(command, check=True, timeout=10)

    def tear(self, dice: random.Random) -> str:
        """Appends to the log what a crash in the middle of a write leaves. Returns a
        description."""
        log = self.path / "state.db-wal"
        end, page = _end_of_log(log)
        what = dice.choice(["noise", "half a frame", "a frame with a wrong checksum"])
        size = 24 + page
        with log.open("r+b") as file:
            file.seek(16)
            salts = file.read(8)
            # The beginning of a SQLite frame: the page, the size of the database after it, the
            # salts.
            frame = b"\0\0\0\1\0\0\0\1" + salts + dice.randbytes(8) + dice.randbytes(page)
            torn = {
                "noise": dice.randbytes(dice.randrange(1, 3 * size)),
                "half a frame": frame[: dice.randrange(1, size)],
                "a frame with a wrong checksum": frame,
            }[what]
            file.seek(end)
            file.write(torn)
            if what != "a frame with a wrong checksum":
                file.truncate()
        return what

    def close(self) -> None:
        assert self._holder.stdin is not None
        self._holder.stdin.close()
        self._holder.wait(10)


def _end_of_log(log: Path) -> tuple[int, int]:
    """Where the next frame would be written, and the size of a page.

    Frames of this round carry the salts of the header; later data is of an earlier round.
    """
    data = log.read_bytes()
    if len(data) < 32:
        raise ValueError(f"{log} has no header: it was never written to")
    page, salts, at = int.from_bytes(data[8:12], "big"), data[16:24], 32
    while data[at + 8 : at + 16] == salts:
        at += 24 + page
    return at, page
