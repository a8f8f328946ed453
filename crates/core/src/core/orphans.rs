//! Attempts that were given up and may still run: orphans. They are stopped as soon as their
//! cluster can be asked. One that may not have arrived is buried first: then a request that is
//! still on its way is refused, or has become a run that can be stopped.

use std::collections::BTreeSet;

use multicluster_types::{Attempt, ClusterName, JobId, State};

use crate::{
    Core, Effect, LookupOutcome, Observation, Output, Run, RunStatus, Write,
    jobs::JobKey,
    pool::ClusterKey,
    record::{Live, Orphan},
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
        let (on, heard) = (job.on, job.live().is_some_and(Live::has_arrived));
        out.writes.push(Write::Orphan(orphan.clone()));
        self.orphans.known.insert(orphan.clone());
        let Some(on) = on else { return };
        if !heard {
            self.pool[on].record.unheard.insert(orphan.clone());
            out.writes.push(Write::Cluster(self.pool[on].record.clone()));
        }
        if self.pool[on].is_healthy() {
            self.stop_orphan(on, orphan, out);
        }
    }

    /// This run has no job that wants it. It is stopped with the other orphans of its cluster.
    pub(super) fn orphan_run(&mut self, run: Run, cluster: ClusterName, out: &mut Output) {
        let orphan = Orphan { cluster, job: run.job, attempt: run.attempt, life: run.life };
        out.writes.push(Write::Orphan(orphan.clone()));
        self.orphans.known.insert(orphan);
    }

    /// Stops the orphans of a cluster, until the cluster has answered.
    pub(super) fn stop_orphans(&mut self, key: ClusterKey, out: &mut Output) {
        if self.orphans.known.is_empty() || self.is_rewound() {
            return;
        }
        let here = self.orphans.on(self.pool[key].name());
        here.into_iter().for_each(|orphan| self.stop_orphan(key, orphan, out));
    }

    /// The driver may reach this cluster in another way from now on. It then drops the reports on
    /// earlier requests, so stops under way are sent again with the next poll.
    pub(super) fn forget_stops_on(&mut self, cluster: &ClusterName) {
        self.rewind.forget_asking(cluster);
        self.orphans.being_stopped.retain(|orphan| orphan.cluster != *cluster);
    }

    /// Asks a cluster to stop an orphan, or to bury it, unless a request is under way.
    fn stop_orphan(&mut self, on: ClusterKey, orphan: Orphan, out: &mut Output) {
        if !self.orphans.begin_stop(&orphan) {
            return;
        }
        let (run, unheard) = (orphan.run(), self.pool[on].record.unheard.contains(&orphan));
        let cluster = orphan.cluster;
        out.effects.push(if unheard {
            Effect::Bury { run, cluster, question: self.jobs.next_question() }
        } else {
            Effect::Stop { run, cluster }
        });
    }

    /// A stop request came to an end. Its effect shows in later observations.
    pub(super) fn handle_stop_sent(&mut self, run: &Run, answered: bool, out: &mut Output) {
        let Some(orphan) = self.orphans.find(|orphan| orphan.run() == *run) else { return };
        self.orphans.being_stopped.remove(&orphan);
        let on = self.pool.find(&orphan.cluster);
        if answered && on.is_none_or(|on| !self.pool[on].record.unheard.contains(&orphan)) {
            self.drop_orphan(&orphan, out);
        }
    }

    /// A burial of an orphan came to an end, or an earlier question about it.
    pub(super) fn handle_orphan_looked_up(&mut self, run: &Run, outcome: &LookupOutcome, out: &mut Output) {
        let Some(orphan) = self.orphans.find(|orphan| orphan.run() == *run) else { return };
        match outcome {
            LookupOutcome::Found(RunStatus::Pending | RunStatus::Running) => {
                self.orphans.being_stopped.remove(&orphan);
                let Some(on) = self.pool.find(&orphan.cluster) else { return };
                self.note_heard(&orphan, out);
                self.stop_orphan(on, orphan, out);
            }
            LookupOutcome::Found(_) | LookupOutcome::Buried { .. } => self.drop_orphan(&orphan, out),
            // Somebody else's run has the id: it keeps a late request out as well.
            LookupOutcome::Taken { .. } => self.drop_orphan(&orphan, out),
            // Asked again with the next poll.
            LookupOutcome::NotFound { .. } | LookupOutcome::NoAnswer => {
                self.orphans.being_stopped.remove(&orphan);
            }
        }
    }

    /// No request for this orphan can arrive any more, except to be refused.
    fn note_heard(&mut self, orphan: &Orphan, out: &mut Output) {
        let Some(on) = self.pool.find(&orphan.cluster) else { return };
        if self.pool[on].record.unheard.remove(orphan) {
            out.writes.push(Write::Cluster(self.pool[on].record.clone()));
        }
    }

    /// A watch saw a run that is not a current attempt.
    pub(super) fn handle_orphan_seen(&mut self, name: &ClusterName, seen: &Observation, out: &mut Output) {
        self.stop_what_was_stopped(name, seen, out);
        let Observation { run, status, .. } = seen;
        let is_of_life = |o: &Orphan| o.life.is_none() || run.life.is_none() || o.life == run.life;
        let is_it =
            |o: &Orphan| o.cluster == *name && o.job == run.job && o.attempt == run.attempt && is_of_life(o);
        let Some(orphan) = self.orphans.find(is_it) else { return };
        match status {
            RunStatus::Pending | RunStatus::Running => self.note_heard(&orphan, out),
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
        self.note_heard(orphan, out);
        out.writes.push(Write::DeleteOrphan(orphan.clone()));
    }
}
