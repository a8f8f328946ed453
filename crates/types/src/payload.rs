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
pub struct EntrypointResources {
    /// CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_cpus: Option<f64>,
    /// GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_gpus: Option<f64>,
    /// Bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Custom resources.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, f64>,
    /// Which nodes may take it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub label_selector: BTreeMap<String, String>,
}
