//! Hints of clients that cannot send metadata: in headers, or among the `env_vars`.
//!
//! `X-Multicluster-Preferred-Cluster: mac` and the variable `multicluster.preferred_cluster` mean
//! what the metadata key `multicluster.preferred_cluster` means. The metadata comes first, then the
//! variables, then the headers.

use axum::http::HeaderMap;
use multicluster_api::JobRequest;
use serde_json::Value;

const PREFIX: &str = "multicluster.";
const HEADER: &str = "x-multicluster-";

/// The hints in these headers, as metadata.
pub(super) fn of_headers(headers: &HeaderMap) -> Result<Vec<(String, String)>, String> {
    let given = headers.iter().filter_map(|(name, value)| Some((name.as_str().strip_prefix(HEADER)?, value)));
    let read = given.map(|(name, value)| match value.to_str() {
        Ok(value) => Ok((format!("{PREFIX}{}", name.replace('-', "_")), value.to_owned())),
        Err(_) => Err(format!("the header {HEADER}{name} is not plain text")),
    });
    read.collect()
}

/// Moves the hints among the job's `env_vars` to its metadata, and adds those of the headers.
pub(super) fn gather(request: &mut JobRequest, headers: Vec<(String, String)>) -> Result<(), String> {
    let mut found = Vec::new();
    if let Some(Value::Object(vars)) = request.runtime_env.get_mut("env_vars") {
        let names: Vec<_> = vars.keys().filter(|name| name.starts_with(PREFIX)).cloned().collect();
        for name in names {
            match vars.remove(&name) {
                Some(Value::String(value)) => found.push((name, value)),
                _ => return Err(format!("TypeError: the variable {name} must be a string")),
            }
        }
    }
    for (name, value) in found.into_iter().chain(headers) {
        request.metadata.entry(name).or_insert(value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use axum::http::HeaderValue;
    use serde_json::json;

    use super::*;

    fn gathered(body: Value, headers: &[(&'static str, &'static str)]) -> JobRequest {
        let mut request: JobRequest = serde_json::from_value(body).unwrap();
        let headers =
            headers.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
        gather(&mut request, of_headers(&headers.collect()).unwrap()).unwrap();
        request
    }

    #[test]
    fn hints_ride_in_headers_and_variables_and_the_metadata_comes_first() {
        let body = json!({
            "entrypoint": "x",
            "metadata": {"multicluster.priority": "5"},
            "runtime_env": {"env_vars": {"multicluster.priority": "4", "multicluster.tags": "linux", "A": "b"}},
        });
        let request = gathered(
            body,
            &[
                ("X-Multicluster-Priority", "3"),
                ("x-multicluster-tags", "macos"),
                ("X-Multicluster-Preferred-Cluster", "mac"),
                ("X-Other", "y"),
            ],
        );
        let hints = [
            ("multicluster.preferred_cluster", "mac"),
            ("multicluster.priority", "5"),
            ("multicluster.tags", "linux"),
        ];
        assert_eq!(request.metadata, BTreeMap::from(hints.map(|(key, value)| (key.into(), value.into()))));
        assert_eq!(request.runtime_env["env_vars"], json!({"A": "b"}), "a hint is not a variable of the job");
    }

    #[test]
    fn what_cannot_be_a_hint_is_an_error() {
        let bytes = HeaderValue::from_bytes(b"\xff").unwrap();
        let headers = HeaderMap::from_iter([("x-multicluster-tags".parse().unwrap(), bytes)]);
        assert!(of_headers(&headers).unwrap_err().contains("x-multicluster-tags"));
        let body = json!({"entrypoint": "x", "runtime_env": {"env_vars": {"multicluster.priority": 4}}});
        let mut request: JobRequest = serde_json::from_value(body).unwrap();
        assert!(gather(&mut request, Vec::new()).unwrap_err().contains("multicluster.priority"));
    }
}
