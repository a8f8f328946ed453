//! Everything that talks to Ray clusters.
//!
//! - `lanes` one per cluster: polls it, sends to it, watches it
//! - `resolve` builds the request that one cluster is sent for one job
//! - `sdk` the Python SDK, for clusters that have not installed it

pub(crate) mod lanes;
pub mod resolve;
pub(crate) mod sdk;
