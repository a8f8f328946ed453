//! Placements: the control plane grants a place, the caller runs its task or actor there.

use std::collections::BTreeMap;

use multicluster_types::{Kind, Resources, State};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::{
    ErrorBody, Explanation, schema,
    submit::{MAX_ITEMS, items, or_default, request},
};

request! {
    /// A task or actor to place.
    pub struct PlacementRequest {
        /// Its id; generated if absent.
        pub id: Option<String>,
        /// `task` or `actor`.
        #[schema(schema_with = schema::placed_kind)]
        pub kind: Kind,
        /// The resources that it needs.
        #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Resources::is_empty")]
        #[schema(schema_with = schema::demand)]
        pub demand: Resources,
        /// Which nodes it may run on, as a label selector of Ray.
        #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
        #[schema(nullable)]
        pub label_selector: BTreeMap<String, String>,
        /// The caller's Ray version: only clusters with the same version qualify.
        pub ray_version: Option<String>,
        /// The caller's Python version; major and minor must match.
        pub python_version: Option<String>,
        /// Refused if it is true: read only so that the answer can say why.
        #[serde(default, deserialize_with = "or_default", skip_serializing)]
        #[schema(ignore)]
        pub preemptible: bool,
    }
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

/// The result of a batch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlacementAnswers {
    /// How many were accepted, duplicates included.
    pub accepted: usize,
    /// How many were refused.
    pub refused: usize,
    /// One for each, in order.
    pub results: Vec<PlacementAnswer>,
}

/// The result of one item: a placement, or an error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlacementAnswer {
    /// It was accepted. `why` is only set when a single placement is read.
    Placement(Box<Placement>),
    /// It was refused.
    Error(ErrorBody),
}

/// A placement.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Placement {
    /// Its id.
    pub id: String,
    /// `task` or `actor`.
    #[schema(schema_with = schema::placed_kind)]
    pub kind: Kind,
    /// What the caller should do.
    pub status: PlacementState,
    /// Its state as a job.
    #[schema(schema_with = schema::state)]
    pub state: State,
    /// Where it may run; absent unless granted.
    pub granted: Option<Granted>,
    /// Why it is queued.
    pub why: Option<Explanation>,
    /// How it ended, or the last error.
    pub message: Option<String>,
    /// What the caller may not have meant, as for jobs. Only in the answer to its submission.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

/// What the caller of a placement should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlacementState {
    /// Wait.
    Queued,
    /// Run it there, and send heartbeats.
    Granted,
    /// Nothing: it has ended.
    Ended,
}

/// A place to run.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Granted {
    /// The cluster.
    pub cluster: String,
    /// The number of the attempt; send it with every heartbeat and the release.
    pub attempt: u32,
    /// The cluster's Ray Client address; absent if the cluster is gone.
    pub head_address: Option<String>,
    /// It is being stopped: release it.
    pub stopping: bool,
    /// The grant ends this long after the last heartbeat.
    pub lease_seconds: u64,
    /// For this long after the grant, tasks of the same request may reuse this placement
    /// without a new request; 0 where submissions are spaced.
    pub reuse_seconds: u64,
}

/// Heartbeats of placements.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseBeats {
    /// Up to 10,000.
    #[serde(deserialize_with = "items")]
    pub leases: Vec<LeaseBeat>,
}

/// One placement that a caller holds or waits for.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseBeat {
    /// Its id.
    pub id: String,
    /// The attempt that is held; absent or 0: the caller waits for it.
    #[schema(format = Int64, maximum = 4_294_967_295_u32)]
    pub attempt: Option<u32>,
}

/// Placements to release.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseReleases {
    /// Up to 10,000.
    #[serde(deserialize_with = "items")]
    pub leases: Vec<LeaseRelease>,
}

/// One placement to release.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseRelease {
    /// Its id.
    pub id: String,
    /// The attempt that was held; absent or 0: the placement is withdrawn in any state.
    #[schema(format = Int64, maximum = 4_294_967_295_u32)]
    pub attempt: Option<u32>,
    /// How it ended.
    pub outcome: Released,
    /// What went wrong.
    pub message: Option<String>,
}

/// Ids of placements.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlacementIds {
    /// Up to 10,000.
    #[serde(deserialize_with = "items")]
    pub ids: Vec<String>,
}

/// The state of each lease, in the order of the request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeaseAnswers {
    /// One for each item.
    pub leases: Vec<LeaseAnswer>,
}

/// The state of one lease.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeaseAnswer {
    /// Its id.
    pub id: String,
    /// As it was sent; with `granted`, the attempt that was granted.
    pub attempt: Option<u32>,
    /// Its state.
    pub status: LeaseStatus,
}

/// The state of a lease, for its holder or the caller that waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LeaseStatus {
    /// It is held.
    Alive,
    /// It is being stopped: release it.
    Stopping,
    /// It is queued.
    Queued,
    /// It is granted now: see `GET /v1/placements/{id}`.
    Granted,
    /// It is released.
    Released,
    /// There is no such lease, or it has ended.
    Gone,
}

/// How the work of a placement ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Released {
    /// It succeeded.
    Succeeded,
    /// It ran and failed.
    Failed,
    /// The cluster could not be reached: it never ran.
    Unreachable,
    /// It was stopped.
    Stopped,
}
