"""What the command line does on a terminal: it asks, and it completes words."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.plane import Plane, binary, lonely

PATIENCE = 30.0


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, *command: str, env: dict[str, str]) -> None:
        self.pid, self.screen = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], command, env)
        self.seen = ""

    def until(self, text: str) -> str:
        """Everything up to here."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.seen:
            assert time.monotonic() < deadline, f"no {text!r} in {self.seen!r}"
            self._read()
        return self.seen

    def type(self, keys: str) -> None:
        os.write(self.screen, keys.encode())

    def end(self) -> str:
        with contextlib.suppress(OSError):
            while self._read():
                pass
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        assert os.waitstatus_to_exitcode(status) == 0, self.seen
        return self.seen

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)
        os.close(self.screen)

    def _read(self) -> bool:
        ready, _, _ = select.select([self.screen], [], [], 0.1)
        if ready:
            piece = os.read(self.screen, 65536).decode(errors="replace")
            self.seen += piece.replace("\r\n", "\n")
            return bool(piece)
        return True


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """Without clusters: whatever is submitted stays in the queue."""
    plane = lonely(tmp_path_factory.mktemp("plane")).start()
    try:
        yield plane
    finally:
        plane.stop()


@contextlib.contextmanager
def typed(plane: Plane, *arguments: str) -> Iterator[Terminal]:
    env = {
        **os.environ,
        "RAY_MULTICLUSTER_ADDRESS": plane.address,
        "TERM": "xterm",
        "COLUMNS": "80",
    }
    terminal = Terminal(str(binary()), *arguments, env=env)
    try:
        yield terminal
    finally:
        terminal.close()


def states(plane: Plane) -> list[str]:
    return [job["state"] for job in plane.get("/v1/jobs?tag=sweep")["items"]]


def test_many_jobs_are_stopped_only_after_a_yes(plane: Plane) -> None:
    for number in range(7):
        job = {"id": f"sweep-{number}", "entrypoint": f"echo {number}", "tags": ["sweep"]}
        plane.post("/v1/jobs", job)
    with typed(plane, "stop", "--tag", "sweep") as terminal:
        shown = terminal.until("stop 7 jobs? [y/N]")
        assert re.search(r"sweep-6 .*\n… and 2 more\n", shown, re.DOTALL), shown
        terminal.type("\n")
        assert terminal.end().endswith("no job was stopped\n")
    assert states(plane) == ["queued"] * 7
    with typed(plane, "stop", "sweep-") as terminal:
        terminal.until("several jobs have an id that begins with sweep-")
    with typed(plane, "stop", "--state", "waiting", "--tag", "sweep") as terminal:
        terminal.until("[y/N]")
        terminal.type("y\n")
        assert terminal.end().endswith("7 of 7 jobs stopped\n")
    assert states(plane) == ["stopped"] * 7


def test_the_beginning_of_an_id_is_asked_about(plane: Plane) -> None:
    plane.post("/v1/jobs", {"id": "nightly-10", "entrypoint": "x"})
    with typed(plane, "stop", "nightly-1") as terminal:
        terminal.until("stop nightly-10? [y/N]")
        terminal.type("n\n")
        assert terminal.end().endswith("no job was stopped\n")
    assert plane.native_job("nightly-10")["state"] == "queued"


def test_a_watched_list_is_drawn_over_itself(plane: Plane) -> None:
    with typed(plane, "queue", "--watch=1") as terminal:
        terminal.until("\x1b[J\x1b[H")


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("ray-multicluster jobs --so", "--sort"),
        ("ray-multicluster clusters cor", "cordon"),
        ("ray-multicluster what-if --nee", "--needs"),
    ],
)
def test_zsh_completes_after_the_first_word(line: str, offered: str, tmp_path: Path) -> None:
    script = tmp_path / "completions.zsh"
    program = str(binary())
    env = {**os.environ, "TERM": "dumb", "PS1": "> ", "HOME": str(tmp_path)}
    terminal = Terminal("zsh", "-f", "-i", env=env)
    try:
        terminal.type(f"{program} completions zsh > {script}; autoload -U compinit; ")
        terminal.type(f"compinit -u -D; source {script}; print rea''dy\n")
        terminal.until("ready\n")
        terminal.type(f"{line}\t")
        terminal.until(offered)
    finally:
        terminal.close()
