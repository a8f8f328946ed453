//! How things stood over the last hour.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Samples of the last hour, oldest first. Every list has one item for each of `moments`. Kept
/// in memory: it begins with the control plane.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// How far samples are apart; further where the machine slept.
    #[schema(example = 15)]
    pub step_seconds: u64,
    /// When the last was taken; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// When each was taken.
    pub moments: Vec<u64>,
    /// Cluster by cluster; those removed too, as long as a sample shows them.
    pub clusters: BTreeMap<String, ClusterHistory>,
    /// All of them as one.
    pub pool: PoolHistory,
}

/// One cluster. `null` where it was not there, or nothing was known of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterHistory {
    /// CPUs given out and promised, as a share of the total.
    pub cpu: Vec<Option<f64>>,
    /// GPUs, likewise.
    pub gpu: Vec<Option<f64>>,
    /// Memory, likewise.
    pub memory: Vec<Option<f64>>,
    /// Our work on it.
    pub live: Vec<Option<u64>>,
    /// What waits in its own queues.
    pub waiting: Vec<Option<u64>>,
    /// Did it answer?
    pub healthy: Vec<Option<bool>>,
}

/// The pool: how much there was at each moment, and what happened since the one before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolHistory {
    /// What waited in all queues.
    pub waiting: Vec<u64>,
    /// Our work on all clusters.
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
