"""The trace of a job continues that of the program that submits it."""

from __future__ import annotations

import pytest
from opentelemetry import trace

from ray_multicluster_scheduler._jobs.jobs import Jobs
from support.fake_plane import FakePlane

STARTED_BY = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_a_job_continues_the_current_span_or_that_which_started_the_program(
    fake: FakePlane, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRACEPARENT", raising=False)
    jobs.submit("true", submission_id="none")
    monkeypatch.setenv("TRACEPARENT", STARTED_BY)
    jobs.submit("true", submission_id="started")
    context = trace.SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=trace.TraceFlags(1))
    with trace.use_span(trace.NonRecordingSpan(context)):
        jobs.submit("true", submission_id="current")
    monkeypatch.setenv("TRACEPARENT", "no\r\nsuch: span")
    jobs.submit("true", submission_id="broken")
    assert fake.traceparents == {
        "none": None,
        "started": STARTED_BY,
        "current": f"00-{0xABC:032x}-{0xDEF:016x}-01",
        "broken": None,
    }
