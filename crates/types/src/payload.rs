//! What a job runs. The scheduler never looks at it: it is stored when the job is
//! accepted, and made into a request once a cluster is chosen.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::RuntimeEnv;

/// The caller's request, as it was made. Nothing of it is changed: what a cluster
/// needs changed is changed in a copy, at dispatch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Payload {
    /// The shell command.
    pub entrypoint: String,
    /// The job's own runtime_env; package URIs are as the caller wrote them.
    #[serde(default, skip_serializing_if = "RuntimeEnv::is_empty")]
    pub runtime_env: RuntimeEnv,
    /// The caller's metadata.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// What the entrypoint itself reserves, as it was asked for.
    #[serde(default)]
    pub reserve: EntrypointResources,
    /// The submitter's home directory: paths below it are translated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// Folders of the submitter's machine, and the package that stands for each wherever the
    /// job's runtime_env or its cluster's names one: path, without trailing slash → URI.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub folders: BTreeMap<String, String>,
    /// Packages of ours that the runtime_env, `folders` or `sdk` name: URI → SHA-256 (hex) of the
    /// content it had when the job was accepted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub packages: BTreeMap<String, String>,
    /// Which of `packages` is the Python SDK that the submitting program uses, if it uses one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sdk: Option<String>,
}

/// Ray's `entrypoint_*` fields. None at all and Ray pins the driver to the head node,
/// so what was left out stays out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names of the fields say it")]
pub struct EntrypointResources {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_cpus: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_gpus: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, f64>,
    /// Which nodes may take it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub label_selector: BTreeMap<String, String>,
}

/// The longest name of a package, in bytes.
pub const MAX_PACKAGE_NAME: usize = 200;

/// Can a package have this name? It becomes part of paths and addresses, here and on the clusters:
/// nothing that a file system, a URL or a terminal could understand otherwise.
#[must_use]
pub fn is_package_name(name: &str) -> bool {
    name.len() <= MAX_PACKAGE_NAME && is_file_name(name)
}

/// Is this the name of one file, of letters, digits, `_`, `.` and `-`?
#[must_use]
pub fn is_file_name(name: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(fine)
}

/// The longest home directory, in bytes: every path of a job is compared with it.
pub const MAX_HOME: usize = 256;

/// This home directory without its trailing slash; `None` if paths below it cannot be translated.
#[must_use]
pub fn usable_home(home: &str) -> Option<&str> {
    let home = home.trim_end_matches('/');
    let is_fine = home.len() > 1
        && home.len() <= MAX_HOME
        && home.starts_with('/')
        && !home.chars().any(|c| c.is_control() || matches!(c, ':' | ',' | '=' | ';'))
        && home[1..].split('/').all(|part| !matches!(part, "" | "." | ".."));
    is_fine.then_some(home)
}
