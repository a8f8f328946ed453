"""False answers for a program: a wrong time of day, failing writes, and syncs that hang.

`shim.c` does it, inside the process. The test keeps its own clock.
"""

from __future__ import annotations

import mmap
import struct
import subprocess
from pathlib import Path

SIZE = 24


class Shim:
    def __init__(self, directory: Path) -> None:
        self._library = directory / "shim.so"
        self._file = directory / "shim.told"
        source = Path(__file__).with_name("shim.c")
        command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(self._library), str(source), "-ldl"]
        subprocess.run(command, check=True, timeout=60)
        self._file.write_bytes(bytes(SIZE))
        with self._file.open("r+b") as file:
            self._told = mmap.mmap(file.fileno(), SIZE)

    @property
    def env(self) -> dict[str, str]:
        """The environment for the process."""
        return {"LD_PRELOAD": str(self._library), "CHAOS_SHIM": str(self._file)}

    def set_clock(self, off_by_hours: float) -> None:
        """The wall clock is off by this much from now on, also in processes started later."""
        self._tell(0, round(off_by_hours * 3600))

    def fail_writes(self, error: int) -> None:
        """Writes to files get this error (see `errno`) from now on; 0: none."""
        self._tell(1, error)

    def hang_syncs(self, hang: bool) -> None:
        """Syncs of files do not return until this is taken back."""
        self._tell(2, int(hang))

    def _tell(self, place: int, number: int) -> None:
        # One aligned word: a concurrent reader sees the old or the new value.
        struct.pack_into("=q", self._told, place * 8, number)
