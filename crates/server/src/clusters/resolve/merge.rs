//! Merges a job's runtime_env into its cluster's.
//!
//! | both are | result |
//! | --- | --- |
//! | mappings | merged key by key, all the way down |
//! | lists | the cluster's in its order, then the job's additions; nothing twice |
//! | lists of requirements (`pip`, `uv`, conda's `dependencies`) | the same, but a package the job names is taken as the job names it: pip refuses the same one twice |
//! | lists of options (`…_options`) | the job's: an option and its value are two entries, a union would tear them apart |
//! | anything else | the job's |
//!
//! A job's `null` removes the cluster's value. `pip` and `uv` mean the same as a list and as
//! `{packages: […]}`. As a text they name a file on the cluster, which cannot be merged.
//!
//! Ray refuses some fields side by side. Where the job's and the cluster's fields collide, the job
//! wins and the cluster's field is left out: any of `pip`, `conda`, `uv` removes the other two; an
//! image (`image_uri`, `container`) removes all but `env_vars` and `config`, and any of the removed
//! fields in a job removes the cluster's image. Collisions within the job's own runtime_env are
//! left for Ray to refuse.

use std::collections::{HashMap, HashSet};

use multicluster_types::RuntimeEnv;
use serde_json::{Map, Value};

const INSTALLERS: [&str; 3] = ["pip", "conda", "uv"];
const IMAGES: [&str; 2] = ["image_uri", "container"];
const BESIDE_AN_IMAGE: [&str; 2] = ["env_vars", "config"];

/// Builds a new runtime_env; neither input is changed.
pub(super) fn merge(base: &RuntimeEnv, job: &RuntimeEnv) -> RuntimeEnv {
    let mut merged: RuntimeEnv = base
        .iter()
        .filter(|(field, value)| !value.is_null() && goes_with(field, job))
        .map(|(field, value)| (field.clone(), value.clone()))
        .collect();
    lay_on(&mut merged, job);
    merged
}

/// Whether jobs run in an image.
pub(super) fn has_image(env: &RuntimeEnv) -> bool {
    IMAGES.iter().any(|image| gives(env, image))
}

/// Whether Ray accepts the cluster's `field` beside the job's fields.
fn goes_with(field: &str, job: &RuntimeEnv) -> bool {
    let is_free = |field: &str| BESIDE_AN_IMAGE.contains(&field);
    let others = |group: &[&str]| group.iter().any(|other| *other != field && gives(job, other));
    let against_image = !is_free(field) && others(&IMAGES);
    let as_image = IMAGES.contains(&field)
        && job.iter().any(|(given, value)| given != field && !is_free(given) && !value.is_null());
    let as_installer = INSTALLERS.contains(&field) && others(&INSTALLERS);
    !(against_image || as_image || as_installer)
}

fn gives(env: &RuntimeEnv, field: &str) -> bool {
    env.get(field).is_some_and(|value| !value.is_null())
}

fn lay_on(base: &mut Map<String, Value>, job: &Map<String, Value>) {
    for (key, value) in job {
        if value.is_null() {
            base.remove(key);
        } else {
            let merged = match base.remove(key) {
                Some(below) => combine(key, below, value),
                None => value.clone(),
            };
            base.insert(key.clone(), merged);
        }
    }
}

fn combine(key: &str, base: Value, job: &Value) -> Value {
    match (base, job) {
        (Value::Object(mut base), Value::Object(job)) => {
            lay_on(&mut base, job);
            Value::Object(base)
        }
        (Value::Array(_), Value::Array(job)) if key.ends_with("_options") => Value::Array(job.clone()),
        (Value::Array(base), Value::Array(job)) if is_requirements(key) => Value::Array(install(base, job)),
        (Value::Array(base), Value::Array(job)) => Value::Array(union(base, job)),
        (Value::Array(base), Value::Object(_)) if matches!(key, "pip" | "uv") => {
            combine(key, packages(Value::Array(base)), job)
        }
        (base @ Value::Object(_), Value::Array(_)) if matches!(key, "pip" | "uv") => {
            combine(key, base, &packages(job.clone()))
        }
        (_, job) => job.clone(),
    }
}

fn is_requirements(key: &str) -> bool {
    matches!(key, "pip" | "uv" | "packages" | "dependencies")
}

fn packages(list: Value) -> Value {
    Value::Object(Map::from_iter([("packages".to_owned(), list)]))
}

fn union(base: Vec<Value>, job: &[Value]) -> Vec<Value> {
    let mut seen = HashSet::new();
    let all: Vec<Value> = base.into_iter().chain(job.iter().cloned()).collect();
    let is_new: Vec<bool> = all.iter().map(|value| seen.insert(value)).collect();
    all.into_iter().zip(is_new).filter_map(|(value, is_new)| is_new.then_some(value)).collect()
}

/// The requirements of both. Conda nests those for pip in a mapping: `[python, {pip: […]}]`.
fn install(base: Vec<Value>, job: &[Value]) -> Vec<Value> {
    let mut named: HashMap<String, Vec<&Value>> = HashMap::new();
    for requirement in job {
        if let Some(name) = requirement.as_str().and_then(name) {
            named.entry(name).or_default().push(requirement);
        }
    }
    let is_nested = |value: &&Value| value.get("pip").is_some();
    let mut nested = job.iter().find(is_nested);
    let mut kept = Vec::new();
    for below in base {
        let nested_here = if is_nested(&&below) { nested.take() } else { None };
        let overridden = || below.as_str().and_then(name).and_then(|name| named.get(&name));
        match (nested_here, overridden()) {
            (Some(above), _) => kept.push(combine("pip", below, above)),
            (None, Some(above)) if !above.contains(&&below) => {}
            (None, _) => kept.push(below),
        }
    }
    // A nested mapping that was merged is in the list already.
    let merged = job.iter().find(is_nested).filter(|_| nested.is_none());
    let rest: Vec<Value> = job
        .iter()
        .filter(|value| merged.is_none_or(|merged| !std::ptr::eq(*value, merged)))
        .cloned()
        .collect();
    union(kept, &rest)
}

/// The package that a requirement names, normalised as in PEP 503; `None` for options, paths and
/// URLs.
fn name(requirement: &str) -> Option<String> {
    let text = requirement.trim();
    let text = text.split_once("::").map_or(text, |(_channel, rest)| rest);
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c))).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let is_name =
        name.starts_with(|c: char| c.is_ascii_alphanumeric()) && !rest.starts_with([':', '+', '/', '\\']);
    is_name.then(|| {
        name.split(['-', '_', '.'])
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("-")
            .to_ascii_lowercase()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_known_by_the_package_they_are_about() {
        for (requirement, expected) in [
            ("numpy", Some("numpy")),
            ("NumPy==1.26", Some("numpy")),
            ("ray[serve]>=2", Some("ray")),
            ("typing_Extensions ; python_version < '3.11'", Some("typing-extensions")),
            ("pkg @ https://host/pkg.zip", Some("pkg")),
            ("conda-forge::lightgbm=4.1", Some("lightgbm")),
            ("-r requirements.txt", None),
            ("--index-url=https://host", None),
            ("https://host/pkg.whl", None),
            ("git+https://host/pkg", None),
            ("./pkg", None),
            ("/home/zorro/pkg", None),
            ("pkg/sub", None),
            ("", None),
        ] {
            assert_eq!(name(requirement).as_deref(), expected, "{requirement}");
        }
    }
}
