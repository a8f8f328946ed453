//! The OpenAPI document, with the parts that apply to every route: the form and the list of errors,
//! and the values of parameters with certain names.

use std::fmt::Write;

use multicluster_api::codes;
use multicluster_types::{ClusterName, JobId, Owner, ReasonKind, State, Tag};
use serde_json::{Value, json};
use utoipa::openapi::OpenApi;

use super::{history, request::MOST_LISTED};
use crate::front::advice::MOST_DAYS;

/// The document as JSON.
pub(super) fn describe(mut document: OpenApi) -> String {
    env!("CARGO_PKG_VERSION").clone_into(&mut document.info.version);
    document.info.description.get_or_insert_default().push_str(&errors());
    let mut document = json!(document);
    for (place, words) in stable_words() {
        let field = document.pointer_mut(&format!("/components/schemas/{place}"));
        field.expect("a field of the wire types")["enum"] = words.into();
    }
    let paths = document["paths"].as_object_mut().into_iter().flat_map(|paths| paths.values_mut());
    for operation in paths.filter_map(Value::as_object_mut).flat_map(|methods| methods.values_mut()) {
        for statuses in ["4XX", "5XX"] {
            let error = json!({"$ref": "#/components/schemas/ErrorBody"});
            operation["responses"][statuses] = json!({"content": {"application/json": {"schema": error}}});
        }
        // The specification requires a description of each answer.
        let answers = operation["responses"].as_object_mut().into_iter().flat_map(|all| all.values_mut());
        for answer in answers.filter_map(Value::as_object_mut) {
            answer.entry("description").or_insert_with(|| "".into());
        }
        // For an optional body, utoipa adds `null` as an alternative.
        if let Some(body) = operation.pointer_mut("/requestBody/content/application~1json/schema")
            && let Some(real) = body.pointer_mut("/oneOf/0").map(Value::take)
        {
            *body = real;
        }
        let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
        for parameter in parameters.into_iter().flatten() {
            let name = (parameter["in"].as_str(), parameter["name"].as_str());
            if let (Some(place), Some(name)) = name
                && let Some(schema) = values(place, name)
            {
                parameter["schema"] = schema;
            }
            if parameter["in"] == "query" && parameter["schema"]["type"] != "array" {
                parameter["allowEmptyValue"] = true.into();
            }
        }
    }
    document.to_string()
}

/// The table of error codes.
fn errors() -> String {
    let mut about = "\n\nEvery answer that is not a success is an `ErrorBody`.\n\n| code | status | meaning |\n| --- | --- | --- |\n".to_owned();
    for code in codes::ALL {
        let _ = writeln!(about, "| `{}` | {} | {} |", code.word, code.status, code.meaning);
    }
    about
}

/// Fields that are text in the wire types and hold one of these words. Clients in other languages
/// generate their types from these.
fn stable_words() -> [(&'static str, Vec<&'static str>); 9] {
    [
        ("ErrorBody/properties/code", codes::ALL.iter().map(|code| code.word).collect()),
        ("ClusterVerdict/properties/verdict", vec!["chosen", "eligible", "rejected"]),
        ("ClusterVerdict/properties/reason", ReasonKind::ALL.iter().map(|kind| kind.as_str()).collect()),
        ("ReasonText/properties/reason", ReasonKind::ALL.iter().map(|kind| kind.as_str()).collect()),
        (
            "Attempt/properties/outcome",
            vec!["not_started", "succeeded", "failed", "stopped", "preempted", "lost"],
        ),
        ("Health/properties/state", vec!["healthy", "unhealthy", "unauthorized", "never_seen"]),
        ("Breaker/properties/state", vec!["closed", "open", "half_open"]),
        ("Queue/properties/kind", vec!["jobs", "tasks"]),
        ("Version/properties/role", vec!["read", "submit", "admin"]),
    ]
}

/// The possible values of parameters with this name, whatever the route.
fn values(place: &str, name: &str) -> Option<Value> {
    let text = |pattern, most| json!({"type": "string", "pattern": pattern, "maxLength": most});
    let job = || text(JobId::PATTERN, JobId::MAX);
    let number = |least: u64, most: u64| json!({"type": "integer", "minimum": least, "maximum": most});
    let words = |words: &[&str]| json!({"type": "string", "enum": words});
    let many = |one| json!({"type": "array", "items": one});
    Some(match (place, name) {
        ("path", "id") => job(),
        ("path", "name") | ("query", "cluster") => text(ClusterName::PATTERN, ClusterName::MAX),
        ("query", "job") => many(job()),
        ("query", "state") => many(words(&State::ALL.map(State::as_str))),
        ("query", "kind") => words(&["job", "task", "actor"]),
        ("query", "tag") => many(text(Tag::PATTERN, Tag::MAX)),
        ("query", "attempt") => number(0, u64::from(u32::MAX)),
        ("query", "owner") => text(Owner::PATTERN, Owner::MAX),
        ("query", "after" | "since" | "until") => number(0, u64::MAX),
        ("query", "days") => number(1, MOST_DAYS as u64),
        ("query", "limit") => number(1, MOST_LISTED as u64),
        ("query", "minutes") => number(1, history::MOST_MINUTES as u64),
        ("query", "step") => number(60, 86_400),
        ("query", "cursor") => json!({"type": "string", "pattern": "^[0-9]{1,19}$"}),
        ("query", "wait" | "timeout") => {
            json!({"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(ms|s|m|h|d)?$"})
        }
        _ => return None,
    })
}
