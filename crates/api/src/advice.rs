//! What would have shortened the waits, and the history it is computed from.

use multicluster_types::Resources;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::schema;

/// What would have shortened the waits of the last days, by replaying them under other settings.
/// Nothing is changed.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Advice {
    /// `working`: ask again, it is not complete yet. `done`: this is all.
    #[schema(example = "done")]
    pub state: String,
    /// How many replays were made so far, and how many are planned.
    pub tried: u32,
    /// See `tried`.
    pub of: u32,
    /// How far back, in days.
    pub days: u32,
    /// When it was computed; the rest is absent or empty until then.
    pub at: Option<u64>,
    /// How many jobs were replayed.
    pub jobs: u64,
    /// Is that too little to rely on: fewer than 100 jobs, or less than a day?
    pub little: bool,
    /// The same in words: `4,812 jobs in 14 d`.
    pub basis: String,
    /// How long jobs wait, and whether anything would help.
    pub summary: String,
    /// How long the same jobs really waited, on average.
    pub waited_seconds: Option<f64>,
    /// How long they wait in the replay with the present settings.
    pub waits: Option<Waits>,
    /// What would have been better. Settings first, then clusters, then owners; of each, the best first.
    pub items: Vec<AdviceLine>,
    /// What the figures leave out.
    pub notes: Vec<String>,
}

/// Something that would have been better.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AdviceLine {
    /// `settings`, `cluster` or `owners`.
    #[schema(example = "settings")]
    pub kind: String,
    /// In words, with its figures.
    #[schema(example = "resource_threshold 0.7 → 0.9: mean wait 41 min → 6 min, mac at most 88 % full")]
    pub text: String,
    /// How sure it is.
    #[schema(example = "4,812 jobs in 14 d, better in both halves")]
    pub sure: String,
    /// The change, as `replay --set` takes it; absent if nothing that was tried helps.
    #[schema(example = "resource_threshold=0.9")]
    pub set: Option<String>,
    /// The command that shows all figures of it.
    #[schema(example = "ray-multicluster replay --since 14d --set resource_threshold=0.9")]
    pub command: Option<String>,
    /// How long jobs would have waited.
    pub waits: Option<Waits>,
    /// How full each cluster would have been.
    pub clusters: Vec<ClusterFullness>,
}

/// From submission to running.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Waits {
    /// On average.
    pub mean_seconds: f64,
    /// Half of the jobs waited at most this long.
    pub median_seconds: f64,
    /// 95 % of them.
    pub p95_seconds: f64,
    /// All of them.
    pub longest_seconds: f64,
}

/// How full a cluster would have been, by the resource that was used most.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterFullness {
    /// The cluster.
    pub cluster: String,
    /// `CPU`, `GPU` or `memory`.
    pub resource: String,
    /// On average, 0 to 1.
    pub mean: f64,
    /// At most, 0 to 1.
    pub peak: f64,
}

/// A job that ran to its end. Kept for up to 31 days, also when the job itself is forgotten.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FinishedRun {
    /// The job, if it is still stored.
    pub id: Option<String>,
    /// When the job was submitted.
    pub submitted_at: u64,
    /// When it was first seen running.
    pub started_at: u64,
    /// When it ended.
    pub ended_at: u64,
    /// How long its last attempt ran; 0 if it was too short to be seen running.
    pub ran_seconds: f64,
    /// `succeeded`, `failed` or `stopped`.
    pub state: String,
    /// The cluster of its last attempt.
    pub cluster: String,
    /// Who submitted it.
    pub owner: Option<String>,
    /// Its priority.
    pub priority: i32,
    /// Its demand.
    #[schema(schema_with = schema::resources)]
    pub demand: Resources,
    /// The part of it that its driver reserves, if that is not all.
    #[schema(schema_with = schema::resources)]
    pub reserves: Option<Resources>,
    /// Its tags.
    pub tags: Vec<String>,
    /// The cluster that it named.
    pub preferred_cluster: Option<String>,
    /// Was that cluster required?
    pub required: bool,
    /// Was it submitted from inside a scheduled job?
    pub inside: bool,
}
