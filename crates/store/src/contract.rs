//! What a store promises.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use multicluster_core::{
    Durable, Write,
    record::{AttemptRecord, JobRecord, Phase},
};
use multicluster_types::{
    Attempt, ClusterName, Decision, JobId, Kind, Owner, Payload, State, Tag, Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::StoreError;

/// One durable change.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the names of the fields say it")]
pub enum Change {
    /// What the core decided.
    Core(Write),
    /// What a new job runs. In the same batch as the job's first record.
    Payload { job: JobId, payload: Arc<Payload> },
    /// Our own copy of an attempt's last lines; replaces an earlier copy.
    Logs(LogCopy),
    /// What a cluster says of an attempt's process; replaces what was seen before.
    Seen { job: JobId, attempt: Attempt, seen: Seen },
    /// Something worth telling.
    Event(StoredEvent),
}

/// The last lines of one attempt, kept for when its cluster is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the fields say it")]
pub struct LogCopy {
    pub job: JobId,
    pub attempt: Attempt,
    /// Where it ran.
    pub cluster: ClusterName,
    /// When it was taken.
    pub taken_at: Timestamp,
    /// The last lines, bounded by whoever took them.
    pub text: String,
    /// The beginning was left out.
    pub truncated: bool,
}

/// What only an attempt's cluster knows of it, as it was last seen there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Seen {
    /// The node on which the entrypoint runs.
    pub node_id: Option<String>,
    /// That node's agent.
    pub agent_http_address: Option<String>,
    /// What the entrypoint exited with.
    pub exit_code: Option<i64>,
    /// Ray's word for what went wrong.
    pub error_type: Option<String>,
    /// The process that called `ray.init()`.
    pub driver: Option<SeenDriver>,
}

/// A Ray driver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SeenDriver {
    /// Its number on its cluster, such as `02000000`; other clusters use the same.
    pub id: String,
    /// The address of its node.
    pub node_ip_address: String,
    /// Its process there.
    pub pid: String,
}

/// An event as watchers get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its place in the order of all events; never used twice, but for what a power cut took
    /// back.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// The job it is about, if it is about one.
    pub job: Option<JobId>,
    /// The event as JSON.
    pub body: String,
}

/// Everything a control plane continues from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// For [`multicluster_core::Core::rebuild`].
    pub durable: Durable,
    /// Who we are: made once per state directory, told to the clusters with every job.
    pub plane: String,
    /// The number of the next event.
    pub next_event: u64,
}

/// The one writer.
pub trait Store: Send {
    /// Everything there is.
    ///
    /// # Errors
    /// When the state cannot be read, or was written by a newer version.
    fn load(&mut self) -> Result<Loaded, StoreError>;

    /// Makes all of this durable, or nothing. In order: a later change of the same
    /// record wins. When it returns, a power cut loses nothing of it.
    ///
    /// # Errors
    /// When it could not be made durable (disk full, I/O error). May be tried again.
    fn commit(&mut self, changes: &[Change]) -> Result<(), StoreError>;

    /// As [`Store::commit`], for what is worth nothing without the processes it is about:
    /// leases, whose holders die with the machine or take another. When it returns, all of
    /// this survives the end of this process, however it ends; a power cut may take it back,
    /// the latest first and whole batches only. The next `commit` makes it last as well.
    ///
    /// # Errors
    /// As `commit`.
    fn commit_lightly(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        self.commit(changes)
    }
}

/// A job as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredJob {
    /// Where it is in its life.
    pub record: JobRecord,
    /// What it runs; tasks and actors have none.
    pub payload: Option<Payload>,
    /// What was seen of its latest attempt.
    pub seen: Option<(Attempt, Seen)>,
}

impl StoredJob {
    /// A page of jobs ends once they have so many bytes together.
    pub(crate) const PAGE: usize = 2 << 20;

    /// What it runs, in bytes of JSON, and what went wrong: all else is small.
    pub(crate) fn size(&self) -> usize {
        let ended = match &self.record.phase {
            Phase::Ended(ended) => ended.message.as_ref(),
            _ => None,
        };
        let before = self.record.troubles.as_ref().and_then(|troubles| troubles.last_error.as_ref());
        let texts = ended.into_iter().chain(before).map(|text| text.as_str().len());
        serde_json::to_vec(&self.payload).map_or(0, |json| json.len()) + texts.sum::<usize>()
    }
}

/// Which jobs.
#[derive(Debug, Clone, Default)]
pub struct JobFilter {
    /// In any of these states; empty: in any.
    pub states: Vec<State>,
    /// Of this kind.
    pub kind: Option<Kind>,
    /// That are or were on this cluster.
    pub cluster: Option<ClusterName>,
    /// Submitted by this owner.
    pub owner: Option<Owner>,
    /// Carrying all of these tags and labels.
    pub tags: Vec<Tag>,
    /// Whose id contains this text.
    pub id_contains: Option<String>,
    /// That this is found in.
    pub search: Option<Search>,
}

/// A text to look for in what names a job: its id, its entrypoint, its tags. Upper and lower
/// case are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search(String);

impl Search {
    /// Looks for this text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.to_lowercase())
    }

    /// Is it in any of these?
    #[must_use]
    pub fn finds<'a>(
        &self,
        id: &str,
        entrypoint: Option<&str>,
        mut tags: impl Iterator<Item = &'a str>,
    ) -> bool {
        self.is_in(id) || entrypoint.is_some_and(|text| self.is_in(text)) || tags.any(|tag| self.is_in(tag))
    }

    fn is_in(&self, text: &str) -> bool {
        text.to_lowercase().contains(&self.0)
    }

    /// Could it be in a text within this JSON? That writes text as it is, but for `"`, `\` and
    /// control characters.
    pub(crate) fn may_be_in(&self, json: &str) -> bool {
        self.0.contains(|c: char| matches!(c, '"' | '\\') || c.is_control()) || self.is_in(json)
    }
}

/// One page of a list, newest first. It may be short, even empty, and still have a
/// `next`: a search stops after so many looks, and a list of jobs after so many bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Ask for what comes after this; `None`: that was all.
    pub next: Option<u64>,
}

/// Answers about what is committed.
pub trait Reader: Send + Sync {
    /// One job.
    ///
    /// # Errors
    /// When the store cannot be read; so all below.
    fn job(&self, id: &JobId) -> Result<Option<StoredJob>, StoreError>;

    /// What one job runs.
    fn payload(&self, id: &JobId) -> Result<Option<Payload>, StoreError>;

    /// Jobs, the latest accepted first, below `before` (a [`Page::next`]), with payloads.
    /// States, kind and cluster are looked up; tags and parts of texts are searched for, a
    /// bounded number of jobs per call.
    fn jobs(
        &self,
        filter: &JobFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Page<StoredJob>, StoreError>;

    /// The ended attempts of one job, first to last.
    fn attempts(&self, job: &JobId) -> Result<Vec<AttemptRecord>, StoreError>;

    /// Decisions, latest first, of one job or of all, below `before`. Only the last of each
    /// job and of all are kept, see [`Options`](crate::Options).
    fn decisions(
        &self,
        job: Option<&JobId>,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Page<Decision>, StoreError>;

    /// Events after `after` in order, of these jobs or of everything; the first is number 1.
    /// Only the last are kept: a watcher that is further behind misses some.
    fn events(
        &self,
        jobs: Option<&BTreeSet<JobId>>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError>;

    /// Our copy of the last lines of one attempt, or of the latest that has one.
    fn logs(&self, job: &JobId, attempt: Option<Attempt>) -> Result<Option<LogCopy>, StoreError>;
}

/// A file that callers' runtime_envs name. Known by the name the caller gave it, kept
/// by what is in it: a name that is uploaded again with other content does not change
/// what earlier jobs run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the fields say it")]
pub struct Package {
    /// As the caller named it, e.g. `_ray_pkg_0123456789abcdef.zip`.
    pub name: String,
    /// SHA-256 of the content, in hex.
    pub sha256: String,
    pub size: u64,
}

/// The callers' files. Bounded: what no job needs and nobody used lately is dropped
/// when there is no room for more.
pub trait Packages: Send + Sync {
    /// Begins an upload, where there is as much room as this. Dropped without `finish`, it leaves
    /// nothing.
    ///
    /// # Errors
    /// When nothing can be written; so all below.
    fn begin(&self, room: &Room) -> Result<Box<dyn Upload>, StoreError>;

    /// What this name stands for at present. Asking keeps it for a while, as Ray does.
    fn find(&self, name: &str) -> Result<Option<Package>, StoreError>;

    /// The file that has the content.
    fn content(&self, sha256: &str) -> Result<Option<PathBuf>, StoreError>;
}

/// One upload under way.
pub trait Upload: Send {
    /// More of it.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`], [`StoreError::Crowded`], or when it cannot be written.
    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError>;

    /// All of it: durable under this name when it returns.
    ///
    /// # Errors
    /// [`StoreError::Full`], [`StoreError::ShareFull`] when everything kept is needed.
    fn finish(self: Box<Self>, name: &str) -> Result<Package, StoreError>;
}

/// How much room there is for packages: for what is kept, and as much for what is on its way.
#[derive(Debug, Clone, Default)]
pub struct Room {
    /// Bytes in all; as the options say, if it does not.
    pub all: Option<u64>,
    /// How the names of those begin that belong to the same owner, and how many bytes they may
    /// have together.
    pub own: Option<(String, u64)>,
}
