//! The rules for a store. Each rule is one test over a [`support::TestStore`], here with SQLite; `tests/postgres`
//! runs the same with PostgreSQL.

#![allow(missing_docs, clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests")]

mod backend;
mod concurrent;
mod crash;
mod earlier;
mod history;
mod jobs;
mod list;
mod model;
mod on_disk;
mod packages;
mod random;
mod runs;
mod samples;
mod sealed;
mod support;
