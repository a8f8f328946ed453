//! Everything that can happen to the core.

use multicluster_types::{
    Attempt, ClusterName, ClusterSpec, ContentHash, Incarnation, JobId, Message, Owner, PolicySpec, Settings,
    Snapshot, Span, Timestamp, Work,
};

/// One thing that happened. Completions carry the job and the attempt they belong
/// to; one that no longer applies is dropped.
#[derive(Debug, Clone)]
pub enum Input {
    /// A caller wants something run.
    Submit(Submission),
    /// A caller wants many things run: one cycle for all. To count as one submission
    /// under the 40-second rule they must share a `group`, which the server mints.
    SubmitBatch(Vec<Submission>),
    /// A caller wants a job stopped.
    Stop {
        /// Which.
        job: JobId,
    },
    /// An operator wants a failed or stopped job run again.
    Rerun {
        /// Which.
        job: JobId,
    },
    /// A caller wants an ended job forgotten.
    Delete {
        /// Which.
        job: JobId,
    },

    /// A poll was answered.
    Polled {
        /// By whom.
        cluster: ClusterName,
        /// What it said.
        snapshot: Box<Snapshot>,
        /// How long its dashboard took.
        took: Span,
    },
    /// A poll was not answered, or with nonsense.
    PollFailed {
        /// By whom.
        cluster: ClusterName,
        /// What went wrong.
        error: Message,
    },
    /// [`Effect::Submit`](crate::Effect::Submit) came to an end.
    Dispatched {
        /// Which job.
        job: JobId,
        /// Which try.
        attempt: Attempt,
        /// How.
        outcome: DispatchOutcome,
        /// How long its dashboard took for the request itself; nothing if none was sent.
        took: Span,
    },
    /// [`Effect::Lookup`](crate::Effect::Lookup) came to an end.
    LookedUp {
        /// Which job.
        job: JobId,
        /// Which try.
        attempt: Attempt,
        /// The number of the question.
        question: u32,
        /// How.
        outcome: LookupOutcome,
    },
    /// [`Effect::Stop`](crate::Effect::Stop) came to an end.
    StopSent {
        /// Which job.
        job: JobId,
        /// Which try.
        attempt: Attempt,
        /// Did the cluster answer?
        answered: bool,
    },
    /// A watch of one cluster saw these. Only runs that are ours: an id that was used
    /// before, by us or by somebody else, is told apart by what the driver put into the
    /// run's metadata.
    Observed {
        /// Which cluster.
        cluster: ClusterName,
        /// Which life of its head was watched: what an earlier one said is void.
        incarnation: Option<Incarnation>,
        /// These are all there were at this moment: what is missing is asked about.
        complete_at: Option<Timestamp>,
        /// What it saw.
        runs: Vec<Observation>,
    },
    /// Whoever asked for a placement is there, and waits for it. One that waits and is not
    /// asked for any more is given up.
    Waits {
        /// Which task or actor.
        job: JobId,
    },
    /// Whoever asked for a placement does not want it any more, wherever it is.
    Withdraw {
        /// Which task or actor.
        job: JobId,
    },
    /// The holder of a placement is alive, and has handed its work to the cluster: from
    /// now on the cluster's own facts are expected to show it.
    Heartbeat {
        /// Which task or actor.
        job: JobId,
        /// Which try.
        attempt: Attempt,
    },
    /// The holder of a placement is done with it.
    Released {
        /// Which task or actor.
        job: JobId,
        /// Which try.
        attempt: Attempt,
        /// How it went.
        outcome: ReleaseOutcome,
    },

    /// An operator adds a cluster, or describes a known one anew.
    Register {
        /// The description.
        spec: Box<ClusterSpec>,
        /// May it replace one of the same name?
        replace: bool,
    },
    /// An operator takes a cluster away. With work on it, it is drained first.
    Remove {
        /// Which.
        cluster: ClusterName,
        /// Do not wait for the work on it.
        force: bool,
    },
    /// An operator keeps new work off a cluster, and may want it emptied.
    Cordon {
        /// Which.
        cluster: ClusterName,
        /// Why.
        note: Message,
        /// Tell when nothing is left on it.
        drain: bool,
    },
    /// An operator lets new work onto a cluster again.
    Uncordon {
        /// Which.
        cluster: ClusterName,
    },
    /// An operator wants fresh facts now.
    CheckNow {
        /// Of which cluster.
        cluster: ClusterName,
    },
    /// The configuration changed.
    Reload {
        /// All settings.
        settings: Box<Settings>,
        /// All clusters of the file: others that a file brought are removed.
        clusters: Vec<ClusterSpec>,
    },
    /// An operator adds a policy beside those of the settings, or puts another in its place.
    SetPolicy {
        /// The whole of it.
        spec: Box<PolicySpec>,
        /// Who, where tokens say so.
        by: Option<Owner>,
    },
    /// An operator takes a policy away that was added so.
    RemovePolicy {
        /// Which.
        name: Message,
        /// Who, where tokens say so.
        by: Option<Owner>,
    },
    /// Several things at once: one cycle, and an answer for each in order.
    Together(Vec<Input>),
    /// [`Core::next_wakeup`](crate::Core::next_wakeup) has come.
    Tick,
    /// Nobody could be heard for a while: the machine slept, or the disk stood still. Comes
    /// before whatever else is fed then.
    Awoke,
}

/// A request to run something.
#[derive(Debug, Clone)]
pub struct Submission {
    /// The caller's id, or one made for it.
    pub id: Identity,
    /// What it needs.
    pub work: Work,
    /// Fingerprint of everything else in the request, for dedup by content;
    /// `None` where the payload stays with the caller.
    pub content: Option<ContentHash>,
    /// Submitted from inside a scheduled job.
    pub parent: Option<Parent>,
}

/// Where an id comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// The caller chose it: submitting it again is the same job.
    Given(JobId),
    /// Made by the control plane: an identical queued job may stand in for it.
    Fresh(JobId),
}

impl Identity {
    /// The id either way.
    #[must_use]
    pub fn id(&self) -> &JobId {
        match self {
            Identity::Given(id) | Identity::Fresh(id) => id,
        }
    }
}

/// The job that work was submitted from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// Its id.
    pub job: JobId,
    /// Where it runs: its sub-work stays there.
    pub cluster: ClusterName,
}

/// What became of a submit request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DispatchOutcome {
    /// The cluster has it.
    Accepted,
    /// The cluster says this request can never work; no other cluster is tried.
    Refused(Message),
    /// It certainly did not arrive (connection refused, no agent).
    Failed(Message),
    /// It was never sent, for a reason of our own (the store): that says nothing about the cluster.
    NotSent(Message),
    /// It may have arrived (timeout, connection lost after sending).
    Unknown(Message),
    /// The cluster has a run of this id that is not this attempt's, so this attempt
    /// cannot be there, and never will be: the next one has another id.
    Taken(Message),
}

/// What became of a question about one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupOutcome {
    /// It is there.
    Found(RunStatus),
    /// The cluster answered that it knows no such submission.
    NotFound {
        /// Which life of the head answered.
        incarnation: Option<Incarnation>,
    },
    /// The cluster has a run of this id that is not this attempt's.
    Taken(Message),
    /// Nobody answered.
    NoAnswer,
}

/// One attempt as its cluster sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// Which job.
    pub job: JobId,
    /// Which try.
    pub attempt: Attempt,
    /// What the cluster says.
    pub status: RunStatus,
}

/// What a cluster says about one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunStatus {
    /// Not started yet.
    Pending,
    /// It runs.
    Running,
    /// It ended well.
    Succeeded,
    /// It ended badly.
    Failed {
        /// What the cluster says.
        message: Message,
        /// The entrypoint never ran (no environment, no room): safe to try elsewhere.
        never_started: bool,
    },
    /// It was stopped.
    Stopped,
}

/// How the holder of a placement fared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// It is done.
    Succeeded,
    /// It ran and failed.
    Failed(Message),
    /// The holder could not reach the cluster: it never ran.
    Unreachable(Message),
    /// The holder gave it up.
    Stopped,
}
