//! The state that must survive a crash. A record is written whole whenever it changes, so the
//! latest record of each job and cluster *is* the durable state.
#![expect(missing_docs, reason = "a field is documented where its name does not say it all")]

mod live;

use std::{collections::BTreeSet, sync::Arc};

pub use multicluster_types::Source;
use multicluster_types::{
    Attempt, ClusterName, ClusterSpec, ContentHash, GroupId, JobId, Message, Owner, Span, State, Timestamp,
    Work,
};
use serde::{Deserialize, Serialize};

use crate::Run;

pub use live::{Live, Sent, Stage, Standing, Step};

/// One piece of work and where it is in its life.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    pub id: JobId,
    /// Order of acceptance: first in, first out.
    pub seq: u64,
    pub work: Arc<Work>,
    /// Fingerprint of the caller's request.
    pub content: Option<ContentHash>,
    /// The size of the stored payload; 0 for tasks and actors, and for jobs of earlier versions.
    #[serde(default)]
    pub bytes: u32,
    /// The job it was submitted from.
    pub parent: Option<JobId>,
    pub submitted_at: Timestamp,
    /// How many attempts were started.
    pub attempts: u32,
    /// Earlier errors; most jobs have none.
    pub troubles: Option<Box<Troubles>>,
    pub phase: Phase,
}

/// Errors of earlier attempts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Troubles {
    /// Attempts in a row that never started on their cluster.
    pub dispatch_failures: u32,
    /// Attempts that ran and failed.
    pub run_failures: u32,
    /// Attempts that were stopped for other work.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub preemptions: u32,
    /// Where dispatches failed since the last one that worked: other clusters go first.
    pub avoid: Vec<ClusterName>,
    /// Clusters that cannot accept the job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsuited: Vec<Unsuited>,
    /// The latest error.
    pub last_error: Option<Message>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A cluster whose Ray does not know a field of the job's request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsuited {
    /// The cluster.
    pub cluster: ClusterName,
    /// Its Ray version at that time: another version may accept the job.
    pub ray: Message,
    /// Its answer.
    pub error: Message,
}

/// The phase of a job, with the details that matter there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum Phase {
    /// In a queue.
    Waiting {
        /// When the wait began; counts towards starvation.
        since: Timestamp,
        /// Not considered before this time (backing off).
        not_before: Option<Timestamp>,
    },
    /// On a cluster.
    Live(Box<Live>),
    /// Over.
    Ended(Box<Ended>),
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// `Succeeded`, `Failed` or `Stopped`.
    pub state: State,
    /// When the control plane learnt of it.
    pub at: Timestamp,
    /// How long its last attempt ran: since it was seen running, or, if it was too short for that, as long as
    /// its cluster says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran: Option<Span>,
    /// The cluster of the last attempt.
    pub cluster: Option<ClusterName>,
    pub message: Option<Message>,
}

impl Phase {
    /// The state that this phase means.
    #[must_use]
    pub fn state(&self) -> State {
        match self {
            Phase::Waiting { .. } => State::Queued,
            Phase::Live(live) => live.state(),
            Phase::Ended(ended) => ended.state,
        }
    }
}

impl JobRecord {
    /// The job's state.
    #[must_use]
    pub fn state(&self) -> State {
        self.phase.state()
    }

    /// The latest attempt.
    #[must_use]
    pub fn run(&self) -> Run {
        Run { job: self.id.clone(), attempt: Attempt(self.attempts), life: Some(self.submitted_at) }
    }

    /// Moves stored moments that lie in the future to `now`; a backoff keeps its length. True if
    /// there were any.
    ///
    /// The moment of acceptance stays: clusters know the job's runs by it.
    pub(crate) fn correct_clock(&mut self, now: Timestamp) -> bool {
        match &mut self.phase {
            Phase::Waiting { since, not_before } => {
                let pause = not_before.map_or(Span::ZERO, |at| at.since(*since));
                let moved = since.not_after(now);
                moved | not_before.as_mut().is_some_and(|at| at.not_after(*since + pause))
            }
            Phase::Live(live) => live.correct_clock(now),
            Phase::Ended(ended) => ended.at.not_after(now),
        }
    }

    /// The attempt on a cluster, if there is one.
    #[must_use]
    pub fn live(&self) -> Option<&Live> {
        match &self.phase {
            Phase::Live(live) => Some(live),
            _ => None,
        }
    }
}

/// One attempt that has ended, kept as history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptRecord {
    pub job: JobId,
    /// The attempt number, its cluster, and how far it got.
    pub live: Live,
    pub ended_at: Timestamp,
    pub outcome: AttemptOutcome,
    pub message: Option<Message>,
}

/// The last error of a job that was stopped for other work. Nothing failed.
pub const PREEMPTED: &str = "stopped for other work; queued again";

/// How one attempt ended. The job itself may go on with another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptOutcome {
    /// The attempt never started.
    NotStarted,
    /// It ended successfully.
    Succeeded,
    /// It ran and failed.
    Failed,
    /// It was stopped.
    Stopped,
    /// It was stopped for other work.
    Preempted,
    /// The cluster was lost, or lost the attempt.
    Lost,
}

/// The durable state of one cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClusterRecord {
    /// The operator's description.
    pub spec: Arc<ClusterSpec>,
    pub source: Source,
    /// Set if it accepts no new work.
    pub cordon: Option<Cordon>,
    /// Will it be removed once it has none of our work?
    pub leaving: bool,
    /// The latest top-level submission: the 40-second rule survives restarts.
    pub clock: Option<Submitted>,
    /// The orphans on it of which a request may still be on its way: they are buried before they
    /// are forgotten.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub unheard: BTreeSet<Orphan>,
    /// Since when the store may lack recent changes, if the cluster has not been asked what it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlisted: Option<Timestamp>,
}

impl ClusterRecord {
    /// A new cluster.
    #[must_use]
    pub fn new(spec: Arc<ClusterSpec>, source: Source) -> Self {
        Self {
            spec,
            source,
            cordon: None,
            leaving: false,
            clock: None,
            unheard: BTreeSet::new(),
            unlisted: None,
        }
    }
}

/// An operator keeps new work off a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cordon {
    pub note: Message,
    /// Should the cluster also be drained?
    pub drain: bool,
}

/// A top-level submission to a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submitted {
    pub at: Timestamp,
    /// The group of the submission: the rest of the group shares its slot.
    pub group: Option<GroupId>,
}

/// What an owner, or a group of owners, had of the pool on average until `at`, in 1/10,000 of a CPU,
/// a GPU and a byte. Since then it holds what its live work holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageRecord {
    pub owner: Owner,
    pub cpu: u64,
    pub gpu: u64,
    pub memory: u64,
    pub at: Timestamp,
}

/// An attempt that was given up for another one elsewhere, and may still run. As soon as its
/// cluster can be asked, it is stopped, or buried if it may not have arrived.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Orphan {
    /// The cluster that may still run it.
    pub cluster: ClusterName,
    pub job: JobId,
    pub attempt: Attempt,
    /// When its job was accepted; `None` if an earlier version stored the orphan.
    pub life: Option<Timestamp>,
}

impl Orphan {
    /// The attempt itself.
    #[must_use]
    pub fn run(&self) -> Run {
        Run { job: self.job.clone(), attempt: self.attempt, life: self.life }
    }
}
