//! The content of a job. The scheduler never reads it: it is stored when the job is accepted, and
//! made into a request once a cluster is chosen.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{RuntimeEnv, Span};

/// The caller's request, as it was made. It never changes: changes for a cluster are made in a
/// copy, at dispatch.
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
    /// The entrypoint's own reservation, as requested.
    #[serde(default)]
    pub reserve: EntrypointResources,
    /// How long the job may take to end when it is stopped, before it is killed. `None`: as long as
    /// its cluster gives every job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_grace: Option<Span>,
    /// The submitter's home directory: paths below it are translated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// Folders of the submitter's machine, and the package for each: path, without trailing slash → URI.
    /// The package replaces the folder wherever the runtime_env of the job or its cluster names it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub folders: BTreeMap<String, String>,
    /// Our packages that the runtime_env, `folders` or `sdk` name: URI → SHA-256 (hex) of the
    /// content at the time when the job was accepted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub packages: BTreeMap<String, String>,
    /// The one of `packages` that is the Python SDK of the submitting program, if it uses the SDK.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sdk: Option<String>,
    /// The submitter's span (W3C `traceparent`), if it sent one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

impl Payload {
    /// The longest grace.
    pub const MAX_STOP_GRACE: Span = Span::minutes(24 * 60);
    /// The grace of preemptible jobs that say nothing.
    pub const PREEMPTIBLE_GRACE: Span = Span::seconds(30);
}

/// Ray's `entrypoint_*` fields. Without any of them, Ray pins the driver to the head node, so
/// fields that the caller left out stay out.
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
    /// The nodes that may run it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub label_selector: BTreeMap<String, String>,
}

/// The longest name of a package, in bytes.
pub const MAX_PACKAGE_NAME: usize = 200;

/// Can a package have this name? The name becomes part of paths and addresses, here and on the
/// clusters, so it must have no special meaning for a file system, a URL or a terminal.
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
