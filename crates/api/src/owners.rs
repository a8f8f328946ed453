//! Who shares the pool.

use multicluster_types::Resources;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::schema;

/// The owners and groups of owners that share the pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Owners {
    /// How long it takes until use counts half.
    pub half_life_seconds: u64,
    /// When this was computed.
    pub at: u64,
    /// Those with queued work first, in the order of their turns. At most 1,000.
    pub items: Vec<OwnerShare>,
    /// How many more there are.
    pub more: u32,
}

/// One owner, or one group of owners. Shares of the pool are 0 to 1, of the resource of which the
/// share is largest.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OwnerShare {
    /// The owner or group; absent: all work without an owner.
    pub name: Option<String>,
    /// The owners in the group; empty: a single owner. A caller that sees its own work only is not
    /// shown the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
    /// Its part of the pool, beside the weights of the others.
    pub weight: f64,
    /// The share that its weight stands for, among all that have running or queued work.
    pub entitled: f64,
    /// The share that it had on average over the half-life.
    pub had: f64,
    /// The share that its running work has now.
    pub holds: f64,
    /// What its running work needs: CPU, GPU, memory.
    #[schema(schema_with = schema::resources)]
    pub held: Resources,
    /// The most that it may have at once; a resource that is not named has no limit.
    #[schema(schema_with = schema::resources)]
    pub limit: Resources,
    /// How many of its jobs, tasks and actors may be queued; absent: as many as fit.
    pub max_queued: Option<u32>,
    /// The highest priority that it may ask for; absent: any.
    pub max_priority: Option<i32>,
    /// Its work may stop preemptible work of others that have more than their share.
    pub preempts: bool,
    /// How many of its jobs, tasks and actors are on clusters.
    pub live: u32,
    /// How many are queued.
    pub queued: u32,
    /// Since when the one that has waited longest is queued.
    pub queued_at: Option<u64>,
    /// Its id, if the caller may see it.
    pub queued_job: Option<String>,
    /// Its place among those with queued work: 1 is next. Absent if nothing of it can be placed now.
    pub turn: Option<u32>,
    /// In words.
    pub text: String,
}
