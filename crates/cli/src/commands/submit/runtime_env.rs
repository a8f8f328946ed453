//! A runtime_env as the control plane accepts it: values that are only valid on this machine are
//! read or packed here, as Ray's own client does.

use std::{
    fs,
    path::{Path, PathBuf},
};

use multicluster_api::{Cluster, ClusterList, JobRequest};
use multicluster_types::RuntimeEnv;
use serde_json::Value;

use super::{
    own_folders::OwnFolders,
    package::{self, Package},
};
use crate::{
    client::Client,
    exit::{Exit, Failure},
};

/// From a YAML file.
pub(super) fn load(file: &Path) -> Result<RuntimeEnv, Failure> {
    match yaml(file, &read(file, "--runtime-env")?)? {
        Value::Object(env) => Ok(env),
        _ => Err(Failure::new(Exit::BadInput, format!("{} is not a mapping", file.display()))
            .hint("write keys such as working_dir: . or pip: [polars]")),
    }
}

/// `--working-dir` names a folder or an archive of this machine, or a URI.
pub(super) fn must_be_here(given: &str) -> Result<(), Failure> {
    if given.contains("://") || local("working_dir", given)?.is_some() {
        return Ok(());
    }
    let failure = Failure::new(Exit::BadInput, format!("--working-dir {given} does not exist here"));
    let env =
        Value::from([("working_dir".to_owned(), Value::from(given))].into_iter().collect::<RuntimeEnv>());
    Err(failure
        .hint(format!("check the path; for a folder of the clusters write --runtime-env-json '{env}'")))
}

/// Packs and uploads local folders that the job, or a cluster that may run it, names.
pub(crate) async fn bring_along(job: &mut JobRequest, client: &Client) -> Result<(), Failure> {
    of_clusters(job, client).await?;
    let env = &mut job.runtime_env;
    let excludes = excludes(env)?;
    if let Some(given) = env.get("working_dir").and_then(Value::as_str)
        && let Some(path) = local("working_dir", given)?
    {
        let package =
            if path.is_dir() { Package::of_folder(&path, &excludes)? } else { Package::of_archive(&path)? };
        let uri = package::upload(&package, client).await?;
        env.insert("working_dir".to_owned(), uri.into());
    } else if let Some(given) = env.get("working_dir").and_then(Value::as_str)
        && !given.contains("://")
    {
        eprintln!("working_dir {given} does not exist here: it must exist on the cluster");
    }
    if let Some(Value::Array(modules)) = env.get_mut("py_modules") {
        for module in modules {
            let Some(path) = module.as_str().map(|given| local("py_modules", given)).transpose()?.flatten()
            else {
                continue;
            };
            if !path.is_dir() {
                let message = format!("py_modules holds {}, which is no folder", path.display());
                return Err(Failure::new(Exit::BadInput, message).hint("give the folder of a Python package"));
            }
            *module = package::upload(&Package::of_module(&path, &excludes)?, client).await?.into();
        }
    }
    // They have been applied.
    env.remove("excludes");
    for tool in ["pip", "uv"] {
        if let Some(Value::String(file)) = env.get(tool) {
            let text = read(Path::new(file), tool)?;
            let lines: Vec<Value> = text.trim().lines().map(Value::from).collect();
            env.insert(tool.to_owned(), lines.into());
        }
    }
    if let Some(Value::String(file)) = env.get("conda")
        && (file.ends_with(".yaml") || file.ends_with(".yml"))
    {
        let file = PathBuf::from(file);
        env.insert("conda".to_owned(), yaml(&file, &read(&file, "conda")?)?);
    }
    Ok(())
}

/// For a dry run, which packs nothing: the placement does not depend on packages.
pub(crate) fn leave_out_packages(job: &mut JobRequest) {
    for field in ["working_dir", "py_modules"] {
        job.runtime_env.remove(field);
    }
}

/// Local folders that a cluster's own runtime_env names, and this user's configuration too. The
/// cluster for the job is not chosen yet, so the folders of all candidates are uploaded, as by the
/// SDK.
async fn of_clusters(job: &mut JobRequest, client: &Client) -> Result<(), Failure> {
    let clusters = client.get::<ClusterList>(&["v1", "clusters"], &[]).await?.value.items;
    let own = OwnFolders::find();
    for Cluster { name, runtime_env: env, .. } in &clusters {
        let excludes = excludes(env).unwrap_or_default();
        let here = |given: &str| {
            let path = local("", given).ok().flatten().filter(|path| path.is_dir());
            path.filter(|path| own.allow(name.as_str(), path))
        };
        let folder = env.get("working_dir").and_then(Value::as_str);
        // A job with its own working_dir does not use that of the cluster.
        if let Some(given) = folder.filter(|_| !job.runtime_env.contains_key("working_dir"))
            && let Some(path) = here(given)
        {
            let uri = package::upload(&Package::of_folder(&path, &excludes)?, client).await?;
            job.packages.insert(given.to_owned(), uri);
        }
        let modules = env.get("py_modules").and_then(Value::as_array);
        for given in modules.into_iter().flatten().filter_map(Value::as_str) {
            if let Some(path) = here(given) {
                let uri = package::upload(&Package::of_module(&path, &excludes)?, client).await?;
                job.packages.insert(given.to_owned(), uri);
            }
        }
    }
    Ok(())
}

fn excludes(env: &RuntimeEnv) -> Result<Vec<String>, Failure> {
    let patterns = env.get("excludes").cloned().unwrap_or_else(|| Value::Array(Vec::new()));
    serde_json::from_value(patterns).map_err(|_| {
        Failure::new(Exit::BadInput, "excludes of the runtime_env is no list of patterns")
            .hint("write [\"data/\", \"*.csv\"]")
    })
}

/// The absolute path of a local file; `None` for a URI, or a path on the clusters.
pub(super) fn local(field: &str, given: &str) -> Result<Option<PathBuf>, Failure> {
    if given.contains("://") {
        return Ok(None);
    }
    let home = std::env::var("HOME").unwrap_or_default();
    let path = match given.strip_prefix("~/") {
        Some(rest) => Path::new(&home).join(rest),
        None => PathBuf::from(given),
    };
    match (fs::canonicalize(&path), path.is_absolute()) {
        (Ok(path), _) => Ok(Some(path)),
        (Err(_), true) => Ok(None),
        (Err(error), false) => Err(Failure::new(Exit::BadInput, format!("{field} {given}: {error}"))
            .hint("a path on the clusters must be absolute")),
    }
}

fn read(file: &Path, what: &str) -> Result<String, Failure> {
    fs::read_to_string(file).map_err(|error| {
        Failure::new(
            Exit::BadInput,
            format!("{what} names {}, which cannot be read: {error}", file.display()),
        )
        .hint("check the path; a list can be given too")
    })
}

pub(super) fn yaml(file: &Path, text: &str) -> Result<Value, Failure> {
    serde_saphyr::from_str(text)
        .map_err(|error| Failure::new(Exit::BadInput, format!("{}: {error}", file.display())))
}
