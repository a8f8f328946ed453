//! Queries: jobs, queues, clusters. Nothing here changes anything.
#![expect(missing_docs, reason = "a field is documented where its name does not say it all")]

use std::sync::Arc;

use multicluster_types::{
    CircuitKind, ClusterName, ClusterSpec, HealthKind, JobId, Kind, Message, Owner, Platform, Reason,
    Resources, Settings, Snapshot, Span, Timestamp, Work,
};

use crate::{
    Core, QueueName, Run,
    breaker::Breaker,
    pool::{Cluster, Health},
    record::{Cordon, JobRecord, Source},
};

/// One cluster as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterView {
    /// The operator's description.
    pub spec: Arc<ClusterSpec>,
    pub source: Source,
    /// Does it answer?
    pub health: HealthState,
    /// The facts of the latest poll.
    pub snapshot: Option<Snapshot>,
    /// Promised to work, and not in the facts yet.
    pub promised: Resources,
    /// The demand of our work on it, used or not.
    pub claimed: Resources,
    /// What work from outside may still use of what is there; empty while its facts are not known.
    pub free: Resources,
    /// Whether more nodes come, if the cluster can grow.
    pub growth: Option<GrowthView>,
    /// Its platform, by its facts or else its tags.
    pub platform: Platform,
    /// The position of its circuit.
    pub circuit: CircuitState,
    /// Set if the cluster accepts no new work.
    pub cordon: Option<Cordon>,
    /// Will it be removed as soon as it is empty?
    pub leaving: bool,
    /// Our live work on it.
    pub live: usize,
    /// How many of those are top-level jobs.
    pub top_level_jobs: u32,
    /// How many jobs have their driver on its head node.
    pub drivers: u32,
    /// How many drivers its head node has memory for, if that is known.
    pub driver_limit: Option<u32>,
    /// Jobs that have not been seen running yet.
    pub starting: usize,
    /// How many jobs may be starting at once, given how the cluster copes.
    pub starting_limit: u32,
    /// When the next top-level submission is allowed, if not now.
    pub next_submission_at: Option<Timestamp>,
    /// Why no job that is submitted now would go there, whatever the job asks for. If only the
    /// submission interval keeps jobs off, it says so.
    pub closed: Option<Reason>,
    /// What work that is not ours uses of it, if that could be measured in the last hour.
    pub foreign: Option<Resources>,
    /// Room is kept for this job, which has waited too long.
    pub reserved_for: Option<JobId>,
    /// The owner of that job.
    pub reserved_owner: Option<Owner>,
}

/// The growth of a cluster that can grow.
#[derive(Debug, Clone, PartialEq)]
pub struct GrowthView {
    /// How many nodes can be added. If it did not grow when it was asked to, none beyond what it had.
    pub can_add: u32,
    /// What it has then: its threshold is measured against that.
    pub grown: Resources,
    /// How much work was sent there and waits for nodes.
    pub waiting: usize,
    /// Since when it has been asked to grow in vain, and when it is asked again.
    pub stuck: Option<(Timestamp, Timestamp)>,
}

/// Does a cluster answer?
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HealthState {
    /// Not polled yet, or it has not answered yet.
    NeverSeen,
    /// It answers.
    Healthy,
    /// It does not answer.
    Unhealthy {
        since: Timestamp,
        /// The error of the last poll.
        error: Message,
    },
    /// It refuses our token.
    Unauthorized {
        since: Timestamp,
        /// What it refused.
        error: Message,
    },
}

impl HealthState {
    /// The stable word for this state.
    #[must_use]
    pub fn kind(&self) -> HealthKind {
        match self {
            Self::NeverSeen => HealthKind::NeverSeen,
            Self::Healthy => HealthKind::Healthy,
            Self::Unhealthy { .. } => HealthKind::Unhealthy,
            Self::Unauthorized { .. } => HealthKind::Unauthorized,
        }
    }
}

/// The position of a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitState {
    /// Work passes.
    Closed,
    /// No work passes until then.
    Open {
        /// When one probe may pass.
        until: Timestamp,
    },
    /// One probe may pass, or is under way.
    HalfOpen,
}

impl CircuitState {
    /// The stable word for this state.
    #[must_use]
    pub fn kind(self) -> CircuitKind {
        match self {
            Self::Closed => CircuitKind::Closed,
            Self::Open { .. } => CircuitKind::Open,
            Self::HalfOpen => CircuitKind::HalfOpen,
        }
    }
}

impl Core {
    /// The latest time that the core was given.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The settings in force.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// One job.
    #[must_use]
    pub fn job(&self, id: &JobId) -> Option<&JobRecord> {
        self.jobs.find(id).map(|key| self.jobs[key].record())
    }

    /// Is this the latest attempt of a known job, and not of an earlier job with the same id?
    #[must_use]
    pub fn is_latest(&self, run: &Run) -> bool {
        self.job(&run.job).is_some_and(|job| job.attempts == run.attempt.0 && run.is_of(job))
    }

    /// Every known job, in an arbitrary but stable order.
    pub fn jobs(&self) -> impl Iterator<Item = &JobRecord> {
        self.jobs.iter().map(|(_, job)| job.record())
    }

    /// The work on one cluster.
    pub fn live_on(&self, cluster: &ClusterName) -> impl Iterator<Item = &JobRecord> {
        let keys = self.pool.find(cluster).map(|key| &self.pool[key].live);
        keys.into_iter().flatten().map(|key| self.jobs[*key].record())
    }

    /// How many jobs are known, ended ones included.
    #[must_use]
    pub fn job_count(&self) -> usize {
        self.jobs.len()
    }

    /// Is any work queued, on a cluster, or still to be stopped there?
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.jobs.len() > self.jobs.ended_count() || !self.orphans.known().is_empty()
    }

    /// The length of each queue.
    pub fn queues(&self) -> impl Iterator<Item = (&QueueName, u32)> {
        self.queue.lines().iter().map(|line| (&line.name, line.length))
    }

    /// One cluster.
    #[must_use]
    pub fn cluster(&self, name: &ClusterName) -> Option<ClusterView> {
        self.pool.find(name).map(|key| self.view_of(&self.pool[key]))
    }

    /// Since when, and why, the configuration file cannot be used; `None`: it is in force.
    #[must_use]
    pub fn refused_config(&self) -> Option<&(Timestamp, Message)> {
        self.refused_config.as_ref()
    }

    /// The address of this cluster's dashboard.
    #[must_use]
    pub fn dashboard(&self, name: &ClusterName) -> Option<&str> {
        self.pool.find(name).map(|key| &*self.pool[key].record.spec.dashboard)
    }

    /// The Ray Client address of this cluster.
    #[must_use]
    pub fn head_address(&self, name: &ClusterName) -> Option<&str> {
        self.pool.find(name).map(|key| &*self.pool[key].record.spec.head_address)
    }

    /// Does this cluster have a submission interval?
    #[must_use]
    pub fn is_spaced(&self, name: &ClusterName) -> bool {
        self.pool.find(name).is_none_or(|key| self.pool[key].terms.interval > Span::ZERO)
    }

    /// Every cluster, in the order of decisions' rosters.
    pub fn clusters(&self) -> impl Iterator<Item = ClusterView> + '_ {
        self.pool.iter().map(|(_, cluster)| self.view_of(cluster))
    }

    fn view_of(&self, cluster: &Cluster) -> ClusterView {
        ClusterView {
            spec: Arc::clone(&cluster.record.spec),
            source: cluster.record.source,
            health: match &cluster.health {
                Health::NeverSeen => HealthState::NeverSeen,
                Health::Healthy => HealthState::Healthy,
                Health::Unhealthy { since, error } => {
                    HealthState::Unhealthy { since: *since, error: error.clone() }
                }
                Health::Unauthorized { since, error } => {
                    HealthState::Unauthorized { since: *since, error: error.clone() }
                }
            },
            snapshot: cluster.facts_as_reported().cloned(),
            promised: cluster.ledger().promised().clone(),
            claimed: cluster.ledger().claimed().clone(),
            free: cluster.free_now(),
            growth: cluster.growth.as_ref().map(|growth| GrowthView {
                can_add: growth.can_add(),
                grown: cluster.snapshot().map(|snapshot| snapshot.total.clone()).unwrap_or_default(),
                waiting: growth.waiting().len(),
                stuck: growth.stuck().map(|stuck| (stuck.since, stuck.until)),
            }),
            platform: cluster.platform.clone(),
            circuit: match cluster.breaker {
                Breaker::Closed { .. } => CircuitState::Closed,
                Breaker::Open { until } => CircuitState::Open { until },
                Breaker::HalfOpen { .. } => CircuitState::HalfOpen,
            },
            cordon: cluster.record.cordon.clone(),
            leaving: cluster.record.leaving,
            live: cluster.live.len(),
            top_level_jobs: cluster.top_level_jobs,
            drivers: cluster.drivers,
            driver_limit: cluster.driver_limit(),
            starting: cluster.starting.len(),
            starting_limit: cluster.starting_limit(),
            next_submission_at: cluster.spaced_until(self.now),
            closed: self.look_at_new(&Work::new(Kind::Job)).closed(cluster),
            foreign: cluster.foreign().cloned(),
            reserved_for: cluster.reserved.as_ref().map(|r| r.id.clone()),
            reserved_owner: cluster.reserved.as_ref().and_then(|r| r.work.owner.clone()),
        }
    }
}
