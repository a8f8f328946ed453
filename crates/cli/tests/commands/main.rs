//! Every command against a real control plane over fake clusters: what it prints as a table and
//! as JSON, and its main error.
//!
//! What differs from run to run (moments, lengths of time, ports, gaps between columns) is
//! replaced before it is compared: see `world.rs`. `INSTA_UPDATE=always cargo test -p
//! multicluster-cli --test commands` writes the snapshots anew.

#![expect(clippy::unwrap_used, reason = "a test")]

mod clusters;
mod config;
mod events;
mod jobs;
mod policies;
mod replay;
mod submit;
mod token;
mod world;
