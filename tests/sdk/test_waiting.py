"""Waiting: the end of a job is noticed at once, and none is missed whatever breaks."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import re
import select
import struct
import sys
import termios
import threading
import time
from collections.abc import Iterator
from fcntl import ioctl
from typing import Any, Callable, cast

import pytest

from ray_multicluster_scheduler import errors
from ray_multicluster_scheduler._jobs import progress, waiting
from ray_multicluster_scheduler._jobs.jobs import Jobs
from ray_multicluster_scheduler._jobs.watched import Watched
from support.fake_plane import FakePlane
from support.waiting import PATIENCE, wait_until

# Longer than any test: a regular check cannot be what noticed the change.
NEVER = 600


@contextlib.contextmanager
def meanwhile(act: Callable[[], None]) -> Iterator[None]:
    """Runs in parallel with the block, and must have succeeded after it."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(20 * PATIENCE)
        assert not failed, failed
    assert not thread.is_alive()


def is_watched(fake: FakePlane) -> None:
    wait_until(lambda: fake.watchers() > 0, "somebody watches", every=0.02)


def test_an_end_is_heard_of_at_once(fake: FakePlane, jobs: Jobs) -> None:
    fake.add("a", "running", cluster="mac")
    ended: list[float] = []

    def end() -> None:
        is_watched(fake)
        time.sleep(0.3)
        ended.append(time.monotonic())
        fake.change("a", "succeeded", cluster="mac")

    with meanwhile(end):
        assert jobs.wait("a", check_interval=NEVER, timeout=30) is True
    assert time.monotonic() - ended[0] < 2 * PATIENCE


def test_what_ends_while_the_stream_is_broken_is_seen(fake: FakePlane, jobs: Jobs) -> None:
    """No event is sent for it, not even afterwards: only a read can find it."""
    fake.add("a", "running", cluster="mac")

    def end() -> None:
        is_watched(fake)
        time.sleep(0.2)
        fake.change("a", "succeeded", tell=False, cluster="mac")
        fake.break_streams()

    with meanwhile(end):
        assert jobs.wait(["a"], check_interval=NEVER, timeout=30)


def test_a_restarted_plane_is_waited_for_and_goes_on_where_it_was(
    fake: FakePlane, jobs: Jobs
) -> None:
    fake.add("a", "running", cluster="mac")
    fake.add("b", "running", cluster="mac")

    def restart() -> None:
        is_watched(fake)
        fake.change("a", "succeeded", cluster="mac")
        wait_until(lambda: len(fake.requests) > 2, "both were looked at", every=0.02)
        fake.go_away()
        time.sleep(0.5)
        fake.come_back()
        is_watched(fake)
        fake.change("b", "succeeded", cluster="mac")

    with meanwhile(restart):
        assert jobs.wait(["a", "b"], check_interval=0.2, timeout=60)
    streams = fake.asked("GET", "/v1/events")
    assert len(streams) >= 2, "it connected again"


def test_without_a_stream_the_check_interval_finds_it(fake: FakePlane, jobs: Jobs) -> None:
    fake.tells_events = False
    fake.add("a", "running", cluster="mac")

    def end() -> None:
        wait_until(lambda: fake.asked("GET", "/v1/jobs/a"), "it was looked at", every=0.02)
        fake.change("a", "succeeded", cluster="mac")

    with meanwhile(end):
        assert jobs.wait("a", check_interval=0.2, timeout=30)


def test_more_jobs_than_can_be_named_are_picked_out_of_all_events(
    fake: FakePlane, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MOST_NAMED", 1)
    for job_id in ("a", "b", "other"):
        fake.add(job_id, "running", cluster="mac")

    def end() -> None:
        is_watched(fake)
        for job_id in ("other", "a", "b"):
            fake.change(job_id, "failed" if job_id == "other" else "succeeded", cluster="mac")

    with meanwhile(end):
        assert jobs.wait(["a", "b"], check_interval=NEVER, timeout=30)


def test_hundreds_are_waited_for_at_once(fake: FakePlane, jobs: Jobs) -> None:
    ids = [fake.add(f"job{n}", "running", cluster="mac") for n in range(400)]

    def end() -> None:
        is_watched(fake)
        for job_id in reversed(ids):
            fake.change(job_id, "succeeded", cluster="mac")

    with meanwhile(end):
        assert jobs.wait((job_id for job_id in ids), check_interval=NEVER, timeout=60)
    looks = fake.asked("GET", "/v1/jobs/")
    assert len(looks) <= 2 * len(ids), "nobody polls hundreds of jobs"


def test_ids_in_any_form(fake: FakePlane, jobs: Jobs) -> None:
    fake.add("a", "succeeded")
    assert jobs.wait("a")
    assert jobs.wait(["a", "a"])
    assert jobs.wait({"a"})
    assert jobs.wait([])
    fake.requests.clear()
    with pytest.raises(errors.UnknownJobError, match="nope"):
        jobs.wait(["a", "nope"], timeout=20)
    with pytest.raises(errors.ConfigurationError, match="None is not a job id"):
        jobs.wait([None])  # type: ignore[list-item]


def test_the_first_failure_is_raised_with_all_that_helps(fake: FakePlane, jobs: Jobs) -> None:
    fake.add("good", "running", cluster="mac")
    fake.add("bad", "running", cluster="centos")
    message = "Job entrypoint command failed with exit code 3, last available logs (…):\nline 0\n"

    def fail() -> None:
        is_watched(fake)
        fake.change("bad", "failed", cluster="centos", message=message)

    with meanwhile(fail), pytest.raises(RuntimeError) as raised:
        jobs.wait(["good", "bad"], check_interval=NEVER, timeout=30)
    error = raised.value
    assert isinstance(error, errors.JobFailedError)
    assert str(error) == (
        "job bad failed on centos: Job entrypoint command failed with exit code 3\n"
        "  last lines of its log:\n"
        "    line 0\n    line 1\n    line 2\n"
        "  not finished: good (running on mac)\n"
        "  hint: get_job_logs('bad') returns the whole log"
    )
    assert (error.job_id, error.cluster, error.status) == ("bad", "centos", "FAILED")
    assert error.last_lines.splitlines()[-1] == "line 2"
    assert fake.jobs["good"]["state"] == "running", "the others go on"


def test_a_failure_is_raised_with_the_whole_of_its_text(fake: FakePlane, jobs: Jobs) -> None:
    fake.add("bad", "running", cluster="mac")
    message = (
        'runtime_env setup failed:\n  File "pip.py", line 1, in run\n    x()\n'
        "ERROR: No matching distribution found for does-not-exist"
    )

    def fail() -> None:
        is_watched(fake)
        fake.change("bad", "failed", cluster="mac", message=message)

    with meanwhile(fail), pytest.raises(errors.JobFailedError) as raised:
        jobs.wait("bad", check_interval=NEVER, timeout=30)
    assert raised.value.status_message == message
    assert message in str(raised.value)


def test_the_headline_of_a_failure_is_why_and_not_where_ray_cut_the_log(
    fake: FakePlane, jobs: Jobs
) -> None:
    error = "ValueError: no such fund"
    message = (
        "Job entrypoint command failed with exit code 3, last available logs (truncated to 20,000 "
        f"chars):\nTraceback (most recent call last):\n{error}\n"
    )
    fake.add("bad", "failed", cluster="mac", message=message, cause=error, exit_code=3)
    with pytest.raises(errors.JobFailedError) as raised:
        jobs.wait("bad")
    first = str(raised.value).splitlines()[0]
    assert first == "job bad failed on mac: ValueError: no such fund (exit code 3)"
    assert "last available logs" not in str(raised.value)
    assert raised.value.status_message == message
    info = jobs.info("bad")
    assert (info.cause, info.exit_code) == (error, 3)


def test_a_job_never_counts_backwards(fake: FakePlane, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    job = Watched("a")
    told = {"state": "queued", "submitted_at": 995_000, "queued_at": 995_000}
    job.look(cast(Any, told))
    ages = [job.age()]
    for state, at in (("dispatching", 1_001), ("pending", 1_002), ("running", 1_005)):
        now = at + 1.0
        job.hear(cast(Any, {"state": state, "at": at * 1000, "cluster": "mac"}))
        ages.append(job.age())
    # "starting" is one word: its time does not begin again with the second state.
    assert ages == [5, 7, 8, 11]
    assert job.elapsed() == 1
    now = 1_000.0
    assert job.age() == 11, "the clock of this machine was set back"
    job.hear(cast(Any, {"state": "succeeded", "at": 1_007_000, "cluster": "mac"}))
    assert job.age() == 12


def test_a_stopped_job_is_a_failure_too(fake: FakePlane, jobs: Jobs) -> None:
    fake.add("a", "stopped", message="stopped before it was dispatched")
    with pytest.raises(errors.JobFailedError, match="job a was stopped: stopped before") as raised:
        jobs.wait("a")
    assert raised.value.status == "STOPPED"


def test_a_timeout_says_what_each_waits_for(fake: FakePlane, jobs: Jobs) -> None:
    why = {"clusters": [{"cluster": "mac", "reason": "busy", "text": "CPU 90 % > 70 %"}]}
    fake.add("done", "succeeded")
    fake.add("waits", "queued", why=why)
    fake.add("runs", "running", cluster="mac")
    with pytest.raises(TimeoutError) as raised:
        jobs.wait(["done", "waits", "runs"], check_interval=NEVER, timeout=0.3)
    assert isinstance(raised.value, errors.JobTimeoutError)
    text = str(raised.value)
    assert "2 of 3 jobs did not finish in time" in text
    assert re.search(r"waits queued for \d+ s: mac: CPU 90 % > 70 %", text)
    assert re.search(r"runs running on mac for \d+ s", text)


def test_a_log_file_gets_a_line_for_each_change(
    fake: FakePlane, jobs: Jobs, capfd: pytest.CaptureFixture[str]
) -> None:
    why = {"clusters": [{"cluster": "mac", "reason": "too_soon", "text": "in 12 s"}]}
    fake.add("a", "queued", why=why)

    def live() -> None:
        is_watched(fake)
        looks = len(fake.asked("GET", "/v1/jobs/a"))
        # The text changes with every read; the reason does not.
        fake.jobs["a"]["why"]["clusters"][0]["text"] = "in 11 s"
        wait_until(lambda: len(fake.asked("GET", "/v1/jobs/a")) > looks + 1, "looks", every=0.02)
        for state in ("dispatching", "pending", "running", "succeeded"):
            fake.change("a", state, cluster="mac", attempts=1)
            time.sleep(1.0)

    with meanwhile(live):
        assert jobs.wait("a", check_interval=0.2, timeout=30)
    out, err = capfd.readouterr()
    assert out == ""
    lines = [re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", "", line) for line in err.splitlines()]
    lines = [re.sub(r"after \d+ s", "after N s", line) for line in lines]
    assert lines == [
        "ray-multicluster: a queued: mac: in 12 s",
        "ray-multicluster: a starting on mac",
        "ray-multicluster: a running on mac",
        "ray-multicluster: a succeeded on mac after N s",
    ]


class Terminal:
    """A terminal of a given size; `screen()` is what a person would see."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._master, slave = pty.openpty()
        ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.stream = os.fdopen(slave, "w", encoding="utf-8")
        self.written = ""

    def screen(self) -> list[str]:
        """Just enough of a terminal: up, clear line, clear below, colours."""
        while select.select([self._master], [], [], 0.1)[0]:
            self.written += os.read(self._master, 65536).decode()
        rows, at = [""], 0
        for piece in re.findall(r"\x1b\[\??[0-9;]*[A-Za-z]|\r\n|[^\x1b\r\n]+", self.written):
            if piece == "\r\n":
                at += 1
                rows += [""] * (at + 1 - len(rows))
            elif piece.endswith("F"):
                at -= int(piece[2:-1])
                assert at >= 0, "it moved above what it wrote"
            elif piece == "\x1b[2K":
                rows[at] = ""
            elif piece == "\x1b[J":
                rows = [*rows[:at], ""]
            elif not piece.startswith("\x1b"):
                rows[at] += piece
        assert all(len(row) < self.columns for row in rows), rows
        return rows[:-1]


@pytest.fixture
def colourful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.mark.usefixtures("colourful")
def test_a_terminal_shows_a_live_line_for_each_job(
    fake: FakePlane, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal(80, 24)
    monkeypatch.setattr(sys, "stderr", terminal.stream)
    text = "CPU at 82 %, over the threshold of 70 %, and much more to say than fits into a line"
    fake.add("nightly-a", "running", cluster="mac")
    fake.add(
        "b", "queued", why={"clusters": [{"cluster": "centos", "reason": "busy", "text": text}]}
    )

    def live() -> None:
        wait_until(lambda: len(terminal.screen()) == 2, "both lines are there")
        first, second = terminal.screen()
        assert re.fullmatch(r"nightly-a  running     mac +\d s", first.rstrip())
        assert re.fullmatch(r"b          queued +\d s  centos: CPU at 82 %, .*…", second)
        fake.change("nightly-a", "succeeded", cluster="mac")
        fake.change("b", "running", cluster="centos")
        wait_until(lambda: "running" in terminal.screen()[1], "drawn again in place")
        fake.change("b", "succeeded", cluster="centos")

    with meanwhile(live):
        assert jobs.wait(["nightly-a", "b"], check_interval=NEVER, timeout=30)
    assert [row.split()[:3] for row in terminal.screen()] == [
        ["nightly-a", "succeeded", "mac"],
        ["b", "succeeded", "centos"],
    ]
    assert "\x1b[32msucceeded" in terminal.written
    assert terminal.written.rstrip().endswith("\x1b[?25h"), "the cursor is there again"


@pytest.mark.usefixtures("colourful")
def test_more_jobs_than_rows_are_summed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal(60, 5)
    live = progress.on(terminal.stream)
    states = ["queued"] * 7 + ["running"] * 2 + ["succeeded"] * 3
    live.show([Watched(f"job{n}", state, began=time.time()) for n, state in enumerate(states)])
    live.close()
    rows = terminal.screen()
    assert [row.split()[:2] for row in rows[:3]] == [
        ["job7", "running"],
        ["job8", "running"],
        ["job0", "queued"],
    ]
    assert rows[3] == "… and 9 more: 6 queued, 3 succeeded"
    assert "\x1b[3" not in terminal.written, "no colours are wanted"


@pytest.mark.usefixtures("colourful")
def test_the_terminal_is_restored_when_waiting_fails(
    fake: FakePlane, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal(80, 24)
    monkeypatch.setattr(sys, "stderr", terminal.stream)
    fake.add("a", "failed", cluster="mac")
    with pytest.raises(errors.JobFailedError):
        jobs.wait("a")
    assert len(terminal.screen()) == 1
    assert terminal.written.endswith("\x1b[?25h")


def test_what_a_cluster_says_cannot_move_the_cursor() -> None:
    assert progress.plain("a\x1b[2Jb\nc\r\n\n d") == "a [2Jb; c; d"
    assert progress.cut("漢字漢字", 5) == "漢字…"
    assert progress.cut("abc", 3) == "abc"
    assert isinstance(progress.on(io.StringIO()), progress.Log)


def test_a_broken_stderr_does_not_end_waiting(fake: FakePlane, jobs: Jobs) -> None:
    fake.add("a", "succeeded")
    with open(os.devnull) as unwritable, contextlib.redirect_stderr(unwritable):
        assert jobs.wait("a")


def test_a_program_run_again_says_that_its_jobs_ran_before_and_when(
    fake: FakePlane, jobs: Jobs, capsys: pytest.CaptureFixture[str]
) -> None:
    """As if they had just succeeded is how it looked, an hour later."""
    hour_ago = int((time.time() - 3723) * 1000)
    times = {"submitted_at": hour_ago - 20_000, "running_at": hour_ago - 12_000}
    for job_id in ("a", "b"):
        jobs.submit("python x.py", submission_id=job_id)
        fake.change(job_id, "succeeded", tell=False, cluster="mac", **times)
        fake.jobs[job_id]["ended_at"] = hour_ago
    again = Jobs(jobs._plane)  # The same program, started once more.
    for job_id in ("a", "b", "new"):
        again.submit("python x.py", submission_id=job_id)
    fake.change("new", "succeeded", tell=False, cluster="mac")
    assert again.wait(["a", "b", "new"], check_interval=NEVER, timeout=30)
    told = capsys.readouterr().err
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(hour_ago / 1000))
    assert (
        f"submitted before, and not run again: a succeeded at {moment} (1:02 h ago), "
        f"b succeeded at {moment} (1:02 h ago); to run them again, give another submission_id\n"
    ) in told
    assert "a succeeded on mac after 20 s, 1:02 h ago\n" in told
    assert re.search(r"new succeeded on mac after \d s\n", told), "a job of this run"


def test_an_earlier_job_that_failed_can_be_retried(
    fake: FakePlane, jobs: Jobs, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs.submit("python x.py", submission_id="a")
    fake.change("a", "failed", tell=False, cluster="mac")
    again = Jobs(jobs._plane)
    again.submit("python x.py", submission_id="a")
    with pytest.raises(errors.JobFailedError):
        again.wait("a", check_interval=NEVER, timeout=30)
    told = capsys.readouterr().err
    assert "submitted before, and not run again: a failed at " in told
    assert "give another submission_id, or `ray-multicluster retry a`\n" in told


def test_a_job_that_still_runs_is_waited_for_without_a_word(
    fake: FakePlane, jobs: Jobs, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs.submit("python x.py", submission_id="a")
    again = Jobs(jobs._plane)
    again.submit("python x.py", submission_id="a")
    fake.change("a", "running", tell=False, cluster="mac")

    def end() -> None:
        is_watched(fake)
        fake.change("a", "succeeded", cluster="mac")

    with meanwhile(end):
        assert again.wait("a", check_interval=NEVER, timeout=30)
    assert "before" not in capsys.readouterr().err
