//! The only way a job changes: from phase to phase, and step by step while it is on a cluster. A
//! change that the state diagram does not have is recorded, and not made.

use multicluster_types::{Attempt, ImpossibleTransition, State, Transition};

use crate::{
    Core, Event, Impossible, Output, Write,
    jobs::{Job, JobKey},
    queue::ClassKey,
    record::{Phase, Step},
    timers::Timer,
};

impl Core {
    /// Moves a job to another phase. Every change between waiting, live and ended
    /// goes through here, so the tables that depend on it cannot drift.
    ///
    /// False if the diagram has no such arrow: the job stays as it is, and the caller must do
    /// nothing that depends on the change.
    #[must_use = "nothing may be sent for a change that was not made"]
    pub(super) fn move_to(
        &mut self,
        key: JobKey,
        transition: Transition,
        next: Phase,
        out: &mut Output,
    ) -> bool {
        let from = self.jobs[key].record().state();
        if from.after(transition) != Ok(next.state()) {
            return self.note_impossible(key, ImpossibleTransition { from, transition }, out);
        }
        if (from, transition) == (State::Queued, Transition::Stop) {
            // The next job of this class may be starving, and has not been looked at.
            self.dirty.class(self.jobs[key].class);
        }
        self.unlink(key, out);
        self.jobs.set_phase(key, next);
        self.link(key);
        self.tell(key, out);
        if matches!(self.jobs[key].record().phase, Phase::Ended(_)) {
            self.forget_old_on(&self.jobs.shelf_of(key), out);
        }
        true
    }

    /// Changes an attempt that stays on its cluster, and reports whether anything changed.
    ///
    /// False if there is no such step from the attempt's state, see [`Self::move_to`].
    #[must_use = "nothing may be sent for a change that was not made"]
    pub(super) fn step(&mut self, key: JobKey, step: Step, out: &mut Output) -> bool {
        match self.jobs[key].apply(step, self.now) {
            Ok(true) => self.tell(key, out),
            Ok(false) => {}
            Err(impossible) => return self.note_impossible(key, impossible, out),
        }
        true
    }

    /// The same, with a change to the job record.
    #[must_use = "nothing may be sent for a change that was not made"]
    pub(super) fn step_noting(
        &mut self,
        key: JobKey,
        step: Step,
        note: impl FnOnce(&mut Job),
        out: &mut Output,
    ) -> bool {
        if let Err(impossible) = self.jobs[key].apply(step, self.now) {
            return self.note_impossible(key, impossible, out);
        }
        note(&mut self.jobs[key]);
        self.tell(key, out);
        true
    }

    /// Does the diagram have such an arrow from this job's state?
    pub(super) fn may(&self, key: JobKey, transition: Transition, out: &mut Output) -> bool {
        match self.jobs[key].record().state().after(transition) {
            Ok(_) => true,
            Err(impossible) => self.note_impossible(key, impossible, out),
        }
    }

    fn note_impossible(&self, key: JobKey, what: ImpossibleTransition, out: &mut Output) -> bool {
        let job = self.jobs[key].record().id.clone();
        out.impossible.push(Impossible { job, what });
        false
    }

    /// The job as it is now, for the store and the watchers.
    pub(super) fn tell(&self, key: JobKey, out: &mut Output) {
        let record = self.jobs[key].record();
        let latest = (record.attempts > 0).then_some(Attempt(record.attempts));
        let (cluster, attempt, message) = match &record.phase {
            Phase::Waiting { .. } => {
                (None, None, record.troubles.as_ref().and_then(|t| t.last_error.clone()))
            }
            Phase::Live(live) => (Some(live.cluster.clone()), Some(live.attempt), None),
            Phase::Ended(end) => (end.cluster.clone(), latest, end.message.clone()),
        };
        let (job, state) = (record.id.clone(), record.state());
        let (at, owner, by) = (self.now, record.work.owner.clone(), self.by.clone());
        out.events.push(Event::Job { job, at, state, cluster, attempt, message, owner, by });
        out.writes.push(Write::Job(record.clone()));
    }

    /// Enters a job into the tables its phase belongs in.
    pub(super) fn link(&mut self, key: JobKey) {
        let job = &mut self.jobs[key];
        match &job.record().phase {
            Phase::Waiting { not_before, .. } => {
                let ready = not_before.is_none();
                self.queue.enter(job.class);
                self.sharers.enter_queue(self.queue[job.class].sharer);
                job.touched_at = self.now;
                if ready {
                    self.make_ready(key);
                }
                self.arm(key);
            }
            Phase::Live(live) => {
                let half_life = self.settings.shares.half_life();
                self.sharers.start(self.queue[job.class].sharer, &job.record().work, self.now, half_life);
                // `None` only while rebuilding a job whose cluster was removed by force.
                let on = self.pool.find(&live.cluster);
                if let Some(on) = on {
                    self.pool[on].enter(key, &job.record().work, live, &self.settings);
                }
                (job.on, job.touched_at, job.asks) = (on, self.now, 0);
                (job.question, job.pushing) = (None, None);
                self.arm(key);
                if let Some(on) = on {
                    self.arm_growth(on);
                }
            }
            Phase::Ended(_) => {}
        }
    }

    /// Takes a job out of the tables its phase belongs in.
    pub(super) fn unlink(&mut self, key: JobKey, out: &mut Output) {
        let job = &mut self.jobs[key];
        self.timers.clear(&mut job.due, Timer::Job(key));
        match &job.record().phase {
            Phase::Waiting { .. } => {
                let class = job.class;
                self.queue.leave(class, job.record().seq);
                self.sharers.leave_queue(self.queue[class].sharer);
                self.dirty.all_if(self.policies.uses().queued);
                self.watch_for_starvation(class);
                self.dirty.all_if(self.pool.is_reserved_for(&self.jobs[key].record().id));
            }
            Phase::Live(_) => {
                let half_life = self.settings.shares.half_life();
                self.sharers.end(self.queue[job.class].sharer, &job.record().work, self.now, half_life);
                let Some(on) = job.on.take() else { return };
                self.note_victim_gone(key, on);
                let job = &self.jobs[key];
                let cluster = &mut self.pool[on];
                cluster.leave(key, &job.record().work, &self.settings);
                self.dirty.all();
                // There will be no report on this probe any more.
                if cluster.breaker.is_probe(key) {
                    self.note_dispatch(on, false, out);
                }
                self.handle_cluster_emptier(on, out);
            }
            Phase::Ended(_) => {}
        }
    }

    /// May this waiting job be placed, or does it back off?
    pub(super) fn is_ready(&self, key: JobKey) -> bool {
        let job = &self.jobs[key];
        self.queue[job.class].ready().contains_key(&job.record().seq)
    }

    /// A waiting job may be placed from now on.
    pub(super) fn make_ready(&mut self, key: JobKey) {
        let job = &self.jobs[key];
        let class = job.class;
        self.dirty.all_if(self.policies.uses().queued);
        if self.queue.make_ready(class, job.record().seq, key) {
            self.dirty.class(class);
            self.watch_for_starvation(class);
        }
    }

    /// Notes whether the head of this class starves, and makes sure that there is a cycle when it
    /// will. One timer per class, for the earliest such moment: a later head is checked then.
    pub(super) fn watch_for_starvation(&mut self, key: ClassKey) {
        let (now, after) = (self.now, self.settings.starvation_after);
        let Some(class) = self.queue.get_mut(key) else { return };
        let head = class.ready().first_key_value().map(|(_, job)| &self.jobs[*job].record().phase);
        let Some(Phase::Waiting { since, .. }) = head else { return self.queue.set_starving(key, false) };
        let at = *since + after;
        if class.starving_due.is_none_or(|due| at < due) && at > now {
            self.timers.set(&mut class.starving_due, Timer::Starving(key), at);
        }
        self.queue.set_starving(key, at <= now);
    }

    pub(super) fn watch_all_for_starvation(&mut self) {
        for key in self.queue.keys() {
            self.timers.clear(&mut self.queue[key].starving_due, Timer::Starving(key));
            self.watch_for_starvation(key);
        }
    }
}
