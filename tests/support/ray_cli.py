"""The stock `ray job …` command line, as a user runs it."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .ray_cluster import BIN, clean_environment
from .waiting import PATIENCE


@dataclass(frozen=True)
class Ran:
    code: int
    output: str

    def ok(self) -> str:
        assert self.code == 0, f"exit code {self.code}:\n{self.output}"
        return self.output


@dataclass(frozen=True)
class RayCli:
    address: str
    home: Path
    #: Of the virtual environment that has this `ray`.
    bin: Path = BIN

    def job(self, verb: str, *arguments: str, timeout: float = 120, cwd: Path | None = None) -> Ran:
        """`ray job VERB --address … ARGUMENTS`, standard output and error together."""
        done = subprocess.run(
            [str(self.bin / "ray"), "job", verb, "--address", self.address, *arguments],
            env=clean_environment(self.home, self.bin),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout * PATIENCE,
            cwd=cwd or self.home,
            check=False,
        )
        return Ran(done.returncode, re.sub(r"\x1b\[[0-9;]*m", "", done.stdout))
