//! The driver and its lanes over fake Ray clusters that misbehave.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod clusters;
mod dispatch;
mod head_safety;
mod ids;
mod logs;
mod restart;
mod retry;
mod tokens;
mod tombstones;
mod traces;
mod world;
