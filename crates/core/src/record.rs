//! What must survive a crash. A record is written whole whenever it changes, so
//! the latest record of each job and cluster *is* the durable state.

use std::sync::Arc;

use multicluster_types::{
    Attempt, ClusterName, ClusterSpec, ContentHash, GroupId, Incarnation, JobId, Message, State, Timestamp,
    Work,
};
use serde::{Deserialize, Serialize};

/// One piece of work and where it is in its life.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// Its id for life.
    pub id: JobId,
    /// Order of acceptance: first in, first out.
    pub seq: u64,
    /// What it needs.
    pub work: Arc<Work>,
    /// Fingerprint of the caller's request.
    pub content: Option<ContentHash>,
    /// The job it was submitted from.
    pub parent: Option<JobId>,
    /// When it was accepted.
    pub submitted_at: Timestamp,
    /// How many attempts were started.
    pub attempts: u32,
    /// What went wrong so far; most jobs have none.
    pub troubles: Option<Box<Troubles>>,
    /// Where it is.
    pub phase: Phase,
}

/// What went wrong with earlier attempts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Troubles {
    /// Attempts in a row that never started on their cluster.
    pub dispatch_failures: u32,
    /// Attempts that ran and failed.
    pub run_failures: u32,
    /// Where dispatching failed since it last worked: other clusters go first.
    pub avoid: Vec<ClusterName>,
    /// The latest error.
    pub last_error: Option<Message>,
}

/// Where a job is, with what matters there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum Phase {
    /// In a queue.
    Waiting {
        /// Since when; counts towards starvation.
        since: Timestamp,
        /// Not looked at before this moment (backing off).
        not_before: Option<Timestamp>,
    },
    /// On a cluster.
    Live(Box<Live>),
    /// Over.
    Ended(Box<Ended>),
}

/// One attempt on one cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// Which try.
    pub attempt: Attempt,
    /// Where.
    pub cluster: ClusterName,
    /// Which life of that cluster's head the intent was for.
    pub incarnation: Option<Incarnation>,
    /// How far it got, as far as we know.
    pub stage: Stage,
    /// When its cluster was chosen.
    pub dispatched_at: Timestamp,
    /// When it was first seen running.
    pub running_at: Option<Timestamp>,
    /// Since when nobody could be asked about it.
    pub lost_since: Option<Timestamp>,
    /// A send had no answer: it may be there. Until its cluster says otherwise it
    /// can only be sent again *there* and under the *same* id, which Ray refuses
    /// to run twice.
    pub uncertain: bool,
    /// How often the request was sent, if nothing was heard of it.
    pub sends: u32,
    /// The cluster refused a later send of an uncertain attempt.
    pub refused: Option<Message>,
    /// Somebody wants it stopped.
    pub stopping: bool,
}

/// How far an attempt got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The intent is durable; the request may or may not have left.
    Sending,
    /// The cluster has it.
    Pending,
    /// It was seen running.
    Running,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// `Succeeded`, `Failed` or `Stopped`.
    pub state: State,
    /// When we knew.
    pub at: Timestamp,
    /// Where its last attempt was.
    pub cluster: Option<ClusterName>,
    /// Why, for people.
    pub message: Option<Message>,
}

impl Phase {
    /// The state this is.
    #[must_use]
    pub fn state(&self) -> State {
        match self {
            Phase::Waiting { .. } => State::Queued,
            Phase::Live(live) if live.lost_since.is_some() => State::Unknown,
            Phase::Live(live) => match live.stage {
                Stage::Sending => State::Dispatching,
                Stage::Pending => State::Pending,
                Stage::Running => State::Running,
            },
            Phase::Ended(ended) => ended.state,
        }
    }
}

impl JobRecord {
    /// Its state.
    #[must_use]
    pub fn state(&self) -> State {
        self.phase.state()
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

/// One attempt that is over; kept as history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// Whose.
    pub job: JobId,
    /// Which try, where, how far it got.
    pub live: Live,
    /// When it was over.
    pub ended_at: Timestamp,
    /// What happened.
    pub outcome: AttemptOutcome,
    /// In words.
    pub message: Option<Message>,
}

/// How one attempt ended. The job itself may go on with another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptOutcome {
    /// It never started.
    NotStarted,
    /// It ended well.
    Succeeded,
    /// It ran and failed.
    Failed,
    /// It was stopped.
    Stopped,
    /// Its cluster was lost, or lost it.
    Lost,
}

/// One cluster and what must be remembered about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClusterRecord {
    /// The operator's description.
    pub spec: Arc<ClusterSpec>,
    /// Who registered it.
    pub source: Source,
    /// Kept away from new work.
    pub cordon: Option<Cordon>,
    /// To be removed once nothing of ours is on it.
    pub leaving: bool,
    /// The latest top-level submission: the 40-second rule survives restarts.
    pub clock: Option<Submitted>,
}

/// Who registered a cluster: a reload only removes what a file brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// `cluster.yaml`.
    File,
    /// The API.
    Api,
}

/// An operator keeps new work off a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cordon {
    /// Why.
    pub note: Message,
    /// Should it also be emptied?
    pub drain: bool,
}

/// A top-level submission to a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submitted {
    /// When.
    pub at: Timestamp,
    /// The batch it belonged to: the rest of the batch shares its slot.
    pub group: Option<GroupId>,
}

/// An attempt that was given up for another one elsewhere, and may still run. It
/// is stopped as soon as its cluster can be asked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Orphan {
    /// Where it may be.
    pub cluster: ClusterName,
    /// Whose.
    pub job: JobId,
    /// Which try.
    pub attempt: Attempt,
}
