//! Folders of this machine that the description of a cluster names.
//!
//! A control plane describes its clusters, and must not choose what leaves this machine. So such a
//! folder is uploaded only if this user's own `cluster.yaml` names it for the same cluster.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::runtime_env::{local, yaml};

/// The folders that this user's own configuration names, with the name of the cluster.
pub(super) struct OwnFolders(Vec<(String, PathBuf)>);

impl OwnFolders {
    /// Of the file that `serve` would find; none if there is none.
    pub(super) fn find() -> Self {
        let env = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let here = std::env::current_dir().unwrap_or_default();
        let file = multicluster_config::find(None, env, &here).ok();
        Self(file.and_then(|file| read(&file)).unwrap_or_default())
    }

    /// Whether the folder may be uploaded for this cluster; a refusal is printed.
    pub(super) fn allow(&self, cluster: &str, path: &Path) -> bool {
        let is_named = self.0.iter().any(|(name, folder)| name == cluster && folder == path);
        if !is_named {
            eprintln!(
                "warning: the control plane's description of cluster {cluster} names {}, which is also on \
                 this machine: it is not uploaded, because your own cluster.yaml does not name it for that \
                 cluster",
                path.display()
            );
        }
        is_named
    }
}

/// Not by the rules for a control plane: a secret that is missing here does not matter.
fn read(file: &Path) -> Option<Vec<(String, PathBuf)>> {
    let content = yaml(file, &fs::read_to_string(file).ok()?).ok()?;
    let mut found = Vec::new();
    for cluster in content["clusters"].as_array()? {
        let env = &cluster["runtime_env"];
        let modules = env["py_modules"].as_array().into_iter().flatten();
        for given in modules.chain([&env["working_dir"]]).filter_map(Value::as_str) {
            let path = local("", given).ok().flatten();
            found.extend(cluster["name"].as_str().map(str::to_owned).zip(path));
        }
    }
    Some(found)
}
