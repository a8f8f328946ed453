//! The control plane: three rooms and a porch. Imports go one way, from top to bottom;
//! `tests/rooms.rs` checks it.
//!
//! ```text
//! process    start, reload, stop, listen
//! front      what callers reach: HTTP, access, bounds, submission
//! engine     the one loop: input → core → commit → effects; events, logs, samples
//! clusters   what reaches clusters: lanes, resolution
//! problem · redact · metrics · clock · stamp    used by all
//! ```

mod clock;
mod clusters;
mod engine;
mod front;
mod metrics;
mod problem;
mod process;
mod redact;
mod stamp;

pub use clusters::{resolve, sdk::CONTENT as SDK};
pub use engine::driver::{Driver, Failure, NewJob};
pub use front::{
    access::{Role, Token, Tokens},
    plane::Plane,
    reload::{ReloadError, Reloaded, Reloader},
};
pub use multicluster_types::{Span, settings::Rate};
pub use process::{LogFormat, Options, Started, TlsFiles, serve, start, start_logging};
