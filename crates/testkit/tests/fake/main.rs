//! The fake behaves as Ray was measured to, and fails as it is told to.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod client;
mod faults;
mod fleet;
mod jobs;
mod resources;
mod tail;
