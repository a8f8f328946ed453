//! Everything that can happen to the core.
#![expect(missing_docs, reason = "a field is documented where its name does not say it all")]

use multicluster_types::{
    Attempt, ClusterName, ClusterSpec, ContentHash, Incarnation, JobId, Message, Owner, PolicySpec, Settings,
    Snapshot, Span, Timestamp, Work,
};

use crate::record::JobRecord;

/// One attempt, distinct from every other that ever had its id. The core puts it into each
/// [`Effect`](crate::Effect). A completion that carries an earlier job or an earlier attempt is dropped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run {
    pub job: JobId,
    pub attempt: Attempt,
    /// When the job was accepted: an id may be used again. `None`: the job may be forgotten, so
    /// only its id and the attempt are known.
    pub life: Option<Timestamp>,
}

impl Run {
    /// Is it an attempt of this job, and not of an earlier job with the same id?
    #[must_use]
    pub fn is_of(&self, job: &JobRecord) -> bool {
        self.life.is_none_or(|life| life == job.submitted_at)
    }
}

/// One event that happened to the core.
#[derive(Debug, Clone)]
pub enum Input {
    /// A caller submits work. Tasks that count as one submission under the 40-second rule share a
    /// `group`, which the server mints.
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
    /// A poll had no answer, or a malformed one.
    PollFailed { cluster: ClusterName, error: Message },
    /// A poll was answered: the cluster refuses our token, or there is no token to show it.
    Unauthorized { cluster: ClusterName, error: Message },
    /// [`Effect::Submit`](crate::Effect::Submit) is under way, and its request is not sent yet: the
    /// packages of the job are being pushed. The time for the request starts again.
    Pushing {
        run: Run,
        /// Bytes that were pushed, of this many.
        pushed: u64,
        of: u64,
    },
    /// [`Effect::Submit`](crate::Effect::Submit) came to an end.
    Dispatched {
        run: Run,
        outcome: DispatchOutcome,
        /// How long the dashboard took for the request itself; zero if none was sent.
        took: Span,
    },
    /// [`Effect::Lookup`](crate::Effect::Lookup) or [`Effect::Bury`](crate::Effect::Bury) came to
    /// an end.
    LookedUp {
        run: Run,
        /// The question number of the effect.
        question: u32,
        outcome: LookupOutcome,
    },
    /// [`Effect::Stop`](crate::Effect::Stop) came to an end.
    StopSent {
        run: Run,
        /// Did the cluster answer?
        answered: bool,
    },
    /// A watch of one cluster saw these runs. Only our own: the driver tells runs of other
    /// control planes and of other programs apart by the metadata it put into each run.
    Observed {
        cluster: ClusterName,
        /// The incarnation of the head that was watched: reports of an earlier one are void.
        incarnation: Option<Incarnation>,
        /// If set, the list is complete as of this moment: missing jobs are asked about.
        complete_at: Option<Timestamp>,
        runs: Vec<Observation>,
    },
    /// [`Effect::List`](crate::Effect::List) came to an end.
    Listed {
        cluster: ClusterName,
        /// All of our runs on the cluster; `None`: there was no answer, or not a complete one.
        runs: Option<Vec<Listed>>,
    },
    /// The caller of a placement still waits for it. A queued placement whose caller stops asking
    /// is given up.
    Waits { job: JobId },
    /// The caller of a placement does not want it any more, whatever its state.
    Withdraw { job: JobId },
    /// The holder of a placement is alive, and has submitted its work to the cluster: from now on
    /// the cluster's own facts are expected to show the work.
    Heartbeat { job: JobId, attempt: Attempt },
    /// The holder of a placement is done with it.
    Released { job: JobId, attempt: Attempt, outcome: ReleaseOutcome },

    /// An operator adds a cluster, or changes the description of a known one.
    Register {
        spec: Box<ClusterSpec>,
        /// May it replace one of the same name?
        replace: bool,
    },
    /// An operator removes a cluster. A cluster with work on it is drained first.
    Remove {
        cluster: ClusterName,
        /// Do not wait for the work on it.
        force: bool,
    },
    /// An operator keeps new work off a cluster.
    Cordon {
        cluster: ClusterName,
        /// `None`: the note of an earlier order stays, or names the operator.
        note: Option<Message>,
        /// Report when no work is left on it.
        drain: bool,
    },
    /// An operator lets new work onto a cluster again.
    Uncordon { cluster: ClusterName },
    /// An operator requests a poll now.
    CheckNow { cluster: ClusterName },
    /// The configuration changed.
    Reload {
        settings: Box<Settings>,
        /// All clusters of the file. Other clusters that came from a file are removed.
        clusters: Vec<ClusterSpec>,
    },
    /// The same, while files that are a part of the configuration cannot be used: their last valid
    /// content is in force.
    ReloadInPart {
        settings: Box<Settings>,
        clusters: Vec<ClusterSpec>,
        /// What is wrong with these files.
        refused: Message,
    },
    /// An operator adds a policy to those of the settings, or replaces one.
    SetPolicy {
        spec: Box<PolicySpec>,
        /// The operator, if tokens are in use.
        by: Option<Owner>,
    },
    /// An operator removes a registered policy.
    RemovePolicy {
        name: Message,
        /// The operator, if tokens are in use.
        by: Option<Owner>,
    },
    /// The changed configuration cannot be used.
    RefusedConfig { why: Message },
    /// This caller asks for it: the events say so.
    By { owner: Owner, input: Box<Input> },
    /// Several inputs at once: one cycle, and an answer for each in order.
    Together(Vec<Input>),
    /// [`Core::next_wakeup`](crate::Core::next_wakeup) has come.
    Tick,
    /// The control plane could hear nothing for a while: the machine slept, or the disk stalled.
    /// Must come before every other input of that time.
    Awoke,
}

impl Input {
    /// Is it a request of an operator or a caller that must survive a power cut once it is
    /// answered, whatever it leads to?
    pub(crate) fn is_order(&self) -> bool {
        match self {
            Input::Delete { .. }
            | Input::Register { .. }
            | Input::Remove { .. }
            | Input::Cordon { .. }
            | Input::Uncordon { .. }
            | Input::Reload { .. }
            | Input::ReloadInPart { .. }
            | Input::SetPolicy { .. }
            | Input::RemovePolicy { .. } => true,
            Input::Together(inputs) => inputs.iter().any(Input::is_order),
            Input::By { input, .. } => input.is_order(),
            Input::Submit(_)
            | Input::Stop { .. }
            | Input::Rerun { .. }
            | Input::Polled { .. }
            | Input::PollFailed { .. }
            | Input::Unauthorized { .. }
            | Input::Pushing { .. }
            | Input::Dispatched { .. }
            | Input::LookedUp { .. }
            | Input::StopSent { .. }
            | Input::Observed { .. }
            | Input::Listed { .. }
            | Input::Waits { .. }
            | Input::Withdraw { .. }
            | Input::Heartbeat { .. }
            | Input::Released { .. }
            | Input::CheckNow { .. }
            | Input::RefusedConfig { .. }
            | Input::Tick
            | Input::Awoke => false,
        }
    }
}

/// A request to run work.
#[derive(Debug, Clone)]
pub struct Submission {
    /// The id from the caller, or one made for it.
    pub id: Identity,
    pub work: Work,
    /// Fingerprint of everything else in the request, to find duplicates by content; `None` if
    /// the payload stays with the caller.
    pub content: Option<ContentHash>,
    /// The size of the payload as it is stored; 0 if the payload stays with the caller.
    pub bytes: u32,
    /// Set if submitted from inside a scheduled job.
    pub parent: Option<Parent>,
}

/// The origin of an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// The caller chose it: submitting the same id again means the same job.
    Given(JobId),
    /// Made by the control plane: the caller may get an identical queued job instead.
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
    /// The cluster that runs the parent: its sub-work stays there.
    pub cluster: ClusterName,
}

/// The outcome of a submit request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DispatchOutcome {
    /// The cluster has the attempt.
    Accepted,
    /// The cluster reports that this request can never work; no other cluster is tried.
    Refused(Message),
    /// The cluster reports that it does not know a part of the request, as older versions of Ray
    /// do not: it can never accept this job, and others may.
    Unsupported(Message),
    /// The request certainly did not arrive (connection refused, no agent).
    Failed(Message),
    /// The cluster refused our token, so it did not even look at the request.
    Denied(Message),
    /// The request was never sent, for a reason of our own (the store). It says nothing about the
    /// cluster.
    NotSent(Message),
    /// The request may have arrived (timeout, connection lost after sending).
    Unknown(Message),
    /// The cluster has a run of this id that belongs to something else. So this attempt is not
    /// there and never will be: the next attempt has another id.
    Taken(Message),
}

/// The outcome of a lookup of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupOutcome {
    /// The cluster has the attempt.
    Found(RunStatus),
    /// The cluster answered that it knows no such submission.
    NotFound {
        /// The incarnation of the head that answered.
        incarnation: Option<Incarnation>,
    },
    /// The cluster has a run of this id that does not belong to this attempt.
    Taken {
        message: Message,
        /// The incarnation of the head that answered.
        incarnation: Option<Incarnation>,
    },
    /// The cluster has a tombstone under this id: the attempt will never run on this head.
    Buried {
        /// The incarnation of the head that answered.
        incarnation: Option<Incarnation>,
    },
    /// There was no answer.
    NoAnswer,
}

/// One attempt as its cluster sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    pub run: Run,
    pub status: RunStatus,
    /// How long it ran, by the clock of its cluster, if it has ended.
    pub ran: Option<Span>,
}

/// One run of ours, with what a new record of its job needs. All but the first two come from the
/// mark on the run: earlier versions did not write them.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// Its life is known.
    pub run: Run,
    pub status: RunStatus,
    pub work: Option<Box<Work>>,
    pub content: Option<ContentHash>,
    pub bytes: u32,
    /// When the cluster accepted it.
    pub sent_at: Option<Timestamp>,
}

/// What a cluster reports about one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunStatus {
    /// Not started yet.
    Pending,
    /// Running.
    Running,
    /// Ended successfully.
    Succeeded,
    /// Ended with a failure.
    Failed {
        message: Message,
        /// The entrypoint never ran (no environment, no room): safe to try elsewhere.
        never_started: bool,
        /// The exit code of the entrypoint, if the cluster reports it.
        exit_code: Option<i64>,
    },
    /// Stopped.
    Stopped,
}

/// How the holder of a placement fared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// The work is done.
    Succeeded,
    /// The work ran and failed.
    Failed(Message),
    /// The holder could not reach the cluster: the work never ran.
    Unreachable(Message),
    /// The holder gave the placement up.
    Stopped,
}
