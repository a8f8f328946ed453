//! Finding the control plane.
//!
//! 1. `--address`, or `RAY_MULTICLUSTER_ADDRESS`.
//! 2. This user's own for the configuration, if it runs: `ray-multicluster serve` for that
//!    file, or the one that the Python SDK keeps in the background (docs/attaching.md).
//! 3. `http://127.0.0.1:8700`, the default address of `serve`.

use std::{
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use multicluster_types::{
    env_vars::{self, ADDRESS},
    hex,
};
use rustix::process::{Pid, test_kill_process};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::commands::serve::OWN_TOKEN;

const USUAL: &str = "http://127.0.0.1:8700";

/// The address of a control plane, or those of its replicas, and why it was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) url: String,
    /// For errors: which places were tried.
    pub(crate) why: String,
    /// The address was given, or belongs to this user. At any other address, an unknown program
    /// may answer, and gets no token.
    pub(crate) is_known: bool,
    /// The token that this control plane keeps for its user, in its state directory.
    pub(crate) own_token: Option<String>,
}

impl Address {
    /// `url`: one, or several with commas in between.
    pub(crate) fn given(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            why: format!("from --address or {ADDRESS}"),
            is_known: true,
            own_token: None,
        }
    }

    /// No address was given.
    pub(crate) fn find() -> Self {
        let env = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let here = std::env::current_dir().unwrap_or_default();
        let config = multicluster_config::find(None, env, &here).ok().and_then(|file| identity(&file));
        let served = folder(env_vars::STATE_DIR, "state");
        let own = served.and_then(|folder| served_by_hand(&folder, config.as_deref()));
        let own = own.or_else(|| running(&background_folder(config.as_deref()?)?));
        own.map_or_else(|| Self::usual(config.as_deref()), Self::of)
    }

    fn of(own: Notice) -> Self {
        let why = format!("found in its state directory, for {}", own.config.display());
        Self { url: own.address, why, is_known: true, own_token: own.token }
    }

    /// The default, if there is no better one.
    fn usual(config: Option<&Path>) -> Self {
        let why = match config {
            Some(file) => {
                format!(
                    "no control plane of yours runs for {}, so this is the default address",
                    file.display()
                )
            }
            None => {
                format!("the default: neither --address nor {ADDRESS} is set, and no cluster.yaml was found")
            }
        };
        Self { url: USUAL.to_owned(), why, is_known: false, own_token: None }
    }
}

/// The state directory of the control plane that the SDK keeps in the background for this configuration.
pub(crate) fn background_folder(config: &Path) -> Option<PathBuf> {
    Some(folder(env_vars::PLANES_DIR, "planes")?.join(folder_name(&identity(config)?)))
}

/// The folder that this variable names, or the usual one of this user.
fn folder(name: &str, usual: &str) -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable(name).or_else(|| Some(variable("HOME")?.join(".ray_scheduler").join(usual)))
}

/// `plane.json`: written by a control plane while it serves.
#[derive(Deserialize)]
struct Notice {
    address: String,
    pid: i32,
    config: PathBuf,
    /// From the file beside it.
    #[serde(skip)]
    token: Option<String>,
}

/// `ray-multicluster serve` for this configuration; any, if there is no configuration.
fn served_by_hand(folder: &Path, config: Option<&Path>) -> Option<Notice> {
    running(folder)
        .filter(|notice| config.is_none_or(|file| identity(&notice.config).as_deref() == Some(file)))
}

/// The control plane that uses this state directory. A killed one leaves its notice behind.
fn running(folder: &Path) -> Option<Notice> {
    let notice: Notice = serde_json::from_slice(&fs::read(folder.join("plane.json")).ok()?).ok()?;
    test_kill_process(Pid::from_raw(notice.pid)?).ok()?;
    let token = fs::read_to_string(folder.join(OWN_TOKEN)).ok();
    Some(Notice { token, ..notice })
}

/// The file under one name, as the SDK names it: links of folders resolved, its own kept.
fn identity(file: &Path) -> Option<PathBuf> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(fs::canonicalize(folder).ok()?.join(file.file_name()?))
}

/// The folder of this configuration's control plane below that of the user.
fn folder_name(config: &Path) -> String {
    hex(&Sha256::digest(config.as_os_str().as_bytes())[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_happens_to_listen_at_the_usual_address_is_not_known() {
        let notice = r#"{"address": "http://127.0.0.1:8701", "pid": 1, "config": "/etc/cluster.yaml"}"#;
        assert!(Address::given(USUAL).is_known);
        assert!(Address::of(serde_json::from_str(notice).expect("a notice")).is_known);
        assert!(!Address::usual(None).is_known);
        assert!(!Address::usual(Some(Path::new("/etc/cluster.yaml"))).is_known);
    }

    #[test]
    fn the_folder_is_the_one_that_the_sdk_uses() {
        // hashlib.sha256(b"/etc/ray_scheduler/cluster.yaml").hexdigest()[:16]
        assert_eq!(folder_name(Path::new("/etc/ray_scheduler/cluster.yaml")), "af1ceb96f631c644");
    }
}
