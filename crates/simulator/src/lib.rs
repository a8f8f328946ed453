//! What would the pool do with this workload? The real scheduler core runs on virtual time over
//! virtual clusters: an hour of work takes milliseconds, and no real cluster is touched.
//!
//! ```text
//! CSV, SWF ─ workload ─┐  ┌ engine ⇄ Core::handle ┐
//!     seed ─ generate ─┼──┤          fleet         ├─ report, quality ─ text, JSON
//!     pool ─ variant ──┘  └ baselines ─────────────┘
//! ```
//!
//! **Real**: every decision. Queues, filters, policies, spacing, thresholds, the
//! ledger and starvation are the production code, fed by the same inputs.
//!
//! **Modelled**: the clusters. A run starts [`Timing::start`] after it was sent,
//! takes exactly its duration, and shows in the cluster's usage
//! [`Timing::usage`] late, as Ray's does. A cluster that has no room keeps a run
//! pending, as Ray does. A cluster may have nodes: then work is put on them by best fit, and polls
//! show what each has free.
//!
//! **Beside it**: [`Baseline`]s, policies that people would use instead. A [`Lab`] runs them and the
//! core on the same clusters, and measures both the same way.
//!
//! **Left out**: failures. Clusters always answer and no job is stopped, so settings that only
//! matter then (`snapshot_max_age`, `lease_ttl`, `breaker_*`, `retry_*`, …) change nothing here.
//! Hosts report no physical load, so `utilization: physical` is judged as `logical`.

mod advice;
mod baselines;
mod capacity;
mod engine;
mod fleet;
mod generate;
mod lab;
mod lineup;
mod nodes;
mod pool;
mod quality;
mod report;
mod setup;
pub mod text;
mod variant;
mod workload;

pub use advice::{About, Advice, Fullness, History, Line, Outcome, OwnerWait, Progress, Shift, advise};
pub use baselines::Baseline;
pub use capacity::{Capacities, CapacityError};
pub use engine::SimulationError;
pub use generate::{Synthetic, generate};
pub use lab::{Lab, LabError, Policy, Study};
pub use lineup::{OURS, lineup};
pub use nodes::Nodes;
pub use pool::{Pool, Timing, VirtualCluster};
pub use quality::{OwnerQuality, Percentiles, Quality};
pub use report::{ClusterReport, Counts, Distribution, NeverPlaced, Refused, Report, Run, Utilization, Why};
pub use setup::{Problem, Setup, SetupError};
pub use variant::{Change, Variant, VariantError};
pub use workload::{
    Arrival, FieldError, Loaded, OptionError, OwnerFrom, Processors, Reading, Spread, Workload, WorkloadError,
};

/// Runs the workload on the pool, to the end.
///
/// # Errors
/// If the core refuses the pool itself: a policy that cannot be used, or a cluster that is listed twice.
pub fn simulate(pool: &Pool, workload: &Workload) -> Result<Report, SimulationError> {
    let trace = engine::run(pool, &Nodes::default(), workload)?;
    Ok(Report::of(pool, workload, &trace))
}

/// The beginning of an input, for an error message.
fn excerpt(text: &str) -> String {
    text.chars().take(40).collect()
}
