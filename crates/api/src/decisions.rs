//! Why something is where it is.

use multicluster_types::{Resources, State};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// Why a job is where it is, and what it waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// Which job.
    pub id: String,
    /// Its state.
    #[schema(schema_with = schema::state)]
    pub state: State,
    /// Asked when.
    pub at: u64,
    /// All of it in one or a few lines.
    pub summary: String,
    /// The queue it waits in: `jobs`, `tasks`, or one of a cluster such as `jobs@mac`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// How many of that queue come first (counted up to 10,000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<usize>,
    /// It is not looked at before this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before_at: Option<u64>,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Which try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// If it waits: what each cluster would say to it now.
    pub clusters: Vec<ClusterVerdict>,
    /// If it runs: what it started on its cluster itself and Ray has no place for, as its
    /// cluster says now. Also in the summary.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inside: Vec<InsideWork>,
}

/// Tasks or actors of a running job that ask for the same and cannot start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InsideWork {
    /// `task` or `actor`.
    #[schema(example = "actor")]
    pub kind: String,
    /// How many.
    pub count: usize,
    /// What the first of them are called.
    pub names: Vec<String>,
    /// What each asks of one node.
    #[schema(schema_with = schema::resources)]
    pub asks: Resources,
    /// In words: what they ask for, what is free, and what the job's own driver holds.
    pub text: String,
}

/// What one cluster says to a piece of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterVerdict {
    /// Which.
    pub cluster: String,
    /// `chosen`, `eligible` or `rejected`.
    #[schema(example = "rejected")]
    pub verdict: String,
    /// 0..1, higher is better; of clusters that could take it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// A stable word for why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "too_soon")]
    pub reason: Option<String>,
    /// The numbers behind the reason.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    #[schema(schema_with = schema::anything)]
    pub details: serde_json::Map<String, serde_json::Value>,
    /// In words.
    pub text: String,
    /// What each policy gave.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PolicyScore>,
}

/// What one policy gave one cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PolicyScore {
    /// Which.
    pub policy: String,
    /// 0..1.
    pub score: f64,
}

/// Why one attempt went where it went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Decision {
    /// Which job.
    pub job: String,
    /// Which try.
    pub attempt: u32,
    /// When.
    pub at: u64,
    /// Where it went.
    pub cluster: String,
    /// What every cluster said.
    pub clusters: Vec<ClusterVerdict>,
}

/// What would become of a job if it were submitted now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WhatIf {
    /// Where it would go at once; absent: it would wait, or be refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// Why it would not even be accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What each cluster would say.
    pub clusters: Vec<ClusterVerdict>,
}
