//! The store went back in time: a standby took over that lacked the last commits, or a backup was
//! restored. Clusters may run work that is not in the store, so each is asked what it ran before
//! anything is dispatched. When all have answered, their runs are adopted by their marks, at once:
//! a crash before that starts over.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use multicluster_types::{Attempt, ClusterName, JobId, Kind, Message, State, Timestamp, Transition, Work};

use crate::{
    Core, Effect, Listed, Output, Refusal, RunStatus, Write,
    jobs::JobKey,
    pool::ClusterKey,
    record::{AttemptOutcome, JobRecord, Live, Phase, Step, Submitted},
    timers::Timer,
};

/// What the clusters answered so far.
#[derive(Debug, Default)]
pub(super) struct Rewind {
    asked: BTreeSet<ClusterName>,
    listed: BTreeMap<ClusterName, Vec<Listed>>,
    /// The first cluster that has not answered. While there is one, nothing is dispatched.
    waits_for: Option<ClusterName>,
}

impl Rewind {
    pub(super) fn waits_for(&self) -> Option<&ClusterName> {
        self.waits_for.as_ref()
    }

    /// The driver may drop the answer of this cluster: it is asked again with the next poll.
    pub(super) fn forget_asking(&mut self, cluster: &ClusterName) {
        self.asked.remove(cluster);
    }
}

impl Core {
    /// Is it unknown what runs on some cluster, because the store lost changes?
    #[must_use]
    pub fn is_rewound(&self) -> bool {
        self.rewind.waits_for.is_some()
    }

    /// The store may lack changes: no cluster is trusted to run only what is known.
    pub(super) fn begin_rewind(&mut self, out: &mut Output) {
        let now = self.now;
        for (_, cluster) in self.pool.iter_mut() {
            cluster.record.unlisted.get_or_insert(now);
            out.writes.push(Write::Cluster(cluster.record.clone()));
        }
        self.note_unlisted();
    }

    /// Notes which cluster must answer next.
    pub(super) fn note_unlisted(&mut self) {
        let marked = self.pool.iter().filter(|(_, cluster)| cluster.record.unlisted.is_some());
        let names = marked.map(|(_, cluster)| cluster.name());
        let unlisted = names.filter(|name| !self.rewind.listed.contains_key(*name));
        self.rewind.waits_for = unlisted.min().cloned();
    }

    /// A cluster answers polls: asks what it ran, if that must be known.
    pub(super) fn list_runs(&mut self, on: ClusterKey, out: &mut Output) {
        let cluster = &self.pool[on];
        let name = cluster.name();
        let wanted = cluster.record.unlisted.is_some() && !self.rewind.listed.contains_key(name);
        if wanted && self.rewind.asked.insert(name.clone()) {
            out.effects.push(Effect::List { cluster: name.clone() });
        }
    }

    /// A cluster listed its runs, or did not.
    pub(super) fn handle_listed(
        &mut self,
        name: &ClusterName,
        runs: Option<Vec<Listed>>,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let on = self.find_cluster(name)?;
        self.rewind.asked.remove(name);
        if let Some(runs) = runs.filter(|_| self.pool[on].record.unlisted.is_some()) {
            self.rewind.listed.insert(name.clone(), runs);
            self.adopt_if_all_are_listed(out);
        }
        Ok(())
    }

    /// Adopts all runs if the last cluster has answered, or was removed.
    pub(super) fn adopt_if_all_are_listed(&mut self, out: &mut Output) {
        let was_rewound = self.is_rewound();
        self.note_unlisted();
        self.dirty.all_if(was_rewound);
        if !was_rewound || self.is_rewound() {
            return;
        }
        out.must_sync = true;
        let since = self.pool.iter().filter_map(|(_, cluster)| cluster.record.unlisted).min();
        for (_, cluster) in self.pool.iter_mut() {
            if cluster.record.unlisted.take().is_some() {
                out.writes.push(Write::Cluster(cluster.record.clone()));
            }
        }
        for (cluster, run) in latest_runs(std::mem::take(&mut self.rewind).listed) {
            self.adopt(&cluster, &run, since.unwrap_or(self.now), out);
        }
        self.go_on(out);
    }

    /// Takes over the latest run of a job.
    fn adopt(&mut self, cluster: &ClusterName, listed: &Listed, since: Timestamp, out: &mut Output) {
        let Some(on) = self.pool.find(cluster) else { return };
        let Some(key) = self.jobs.find(&listed.run.job) else {
            return self.make_job_of(on, listed, out);
        };
        let record = self.jobs[key].record();
        let life = listed.run.life.unwrap_or_default();
        if life > record.submitted_at || is_repeated(record, listed, since) {
            return self.replace_by(key, on, listed, out);
        }
        if life < record.submitted_at || record.work.kind != Kind::Job {
            return; // The run of an earlier job of this id.
        }
        match &record.phase {
            // What was final stays final. A job that was stopped, maybe while the lists were not in,
            // must not run on.
            Phase::Ended(ended) => {
                let runs = matches!(listed.status, RunStatus::Pending | RunStatus::Running);
                if runs && ended.state == State::Stopped {
                    self.orphan_run(listed.run.clone(), cluster.clone(), out);
                }
            }
            Phase::Waiting { .. } if listed.run.attempt.0 <= record.attempts => {}
            Phase::Waiting { .. } => self.take_over(key, on, listed, false, out),
            Phase::Live(live) if listed.run.attempt < live.attempt => {}
            Phase::Live(live) if listed.run.attempt == live.attempt => {
                if live.cluster == *cluster {
                    self.apply_status(key, &listed.status, out);
                }
            }
            Phase::Live(live) => {
                let stops = live.stops_for_good();
                let why = "the database lost what became of this attempt".into();
                self.close_attempt(key, AttemptOutcome::Lost, Some(&why), out);
                let next = Phase::Waiting { since: self.now, not_before: None };
                if self.move_to(key, Transition::Requeue, next, out) {
                    self.take_over(key, on, listed, stops, out);
                }
            }
        }
    }

    /// The waiting job is on this cluster, as this attempt.
    fn take_over(&mut self, key: JobKey, on: ClusterKey, listed: &Listed, stops: bool, out: &mut Output) {
        let sent_at = listed.sent_at.unwrap_or(self.now).min(self.now);
        let cluster = &mut self.pool[on];
        let (name, incarnation) = (cluster.name().clone(), cluster.incarnation().cloned());
        // The 40-second rule counts submissions that the store has lost.
        let work = &self.jobs[key].record().work;
        let is_later = cluster.record.clock.as_ref().is_none_or(|clock| clock.at < sent_at);
        if work.is_top_level() && is_later {
            cluster.record.clock = Some(Submitted { at: sent_at, group: work.group.clone() });
            out.writes.push(Write::Cluster(cluster.record.clone()));
            self.arm_spacing(on);
        }
        let live = Live::new(listed.run.attempt, name, incarnation, sent_at);
        if !self.move_to(key, Transition::Dispatch, Phase::Live(Box::new(live)), out) {
            return;
        }
        if !stops || self.step(key, Step::Stop, out) {
            self.apply_status(key, &listed.status, out);
        }
    }

    /// The newer life of an id wins: the record is that of an earlier job, or of a repeated request.
    fn replace_by(&mut self, key: JobKey, on: ClusterKey, listed: &Listed, out: &mut Output) {
        let message: Message = "the database lost the end of this job: its id is another job's now".into();
        if self.jobs[key].live().is_some() {
            self.close_attempt(key, AttemptOutcome::Lost, Some(&message), out);
        }
        self.unlink(key, out);
        let job = self.jobs.remove(key);
        if let Some(mut class) = self.queue.part(job.class) {
            self.timers.clear(&mut class.starving_due, Timer::Starving(job.class));
        }
        out.writes.push(Write::DeleteJob(job.record().id.clone()));
        self.make_job_of(on, listed, out);
    }

    /// The job of this run is not known: makes its record.
    fn make_job_of(&mut self, on: ClusterKey, listed: &Listed, out: &mut Output) {
        let work = listed.work.as_ref().map_or_else(|| Work::new(Kind::Job), |work| (**work).clone());
        if work.kind != Kind::Job {
            return;
        }
        let sharer = self.sharers.of(work.owner.as_ref(), self.now, &self.settings.shares);
        let class = self.queue.join(work, sharer);
        let record = JobRecord {
            id: listed.run.job.clone(),
            seq: self.jobs.take_seq(),
            work: Arc::clone(&self.queue[class].work),
            content: listed.content,
            bytes: listed.bytes,
            parent: None,
            submitted_at: listed.run.life.unwrap_or(self.now),
            attempts: 0,
            troubles: None,
            phase: Phase::Waiting { since: self.now, not_before: None },
        };
        out.found.push(listed.run.clone());
        let key = self.jobs.add(record, class);
        self.link(key);
        self.tell(key, out);
        self.take_over(key, on, listed, false, out);
    }

    /// The lists are in: asks about the jobs that they did not name, and does what had to wait.
    fn go_on(&mut self, out: &mut Output) {
        let clusters: Vec<_> = self.pool.iter().map(|(key, _)| key).collect();
        for on in clusters {
            for job in self.jobs_on(on) {
                let live = self.jobs[job].live();
                if live.is_some_and(|live| live.lost_since().is_some() || !live.stopping()) {
                    self.ask(job, out);
                } else {
                    self.send_stop(job, out);
                }
            }
            if self.pool[on].is_healthy() {
                self.stop_orphans(on, out);
            }
        }
        self.forget_old(out);
    }
}

/// The latest attempt of the newest life of each job.
fn latest_runs(listed: BTreeMap<ClusterName, Vec<Listed>>) -> Vec<(ClusterName, Listed)> {
    let mut latest: BTreeMap<JobId, (ClusterName, Listed)> = BTreeMap::new();
    let rank = |listed: &Listed| -> (Option<Timestamp>, Attempt) { (listed.run.life, listed.run.attempt) };
    for (cluster, runs) in listed {
        for run in runs {
            let known = latest.get(&run.run.job);
            if known.is_none_or(|(_, known)| rank(known) < rank(&run)) {
                latest.insert(run.run.job.clone(), (cluster.clone(), run));
            }
        }
    }
    let mut latest: Vec<_> = latest.into_values().collect();
    // In order of acceptance.
    latest.sort_by_key(|(_, listed)| listed.run.life);
    latest
}

/// Did a caller submit the lost job again, while the lists were not in?
fn is_repeated(record: &JobRecord, listed: &Listed, since: Timestamp) -> bool {
    let is_new = record.submitted_at >= since && record.attempts == 0;
    let owner = listed.work.as_ref().and_then(|work| work.owner.as_ref());
    is_new
        && listed.run.life.is_some_and(|life| life < record.submitted_at)
        && matches!(record.phase, Phase::Waiting { .. })
        && listed.content == record.content
        && owner == record.work.owner.as_ref()
}
