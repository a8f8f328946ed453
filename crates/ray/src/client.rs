//! The client itself.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use multicluster_types::{Incarnation, RuntimeEnv};
use parking_lot::Mutex;
use reqwest::{Method, RequestBuilder, Url, header};
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::{
    driver_log::{DriverLog, Pieces},
    endpoint::{BuildError, Endpoint, Timeouts},
    error::{Call, Kind, RayError},
    facts::{self, Facts, Python},
    job::{JobDetails, JobList, SubmitRequest, check_id},
    logs::{End, Logs, Reader},
    package::{MAX_PACKAGE_BYTES, PackageBody},
    tail::LogTail,
    transport::{MANY, ONE, Sink, Transport},
};

/// The longest time to read a whole log: as long as the receiver is slow.
const WHOLE_LOG: Duration = Duration::from_secs(3600);

/// A client of one Ray dashboard. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct RayClient {
    pub(crate) transport: Arc<Transport>,
    /// The Python of the head's present incarnation: requested once.
    pub(crate) python: Arc<Mutex<Option<Python>>>,
    last_version: Arc<Mutex<Option<Version>>>,
}

/// A head's report about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// E.g. `2.60.0`.
    pub ray_version: String,
    /// The commit it was built from.
    pub ray_commit: String,
    /// The session of the head; older Ray versions do not report it: see [`RayClient::incarnation`].
    pub session_name: Option<Incarnation>,
}

impl Version {
    /// Major and minor number; `None` if the text does not start with them.
    #[must_use]
    pub fn release(&self) -> Option<(u32, u32)> {
        let mut numbers = self.ray_version.splitn(3, '.').map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    }
}

impl RayClient {
    /// Prepares a client. Nothing is sent.
    ///
    /// # Errors
    /// If the endpoint cannot be used.
    pub fn new(endpoint: &Endpoint, timeouts: Timeouts) -> Result<Self, BuildError> {
        let transport = Arc::new(Transport::new(endpoint, timeouts)?);
        Ok(Self { transport, python: Arc::default(), last_version: Arc::default() })
    }

    /// The address of the dashboard, without secrets.
    #[must_use]
    pub fn address(&self) -> &str {
        self.transport.address()
    }

    /// The token that the next request would carry, for programs that connect to the cluster by
    /// other means.
    ///
    /// # Errors
    /// If there should be one, and there is none: its file cannot be read, or its command failed.
    pub async fn token(&self) -> Result<Option<String>, RayError> {
        Ok(self.transport.proof(Call::Version).await?.token.clone())
    }

    /// Asks the head for its versions.
    ///
    /// # Errors
    /// See [`RayError`].
    pub async fn version(&self) -> Result<Version, RayError> {
        #[derive(Deserialize)]
        struct Raw {
            ray_version: String,
            #[serde(default)]
            ray_commit: String,
            session_name: Option<String>,
        }
        let t = &self.transport;
        let raw: Raw = t.ask_json(Call::Version, t.get(t.url(["api", "version"])), ONE).await?;
        let bad = |why: &str| t.own(RayError::bad_answer(Call::Version, why));
        if raw.ray_version.is_empty() || raw.ray_version.len() > 100 || raw.ray_commit.len() > 100 {
            return Err(bad("it names no version of Ray"));
        }
        let session_name = raw.session_name.filter(|name| !name.is_empty()).map(Incarnation::new).transpose();
        let session_name = session_name.map_err(|error| bad(&error.to_string()))?;
        let version = Version { ray_version: raw.ray_version, ray_commit: raw.ray_commit, session_name };
        *self.last_version.lock() = Some(version.clone());
        Ok(version)
    }

    /// The last answer of the head to this client or a clone of it. Nothing is sent.
    #[must_use]
    pub fn last_version(&self) -> Option<Version> {
        self.last_version.lock().clone()
    }

    /// The incarnation of the head: its session, or the id of its node if it reports no session.
    /// Both are new after every start of the head. `None` if it reports neither.
    ///
    /// # Errors
    /// See [`RayError`].
    pub async fn incarnation(&self) -> Result<Option<Incarnation>, RayError> {
        match self.version().await?.session_name {
            Some(session) => Ok(Some(session)),
            None => facts::ask_head_node(self).await,
        }
    }

    /// Submits a job. Returns its submission id.
    ///
    /// # Errors
    /// [`RayError::may_have_arrived`]: look the job up before anything else.
    /// [`RayError::is_already_exists`]: look up whose job it is.
    pub async fn submit(&self, job: &SubmitRequest) -> Result<String, RayError> {
        #[derive(Deserialize)]
        struct Raw {
            submission_id: String,
        }
        let t = &self.transport;
        let body = job.body().map_err(|e| t.own(e))?;
        let request = t.order(Method::POST, t.url(["api", "jobs", ""])).body(body);
        let request = request.header(header::CONTENT_TYPE, "application/json");
        let raw: Raw = t.ask_json(Call::Submit, request, ONE).await?;
        if raw.submission_id != job.submission_id {
            let message = format!("accepted as {:?}, not as {:?}", raw.submission_id, job.submission_id);
            return Err(t.own(RayError::bad_answer(Call::Submit, message)));
        }
        Ok(raw.submission_id)
    }

    /// One job, by submission id or driver job id. `None` only if Ray itself reports that it
    /// knows no such job.
    ///
    /// # Errors
    /// See [`RayError`].
    pub async fn job(&self, id: &str) -> Result<Option<JobDetails>, RayError> {
        let t = &self.transport;
        let url = self.job_url(Call::Job, id, None)?;
        let Some(body) = self.found(Call::Job, t.get(url), id).await? else { return Ok(None) };
        let job: JobDetails = t.parse(Call::Job, &body)?;
        if job.has_id(id) {
            Ok(Some(t.own_job(job)))
        } else {
            Err(t.own(RayError::bad_answer(Call::Job, "it is another job")))
        }
    }

    /// The runtime_env that a job was submitted with; empty if there is no such job.
    ///
    /// # Errors
    /// See [`RayError`].
    pub async fn runtime_env(&self, id: &str) -> Result<RuntimeEnv, RayError> {
        #[derive(Deserialize)]
        struct Only {
            runtime_env: Option<RuntimeEnv>,
        }
        let t = &self.transport;
        let url = self.job_url(Call::Job, id, None)?;
        let Some(body) = self.found(Call::Job, t.get(url), id).await? else { return Ok(RuntimeEnv::new()) };
        let only: Only = t.parse(Call::Job, &body)?;
        Ok(only.runtime_env.unwrap_or_default())
    }

    /// All jobs that the cluster ever ran.
    ///
    /// # Errors
    /// See [`RayError`]. Unreadable entries are not an error: see [`JobList`].
    pub async fn jobs(&self) -> Result<JobList, RayError> {
        let t = &self.transport;
        let answer = t.ask(Call::Jobs, t.get(t.url(["api", "jobs", ""])), MANY).await?;
        let list =
            answer.into_body(Call::Jobs).and_then(|body| JobList::parse(&body)).map_err(|e| t.own(e))?;
        Ok(JobList { jobs: list.jobs.into_iter().map(|job| t.own_job(job)).collect(), ..list })
    }

    /// Stops a job and returns whether there was something to stop. `None` if there is no such job.
    ///
    /// Ray answers `true` for a job that has not started, and starts it nevertheless.
    ///
    /// # Errors
    /// See [`RayError`].
    pub async fn stop(&self, id: &str) -> Result<Option<bool>, RayError> {
        let url = self.job_url(Call::Stop, id, Some("stop"))?;
        self.flag(Call::Stop, Method::POST, url, id, "stopped").await
    }

    /// Deletes a job that has ended. `None` if there is no such job.
    ///
    /// Within about a second of its end, Ray would bring the job back as failed: wait 2.5 s.
    ///
    /// # Errors
    /// [`Kind::NotEnded`](crate::Kind::NotEnded) while the job runs.
    pub async fn delete(&self, id: &str) -> Result<Option<bool>, RayError> {
        let url = self.job_url(Call::Delete, id, None)?;
        self.flag(Call::Delete, Method::DELETE, url, id, "deleted").await
    }

    /// The last `keep` bytes of a job's log. `None` if there is no such job.
    ///
    /// # Errors
    /// Ray fails (500) on a log that is not UTF-8; see [`RayClient::driver_log`].
    pub async fn logs(&self, id: &str, keep: usize) -> Result<Option<Logs>, RayError> {
        let t = &self.transport;
        let request = t.get(self.job_url(Call::Logs, id, Some("logs"))?);
        let mut reader = Reader::new(keep);
        let answer = t.ask_into(Call::Logs, request, t.timeouts.logs, &mut reader).await?;
        if answer.says_missing(&no_such_job(id)) {
            return Ok(None);
        }
        answer.into_body(Call::Logs).and_then(|_| reader.finish()).map(Some).map_err(|e| t.own(e))
    }

    /// The last lines of a driver's log file, byte for byte, limited to the last `keep` bytes. `node` is
    /// [`JobDetails::driver_node_id`]. `None` if there is no such file (yet, or any more).
    ///
    /// # Errors
    /// See [`RayError`]; also if that node is gone.
    pub async fn driver_log(
        &self,
        id: &str,
        node: &str,
        lines: u32,
        keep: usize,
    ) -> Result<Option<Vec<u8>>, RayError> {
        let log = DriverLog::new(self.version().await?.release(), End::new(keep));
        let log = self.log_file(id, node, &lines.to_string(), self.transport.timeouts.logs, log).await?;
        Ok(log.map(End::into_bytes))
    }

    /// Sends a driver's whole log file to `out`, byte for byte. Reads no faster than the receiver.
    /// False if there is no such file.
    ///
    /// # Errors
    /// See [`RayError`]; also if that node is gone, or `out` is closed.
    pub async fn whole_driver_log(
        &self,
        id: &str,
        node: &str,
        out: mpsc::Sender<Vec<u8>>,
    ) -> Result<bool, RayError> {
        let log = DriverLog::new(self.version().await?.release(), Pieces::new(out));
        Ok(self.log_file(id, node, "-1", WHOLE_LOG, log).await?.is_some())
    }

    async fn log_file<Out: Sink + Send>(
        &self,
        id: &str,
        node: &str,
        lines: &str,
        limit: Duration,
        mut log: DriverLog<Out>,
    ) -> Result<Option<Out>, RayError> {
        let t = &self.transport;
        check_id(Call::DriverLog, id).and_then(|()| check_id(Call::DriverLog, node)).map_err(|e| t.own(e))?;
        let mut url = t.url(["api", "v0", "logs", "file"]);
        url.query_pairs_mut()
            .append_pair("node_id", node)
            .append_pair("filename", &format!("job-driver-{id}.log"))
            .append_pair("lines", lines);
        let answer = t.ask_into(Call::DriverLog, t.get(url), limit, &mut log).await?;
        log.finish(answer).map_err(|e| t.own(e))
    }

    /// Follows a job's log from its first byte. `None` if there is no such job.
    ///
    /// # Errors
    /// See [`RayError`].
    pub async fn tail(&self, id: &str) -> Result<Option<LogTail>, RayError> {
        check_id(Call::Tail, id).map_err(|e| self.transport.own(e))?;
        LogTail::open(&self.transport, id).await
    }

    /// Does the cluster have this package? The request keeps the package for ten minutes (Ray's default).
    ///
    /// # Errors
    /// See [`RayError`].
    pub async fn has_package(&self, name: &str) -> Result<bool, RayError> {
        let t = &self.transport;
        let url = self.package_url(Call::HasPackage, name)?;
        let answer = t.ask(Call::HasPackage, t.get(url), ONE).await?;
        if answer.says_missing(&format!("Package gcs://{name} does not exist")) {
            return Ok(false);
        }
        answer.into_body(Call::HasPackage).map(|_| true).map_err(|e| t.own(e))
    }

    /// Uploads a package. The name must identify the content: a repeated upload is then harmless,
    /// so no failure has an unknown outcome.
    ///
    /// # Errors
    /// See [`RayError`]; also if larger than [`MAX_PACKAGE_BYTES`].
    pub async fn put_package(&self, name: &str, body: impl Into<PackageBody>) -> Result<(), RayError> {
        let body = body.into();
        let again = body.again();
        match (self.put_once(name, body).await, again) {
            // There is another token by now.
            (Err(error), Some(again)) if error.kind == Kind::Denied && error.is_transient() => {
                self.put_once(name, again).await
            }
            (put, _) => put,
        }
    }

    async fn put_once(&self, name: &str, body: PackageBody) -> Result<(), RayError> {
        let t = &self.transport;
        let sent = Arc::clone(&body.sent);
        let url = self.package_url(Call::PutPackage, name)?;
        if body.len > MAX_PACKAGE_BYTES {
            let message = format!("{} bytes, Ray takes at most {MAX_PACKAGE_BYTES}", body.len);
            return Err(t
                .own(RayError::refused(Call::PutPackage, message).hint(
                    "leave out data files (.rayignore), or put them where the clusters can fetch them",
                )));
        }
        let request =
            t.order(Method::PUT, url).header(header::CONTENT_LENGTH, body.len).body(body.into_body());
        let mut nothing = End::new(1);
        let answer = t.upload(Call::PutPackage, request, &sent, &mut nothing).await?;
        answer.into_body(Call::PutPackage).map(|_| ()).map_err(|e| t.own(e))
    }

    /// The facts about the cluster that a scheduler needs, at one moment of one incarnation of its head.
    ///
    /// # Errors
    /// Transient if there is no node or no usage yet, or if the head restarted meanwhile.
    pub async fn facts(&self) -> Result<Facts, RayError> {
        crate::facts::ask(self).await
    }

    fn job_url(&self, call: Call, id: &str, rest: Option<&str>) -> Result<Url, RayError> {
        check_id(call, id).map_err(|e| self.transport.own(e))?;
        Ok(self.transport.url(["api", "jobs", id].into_iter().chain(rest)))
    }

    fn package_url(&self, call: Call, name: &str) -> Result<Url, RayError> {
        check_id(call, name).map_err(|e| self.transport.own(e))?;
        Ok(self.transport.url(["api", "packages", "gcs", name]))
    }

    /// The body of the answer about one job; `None` if Ray knows no such job.
    async fn found(
        &self,
        call: Call,
        request: RequestBuilder,
        id: &str,
    ) -> Result<Option<Vec<u8>>, RayError> {
        let t = &self.transport;
        let answer = t.ask(call, request, ONE).await?;
        if answer.says_missing(&no_such_job(id)) {
            return Ok(None);
        }
        answer.into_body(call).map(Some).map_err(|e| t.own(e))
    }

    /// An answer of the form `{"stopped": true}`.
    async fn flag(
        &self,
        call: Call,
        method: Method,
        url: Url,
        id: &str,
        key: &str,
    ) -> Result<Option<bool>, RayError> {
        let t = &self.transport;
        let Some(body) = self.found(call, t.order(method, url), id).await? else { return Ok(None) };
        let flags: BTreeMap<String, bool> = t.parse(call, &body)?;
        let flag = flags.get(key).copied();
        flag.map(Some).ok_or_else(|| t.own(RayError::bad_answer(call, format!("it does not say {key:?}"))))
    }

    pub(crate) fn known_python(&self) -> Option<Python> {
        self.python.lock().clone()
    }

    pub(crate) fn remember_python(&self, python: Python) {
        *self.python.lock() = Some(python);
    }
}

impl fmt::Debug for RayClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RayClient").field("address", &self.address()).finish_non_exhaustive()
    }
}

fn no_such_job(id: &str) -> String {
    format!("Job {id} does not exist")
}
