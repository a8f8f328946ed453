//! Jobs as they are shown.

use std::collections::BTreeMap;

use multicluster_types::{Kind, OnClusterLoss, Resources, RuntimeEnv, State};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Explanation, schema};

/// A job, task or actor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Its id for life.
    pub id: String,
    /// What kind of work.
    #[schema(schema_with = schema::kind)]
    pub kind: Kind,
    /// Where it is in its life.
    #[schema(schema_with = schema::state)]
    pub state: State,
    /// The same in Ray's words.
    #[schema(example = "PENDING")]
    pub ray_status: String,
    /// The shell command; tasks and actors keep theirs to themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<String>,
    /// The caller's metadata.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// What must be free on its cluster, and is taken there while it is on it.
    #[schema(schema_with = schema::resources)]
    pub demand: Resources,
    /// What of it Ray sets aside for a job's driver, on one node; absent: all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::resources)]
    pub reserves: Option<Resources>,
    /// Placement tags and labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The cluster it was asked to run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_cluster: Option<String>,
    /// Nowhere else.
    #[serde(default, skip_serializing_if = "crate::submit::is_false")]
    pub required: bool,
    /// Higher goes first.
    pub priority: i32,
    /// How often it is run again if it ran and failed.
    pub max_retries: u32,
    /// What happens when its cluster is lost.
    #[schema(schema_with = schema::on_cluster_loss)]
    pub on_cluster_loss: OnClusterLoss,
    /// The job it was submitted from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_job: Option<String>,
    /// Who submitted it, where there are tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Where it is or was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// How many attempts were started.
    pub attempts: u32,
    /// The id of the latest attempt on its Ray cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submission_id: Option<String>,
    /// When it was accepted.
    pub submitted_at: u64,
    /// Since when it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_at: Option<u64>,
    /// It is not looked at before this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before_at: Option<u64>,
    /// When its cluster was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatched_at: Option<u64>,
    /// When it was first seen running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_at: Option<u64>,
    /// Since when its cluster cannot be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable_at: Option<u64>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
    /// Somebody wants it stopped.
    #[serde(default, skip_serializing_if = "crate::submit::is_false")]
    pub stopping: bool,
    /// How it ended, or what went wrong last; in lists the line of it that says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A job with everything that is known about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobDetail {
    /// The job.
    #[serde(flatten)]
    pub job: Job,
    /// The job's own runtime_env, before its cluster's was added.
    #[serde(default, skip_serializing_if = "RuntimeEnv::is_empty")]
    #[schema(schema_with = schema::runtime_env)]
    pub runtime_env: RuntimeEnv,
    /// Which nodes of its cluster may take it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub entrypoint_label_selector: BTreeMap<String, String>,
    /// Packages it uses: URI → SHA-256.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub packages: BTreeMap<String, String>,
    /// Every attempt, first to last.
    pub history: Vec<Attempt>,
    /// Why it is where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Explanation>,
}

/// One try at running a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    /// From 1.
    pub attempt: u32,
    /// Where.
    pub cluster: String,
    /// Its id on that Ray cluster.
    pub submission_id: String,
    /// `not_started`, `succeeded`, `failed`, `stopped` or `lost`; absent while it lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "succeeded")]
    pub outcome: Option<String>,
    /// What happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When its cluster was chosen.
    pub dispatched_at: u64,
    /// When it was first seen running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_at: Option<u64>,
    /// When it was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
}

/// What one cluster is sent for a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ResolvedJob {
    /// Which cluster.
    #[schema(example = "mac")]
    pub cluster: String,
    /// The shell command, with the paths of that cluster.
    pub entrypoint: String,
    /// The job's runtime_env laid on the cluster's.
    #[schema(schema_with = schema::runtime_env)]
    pub runtime_env: RuntimeEnv,
    /// `now`: by the configuration as it is, which may have changed since the job was sent.
    #[schema(example = "now")]
    pub as_of: String,
}

/// The last lines of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Logs {
    /// Whose.
    pub id: String,
    /// Which try; absent if none was made yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Where that ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The lines.
    pub text: String,
    /// There were more before these.
    pub truncated: bool,
    /// `cluster`: read there just now. `copy`: our own, of its last lines. `none`: nothing
    /// has run, or what it printed is lost.
    #[schema(example = "cluster")]
    pub source: String,
}
