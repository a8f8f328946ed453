//! What callers reach: both APIs and the console, who may ask for what, and how much at once.
//!
//! - `http` routes, bodies, views · `plane` the handle that routes hold
//! - `logs` what a job printed, from its cluster or from our copy
//! - `submission` what a caller asked for, checked
//! - `reload` the configuration, read again
//! - `access` who may ask for what · `bounds` how much at once · `usage` whether anyone is served

pub(crate) mod access;
pub(crate) mod bounds;
pub(crate) mod http;
pub(crate) mod logs;
pub(crate) mod plane;
pub(crate) mod reload;
pub(crate) mod submission;
pub(crate) mod usage;
