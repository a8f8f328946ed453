"""The witness detects each broken promise, one at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import requests

from chaos.witness import LOST, NO_REASON, TWICE, WRONG, Witness
from chaos.workload import Job, Ledger


class Shown:
    """A control plane that shows what the test sets."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []
        self.why = {"state": "queued", "summary": "waits", "clusters": [{"cluster": "mac"}]}
        self.message = "waits"

    def request(self, _method: str, path: str, **_: Any) -> requests.Response:
        body: Any = {"status": "PENDING", "message": self.message}
        if path.startswith("/v1/jobs?"):
            is_live = "state=" in path
            shown = [job for job in self.jobs if not is_live or job["ray_status"] == "PENDING"]
            body = {"items": shown}
        elif path.endswith("/explain"):
            body = self.why
        elif path.startswith("/v1/jobs/"):
            body = next(job for job in self.jobs if job["id"] == path.rpartition("/")[2])
        answer = requests.Response()
        answer.status_code = 200
        answer._content = json.dumps(body).encode()
        return answer


@pytest.fixture
def shown() -> Shown:
    return Shown()


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


@pytest.fixture
def witness(shown: Shown, ledger: Ledger) -> Witness:
    job = Job("a", "", "SUCCEEDED", ["real"], accepted=1.0)
    return Witness(shown, [job], ledger, seed=1)  # type: ignore[arg-type]


def kinds(witness: Witness) -> set[str]:
    return {violation.kind for violation in witness.violations}


def a_job(status: str, message: str = "", cluster: str | None = "mac") -> dict[str, Any]:
    return {"id": "a", "ray_status": status, "message": message, "cluster": cluster}


def test_a_job_that_ran_once_and_ended_as_it_should_is_fine(
    shown: Shown, ledger: Ledger, witness: Witness
) -> None:
    shown.jobs = [a_job("PENDING")]
    witness.look(everything=True)
    ledger.path.write_text("begin a 1\nend a 1\n")
    shown.jobs = [a_job("SUCCEEDED")]
    witness.look(everything=False)
    witness.look(everything=True)
    assert (kinds(witness), witness.in_flight(), witness.explained) == (set(), [], 1)


def test_a_job_that_is_gone_is_lost(witness: Witness) -> None:
    witness.look(everything=True)
    assert kinds(witness) == {LOST}


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ("begin a 1\n", "SUCCEEDED"),
        ("", "SUCCEEDED"),
        ("begin a 1\nend a 1\n", "FAILED"),
        ("begin a 1\nend a 1\n", "STOPPED"),
    ],
)
def test_a_final_status_that_the_jobs_own_lines_contradict(
    shown: Shown, ledger: Ledger, witness: Witness, lines: str, status: str
) -> None:
    ledger.path.write_text(lines)
    shown.jobs = [a_job(status)]
    witness.look(everything=True)
    assert kinds(witness) == {WRONG}


def test_a_final_status_that_changes(shown: Shown, ledger: Ledger, witness: Witness) -> None:
    ledger.path.write_text("begin a 1\nend a 1\n")
    for status in ("SUCCEEDED", "PENDING"):
        shown.jobs = [a_job(status)]
        witness.look(everything=True)
    assert kinds(witness) == {WRONG}


LOST_WITH_ITS_HEAD = "cluster mac restarted and no longer knows this job; it may …"


def test_a_lost_head_excuses_the_jobs_that_were_there(shown: Shown, witness: Witness) -> None:
    shown.jobs = [a_job("PENDING")]
    witness.head_killed("mac")
    witness.head_replaced("mac")
    shown.jobs = [a_job("FAILED", LOST_WITH_ITS_HEAD)]
    witness.look(everything=True)
    assert (kinds(witness), witness.head_lost) == (set(), {"a"})


def test_a_lost_head_excuses_a_job_that_was_sent_before_there_was_a_new_one(
    shown: Shown, witness: Witness
) -> None:
    shown.jobs = [a_job("PENDING", cluster=None)]
    witness.head_killed("mac")
    shown.jobs = [a_job("PENDING")]
    witness.look(everything=False)
    witness.head_replaced("mac")
    shown.jobs = [a_job("FAILED", LOST_WITH_ITS_HEAD)]
    witness.look(everything=True)
    assert (kinds(witness), witness.head_lost) == (set(), {"a"})


@pytest.mark.parametrize("cluster", [None, "centos"])
def test_a_lost_head_excuses_no_job_that_was_not_there(
    shown: Shown, witness: Witness, cluster: str | None
) -> None:
    shown.jobs = [a_job("PENDING", cluster=cluster)]
    witness.head_killed("mac")
    witness.head_replaced("mac")
    shown.jobs = [a_job("PENDING")]
    witness.look(everything=False)
    shown.jobs = [a_job("FAILED", LOST_WITH_ITS_HEAD)]
    witness.look(everything=True)
    assert kinds(witness) == {WRONG}


def test_no_head_was_killed_and_no_job_has_an_excuse(shown: Shown, witness: Witness) -> None:
    shown.jobs = [a_job("FAILED", LOST_WITH_ITS_HEAD)]
    witness.look(everything=True)
    assert kinds(witness) == {WRONG}


@pytest.mark.parametrize("why", [{"summary": " "}, {"clusters": []}])
def test_a_job_that_waits_without_a_reason(
    shown: Shown, witness: Witness, why: dict[str, Any]
) -> None:
    shown.jobs = [a_job("PENDING")]
    shown.why.update(why)
    witness.look(everything=True)
    assert kinds(witness) == {NO_REASON}


def test_what_runs_twice_is_found_at_the_end(
    shown: Shown, ledger: Ledger, witness: Witness
) -> None:
    ledger.path.write_text("begin a 1\nend a 1\n")
    shown.jobs = [a_job("SUCCEEDED")]
    witness.look(everything=True)
    ledger.path.write_text("begin a 1\nend a 1\nray a-a2\n")
    witness.start()
    witness.close()
    assert kinds(witness) == {TWICE}
