//! `JobDetails`: a job as Ray's clients see it. To them `status` and `type` are strict enums, and
//! everything else may be null.

use std::collections::BTreeMap;

use multicluster_core::record::{JobRecord, Phase};
use multicluster_store::{SeenDriver, StoredJob};
use multicluster_types::{EntrypointResources, Message, Payload, RuntimeEnv, State};
use serde::Serialize;

use super::submit::SHOWN;
use crate::redact::{redact, redact_metadata, redact_text};

/// Ray's fifteen keys.
#[derive(Debug, Serialize)]
pub(super) struct JobDetails {
    #[serde(rename = "type")]
    kind: &'static str,
    /// The driver's number on its cluster. Other clusters use the same numbers, so it identifies
    /// nothing here.
    job_id: Option<String>,
    submission_id: String,
    driver_info: Option<SeenDriver>,
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
    /// `why`: the reason from the scheduler, if it was asked.
    pub(super) fn new(job: StoredJob, why: Option<String>) -> Self {
        let StoredJob { record, payload, seen } = job;
        let payload = payload.unwrap_or_default();
        // If a job waits for its next attempt, the previous one is over.
        let is_latest = |seen: u32| seen == record.attempts && !matches!(record.phase, Phase::Waiting { .. });
        let seen = seen.filter(|(attempt, _)| is_latest(attempt.0)).map(|(_, seen)| seen).unwrap_or_default();
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
            job_id: seen.driver.as_ref().map(|driver| driver.id.clone()),
            submission_id: record.id.to_string(),
            driver_info: seen.driver,
            status: record.state().as_ray(),
            entrypoint: redact_text(&payload.entrypoint),
            message: Some(message(&record, &payload, why)),
            error_type: seen.error_type,
            start_time: record.submitted_at.0,
            end_time,
            metadata,
            runtime_env: redact(&payload.runtime_env),
            driver_agent_http_address: seen.agent_http_address,
            driver_node_id: seen.node_id,
            driver_exit_code: seen.exit_code,
        }
    }
}

/// Whether it is worth asking the scheduler why this job is in this state.
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

/// First Ray's own words, which programs look for, then ours.
fn message(record: &JobRecord, payload: &Payload, why: Option<String>) -> String {
    let on = || cluster_of(record).map_or(String::new(), |cluster| format!(" on cluster {cluster}"));
    let and = |words: &str, more: Option<&str>| match more {
        Some(more) => format!("{words}\n{more}"),
        None => words.to_owned(),
    };
    match (&record.phase, record.state()) {
        (Phase::Ended(ended), state) => match (&ended.message, state) {
            (message, State::Stopped) => {
                and("Job was intentionally stopped.", message.as_ref().map(Message::as_str))
            }
            (Some(message), _) => message.to_string(),
            (None, State::Succeeded) => "Job finished successfully.".to_owned(),
            (None, _) => format!("Job failed{}.", on()),
        },
        (_, state @ (State::Queued | State::Dispatching | State::Pending)) => {
            let ours = why.unwrap_or_else(|| match state {
                State::Queued => "It is queued; its own status says why.".to_owned(),
                State::Dispatching => format!("It is being sent{}.", on()),
                _ => format!("It is{}.", on()),
            });
            and(&not_started(payload, state), Some(&ours))
        }
        (_, State::Unknown) => {
            why.unwrap_or_else(|| format!("Job was sent{}, which is not answering.", on()))
        }
        _ => format!("Job is currently running{}.", on()),
    }
}

fn not_started(payload: &Payload, state: State) -> String {
    let EntrypointResources { num_cpus, num_gpus, memory, resources, label_selector: _ } = &payload.reserve;
    let mut words = "Job has not started yet.".to_owned();
    if num_cpus.is_some_and(|n| n > 0.0)
        || num_gpus.is_some_and(|n| n > 0.0)
        || memory.is_some_and(|n| n > 0)
        || !resources.is_empty()
    {
        words +=
            " It may be waiting for resources (CPUs, GPUs, memory, custom resources) to become available.";
    }
    if state == State::Pending && !payload.runtime_env.is_empty() {
        words += " It may be waiting for the runtime environment to be set up.";
    }
    words
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use multicluster_core::record::{Ended, JobRecord};
    use multicluster_store::Seen;
    use multicluster_types::{Attempt, ClusterName, JobId, Kind, Timestamp, Work};
    use serde_json::{Value, json};

    use super::*;

    fn a_job(phase: Phase) -> StoredJob {
        let record = JobRecord {
            id: JobId::new("nightly").unwrap(),
            seq: 1,
            work: Arc::new(Work::new(Kind::Job)),
            content: None,
            bytes: 0,
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
        StoredJob { record, payload: Some(payload), seen: None }
    }

    #[test]
    fn a_queued_job_is_pending_and_says_why() {
        let job = a_job(Phase::Waiting { since: Timestamp(1000), not_before: None });
        let shown = serde_json::to_value(JobDetails::new(job, Some("mac: busy".into()))).unwrap();
        assert_eq!(shown["status"], "PENDING");
        assert_eq!(shown["message"], "Job has not started yet.\nmac: busy");
        assert_eq!(shown["metadata"], json!({"team": "quant", "multicluster.state": "queued"}));
        assert_eq!(shown["end_time"], Value::Null);
        assert!(!shown.to_string().contains("hunter2"), "{shown}");
    }

    #[test]
    fn rays_words_come_before_ours() {
        let shown = |phase: Phase, cpus: Option<f64>, why: Option<&str>| {
            let mut job = a_job(phase);
            job.payload.as_mut().unwrap().reserve.num_cpus = cpus;
            JobDetails::new(job, why.map(str::to_owned)).message.unwrap()
        };
        let waits = || Phase::Waiting { since: Timestamp(1000), not_before: None };
        let resources =
            "It may be waiting for resources (CPUs, GPUs, memory, custom resources) to become available.";
        assert_eq!(
            shown(waits(), Some(2.0), Some("mac: busy")),
            format!("Job has not started yet. {resources}\nmac: busy")
        );
        assert!(!shown(waits(), Some(0.0), None).contains("resources"));
        let stopped = |message: Option<&str>| {
            let message = message.map(Into::into);
            Phase::Ended(Box::new(Ended {
                state: State::Stopped,
                at: Timestamp(5000),
                ran: None,
                cluster: None,
                message,
            }))
        };
        assert_eq!(shown(stopped(None), None, None), "Job was intentionally stopped.");
        assert_eq!(
            shown(stopped(Some("stopped before it was dispatched")), None, None),
            "Job was intentionally stopped.\nstopped before it was dispatched"
        );
    }

    #[test]
    fn what_was_seen_of_the_latest_attempt_is_shown_and_of_an_earlier_one_is_not() {
        let seen = Seen {
            driver: Some(SeenDriver { id: "02000000".into(), ..Default::default() }),
            ..Default::default()
        };
        let ended =
            Ended { state: State::Failed, at: Timestamp(5000), ran: None, cluster: None, message: None };
        let ended = a_job(Phase::Ended(Box::new(ended)));
        let shown = |attempt, job: &StoredJob| {
            let job = StoredJob { seen: Some((Attempt(attempt), seen.clone())), ..job.clone() };
            JobDetails::new(job, None).job_id
        };
        assert_eq!(shown(1, &ended).as_deref(), Some("02000000"));
        assert_eq!(shown(2, &ended), None);
        let mut waits = a_job(Phase::Waiting { since: Timestamp(1000), not_before: None });
        waits.record.attempts = 1;
        assert_eq!(shown(1, &waits), None);
    }

    #[test]
    fn an_ended_job_has_rays_fifteen_keys() {
        let cluster = Some(ClusterName::new("mac").unwrap());
        let ended = Ended { state: State::Succeeded, at: Timestamp(5000), ran: None, cluster, message: None };
        let job = a_job(Phase::Ended(Box::new(ended)));
        let shown = serde_json::to_value(JobDetails::new(job, None)).unwrap();
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
