//! Placements: the control plane grants a place, the caller runs its task or actor there.

use std::collections::BTreeMap;

use multicluster_types::{Kind, OnClusterLoss, Resources, State};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    ErrorBody, Explanation, schema,
    submit::{MAX_ITEMS, is_false, items, or_default},
};

/// A task or actor to be placed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlacementRequest {
    /// Its id; made if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `task` or `actor`.
    #[schema(schema_with = schema::placed_kind)]
    pub kind: Kind,
    /// What it needs of a cluster.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Resources::is_empty")]
    #[schema(schema_with = schema::demand)]
    pub demand: Resources,
    /// The cluster it should run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_cluster: Option<String>,
    /// Nowhere else, even if that cluster is down.
    #[serde(default, skip_serializing_if = "is_false")]
    pub required: bool,
    /// Tags that some cluster carries decide where it runs; others are labels.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schema(nullable)]
    pub tags: Vec<String>,
    /// The operating system of its cluster: `linux`, `macos`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// The processor architecture of its cluster: `x86_64`, `arm64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arch: Option<String>,
    /// Which nodes of its cluster may take it, by their labels, as Ray writes selectors.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(nullable)]
    pub label_selector: BTreeMap<String, String>,
    /// The caller's Ray: only clusters with the same will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ray_version: Option<String>,
    /// The caller's Python, of which the first two numbers count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python_version: Option<String>,
    /// Higher goes first; 0 unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// What happens when its cluster is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::own_on_cluster_loss)]
    pub on_cluster_loss: Option<OnClusterLoss>,
    /// The job it is submitted from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_job: Option<String>,
    /// The cluster that job runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_cluster: Option<String>,
}

/// Many tasks and actors in one request: one submission under the 40-second rule.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlacementBatch {
    /// Up to 10,000, accepted or refused each on its own.
    #[serde(deserialize_with = "items")]
    pub placements: Vec<PlacementRequest>,
}

impl PlacementBatch {
    /// The most placements of one request.
    pub const MAX: usize = MAX_ITEMS;
}

/// What became of each of many.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlacementAnswers {
    /// How many were accepted, duplicates included.
    pub accepted: usize,
    /// How many were refused.
    pub refused: usize,
    /// One for each, in order.
    pub results: Vec<PlacementAnswer>,
}

/// What became of one of many: a placement, or an error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlacementAnswer {
    /// It was accepted, and stands like this. Why it waits is told where one is asked for.
    Placement(Box<Placement>),
    /// It was not.
    Error(ErrorBody),
}

/// Where a placement stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Placement {
    /// Its id.
    pub id: String,
    /// `task` or `actor`.
    #[schema(schema_with = schema::placed_kind)]
    pub kind: Kind,
    /// What the caller may do.
    pub status: PlacementState,
    /// Its state as a job.
    #[schema(schema_with = schema::state)]
    pub state: State,
    /// Where it may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted: Option<Granted>,
    /// Why it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Explanation>,
    /// How it ended, or what went wrong last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What the caller of a placement may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlacementState {
    /// Wait.
    Queued,
    /// Run it there, and send heartbeats.
    Granted,
    /// Nothing: it is over.
    Ended,
}

/// A place to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Granted {
    /// On which cluster.
    pub cluster: String,
    /// Which try; goes with every heartbeat and the release.
    pub attempt: u32,
    /// The cluster's Ray Client address; absent if the cluster is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_address: Option<String>,
    /// Somebody wants it stopped: give it up.
    pub stopping: bool,
    /// The grant ends this long after the last heartbeat.
    pub lease_seconds: u64,
    /// For this long after the grant, tasks of the same request may follow each other in this
    /// place without asking again; 0 where submissions are spaced.
    pub reuse_seconds: u64,
}

/// Whose holders are alive.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseBeats {
    /// Up to 10,000.
    #[serde(deserialize_with = "items")]
    pub leases: Vec<LeaseBeat>,
}

/// One placement that somebody holds or waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseBeat {
    /// Its id.
    pub id: String,
    /// The try that is held; absent or 0: its caller waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = Int64, maximum = 4_294_967_295_u32)]
    pub attempt: Option<u32>,
}

/// Who is done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseReleases {
    /// Up to 10,000.
    #[serde(deserialize_with = "items")]
    pub leases: Vec<LeaseRelease>,
}

/// One placement that is given back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseRelease {
    /// Its id.
    pub id: String,
    /// The try that was held; absent or 0: it is withdrawn, wherever it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = Int64, maximum = 4_294_967_295_u32)]
    pub attempt: Option<u32>,
    /// How it went.
    pub outcome: Released,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Some placements.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlacementIds {
    /// Up to 10,000.
    #[serde(deserialize_with = "items")]
    pub ids: Vec<String>,
}

/// How each of many leases stands, in the order of the request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeaseAnswers {
    /// One for each.
    pub leases: Vec<LeaseAnswer>,
}

/// How one lease stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeaseAnswer {
    /// Its id.
    pub id: String,
    /// As it was given; with `granted`, the try that was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// What to make of it.
    pub status: LeaseStatus,
}

/// What the holder of a lease, or whoever waits for one, should know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LeaseStatus {
    /// It is held.
    Alive,
    /// Somebody wants it stopped: give it up.
    Stopping,
    /// It waits, and is waited for.
    Queued,
    /// It was waited for, and is granted by now: see `GET /v1/placements/{id}`.
    Granted,
    /// It is given back.
    Released,
    /// There is no such lease, or not any more.
    Gone,
}

/// How the holder of a placement fared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Released {
    /// It is done.
    Succeeded,
    /// It ran and failed.
    Failed,
    /// The cluster could not be reached: it never ran.
    Unreachable,
    /// It was given up.
    Stopped,
}
