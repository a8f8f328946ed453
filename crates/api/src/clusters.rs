//! Clusters, and all of them together.

use std::collections::BTreeMap;

use multicluster_types::{Resources, RuntimeEnv};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// A cluster to register: the keys of a cluster in `cluster.yaml`, read in the same way.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterRequest {
    /// Its name in the pool; may be left out where the address says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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

/// Why an operator does something.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NoteRequest {
    /// Shown to everybody whose work waits because of it.
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Cluster {
    /// Its name in the pool.
    pub name: String,
    /// Ray Client address.
    pub head_address: String,
    /// Jobs REST address.
    pub dashboard: String,
    /// `file` or `api`: who registered it.
    #[schema(example = "file")]
    pub source: String,
    /// What it carries.
    pub tags: Vec<String>,
    /// How much it is wanted.
    pub weight: f64,
    /// Wanted more than others of the same weight.
    pub prefer: bool,
    /// Does it answer?
    pub health: Health,
    /// Do dispatches reach it?
    pub breaker: Breaker,
    /// Why an operator keeps new work off it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cordoned: Option<String>,
    /// It is to be emptied.
    pub draining: bool,
    /// It is removed as soon as it is empty.
    pub leaving: bool,
    /// Ray's logical resources in all; absent until it has answered once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::resources)]
    pub total: Option<Resources>,
    /// How much of them Ray has given out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::resources)]
    pub used: Option<Resources>,
    /// Promised by us, and not in `used` yet.
    #[schema(schema_with = schema::resources)]
    pub promised: Resources,
    /// What our work there needs while it runs, whatever it uses at the moment.
    #[schema(schema_with = schema::resources)]
    pub claimed: Resources,
    /// What is left: the total, less the larger of `used` and `claimed`, less `promised`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::resources)]
    pub free: Option<Resources>,
    /// What is given out and promised, as shares of the total.
    pub logical: Utilisation,
    /// What the hosts are busy with.
    pub physical: Utilisation,
    /// Nodes that are alive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// `linux`, `macos`: by its nodes' labels and what Ray tells of the hosts, else by its tags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// `x86_64`, `arm64`: by its nodes' labels, else by its tags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arch: Option<String>,
    /// E.g. `2.60.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ray_version: Option<String>,
    /// The head's Python, e.g. `3.11.7`; older Rays do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python_version: Option<String>,
    /// When these facts were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_at: Option<u64>,
    /// How old they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_age_seconds: Option<f64>,
    /// Our work on it.
    pub live: usize,
    /// How many of those are top-level jobs.
    pub top_level_jobs: u32,
    /// When the next top-level submission is allowed, if not now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_submission_at: Option<u64>,
    /// The job it is kept free for, because that has waited too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_for: Option<String>,
    /// The base of every runtime_env that runs here.
    #[schema(schema_with = schema::runtime_env)]
    pub runtime_env: RuntimeEnv,
    /// The home directory on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home_dir: Option<String>,
    /// Whether its jobs are given the Python SDK; absent: those that bring it along.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inject_sdk: Option<bool>,
    /// Where its jobs reach the control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plane_address: Option<String>,
    /// The limits in force on it.
    pub limits: LimitsView,
    /// How its dashboard is reached.
    pub connection: ConnectionView,
}

/// All that a program needs to connect to a cluster and run code on it. The one answer that
/// carries secrets: whoever runs code on a cluster has what is in its `runtime_env` anyhow.
/// Not `Debug`, so that it does not get into a log.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterConnection {
    /// Its name in the pool.
    pub name: String,
    /// Ray Client address, `host:port`.
    pub head_address: String,
    /// What the cluster asks for as a bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The base of every runtime_env that runs here: all of it, secrets too.
    #[schema(schema_with = schema::runtime_env)]
    pub runtime_env: RuntimeEnv,
    /// The home directory on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home_dir: Option<String>,
    /// Where what runs here reaches the control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plane_address: Option<String>,
    /// E.g. `2.60.0`; absent until it has answered once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ray_version: Option<String>,
    /// The head's Python, e.g. `3.11.7`; older Rays do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python_version: Option<String>,
    /// Which life of its head answered last: another one knows nothing of what ran before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<String>,
}

/// Does a cluster answer?
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `healthy`, `unhealthy`, or `never_seen` before its first answer.
    #[schema(example = "healthy")]
    pub state: String,
    /// Since when it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_at: Option<u64>,
    /// What the last poll said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Do dispatches reach a cluster?
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Breaker {
    /// `closed` (work passes), `open` (nothing does) or `half_open` (one probe does).
    #[schema(example = "closed")]
    pub state: String,
    /// When one probe may pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_at: Option<u64>,
}

/// How full, as shares from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Utilisation {
    /// CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<f64>,
    /// Memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<f64>,
}

/// The limits in force on a cluster: its own, else the settings'.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LimitsView {
    /// How full it may be and still take work.
    pub resource_threshold: f64,
    /// Least time between top-level submissions to it.
    pub submission_interval_seconds: f64,
    /// How many top-level jobs it may run at once; absent: as many as fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_running_jobs: Option<u32>,
    /// How many drivers its head node has memory for now; absent: nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_drivers: Option<u32>,
    /// How many jobs it may be starting at once, as it copes.
    #[serde(default)]
    pub max_starting: u32,
}

/// How a dashboard is reached, without the secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConnectionView {
    /// Is a token sent?
    pub has_token: bool,
    /// The names of the extra headers that are sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    /// A PEM file with authorities to trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<String>,
    /// Any certificate is taken.
    pub insecure_tls: bool,
}

/// What became of a removal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Removed {
    /// Which cluster.
    pub name: String,
    /// Gone. If not, it has work on it, takes nothing new and goes once that has ended.
    pub removed: bool,
    /// Our work on it.
    pub live: usize,
}

/// All clusters as one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    /// How many clusters there are.
    pub clusters: usize,
    /// How many answer and take new work.
    pub available: usize,
    /// Clusters by health: `healthy`, `unhealthy`, `never_seen`.
    pub health: BTreeMap<String, usize>,
    /// Nodes that are alive.
    pub nodes: u32,
    /// Ray's logical resources of all clusters that answer.
    #[schema(schema_with = schema::resources)]
    pub total: Resources,
    /// Given out by Ray.
    #[schema(schema_with = schema::resources)]
    pub used: Resources,
    /// Promised by us.
    #[schema(schema_with = schema::resources)]
    pub promised: Resources,
    /// What our work needs while it runs.
    #[schema(schema_with = schema::resources)]
    pub claimed: Resources,
    /// What is left.
    #[schema(schema_with = schema::resources)]
    pub free: Resources,
    /// What is given out and promised, as shares of the total.
    pub logical: Utilisation,
    /// Our work on all clusters.
    pub live: usize,
    /// What waits in all queues.
    pub waiting: u64,
}
