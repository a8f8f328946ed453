//! Everything that can happen to the core.
#![expect(missing_docs, reason = "a field is documented where its name does not say it all")]

use multicluster_types::{
    Attempt, ClusterName, ClusterSpec, ContentHash, Incarnation, JobId, Message, Owner, PolicySpec, Settings,
    Snapshot, Span, Timestamp, Work,
};

use crate::record::JobRecord;

/// One attempt, told apart from every other that ever had its id. The core gives it out
/// with each [`Effect`](crate::Effect); a completion that carries one of an earlier job
/// or an earlier attempt is dropped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run {
    pub job: JobId,
    pub attempt: Attempt,
    /// When the job was accepted: an id may be used again. `None`: of a job that may be
    /// forgotten, so that only its id and the attempt are known.
    pub life: Option<Timestamp>,
}

impl Run {
    /// Is it of this job, not of an earlier one of the same id?
    #[must_use]
    pub fn is_of(&self, job: &JobRecord) -> bool {
        self.life.is_none_or(|life| life == job.submitted_at)
    }
}

/// One thing that happened.
#[derive(Debug, Clone)]
pub enum Input {
    /// A caller wants something run. Tasks that count as one submission under the
    /// 40-second rule share a `group`, which the server mints.
    Submit(Submission),
    /// A caller wants a job stopped.
    Stop { job: JobId },
    /// An operator wants a failed or stopped job run again.
    Rerun { job: JobId },
    /// A caller wants an ended job forgotten.
    Delete { job: JobId },

    /// A poll was answered.
    Polled {
        cluster: ClusterName,
        snapshot: Box<Snapshot>,
        /// How long its dashboard took.
        took: Span,
    },
    /// A poll was not answered, or with nonsense.
    PollFailed { cluster: ClusterName, error: Message },
    /// [`Effect::Submit`](crate::Effect::Submit) came to an end.
    Dispatched {
        run: Run,
        outcome: DispatchOutcome,
        /// How long its dashboard took for the request itself; zero if none was sent.
        took: Span,
    },
    /// [`Effect::Lookup`](crate::Effect::Lookup) came to an end.
    LookedUp {
        run: Run,
        /// As the effect had it.
        question: u32,
        outcome: LookupOutcome,
    },
    /// [`Effect::Stop`](crate::Effect::Stop) came to an end.
    StopSent {
        run: Run,
        /// Did the cluster answer?
        answered: bool,
    },
    /// A watch of one cluster saw these runs. Only ours: runs of other control planes and
    /// of other programs are told apart by what the driver put into a run's metadata.
    Observed {
        cluster: ClusterName,
        /// Which life of its head was watched: what an earlier one said is void.
        incarnation: Option<Incarnation>,
        /// These are all there were at this moment: what is missing is asked about.
        complete_at: Option<Timestamp>,
        runs: Vec<Observation>,
    },
    /// The caller who asked for a placement still waits for it. One that waits and is not
    /// asked for any more is given up.
    Waits { job: JobId },
    /// The caller who asked for a placement does not want it any more, wherever it is.
    Withdraw { job: JobId },
    /// The holder of a placement is alive, and has handed its work to the cluster: from
    /// now on the cluster's own facts are expected to show it.
    Heartbeat { job: JobId, attempt: Attempt },
    /// The holder of a placement is done with it.
    Released { job: JobId, attempt: Attempt, outcome: ReleaseOutcome },

    /// An operator adds a cluster, or changes the description of a known one.
    Register {
        spec: Box<ClusterSpec>,
        /// May it replace one of the same name?
        replace: bool,
    },
    /// An operator takes a cluster away. With work on it, it is drained first.
    Remove {
        cluster: ClusterName,
        /// Do not wait for the work on it.
        force: bool,
    },
    /// An operator keeps new work off a cluster.
    Cordon {
        cluster: ClusterName,
        note: Message,
        /// Tell when nothing is left on it.
        drain: bool,
    },
    /// An operator lets new work onto a cluster again.
    Uncordon { cluster: ClusterName },
    /// An operator wants fresh facts now.
    CheckNow { cluster: ClusterName },
    /// The configuration changed.
    Reload {
        settings: Box<Settings>,
        /// All clusters of the file: others that a file brought are removed.
        clusters: Vec<ClusterSpec>,
    },
    /// An operator adds a policy beside those of the settings, or replaces one.
    SetPolicy {
        spec: Box<PolicySpec>,
        /// Who, where tokens say so.
        by: Option<Owner>,
    },
    /// An operator takes away a policy that was added.
    RemovePolicy {
        name: Message,
        /// Who, where tokens say so.
        by: Option<Owner>,
    },
    /// Several things at once: one cycle, and an answer for each in order.
    Together(Vec<Input>),
    /// [`Core::next_wakeup`](crate::Core::next_wakeup) has come.
    Tick,
    /// Nothing could be heard for a while: the machine slept, or the disk stood still. Comes
    /// before everything else that is fed then.
    Awoke,
}

impl Input {
    /// Is it an operator's or a caller's word that must survive a power cut once it is
    /// given, whatever it leads to?
    pub(crate) fn is_order(&self) -> bool {
        match self {
            Input::Delete { .. }
            | Input::Register { .. }
            | Input::Remove { .. }
            | Input::Cordon { .. }
            | Input::Uncordon { .. }
            | Input::Reload { .. }
            | Input::SetPolicy { .. }
            | Input::RemovePolicy { .. } => true,
            Input::Together(inputs) => inputs.iter().any(Input::is_order),
            Input::Submit(_)
            | Input::Stop { .. }
            | Input::Rerun { .. }
            | Input::Polled { .. }
            | Input::PollFailed { .. }
            | Input::Dispatched { .. }
            | Input::LookedUp { .. }
            | Input::StopSent { .. }
            | Input::Observed { .. }
            | Input::Waits { .. }
            | Input::Withdraw { .. }
            | Input::Heartbeat { .. }
            | Input::Released { .. }
            | Input::CheckNow { .. }
            | Input::Tick
            | Input::Awoke => false,
        }
    }
}

/// A request to run something.
#[derive(Debug, Clone)]
pub struct Submission {
    /// The caller's id, or one made for it.
    pub id: Identity,
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
    /// There was no answer.
    NoAnswer,
}

/// One attempt as its cluster sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    pub run: Run,
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
