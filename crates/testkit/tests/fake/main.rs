//! The fake behaves as measured on Ray, and fails as configured.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod client;
mod faults;
mod fleet;
mod growth;
mod jobs;
mod resources;
mod tail;
