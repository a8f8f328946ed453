//! The console's wire types are generated from the OpenAPI document.

use std::{collections::BTreeSet, env, fs, path::Path};

use serde_json::Value;

use super::World;

const UPDATE: &str = "UPDATE_DOCS=1 cargo test -p multicluster-server typescript";

#[tokio::test]
async fn the_console_has_the_types_of_the_document() {
    let document = World::new().await.get("/v1/openapi.json").await.expect(200);
    let mut types = format!("// Made from the OpenAPI document: {UPDATE}\n");
    let schemas = document["components"]["schemas"].as_object().unwrap();
    // Pages are generic in TypeScript, too.
    for (name, schema) in schemas.iter().filter(|(name, _)| !name.starts_with("Page_")) {
        types += &format!("\nexport type {name} = {};\n", type_of(schema));
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../console/src/api/schema.ts");
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&file, &types).unwrap();
    }
    let stored = fs::read_to_string(&file).unwrap_or_default();
    assert!(stored == types, "run: {UPDATE}");
}

fn type_of(schema: &Value) -> String {
    let list = |key: &str| schema[key].as_array();
    if let Some(name) = schema["$ref"].as_str() {
        return name.rsplit('/').next().unwrap().to_owned();
    }
    if let Some(words) = list("enum") {
        return union(words.iter().map(|word| word.to_string().replace('"', "'")));
    }
    if let Some(parts) = list("oneOf") {
        return union(parts.iter().map(type_of));
    }
    if let Some(parts) = list("allOf") {
        return parts.iter().map(type_of).collect::<Vec<_>>().join(" & ");
    }
    match &schema["type"] {
        Value::Array(kinds) => union(kinds.iter().map(|kind| simple(kind.as_str().unwrap(), schema))),
        kind => simple(kind.as_str().unwrap_or_else(|| panic!("no type: {schema}")), schema),
    }
}

fn simple(kind: &str, schema: &Value) -> String {
    match kind {
        "integer" | "number" => "number".to_owned(),
        "string" | "boolean" | "null" => kind.to_owned(),
        "array" => format!("Array<{}>", type_of(&schema["items"])),
        "object" if schema["properties"].is_object() => fields(schema),
        "object" if schema["additionalProperties"].is_object() => {
            format!("Record<string, {}>", type_of(&schema["additionalProperties"]))
        }
        "object" => "Record<string, unknown>".to_owned(),
        other => panic!("unknown type {other}: {schema}"),
    }
}

fn fields(schema: &Value) -> String {
    let required = schema["required"].as_array();
    let mut lines = String::from("{\n");
    for (name, field) in schema["properties"].as_object().unwrap() {
        let kind = type_of(field);
        if required.is_some_and(|all| all.iter().any(|each| each == name)) {
            lines += &format!("  {name}: {kind};\n");
        } else {
            // Answers leave out missing fields; they never contain null.
            let kind: Vec<_> = kind.split(" | ").filter(|part| *part != "null").collect();
            lines += &format!("  {name}?: {};\n", kind.join(" | "));
        }
    }
    lines + "}"
}

fn union(parts: impl Iterator<Item = String>) -> String {
    let mut seen = BTreeSet::new();
    let parts: Vec<_> = parts.filter(|part| seen.insert(part.clone())).collect();
    parts.join(" | ")
}
