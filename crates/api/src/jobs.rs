//! Jobs as they are shown.

use std::collections::BTreeMap;

use multicluster_types::{Kind, OnClusterLoss, Resources, RuntimeEnv, State};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::{Explanation, schema};

/// A job, task or actor.
#[skip_serializing_none]
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
    /// The state in Ray's words.
    #[schema(example = "PENDING")]
    pub ray_status: String,
    /// The shell command; tasks and actors have none.
    pub entrypoint: Option<String>,
    /// The caller's metadata.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// What must be free on its cluster, and counts as used while it is there.
    #[schema(schema_with = schema::resources)]
    pub demand: Resources,
    /// How much of it Ray reserves for the job's driver, on one node; absent: all of it.
    #[schema(schema_with = schema::resources)]
    pub reserves: Option<Resources>,
    /// Placement tags and labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The cluster it was asked to run on.
    pub preferred_cluster: Option<String>,
    /// It may run on that cluster only.
    #[serde(default, skip_serializing_if = "crate::submit::is_false")]
    pub required: bool,
    /// A higher priority goes first.
    pub priority: i32,
    /// How many times it is retried after it ran and failed.
    pub max_retries: u32,
    /// It is retried only if its exit code is one of these; absent: any exit code.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(schema_with = schema::retry_on)]
    pub retry_on: Vec<i64>,
    /// It is not retried if its exit code is one of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(schema_with = schema::never_retry_on)]
    pub never_retry_on: Vec<i64>,
    /// It may be stopped to make room for other work, and is run again later under its id.
    #[serde(default, skip_serializing_if = "crate::submit::is_false")]
    pub preemptible: bool,
    /// How many seconds it may take to end when it is stopped, before it is killed; absent: as long
    /// as its cluster gives every job.
    pub stop_grace: Option<f64>,
    /// What happens when its cluster is lost.
    #[schema(schema_with = schema::on_cluster_loss)]
    pub on_cluster_loss: OnClusterLoss,
    /// The job it was submitted from.
    pub parent_job: Option<String>,
    /// Who submitted it, where there are tokens.
    pub owner: Option<String>,
    /// The cluster that it is or was on.
    pub cluster: Option<String>,
    /// How many attempts were started.
    pub attempts: u32,
    /// The id of the latest attempt on its Ray cluster.
    pub submission_id: Option<String>,
    /// When it was accepted.
    pub submitted_at: u64,
    /// When it was queued.
    pub queued_at: Option<u64>,
    /// The scheduler does not consider it before this moment.
    pub not_before_at: Option<u64>,
    /// When its cluster was chosen.
    pub dispatched_at: Option<u64>,
    /// When it was first seen running; of one that was too short for that, when its cluster accepted it.
    pub running_at: Option<u64>,
    /// Since when its cluster has been unreachable.
    pub unreachable_at: Option<u64>,
    /// When it ended.
    pub ended_at: Option<u64>,
    /// It is being stopped.
    #[serde(default, skip_serializing_if = "crate::submit::is_false")]
    pub stopping: bool,
    /// How it ended, or the last error; lists show one line of it.
    pub message: Option<String>,
    /// Why it failed, in one line: the error at the end of its traceback, pip's error, or the last line
    /// before the exit. Of a job that has not ended: why its last attempt failed.
    #[schema(example = "ValueError: no such fund")]
    pub cause: Option<String>,
    /// The exit code of its latest attempt, if it failed and its cluster reported one.
    #[schema(example = 3)]
    pub exit_code: Option<i64>,
    /// In lists, of the first hundred jobs that are queued: why, in one line. Only the leader knows it.
    #[schema(example = "centos: next submission allowed in 28 s")]
    pub waits_for: Option<String>,
}

/// A job with everything that is known about it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobDetail {
    /// The job.
    #[serde(flatten)]
    pub job: Job,
    /// The job's own runtime_env, before its cluster's was added.
    #[serde(default, skip_serializing_if = "RuntimeEnv::is_empty")]
    #[schema(schema_with = schema::runtime_env)]
    pub runtime_env: RuntimeEnv,
    /// Which nodes of its cluster it may run on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub entrypoint_label_selector: BTreeMap<String, String>,
    /// Packages it uses: URI → SHA-256.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub packages: BTreeMap<String, String>,
    /// Every attempt, first to last.
    pub history: Vec<Attempt>,
    /// Its page in the Ray dashboard of its cluster; absent before its first attempt, and for tasks and actors.
    #[schema(example = "http://192.168.5.2:8265/#/jobs/train-7")]
    pub dashboard_url: Option<String>,
    /// Why it is where it is.
    pub why: Option<Explanation>,
}

/// One attempt to run a job.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    /// Its number, from 1.
    pub attempt: u32,
    /// The cluster.
    pub cluster: String,
    /// Its id on that Ray cluster.
    pub submission_id: String,
    /// `not_started`, `succeeded`, `failed`, `stopped`, `lost` or `preempted`; absent until it ends.
    #[schema(example = "succeeded")]
    pub outcome: Option<String>,
    /// How it ended, in words.
    pub message: Option<String>,
    /// Why it failed, in one line; absent unless it did.
    pub cause: Option<String>,
    /// When its cluster was chosen.
    pub dispatched_at: u64,
    /// When it was first seen running.
    pub running_at: Option<u64>,
    /// When it ended.
    pub ended_at: Option<u64>,
}

/// What one cluster is sent for a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ResolvedJob {
    /// The cluster.
    #[schema(example = "mac")]
    pub cluster: String,
    /// The shell command, with the paths of that cluster.
    pub entrypoint: String,
    /// The job's runtime_env merged into the cluster's.
    #[schema(schema_with = schema::runtime_env)]
    pub runtime_env: RuntimeEnv,
    /// `now`: by the configuration as it is, which may have changed since the job was sent.
    #[schema(example = "now")]
    pub as_of: String,
}

/// The last lines of a job's log.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Logs {
    /// The id of the job.
    pub id: String,
    /// The number of the attempt; absent before the first.
    pub attempt: Option<u32>,
    /// The cluster that it ran on.
    pub cluster: Option<String>,
    /// The lines.
    pub text: String,
    /// There are earlier lines.
    pub truncated: bool,
    /// `cluster`: just read from the cluster. `copy`: the control plane's copy of the last lines. `none`: nothing
    /// has run, or the log is lost.
    #[schema(example = "cluster")]
    pub source: String,
}
