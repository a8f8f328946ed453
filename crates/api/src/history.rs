//! How things stood over the last hour.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

/// Samples of the last hour, oldest first. Every list has one item for each of `moments`. Kept
/// in memory since the control plane started.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// Time between samples; more where the machine was suspended.
    #[schema(example = 15)]
    pub step_seconds: u64,
    /// When the last was taken; absent before the first.
    pub at: Option<u64>,
    /// When each was taken.
    pub moments: Vec<u64>,
    /// Cluster by cluster; those removed too, as long as a sample shows them.
    pub clusters: BTreeMap<String, ClusterHistory>,
    /// All clusters together.
    pub pool: PoolHistory,
}

/// One cluster. `null` where it was not registered, or nothing was known about it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterHistory {
    /// CPUs given out and promised, as a share of the total.
    pub cpu: Vec<Option<f64>>,
    /// GPUs, likewise.
    pub gpu: Vec<Option<f64>>,
    /// Memory, likewise.
    pub memory: Vec<Option<f64>>,
    /// Jobs, tasks and actors on it.
    pub live: Vec<Option<u64>>,
    /// How much is queued for it alone.
    pub waiting: Vec<Option<u64>>,
    /// Did it answer?
    pub healthy: Vec<Option<bool>>,
}

/// The pool: how much there was at each moment, and what happened since the one before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolHistory {
    /// How much was queued in total.
    pub waiting: Vec<u64>,
    /// Jobs, tasks and actors on all clusters.
    pub live: Vec<u64>,
    /// Accepted since the sample before.
    pub submitted: Vec<u64>,
    /// First seen running, likewise; each attempt by itself.
    pub started: Vec<u64>,
    /// Succeeded, likewise.
    pub succeeded: Vec<u64>,
    /// Failed, likewise.
    pub failed: Vec<u64>,
    /// Stopped, likewise.
    pub stopped: Vec<u64>,
}
