//! The scheduler as a pure state machine.
//!
//! [`Core::handle`] takes one [`Input`] and returns an [`Output`]: the writes to make durable,
//! the requests to send to the clusters after that, and the events to report. The core has no
//! clock, no file, no network and no randomness.
//!
//! Where to find what:
//! - `core` the state machine, and everything that changes several tables at once: the cycle, the
//!   only way a job changes, the inputs from callers, attempts, clusters and operators
//! - `look` the filters, each with its Reason, and the choice · `policy` the scores and the
//!   operator's expressions
//! - `queue` equivalence classes, order, bounds · `index` lookups by id
//! - `pool` the state per cluster · `jobs` per job · `timers` what is due when
//! - `ledger`, `breaker`, `drivers`, `pacer`, `nodes`, `reservation` one rule each
//! - `record` the durable records, and the only function that changes a live attempt
//! - `input`, `output`, `error` the interface

mod breaker;
mod core;
mod drivers;
mod error;
mod growth;
mod index;
mod input;
mod jobs;
mod ledger;
mod look;
mod nodes;
mod output;
mod pacer;
mod payloads;
pub mod policy;
mod pool;
mod queue;
pub mod record;
mod reservation;
mod runs;
mod shares;
mod timers;

pub use crate::core::{
    Core,
    elastic::Growing,
    explain::{ClusterVerdict, Explanation, ForeignUse, Pushing, Unreachable, WhatIf},
    heads::{Head, QueueView},
    notices::Notice,
    rebuild::Durable,
    registry::{Trial, Tried},
    sharing::{SharerView, Turns},
    view::{CircuitState, ClusterView, GrowthView, HealthState},
};
pub use error::Refusal;
pub use input::{
    DispatchOutcome, Identity, Input, Listed, LookupOutcome, Observation, Parent, ReleaseOutcome, Run,
    RunStatus, Submission,
};
pub use output::{
    Accepted, ClusterChange, ConfigChange, CycleStats, Duplicate, Effect, Event, Impossible, Output,
    PolicyChange, Reply, Write,
};
pub use queue::{QueueKind, QueueName};
