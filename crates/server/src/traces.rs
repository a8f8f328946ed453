//! One OpenTelemetry trace per job, sent by OTLP once the job has ended. Off unless an endpoint is
//! configured.
//!
//! - `context` the ids of a job's trace: computed from the job, so that a restart uses the same
//! - `target` where traces are sent
//! - `spans` a job's history as spans
//! - `export` follows the events, and sends the traces of jobs that ended
//!
//! Spans are written as OTLP's JSON, a stable encoding that every collector accepts, with the HTTP
//! client that is here already. OpenTelemetry's SDK makes spans while something happens, in one
//! process; our spans come from the store, afterwards, with ids of their own.

mod context;
mod export;
mod spans;
mod target;

pub(crate) use context::{JobTrace, of_headers};
pub(crate) use export::Exporter;
pub(crate) use target::Target;
