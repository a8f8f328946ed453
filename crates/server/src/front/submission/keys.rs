//! Keys of a runtime_env that Ray does not know. Ray ignores them, so nobody would notice a
//! mistyped one before the job lacks what it named.

use std::collections::BTreeSet;

use multicluster_api::codes;
use multicluster_core::Core;
use multicluster_types::{RuntimeEnv, settings::closest};

use crate::{front::plane::Plane, problem::Problem};

/// The keys of Ray 2.9 to 2.60, by their names in files and in Python.
const KNOWN: [&str; 17] = [
    "working_dir",
    "py_modules",
    "py_executable",
    "excludes",
    "pip",
    "uv",
    "conda",
    "container",
    "image_uri",
    "env_vars",
    "config",
    "worker_process_setup_hook",
    "java_jars",
    "nsight",
    "rocprof_sys",
    "mpi",
    "language",
];

/// The keys that Ray does not know. Its internal ones begin with `_`.
pub(crate) fn unknown(env: &RuntimeEnv) -> impl Iterator<Item = &str> {
    env.keys().map(String::as_str).filter(|key| !key.starts_with('_') && !KNOWN.contains(key))
}

/// Plugins of Ray may read further keys: those that a cluster's own runtime_env has.
pub(super) async fn of_plugins(plane: &Plane) -> Result<BTreeSet<String>, Problem> {
    let of_clusters = |core: &Core| {
        core.clusters()
            .flat_map(|cluster| cluster.spec.base_env().keys().cloned().collect::<Vec<_>>())
            .collect()
    };
    Ok(plane.driver.read(of_clusters).await?)
}

/// Refuses the first of these keys that no cluster has either.
pub(super) fn check(unknown: &[String], plugins: &BTreeSet<String>) -> Result<(), Problem> {
    unknown.iter().find(|key| !plugins.contains(*key)).map_or(Ok(()), |key| Err(refuse(key)))
}

fn refuse(key: &str) -> Problem {
    let shown: String = key.chars().take(60).collect();
    let problem = Problem::new(codes::BAD_JOB, format!("runtime_env has no key {shown:?}"));
    problem.hint(match closest(key, KNOWN) {
        Some(meant) => format!("did you mean {meant}?"),
        None => format!(
            "Ray knows {}; a key of a plugin is accepted if a cluster's own runtime_env has it too",
            KNOWN[..12].join(", ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn all_keys_of_ray_are_known_and_a_mistyped_one_is_not() {
        let all = KNOWN.iter().map(|key| ((*key).to_owned(), json!("x"))).collect();
        assert_eq!(unknown(&all).next(), None);
        let internal = from_value(json!({"_ray_commit": "x", "_nsight": {}})).unwrap();
        assert_eq!(unknown(&internal).next(), None);
        let env = from_value(json!({"pip": [], "enviroment_vars": {}, "pipp": []})).unwrap();
        assert!(unknown(&env).eq(["enviroment_vars", "pipp"]));
        assert_eq!(refuse("work_dir").hint.as_deref(), Some("did you mean working_dir?"));
        assert!(refuse("dockerfile").hint.unwrap().starts_with("Ray knows working_dir, "));
    }
}
