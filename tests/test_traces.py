"""Traces of jobs are what OpenTelemetry's own definition of OTLP says."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from support.collector import Collector
from support.plane import lonely
from support.waiting import wait_until

GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


def parsed(sent: dict[str, Any]) -> ExportTraceServiceRequest:
    """Unknown fields are errors. OTLP writes ids in hex where protobuf's JSON has base64."""

    def in_base64(value: Any) -> Any:
        if isinstance(value, list):
            return [in_base64(one) for one in value]
        if not isinstance(value, dict):
            return value
        ids = {"traceId", "spanId", "parentSpanId"}
        return {
            key: base64.b64encode(bytes.fromhex(inner)).decode() if key in ids else in_base64(inner)
            for key, inner in value.items()
        }

    return json_format.ParseDict(in_base64(sent), ExportTraceServiceRequest())


def test_opentelemetry_reads_the_trace_of_a_job(tmp_path: Path, collector: Collector) -> None:
    env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.address,
        "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20key",
        "OTEL_SERVICE_NAME": "pool",
    }
    plane = lonely(tmp_path, env).start()
    try:
        job = {"id": "waits", "entrypoint": "true"}
        plane.post("/v1/jobs", job, headers={"traceparent": GIVEN})
        plane.post("/v1/jobs/waits/stop")
        path, key, sent = collector.received.get(timeout=20)
        counted = 'multicluster_traces_total{outcome="sent"} 1'
        wait_until(lambda: counted in plane.request("GET", "/metrics").text, "a trace was counted")
    finally:
        plane.close()
    assert (path, key) == ("/v1/traces", "a key")
    (resource,) = parsed(sent).resource_spans
    named = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert named["service.name"] == "pool"
    root, queued = resource.scope_spans[0].spans
    assert root.trace_id.hex() == queued.trace_id.hex() == GIVEN[3:35]
    assert (root.parent_span_id.hex(), queued.parent_span_id) == (GIVEN[36:52], root.span_id)
    assert (root.name, root.kind, queued.name) == ("job", Span.SPAN_KIND_SERVER, "queued")
    assert 0 < root.start_time_unix_nano <= root.end_time_unix_nano
    values = {one.key: one.value for one in root.attributes}
    assert values["ray_multicluster.state"].string_value == "stopped"
    assert values["ray_multicluster.attempts"].HasField("int_value")
    assert [event.name for event in root.events] == ["accepted"]
