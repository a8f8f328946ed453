//! The rules for a store, with PostgreSQL, and those that only several replicas have.
//!
//! Each run starts a server of its own with `scripts/postgres`, and ends it. `VERSION=newest` takes the
//! newest PostgreSQL instead of Debian's, `POSTGRES_BIN` any other.

#![allow(missing_docs, clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests")]

mod backend;
mod copy;
mod crash;
mod fencing;
mod lead;
mod open;
mod packages;
mod proxy;
mod sealed;
mod server;

#[path = "../conformance/concurrent.rs"]
mod common_concurrent;
#[path = "../conformance/history.rs"]
mod common_history;
#[path = "../conformance/jobs.rs"]
mod common_jobs;
#[path = "../conformance/list.rs"]
mod common_list;
#[path = "../conformance/packages.rs"]
mod common_packages;
#[path = "../conformance/random.rs"]
mod common_random;
#[path = "../conformance/runs.rs"]
mod common_runs;
#[path = "../conformance/samples.rs"]
mod common_samples;
#[path = "../conformance/model.rs"]
mod model;
#[path = "../conformance/support.rs"]
mod support;
