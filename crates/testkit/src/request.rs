//! The submit request: Ray's checks, in Ray's order, with Ray's texts.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::node::Amounts;

/// A submit request that passed the checks.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) entrypoint: String,
    /// `submission_id`, or else the deprecated `job_id`.
    pub(crate) id: Option<String>,
    pub(crate) runtime_env: Option<Map<String, Value>>,
    pub(crate) metadata: Option<Map<String, Value>>,
    /// `None`: there is no demand, and the job is pinned to the head node.
    pub(crate) demand: Option<Amounts>,
    pub(crate) labels: BTreeMap<String, String>,
    /// `CPU`, `GPU` or `memory` among the custom resources, which is not allowed.
    pub(crate) misplaced: Option<String>,
}

/// Why the request is refused.
#[derive(Debug, PartialEq)]
pub(crate) enum Refused {
    /// 500: not a JSON object.
    NotAnObject,
    /// 400, with this as the last line of the traceback.
    TypeError(String),
}

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

impl Request {
    /// `unknown`: fields that later versions of Ray know.
    pub(crate) fn parse(json: &Value, unknown: &[String]) -> Result<Self, Refused> {
        let Value::Object(given) = json else { return Err(Refused::NotAnObject) };
        let given: BTreeMap<&str, &Value> = given
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.as_str(), value))
            .collect();
        let is_unknown = |key: &&&str| !KEYS.contains(key) || unknown.iter().any(|name| name == **key);
        if let Some(key) = given.keys().find(is_unknown) {
            return refuse(format!("JobSubmitRequest.__init__() got an unexpected keyword argument '{key}'"));
        }
        let Some(entrypoint) = given.get("entrypoint") else {
            let text = "JobSubmitRequest.__init__() missing 1 required positional argument: 'entrypoint'";
            return refuse(text.into());
        };
        let Some(entrypoint) = entrypoint.as_str() else {
            return refuse(format!("entrypoint must be a string, got {}", class(entrypoint)));
        };
        let submission_id = text(&given, "submission_id")?;
        let job_id = text(&given, "job_id")?;
        let runtime_env = dict(&given, "runtime_env")?;
        let metadata = dict(&given, "metadata")?;
        strings(metadata, "metadata")?;
        let cpus = number(&given, "entrypoint_num_cpus")?;
        let gpus = number(&given, "entrypoint_num_gpus")?;
        let memory = given.get("entrypoint_memory").copied();
        if let Some(value) = memory.filter(|value| !value.is_i64() && !value.is_u64()) {
            return refuse(format!("entrypoint_memory must be an integer, got {}", class(value)));
        }
        let memory = memory.and_then(Value::as_f64);
        let resources = dict(&given, "entrypoint_resources")?;
        if let Some(value) = resources.into_iter().flat_map(Map::values).find(|value| !value.is_number()) {
            return refuse(format!("entrypoint_resources values must be numbers, got {}", class(value)));
        }
        let labels = dict(&given, "entrypoint_label_selector")?;
        strings(labels, "entrypoint_label_selector")?;

        let mut demand = Amounts::new();
        // From 10^15 bytes on Ray's arithmetic overflows, and the job runs anywhere.
        let memory_counted = memory.filter(|bytes| *bytes < 1e15);
        for (name, amount) in [("CPU", cpus), ("GPU", gpus), ("memory", memory_counted)] {
            demand.extend(amount.map(|amount| (name.to_owned(), amount)));
        }
        let misplaced = ["CPU", "GPU", "memory"]
            .into_iter()
            .find(|name| resources.is_some_and(|map| map.contains_key(*name)));
        for (name, amount) in resources.into_iter().flatten() {
            demand.extend(amount.as_f64().map(|amount| (name.clone(), amount)));
        }
        let asked =
            cpus.is_some() || gpus.is_some() || memory.is_some() || resources.is_some() || labels.is_some();
        let owned = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
        Ok(Self {
            entrypoint: entrypoint.to_owned(),
            id: submission_id.or(job_id),
            runtime_env: runtime_env.cloned(),
            metadata: metadata.cloned(),
            demand: asked.then_some(demand),
            labels: labels.into_iter().flatten().filter_map(owned).collect(),
            misplaced: misplaced.map(str::to_owned),
        })
    }

    /// Requests that Ray accepts with 200 and then cannot start: FAILED with START_FAILURE and
    /// this message.
    pub(crate) fn cannot_start(&self) -> Option<String> {
        let env = self.runtime_env.as_ref();
        let vars = env.and_then(|env| env.get("env_vars"));
        if let Some(vars) = vars
            && !vars.as_object().is_some_and(|vars| vars.values().all(Value::is_string))
        {
            return Some("runtime_env['env_vars'] must be of type Dict[str, str]".into());
        }
        if let Some(path) = env.and_then(|env| env.get("working_dir")).and_then(Value::as_str)
            && !path.contains("://")
        {
            return Some(format!("{path} is not a valid path."));
        }
        if let Some(name) = &self.misplaced {
            return Some(format!(
                "Use the 'num_cpus', 'num_gpus' and 'memory' options instead of '{name}' in 'resources'"
            ));
        }
        for (name, amount) in self.demand.iter().flatten() {
            if *amount < 0.0 {
                return Some(format!("The quantity of resource {name} cannot be negative"));
            }
        }
        None
    }

    /// The names of the packages in the cluster's own store (`gcs://…`) that the job needs.
    pub(crate) fn packages(&self) -> Vec<String> {
        let Some(env) = &self.runtime_env else { return Vec::new() };
        let modules = env.get("py_modules").and_then(Value::as_array).into_iter().flatten();
        let uris = env.get("working_dir").into_iter().chain(modules).filter_map(Value::as_str);
        uris.filter_map(|uri| uri.strip_prefix("gcs://")).map(str::to_owned).collect()
    }
}

fn refuse<T>(text: String) -> Result<T, Refused> {
    Err(Refused::TypeError(text))
}

fn text(given: &BTreeMap<&str, &Value>, key: &str) -> Result<Option<String>, Refused> {
    match given.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => refuse(format!("{key} must be a string if provided, got {}", class(other))),
    }
}

fn dict<'a>(given: &BTreeMap<&str, &'a Value>, key: &str) -> Result<Option<&'a Map<String, Value>>, Refused> {
    match given.get(key).copied() {
        None => Ok(None),
        Some(Value::Object(map)) => Ok(Some(map)),
        Some(other) => refuse(format!("{key} must be a dict, got {}", class(other))),
    }
}

fn number(given: &BTreeMap<&str, &Value>, key: &str) -> Result<Option<f64>, Refused> {
    match given.get(key) {
        None => Ok(None),
        Some(Value::Number(number)) => Ok(number.as_f64()),
        Some(other) => refuse(format!("{key} must be a number, got {}", class(other))),
    }
}

fn strings(map: Option<&Map<String, Value>>, key: &str) -> Result<(), Refused> {
    match map.into_iter().flat_map(Map::values).find(|value| !value.is_string()) {
        None => Ok(()),
        Some(other) => refuse(format!("{key} values must be strings, got {}", class(other))),
    }
}

/// How Python prints the type of a JSON value.
fn class(value: &Value) -> &'static str {
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
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn refused(json: &Value, words: &str) {
        assert_eq!(Request::parse(json, &[]).unwrap_err(), Refused::TypeError(words.into()));
    }

    #[test]
    fn refusals_read_as_rays() {
        refused(
            &json!({"entrypoint": "a", "foo": 1}),
            "JobSubmitRequest.__init__() got an unexpected keyword argument 'foo'",
        );
        refused(
            &json!({"submission_id": "a"}),
            "JobSubmitRequest.__init__() missing 1 required positional argument: 'entrypoint'",
        );
        refused(&json!({"entrypoint": 3}), "entrypoint must be a string, got <class 'int'>");
        refused(
            &json!({"entrypoint": "a", "entrypoint_memory": 1.5}),
            "entrypoint_memory must be an integer, got <class 'float'>",
        );
        refused(
            &json!({"entrypoint": "a", "runtime_env": "x"}),
            "runtime_env must be a dict, got <class 'str'>",
        );
        assert_eq!(Request::parse(&json!([]), &[]).unwrap_err(), Refused::NotAnObject);
    }

    #[test]
    fn nulls_are_as_if_not_given_and_a_given_zero_is_a_demand() {
        let nulls = json!({"entrypoint": "a", "foo": null, "entrypoint_num_cpus": null, "job_id": "old"});
        let request = Request::parse(&nulls, &[]).unwrap();
        assert_eq!((request.id.as_deref(), request.demand), (Some("old"), None));
        let zero = Request::parse(&json!({"entrypoint": "a", "entrypoint_num_cpus": 0}), &[]).unwrap();
        assert!(zero.demand.is_some());
    }
}
