"""Jobs as a program submits them: the requests, and their repetition."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import Any

import pytest

from ray_multicluster_scheduler import cluster_context, errors
from ray_multicluster_scheduler._jobs.info import JobInfo, native_states
from ray_multicluster_scheduler._jobs.jobs import Jobs
from support.fake_plane import FakePlane


def sent(fake: FakePlane) -> dict[str, Any]:
    """The content of the latest submission."""
    bodies = [body for verb, path, body in fake.requests if (verb, path) == ("POST", "/v1/jobs")]
    body = json.loads(bodies[-1])
    # Every job brings the SDK: tests/sdk/test_own_package.py.
    assert body.pop("sdk").startswith("gcs://_ray_pkg_")
    return body


def test_a_job_is_sent_with_what_was_said_and_nothing_else(
    fake: FakePlane, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    job = jobs.submit("python x.py")
    assert sent(fake) == {"entrypoint": "python x.py", "home": "/home/me"}
    assert jobs.submitted == [job]
    given = jobs.submit(
        "python x.py",
        submission_id="mine",
        metadata={"run": 7, "share": 0.5, "dry": True, "who": "me"},
        runtime_env={"env_vars": {"A": "1"}},
        preferred_cluster="mac",
        required=True,
        resource_requirements={"CPU": 16, "memory": "32GiB"},
        driver_resources={"CPU": 0, "memory": "1GiB", "disk": 1},
        os="linux",
        arch="x86_64",
        tags=["linux", "fund"],
        priority=3,
        max_retries=2,
        retry_on=(3, -9),
        never_retry_on=[2],
        preemptible=True,
        stop_grace="10m",
        on_cluster_loss="requeue",
    )
    assert given == "mine"
    assert sent(fake) == {
        "id": "mine",
        "entrypoint": "python x.py",
        "metadata": {"run": "7", "share": "0.5", "dry": "True", "who": "me"},
        "runtime_env": {"env_vars": {"A": "1"}},
        "preferred_cluster": "mac",
        "required": True,
        "needs": {"CPU": 16, "memory": 32 << 30},
        "os": "linux",
        "arch": "x86_64",
        "entrypoint_num_cpus": 0,
        "entrypoint_memory": 1 << 30,
        "entrypoint_resources": {"disk": 1},
        "tags": ["linux", "fund"],
        "priority": 3,
        "max_retries": 2,
        "retry_on": [3, -9],
        "never_retry_on": [2],
        "preemptible": True,
        "stop_grace": "10m",
        "on_cluster_loss": "requeue",
        "home": "/home/me",
    }


def test_from_inside_a_job_the_parent_is_named(
    fake: FakePlane, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_MULTICLUSTER_JOB_ID", "outer")
    monkeypatch.setenv("RAY_MULTICLUSTER_CURRENT_CLUSTER", "centos")
    jobs.submit("true")
    assert (sent(fake)["parent_job"], sent(fake)["parent_cluster"]) == ("outer", "centos")
    assert sent(fake).get("preferred_cluster", "centos") == "centos", "it stays there"
    with cluster_context("mac"):
        jobs.submit("true")
        assert sent(fake)["preferred_cluster"] == "mac"
        jobs.submit("true", preferred_cluster="gpu")
        assert sent(fake)["preferred_cluster"] == "gpu"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ({"entrypoint": None}, "the entrypoint is None"),
        ({"entrypoint": 3}, "the entrypoint is 3"),
        ({"entrypoint": "  "}, "the entrypoint is empty"),
        ({"entrypoint": ["python", "x.py"]}, "the entrypoint is .'python', 'x.py'."),
        ({"entrypoint": "x", "metadata": {"a": ["b"]}}, r"metadata 'a' is \['b'\]"),
        ({"entrypoint": "x", "metadata": {1: "b"}}, "metadata 1 is 'b'"),
        ({"entrypoint": "x", "metadata": "b"}, "metadata is 'b'"),
        ({"entrypoint": "x", "submission_id": 7}, "submission_id is 7"),
        ({"entrypoint": "x", "resource_requirements": {"memory": 16}}, "memory"),
        ({"entrypoint": "x", "retry_on": "3,4"}, "retry_on is '3,4'"),
        ({"entrypoint": "x", "retry_on": 3}, "retry_on is 3"),
        ({"entrypoint": "x", "never_retry_on": [2, "3"]}, r"never_retry_on is \[2, '3'\]"),
        ({"entrypoint": "x", "never_retry_on": [True]}, r"never_retry_on is \[True\]"),
        ({"entrypoint": "x", "preemptible": "yes"}, "preemptible is 'yes'"),
        ({"entrypoint": "x", "stop_grace": True}, "stop_grace is True"),
        ({"entrypoint": "x", "stop_grace": [10]}, r"stop_grace is \[10\]"),
        ({"entrypoint": "x", "stop_grace": float("nan")}, "stop_grace is nan"),
    ],
)
def test_what_cannot_be_meant_is_not_sent(
    call: dict[str, Any], said: str, fake: FakePlane, jobs: Jobs
) -> None:
    with pytest.raises(errors.ConfigurationError, match=said) as refused:
        jobs.submit(**call)
    assert refused.value.hint
    assert not fake.requests


@pytest.mark.parametrize(
    ("given", "written"), [("90s", "90s"), (90, 90), (0.5, 0.5), (timedelta(minutes=10), 600.0)]
)
def test_a_grace_is_a_text_or_seconds(
    given: Any, written: Any, fake: FakePlane, jobs: Jobs
) -> None:
    jobs.submit("true", stop_grace=given)
    assert sent(fake)["stop_grace"] == written
    assert "preemptible" not in sent(fake)


def test_a_lost_answer_is_asked_for_again_and_it_is_one_job(fake: FakePlane, jobs: Jobs) -> None:
    fake.lose_answers = 2
    assert jobs.submit("true", submission_id="mine") == "mine"
    assert list(fake.jobs) == ["mine"]
    assert len(fake.asked("POST", "/v1/jobs")) == 3
    assert jobs.submitted == ["mine"], "it is this program's"


def test_without_an_id_a_lost_answer_is_an_error_that_says_so(fake: FakePlane, jobs: Jobs) -> None:
    fake.lose_answers = 1
    with pytest.raises(errors.ControlPlaneError, match="may not have been accepted") as raised:
        jobs.submit("true")
    assert "submission_id" in str(raised.value)
    assert len(fake.asked("POST", "/v1/jobs")) == 1, "a second one might run twice"


def test_who_submits_too_fast_is_made_to_wait_as_long_as_it_is_told(
    fake: FakePlane, jobs: Jobs
) -> None:
    fake.refuse = [(429, "rate_limited", "1"), (503, "overloaded", "1")]
    began = time.monotonic()
    # Nothing was accepted, so it is not sent twice, and needs no id of its own.
    jobs.submit("true")
    assert time.monotonic() - began >= 2
    assert len(fake.asked("POST", "/v1/jobs")) == 3
    assert len(fake.jobs) == 1


def test_nobody_waits_for_ever_nor_for_a_full_queue(fake: FakePlane, jobs: Jobs) -> None:
    began = time.monotonic()
    fake.refuse = [(429, "rate_limited", "3600")]
    with pytest.raises(errors.RateLimitedError):
        jobs.submit("true")
    fake.refuse = [(429, "queue_full", "1")]
    with pytest.raises(errors.QueueFullError):
        jobs.submit("true")
    assert time.monotonic() - began < 10
    assert len(fake.asked("POST", "/v1/jobs")) == 2


def test_a_job_that_was_there_before_is_not_this_programs(fake: FakePlane, jobs: Jobs) -> None:
    fake.add("mine", "running", cluster="mac")
    assert jobs.submit("true", submission_id="mine") == "mine"
    assert jobs.submitted == []


def test_what_has_ended_is_forgotten(fake: FakePlane, jobs: Jobs) -> None:
    ended = jobs.submit("true", submission_id="ended")
    stopped = jobs.submit("true", submission_id="stopped")
    fake.change(ended, "succeeded")
    assert jobs.status(ended) == "SUCCEEDED"
    assert jobs.submitted == [stopped]
    assert jobs.stop(stopped) is True
    assert jobs.stop(stopped) is False, "it had ended"
    assert jobs.submitted == []
    with pytest.raises(errors.UnknownJobError):
        jobs.stop("nope")


def test_states_in_rays_words() -> None:
    told = {"id": "a", "ray_status": "?", "submitted_at": 0}
    words = {
        state: JobInfo.of({**told, "state": state}).status
        for state in ("queued", "dispatching", "pending", "running", "unknown", "stopped")
    }
    assert words == {
        "queued": "PENDING",
        "dispatching": "PENDING",
        "pending": "PENDING",
        "running": "RUNNING",
        "unknown": "RUNNING",
        "stopped": "STOPPED",
    }
    assert native_states("PENDING") == ["queued", "dispatching", "pending"]
    assert native_states(["queued", "RUNNING"]) == ["queued", "running", "unknown"]
    with pytest.raises(errors.ConfigurationError, match="'gone' is not a job state"):
        native_states("gone")


def log(attempt: int, start: int, text: str) -> tuple[str, dict[str, Any]]:
    return "log", {"attempt": attempt, "cluster": "mac", "from": start, "text": text}


def test_a_followed_log_comes_once_over_broken_connections(fake: FakePlane, jobs: Jobs) -> None:
    fake.add("a", "running")
    note = ("note", {"text": "[attempt 2]\n"})
    fake.log_events = [
        [log(1, 0, "one\n"), log(1, 4, "zwei ü\n")],
        # From the beginning, in other pieces, and further.
        [log(1, 0, "one\nzwei"), log(1, 8, " ü\nthree\n"), note, log(2, 0, "again\n")],
        [log(2, 0, "again\n"), log(2, 6, "end\n"), ("end", {})],
    ]
    text = "".join(jobs.tail("a"))
    assert text == "one\nzwei ü\nthree\n[attempt 2]\nagain\nend\n"


def test_an_unknown_jobs_log_cannot_be_followed(jobs: Jobs) -> None:
    with pytest.raises(errors.UnknownJobError):
        list(jobs.tail("nope"))
    with pytest.raises(errors.UnknownJobError):
        jobs.logs("nope")
