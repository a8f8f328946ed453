//! From durable state back to a running scheduler.

use std::collections::{BTreeMap, BTreeSet};

use multicluster_types::{ClusterName, JobId, Kind, Message, Owner, PolicySpec, Settings, Timestamp};

use super::{orphans::Orphans, registry::Registry};
use crate::{
    Core, Effect, Output, Refusal, Write,
    record::{ClusterRecord, JobRecord, Orphan, Phase, UsageRecord},
};

/// The state that a store holds for the core: the fold of all writes. Attempts and decisions are
/// history for people; the core does not read them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Durable {
    /// The clusters, by name.
    pub clusters: BTreeMap<ClusterName, ClusterRecord>,
    /// The jobs, by id.
    pub jobs: BTreeMap<JobId, JobRecord>,
    /// Attempts that were given up and may still run.
    pub orphans: BTreeSet<Orphan>,
    /// Policies that were registered in addition to the settings, by name.
    pub policies: BTreeMap<Message, PolicySpec>,
    /// What owners and groups had of the pool.
    pub usage: BTreeMap<Owner, UsageRecord>,
}

impl Durable {
    /// Applies one write.
    pub fn apply(&mut self, write: &Write) {
        match write {
            Write::Job(record) => {
                self.jobs.insert(record.id.clone(), record.clone());
            }
            Write::DeleteJob(id) => {
                self.jobs.remove(id);
            }
            Write::Cluster(record) => {
                self.clusters.insert(record.spec.name.clone(), record.clone());
            }
            Write::DeleteCluster(name) => {
                self.clusters.remove(name);
            }
            Write::Orphan(orphan) => {
                self.orphans.insert(orphan.clone());
            }
            Write::DeleteOrphan(orphan) => {
                self.orphans.remove(orphan);
            }
            Write::Policy(spec) => {
                self.policies.insert(spec.name.clone(), spec.clone());
            }
            Write::DeletePolicy(name) => {
                self.policies.remove(name);
            }
            Write::Usage(record) => {
                self.usage.insert(record.owner.clone(), record.clone());
            }
            Write::DeleteUsage(owner) => {
                self.usage.remove(owner);
            }
            Write::Attempt(_) | Write::Decision(_) => {}
        }
    }

    /// Moves every stored moment that lies in the future to `now`, and returns the records that
    /// this changed. The clock ran ahead and was corrected while the control plane was down:
    /// without this, jobs would back off, and clusters would stay closed, until it has caught up.
    fn correct_clock(&mut self, now: Timestamp) -> Vec<Write> {
        let mut writes = Vec::new();
        for record in self.jobs.values_mut() {
            if record.correct_clock(now) {
                writes.push(Write::Job(record.clone()));
            }
        }
        for record in self.usage.values_mut() {
            if record.at.not_after(now) {
                writes.push(Write::Usage(record.clone()));
            }
        }
        for record in self.clusters.values_mut() {
            if record.clock.as_mut().is_some_and(|clock| clock.at.not_after(now)) {
                writes.push(Write::Cluster(record.clone()));
            }
        }
        writes
    }
}

impl Core {
    /// A scheduler that continues where the writes left off. Facts about the clusters (health,
    /// snapshots, circuits) are not durable: they are learnt again, and no work is dispatched to
    /// a cluster before it has answered.
    ///
    /// # Errors
    /// If a policy of the settings cannot be used.
    pub fn rebuild(now: Timestamp, settings: Settings, mut durable: Durable) -> Result<Self, Refusal> {
        let mut core = Core::new(settings)?;
        core.now = now;
        core.corrected = durable.correct_clock(now);
        for record in durable.clusters.into_values() {
            core.pool.add(record, &core.settings);
        }
        core.note_unlisted();
        core.orphans = Orphans::new(durable.orphans);
        core.policies = Registry::rebuild(&core.settings, durable.policies)?;
        let mut jobs: Vec<_> = durable.jobs.into_values().collect();
        // In order of acceptance, so that a rebuilt queue is filled front to back.
        jobs.sort_by_key(|record| record.seq);
        for mut record in jobs {
            let sharer = core.sharers.of(record.work.owner.as_ref(), now, &core.settings.shares);
            let class = core.queue.join((*record.work).clone(), sharer);
            record.work = core.queue[class].work.clone();
            let key = core.jobs.add(record, class);
            core.link(key);
        }
        for key in core.jobs.by_end() {
            let record = core.jobs[key].record();
            if let (Phase::Ended(ended), Kind::Job) = (&record.phase, record.work.kind)
                && let Some(ran) = ended.ran
            {
                core.runs.note(&record.work, ran);
            }
        }
        core.sharers.restore(durable.usage.into_values(), now, &core.settings.shares);
        core.rearm_all();
        Ok(core)
    }

    /// The first call after [`Core::rebuild`]: polls every cluster, and marks requests that may or may
    /// not have left as unknown, to be looked up. Callers of placements ask again automatically.
    ///
    /// `rewound`: the durable state may lack changes that were committed before (a standby took over
    /// that had not received them, or a backup was restored). Then nothing is dispatched before every
    /// cluster was asked what it ran.
    pub fn recover(&mut self, rewound: bool) -> Output {
        let writes = std::mem::take(&mut self.corrected);
        let mut out = Output { must_sync: true, writes, ..Output::default() };
        if rewound {
            self.begin_rewind(&mut out);
        }
        for (_, cluster) in self.pool.iter() {
            out.effects.push(Effect::Poll { cluster: cluster.name().clone() });
        }
        let live: Vec<_> =
            self.jobs.iter().filter(|(_, job)| job.live().is_some()).map(|(key, _)| key).collect();
        for key in live {
            let job = &self.jobs[key];
            let Some(live) = job.live() else { continue };
            if job.on.is_none() {
                let message = format!("cluster {} is no longer registered", live.cluster).into();
                self.lose(key, &message, &mut out);
            } else if job.is_job() {
                self.mark_interrupted(key, &mut out);
            }
        }
        let unusable = self.policies.unusable(&self.settings);
        self.retire_policies(unusable, &mut out);
        self.forget_old(&mut out);
        self.write_usage(&mut out);
        let idle = self.sharers.forget_idle(self.now, self.settings.shares.half_life());
        out.writes.extend(idle.into_iter().map(Write::DeleteUsage));
        out
    }

    /// The durable state as the core sees it. It must equal the fold of all writes at every step.
    #[must_use]
    pub fn durable(&self) -> Durable {
        Durable {
            clusters: self.pool.iter().map(|(_, c)| (c.name().clone(), c.record.clone())).collect(),
            jobs: self.jobs.iter().map(|(_, job)| (job.record().id.clone(), job.record().clone())).collect(),
            orphans: self.orphans.known().clone(),
            policies: self.policies.registered().clone(),
            usage: self.sharers.records().map(|record| (record.owner.clone(), record)).collect(),
        }
    }

    /// Do all tables agree with each other? For tests, after every step.
    ///
    /// # Errors
    /// Names the tables that disagree.
    pub fn check(&self) -> Result<(), String> {
        let waiting =
            self.jobs.iter().filter(|(_, job)| matches!(job.record().phase, Phase::Waiting { .. })).count();
        self.jobs.check()?;
        self.queue.check(waiting)?;
        for (key, cluster) in self.pool.iter() {
            let here = |job| self.jobs[job].on == Some(key);
            cluster.check(here, &self.settings).map_err(|e| format!("cluster {}: {e}", cluster.name()))?;
            let live = self.jobs.iter().filter(|(_, job)| job.on == Some(key)).count();
            if live != cluster.live.len() {
                return Err(format!(
                    "{live} jobs say they are on {}, it says {}",
                    cluster.name(),
                    cluster.live.len()
                ));
            }
            let top_level =
                cluster.live.iter().filter(|job| self.jobs[**job].record().work.is_top_level_job()).count();
            if top_level != cluster.top_level_jobs as usize {
                return Err(format!(
                    "{top_level} top-level jobs on {}, it says {}",
                    cluster.name(),
                    cluster.top_level_jobs
                ));
            }
            let drivers =
                cluster.live.iter().filter(|job| self.jobs[**job].record().work.burdens_head()).count();
            if drivers != cluster.drivers as usize {
                return Err(format!("{drivers} drivers on {}, it says {}", cluster.name(), cluster.drivers));
            }
        }
        self.check_starting()?;
        self.check_sharers()?;
        let bound = self.jobs.len() + self.queue.class_count() + 3 * self.pool.names().len() + 3;
        if self.timers.len() > bound {
            return Err(format!("{} timers for {bound} owners", self.timers.len()));
        }
        Ok(())
    }

    fn check_sharers(&self) -> Result<(), String> {
        for (key, sharer) in self.sharers.iter() {
            let theirs = self.jobs.iter().filter(|(_, job)| self.queue[job.class].sharer == key);
            let (mut queued, mut live) = (0, Vec::new());
            for (_, job) in theirs {
                match job.record().phase {
                    Phase::Waiting { .. } => queued += 1,
                    Phase::Live(_) => live.push(&*job.record().work),
                    Phase::Ended(_) => {}
                }
            }
            sharer.check(queued, &live).map_err(|e| format!("sharer {:?}: {e}", sharer.name))?;
        }
        Ok(())
    }

    fn check_starting(&self) -> Result<(), String> {
        for (key, job) in self.jobs.iter() {
            let waits = job.live().is_some_and(|live| live.running_at().is_none());
            let expected = waits && job.is_job();
            let found = job.on.is_some_and(|on| self.pool[on].starting.contains(&key))
                || job.is_job() && self.waits_for_nodes(key);
            if job.on.is_some() && expected != found {
                return Err(format!("{} is starting: {expected}, its cluster says {found}", job.record().id));
            }
        }
        Ok(())
    }
}
