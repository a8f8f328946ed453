"""The parts of the sandbox that need no Ray: ports, processes, links."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
import uuid
import zipfile
from pathlib import Path

import pytest

from ray_multicluster_scheduler._sandbox import ports, processes, projects
from ray_multicluster_scheduler._sandbox.cluster import clean_environment
from ray_multicluster_scheduler._sandbox.processes import Family, Process, find
from ray_multicluster_scheduler._sandbox.progress import CLEAR, Progress
from support.plane import REPOSITORY
from support.waiting import wait_until


def test_a_block_is_claimed_until_it_is_closed() -> None:
    block = ports.claim()
    again = ports.claim(block.first)
    assert again.first != block.first
    block.close()
    third = ports.claim(block.first)
    assert third.first == block.first
    again.close()
    third.close()


def test_a_block_with_a_port_in_use_is_passed_over() -> None:
    block = ports.claim()
    block.close()
    with socket.create_server(("127.0.0.1", block.first + 42)):
        other = ports.claim(block.first)
    assert other.first != block.first
    other.close()


@pytest.fixture(params=["proc", "ps"])
def looking(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes are found in /proc, and without it (macOS) by `ps`."""
    if request.param == "proc" and not processes.HAS_PROC:
        pytest.skip("there is no /proc")
    monkeypatch.setattr(processes, "HAS_PROC", request.param == "proc")
    if sys.platform == "linux":
        lines = processes._ps_lines
        # The same option of another `ps`.
        given = {"-E": "e"}
        monkeypatch.setattr(
            processes, "_ps_lines", lambda *words: lines(*(given.get(word, word) for word in words))
        )


@pytest.mark.usefixtures("looking")
def test_a_number_that_another_process_has_now_is_left_alone() -> None:
    other = subprocess.Popen(["sleep", "60"])
    reused = Process(other.pid, "long ago")
    assert not reused.is_running()
    assert Family("MULTICLUSTER_TEST=nobody", reused).end() == 0
    assert other.poll() is None
    other.kill()
    other.wait()


@pytest.mark.usefixtures("looking")
def test_marked_processes_are_ended_with_all_their_children() -> None:
    value = uuid.uuid4().hex
    # The child drops the mark, and both ignore SIGTERM. The parent stays when the child ends.
    script = "trap '' TERM; env -i sh -c 'trap \"\" TERM; sleep 60; :' & wait; sleep 60; :"
    env = {**os.environ, "MULTICLUSTER_TEST": value}
    marked = subprocess.Popen(["sh", "-c", script], env=env)
    family = Family(f"MULTICLUSTER_TEST={value}")
    wait_until(lambda: len(family.members()) >= 3, "all of them run")
    assert family.end() >= 3
    assert family.members() == []
    assert marked.wait() == -signal.SIGKILL


@pytest.mark.usefixtures("looking")
def test_an_ended_process_does_not_run_although_it_was_not_reaped() -> None:
    child = subprocess.Popen(["true"])
    wait_until(lambda: find(child.pid) is None, "it has ended")
    assert child.wait() == 0


@pytest.mark.parametrize(
    ("project", "home", "place"),
    [
        ("/home/you/src/quant", "/home/you", "src/quant"),
        ("/srv/quant", "/home/you", "project/quant"),
        ("/home/you", "/home/you", None),
        ("/", "/home/you", None),
        ("/srv/quant", None, "project/quant"),
    ],
)
def test_a_project_has_the_same_place_below_every_home(
    project: str, home: str | None, place: str | None
) -> None:
    found = projects.place(Path(project), Path(home) if home else None)
    assert found == (Path(place) if place else None)


def test_a_cluster_is_given_nothing_of_the_users_own_setup() -> None:
    given = {
        "RAY_ADDRESS": "x",
        "SCHEDULER_POLL_INTERVAL": "1s",
        "https_proxy": "http://x",
        "PYTHONPATH": "/mine",
        "CLUSTER_CONFIG_FILE": "x",
        "PATH": "/bin",
        "LANG": "C",
    }
    env = clean_environment(Path("/h"), Path("/venv/bin"), given)
    assert env == {
        "LANG": "C",
        "PATH": "/venv/bin:/bin",
        "HOME": "/h",
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONUNBUFFERED": "1",
    }


def test_the_sandbox_imports_from_a_zip_with_the_standard_library_alone(tmp_path: Path) -> None:
    package = REPOSITORY / "python" / "ray_multicluster_scheduler"
    with zipfile.ZipFile(tmp_path / "sdk.zip", "w") as packed:
        for file in [package / "_env.py", *(package / "_sandbox").glob("*.py")]:
            packed.write(file, file.relative_to(package.parent))
    program = f"""
import sys, types
package = types.ModuleType("ray_multicluster_scheduler")
package.__path__ = [{str(tmp_path / "sdk.zip/ray_multicluster_scheduler")!r}]
sys.modules[package.__name__] = package
before = set(sys.modules)
import ray_multicluster_scheduler._sandbox.commands
new = {{name.partition(".")[0] for name in set(sys.modules) - before}}
assert new <= {{*sys.stdlib_module_names, package.__name__}}, new
"""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_up_shows_on_a_terminal_what_it_waits_for() -> None:
    screen = Terminal()
    with Progress(["centos", "mac"], 120, screen) as progress:
        progress.show(["centos", "mac"])
        assert screen.getvalue().endswith("waiting for centos and mac: 0 s of at most 120 s")
        progress.show(["mac"])
        assert f"{CLEAR}centos is up after 0 s (1 of 2)\n" in screen.getvalue()
        assert screen.getvalue().endswith("waiting for mac: 0 s of at most 120 s")
    assert screen.getvalue().endswith(CLEAR), "an error begins on a line of its own"


def test_up_writes_only_whole_lines_into_a_file() -> None:
    lines = io.StringIO()
    with Progress(["centos", "mac"], 120, lines) as progress:
        for waiting in (["centos", "mac"], ["centos"], ["centos"], []):
            progress.show(waiting)
    assert lines.getvalue() == "mac is up after 0 s (1 of 2)\ncentos is up after 0 s (2 of 2)\n"
