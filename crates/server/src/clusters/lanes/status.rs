//! Ray's job details in the terms of the core.

use multicluster_core::{Run, RunStatus};
use multicluster_ray::{JobDetails, JobStatus};
use multicluster_store::{Seen, SeenDriver};
use multicluster_types::{ClusterName, Message, Span, SubmissionId};

use crate::redact::redact_text;

pub(super) fn of(details: &JobDetails) -> RunStatus {
    match details.status {
        JobStatus::Pending => RunStatus::Pending,
        JobStatus::Running => RunStatus::Running,
        JobStatus::Succeeded => RunStatus::Succeeded,
        JobStatus::Stopped => RunStatus::Stopped,
        JobStatus::Failed => {
            // Ray repeats commands and addresses, which may hold secrets.
            let message = details.message.as_ref().map(|message| redact_text(&message.to_string()).into());
            let message = message.unwrap_or_else(|| "Ray gave no reason".into());
            // Such a job may be sent elsewhere. Its owner wants to know at once of any other failure.
            let never_started = details.never_started();
            RunStatus::Failed { message, never_started, exit_code: details.driver_exit_code }
        }
    }
}

/// How long the entrypoint took from when its cluster accepted it, if it ran to its end.
pub(super) fn ran(details: &JobDetails) -> Option<Span> {
    let ran = details.status == JobStatus::Succeeded || details.driver_exit_code.is_some();
    let (started, ended) = (details.start_time?, details.end_time.filter(|_| ran)?);
    Some(ended.since(started))
}

/// Details that are stored beside the status, to show them to callers without asking Ray again.
pub(super) fn seen(details: &JobDetails) -> Seen {
    let driver = details.driver_info.clone().map(|driver| SeenDriver {
        id: driver.id.or_else(|| details.job_id.clone()).unwrap_or_default(),
        node_ip_address: driver.node_ip_address.unwrap_or_default(),
        pid: driver.pid.unwrap_or_default(),
    });
    Seen {
        node_id: details.driver_node_id.clone(),
        agent_http_address: details.driver_agent_http_address.clone(),
        exit_code: details.driver_exit_code,
        error_type: details.error_type.clone(),
        driver,
    }
}

pub(super) fn is_over(details: &JobDetails) -> bool {
    details.status.is_terminal()
}

pub(super) fn taken(cluster: &ClusterName, run: &Run) -> Message {
    let id = SubmissionId::of(&run.job, run.attempt);
    format!("cluster {cluster} has another job with the id {id}; will retry under another id").into()
}
