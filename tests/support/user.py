"""A user with their own home, whose programs share control planes in the background."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from . import ports, processes
from .plane import REPOSITORY, binary

#: A pool whose clusters never answer: submitted jobs stay queued.
NOBODY = """\
clusters:
  - name: {name}
    head_address: 127.0.0.1:{port}
    dashboard: http://127.0.0.1:{port}
"""


class User:
    """`environment` is the environment of their programs."""

    def __init__(self, directory: Path):
        self.home = directory / "home"
        self.home.mkdir(parents=True)
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("RAY_MULTICLUSTER_", "SCHEDULER_", "CLUSTER_CONFIG_FILE"))
        }
        self.environment = {
            **kept,
            "HOME": str(self.home),
            "PYTHONPATH": str(REPOSITORY / "python"),
            "RAY_MULTICLUSTER_BIN": str(binary()),
            # If a test forgets one, it exits soon.
            "RAY_MULTICLUSTER_EXIT_WHEN_IDLE": "2m",
        }

    def config(self, name: str = "pool") -> Path:
        """A configuration in a folder of that name."""
        file = self.home / name / "cluster.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(NOBODY.format(name=name, port=ports.a_port()))
        return file

    def program(self, code: str, *arguments: object) -> subprocess.Popen[str]:
        """A Python program of theirs, in its own terminal session."""
        return subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            env=self.environment,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def serve(self, file: Path) -> str:
        """Runs a control plane by hand; returns its address."""
        served = subprocess.Popen(
            [binary(), "serve", "--config", file, "--listen", "127.0.0.1:0"],
            env=self.environment,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert served.stdout is not None
        with served.stdout as said:
            line = said.readline()
        ready = re.search(r" at (\S+)", line)
        assert ready is not None, line
        return ready[1]

    def planes(self) -> list[int]:
        """The processes that serve for them."""
        found = processes.belonging_to(self.home)
        return [pid for pid in found if " serve " in processes.command_line(pid)]

    def state(self, pid: int) -> Path:
        """The state directory of one."""
        words = processes.command_line(pid).split()
        return Path(words[words.index("--state-dir") + 1])

    def notice(self, pid: int) -> dict[str, object]:
        """The notice of one."""
        return json.loads((self.state(pid) / "plane.json").read_text())

    def leave(self) -> None:
        """Ends all their processes."""
        processes.kill_all_of(self.home)
