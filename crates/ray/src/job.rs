//! Jobs as Ray accepts and shows them.

use std::{collections::BTreeMap, fmt};

use multicluster_types::{EntrypointResources, Message, RuntimeEnv, Timestamp};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::{
    error::{Call, RayError},
    list,
};

/// A job to submit. Only the fields that are set are sent: Ray refuses unknown keys, and older
/// versions know fewer. `Debug` shows no values of the runtime_env.
#[derive(Clone, Default, PartialEq, Serialize)]
pub struct SubmitRequest {
    /// The shell command.
    pub entrypoint: String,
    /// Its id on that cluster. Always our own, so that it can be looked up afterwards.
    pub submission_id: String,
    /// The runtime_env, as Ray should receive it.
    #[serde(skip_serializing_if = "RuntimeEnv::is_empty")]
    pub runtime_env: RuntimeEnv,
    /// Stored by Ray with the job.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// CPUs that the entrypoint reserves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint_num_cpus: Option<f64>,
    /// GPUs that the entrypoint reserves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint_num_gpus: Option<f64>,
    /// Bytes that the entrypoint reserves (Ray 2.8 or later).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint_memory: Option<u64>,
    /// Custom resources that the entrypoint reserves.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub entrypoint_resources: BTreeMap<String, f64>,
    /// The nodes that may run the entrypoint (recent Ray versions only).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub entrypoint_label_selector: BTreeMap<String, String>,
}

impl SubmitRequest {
    /// A command with an id, and nothing else.
    #[must_use]
    pub fn new(submission_id: impl Into<String>, entrypoint: impl Into<String>) -> Self {
        Self { submission_id: submission_id.into(), entrypoint: entrypoint.into(), ..Self::default() }
    }

    /// The same with a reservation for the entrypoint.
    #[must_use]
    pub fn reserving(self, reserve: &EntrypointResources) -> Self {
        Self {
            entrypoint_num_cpus: reserve.num_cpus,
            entrypoint_num_gpus: reserve.num_gpus,
            entrypoint_memory: reserve.memory,
            entrypoint_resources: reserve.resources.clone(),
            entrypoint_label_selector: reserve.label_selector.clone(),
            ..self
        }
    }

    /// The body of the request. Refuses values that JSON would change.
    pub(crate) fn body(&self) -> Result<Vec<u8>, RayError> {
        check_id(Call::Submit, &self.submission_id)?;
        let amounts = [self.entrypoint_num_cpus, self.entrypoint_num_gpus].into_iter().flatten();
        // JSON has no such numbers: they would become null, which means "not set".
        if amounts.chain(self.entrypoint_resources.values().copied()).any(|amount| !amount.is_finite()) {
            return Err(RayError::refused(Call::Submit, "an amount is not a finite number"));
        }
        serde_json::to_vec(self).map_err(|error| RayError::refused(Call::Submit, error.to_string()))
    }
}

impl fmt::Debug for SubmitRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubmitRequest")
            .field("submission_id", &self.submission_id)
            .field("entrypoint", &self.entrypoint)
            .field("runtime_env", &self.runtime_env.keys().collect::<Vec<_>>())
            .field("metadata", &self.metadata.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// Ray puts ids into URL paths and file paths: `a/b` once made a job that never ended.
pub(crate) fn check_id(call: Call, id: &str) -> Result<(), RayError> {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if id.is_empty() || id.len() > 256 || !id.chars().all(fine) || id.chars().all(|c| c == '.') {
        let shown: String = id.chars().take(60).collect();
        return Err(RayError::refused(call, format!("{shown:?} is not usable as an id"))
            .hint("use letters, digits, '_', '.' and '-'"));
    }
    Ok(())
}

/// A job as Ray shows it. Its runtime_env is left out: it may contain secrets, and it is not needed here.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct JobDetails {
    /// Submitted, or a driver that was started in another way.
    #[serde(rename = "type", default)]
    pub kind: JobKind,
    /// The driver's job id, e.g. `02000000`. Not unique among clusters.
    #[serde(default, deserialize_with = "short")]
    pub job_id: Option<String>,
    /// Its driver, once the entrypoint has called `ray.init()`.
    #[serde(default)]
    pub driver_info: Option<DriverInfo>,
    /// The submission id; `None` for a bare driver.
    #[serde(default)]
    pub submission_id: Option<String>,
    /// Its status.
    pub status: JobStatus,
    /// The shell command.
    #[serde(default, deserialize_with = "nullable")]
    pub entrypoint: String,
    /// Ray's message about its status.
    #[serde(default)]
    pub message: Option<Message>,
    /// E.g. `RUNTIME_ENV_SETUP_FAILURE`; only in newer Ray versions.
    #[serde(default, deserialize_with = "short")]
    pub error_type: Option<String>,
    /// When it was submitted.
    #[serde(default, deserialize_with = "moment")]
    pub start_time: Option<Timestamp>,
    /// When it ended.
    #[serde(default, deserialize_with = "moment")]
    pub end_time: Option<Timestamp>,
    /// The metadata of the submission.
    #[serde(default, deserialize_with = "nullable")]
    pub metadata: BTreeMap<String, String>,
    /// The agent of the node on which the entrypoint runs.
    #[serde(default, deserialize_with = "short")]
    pub driver_agent_http_address: Option<String>,
    /// The node on which the entrypoint runs.
    #[serde(default, deserialize_with = "short")]
    pub driver_node_id: Option<String>,
    /// The entrypoint's exit code; only in newer Ray versions.
    #[serde(default)]
    pub driver_exit_code: Option<i64>,
}

impl JobDetails {
    /// Does the job have this id?
    #[must_use]
    pub fn has_id(&self, id: &str) -> bool {
        self.submission_id.as_deref() == Some(id) || self.job_id.as_deref() == Some(id)
    }
}

/// The process that called `ray.init()`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DriverInfo {
    /// The same as the job's `job_id`.
    #[serde(deserialize_with = "short")]
    pub id: Option<String>,
    /// The address of its node.
    #[serde(deserialize_with = "short")]
    pub node_ip_address: Option<String>,
    /// Its process id there.
    #[serde(deserialize_with = "short")]
    pub pid: Option<String>,
}

/// How a job was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
pub enum JobKind {
    /// Through the Jobs API.
    #[default]
    #[serde(rename = "SUBMISSION")]
    Submission,
    /// A driver that connected directly.
    #[serde(rename = "DRIVER")]
    Driver,
}

/// The status of a job, in Ray's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum JobStatus {
    /// Accepted, not started.
    Pending,
    /// Started.
    Running,
    /// Stopped by a request.
    Stopped,
    /// Ended with exit code 0.
    Succeeded,
    /// Ended with another exit code, or never started.
    Failed,
}

impl JobStatus {
    /// Is this status final?
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, JobStatus::Stopped | JobStatus::Succeeded | JobStatus::Failed)
    }

    /// Ray's word for this status.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            JobStatus::Pending => "PENDING",
            JobStatus::Running => "RUNNING",
            JobStatus::Stopped => "STOPPED",
            JobStatus::Succeeded => "SUCCEEDED",
            JobStatus::Failed => "FAILED",
        }
    }
}

impl fmt::Display for JobStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// All jobs that a cluster ever ran, unordered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobList {
    /// The readable entries.
    pub jobs: Vec<JobDetails>,
    /// The unreadable entries. These jobs exist: a caller that misses one must look it up by id.
    pub unread: Vec<Unread>,
}

/// An entry of a list that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// Its submission id, if that much could be read.
    pub submission_id: Option<String>,
    /// The problem with it.
    pub why: Message,
}

impl JobList {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, RayError> {
        #[derive(Deserialize)]
        #[serde(transparent)]
        struct Entries<'a>(#[serde(borrow, deserialize_with = "list::bounded")] Vec<&'a RawValue>);

        let Entries(entries) = serde_json::from_slice(body)
            .map_err(|error| RayError::bad_answer(Call::Jobs, format!("not a list of jobs: {error}")))?;
        let mut list = Self { jobs: Vec::with_capacity(entries.len()), unread: Vec::new() };
        for entry in entries {
            match serde_json::from_str(entry.get()) {
                Ok(job) => list.jobs.push(job),
                Err(error) => list.unread.push(Unread::new(entry, &error)),
            }
        }
        Ok(list)
    }

    /// Were all entries readable?
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unread.is_empty()
    }
}

impl Unread {
    fn new(entry: &RawValue, error: &serde_json::Error) -> Self {
        #[derive(Deserialize)]
        struct Id {
            submission_id: Option<String>,
        }
        let id = serde_json::from_str::<Id>(entry.get()).ok().and_then(|id| id.submission_id);
        Self { submission_id: id, why: error.to_string().into() }
    }
}

/// Treats `null` as absent.
fn nullable<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// A word or an address. It is kept as long as its job, so its length is limited.
fn short<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    const LONGEST: usize = 256;
    let mut text: Option<String> = Option::deserialize(from)?;
    if let Some(text) = &mut text {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.shrink_to_fit();
    }
    Ok(text)
}

/// Milliseconds, as a whole number or not; Ray uses 0 for "not yet" in some places.
fn moment<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let ms: Option<f64> = Option::deserialize(from)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    Ok(ms.filter(|ms| *ms > 0.0).map(|ms| Timestamp(ms as u64)))
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_kept_of_a_job_is_short() {
        let long = "é".repeat(1 << 20);
        let job = serde_json::json!({"status": "FAILED", "submission_id": "a", "error_type": long,
                                     "driver_node_id": long, "driver_agent_http_address": long, "message": long,
                                     "job_id": long, "driver_info": {"id": long, "node_ip_address": long, "pid": long}});
        let job: JobDetails = serde_json::from_value(job).unwrap();
        let driver = job.driver_info.unwrap();
        let driver = [driver.id, driver.node_ip_address, driver.pid];
        for text in [job.job_id, job.error_type, job.driver_node_id, job.driver_agent_http_address]
            .into_iter()
            .chain(driver)
        {
            assert_eq!(text.unwrap().len(), 256);
        }
        assert!(job.message.unwrap().as_str().len() <= Message::MAX);
    }

    use super::*;

    #[test]
    fn only_what_is_set_is_sent() {
        let body = |job: &SubmitRequest| String::from_utf8(job.body().unwrap()).unwrap();
        assert_eq!(body(&SubmitRequest::new("a", "true")), r#"{"entrypoint":"true","submission_id":"a"}"#);
        let reserve = EntrypointResources { num_cpus: Some(1.5), memory: Some(7), ..Default::default() };
        assert_eq!(
            body(&SubmitRequest::new("a", "true").reserving(&reserve)),
            r#"{"entrypoint":"true","submission_id":"a","entrypoint_num_cpus":1.5,"entrypoint_memory":7}"#
        );
    }

    #[test]
    fn ids_and_amounts_that_would_do_harm_are_not_sent() {
        for id in ["", "a/b", "..", "../x", "a b", "a?b", "a%2fb", "é", &"x".repeat(300)] {
            assert!(SubmitRequest::new(id, "true").body().unwrap_err().is_refusal(), "{id}");
        }
        let job = SubmitRequest { entrypoint_num_cpus: Some(f64::NAN), ..SubmitRequest::new("a", "true") };
        assert!(job.body().is_err());
    }

    #[test]
    fn debug_output_shows_no_values_of_the_environment() {
        let env = serde_json::json!({"env_vars": {"KEY": "hunter2"}});
        let runtime_env = env.as_object().cloned().unwrap();
        let job = SubmitRequest { runtime_env, ..SubmitRequest::new("a", "true") };
        assert!(!format!("{job:?}").contains("hunter2"));
        assert!(format!("{job:?}").contains("env_vars"));
    }

    #[test]
    fn recorded_lists_of_old_and_new_rays_are_read() {
        for (body, id, key) in [
            (include_str!("../tests/fixtures/ray-2.60/jobs.json"), "cap1", "k"),
            (include_str!("../tests/fixtures/ray-2.9/jobs.json"), "old1", "k"),
        ] {
            let list = JobList::parse(body.as_bytes()).unwrap();
            assert!(list.is_complete(), "{:?}", list.unread);
            let job = list.jobs.iter().find(|job| job.has_id(id)).unwrap();
            assert_eq!((job.status, job.kind), (JobStatus::Running, JobKind::Submission));
            assert_eq!(job.metadata.get(key).map(String::as_str), Some("v"));
            assert!(job.start_time.is_some() && job.end_time.is_none() && job.driver_node_id.is_some());
        }
    }

    #[test]
    fn one_bad_entry_does_not_lose_the_others() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        let body = format!(
            r#"[{{"submission_id":"a","status":"RUNNING"}}, {{"submission_id":"b","status":"QUEUED"}}, 7, null,
                {{"type":"DRIVER","job_id":"01000000","submission_id":null,"status":"SUCCEEDED","metadata":null}},
                {{"submission_id":"c","status":"FAILED","runtime_env":{deep}}},
                {{"submission_id":"d","status":"FAILED","metadata":{{"k":1}}}}]"#
        );
        let list = JobList::parse(body.as_bytes()).unwrap();
        assert_eq!(list.jobs.len(), 3, "{list:?}");
        assert_eq!(list.jobs[1].kind, JobKind::Driver);
        let unread: Vec<_> = list.unread.iter().map(|entry| entry.submission_id.as_deref()).collect();
        assert_eq!(unread, [Some("b"), None, None, Some("d")]);
    }

    #[test]
    fn what_is_no_list_is_an_error() {
        for body in ["", "{}", "null", "[", "[{]", "<html>"] {
            assert!(JobList::parse(body.as_bytes()).unwrap_err().is_transient(), "{body}");
        }
    }
}
