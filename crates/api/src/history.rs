//! How things stood: over the last hour, and over up to 31 days.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

/// Samples, oldest first. Every list has one item for each of `moments`. Of the last hour with `minutes`;
/// of stored steps with `since`, `until` or `step`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// Time between samples; more where the machine was suspended or the control plane did not run.
    #[schema(example = 15)]
    pub step_seconds: u64,
    /// When the last was taken; absent before the first.
    pub at: Option<u64>,
    /// When each was taken; of steps, when each began.
    pub moments: Vec<u64>,
    /// Cluster by cluster; those removed too, as long as a sample shows them.
    pub clusters: BTreeMap<String, ClusterHistory>,
    /// All clusters together.
    pub pool: PoolHistory,
    /// How long jobs waited; only of stored steps.
    pub waits: Option<WaitHistory>,
}

/// How long the jobs waited that first ran in each step. Of jobs that have ended; steps without one are left
/// out, so it has moments of its own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WaitHistory {
    /// When each step began.
    pub moments: Vec<u64>,
    /// How many jobs started.
    pub jobs: Vec<u64>,
    /// Half of them waited no longer than this, in seconds.
    pub p50: Vec<f64>,
    /// 90 % of them, likewise.
    pub p90: Vec<f64>,
    /// 99 % of them, likewise.
    pub p99: Vec<f64>,
}

/// One cluster. `null` where it was not registered, or nothing was known about it. Of a step, shares are its
/// mean and counts its highest.
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
    /// Did it answer, all the time?
    pub healthy: Vec<Option<bool>>,
}

impl ClusterHistory {
    /// Nothing is known at as many moments.
    #[must_use]
    pub fn unknown(moments: usize) -> Self {
        Self {
            cpu: vec![None; moments],
            gpu: vec![None; moments],
            memory: vec![None; moments],
            live: vec![None; moments],
            waiting: vec![None; moments],
            healthy: vec![None; moments],
        }
    }
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
