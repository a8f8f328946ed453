//! Every command against a real control plane over fake clusters: its output as a table and as
//! JSON, and its main error.
//!
//! Values that differ between runs (times, durations, ports, gaps between columns) are replaced
//! before the comparison: see `world.rs`. To rewrite the snapshots:
//! `INSTA_UPDATE=always cargo test -p multicluster-cli --test commands`.

#![expect(clippy::unwrap_used, reason = "a test")]

mod advise;
mod clusters;
mod completions;
mod config;
mod debug_dump;
mod door;
mod events;
mod jobs;
mod key;
mod mcp;
mod owners;
mod policies;
mod replay;
mod replicas;
mod store;
mod submit;
mod token;
mod world;
