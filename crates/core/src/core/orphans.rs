//! Attempts that were given up and may still run: orphans. They are stopped as soon as their
//! cluster can be asked.

use std::collections::BTreeSet;

use multicluster_types::{Attempt, ClusterName, JobId, State};

use crate::{
    Core, Effect, Observation, Output, Run, RunStatus, Write, jobs::JobKey, pool::ClusterKey, record::Orphan,
};

/// All orphans. The orphans being stopped are always among the known ones.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    known: BTreeSet<Orphan>,
    being_stopped: BTreeSet<Orphan>,
}

impl Orphans {
    pub(super) fn new(known: BTreeSet<Orphan>) -> Self {
        Self { known, being_stopped: BTreeSet::new() }
    }

    pub(super) fn known(&self) -> &BTreeSet<Orphan> {
        &self.known
    }

    /// The latest attempt under this id that may still run.
    pub(super) fn latest_of(&self, job: &JobId) -> Option<Attempt> {
        self.known.iter().filter(|orphan| orphan.job == *job).map(|orphan| orphan.attempt).max()
    }

    fn find(&self, is_it: impl Fn(&Orphan) -> bool) -> Option<Orphan> {
        self.known.iter().find(|orphan| is_it(orphan)).cloned()
    }

    fn on(&self, cluster: &ClusterName) -> Vec<Orphan> {
        self.known.iter().filter(|orphan| orphan.cluster == *cluster).cloned().collect()
    }

    /// True unless the orphan is being stopped already.
    fn begin_stop(&mut self, orphan: &Orphan) -> bool {
        self.known.contains(orphan) && self.being_stopped.insert(orphan.clone())
    }

    fn remove(&mut self, orphan: &Orphan) {
        self.known.remove(orphan);
        self.being_stopped.remove(orphan);
    }
}

impl Core {
    /// The attempt of this job may run on without a job.
    pub(super) fn orphan(&mut self, key: JobKey, out: &mut Output) {
        let job = &self.jobs[key];
        let Some(live) = job.live() else { return };
        let (id, life) = (job.record().id.clone(), Some(job.record().submitted_at));
        let orphan = Orphan { cluster: live.cluster.clone(), job: id, attempt: live.attempt, life };
        let reachable = job.on.is_some_and(|on| self.pool[on].is_healthy());
        out.writes.push(Write::Orphan(orphan.clone()));
        self.orphans.known.insert(orphan.clone());
        if reachable {
            self.stop_orphan(orphan, out);
        }
    }

    /// Stops the orphans of a cluster, until the cluster has answered.
    pub(super) fn stop_orphans(&mut self, key: ClusterKey, out: &mut Output) {
        if self.orphans.known.is_empty() {
            return;
        }
        let here = self.orphans.on(self.pool[key].name());
        here.into_iter().for_each(|orphan| self.stop_orphan(orphan, out));
    }

    /// The driver may reach this cluster in another way from now on. It then drops the reports on
    /// earlier requests, so stops under way are sent again with the next poll.
    pub(super) fn forget_stops_on(&mut self, cluster: &ClusterName) {
        self.orphans.being_stopped.retain(|orphan| orphan.cluster != *cluster);
    }

    /// Asks a cluster to stop an orphan, unless a stop is under way.
    fn stop_orphan(&mut self, orphan: Orphan, out: &mut Output) {
        if self.orphans.begin_stop(&orphan) {
            out.effects.push(Effect::Stop { run: orphan.run(), cluster: orphan.cluster });
        }
    }

    /// A stop request came to an end. Its effect shows in later observations.
    pub(super) fn handle_stop_sent(&mut self, run: &Run, answered: bool, out: &mut Output) {
        let Some(orphan) = self.orphans.find(|orphan| orphan.run() == *run) else { return };
        self.orphans.being_stopped.remove(&orphan);
        if answered {
            self.drop_orphan(&orphan, out);
        }
    }

    /// A watch saw a run that is not a current attempt.
    pub(super) fn handle_orphan_seen(&mut self, name: &ClusterName, seen: &Observation, out: &mut Output) {
        self.stop_what_was_stopped(name, seen, out);
        let Observation { run, status } = seen;
        let is_of_life = |o: &Orphan| o.life.is_none() || run.life.is_none() || o.life == run.life;
        let is_it =
            |o: &Orphan| o.cluster == *name && o.job == run.job && o.attempt == run.attempt && is_of_life(o);
        let Some(orphan) = self.orphans.find(is_it) else { return };
        match status {
            RunStatus::Pending | RunStatus::Running => {}
            RunStatus::Succeeded | RunStatus::Failed { .. } | RunStatus::Stopped => {
                self.drop_orphan(&orphan, out)
            }
        }
    }

    /// A request that arrives after its job was stopped is stopped as well.
    fn stop_what_was_stopped(&self, name: &ClusterName, seen: &Observation, out: &mut Output) {
        let Some(record) = self.job(&seen.run.job) else { return };
        let alive = matches!(seen.status, RunStatus::Pending | RunStatus::Running);
        if alive && record.state() == State::Stopped && record.attempts == seen.run.attempt.0 {
            out.effects.push(Effect::Stop { run: seen.run.clone(), cluster: name.clone() });
        }
    }

    /// A cluster was removed, and its orphans with it.
    pub(super) fn drop_orphans_of(&mut self, cluster: &ClusterName, out: &mut Output) {
        for orphan in self.orphans.on(cluster) {
            self.drop_orphan(&orphan, out);
        }
    }

    fn drop_orphan(&mut self, orphan: &Orphan, out: &mut Output) {
        self.orphans.remove(orphan);
        out.writes.push(Write::DeleteOrphan(orphan.clone()));
    }
}
