//! A configuration file without secrets, for a support bundle.

use std::collections::BTreeMap;

use multicluster_types::REDACTED;
use serde_json::Value;

use super::{is_secret, redact_text, redact_value};

/// A `cluster.yaml` without secrets: tokens, headers, the arguments of commands that print tokens,
/// and what is hidden of a runtime_env everywhere. Paths of files with secrets are shown.
#[must_use]
pub fn redact_config(file: &Value) -> Value {
    match file {
        Value::Object(entries) => {
            Value::Object(entries.iter().map(|(key, value)| (key.clone(), entry(key, value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(redact_config).collect()),
        Value::String(text) => Value::String(redact_text(text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => file.clone(),
    }
}

fn entry(key: &str, value: &Value) -> Value {
    match (key, value) {
        ("token_file", Value::String(_)) => redact_config(value),
        // The name of the program; an argument may be a secret.
        ("token_command", Value::Array(words)) => {
            let hidden = words.iter().skip(1).map(|_| REDACTED.into());
            Value::Array(words.iter().take(1).cloned().chain(hidden).collect())
        }
        ("headers", Value::Object(headers)) => {
            Value::Object(headers.keys().map(|name| (name.clone(), REDACTED.into())).collect())
        }
        ("runtime_env", _) => redact_value("", value),
        _ if is_secret(key) => REDACTED.into(),
        _ => redact_config(value),
    }
}

/// Environment variables without secrets.
#[must_use]
pub fn redact_variables(variables: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    super::redact_metadata(variables)
}

/// The texts that a redacted copy hides as a whole.
#[must_use]
pub fn hidden_texts(given: &Value, redacted: &Value) -> Vec<String> {
    match (given, redacted) {
        (Value::Object(given), Value::Object(redacted)) => given
            .iter()
            .filter_map(|(key, value)| Some(hidden_texts(value, redacted.get(key)?)))
            .flatten()
            .collect(),
        (Value::Array(given), Value::Array(redacted)) => {
            given.iter().zip(redacted).flat_map(|(value, shown)| hidden_texts(value, shown)).collect()
        }
        (Value::String(text), Value::String(shown)) if shown == REDACTED => vec![text.clone()],
        // A token of digits, written without quotes.
        (Value::Number(number), Value::String(shown)) if shown == REDACTED => vec![number.to_string()],
        _ => Vec::new(),
    }
}
