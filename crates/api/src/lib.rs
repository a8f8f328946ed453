//! The wire types of the native API `/v1`: what is sent, what is answered, and why not.
//!
//! Shared by the server and the command line; the OpenAPI document is made of them. Names
//! and ids are plain text here: the server checks them. Moments are milliseconds since
//! the Unix epoch (`…_at`), lengths of time are seconds (`…_seconds`).

mod advice;
mod clusters;
mod decisions;
mod error;
mod history;
mod jobs;
mod lists;
mod owners;
mod placements;
mod plane;
mod policies;
mod replicas;
mod schema;
mod submit;

pub use advice::{Advice, AdviceLine, ClusterFullness, FinishedRun, Waits};
pub use clusters::{
    Breaker, Cluster, ClusterChanges, ClusterConnection, ClusterList, ClusterRequest, ConfigProblem,
    ConnectionView, Growth, Health, LimitsView, NoteRequest, Pool, Removed, Utilization,
};
pub use decisions::{
    ClusterVerdict, Decision, Explanation, InsideWork, PolicyScore, ReasonText, Turns, WhatIf,
};
pub use error::{Code, ErrorBody, codes};
pub use history::{ClusterHistory, History, PoolHistory, WaitHistory};
pub use jobs::{Attempt, Job, JobDetail, Logs, ResolvedJob};
pub use lists::{EventList, Page};
pub use owners::{OwnerShare, Owners};
pub use placements::{
    Granted, LeaseAnswer, LeaseAnswers, LeaseBeat, LeaseBeats, LeaseRelease, LeaseReleases, LeaseStatus,
    Placement, PlacementAnswer, PlacementAnswers, PlacementBatch, PlacementIds, PlacementRequest,
    PlacementState, Released,
};
pub use plane::{Queue, QueueHead, Queues, RecentLog, Reloaded, Setting, SettingSource, Settings, Version};
pub use policies::{Policy, PolicyList, PolicyRequest, PolicyTrial, PolicyTried, TriedWork};
pub use replicas::{Leader, Plane, ReplicaRole, ReplicaView, StoreKind};
pub use submit::{Accepted, BatchAnswer, BatchItem, BatchRequest, Duplicate, JobRequest};
