//! What there is to see: jobs, queues, clusters. Nothing here changes anything.
#![expect(missing_docs, reason = "a field is documented where its name does not say it all")]

use std::sync::Arc;

use multicluster_types::{
    CircuitKind, ClusterName, ClusterSpec, HealthKind, JobId, Message, Owner, Platform, Resources, Settings,
    Snapshot, Span, Timestamp,
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
    /// The latest facts.
    pub snapshot: Option<Snapshot>,
    /// Promised, and not in the facts yet.
    pub promised: Resources,
    /// What our work there needs, used or not.
    pub claimed: Resources,
    /// What work from outside may still have of it; nothing while its facts are not known.
    pub free: Resources,
    /// What it runs on, by its facts or else its tags.
    pub platform: Platform,
    /// Where its circuit stands.
    pub circuit: CircuitState,
    /// Kept away from new work.
    pub cordon: Option<Cordon>,
    /// Removed as soon as it is empty.
    pub leaving: bool,
    /// Our work on it.
    pub live: usize,
    /// How many of those are top-level jobs.
    pub top_level_jobs: u32,
    /// How many have their driver on its head node.
    pub drivers: u32,
    /// How many drivers that has memory for, if it is known.
    pub driver_limit: Option<u32>,
    /// Jobs that were not seen running yet.
    pub starting: usize,
    /// How many there may be of those, as it copes.
    pub starting_limit: u32,
    /// When the next top-level submission is allowed, if not now.
    pub next_submission_at: Option<Timestamp>,
    /// Kept free for a job that has waited too long.
    pub reserved_for: Option<JobId>,
    /// Whose job that is.
    pub reserved_owner: Option<Owner>,
}

/// Does a cluster answer?
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HealthState {
    /// Not asked yet, or not answered yet.
    NeverSeen,
    /// It does.
    Healthy,
    /// It does not.
    Unhealthy {
        since: Timestamp,
        /// What the last poll said.
        error: Message,
    },
}

impl HealthState {
    /// Its word.
    #[must_use]
    pub fn kind(&self) -> HealthKind {
        match self {
            Self::NeverSeen => HealthKind::NeverSeen,
            Self::Healthy => HealthKind::Healthy,
            Self::Unhealthy { .. } => HealthKind::Unhealthy,
        }
    }
}

/// Where a circuit stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitState {
    /// Work passes.
    Closed,
    /// Nothing passes until then.
    Open {
        /// When one probe may pass.
        until: Timestamp,
    },
    /// One probe may pass, or is under way.
    HalfOpen,
}

impl CircuitState {
    /// Its word.
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
    /// The latest time the core was told.
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

    /// Is this the latest attempt of a job that is known, not of an earlier one of its id?
    #[must_use]
    pub fn is_latest(&self, run: &Run) -> bool {
        self.job(&run.job).is_some_and(|job| job.attempts == run.attempt.0 && run.is_of(job))
    }

    /// Every job known, in no particular order but always the same.
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

    /// Is there anything that waits, is on a cluster, or has yet to be stopped there?
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.jobs.len() > self.jobs.ended_count() || !self.orphans.known().is_empty()
    }

    /// How many wait in each queue.
    pub fn queues(&self) -> impl Iterator<Item = (&QueueName, u32)> {
        self.queue.lines().iter().map(|line| (&line.name, line.length))
    }

    /// One cluster.
    #[must_use]
    pub fn cluster(&self, name: &ClusterName) -> Option<ClusterView> {
        self.pool.find(name).map(|key| self.view_of(&self.pool[key]))
    }

    /// Where Ray's own clients find this cluster.
    #[must_use]
    pub fn head_address(&self, name: &ClusterName) -> Option<&str> {
        self.pool.find(name).map(|key| &*self.pool[key].record.spec.head_address)
    }

    /// Is there a least time between submissions to this cluster?
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
            },
            snapshot: cluster.snapshot().cloned(),
            promised: cluster.ledger().promised().clone(),
            claimed: cluster.ledger().claimed().clone(),
            free: cluster.all_free().clone(),
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
            reserved_for: cluster.reserved.as_ref().map(|r| r.id.clone()),
            reserved_owner: cluster.reserved.as_ref().and_then(|r| r.owner.clone()),
        }
    }
}
