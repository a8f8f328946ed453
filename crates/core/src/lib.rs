//! The scheduler as a pure state machine.
//!
//! [`Core::handle`] takes one [`Input`] and returns an [`Output`]: what must be
//! made durable, what must then be asked of the clusters, and what may be told.
//! There is no clock, no file, no network and no randomness in here.
//!
//! Where to find what:
//! - `core` the state machine, and all that changes several tables at once: the cycle, the
//!   one way a job changes, what callers, attempts, clusters and operators do
//! - `look` the filters, each with its Reason, and the choice · `policy` the scores and the
//!   operator's expressions
//! - `queue` equivalence classes, order, bounds · `index` who could be next
//! - `pool` what is known per cluster · `jobs` per job · `timers` what is due when
//! - `ledger`, `breaker`, `drivers`, `pacer`, `nodes` one rule each
//! - `record` what is durable, and the one function that changes a live attempt
//! - `input`, `output`, `error` what goes in and comes out

mod breaker;
mod core;
mod drivers;
mod error;
mod index;
mod input;
mod jobs;
mod ledger;
mod look;
mod nodes;
mod output;
mod pacer;
pub mod policy;
mod pool;
mod queue;
pub mod record;
mod timers;

pub use crate::core::{
    Core,
    explain::{ClusterVerdict, Explanation, Unreachable, WhatIf},
    heads::{Head, QueueView},
    rebuild::Durable,
    registry::{Trial, Tried},
    view::{CircuitState, ClusterView, HealthState},
};
pub use error::Refusal;
pub use input::{
    DispatchOutcome, Identity, Input, LookupOutcome, Observation, Parent, ReleaseOutcome, Run, RunStatus,
    Submission,
};
pub use output::{
    Accepted, ClusterChange, CycleStats, Duplicate, Effect, Event, Impossible, Output, PolicyChange, Reply,
    Write,
};
pub use queue::{QueueKind, QueueName};
