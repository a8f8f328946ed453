//! `POST /api/jobs/`: the requests of Ray's clients, read as Ray reads them.

use std::collections::BTreeMap;

use axum::{
    Extension, Json,
    extract::{Request, State},
    http::{HeaderName, HeaderValue, StatusCode},
    response::{IntoResponse, Response},
};
use multicluster_api::JobRequest;
use multicluster_core::{Duplicate, Refusal};
use multicluster_types::{Lang, RuntimeEnv};
use serde_json::{Map, Value, json};

use super::{Sorry, hints};
use crate::{
    engine::driver::Failure,
    front::{
        access::Caller,
        http::body,
        plane::Plane,
        submission::{self, Door},
    },
    problem::Problem,
    traces,
};

/// The largest request: a stored job may have 1 MiB.
const MAX_BODY: usize = 4 << 20;

/// Every known key.
const KEYS: [&str; 10] = [
    "entrypoint",
    "submission_id",
    "job_id",
    "runtime_env",
    "metadata",
    "entrypoint_num_cpus",
    "entrypoint_num_gpus",
    "entrypoint_memory",
    "entrypoint_resources",
    "entrypoint_label_selector",
];

/// What we add when we show a job: a caller that submits it again as shown asks for nothing by it.
pub(super) const SHOWN: [&str; 3] = ["multicluster.cluster", "multicluster.state", "multicluster.attempt"];

/// Tells callers that look at it that their job existed already, or what they may not have meant.
const NOTICE: HeaderName = HeaderName::from_static("x-ray-multicluster-notice");

pub(super) async fn submit(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Sorry> {
    let in_headers = hints::of_headers(request.headers()).map_err(Sorry::bad_request)?;
    let traceparent = traces::of_headers(request.headers());
    let body = body::read(request, MAX_BODY).await.map_err(|problem| match problem.status {
        status @ StatusCode::PAYLOAD_TOO_LARGE => {
            Sorry::new(status, format!("Maximum request body size {MAX_BODY} exceeded."))
        }
        _ => problem.into(),
    })?;
    let mut request = parse(&body).map_err(Sorry::bad_request)?;
    drop(body);
    hints::gather(&mut request, in_headers).map_err(Sorry::bad_request)?;
    let given = request.id.clone();
    let unknown = submission::unknown_keys(&request.runtime_env).map(str::to_owned).collect::<Vec<_>>();
    let job = submission::check(request, Door::Ray, &plane, &caller).await?;
    let accepted = match plane.driver.submit(job.traced(traceparent.as_ref())).await {
        Ok(accepted) if accepted.duplicate == Some(Duplicate::SameId) => {
            return Err(exists(given.as_deref()));
        }
        Ok(accepted) => accepted,
        Err(Failure::Refused(Refusal::Conflict { .. } | Refusal::Taken { .. })) => {
            return Err(exists(given.as_deref()));
        }
        Err(failure) => return Err(Problem::from(failure).in_submission().into()),
    };
    // Exactly these keys: another one is a TypeError in the client.
    let answer = Json(json!({ "job_id": accepted.job, "submission_id": accepted.job }));
    let notice = match accepted.duplicate {
        Some(_) => "an identical job is still queued; this is its id".to_owned(),
        None => {
            let told = accepted.notices.iter().map(|told| told.describe(Lang::En));
            let ignored =
                unknown.iter().map(|key| format!("Ray ignores runtime_env.{key}: it knows no such key"));
            told.chain(ignored).collect::<Vec<_>>().join("; ")
        }
    };
    // A header holds ASCII only; tags and names may not be.
    let notice = Some(notice).filter(|notice| !notice.is_empty() && notice.is_ascii());
    let notice = notice.and_then(|notice| HeaderValue::try_from(notice).ok());
    Ok((notice.map(|notice| [(NOTICE, notice)]), answer).into_response())
}

/// Ray's clients do not repeat a request automatically, so an id that exists is an error, as it is
/// in Ray. (The native API accepts the same request again as the same job.)
fn exists(id: Option<&str>) -> Sorry {
    let text = format!(
        "ValueError: Job with submission_id {} already exists. Please use a different submission_id.",
        id.unwrap_or_default()
    );
    Sorry::new(StatusCode::INTERNAL_SERVER_ERROR, text)
}

/// Reads a request; an error says in Ray's words what is wrong.
fn parse(body: &[u8]) -> Result<JobRequest, String> {
    let value: Value =
        serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))?;
    let Value::Object(mut fields) = value else {
        return Err(format!("the body must be a JSON object, got {}", python_type(&value)));
    };
    fields.retain(|_, value| !value.is_null());
    if let Some(unknown) = fields.keys().find(|key| !KEYS.contains(&key.as_str())) {
        let shown: String = unknown.chars().take(60).collect();
        return Err(format!(
            "TypeError: JobSubmitRequest.__init__() got an unexpected keyword argument '{shown}'"
        ));
    }
    let entrypoint = fields.remove("entrypoint").ok_or(
        "TypeError: JobSubmitRequest.__init__() missing 1 required positional argument: 'entrypoint'",
    )?;
    let Value::String(entrypoint) = entrypoint else {
        return Err(wrong("entrypoint must be a string", &entrypoint));
    };
    let submission_id = text(&mut fields, "submission_id")?;
    let job_id = text(&mut fields, "job_id")?;
    let mut metadata = texts(&mut fields, "metadata")?;
    SHOWN.iter().for_each(|key| drop(metadata.remove(*key)));
    Ok(JobRequest {
        id: submission_id.or(job_id),
        entrypoint,
        runtime_env: object(&mut fields, "runtime_env")?,
        metadata,
        entrypoint_num_cpus: number(&mut fields, "entrypoint_num_cpus")?,
        entrypoint_num_gpus: number(&mut fields, "entrypoint_num_gpus")?,
        entrypoint_memory: integer(&mut fields, "entrypoint_memory")?,
        entrypoint_resources: numbers(&mut fields, "entrypoint_resources")?,
        entrypoint_label_selector: texts(&mut fields, "entrypoint_label_selector")?,
        ..JobRequest::default()
    })
}

/// An empty text counts as none, as in Python.
fn text(fields: &mut Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    match fields.remove(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
        Some(other) => Err(wrong(&format!("{key} must be a string if provided"), &other)),
    }
}

fn object(fields: &mut Map<String, Value>, key: &str) -> Result<RuntimeEnv, String> {
    match fields.remove(key) {
        None => Ok(Map::new()),
        Some(Value::Object(object)) => Ok(object),
        Some(other) => Err(wrong(&format!("{key} must be a dict"), &other)),
    }
}

fn texts(fields: &mut Map<String, Value>, key: &str) -> Result<BTreeMap<String, String>, String> {
    let each = object(fields, key)?.into_iter().map(|(name, value)| match value {
        Value::String(text) => Ok((name, text)),
        other => Err(wrong(&format!("{key} values must be strings"), &other)),
    });
    each.collect()
}

fn number(fields: &mut Map<String, Value>, key: &str) -> Result<Option<f64>, String> {
    let Some(value) = fields.remove(key) else { return Ok(None) };
    value.as_f64().map(Some).ok_or_else(|| wrong(&format!("{key} must be a number"), &value))
}

fn integer(fields: &mut Map<String, Value>, key: &str) -> Result<Option<u64>, String> {
    let Some(value) = fields.remove(key) else { return Ok(None) };
    match value.as_u64() {
        Some(number) => Ok(Some(number)),
        None if value.is_i64() => Err(format!("ValueError: {key} must be an integer from 0, got {value}")),
        None => Err(wrong(&format!("{key} must be an integer"), &value)),
    }
}

fn numbers(fields: &mut Map<String, Value>, key: &str) -> Result<BTreeMap<String, f64>, String> {
    let each = object(fields, key)?.into_iter().map(|(name, value)| match value.as_f64() {
        Some(number) => Ok((name, number)),
        None => Err(wrong(&format!("{key} values must be numbers"), &value)),
    });
    each.collect()
}

fn wrong(rule: &str, value: &Value) -> String {
    format!("TypeError: {rule}, got {}", python_type(value))
}

fn python_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<class 'NoneType'>",
        Value::Bool(_) => "<class 'bool'>",
        Value::Number(number) if number.is_f64() => "<class 'float'>",
        Value::Number(_) => "<class 'int'>",
        Value::String(_) => "<class 'str'>",
        Value::Array(_) => "<class 'list'>",
        Value::Object(_) => "<class 'dict'>",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refusal(body: &Value) -> String {
        parse(body.to_string().as_bytes()).unwrap_err()
    }

    #[test]
    fn what_the_stock_client_sends_is_understood() {
        let body = json!({
            "entrypoint": "python x.py", "submission_id": "nightly-1", "job_id": null, "runtime_env": {"pip": ["a"]},
            "metadata": {"team": "quant", "multicluster.state": "failed"}, "entrypoint_num_cpus": 1,
            "entrypoint_num_gpus": 0.5, "entrypoint_memory": 1024, "entrypoint_resources": {"tpu": 2},
            "entrypoint_label_selector": {"zone": "a"},
        });
        let request = parse(body.to_string().as_bytes()).unwrap();
        assert_eq!(request.id.as_deref(), Some("nightly-1"));
        assert_eq!(request.entrypoint_num_cpus, Some(1.0));
        assert_eq!(request.entrypoint_memory, Some(1024));
        assert_eq!(request.entrypoint_resources["tpu"], 2.0);
        assert_eq!(request.metadata.len(), 1, "what we show about a job is not asked for again");
    }

    #[test]
    fn the_deprecated_id_stands_in_for_a_missing_one() {
        let id = |body: Value| parse(body.to_string().as_bytes()).unwrap().id;
        assert_eq!(id(json!({"entrypoint": "x", "job_id": "old"})).as_deref(), Some("old"));
        assert_eq!(
            id(json!({"entrypoint": "x", "job_id": "old", "submission_id": "new"})).as_deref(),
            Some("new")
        );
        assert_eq!(id(json!({"entrypoint": "x", "submission_id": ""})), None);
    }

    #[test]
    fn mistakes_are_told_in_rays_words() {
        for (body, words) in [
            (json!({}), "missing 1 required positional argument: 'entrypoint'"),
            (json!({"entrypoint": null}), "missing 1 required positional argument: 'entrypoint'"),
            (
                json!({"entrypoint": "x", "priority": 1}),
                "__init__() got an unexpected keyword argument 'priority'",
            ),
            (json!({"entrypoint": 1}), "entrypoint must be a string, got <class 'int'>"),
            (json!({"entrypoint": "x", "submission_id": 7}), "submission_id must be a string if provided"),
            (
                json!({"entrypoint": "x", "runtime_env": "pip"}),
                "runtime_env must be a dict, got <class 'str'>",
            ),
            (json!({"entrypoint": "x", "metadata": {"a": 1}}), "metadata values must be strings"),
            (json!({"entrypoint": "x", "entrypoint_num_cpus": "1"}), "entrypoint_num_cpus must be a number"),
            (json!({"entrypoint": "x", "entrypoint_memory": 1.5}), "entrypoint_memory must be an integer"),
            (json!({"entrypoint": "x", "entrypoint_memory": -1}), "must be an integer from 0"),
            (json!({"entrypoint": "x", "entrypoint_resources": {"a": "b"}}), "values must be numbers"),
            (json!(["entrypoint"]), "must be a JSON object, got <class 'list'>"),
        ] {
            assert!(refusal(&body).contains(words), "{body}: {}", refusal(&body));
        }
        assert!(parse(b"{\"entrypoint\": ").unwrap_err().contains("not JSON"));
        assert!(parse(b"\xff").unwrap_err().contains("not JSON"));
    }

    #[test]
    fn a_deep_or_long_body_is_an_error_and_no_crash() {
        assert!(parse("[".repeat(1 << 20).as_bytes()).is_err());
        let long = refusal(&json!({"entrypoint": "x", "k".repeat(1 << 20): 1}));
        assert!(long.len() < 300, "{}", long.len());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&body);
        }
    }
}
