//! The guarantees of a store.

use std::{collections::BTreeSet, fmt, path::PathBuf, sync::Arc, time::Duration};

use multicluster_core::{
    Durable, Write,
    record::{AttemptRecord, JobRecord, Phase},
};
use multicluster_types::{
    Attempt, ClusterName, Decision, JobId, Kind, Owner, Payload, Span, State, Tag, Timestamp, Work,
};
use serde::{Deserialize, Serialize};

use crate::{Packed, StoreError};

/// One durable change.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the names of the fields say it")]
pub enum Change {
    /// A write of the core.
    Core(Write),
    /// The payload of a new job. In the same batch as the job's first record.
    Payload { job: JobId, payload: Arc<Payload> },
    /// A part of our own copy of an attempt's log.
    Logs(LogPiece),
    /// What a cluster reports about an attempt's process; replaces the earlier report.
    Seen { job: JobId, attempt: Attempt, seen: Seen },
    /// An event for watchers.
    Event(StoredEvent),
}

/// A part of the copy of one attempt's log. A long log is copied part by part, so that neither the
/// writer nor a reader holds all of it at once.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the fields say it")]
pub struct LogPiece {
    pub job: JobId,
    pub attempt: Attempt,
    /// The cluster that ran the attempt.
    pub cluster: ClusterName,
    /// Where the piece begins in the copy, in bytes. It replaces all that the copy has from there
    /// on, so 0 replaces the copy. Never beyond the end of the copy.
    pub from: u64,
    pub body: Packed,
    /// Is the beginning of the log left out of the copy?
    pub truncated: bool,
    /// With the last piece: the copy has all that was printed before this time.
    pub taken_at: Option<Timestamp>,
}

/// Our own copy of one attempt's log, or of its end, for when its cluster is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the fields say it")]
pub struct LogCopy {
    pub attempt: Attempt,
    /// The cluster that ran the attempt.
    pub cluster: ClusterName,
    /// The copy has all that was printed before this time; 0 if no copy was finished yet.
    pub taken_at: Timestamp,
    /// How many bytes the copy has, unpacked.
    pub size: u64,
    /// Where its last piece begins.
    pub last: u64,
    /// Is the beginning of the log left out?
    pub truncated: bool,
}

/// Details of an attempt that only its cluster knows, as last seen there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Seen {
    /// The node on which the entrypoint runs.
    pub node_id: Option<String>,
    /// That node's agent.
    pub agent_http_address: Option<String>,
    /// The exit code of the entrypoint.
    pub exit_code: Option<i64>,
    /// Ray's word for the error.
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
    /// Its process id there.
    pub pid: String,
}

/// An event as watchers get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its number in the order of all events. A number is used once, except after a power cut
    /// that lost the latest events.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// The job it is about, if any.
    pub job: Option<JobId>,
    /// The event as JSON.
    pub body: String,
}

/// The state that a control plane continues from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// For [`multicluster_core::Core::rebuild`].
    pub durable: Durable,
    /// The id of this control plane: made once per state directory, sent to the clusters with every job.
    pub plane: String,
    /// The number of the next event.
    pub next_event: u64,
}

/// The only writer.
pub trait Store: Send {
    /// Reads the whole state.
    ///
    /// # Errors If the state cannot be read, or was written by a newer version.
    fn load(&mut self) -> Result<Loaded, StoreError>;

    /// Makes all changes durable, or none. In order: a later change of the same record wins. When
    /// it returns, a power cut loses none of them.
    ///
    /// # Errors If the changes could not be made durable (disk full, I/O error). May be tried again.
    fn commit(&mut self, changes: &[Change]) -> Result<(), StoreError>;

    /// As [`Store::commit`], for records that are worth nothing without the processes they are
    /// about: leases, whose holders die with the machine or take another. When it returns, the
    /// changes survive the end of this process, however it ends. A power cut may undo them, the
    /// latest first and whole batches only. The next `commit` makes them durable as well.
    ///
    /// # Errors As `commit`.
    fn commit_lightly(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        self.commit(changes)
    }

    /// Commits nothing, to remain the leader.
    ///
    /// # Errors As `commit`.
    fn renew(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// How often [`Store::renew`] must be called when there is nothing to commit. `None`: never.
    fn renews_every(&self) -> Option<Duration> {
        None
    }

    /// After a leadership that began with [`rewound`](crate::postgres::Lead::rewound): the clusters were
    /// asked what they run, and all of it is stored. Until then, every next leader is told to ask.
    ///
    /// # Errors As `commit`.
    fn adopted(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Gives the lead up, so that another replica need not wait for the end of the lease. Nothing can
    /// be committed afterwards.
    ///
    /// # Errors As `commit`. The lease then ends by itself.
    fn resign(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A stored job.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredJob {
    /// The record of the core.
    pub record: JobRecord,
    /// Its payload; tasks and actors have none.
    pub payload: Option<Payload>,
    /// The details last seen of its latest attempt.
    pub seen: Option<(Attempt, Seen)>,
}

impl StoredJob {
    /// A page of jobs ends when its jobs reach this many bytes in total.
    pub(crate) const PAGE: usize = 2 << 20;

    /// The payload, in bytes of JSON, and the errors: everything else is small.
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

/// A job that ran to its end, as the history keeps it when the job itself is forgotten.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedRun {
    /// When the job was submitted.
    pub submitted_at: Timestamp,
    /// When it was first seen running.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// How long its last attempt ran; zero if it was too short to be seen running.
    pub ran: Span,
    /// How it ended.
    pub state: State,
    /// The cluster of its last attempt.
    pub cluster: ClusterName,
    /// The work, without its group and its wishes for retries.
    pub work: Arc<Work>,
}

/// A filter for jobs. All conditions must hold.
#[derive(Debug, Clone, Default)]
pub struct JobFilter {
    /// In any of these states; empty: any state.
    pub states: Vec<State>,
    /// Of this kind.
    pub kind: Option<Kind>,
    /// That are or were on this cluster.
    pub cluster: Option<ClusterName>,
    /// Submitted by this owner.
    pub owner: Option<Owner>,
    /// That had not ended at this moment.
    pub since: Option<Timestamp>,
    /// Submitted before this moment.
    pub until: Option<Timestamp>,
    /// Carrying all of these tags and labels.
    pub tags: Vec<Tag>,
    /// Whose id contains this text.
    pub id_contains: Option<String>,
    /// That this search finds.
    pub search: Option<Search>,
}

/// A text to look for in the id, the entrypoint and the tags of a job. Ignores case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search(String);

impl Search {
    /// A search for this text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.to_lowercase())
    }

    /// The text, in small letters.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Do any of these contain the text?
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

    /// Could the text be in a string within this JSON? JSON writes text as it is, except `"`, `\`
    /// and control characters.
    pub(crate) fn may_be_in(&self, json: &str) -> bool {
        self.0.contains(|c: char| matches!(c, '"' | '\\') || c.is_control()) || self.is_in(json)
    }
}

/// One page of a list, newest first. It may be short, even empty, and still have a `next`: a search stops
/// after a limited number of jobs, and a list of jobs after a limited number of bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The entries.
    pub items: Vec<T>,
    /// Pass this to get the next page; `None`: this is the last page.
    pub next: Option<u64>,
}

/// Reads the committed state.
pub trait Reader: Send + Sync {
    /// One job.
    ///
    /// # Errors
    /// If the store cannot be read; this applies to all methods below.
    fn job(&self, id: &JobId) -> Result<Option<StoredJob>, StoreError>;

    /// The payload of one job.
    fn payload(&self, id: &JobId) -> Result<Option<Payload>, StoreError>;

    /// Jobs, the latest accepted first, below `before` (a [`Page::next`]), with payloads. States,
    /// kind and cluster use an index; tags and parts of texts are searched for, in a bounded
    /// number of jobs per call.
    fn jobs(
        &self,
        filter: &JobFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Page<StoredJob>, StoreError>;

    /// The ended attempts of one job, first to last.
    fn attempts(&self, job: &JobId) -> Result<Vec<AttemptRecord>, StoreError>;

    /// Decisions, latest first, of one job or of all, below `before`. Only the latest of each job
    /// and of all jobs are kept, see [`Options`](crate::Options).
    fn decisions(
        &self,
        job: Option<&JobId>,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Page<Decision>, StoreError>;

    /// Events after `after` in order, of these jobs or of everything; the first is number 1. Only
    /// the latest are kept: a watcher that is further behind misses some.
    fn events(
        &self,
        jobs: Option<&BTreeSet<JobId>>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError>;

    /// Jobs that ran and ended at `from` or later, the latest first, below `before`. Only the latest are
    /// kept, see [`Options`](crate::Options). Tasks and actors are not among them.
    fn runs(
        &self,
        from: Timestamp,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Page<FinishedRun>, StoreError>;

    /// Our copy of the log of one attempt, or of the latest attempt that has a copy.
    fn log_copy(&self, job: &JobId, attempt: Option<Attempt>) -> Result<Option<LogCopy>, StoreError>;

    /// The piece of a copy that has the byte at this position, and where the piece begins. `None`
    /// beyond the end of the copy.
    fn log_piece(&self, job: &JobId, attempt: Attempt, at: u64)
    -> Result<Option<(u64, Vec<u8>)>, StoreError>;

    /// The last `keep` bytes of a copy.
    fn log_end(&self, job: &JobId, copy: &LogCopy, keep: usize) -> Result<Vec<u8>, StoreError> {
        let (mut pieces, mut at, mut size) = (Vec::new(), copy.size, 0);
        while at > 0
            && size < keep
            && let Some((from, mut body)) = self.log_piece(job, copy.attempt, at - 1)?
        {
            body.truncate(usize::try_from(at - from).unwrap_or(usize::MAX));
            (at, size) = (from, size + body.len());
            pieces.push(body);
        }
        pieces.reverse();
        let mut end = pieces.concat();
        end.drain(..end.len().saturating_sub(keep));
        Ok(end)
    }
}

/// A file that callers' runtime_envs name. Identified by the caller's name for it, stored by its
/// content: uploading other content under the same name does not change what earlier jobs run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the fields say it")]
pub struct Package {
    /// The caller's name for it, e.g. `_ray_pkg_0123456789abcdef.zip`.
    pub name: String,
    /// SHA-256 of the content, in hex.
    pub sha256: String,
    pub size: u64,
}

/// The callers' packages. Bounded: when there is no room, packages that no job needs and that
/// were not used lately are deleted.
pub trait Packages: Send + Sync {
    /// Begins an upload within this room. An upload that is dropped without `finish` leaves
    /// nothing behind.
    ///
    /// # Errors
    /// If nothing can be written; this applies to all methods below.
    fn begin(&self, room: &Room) -> Result<Box<dyn Upload>, StoreError>;

    /// The package that has this name at present. The request keeps it for a while, as in Ray.
    fn find(&self, name: &str) -> Result<Option<Package>, StoreError>;

    /// The file with this content.
    fn content(&self, sha256: &str) -> Result<Option<PathBuf>, StoreError>;
}

/// One upload under way.
pub trait Upload: Send {
    /// Adds bytes to the upload.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`], [`StoreError::Crowded`], or if it cannot be written.
    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError>;

    /// Ends the upload: the package is durable under this name when this returns.
    ///
    /// # Errors
    /// [`StoreError::Full`], [`StoreError::ShareFull`] if everything stored is needed.
    fn finish(self: Box<Self>, name: &str) -> Result<Package, StoreError>;
}

/// The tokens of a control plane whose replicas share a database: one text, replaced as a whole. What
/// is in it, the server knows.
pub trait TokenTable: Send + Sync + fmt::Debug {
    /// The number of the latest replacement; `None`: there never was a text. One light query.
    ///
    /// # Errors
    /// If the database cannot be reached; this applies to all methods below.
    fn version(&self) -> Result<Option<u64>, StoreError>;

    /// The text and its version.
    fn read(&self) -> Result<Option<(u64, String)>, StoreError>;

    /// Replaces the text whose version is `seen`, or adds the first one. False: somebody else was
    /// faster, and nothing was changed. Durable when it returns.
    fn replace(&self, seen: Option<u64>, text: &str) -> Result<bool, StoreError>;
}

/// How much room there is: for stored packages, and the same again for uploads under way.
#[derive(Debug, Clone, Default)]
pub struct Room {
    /// Bytes in total; `None`: as in the options.
    pub all: Option<u64>,
    /// The prefix of the names that belong to the same owner, and how many bytes these packages
    /// may have in total.
    pub own: Option<(String, u64)>,
}
