//! One job on a fake cluster.
//!
//! ```text
//! PENDING ──► RUNNING ──► SUCCEEDED | FAILED | STOPPED
//!    └──► FAILED (cannot start, missing package, start timeout)
//! ```

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::plan::Plan;
use crate::request::Request;

/// Ray's five job states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobStatus {
    /// Accepted; the entrypoint has not started.
    Pending,
    /// The entrypoint runs.
    Running,
    /// Stopped on request.
    Stopped,
    /// Exit code 0.
    Succeeded,
    /// Any other end.
    Failed,
}

impl JobStatus {
    /// As on the wire: `PENDING`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Running => "RUNNING",
            Self::Stopped => "STOPPED",
            Self::Succeeded => "SUCCEEDED",
            Self::Failed => "FAILED",
        }
    }

    /// Whether the job has ended.
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }
}

/// One POST to `/api/jobs/` that was carried out, accepted or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Submission {
    /// The id that the job got or would have got.
    pub submission_id: String,
    /// The request as it arrived, including nulls.
    pub request: Value,
    /// Whether it created a job: it was valid and not a duplicate.
    pub accepted: bool,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
}

/// A job as a test sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct FakeJob {
    /// The submission id.
    pub submission_id: String,
    /// The state.
    pub status: JobStatus,
    /// The node that runs or ran it; 0 is the head.
    pub node: Option<usize>,
    /// Whether a stop was requested.
    pub stop_requested: bool,
    /// The job as GET `/api/jobs/{id}` shows it.
    pub details: Value,
}

/// A job as the fake keeps it.
pub(crate) struct Job {
    pub(crate) request: Request,
    pub(crate) plan: Plan,
    pub(crate) status: JobStatus,
    pub(crate) submitted: Instant,
    /// `None` for a resurrected job.
    pub(crate) start_ms: Option<u64>,
    pub(crate) started: Option<Instant>,
    pub(crate) ends: Option<Instant>,
    pub(crate) end_ms: Option<u64>,
    pub(crate) node: Option<usize>,
    pub(crate) place: Option<Place>,
    pub(crate) stop_requested: bool,
    /// Why it will fail before it starts, if it will.
    pub(crate) doom: Option<Doom>,
    pub(crate) failure: Option<Failure>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) driver: Option<Driver>,
}

/// Where a job runs, as its details show. Independent of the node, which may be removed.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) node_id: String,
    pub(crate) node_ip: String,
}

#[derive(Clone)]
pub(crate) struct Doom {
    pub(crate) at: Instant,
    pub(crate) failure: Failure,
}

#[derive(Clone)]
pub(crate) struct Failure {
    pub(crate) error_type: &'static str,
    pub(crate) message: String,
}

/// The driver of a job or of a script beside the Jobs API.
#[derive(Clone)]
pub(crate) struct Driver {
    pub(crate) id: String,
    pub(crate) ip: String,
    pub(crate) pid: u32,
}

impl Driver {
    pub(crate) fn details(&self) -> Value {
        json!({"id": self.id, "node_ip_address": self.ip, "pid": self.pid.to_string()})
    }
}

impl Job {
    pub(crate) fn new(request: Request, plan: Plan, now: Instant, now_ms: u64) -> Self {
        Self {
            request,
            plan,
            status: JobStatus::Pending,
            submitted: now,
            start_ms: Some(now_ms),
            started: None,
            ends: None,
            end_ms: None,
            node: None,
            place: None,
            stop_requested: false,
            doom: None,
            failure: None,
            exit_code: None,
            driver: None,
        }
    }

    /// When it is ready to start.
    pub(crate) fn ready(&self) -> Option<Instant> {
        Some(self.submitted + self.plan.pending_for?)
    }

    /// The log without Ray's first lines: everything written until `now` or until the end.
    pub(crate) fn written(&self, now: Instant) -> String {
        let Some(started) = self.started else { return String::new() };
        let until = self.ends.map_or(now, |ends| ends.min(now)).saturating_duration_since(started);
        let parts = self.plan.output.iter().filter(|(after, _)| *after <= until);
        parts.map(|(_, text)| text.as_str()).collect()
    }

    /// Writes to the log from outside.
    pub(crate) fn write(&mut self, now: Instant, text: &str) {
        let after = self.started.map_or(Duration::ZERO, |started| now.saturating_duration_since(started));
        self.plan.output.push((after, text.to_owned()));
    }

    /// The 15 keys of Ray's JobDetails.
    pub(crate) fn details(&self, id: &str, logs: impl Fn() -> String) -> Value {
        json!({
            "type": "SUBMISSION",
            "job_id": self.driver.as_ref().map(|driver| &driver.id),
            "submission_id": id,
            "driver_info": self.driver.as_ref().map(Driver::details),
            "status": self.status.as_str(),
            "entrypoint": self.request.entrypoint,
            "message": self.message(logs),
            "error_type": self.failure.as_ref().map(|failure| failure.error_type),
            "start_time": self.start_ms,
            "end_time": self.end_ms,
            "metadata": self.request.metadata,
            "runtime_env": self.request.runtime_env,
            "driver_agent_http_address": self.place.as_ref().map(|place| format!("http://{}:52365", place.node_ip)),
            "driver_node_id": self.place.as_ref().map(|place| &place.node_id),
            "driver_exit_code": self.exit_code,
        })
    }

    fn message(&self, logs: impl Fn() -> String) -> String {
        match self.status {
            JobStatus::Pending => {
                let mut text =
                    "Job has not started yet. It may be waiting for resources (CPUs, GPUs, memory, custom \
                                resources) to become available."
                        .to_owned();
                if self.request.runtime_env.is_some() {
                    text.push_str(" It may be waiting for the runtime environment to be set up.");
                }
                text
            }
            JobStatus::Running => "Job is currently running.".into(),
            JobStatus::Stopped => "Job was intentionally stopped.".into(),
            JobStatus::Succeeded => "Job finished successfully.".into(),
            JobStatus::Failed => match &self.failure {
                Some(failure) if failure.error_type == COMMAND_ERROR => {
                    format!("{}{}", failure.message, logs())
                }
                Some(failure) => failure.message.clone(),
                None => "Unexpected error occurred.".into(),
            },
        }
    }
}

pub(crate) const COMMAND_ERROR: &str = "JOB_ENTRYPOINT_COMMAND_ERROR";
