//! Folders of the submitter's machine, and the packages that stand for them.
//!
//! A path in a runtime_env may mean a folder on the machine that submitted the job, above all in
//! the runtime_env of a cluster. The submitter has the files; we have the package that was made
//! from them.

use std::{borrow::Cow, collections::BTreeMap};

use multicluster_types::RuntimeEnv;
use serde_json::Value;

/// Replaces the paths in `env` that are in `folders` (path without trailing slash → URI).
pub(super) fn replace<'a>(env: &'a RuntimeEnv, folders: &BTreeMap<String, String>) -> Cow<'a, RuntimeEnv> {
    let mut env = Cow::Borrowed(env);
    if folders.is_empty() {
        return env;
    }
    for field in ["working_dir", "py_modules"] {
        let replaced = match env.get(field) {
            Some(Value::Array(items)) => Value::Array(items.iter().map(|item| one(item, folders)).collect()),
            Some(value) => one(value, folders),
            None => continue,
        };
        env.to_mut().insert(field.to_owned(), replaced);
    }
    env
}

fn one(value: &Value, folders: &BTreeMap<String, String>) -> Value {
    let package = value.as_str().and_then(|path| folders.get(path.trim_end_matches('/')));
    package.map_or_else(|| value.clone(), |uri| Value::String(uri.clone()))
}
