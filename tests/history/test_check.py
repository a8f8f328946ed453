"""The checker finds each broken promise, one at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import requests

from history.check import EARLY, LOST, NO_REASON, TWICE, WRONG, check, head_lost
from history.record import Facts, History, Job, Line, Loss, Shown, Why
from history.watch import Watcher

LOST_WITH_ITS_HEAD = "cluster mac restarted and no longer knows this job; it may …"


def kinds(facts: Facts) -> set[str]:
    return {violation.kind for violation in check(facts)}


def a_history(*shown: Shown, ran: str = "sent 2, begin 2, end 4 0", **job: Any) -> Facts:
    """Job `a` is submitted at 1 and accepted at 1.5; it runs on mac from 2 to 4."""
    lines = []
    for line in filter(None, ran.split(", ")):
        what, at, *code = line.split()
        lines.append(Line(what, "mac", "a", float(at), int(code[0]) if code else None))
    return Facts({"a": Job("a", **{"asked": 1.0, "accepted": 1.5, **job})}, lines, shown=[*shown])


def at(moment: float, status: str | None, state: str = "", **more: Any) -> Shown:
    """Requested then, answered a tenth of a second later."""
    return Shown("a", moment, moment + 0.1, status, state, **{"cluster": "mac", **more})


SUCCEEDED = at(5, "SUCCEEDED")
RESTARTED = at(9, "FAILED", message=LOST_WITH_ITS_HEAD)


@pytest.mark.parametrize(
    "facts",
    [
        a_history(at(1.6, "PENDING", "queued"), at(3, "RUNNING", "running"), SUCCEEDED),
        a_history(at(5, "FAILED"), ran="begin 2, end 4 3"),
        # Two reads at the same time: either may be the earlier one.
        a_history(SUCCEEDED, at(4.95, "RUNNING", "running")),
        # Unknown is shown as running, and a real job begins after Ray shows it as running.
        a_history(at(1.7, "RUNNING", "unknown"), SUCCEEDED),
        a_history(at(1.7, "RUNNING", "running"), SUCCEEDED, ran="begin 2, end 4 0"),
        # Not accepted, so not promised.
        a_history(at(2, None), accepted=None, ran=""),
        a_history(at(5, "STOPPED"), stopped=4.0, ran="begin 2"),
        a_history(SUCCEEDED, runs=2, ran="begin 2, begin 3, end 4 0"),
        a_history(at(5, "FAILED"), writes=False, ran=""),
    ],
)
def test_what_is_promised_is_fine(facts: Facts) -> None:
    assert check(facts) == []


@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        (a_history(at(2, None), SUCCEEDED), LOST),
        (a_history(SUCCEEDED, at(7, None)), LOST),
        (a_history(at(3, "RUNNING")), LOST),
        (a_history(SUCCEEDED, ran="begin 2, begin 3, end 4 0"), TWICE),
        (a_history(SUCCEEDED, ran="sent 2, sent 3, begin 2, end 4 0"), TWICE),
        (a_history(SUCCEEDED, runs=2, ran="begin 2, end 4 0, begin 6"), TWICE),
        (a_history(SUCCEEDED, at(6, "FAILED")), WRONG),
        (a_history(SUCCEEDED, at(6, "PENDING")), WRONG),
        (a_history(SUCCEEDED, ran="begin 2"), WRONG),
        (a_history(SUCCEEDED, ran=""), WRONG),
        (a_history(SUCCEEDED, ran="begin 2, end 4 3"), WRONG),
        (a_history(at(5, "FAILED")), WRONG),
        (a_history(at(5, "STOPPED")), WRONG),
        (a_history(at(5, "STOPPED"), stopped=6.0), WRONG),
        (a_history(at(5, "SUCCEEDED", cluster="centos")), WRONG),
        (a_history(at(3, "SUCCEEDED")), EARLY),
        (a_history(at(1.7, "RUNNING", "running"), SUCCEEDED), EARLY),
        (a_history(SUCCEEDED, ran="begin 0.5, end 4 0"), EARLY),
        (a_history(at(0.5, "PENDING"), SUCCEEDED), EARLY),
        (a_history(at(3, "RUNNING"), asked=None, accepted=None, ran=""), EARLY),
    ],
)
def test_a_broken_promise_is_found(facts: Facts, kind: str) -> None:
    assert kinds(facts) == {kind}


def test_a_job_that_nobody_submitted() -> None:
    facts = a_history(SUCCEEDED)
    facts.shown.append(Shown("b", 5, 5.1, "PENDING"))
    facts.lines.append(Line("begin", "mac", "c", 5))
    assert [(found.kind, found.job) for found in check(facts)] == [(EARLY, "b"), (EARLY, "c")]


def test_a_job_that_two_clusters_list() -> None:
    facts = a_history(SUCCEEDED)
    facts.found = {("mac", "a"), ("centos", "a")}
    assert kinds(facts) == {TWICE}


@pytest.mark.parametrize("there", [3.0, 6.0])
def test_a_lost_head_excuses_the_jobs_that_were_there(there: float) -> None:
    """At its end, or sent to it before there was a new one."""
    facts = a_history(at(there, "RUNNING", "unknown"), RESTARTED, ran="begin 2")
    facts.losses = [Loss("mac", 3.0, 7.0)]
    assert (check(facts), head_lost(facts)) == ([], {"a"})


@pytest.mark.parametrize(
    ("seen", "losses"),
    [
        (at(2.5, "RUNNING"), [Loss("mac", 3.0, 7.0)]),
        (at(7.5, "RUNNING"), [Loss("mac", 3.0, 7.0)]),
        (at(5, "RUNNING", cluster="centos"), [Loss("mac", 3.0, 7.0)]),
        (at(5, "PENDING", cluster=None), [Loss("mac", 3.0, 7.0)]),
        (at(5, "RUNNING"), []),
    ],
)
def test_a_lost_head_excuses_no_job_that_was_not_there(seen: Shown, losses: list[Loss]) -> None:
    facts = a_history(seen, RESTARTED, ran="begin 2")
    facts.losses = losses
    assert (kinds(facts), head_lost(facts)) == ({WRONG}, set())


@pytest.mark.parametrize(
    "why",
    [
        Why("a", "queued", " ", 1),
        Why("a", "queued", "waits", 0),
        Why("a", "pending", "on mac", 1, to_ray=""),
    ],
)
def test_a_job_that_waits_without_a_reason(why: Why) -> None:
    facts = a_history(SUCCEEDED)
    facts.whys = [Why("a", "queued", "waits", 1, "waits"), why]
    assert kinds(facts) == {NO_REASON}


def test_a_log_of_a_strangers_run() -> None:
    facts = a_history(SUCCEEDED)
    facts.strangers, facts.logs = {"secret"}, [("a", "hello\n"), ("a", "a secret\n")]
    assert kinds(facts) == {WRONG}


class Plane:
    """A control plane that shows what the test sets."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []

    def request(self, _method: str, path: str, **_: Any) -> requests.Response:
        answer = requests.Response()
        answer.status_code = 200
        body: Any = {"status": "PENDING", "message": ""}
        if path.startswith("/v1/jobs?"):
            shown = [job for job in self.jobs if "state=" not in path or job["state"] == "queued"]
            body = {"items": shown}
        elif path.endswith("/explain"):
            body = {"state": "queued", "summary": "waits", "clusters": []}
        elif path.startswith("/v1/jobs/"):
            found = [job for job in self.jobs if job["id"] == path.rpartition("/")[2]]
            answer.status_code, body = (200, found[0]) if found else (404, {})
        answer._content = json.dumps(body).encode()
        return answer


def test_the_watcher_records_what_it_is_shown(tmp_path: Path) -> None:
    plane, history = Plane(), History(tmp_path / "ledger")
    watcher = Watcher(plane, history)  # type: ignore[arg-type]
    history.add(Job("a", asked=1.0, accepted=1.5))
    history.add(Job("b", asked=1.0, accepted=1.5))
    plane.jobs = [{"id": "a", "state": "queued", "ray_status": "PENDING"}]
    watcher.head_killed("mac")
    plane.jobs = [{"id": "a", "state": "succeeded", "ray_status": "SUCCEEDED", "cluster": "mac"}]
    watcher.head_replaced("mac")
    assert history.in_flight() == ["b"]
    history.ledger.write_text("begin mac a 2\nbegin mac a-a2 3\nend mac a-a2 4.5 3\n")
    found = check(history.facts())
    assert [(f.kind, f.job) for f in found if f.kind != NO_REASON] == [
        (TWICE, "a"),
        (WRONG, "a"),
        (LOST, "b"),
        (LOST, "b"),
    ]
    assert len([f for f in found if f.kind == NO_REASON]) == 2
    (loss,) = history.facts().losses
    assert loss.until is not None
    assert loss.since <= loss.until
