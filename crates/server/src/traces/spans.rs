//! The history of a job that has ended, as spans in OTLP's JSON.
//!
//! ```text
//! job ───────────────────────────────────────────────▶   accepted to ended
//!  ├ queued ──▶                ├ queued ──▶              until a cluster was chosen
//!  └          attempt ────────▶           attempt ──────▶
//!              ├ dispatched ─▶             ├ dispatched ▶ until it was seen running
//!              └            ran ─▶         └      ran ──▶
//! ```

use multicluster_core::record::{AttemptOutcome, AttemptRecord, JobRecord, Phase};
use multicluster_types::{State, Timestamp};
use serde_json::{Value, json};

use super::context::JobTrace;
use crate::redact::redact_text;

const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
const ERROR: u8 = 2;

/// The spans of one job; none if it has not ended.
pub(super) fn of(trace: &JobTrace, record: &JobRecord, attempts: &[AttemptRecord]) -> Vec<Value> {
    let Phase::Ended(ended) = &record.phase else { return Vec::new() };
    let reason =
        |message: Option<&multicluster_types::Message>| message.map(|text| redact_text(&text.line()));
    let root = trace.span("job", 0);
    let mut job = Span::new(trace, root.clone(), "job", SERVER, record.submitted_at, ended.at);
    job.parent.clone_from(&trace.parent);
    job.set("job.id", record.id.as_str());
    job.set("owner", record.work.owner.as_ref().map(ToString::to_string));
    job.set("cluster", ended.cluster.as_ref().map(ToString::to_string));
    job.set("attempts", record.attempts);
    job.set("state", ended.state.to_string());
    let why = reason(ended.message.as_ref());
    job.set("reason", why.clone());
    job.event("accepted", record.submitted_at);
    if ended.state == State::Failed {
        job.fail(why);
    }
    let mut spans = vec![job.finish()];
    let mut waits_since = record.submitted_at;
    for past in attempts {
        let (number, live) = (past.live.attempt.0, &past.live);
        let span = |name: &'static str, parent: &str, from, to| {
            let mut span = Span::new(trace, trace.span(name, number), name, INTERNAL, from, to);
            span.parent = Some(parent.to_owned());
            span.set("attempt", number);
            span.set("cluster", live.cluster.as_str());
            span
        };
        spans.push(span("queued", &root, waits_since, live.dispatched_at).finish());
        let mut attempt = span("attempt", &root, live.dispatched_at, past.ended_at);
        let id = attempt.id.clone();
        let why = reason(past.message.as_ref());
        attempt.set("outcome", serde_json::to_value(past.outcome).unwrap_or_default());
        attempt.set("reason", why.clone());
        if !matches!(
            past.outcome,
            AttemptOutcome::Succeeded | AttemptOutcome::Stopped | AttemptOutcome::Preempted
        ) {
            attempt.fail(why);
        }
        spans.push(attempt.finish());
        let started = live.running_at();
        spans.push(span("dispatched", &id, live.dispatched_at, started.unwrap_or(past.ended_at)).finish());
        if let Some(started) = started {
            let mut ran = span("ran", &id, started, past.ended_at);
            ran.event("started", started);
            spans.push(ran.finish());
        }
        waits_since = past.ended_at;
    }
    // Stopped, or failed, while it waited.
    if attempts.last().is_none_or(|last| last.ended_at < ended.at) {
        let number = attempts.last().map_or(0, |last| last.live.attempt.0) + 1;
        let id = trace.span("queued", number);
        let mut queued = Span::new(trace, id, "queued", INTERNAL, waits_since, ended.at);
        queued.parent = Some(root);
        spans.push(queued.finish());
    }
    spans
}

/// All that one request sends.
pub(super) fn request(service: &str, plane: &str, spans: &[Value]) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let resource = [("service.name", service), ("service.instance.id", plane), ("service.version", version)];
    let attributes: Vec<_> =
        resource.map(|(key, value)| json!({"key": key, "value": {"stringValue": value}})).into();
    json!({"resourceSpans": [{
        "resource": {"attributes": attributes},
        "scopeSpans": [{"scope": {"name": "ray-multicluster", "version": version}, "spans": spans}],
    }]})
}

struct Span<'a> {
    trace: &'a JobTrace,
    id: String,
    parent: Option<String>,
    name: &'static str,
    kind: u8,
    from: Timestamp,
    to: Timestamp,
    attributes: Vec<Value>,
    events: Vec<Value>,
    status: Value,
}

impl<'a> Span<'a> {
    fn new(
        trace: &'a JobTrace,
        id: String,
        name: &'static str,
        kind: u8,
        from: Timestamp,
        to: Timestamp,
    ) -> Self {
        // A clock that was set back must not make a span of negative length.
        let to = to.max(from);
        let (attributes, events, status) = (Vec::new(), Vec::new(), json!({}));
        Self { trace, id, parent: None, name, kind, from, to, attributes, events, status }
    }

    /// Sets an attribute, unless it is null.
    fn set(&mut self, key: &str, value: impl Into<Value>) {
        let value = match value.into() {
            Value::Null => return,
            Value::String(text) => json!({"stringValue": text}),
            // 64-bit numbers are texts in OTLP's JSON.
            number => json!({"intValue": number.to_string()}),
        };
        self.attributes.push(json!({"key": format!("ray_multicluster.{key}"), "value": value}));
    }

    fn event(&mut self, name: &str, at: Timestamp) {
        self.events.push(json!({"timeUnixNano": nanos(at), "name": name}));
    }

    fn fail(&mut self, why: Option<String>) {
        self.status = json!({"code": ERROR, "message": why.unwrap_or_default()});
    }

    fn finish(self) -> Value {
        let mut span = json!({
            "traceId": self.trace.trace_id,
            "spanId": self.id,
            "name": self.name,
            "kind": self.kind,
            "startTimeUnixNano": nanos(self.from),
            "endTimeUnixNano": nanos(self.to),
            "attributes": self.attributes,
            "events": self.events,
            "status": self.status,
        });
        if let Some(parent) = self.parent {
            span["parentSpanId"] = parent.into();
        }
        span
    }
}

fn nanos(at: Timestamp) -> String {
    (u128::from(at.0) * 1_000_000).to_string()
}
