//! Clusters, and all of them together.

use std::collections::BTreeMap;

use multicluster_types::{CircuitKind, HealthKind, Resources, RuntimeEnv, Source};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::{ReasonText, schema};

/// A cluster to register: the keys of a cluster in `cluster.yaml`, read in the same way.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterRequest {
    /// Its name; may be left out if the address of the request has it.
    #[schema(example = "mac", value_type = String, required = false)]
    pub name: Option<String>,
    /// Ray Client address, `host:port`.
    #[schema(example = "192.168.5.2:10001")]
    pub head_address: String,
    /// Jobs REST address.
    #[schema(example = "http://192.168.5.2:8265")]
    pub dashboard: String,
    /// Every other key that `cluster.yaml` knows: `prefer`, `weight`, `tags`,
    /// `runtime_env`, `home_dir`, `token`, ….
    #[serde(flatten)]
    #[schema(schema_with = schema::anything)]
    pub more: serde_json::Map<String, serde_json::Value>,
}

/// Keys of a cluster to change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterChanges {
    /// Any key that `cluster.yaml` knows, except `name`: `tags`, `weight`, `prefer`, `token`, …; `null` for
    /// its default.
    #[serde(flatten)]
    #[schema(schema_with = schema::anything)]
    pub keys: serde_json::Map<String, serde_json::Value>,
}

/// An operator's reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NoteRequest {
    /// Shown as the reason of jobs that wait because of it.
    #[serde(default)]
    #[schema(example = "disk swap, back at noon")]
    pub note: String,
}

/// The clusters of the pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterList {
    /// In the order of the pool.
    pub items: Vec<Cluster>,
}

/// One cluster as it stands. Secrets are left out.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Cluster {
    /// Its name in the pool.
    pub name: String,
    /// Ray Client address.
    pub head_address: String,
    /// Jobs REST address.
    pub dashboard: String,
    /// Who registered it.
    #[schema(schema_with = schema::source)]
    pub source: Source,
    /// Its tags.
    pub tags: Vec<String>,
    /// A higher weight scores better.
    pub weight: f64,
    /// Preferred over clusters of the same weight.
    pub prefer: bool,
    /// Whether it answers polls.
    pub health: Health,
    /// Whether jobs can be sent to it.
    pub breaker: Breaker,
    /// Why an operator cordoned it; absent if it is not cordoned.
    pub cordoned: Option<String>,
    /// It is being drained.
    pub draining: bool,
    /// It will be removed once it is empty.
    pub leaving: bool,
    /// Ray's logical resources in all; absent until it has answered once.
    #[schema(schema_with = schema::resources)]
    pub total: Option<Resources>,
    /// How much of them Ray has given to tasks and actors.
    #[schema(schema_with = schema::resources)]
    pub used: Option<Resources>,
    /// Promised to jobs, and not in `used` yet.
    #[schema(schema_with = schema::resources)]
    pub promised: Resources,
    /// What the jobs there need while they run, whatever they use at the moment.
    #[schema(schema_with = schema::resources)]
    pub claimed: Resources,
    /// What is free: the total, less the larger of `used` and `claimed`, less `promised`.
    #[schema(schema_with = schema::resources)]
    pub free: Option<Resources>,
    /// Whether more nodes come, if it can grow.
    pub elastic: Option<Growth>,
    /// Used and promised, as shares of the total; of what it can grow to, if it can.
    pub logical: Utilization,
    /// The load of the hosts.
    pub physical: Utilization,
    /// Nodes that are alive.
    pub nodes: Option<u32>,
    /// `linux`, `macos`: from its nodes' labels and what Ray reports about the hosts, else from its tags.
    pub os: Option<String>,
    /// `x86_64`, `arm64`: from its nodes' labels, else from its tags.
    pub arch: Option<String>,
    /// E.g. `2.60.0`.
    pub ray_version: Option<String>,
    /// The head's Python, e.g. `3.11.7`; older versions of Ray do not report it.
    pub python_version: Option<String>,
    /// When these facts were requested.
    pub snapshot_at: Option<u64>,
    /// How old they are.
    pub snapshot_age_seconds: Option<f64>,
    /// Jobs, tasks and actors on it.
    pub live: usize,
    /// How many of those are top-level jobs.
    pub top_level_jobs: u32,
    /// When the next top-level submission is allowed, if not now.
    pub next_submission_at: Option<u64>,
    /// Why no job that is submitted now would go there, whatever the job asks for: cordoned, over its
    /// threshold, too soon, …; absent if nothing keeps all jobs off.
    pub closed: Option<ReasonText>,
    /// The job that it is reserved for, which has waited too long.
    pub reserved_for: Option<String>,
    /// The base of every runtime_env that runs here.
    #[schema(schema_with = schema::runtime_env)]
    pub runtime_env: RuntimeEnv,
    /// The home directory on it.
    pub home_dir: Option<String>,
    /// Whether its jobs get the Python SDK; absent: those that were submitted with it.
    pub inject_sdk: Option<bool>,
    /// Where its jobs reach the control plane.
    pub plane_address: Option<String>,
    /// The limits in force on it.
    pub limits: LimitsView,
    /// How its dashboard is reached.
    pub connection: ConnectionView,
}

/// The growth of a cluster whose autoscaler adds nodes when work waits for them.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Growth {
    /// What it can have at most, as described.
    #[schema(schema_with = schema::resources)]
    pub max: Resources,
    /// What one more node brings.
    #[schema(schema_with = schema::resources)]
    pub node: Resources,
    /// How long work waits there for it to grow.
    pub within_seconds: f64,
    /// How many nodes can be added. If it did not grow when it was asked to, none beyond what it had.
    pub can_add: u32,
    /// What it has then: its threshold is measured against that.
    #[schema(schema_with = schema::resources)]
    pub grown: Resources,
    /// How much work was sent there and waits for nodes.
    pub waiting: usize,
    /// Nodes that its autoscaler has requested and that are not there yet; absent if it does not say.
    pub pending: Option<u32>,
    /// Nodes that could not be launched lately.
    pub failed: Option<u32>,
    /// What its autoscaler says of the latest of them.
    pub failure: Option<String>,
    /// Since when it has been asked to grow in vain.
    pub stuck_since_at: Option<u64>,
    /// When it is asked again.
    pub asked_again_at: Option<u64>,
    /// What is wrong with the description.
    pub problem: Option<String>,
}

/// All that a program needs to connect to a cluster and run code on it. The only answer that
/// contains secrets: code that runs on a cluster can read its `runtime_env` anyway.
/// Not `Debug`, so that it cannot get into a log.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterConnection {
    /// Its name in the pool.
    pub name: String,
    /// Ray Client address, `host:port`.
    pub head_address: String,
    /// The bearer token of the cluster.
    pub token: Option<String>,
    /// The base of every runtime_env that runs here: all of it, secrets too.
    #[schema(schema_with = schema::runtime_env)]
    pub runtime_env: RuntimeEnv,
    /// The home directory on it.
    pub home_dir: Option<String>,
    /// Where code on this cluster reaches the control plane.
    pub plane_address: Option<String>,
    /// E.g. `2.60.0`; absent until it has answered once.
    pub ray_version: Option<String>,
    /// The head's Python, e.g. `3.11.7`; older versions of Ray do not report it.
    pub python_version: Option<String>,
    /// Identifies the present run of its head: after a restart, Ray knows nothing of what ran before.
    pub incarnation: Option<String>,
}

/// Whether a cluster answers polls.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `never_seen` before its first answer; `unauthorized` if it refuses the control plane's token.
    #[schema(schema_with = schema::health)]
    pub state: HealthKind,
    /// Since when it has been unhealthy or unauthorized.
    pub since_at: Option<u64>,
    /// The error of the last poll.
    pub error: Option<String>,
}

/// Whether jobs can be sent to a cluster.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Breaker {
    /// `closed` (work passes), `open` (nothing does) or `half_open` (one probe does).
    #[schema(schema_with = schema::circuit)]
    pub state: CircuitKind,
    /// When one probe will be sent.
    pub until_at: Option<u64>,
}

/// How full, as shares from 0 to 1.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Utilization {
    /// Share of the CPUs.
    pub cpu: Option<f64>,
    /// Share of the GPUs.
    pub gpu: Option<f64>,
    /// Share of the memory.
    pub memory: Option<f64>,
}

/// The limits in force on a cluster: its own, else the settings'.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LimitsView {
    /// How full it may be and still accept jobs.
    pub resource_threshold: f64,
    /// Minimum time between top-level submissions to it.
    pub submission_interval_seconds: f64,
    /// How many top-level jobs it may run at once; absent: as many as fit.
    pub max_running_jobs: Option<u32>,
    /// How many drivers its head node has memory for now; absent if unknown.
    pub max_drivers: Option<u32>,
    /// How many jobs it may be starting at once; lowered while it is slow.
    #[serde(default)]
    pub max_starting: u32,
}

/// How a dashboard is reached, without the secrets.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConnectionView {
    /// Whether a token is sent.
    pub has_token: bool,
    /// The names of the extra headers that are sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    /// A PEM file with authorities to trust.
    pub ca_file: Option<String>,
    /// Any certificate is accepted.
    pub insecure_tls: bool,
}

/// The result of a removal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Removed {
    /// The cluster.
    pub name: String,
    /// It is gone. If not, jobs are still on it; it accepts no new ones and goes when they have ended.
    pub removed: bool,
    /// Jobs, tasks and actors on it.
    pub live: usize,
}

/// All clusters together.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    /// How many clusters there are.
    pub clusters: usize,
    /// How many accept new jobs, at once or when their submission interval is over: they answer, and
    /// are neither cordoned nor over a limit.
    pub available: usize,
    /// Clusters by health: `healthy`, `unhealthy`, `unauthorized`, `never_seen`.
    pub health: BTreeMap<String, usize>,
    /// Nodes that are alive.
    pub nodes: u32,
    /// Ray's logical resources of all clusters that answer.
    #[schema(schema_with = schema::resources)]
    pub total: Resources,
    /// Given by Ray to tasks and actors.
    #[schema(schema_with = schema::resources)]
    pub used: Resources,
    /// Promised to jobs.
    #[schema(schema_with = schema::resources)]
    pub promised: Resources,
    /// What the jobs need while they run.
    #[schema(schema_with = schema::resources)]
    pub claimed: Resources,
    /// What is free on the `available` clusters.
    #[schema(schema_with = schema::resources)]
    pub free: Resources,
    /// Used and promised, as shares of the total.
    pub logical: Utilization,
    /// Jobs, tasks and actors on all clusters.
    pub live: usize,
    /// How much is queued in total.
    pub waiting: u64,
    /// The configuration file, or a file of its `cluster_files`, cannot be used: what was last valid in it
    /// stays in force. Absent once the file has been reloaded.
    pub config_problem: Option<ConfigProblem>,
}

/// Why the configuration file was not reloaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigProblem {
    /// When it was refused.
    pub at: u64,
    /// Why: each error with its line and a hint.
    #[schema(example = "cluster.yaml:4: unknown key dashbord")]
    pub message: String,
}
