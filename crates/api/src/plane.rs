//! The control plane itself: queues, settings, version.

use multicluster_types::{Kind, Resources};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{ClusterVerdict, Policy, schema};

/// What waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Queues {
    /// In all queues.
    pub waiting: u64,
    /// Queue by queue; those never used are left out.
    pub items: Vec<Queue>,
}

/// One queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Queue {
    /// `jobs`, `tasks`, or one of a cluster such as `jobs@mac`.
    #[schema(example = "jobs@mac")]
    pub name: String,
    /// `jobs` or `tasks`.
    #[schema(example = "jobs")]
    pub kind: String,
    /// The cluster whose own queue it is; absent: the global one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// How many wait in it.
    pub waiting: u32,
    /// How many may.
    pub limit: u32,
    /// Those whose turn is next, at most 20 (fewer in pools of very many clusters): the first of
    /// each shape. What was tried and backs off has no turn yet.
    pub heads: Vec<QueueHead>,
    /// How many shapes are not shown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_heads: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The first of those that ask for the same: when it is placed, the next of them is looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueueHead {
    /// Its id.
    pub id: String,
    /// What kind of work.
    #[schema(schema_with = schema::kind)]
    pub kind: Kind,
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
    /// Since when it waits.
    pub queued_at: u64,
    /// How many of this same shape wait, this one included.
    pub waiting: u32,
    /// Why it waits, in one or a few lines.
    pub summary: String,
    /// What each cluster would say to it now.
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
    /// What it is.
    #[schema(example = "40s")]
    pub value: String,
    /// What it is when nobody says anything.
    pub default: String,
    /// Its name in the environment.
    #[schema(example = "SCHEDULER_SUBMISSION_INTERVAL")]
    pub env: String,
    /// What it means.
    pub doc: String,
}

/// What a reload came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reloaded {
    /// Clusters in the file.
    pub clusters: usize,
    /// What is worth a second look.
    pub warnings: Vec<String>,
}

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Version {
    /// Of the control plane.
    #[schema(example = "0.1.0")]
    pub version: String,
    /// Of this API.
    #[schema(example = "v1")]
    pub api: String,
    /// Which control plane: made once per state directory.
    pub plane: String,
    /// When it started.
    pub started_at: u64,
    /// Who asks, where there are tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// What their token is good for: `read`, `submit` or `admin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "submit")]
    pub role: Option<String>,
}
