//! Why something is where it is.

use multicluster_types::{Resources, State, VerdictKind};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::schema;

/// Why a job is where it is, and what it waits for.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// The id of the job.
    pub id: String,
    /// Its state.
    #[schema(schema_with = schema::state)]
    pub state: State,
    /// When this was computed.
    pub at: u64,
    /// The explanation in one or a few lines.
    pub summary: String,
    /// The queue it waits in: `jobs`, `tasks`, or one of a cluster such as `jobs@mac`.
    pub queue: Option<String>,
    /// How many jobs of that queue come before it (counted up to 10,000).
    pub ahead: Option<usize>,
    /// The scheduler does not consider it before this moment.
    pub not_before_at: Option<u64>,
    /// The last error.
    pub last_error: Option<String>,
    /// Set if work of another owner goes first. Also in the summary.
    pub turns: Option<Turns>,
    /// The cluster that it is on.
    pub cluster: Option<String>,
    /// The number of the attempt.
    pub attempt: Option<u32>,
    /// If it is queued: the verdict of each cluster at this moment.
    pub clusters: Vec<ClusterVerdict>,
    /// If it is running: tasks and actors that it started itself and that its cluster has no room for.
    /// Also in the summary.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inside: Vec<InsideWork>,
}

/// Why work of another owner goes first: shares of the pool are 0 to 1.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Turns {
    /// The owner of the job, or the owner's group.
    pub owner: String,
    /// The share that its weight stands for.
    pub entitled: f64,
    /// The share that it had on average over the half-life.
    pub had: f64,
    /// The share that its running work has now.
    pub holds: f64,
    /// How long it takes until use counts half.
    pub half_life_seconds: u64,
    /// The owner or group that goes first. Absent if it has no name, or if the caller may not see
    /// work of others.
    pub next: Option<String>,
    /// In words.
    pub text: String,
}

/// Tasks or actors of a running job that request the same resources and cannot start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InsideWork {
    /// `task` or `actor`.
    #[schema(example = "actor")]
    pub kind: String,
    /// How many there are.
    pub count: usize,
    /// The names of the first of them.
    pub names: Vec<String>,
    /// What each requests on one node.
    #[schema(schema_with = schema::resources)]
    pub asks: Resources,
    /// In words: what they request, what is free, and what the job's driver holds.
    pub text: String,
}

/// The verdict of one cluster on a job, task or actor.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterVerdict {
    /// Its name.
    pub cluster: String,
    /// `chosen`: it got the job. `eligible`: it could run the job. `rejected`: it cannot.
    #[schema(schema_with = schema::verdict)]
    pub verdict: VerdictKind,
    /// 0..1, higher is better; only for clusters that could run it.
    pub score: Option<f64>,
    /// By how many nodes the cluster has to grow for it; absent if it has the room.
    pub grows_by: Option<u32>,
    /// The reason as a stable word.
    #[schema(example = "too_soon")]
    pub reason: Option<String>,
    /// The numbers behind the reason.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    #[schema(schema_with = schema::anything)]
    pub details: serde_json::Map<String, serde_json::Value>,
    /// The verdict in words: of a rejection, the reason that counts most. One that does not go away
    /// by itself counts more than one that does.
    pub text: String,
    /// The other reasons of a rejection. Not in decisions, which keep one reason for each cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<ReasonText>,
    /// The score of each policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PolicyScore>,
}

/// A reason, short and in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReasonText {
    /// The reason as a stable word.
    #[schema(example = "cordoned")]
    pub reason: String,
    /// The reason in words.
    pub text: String,
}

/// The score that one policy gave one cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PolicyScore {
    /// Its name.
    pub policy: String,
    /// 0..1.
    pub score: f64,
}

/// Why an attempt went to its cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Decision {
    /// The id of the job.
    pub job: String,
    /// The number of the attempt.
    pub attempt: u32,
    /// When it was made.
    pub at: u64,
    /// The cluster that was chosen.
    pub cluster: String,
    /// The verdict of every cluster.
    pub clusters: Vec<ClusterVerdict>,
}

/// What would happen to a job that is submitted now.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WhatIf {
    /// The cluster that it would go to at once; absent if it would be queued or refused.
    pub chosen: Option<String>,
    /// Why it would be refused.
    pub refused: Option<String>,
    /// What the caller may not have meant, as in the answer to a submission.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
    /// The verdict of each cluster.
    pub clusters: Vec<ClusterVerdict>,
}
