//! Everything that the core requests, in the order in which it must happen: commit all writes,
//! then perform the effects, then report the events.
#![expect(missing_docs, reason = "a field is documented where its name does not say it all")]

use multicluster_types::{
    Attempt, ClusterChangeKind, ClusterName, Decision, ImpossibleTransition, JobId, Kind, Message, Owner,
    PolicyRule, PolicySpec, ReasonKind, State, Timestamp,
};

use crate::{
    Refusal, Run,
    core::notices::Notice,
    record::{AttemptRecord, ClusterRecord, JobRecord, Orphan, UsageRecord},
};

/// The result of one input.
#[derive(Debug, Default)]
#[must_use = "writes must be committed before effects are performed"]
pub struct Output {
    /// Durable changes, in order. All of them in one transaction, before any effect.
    pub writes: Vec<Write>,
    /// Must the writes survive a power cut? All writes about jobs must, and every order of an
    /// operator. A lease is worth nothing without its holder, and neither is its history.
    pub must_sync: bool,
    /// Requests to the clusters.
    pub effects: Vec<Effect>,
    /// Events for logs and watchers.
    pub events: Vec<Event>,
    /// The answer to the caller.
    pub reply: Option<Result<Reply, Refusal>>,
    /// What the scheduling cycle did, if one ran.
    pub cycle: Option<CycleStats>,
    /// Jobs whose records were made from their runs. The driver stores what these runs say as the
    /// payloads, in the same transaction.
    pub found: Vec<Run>,
    /// Changes that the core tried and did not make, because the state diagram has no such arrow.
    /// Each is a bug, to be counted and logged, and has no other effect.
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
    /// The new record of the job.
    Job(JobRecord),
    /// Forget the job, its attempts and its decisions.
    DeleteJob(JobId),
    /// This attempt is over.
    Attempt(Box<AttemptRecord>),
    /// Why a job went where it went.
    Decision(Box<Decision>),
    /// The new record of the cluster.
    Cluster(ClusterRecord),
    /// Forget the cluster.
    DeleteCluster(ClusterName),
    /// An attempt that was given up may still run.
    Orphan(Orphan),
    /// An attempt that was given up does not run any more.
    DeleteOrphan(Orphan),
    /// The new policy of this name, in addition to those of the settings.
    Policy(PolicySpec),
    /// Removes the registered policy of this name.
    DeletePolicy(Message),
    /// What an owner or a group had of the pool.
    Usage(UsageRecord),
    /// Nothing is left of what this owner or group had.
    DeleteUsage(Owner),
}

impl Write {
    /// Must this survive a power cut, see [`Output::must_sync`]?
    pub(crate) fn must_sync(&self) -> bool {
        match self {
            Write::Job(record) => record.work.kind == Kind::Job,
            // They belong to a record that is written together with them.
            Write::Attempt(_) | Write::Decision(_) => false,
            // It belongs to jobs that are written together with it.
            Write::Usage(_) | Write::DeleteUsage(_) => false,
            // Only the clock changed: the job that moved it is written together with it. Other
            // changes are orders.
            Write::Cluster(_) => false,
            // Retention forgets the job again after a power cut. A delete by a caller is an order.
            Write::DeleteJob(_) => false,
            Write::DeleteCluster(_)
            | Write::Orphan(_)
            | Write::DeleteOrphan(_)
            | Write::Policy(_)
            | Write::DeletePolicy(_) => true,
        }
    }
}

/// A request to one cluster. The driver reports the outcome of each, with the same [`Run`]. It
/// never leaves one without a report, except for [`Effect::Forget`].
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
    /// Make sure that this attempt never runs: submit a no-op under its id, a *tombstone*. Ray takes
    /// an id once, so a request for the attempt that is still on its way will be refused. Reported
    /// as a lookup: what the cluster has under the id from now on.
    Bury {
        run: Run,
        cluster: ClusterName,
        /// To be repeated with the answer.
        question: u32,
    },
    /// Take back one attempt that has not begun, because the nodes that it waits for do not come: end it,
    /// but only as long as it certainly has not begun. There is no report: a watch sees what became of it.
    Recall { run: Run, cluster: ClusterName },
    /// Stop one attempt.
    Stop { run: Run, cluster: ClusterName },
    /// Delete the last attempt of a forgotten job from its cluster, if it is still there and
    /// belonged to this job. There is no report.
    Forget { run: Run, cluster: ClusterName },
    /// Poll this cluster now.
    Poll { cluster: ClusterName },
    /// List all runs of this control plane on this cluster, ended ones included. Reported as
    /// [`Input::Listed`](crate::Input::Listed).
    List { cluster: ClusterName },
}

impl Effect {
    /// The cluster that the request goes to.
    #[must_use]
    pub fn cluster(&self) -> &ClusterName {
        match self {
            Effect::Submit { cluster, .. }
            | Effect::Lookup { cluster, .. }
            | Effect::Bury { cluster, .. }
            | Effect::Recall { cluster, .. }
            | Effect::Stop { cluster, .. }
            | Effect::Forget { cluster, .. }
            | Effect::Poll { cluster }
            | Effect::List { cluster } => cluster,
        }
    }
}

/// The answer to a caller.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The request is carried out, or will be.
    Done,
    /// The submission is accepted.
    Accepted(Accepted),
    /// Each request was carried out or refused, in order.
    Each(Vec<Result<Reply, Refusal>>),
    /// The placement is not granted yet.
    Waits,
    /// The placement is granted to this attempt.
    Granted { attempt: Attempt },
    /// The holder still has the placement.
    Alive {
        /// A caller wants the work stopped: the holder should give the placement up.
        stopping: bool,
    },
}

/// An accepted submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The id of the job for life.
    pub job: JobId,
    /// Why it is an existing job, if it is one.
    pub duplicate: Option<Duplicate>,
    /// What the caller should know at once.
    pub notices: Vec<Notice>,
}

/// Why an accepted submission is not a new job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicate {
    /// The same id with the same content.
    SameId,
    /// No id was given, and an identical job is still queued.
    SameContent,
}

/// An event for logs and watchers.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The state of a job changed. Holders of placements learn from it that theirs is granted, or
    /// must be given up.
    Job {
        job: JobId,
        at: Timestamp,
        /// The new state.
        state: State,
        /// The cluster where the job is or was.
        cluster: Option<ClusterName>,
        attempt: Option<Attempt>,
        message: Option<Message>,
        /// Whose job it is.
        owner: Option<Owner>,
        /// Who asked for the change, if a caller with a token did.
        by: Option<Owner>,
    },
    /// The condition of a cluster changed.
    Cluster {
        cluster: ClusterName,
        at: Timestamp,
        change: ClusterChange,
        /// Who asked for the change, if a caller with a token did.
        by: Option<Owner>,
    },
    /// The configuration file was refused, or is in force again.
    Config {
        at: Timestamp,
        change: ConfigChange,
        /// Who asked for the reload, if a caller with a token did.
        by: Option<Owner>,
    },
    /// A policy changed.
    Policy {
        name: Message,
        at: Timestamp,
        change: PolicyChange,
        /// The operator, if tokens are in use.
        by: Option<Owner>,
    },
}

/// What came of a changed configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigChange {
    /// It cannot be used, or a file that is a part of it: what was last valid in it stays in force.
    Refused(Message),
    /// It is in force, after one that could not be used.
    Reloaded,
}

/// What changed about a policy.
#[derive(Debug, Clone, PartialEq)]
pub enum PolicyChange {
    /// The policy is new.
    Registered(PolicyRule),
    /// The policy replaces another of the same name.
    Changed(PolicyRule),
    /// The policy is gone; with the reason, unless an operator removed it.
    Removed(Option<Message>),
}

/// What changed about a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterChange {
    /// The cluster is new.
    Registered,
    /// Its description changed.
    Changed,
    /// It will be removed once it is empty.
    Leaving,
    /// It is gone.
    Removed,
    /// It accepts no new work.
    Cordoned(Message),
    /// It accepts no new work, and an operator waits until it is empty.
    Draining(Message),
    /// It accepts work again.
    Uncordoned,
    /// No work is left on it.
    Drained,
    /// It answers.
    Healthy,
    /// It has stopped answering.
    Unhealthy(Message),
    /// It refuses our token.
    Unauthorized(Message),
    /// Its head restarted: earlier runs are gone.
    Restarted,
    /// Too many dispatches failed.
    BreakerOpened,
    /// One probe may pass.
    BreakerHalfOpen,
    /// Dispatching works again.
    BreakerClosed,
    /// It was asked to grow, and did not.
    NotGrown(Message),
}

impl ClusterChange {
    /// The stable word for this change.
    #[must_use]
    pub fn kind(&self) -> ClusterChangeKind {
        match self {
            Self::Registered => ClusterChangeKind::Registered,
            Self::Changed => ClusterChangeKind::Changed,
            Self::Leaving => ClusterChangeKind::Leaving,
            Self::Removed => ClusterChangeKind::Removed,
            Self::Cordoned(_) => ClusterChangeKind::Cordoned,
            Self::Draining(_) => ClusterChangeKind::Draining,
            Self::Uncordoned => ClusterChangeKind::Uncordoned,
            Self::Drained => ClusterChangeKind::Drained,
            Self::Healthy => ClusterChangeKind::Healthy,
            Self::Unhealthy(_) => ClusterChangeKind::Unhealthy,
            Self::Unauthorized(_) => ClusterChangeKind::Unauthorized,
            Self::Restarted => ClusterChangeKind::Restarted,
            Self::BreakerOpened => ClusterChangeKind::BreakerOpened,
            Self::BreakerHalfOpen => ClusterChangeKind::BreakerHalfOpen,
            Self::BreakerClosed => ClusterChangeKind::BreakerClosed,
            Self::NotGrown(_) => ClusterChangeKind::NotGrown,
        }
    }
}

/// What one cycle did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CycleStats {
    /// How many heads there were.
    pub heads: u32,
    /// How many heads got a full look: the others ask for more than any cluster has.
    pub looks: u32,
    /// Placements made.
    pub placed: u32,
    /// Why clusters were not chosen, summed over the heads that got a full look and were not placed.
    pub rejections: std::collections::BTreeMap<ReasonKind, u32>,
}
