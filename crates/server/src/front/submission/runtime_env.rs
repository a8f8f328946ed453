//! What Ray would accept in a runtime_env and fail minutes later.

use std::collections::BTreeMap;

use multicluster_api::codes;
use multicluster_types::{RuntimeEnv, is_package_name};
use serde_json::Value;

use crate::problem::Problem;

/// Ray's own are four deep.
const MAX_DEPTH: usize = 32;
const MAX_MODULES: usize = 64;
pub(super) const MAX_URI: usize = 4096;
pub(super) const PACKAGE: &str = "gcs://";

/// Checks it, and says about how many bytes it has as JSON. `folders` are those that a
/// package stands for.
pub(super) fn check(env: &RuntimeEnv, folders: &BTreeMap<String, String>) -> Result<usize, Problem> {
    if env.is_empty() {
        return Ok(2);
    }
    let mut size = 2;
    for (key, value) in env {
        size += key.len() + 4 + measure(value, 1)?;
    }
    if let Some(vars) = env.get("env_vars") {
        check_env_vars(vars)?;
    }
    if let Some(folder) = env.get("working_dir").filter(|value| !value.is_null()) {
        check_source("working_dir", folder, folders)?;
    }
    if let Some(modules) = env.get("py_modules").filter(|value| !value.is_null()) {
        let Value::Array(modules) = modules else {
            let message = format!("runtime_env.py_modules is {}, not a list", kind(modules));
            return Err(Problem::new(codes::BAD_JOB, message).hint("write a list of URIs"));
        };
        if modules.len() > MAX_MODULES {
            let message = format!("runtime_env.py_modules has {} entries", modules.len());
            return Err(
                Problem::new(codes::BAD_JOB, message).hint(format!("at most {MAX_MODULES} are allowed"))
            );
        }
        modules.iter().try_for_each(|module| check_source("py_modules", module, folders))?;
    }
    Ok(size)
}

/// The `gcs://` URIs it names: uploads that we keep.
pub(super) fn packages(env: &RuntimeEnv) -> Result<Vec<String>, Problem> {
    let modules = env.get("py_modules").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let named = env.get("working_dir").into_iter().chain(modules).filter_map(Value::as_str);
    let mut uris = Vec::new();
    for uri in named.filter(|uri| uri.starts_with(PACKAGE)) {
        check_package_name(uri)?;
        uris.push(uri.to_owned());
    }
    Ok(uris)
}

/// The name a package was uploaded under.
pub(super) fn package_name(uri: &str) -> &str {
    uri.strip_prefix(PACKAGE).unwrap_or(uri)
}

/// A name that could leave the folder of packages is refused before anybody looks.
pub(super) fn check_package_name(uri: &str) -> Result<(), Problem> {
    if !is_package_name(package_name(uri)) {
        let shown: String = uri.chars().take(80).collect();
        let problem = Problem::new(codes::BAD_JOB, format!("{shown:?} cannot be the URI of a package"));
        return Err(problem.hint("packages are named as Ray names them: gcs://_ray_pkg_0123456789abcdef.zip"));
    }
    Ok(())
}

fn check_env_vars(vars: &Value) -> Result<(), Problem> {
    let vars = match vars {
        Value::Object(vars) => vars,
        Value::Null => return Ok(()),
        other => {
            let message = format!("runtime_env.env_vars is {}, not an object", kind(other));
            return Err(Problem::new(codes::BAD_JOB, message).hint("write {\"NAME\": \"text\"}"));
        }
    };
    for (name, value) in vars {
        if !value.is_string() {
            let shown: String = name.chars().take(40).collect();
            let message = format!("runtime_env.env_vars {shown:?} is {}, not text", kind(value));
            return Err(Problem::new(codes::BAD_JOB, message).hint("put the value in quotes"));
        }
    }
    Ok(())
}

/// A URI, or a path that means something on the cluster. A relative path means something
/// on the caller's machine only, from where nobody can fetch it: a package has to stand for it.
fn check_source(field: &str, source: &Value, folders: &BTreeMap<String, String>) -> Result<(), Problem> {
    let Value::String(text) = source else {
        let message = format!("runtime_env.{field} holds {}, not text", kind(source));
        return Err(Problem::new(codes::BAD_JOB, message).hint("write a URI or an absolute path"));
    };
    let shown: String = text.chars().take(80).collect();
    if text.len() > MAX_URI {
        let message = format!("runtime_env.{field} {shown:?}… is too long");
        return Err(
            Problem::new(codes::BAD_JOB, message).hint(format!("at most {MAX_URI} bytes are allowed"))
        );
    }
    if text.contains("://") || text.starts_with('/') || folders.contains_key(text.trim_end_matches('/')) {
        return Ok(());
    }
    let message =
        format!("runtime_env.{field} {shown:?} is a path on your machine, which no cluster can see");
    let hint = "upload it (`ray job submit --working-dir` and the SDK do that), give a URI of a .zip, \
                or an absolute path that exists on the cluster";
    Err(Problem::new(codes::BAD_JOB, message).hint(hint))
}

/// About how long a value is as JSON.
fn measure(value: &Value, depth: usize) -> Result<usize, Problem> {
    if depth > MAX_DEPTH {
        let message = format!("runtime_env is nested more than {MAX_DEPTH} deep");
        return Err(Problem::new(codes::BAD_JOB, message).hint("Ray's own fields need four levels"));
    }
    Ok(match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 3,
        Value::Array(items) => {
            items.iter().try_fold(2, |sum, item| Ok::<_, Problem>(sum + 1 + measure(item, depth + 1)?))?
        }
        Value::Object(fields) => fields.iter().try_fold(2, |sum, (key, field)| {
            Ok::<_, Problem>(sum + key.len() + 4 + measure(field, depth + 1)?)
        })?,
    })
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
