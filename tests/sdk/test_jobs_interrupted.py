"""Ctrl-C and SIGTERM: the jobs of a program are stopped, and no others."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ray_multicluster_scheduler import graceful_shutdown_on_keyboard_interrupt
from ray_multicluster_scheduler._jobs import interrupts
from ray_multicluster_scheduler._jobs.jobs import Jobs
from ray_multicluster_scheduler._plane.client import ControlPlane
from support import program
from support.fake_plane import FakePlane
from support.waiting import PATIENCE, wait_until


@pytest.fixture
def fake() -> Iterator[FakePlane]:
    with FakePlane() as plane:
        yield plane


@contextlib.contextmanager
def script(fake: FakePlane, home: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Once it has submitted and, if it waits for jobs, is waiting."""
    running = program.start("submits_and_waits", fake, home, *arguments)
    try:
        assert running.stdout is not None
        assert running.stdout.readline() == "submitted\n", running.communicate()[0]
        if "--decorated" not in arguments:
            wait_until(lambda: fake.watchers() > 0, "it waits")
        yield running
    finally:
        running.kill()
        running.wait()


def ended(running: subprocess.Popen[str], timeout: float = 30) -> str:
    """Its whole output."""
    return running.communicate(timeout=timeout * PATIENCE)[0]


@pytest.mark.parametrize("form", ["plain", "--decorated"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_stops_what_was_submitted(
    fake: FakePlane, tmp_path: Path, form: str, number: signal.Signals
) -> None:
    fake.add("somebody-elses", "running", cluster="mac")
    fake.add("there-before", "queued")
    jobs = ["queued:1:true", "running:1:true", "done:1:true", "there-before:1:true"]
    arguments = jobs if form == "plain" else [form, *jobs]
    with script(fake, tmp_path, *arguments) as running:
        fake.change("running", "running", cluster="mac")
        fake.change("done", "succeeded", cluster="mac")
        time.sleep(0.3)
        running.send_signal(number)
        output = ended(running)
    assert "queued: stopped\n" in output
    assert "running: stopping on mac\n" in output
    asked = {path.split("/")[3] for path in fake.asked("POST", "/v1/jobs/.*/stop")}
    assert asked - {"done"} == {"queued", "running"}
    if number is signal.SIGINT:
        assert "KeyboardInterrupt" in output
        assert running.returncode in (-signal.SIGINT, 130, 1)
    else:
        assert running.returncode == 143
        assert "Traceback" not in output


def test_a_second_interrupt_ends_it_at_once_and_says_what_is_left(
    fake: FakePlane, tmp_path: Path
) -> None:
    with script(fake, tmp_path, "a:1:true", "b:1:true") as running:
        fake.frozen.set()
        running.send_signal(signal.SIGINT)
        wait_until(lambda: len(fake.asked("POST", "/v1/jobs/.*/stop")) == 2, "it stops them")
        begun = time.monotonic()
        running.send_signal(signal.SIGINT)
        output = ended(running)
        assert time.monotonic() - begun < interrupts.PATIENCE / 2
    assert "stopping 2 jobs of this program" in output
    assert "not stopped, may still be running: a, b" in output
    assert "KeyboardInterrupt" in output


def test_a_dead_control_plane_does_not_hold_up_the_end(fake: FakePlane, tmp_path: Path) -> None:
    with script(fake, tmp_path, "a:1:true") as running:
        fake.go_away()
        running.send_signal(signal.SIGTERM)
        output = ended(running, timeout=interrupts.PATIENCE + 10)
    assert "a: NOT stopped: the control plane" in output
    assert running.returncode == 143


def test_handlers_are_as_before_and_the_programs_own_is_called(
    fake: FakePlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not the jobs of other tests.
    monkeypatch.setattr(interrupts, "_all", [])
    jobs = Jobs(ControlPlane(fake.address))
    jobs.submit("true", submission_id="mine")
    called: list[int] = []

    def own(number: int, frame: object) -> None:
        called.append(number)

    before = signal.signal(signal.SIGTERM, own)
    try:
        with pytest.raises(SystemExit) as exit, interrupts.stopping_on_interrupt():
            signal.raise_signal(signal.SIGTERM)
        assert exit.value.code == 143
        assert called == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)
    assert fake.jobs["mine"]["state"] == "stopped"
    assert jobs.submitted == []


def test_outside_the_main_thread_nothing_is_touched() -> None:
    handlers: list[object] = []

    @graceful_shutdown_on_keyboard_interrupt()
    def work(value: int) -> int:
        handlers.append(signal.getsignal(signal.SIGTERM))
        return value

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work, args=(1,))
    thread.start()
    thread.join(10)
    assert handlers == [before]
    assert work(2) == 2
    assert handlers[1] is not before
    assert signal.getsignal(signal.SIGTERM) is before
    assert work.__name__ == "work"
