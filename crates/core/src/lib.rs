//! The scheduler as a pure state machine.
//!
//! [`Core::handle`] takes one [`Input`] and returns an [`Output`]: what must be
//! made durable, what must then be asked of the clusters, and what may be told.
//! There is no clock, no file, no network and no randomness in here.
//!
//! Where to find what:
//! - `cycle` the scheduling cycle, six phases in order
//! - `look` the filters, each with its Reason, and the choice
//! - `policy` the scores and the operator's expressions
//! - `queue` equivalence classes, order, bounds · `heads` what is next in each · `index` who could be next
//! - `pool` what is known per cluster · `jobs` per job · `timers` what is due when
//! - `ledger`, `breaker`, `drivers`, `pacer` one rule each
//! - `submit`, `attempts`, `leases`, `operate`, `registry` what callers, attempts, holders and operators do
//! - `explain` why · `view` what there is · `rebuild` after a crash · `record` what is durable

mod attempts;
mod breaker;
mod core;
mod cycle;
mod drivers;
mod error;
mod explain;
mod heads;
mod index;
mod input;
mod jobs;
mod leases;
mod ledger;
mod look;
mod nodes;
mod operate;
mod output;
mod pacer;
pub mod policy;
mod pool;
mod queue;
mod rebuild;
pub mod record;
mod registry;
mod submit;
mod timers;
mod view;

pub use crate::core::Core;
pub use error::Refusal;
pub use explain::{ClusterVerdict, Explanation, Unreachable, WhatIf};
pub use heads::{Head, QueueView};
pub use input::{
    DispatchOutcome, Identity, Input, LookupOutcome, Observation, Parent, ReleaseOutcome, RunStatus,
    Submission,
};
pub use output::{
    Accepted, ClusterChange, CycleStats, Duplicate, Effect, Event, Output, PolicyChange, Reply, Write,
};
pub use queue::{QueueKind, QueueName};
pub use rebuild::Durable;
pub use registry::{Trial, Tried};
pub use view::{CircuitState, ClusterView, HealthState};
