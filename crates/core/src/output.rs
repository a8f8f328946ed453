//! Everything the core wants done, in the order it must be done: commit all
//! writes, then perform the effects, then tell the events.
#![expect(missing_docs, reason = "a field is documented where its name does not say it all")]

use multicluster_types::{
    Attempt, ClusterChangeKind, ClusterName, Decision, ImpossibleTransition, JobId, Kind, Message, Owner,
    PolicyRule, PolicySpec, ReasonKind, State, Timestamp,
};

use crate::{
    Refusal, Run,
    record::{AttemptRecord, ClusterRecord, JobRecord, Orphan},
};

/// What one input led to.
#[derive(Debug, Default)]
#[must_use = "writes must be committed before effects are performed"]
pub struct Output {
    /// Durable changes, in order. All of them in one transaction, before any effect.
    pub writes: Vec<Write>,
    /// Must they survive a power cut? All that has to do with jobs must, and every order of
    /// an operator. A lease is worth nothing without its holder, and neither is its history.
    pub must_sync: bool,
    /// Requests to the clusters.
    pub effects: Vec<Effect>,
    /// What happened, for logs and watchers.
    pub events: Vec<Event>,
    /// The answer to the caller.
    pub reply: Option<Result<Reply, Refusal>>,
    /// What the scheduling cycle did, if one ran.
    pub cycle: Option<CycleStats>,
    /// Changes that the core tried and did not make, because the state diagram has no such
    /// arrow: each is a bug, to be counted and logged. Nothing else came of it.
    pub impossible: Vec<Impossible>,
}

/// A change that a job could not undergo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Impossible {
    pub job: JobId,
    pub what: ImpossibleTransition,
}

/// A durable change.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// This is now the job.
    Job(JobRecord),
    /// Forget the job, its attempts and its decisions.
    DeleteJob(JobId),
    /// This attempt is over.
    Attempt(Box<AttemptRecord>),
    /// Why a job went where it went.
    Decision(Box<Decision>),
    /// This is now the cluster.
    Cluster(ClusterRecord),
    /// Forget the cluster.
    DeleteCluster(ClusterName),
    /// An attempt that was given up may still run.
    Orphan(Orphan),
    /// It does not.
    DeleteOrphan(Orphan),
    /// This is now the policy of this name, beside those of the settings.
    Policy(PolicySpec),
    /// There is no such policy beside those of the settings.
    DeletePolicy(Message),
}

impl Write {
    /// Must this survive a power cut, see [`Output::must_sync`]?
    pub(crate) fn must_sync(&self) -> bool {
        match self {
            Write::Job(record) => record.work.kind == Kind::Job,
            // They belong to a record that is written with them.
            Write::Attempt(_) | Write::Decision(_) => false,
            // A clock: a job that moved it is written with it. Other changes are orders.
            Write::Cluster(_) => false,
            // Forgotten in time, and forgotten again after a power cut, unless it was an order.
            Write::DeleteJob(_) => false,
            Write::DeleteCluster(_)
            | Write::Orphan(_)
            | Write::DeleteOrphan(_)
            | Write::Policy(_)
            | Write::DeletePolicy(_) => true,
        }
    }
}

/// A request to one cluster. The driver reports how each came out, with the same [`Run`];
/// it never leaves one unanswered, except for [`Effect::Forget`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Submit this attempt under [`SubmissionId::of`](multicluster_types::SubmissionId::of).
    Submit { run: Run, cluster: ClusterName },
    /// Ask about one attempt by its submission id.
    Lookup {
        run: Run,
        cluster: ClusterName,
        /// To be repeated with the answer: only the latest question counts.
        question: u32,
    },
    /// Stop one attempt.
    Stop { run: Run, cluster: ClusterName },
    /// Delete the last attempt of a forgotten job from its cluster, if it is still there
    /// and was this job's. Nothing is reported.
    Forget { run: Run, cluster: ClusterName },
    /// Poll this cluster now.
    Poll { cluster: ClusterName },
}

impl Effect {
    /// Which cluster it is a request to.
    #[must_use]
    pub fn cluster(&self) -> &ClusterName {
        match self {
            Effect::Submit { cluster, .. }
            | Effect::Lookup { cluster, .. }
            | Effect::Stop { cluster, .. }
            | Effect::Forget { cluster, .. }
            | Effect::Poll { cluster } => cluster,
        }
    }
}

/// The answer to a caller.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// It was done, or will be.
    Done,
    /// It was accepted.
    Accepted(Accepted),
    /// Each was done or refused, in order.
    Each(Vec<Result<Reply, Refusal>>),
    /// The placement is not granted yet.
    Waits,
    /// The placement is granted to this attempt.
    Granted { attempt: Attempt },
    /// The placement is still the holder's.
    Alive {
        /// A caller wants it stopped: the holder should give it up.
        stopping: bool,
    },
}

/// An accepted submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Its id for life.
    pub job: JobId,
    /// Why it is a job that was there already, if it is one.
    pub duplicate: Option<Duplicate>,
    /// What the caller should know at once: no cluster could ever take it, as they are now.
    pub notice: Option<Message>,
}

/// Why an accepted submission is not a new job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicate {
    /// The same id with the same content.
    SameId,
    /// No id given, and an identical job still waits.
    SameContent,
}

/// Something worth telling.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A job is in another state. Holders of placements learn by it that theirs is granted,
    /// or is to be given up.
    Job {
        job: JobId,
        at: Timestamp,
        /// Its state now.
        state: State,
        /// Where it is or was.
        cluster: Option<ClusterName>,
        attempt: Option<Attempt>,
        message: Option<Message>,
    },
    /// A cluster is in another condition.
    Cluster { cluster: ClusterName, at: Timestamp, change: ClusterChange },
    /// Work is placed by another policy.
    Policy {
        name: Message,
        at: Timestamp,
        change: PolicyChange,
        /// Who wanted it, where tokens say so.
        by: Option<Owner>,
    },
}

/// What changed about a policy.
#[derive(Debug, Clone, PartialEq)]
pub enum PolicyChange {
    /// It is new.
    Registered(PolicyRule),
    /// It replaces another of its name.
    Changed(PolicyRule),
    /// It is gone, and why unless an operator asked for that.
    Removed(Option<Message>),
}

/// What changed about a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterChange {
    /// It is new.
    Registered,
    /// Its description changed.
    Changed,
    /// It will be removed once it is empty.
    Leaving,
    /// It is gone.
    Removed,
    /// It takes nothing new.
    Cordoned(Message),
    /// It takes work again.
    Uncordoned,
    /// Nothing is left on it.
    Drained,
    /// It answers.
    Healthy,
    /// It does not.
    Unhealthy(Message),
    /// Its head restarted: what ran before is gone.
    Restarted,
    /// Too many dispatches failed.
    BreakerOpened,
    /// One probe may pass.
    BreakerHalfOpen,
    /// Dispatching works again.
    BreakerClosed,
}

impl ClusterChange {
    /// Its word.
    #[must_use]
    pub fn kind(&self) -> ClusterChangeKind {
        match self {
            Self::Registered => ClusterChangeKind::Registered,
            Self::Changed => ClusterChangeKind::Changed,
            Self::Leaving => ClusterChangeKind::Leaving,
            Self::Removed => ClusterChangeKind::Removed,
            Self::Cordoned(_) => ClusterChangeKind::Cordoned,
            Self::Uncordoned => ClusterChangeKind::Uncordoned,
            Self::Drained => ClusterChangeKind::Drained,
            Self::Healthy => ClusterChangeKind::Healthy,
            Self::Unhealthy(_) => ClusterChangeKind::Unhealthy,
            Self::Restarted => ClusterChangeKind::Restarted,
            Self::BreakerOpened => ClusterChangeKind::BreakerOpened,
            Self::BreakerHalfOpen => ClusterChangeKind::BreakerHalfOpen,
            Self::BreakerClosed => ClusterChangeKind::BreakerClosed,
        }
    }
}

/// What one cycle did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CycleStats {
    /// Heads there were.
    pub heads: u32,
    /// How many of them got a full look: the others ask for more than any cluster has.
    pub looks: u32,
    /// Placements made.
    pub placed: u32,
    /// Why clusters were passed over, summed over the heads that got a full look and
    /// were not placed.
    pub rejections: std::collections::BTreeMap<ReasonKind, u32>,
}
