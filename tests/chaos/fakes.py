"""Fake dashboards (crates/testkit) as a process that can be killed and started again."""

from __future__ import annotations

import subprocess
from pathlib import Path

import requests

from support import ports
from support.fake_ray import binary


class Fake:
    """One fake cluster. Every start is a new head: another session, without memory.

    Its runs are in the ledger, which outlives it.
    """

    def __init__(self, name: str, ledger: Path, *options: str) -> None:
        self.name = name
        self._port = ports.a_port()
        self._options = ["--name", name, "--ledger", str(ledger), *options]
        self._process: subprocess.Popen[str] | None = None
        self.start()

    @property
    def dashboard(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        command = [str(binary()), "--port", str(self._port), "--cpus", "64", *self._options]
        self._process = subprocess.Popen(
            [*command, "--until-stdin-closes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith("http"), "the fake says where it is"

    restart = start

    def has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def submit(self, submission_id: str, entrypoint: str) -> None:
        """As somebody else, beside the control plane."""
        body = {"submission_id": submission_id, "entrypoint": entrypoint}
        requests.post(f"{self.dashboard}/api/jobs/", json=body, timeout=10).raise_for_status()
