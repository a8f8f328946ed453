//! What would have shortened the waits? The past of a pool is replayed under other settings, and those
//! that matter are named with their figures.
//!
//! - `trial` one replay, and what is kept of it
//! - `ideas` what is worth a trial in this pool
//! - `search` which ideas are tried, and which of them matter
//! - `words` all of it as text, in both languages

mod ideas;
mod search;
mod trial;
mod words;

use std::time::Duration;

use multicluster_types::{ClusterName, Owner, Span};

use crate::{Lab, Percentiles, SimulationError, Variant, Workload};

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// What was replayed.
    pub history: History,
    /// What the present settings make of it.
    pub now: Outcome,
    /// What would have been better, best first.
    pub lines: Vec<Line>,
    /// The cluster that was the fullest on average.
    pub fullest: Option<Fullness>,
    /// How many trials were made, and how many were planned.
    pub trials: Progress,
    /// There was no time for some of them.
    pub is_late: bool,
}

/// How much was replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct History {
    /// How many jobs.
    pub jobs: u64,
    /// From the first submission to the last.
    pub over: Span,
    /// Earlier jobs that were left out, because there was no time for them.
    pub left_out: u64,
}

/// How far the work is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Trials that are done.
    pub done: u32,
    /// All trials that are planned so far.
    pub of: u32,
}

/// What one replay gave. Times are in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// From submission to running.
    pub wait_s: Percentiles,
    /// The mean wait of the first and of the second half of the jobs.
    pub halves_s: [f64; 2],
    /// Jobs that ran to the end.
    pub finished: u64,
    /// How full each cluster was, in the order of the pool.
    pub clusters: Vec<Fullness>,
    /// Owners and groups, by name.
    pub owners: Vec<OwnerWait>,
}

/// How full a cluster was: of the resource of which the largest share was in use.
#[derive(Debug, Clone, PartialEq)]
pub struct Fullness {
    /// Which cluster.
    pub cluster: ClusterName,
    /// Of what: `CPU`, `GPU`, `memory`.
    pub resource: String,
    /// On average, 0..1.
    pub mean: f64,
    /// At most, 0..1.
    pub peak: f64,
}

/// How long the jobs of an owner or a group waited.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnerWait {
    /// The owner or group.
    pub owner: Owner,
    /// How many jobs ran.
    pub jobs: u64,
    /// The mean wait in seconds.
    pub mean_s: f64,
}

/// One piece of advice.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// What it is about.
    pub about: About,
    /// The change, as `replay --set` takes it. `None`: nothing that was tried helps.
    pub set: Option<Variant>,
    /// What it gave.
    pub after: Option<Outcome>,
}

/// What a piece of advice is about.
#[derive(Debug, Clone, PartialEq)]
pub enum About {
    /// Other settings, one or several together.
    Settings(Vec<Shift>),
    /// One more cluster like this one.
    Cluster(ClusterName),
    /// An owner or a group that waits longer than another, and its weight now and then.
    Owners {
        /// Who waits longest.
        slow: Owner,
        /// Who waits least.
        fast: Owner,
        /// The change of the weight of `slow` that helps.
        weight: Option<Shift>,
    },
}

/// A setting, its value now and the other value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shift {
    /// The name, as in a [`Variant`].
    pub name: String,
    /// The value now.
    pub from: String,
    /// The other value.
    pub to: String,
}

/// Replays the past in at most this time, and says what would have been better. If that is too little
/// for all jobs, the latest are replayed.
///
/// # Errors
/// If the core refuses the pool.
pub fn advise(
    lab: &Lab,
    workload: &Workload,
    time: Duration,
    progress: &dyn Fn(Progress),
) -> Result<Advice, SimulationError> {
    search::search(lab, workload, time, progress)
}

impl Advice {
    /// Too little to rely on?
    #[must_use]
    pub fn is_little(&self) -> bool {
        self.history.jobs < 100 || self.history.over < Span::minutes(24 * 60)
    }
}

/// Is this enough of a difference to mention? A tenth, and at least ten seconds.
fn matters(before_s: f64, after_s: f64) -> bool {
    before_s - after_s >= 10.0 && after_s <= before_s * 0.9
}
