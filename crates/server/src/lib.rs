//! The control plane: driver, lanes, HTTP.
//!
//! - `driver` the one loop: input → core → commit → effects
//! - `lanes` one per cluster: polls it, sends to it, watches it
//! - `resolve` what one cluster is sent for one job
//! - `submission` what a caller asked for, checked
//! - `logs` what a job printed, from its cluster or from our copy
//! - `plane` all of it together, as the HTTP routes see it
//! - `access` who may ask for what · `bounds` how much at once
//! - `http` both APIs and the console · `events`, `metrics`, `history` what is told
//! - `serve` start, reload, stop · `usage` whether anybody needs us · `clock` the time
//! - `sdk` the Python SDK, for clusters that have not installed it · `soak` a day under load

mod access;
mod bounds;
mod clock;
mod driver;
mod events;
mod history;
mod http;
mod lanes;
mod logs;
mod metrics;
mod plane;
pub mod resolve;
mod sdk;
mod serve;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod soak;
mod submission;
mod usage;

pub use access::{Role, Token, Tokens};
pub use driver::{Driver, Failure, NewJob};
pub use multicluster_types::{Span, settings::Rate};
pub use plane::Plane;
pub use serve::{
    LogFormat, Options, ReloadError, Reloaded, Reloader, Started, TlsFiles, serve, start, start_logging,
};
