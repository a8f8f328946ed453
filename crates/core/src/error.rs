//! Why a request was refused. Each refusal has a stable code, and a hint on what to do next.
#![expect(missing_docs, reason = "a field is documented where its name does not say it all")]

use multicluster_types::{Attempt, ClusterName, JobId, Message, Owner, Priority, State, Tag};

use crate::{policy::PolicyError, queue::QueueName};

/// A request that was not carried out. Nothing changed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The queue is full: backpressure.
    #[error("queue {queue} is full: {len} are waiting\n  hint: submit later, or raise max_queue")]
    QueueFull { queue: QueueName, len: u32 },
    /// The owner, or the owner's group, has as much queued as it may.
    #[error(
        "{owner} has {queued} queued, at most {most} are allowed\n  hint: submit later, or ask an administrator to raise max_queued of {owner}"
    )]
    OwnerQueueFull { owner: Owner, queued: u32, most: u32 },
    /// The owner, or the owner's group, may not ask for such a priority.
    #[error(
        "{owner} may ask for a priority up to {most}, not {priority}\n  hint: submit with --priority {most} or less"
    )]
    PriorityTooHigh { owner: Owner, priority: Priority, most: Priority },
    /// The payloads of jobs that have not ended take all the room there is for them.
    #[error(
        "{}jobs that have not ended take {} of {} MiB\n  hint: submit later, put large data into working_dir, or raise job_store",
        if *of_owner { "your " } else { "" }, held >> 20, most >> 20
    )]
    StoreFull {
        held: u64,
        most: u64,
        /// The owner's own part is used up, not all of it.
        of_owner: bool,
    },
    /// The id belongs to a different job.
    #[error(
        "job {job} exists with other content (it is {state})\n  hint: choose another id, or submit exactly the same again"
    )]
    Conflict { job: JobId, state: State },
    /// The id belongs to another owner's job. The message reveals nothing about that job.
    #[error("the id {job} is taken by another owner's job\n  hint: choose another id")]
    Taken { job: JobId },
    /// The named cluster is not in the pool.
    #[error("unknown cluster {cluster}\n  hint: {}", known_clusters(.known))]
    UnknownCluster { cluster: ClusterName, known: Vec<ClusterName> },
    /// No cluster to run anything on.
    #[error("no cluster is registered\n  hint: list some in cluster.yaml, or register one")]
    NoClusters,
    /// No registered cluster could ever accept the work, and the settings say to refuse such work.
    #[error("no cluster could ever take this: {why}\n  hint: ask for less, or set infeasible: queue")]
    Infeasible { why: Message },
    /// No registered cluster carries the tag, and the settings say to refuse such work.
    #[error("no cluster carries tag {tag}\n  hint: {}", known_tags(.similar.as_ref(), .known))]
    UnknownTag {
        tag: Tag,
        /// What it was probably meant to be.
        similar: Option<Tag>,
        known: Vec<Tag>,
    },
    /// The submitter does not run inside the job it names.
    #[error(
        "job {job} is not running on cluster {cluster}, so nothing can be submitted from inside it\n  hint: submit from outside a job, without its context"
    )]
    NotInside {
        /// The job that the submitter named.
        job: JobId,
        /// The cluster that the submitter named.
        cluster: ClusterName,
    },
    /// There is no such job.
    #[error("job {job} does not exist\n  hint: ended jobs are forgotten after retain_for")]
    UnknownJob { job: JobId },
    /// The job has ended, or has not ended, and the request needs the opposite.
    #[error("job {job} is {state}, so it cannot be {verb}\n  hint: {hint}")]
    WrongState { job: JobId, state: State, verb: &'static str, hint: &'static str },
    /// The placement is not, or no longer, the caller's.
    #[error(
        "attempt {attempt} of {job} holds no placement\n  hint: it expired or was given to a later attempt; submit again"
    )]
    NoLease { job: JobId, attempt: Attempt },
    /// Two clusters with one name.
    #[error("cluster {cluster} is {}\n  hint: names must be unique; to change a cluster, replace it", twice(*.in_list))]
    DuplicateCluster {
        cluster: ClusterName,
        /// Twice in the list, rather than in the list and in the pool?
        in_list: bool,
    },
    /// A policy cannot be used.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The policy belongs to the settings, and can only be changed there.
    #[error(
        "policy {name} is one of the settings, so the API cannot {verb} it\n  hint: change it under scheduler.policies in the configuration file, or use another name"
    )]
    FilePolicy { name: Message, verb: &'static str },
    /// There is no such policy.
    #[error("there is no policy {name}\n  hint: {}", known_policies(.known))]
    UnknownPolicy { name: Message, known: Vec<Message> },
}

impl Refusal {
    /// A stable word for APIs; the SDK chooses the Python exception by it.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::QueueFull { .. } | Refusal::StoreFull { .. } | Refusal::OwnerQueueFull { .. } => {
                "queue_full"
            }
            Refusal::PriorityTooHigh { .. } => "priority_too_high",
            Refusal::Conflict { .. } | Refusal::Taken { .. } => "conflict",
            Refusal::UnknownCluster { .. } => "unknown_cluster",
            Refusal::NoClusters => "no_clusters",
            Refusal::Infeasible { .. } => "infeasible",
            Refusal::UnknownTag { .. } => "unknown_tag",
            Refusal::NotInside { .. } => "not_inside",
            Refusal::UnknownJob { .. } => "unknown_job",
            Refusal::WrongState { .. } => "wrong_state",
            Refusal::NoLease { .. } => "no_lease",
            Refusal::DuplicateCluster { .. } => "duplicate_cluster",
            Refusal::Policy(_) => "bad_policy",
            Refusal::FilePolicy { .. } => "file_policy",
            Refusal::UnknownPolicy { .. } => "unknown_policy",
        }
    }
}

fn known_clusters(known: &[ClusterName]) -> String {
    const SHOWN: usize = 20;
    let names: Vec<_> = known.iter().take(SHOWN).map(ClusterName::as_str).collect();
    match known.len() {
        0 => "no cluster is registered".to_owned(),
        n if n > SHOWN => format!("there are {}, and {} more", names.join(", "), n - SHOWN),
        _ => format!("there are {}", names.join(", ")),
    }
}

fn known_tags(similar: Option<&Tag>, known: &[Tag]) -> String {
    const SHOWN: usize = 20;
    if let Some(similar) = similar {
        return format!("did you mean {similar}?");
    }
    let names: Vec<_> = known.iter().take(SHOWN).map(Tag::as_str).collect();
    match known.len() {
        0 => "no cluster carries any tag; set unknown_tags: allow to keep it as a label".to_owned(),
        n if n > SHOWN => format!("clusters carry {}, and {} more", names.join(", "), n - SHOWN),
        _ => format!("clusters carry {}; unknown_tags: allow keeps others as labels", names.join(", ")),
    }
}

fn known_policies(known: &[Message]) -> String {
    let names: Vec<_> = known.iter().map(Message::as_str).collect();
    if names.is_empty() { "none is in force".to_owned() } else { format!("there are {}", names.join(", ")) }
}

fn twice(in_list: bool) -> &'static str {
    if in_list { "listed twice" } else { "registered already" }
}
