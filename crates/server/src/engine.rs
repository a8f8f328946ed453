//! The engine: one loop that feeds the core, makes its output durable, and then performs it.
//!
//! - `driver` input → core → commit → effects
//! - `off_thread` runs work that would delay requests
//! - `events` what happened, for watchers · `samples` the last hour

pub(crate) mod driver;
pub(crate) mod events;
pub(crate) mod off_thread;
pub(crate) mod samples;
