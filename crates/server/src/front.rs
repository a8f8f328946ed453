//! Everything that callers reach: both APIs and the console, access control, and bounds.
//!
//! - `http` routes, bodies, views · `plane` the handle that routes hold
//! - `logs` the output of a job, from its cluster or from our copy
//! - `submission` checks submissions
//! - `reload` the configuration, read again
//! - `advice` the history, replayed under other settings
//! - `standing` which part this process has among replicas · `relay` answers as if this one led
//! - `access` who may do what · `bounds` how much at once · `usage` whether anyone is served

pub(crate) mod access;
pub(crate) mod advice;
pub(crate) mod bounds;
pub(crate) mod http;
pub(crate) mod logs;
pub(crate) mod plane;
pub(crate) mod relay;
pub(crate) mod reload;
pub(crate) mod standing;
pub(crate) mod submission;
pub(crate) mod usage;
