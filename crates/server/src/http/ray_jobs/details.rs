//! `JobDetails`: a job as Ray's clients are shown it. `status` and `type` are strict enums
//! to them, everything else may be null.

use std::collections::BTreeMap;

use multicluster_core::record::{JobRecord, Phase};
use multicluster_store::StoredJob;
use multicluster_types::{RuntimeEnv, State};
use serde::Serialize;
use serde_json::Value;

use super::{driver::Driver, submit::SHOWN};
use crate::resolve::{redact, redact_metadata, redact_text};

/// Ray's fifteen keys.
#[derive(Debug, Serialize)]
pub(super) struct JobDetails {
    #[serde(rename = "type")]
    kind: &'static str,
    /// Ray puts the driver's number here, which means nothing in a pool.
    job_id: Option<String>,
    submission_id: String,
    driver_info: Option<Value>,
    status: &'static str,
    entrypoint: String,
    message: Option<String>,
    error_type: Option<String>,
    start_time: u64,
    end_time: Option<u64>,
    metadata: BTreeMap<String, String>,
    runtime_env: RuntimeEnv,
    driver_agent_http_address: Option<String>,
    driver_node_id: Option<String>,
    driver_exit_code: Option<i64>,
}

impl JobDetails {
    /// `why` says what it waits for, where somebody asked the scheduler; `driver` what its
    /// cluster knows, where somebody asked that.
    pub(super) fn new(job: StoredJob, why: Option<String>, driver: Driver) -> Self {
        let StoredJob { record, payload } = job;
        let payload = payload.unwrap_or_default();
        let end_time = match &record.phase {
            Phase::Ended(ended) => Some(ended.at.0),
            _ => None,
        };
        let mut metadata = redact_metadata(&payload.metadata);
        let [cluster_key, state_key, attempt_key] = SHOWN.map(str::to_owned);
        if let Some(cluster) = cluster_of(&record) {
            metadata.insert(cluster_key, cluster);
        }
        metadata.insert(state_key, record.state().to_string());
        if record.attempts > 0 {
            metadata.insert(attempt_key, record.attempts.to_string());
        }
        Self {
            kind: "SUBMISSION",
            job_id: None,
            submission_id: record.id.to_string(),
            driver_info: None,
            status: record.state().as_ray(),
            entrypoint: redact_text(&payload.entrypoint),
            message: Some(why.unwrap_or_else(|| message(&record))),
            error_type: driver.error_type,
            start_time: record.submitted_at.0,
            end_time,
            metadata,
            runtime_env: redact(&payload.runtime_env),
            driver_agent_http_address: driver.agent_http_address,
            driver_node_id: driver.node_id,
            driver_exit_code: driver.exit_code,
        }
    }
}

/// Is it worth asking the scheduler why this job is where it is?
pub(super) fn needs_why(state: State) -> bool {
    matches!(state, State::Queued | State::Dispatching | State::Unknown)
}

fn cluster_of(record: &JobRecord) -> Option<String> {
    match &record.phase {
        Phase::Waiting { .. } => None,
        Phase::Live(live) => Some(live.cluster.to_string()),
        Phase::Ended(ended) => ended.cluster.as_ref().map(ToString::to_string),
    }
}

/// Without asking anybody. In Ray's own words where it has some.
fn message(record: &JobRecord) -> String {
    let on = || cluster_of(record).map_or(String::new(), |cluster| format!(" on cluster {cluster}"));
    match (&record.phase, record.state()) {
        (Phase::Ended(ended), state) => match (&ended.message, state) {
            (Some(message), _) => message.to_string(),
            (None, State::Succeeded) => "Job finished successfully.".to_owned(),
            (None, State::Stopped) => "Job was intentionally stopped.".to_owned(),
            (None, _) => format!("Job failed{}.", on()),
        },
        (_, State::Queued) => "Job is queued; its own status says what it waits for.".to_owned(),
        (_, State::Dispatching) => format!("Job is being sent{}.", on()),
        (_, State::Pending) => format!("Job has not started yet{}.", on()),
        (_, State::Unknown) => format!("Job was sent{}, which does not answer at present.", on()),
        _ => format!("Job is currently running{}.", on()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use multicluster_core::record::{Ended, JobRecord};
    use multicluster_types::{ClusterName, JobId, Kind, Payload, Timestamp, Work};
    use serde_json::json;

    use super::*;

    fn a_job(phase: Phase) -> StoredJob {
        let record = JobRecord {
            id: JobId::new("nightly").unwrap(),
            seq: 1,
            work: Arc::new(Work::new(Kind::Job)),
            content: None,
            parent: None,
            submitted_at: Timestamp(1000),
            attempts: u32::from(!matches!(phase, Phase::Waiting { .. })),
            troubles: None,
            phase,
        };
        let runtime_env = serde_json::from_value(json!({"env_vars": {"TOKEN": "hunter2"}})).unwrap();
        let metadata = [("team".to_owned(), "quant".to_owned())].into();
        let payload =
            Payload { entrypoint: "python x.py".into(), runtime_env, metadata, ..Payload::default() };
        StoredJob { record, payload: Some(payload) }
    }

    #[test]
    fn a_queued_job_is_pending_and_says_why() {
        let job = a_job(Phase::Waiting { since: Timestamp(1000), not_before: None });
        let shown =
            serde_json::to_value(JobDetails::new(job, Some("mac: busy".into()), Driver::default())).unwrap();
        assert_eq!(shown["status"], "PENDING");
        assert_eq!(shown["message"], "mac: busy");
        assert_eq!(shown["metadata"], json!({"team": "quant", "multicluster.state": "queued"}));
        assert_eq!(shown["end_time"], Value::Null);
        assert!(!shown.to_string().contains("hunter2"), "{shown}");
    }

    #[test]
    fn an_ended_job_has_rays_fifteen_keys() {
        let cluster = Some(ClusterName::new("mac").unwrap());
        let ended = Ended { state: State::Succeeded, at: Timestamp(5000), cluster, message: None };
        let shown = serde_json::to_value(JobDetails::new(
            a_job(Phase::Ended(Box::new(ended))),
            None,
            Driver::default(),
        ))
        .unwrap();
        let mut keys: Vec<_> = shown.as_object().unwrap().keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(
            keys,
            [
                "driver_agent_http_address",
                "driver_exit_code",
                "driver_info",
                "driver_node_id",
                "end_time",
                "entrypoint",
                "error_type",
                "job_id",
                "message",
                "metadata",
                "runtime_env",
                "start_time",
                "status",
                "submission_id",
                "type",
            ]
        );
        assert_eq!(shown["metadata"]["multicluster.cluster"], "mac");
        assert_eq!(shown["metadata"]["multicluster.attempt"], "1");
        assert_eq!((&shown["start_time"], &shown["end_time"]), (&json!(1000), &json!(5000)));
        assert_eq!(shown["message"], "Job finished successfully.");
    }
}
