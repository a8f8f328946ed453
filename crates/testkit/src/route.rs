//! The endpoint of a request, its fault, and the answer of the dashboard.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::fault::{Endpoint, Fault};
use crate::job::Job;
use crate::request::{Refused, Request as Submit};
use crate::serve::Reset;
use crate::state::State;
use crate::{status, tail, view};

/// Answers a request for `path`, without the prefix of the fleet.
pub(crate) async fn answer(cluster: &Arc<Cluster>, path: &str, request: Request) -> Result<Response, Reset> {
    if cluster.is_down() {
        return Err(Reset);
    }
    let (endpoint, id) = classify(request.method(), path);
    let fault = cluster.arrive(endpoint);
    tokio::select! {
        answer = answer_or_fail(cluster, endpoint, &id, request, fault) => answer,
        () = cluster.cut() => Err(Reset),
    }
}

async fn answer_or_fail(
    cluster: &Arc<Cluster>,
    endpoint: Endpoint,
    id: &str,
    request: Request,
    fault: Option<Fault>,
) -> Result<Response, Reset> {
    match &fault {
        Some(Fault::ResetBefore) => return Err(Reset),
        Some(Fault::Hang) => return hang().await,
        Some(Fault::Slow(delay)) => tokio::time::sleep(*delay).await,
        Some(Fault::Status(status, body)) => return Ok(custom(*status, body)),
        Some(Fault::NoAgent) => return Ok(text(StatusCode::INTERNAL_SERVER_ERROR, NO_AGENT)),
        _ => {}
    }
    let done = act(cluster, endpoint, id, request, fault.as_ref()).await;
    match fault {
        Some(Fault::ResetAfter) => Err(Reset),
        Some(Fault::HangAfter) => hang().await,
        Some(Fault::StatusAfter(status, body)) => Ok(custom(status, &body)),
        Some(Fault::Garbage) => Ok(reply(StatusCode::OK, JSON, "<!doctype html>\u{0}{\"job_id\": tru")),
        Some(Fault::Truncated) => Ok(truncated(done).await),
        Some(Fault::Huge(size)) => Ok(huge(size)),
        _ => Ok(done),
    }
}

const NO_AGENT: &str = "No available agent to submit job, please try again later.";

fn classify(method: &Method, path: &str) -> (Endpoint, String) {
    let endpoint = match (method.as_str(), path) {
        ("GET" | "HEAD", "/api/version") => Endpoint::Version,
        ("GET", "/api/v0/cluster_metadata") => Endpoint::Metadata,
        ("GET", "/api/v0/nodes") => Endpoint::Nodes,
        ("GET", "/nodes") => Endpoint::Summary,
        ("GET", "/api/cluster_status") => Endpoint::ClusterStatus,
        ("GET", "/api/v0/logs/file") => Endpoint::LogFile,
        ("GET", "/api/authentication_mode" | "/api/gcs_healthz") => Endpoint::Open,
        ("POST", "/api/jobs/") => Endpoint::Submit,
        ("GET", "/api/jobs/") => Endpoint::List,
        _ => Endpoint::Other,
    };
    if endpoint != Endpoint::Other {
        return (endpoint, String::new());
    }
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let (endpoint, id) = match (method.as_str(), segments.as_slice()) {
        ("GET", ["api", "jobs", id]) => (Endpoint::Job, id),
        ("DELETE", ["api", "jobs", id]) => (Endpoint::Delete, id),
        ("POST", ["api", "jobs", id, "stop"]) => (Endpoint::Stop, id),
        ("GET", ["api", "jobs", id, "logs"]) => (Endpoint::Logs, id),
        ("GET", ["api", "jobs", id, "logs", "tail"]) => (Endpoint::Tail, id),
        ("GET", ["api", "packages", "gcs", name]) => (Endpoint::PackageCheck, name),
        ("PUT", ["api", "packages", "gcs", name]) => (Endpoint::PackagePut, name),
        _ => return (Endpoint::Other, String::new()),
    };
    // `/api/jobs//stop` has no id.
    if id.is_empty() { (Endpoint::Other, String::new()) } else { (endpoint, decode(id)) }
}

/// Carries out the request.
async fn act(
    cluster: &Arc<Cluster>,
    endpoint: Endpoint,
    id: &str,
    request: Request,
    fault: Option<&Fault>,
) -> Response {
    let browser = from_browser(request.headers());
    if endpoint != Endpoint::Open
        && let Some(refusal) = refuse_stranger(cluster, request.headers())
    {
        return refusal;
    }
    let safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if browser && !safe {
        let words = format!("'{}' method not allowed for browser traffic.", request.method());
        return text(StatusCode::METHOD_NOT_ALLOWED, words);
    }
    let query = request.uri().query().unwrap_or_default().to_owned();
    if endpoint == Endpoint::Tail {
        return tail::open(cluster, id, request, fault).await;
    }
    let path = request.uri().path().to_owned();
    let rate = if let Some(Fault::Throttle(rate)) = fault { Some(*rate) } else { None };
    let body = match read(request.into_body(), cluster.max_body, rate).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let (now, mut state) = cluster.now();
    let state = &mut *state;
    match endpoint {
        Endpoint::Version => ok(&view::version(state)),
        Endpoint::Metadata => ok(&view::metadata(state)),
        Endpoint::Nodes => ok(&view::nodes(state)),
        Endpoint::Summary => ok(&view::summary(state, now)),
        Endpoint::ClusterStatus => {
            ok(&status::cluster_status(state, now, parameter(&query, "format").as_deref() == Some("1")))
        }
        Endpoint::Submit => submit(state, now, &body),
        Endpoint::List => {
            let jobs = state.jobs.iter().map(|(id, job)| shown(state, now, id, job, browser));
            let drivers = state.drivers.iter().map(|(driver, entrypoint, at)| {
                json!({
                    "type": "DRIVER", "job_id": driver.id, "submission_id": null, "driver_info": driver.details(),
                    "status": "RUNNING", "entrypoint": entrypoint, "message": null, "error_type": null,
                    "start_time": at, "end_time": 0, "metadata": {}, "runtime_env": {},
                    "driver_agent_http_address": null, "driver_node_id": null, "driver_exit_code": null,
                })
            });
            ok(&jobs.chain(drivers).collect())
        }
        Endpoint::PackageCheck if state.pin(now, id) => empty(),
        Endpoint::PackageCheck => text(StatusCode::NOT_FOUND, format!("Package gcs://{id} does not exist")),
        Endpoint::PackagePut => {
            state.packages.insert(id.to_owned(), body);
            empty()
        }
        Endpoint::LogFile => log_file(state, now, &query),
        Endpoint::Open if path.ends_with("healthz") => {
            reply(StatusCode::OK, "application/text; charset=utf-8", "success")
        }
        Endpoint::Open => {
            ok(&json!({"authentication_mode": if cluster.token().is_some() { "token" } else { "disabled" }}))
        }
        Endpoint::Job | Endpoint::Stop | Endpoint::Delete | Endpoint::Logs => {
            job(state, now, endpoint, id, browser)
        }
        Endpoint::Any | Endpoint::Tail | Endpoint::Other if path.ends_with("/api/jobs/") => {
            text(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed")
        }
        Endpoint::Any | Endpoint::Tail | Endpoint::Other => not_found(),
    }
}

fn submit(state: &mut State, now: tokio::time::Instant, body: &Bytes) -> Response {
    let Ok(json) = serde_json::from_slice::<Value>(body) else { return in_trouble() };
    let request = match Submit::parse(&json, &state.options.unknown_fields) {
        Ok(request) => request,
        Err(Refused::NotAnObject) => return in_trouble(),
        Err(Refused::TypeError(words)) => {
            return text(StatusCode::BAD_REQUEST, format!("{TRACEBACK}TypeError: {words}\n"));
        }
    };
    match state.submit(now, request, json) {
        // Ray creates the record, but cannot create its log: a job that is PENDING forever, behind a 500.
        Ok(id) if id.contains('/') => in_trouble(),
        Ok(id) => ok(&json!({"job_id": id, "submission_id": id})),
        Err(id) => agent_trouble(
            400,
            &format!(
                "ValueError: Job with submission_id {id} already exists. Please use a different submission_id."
            ),
        ),
    }
}

fn job(
    state: &mut State,
    now: tokio::time::Instant,
    endpoint: Endpoint,
    id: &str,
    browser: bool,
) -> Response {
    // A job has two names: its submission id, and its driver's id.
    let named = |(_, job): &(&String, &Job)| job.driver.as_ref().is_some_and(|driver| driver.id == id);
    let found = if state.jobs.contains_key(id) { Some(id) } else { None };
    let by_driver = || state.jobs.iter().find(named).map(|(id, _)| id.as_str());
    let Some(id) = found.or_else(by_driver).map(str::to_owned) else {
        return text(StatusCode::NOT_FOUND, format!("Job {id} does not exist"));
    };
    match endpoint {
        Endpoint::Stop => ok(&json!({"stopped": state.stop(now, &id)})),
        Endpoint::Delete => match state.delete(now, &id) {
            Ok(()) => ok(&json!({"deleted": true})),
            Err(status) => {
                let status = status.as_str();
                let words =
                    format!("Attempted to delete job '{id}', but it is in a non-terminal state {status}.");
                agent_trouble(500, &format!("RuntimeError: {words}"))
            }
        },
        Endpoint::Logs => ok(&json!({"logs": state.log(now, &id)})),
        _ => ok(&shown(state, now, &id, &state.jobs[&id], browser)),
    }
}

fn shown(state: &State, now: tokio::time::Instant, id: &str, job: &Job, browser: bool) -> Value {
    let mut details = job.details(id, || state.log(now, id));
    if browser && let Some(Value::Object(vars)) = details.pointer_mut("/runtime_env/env_vars") {
        vars.values_mut().for_each(|value| *value = "<redacted>".into());
    }
    details
}

fn log_file(state: &State, now: tokio::time::Instant, query: &str) -> Response {
    let node = parameter(query, "node_id").unwrap_or_default();
    if !state.nodes.iter().any(|known| known.id == node) {
        return text(StatusCode::INTERNAL_SERVER_ERROR, format!("Agent for node id: {node} doesn't exist."));
    }
    let file = parameter(query, "filename").unwrap_or_default();
    let id = file.strip_prefix("job-driver-").and_then(|name| name.strip_suffix(".log"));
    let Some(id) = id.filter(|id| state.jobs.contains_key(*id)) else {
        let session = &state.session_name;
        let words = format!("A file is not found at: /tmp/ray/{session}/logs/{file}");
        return text(StatusCode::INTERNAL_SERVER_ERROR, words);
    };
    let log = state.log(now, id);
    let lines: Vec<&str> = log.split_inclusive('\n').collect();
    let wanted = parameter(query, "lines").and_then(|lines| lines.parse().ok()).unwrap_or(1000_i64);
    let skipped = usize::try_from(wanted).map_or(0, |wanted| lines.len().saturating_sub(wanted));
    reply(StatusCode::OK, "text/plain", lines[skipped..].concat())
}

fn refuse_stranger(cluster: &Cluster, headers: &HeaderMap) -> Option<Response> {
    let token = cluster.token().clone()?;
    let read = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let cookie = || {
        let cookies = read("cookie")?;
        let value =
            cookies.split(';').find_map(|pair| pair.trim().strip_prefix("ray-authentication-token="))?;
        Some(format!("Bearer {value}"))
    };
    match read("authorization").or_else(|| read("x-ray-authorization")).or_else(cookie) {
        None => Some(text(StatusCode::UNAUTHORIZED, "Unauthorized: Missing authentication token")),
        // Exactly this spelling: Ray refuses `bearer`.
        Some(given) if given.strip_prefix("Bearer ") == Some(&*token) => None,
        Some(_) => Some(text(StatusCode::FORBIDDEN, "Forbidden: Invalid authentication token")),
    }
}

fn from_browser(headers: &HeaderMap) -> bool {
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    agent.contains("Mozilla")
        || headers.keys().any(|name| {
            *name == header::ORIGIN || *name == header::REFERER || name.as_str().starts_with("sec-fetch-")
        })
}

/// Reads a body. A body that is too large is also read to its end, so that the sender gets the refusal.
async fn read(body: Body, limit: usize, bytes_a_second: Option<u64>) -> Result<Bytes, Response> {
    let mut chunks = body.into_data_stream();
    let (mut kept, mut size) = (Vec::new(), 0);
    while let Some(chunk) = chunks.next().await {
        // The sender is gone, so the answer reaches no one.
        let Ok(chunk) = chunk else { return Err(in_trouble()) };
        size += chunk.len();
        if let Some(rate) = bytes_a_second {
            tokio::time::sleep(Duration::from_micros(chunk.len() as u64 * 1_000_000 / rate)).await;
        }
        if size <= limit {
            kept.extend_from_slice(&chunk);
        } else {
            kept = Vec::new();
        }
    }
    if size > limit {
        let words = format!("Maximum request body size {limit} exceeded.");
        return Err(text(StatusCode::PAYLOAD_TOO_LARGE, words));
    }
    Ok(kept.into())
}

fn parameter(query: &str, name: &str) -> Option<String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| decode(value))
}

fn decode(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, tail @ ..] = rest {
        let hex = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

// Answers.

const JSON: &str = "application/json; charset=utf-8";
const TRACEBACK: &str =
    "Traceback (most recent call last):\n  File \"ray/dashboard/modules/job/job_head.py\"\n";

fn reply(status: StatusCode, kind: &str, body: impl Into<Body>) -> Response {
    let response = Response::builder().status(status).header(header::CONTENT_TYPE, kind);
    response.body(body.into()).expect("a valid response")
}

fn ok(value: &Value) -> Response {
    reply(StatusCode::OK, JSON, value.to_string())
}

fn empty() -> Response {
    Response::new(Body::empty())
}

pub(crate) fn text(status: StatusCode, words: impl Into<Body>) -> Response {
    reply(status, "text/plain; charset=utf-8", words)
}

pub(crate) fn not_found() -> Response {
    text(StatusCode::NOT_FOUND, "404: Not Found")
}

fn in_trouble() -> Response {
    text(StatusCode::INTERNAL_SERVER_ERROR, "500 Internal Server Error\n\nServer got itself in trouble")
}

/// The agent's refusal, wrapped in that of the head: always a 500, whatever the agent answered.
fn agent_trouble(inner: u16, last_line: &str) -> Response {
    let words = format!(
        "{TRACEBACK}RuntimeError: Request failed with status code {inner}: {TRACEBACK}{last_line}\n.\n"
    );
    text(StatusCode::INTERNAL_SERVER_ERROR, words)
}

// Faulty answers.

async fn hang() -> Result<Response, Reset> {
    std::future::pending().await
}

fn custom(status: u16, body: &str) -> Response {
    let status = StatusCode::from_u16(status).expect("a test asks for a valid status");
    let kind = if body.starts_with(['{', '[']) { JSON } else { "text/plain; charset=utf-8" };
    reply(status, kind, body.to_owned())
}

/// Announces the whole answer, sends half, and breaks off.
async fn truncated(whole: Response) -> Response {
    let (mut parts, body) = whole.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    let announced = body.len().max(64);
    parts.headers.insert(header::CONTENT_LENGTH, announced.into());
    let half = body.slice(..body.len() / 2);
    let chunks = stream::iter([Ok(half)]).chain(stream::once(async {
        // Waits until the first half is on the wire.
        tokio::time::sleep(Duration::from_millis(20)).await;
        Err(std::io::Error::other("truncated on purpose"))
    }));
    Response::from_parts(parts, Body::from_stream(chunks))
}

fn huge(size: u64) -> Response {
    const CHUNK: usize = 64 * 1024;
    let chunk = Bytes::from(vec![b'a'; CHUNK]);
    let middle = stream::iter(0..size.div_ceil(CHUNK as u64)).map(move |_| chunk.clone());
    let quote = || stream::iter([Bytes::from_static(b"\"")]);
    let chunks = quote().chain(middle).chain(quote()).map(Ok::<_, std::io::Error>);
    reply(StatusCode::OK, JSON, Body::from_stream(chunks))
}
