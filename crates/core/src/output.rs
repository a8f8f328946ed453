//! Everything the core wants done, in the order it must be done: commit all
//! writes, then perform the effects, then tell the events.

use multicluster_types::{
    Attempt, ClusterName, Decision, JobId, Message, Owner, PolicyRule, PolicySpec, ReasonKind, State,
    Timestamp,
};

use crate::{
    Refusal,
    record::{AttemptRecord, ClusterRecord, JobRecord, Orphan},
};

/// What one input led to.
#[derive(Debug, Default)]
#[must_use = "writes must be committed before effects are performed"]
pub struct Output {
    /// Durable changes, in order. All of them in one transaction, before any effect.
    pub writes: Vec<Write>,
    /// Requests to the clusters.
    pub effects: Vec<Effect>,
    /// What happened, for logs and watchers.
    pub events: Vec<Event>,
    /// The answer to the caller.
    pub reply: Option<Result<Reply, Refusal>>,
    /// What the scheduling cycle did, if one ran.
    pub cycle: Option<CycleStats>,
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

/// A request to the outside. The driver reports how each came out; it never
/// leaves one unanswered, but for [`Effect::Forget`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Submit this job under [`SubmissionId::of`](multicluster_types::SubmissionId::of).
    Submit {
        /// Which job.
        job: JobId,
        /// Which try.
        attempt: Attempt,
        /// To whom.
        cluster: ClusterName,
    },
    /// Tell the waiting caller that its task or actor may run there.
    Grant {
        /// Which task or actor.
        job: JobId,
        /// Which try.
        attempt: Attempt,
        /// Where.
        cluster: ClusterName,
    },
    /// Tell the holder of a placement to give it up.
    Revoke {
        /// Which task or actor.
        job: JobId,
        /// Which try.
        attempt: Attempt,
    },
    /// Ask about one attempt by its submission id.
    Lookup {
        /// Which job.
        job: JobId,
        /// Which try.
        attempt: Attempt,
        /// Whom.
        cluster: ClusterName,
        /// To be repeated with the answer: only the latest question counts.
        question: u32,
    },
    /// Stop one attempt.
    Stop {
        /// Which job.
        job: JobId,
        /// Which try.
        attempt: Attempt,
        /// Where.
        cluster: ClusterName,
    },
    /// Delete the last attempt of a forgotten job from its cluster, if it is there yet
    /// and was this job's. Nobody waits for it, so nothing is reported.
    Forget {
        /// Which job it was.
        job: JobId,
        /// Its last try.
        attempt: Attempt,
        /// Where that was.
        cluster: ClusterName,
        /// When the job was accepted: an id may be used again.
        submitted_at: Timestamp,
    },
    /// Poll this cluster now.
    Poll {
        /// Which.
        cluster: ClusterName,
    },
}

/// The answer to a caller.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// It was done, or will be.
    Done,
    /// It was accepted.
    Accepted(Accepted),
    /// Each was accepted or refused, in order.
    Batch(Vec<Result<Accepted, Refusal>>),
    /// Each was done or refused, in order.
    Each(Vec<Result<Reply, Refusal>>),
    /// The placement is not granted yet.
    Waits,
    /// It is granted.
    Granted {
        /// Which try.
        attempt: Attempt,
    },
    /// The placement is still the holder's.
    Alive {
        /// Somebody wants it stopped: the holder should give it up.
        stopping: bool,
    },
}

/// An accepted submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Its id for life.
    pub job: JobId,
    /// Is it a job that was there already?
    pub duplicate: Option<Duplicate>,
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
    /// A job is in another state.
    Job {
        /// Which.
        job: JobId,
        /// When.
        at: Timestamp,
        /// Its state now.
        state: State,
        /// Where it is or was.
        cluster: Option<ClusterName>,
        /// Which try.
        attempt: Option<Attempt>,
        /// Why.
        message: Option<Message>,
    },
    /// A cluster is in another condition.
    Cluster {
        /// Which.
        cluster: ClusterName,
        /// When.
        at: Timestamp,
        /// What changed.
        change: ClusterChange,
    },
    /// Work is placed by another policy.
    Policy {
        /// Which.
        name: Message,
        /// When.
        at: Timestamp,
        /// What changed.
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
    /// It is gone, and why if nobody asked for that.
    Removed(Option<Message>),
}

/// What changed about a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterChange {
    /// It is new.
    Registered,
    /// It is described anew.
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
    /// Its head was started anew: what ran before is gone.
    Restarted,
    /// Too many dispatches failed.
    BreakerOpened,
    /// One probe may pass.
    BreakerHalfOpen,
    /// Dispatching works again.
    BreakerClosed,
}

/// What one cycle did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CycleStats {
    /// Heads there were.
    pub heads: u32,
    /// How many of them got a full look: the others ask for more than anybody has.
    pub looks: u32,
    /// Placements made.
    pub placed: u32,
    /// Why clusters were passed over, summed over the heads that got a full look and
    /// were not placed.
    pub rejections: std::collections::BTreeMap<ReasonKind, u32>,
}
