use std::collections::BTreeSet;

use axum::body::Body;
use serde_json::Value;

use super::{World, request};

/// Every `$ref` of the document.
fn refs<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str));
            fields.values().for_each(|field| refs(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| refs(item, found)),
        _ => {}
    }
}

#[tokio::test]
async fn the_document_is_whole_and_every_route_of_it_is_there() {
    let world = World::new().await;
    let document = world.get("/v1/openapi.json").await.expect(200);
    assert!(document["openapi"].as_str().unwrap().starts_with("3."));
    let mut named = BTreeSet::new();
    refs(&document, &mut named);
    assert!(!named.is_empty());
    for name in named {
        let pointer = name.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{name} is not in the document");
    }
    let mut operations = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(operations.insert(id), "{id} twice");
            assert!(operation["summary"].is_string(), "{id} has no summary");
            assert!(operation["responses"]["4XX"].is_object(), "{id} does not say how it refuses");
            let shown = operation["parameters"].as_array().into_iter().flatten();
            let in_path = shown.filter(|parameter| parameter["in"] == "path").count();
            assert_eq!(in_path, path.matches('{').count(), "{id}");

            let real = path.replace("{id}", "none").replace("{name}", "none").replace("{attempt}", "1");
            if path == "/v1/events" {
                continue;
            }
            let answer = world.raw(request(&method.to_uppercase(), &real, Body::empty())).await;
            assert_ne!(answer.json["code"], "not_found", "{method} {path}");
            assert_ne!(answer.json["code"], "method_not_allowed", "{method} {path}");
        }
    }
    assert!(operations.len() > 30, "{operations:?}");
    let about = document["info"]["description"].as_str().unwrap();
    assert!(about.contains("| `queue_full` | 429 |"), "{about}");
}
