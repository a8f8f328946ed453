//! The engine: one loop that feeds the core, makes what came out durable, and lets it happen.
//!
//! - `driver` input → core → commit → effects
//! - `off_thread` work that would hold up requests
//! - `events` what happened, for watchers · `samples` how things stood in the last hour

pub(crate) mod driver;
pub(crate) mod events;
pub(crate) mod off_thread;
pub(crate) mod samples;
