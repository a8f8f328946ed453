//! The control plane itself: queues, settings, version.

use multicluster_types::{Kind, QueueKind, Resources};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::{ClusterVerdict, Policy, schema};

/// What is queued.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Queues {
    /// How much is queued in total.
    pub waiting: u64,
    /// Queue by queue; those never used are left out.
    pub items: Vec<Queue>,
}

/// One queue.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Queue {
    /// `jobs`, `tasks`, or one of a cluster such as `jobs@mac`.
    #[schema(example = "jobs@mac")]
    pub name: String,
    /// What waits in it.
    #[schema(schema_with = schema::queue_kind)]
    pub kind: QueueKind,
    /// The cluster whose own queue it is; absent: the global one.
    pub cluster: Option<String>,
    /// How many are queued.
    pub waiting: u32,
    /// How many may be.
    pub limit: u32,
    /// Those whose turn is next, at most 20 (fewer in pools of very many clusters): the first of
    /// each shape. What waits for a retry is left out.
    pub heads: Vec<QueueHead>,
    /// How many more shapes there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_heads: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The first of those that request the same: the next is considered once it is placed.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueueHead {
    /// Its id.
    pub id: String,
    /// What kind of work.
    #[schema(schema_with = schema::kind)]
    pub kind: Kind,
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
    /// When it was queued.
    pub queued_at: u64,
    /// How many of the same shape are queued, including this one.
    pub waiting: u32,
    /// Why it is queued, in one or a few lines.
    pub summary: String,
    /// The verdict of each cluster at this moment.
    pub clusters: Vec<ClusterVerdict>,
}

/// How the scheduler behaves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Settings {
    /// Every setting but the policies.
    pub items: Vec<Setting>,
    /// How clusters are filtered and scored, in order.
    pub policies: Vec<Policy>,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Setting {
    /// Its name in `scheduler:`.
    #[schema(example = "submission_interval")]
    pub name: String,
    /// Its value.
    #[schema(example = "40s")]
    pub value: String,
    /// Its default.
    pub default: String,
    /// Where the value comes from.
    #[serde(default)]
    pub from: SettingSource,
    /// Its environment variable.
    #[schema(example = "SCHEDULER_SUBMISSION_INTERVAL")]
    pub env: String,
    /// What it means.
    pub doc: String,
}

/// Where the value of a setting comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettingSource {
    /// It is the default, or the file says the same.
    #[default]
    Default,
    /// The configuration file.
    File,
    /// An environment variable of the control plane, which overrides the file.
    Environment,
}

impl SettingSource {
    /// The source as text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            SettingSource::Default => "default",
            SettingSource::File => "file",
            SettingSource::Environment => "environment",
        }
    }
}

/// The result of a reload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reloaded {
    /// Clusters in the file, and in the files of its `cluster_files`.
    pub clusters: usize,
    /// Warnings about the file.
    pub warnings: Vec<String>,
    /// Errors of files of `cluster_files`, each with its line and a hint: what was last valid in them
    /// stays in force.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

/// The control plane that answers.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Version {
    /// The version of the control plane.
    #[schema(example = "0.1.0")]
    pub version: String,
    /// The version of this API.
    #[schema(example = "v1")]
    pub api: String,
    /// The id of the control plane, made once per state directory.
    pub plane: String,
    /// When it started.
    pub started_at: u64,
    /// The operating system and the processor of its machine.
    #[serde(default)]
    #[schema(example = "linux x86_64")]
    pub platform: String,
    /// The owner of the caller's token, if tokens are used.
    pub owner: Option<String>,
    /// The role of that token: `read`, `submit` or `admin`.
    #[schema(example = "submit")]
    pub role: Option<String>,
}

/// The latest lines of the control plane's own log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecentLog {
    /// The lines, the oldest first.
    pub lines: Vec<String>,
    /// How many older lines are no longer kept.
    pub omitted: u64,
}
