//! What is known of an attempt, and the requests to its cluster to learn more.

use multicluster_types::{ClusterName, Message, State};

use crate::{
    Core, Effect, Output, Run,
    jobs::{Job, JobKey, Question},
    record::{Live, Stage, Standing, Step},
};

impl Core {
    /// The cluster has the job, and has not started it.
    pub(super) fn mark_pending(&mut self, key: JobKey, out: &mut Output) {
        self.note_dispatch_of(key, true, out);
        self.mark_found(key, Stage::Pending, out);
    }

    /// The attempt is known to be at this stage.
    pub(super) fn mark_found(&mut self, key: JobKey, stage: Stage, out: &mut Output) {
        let runs = stage == Stage::Running;
        // A heartbeat of the holder does not prove that the cluster can be reached.
        let reached = runs && self.jobs[key].is_job();
        let step = if runs { Step::Start } else { Step::Accept };
        let note = |job: &mut Job| {
            if reached {
                job.note_started();
            }
        };
        if !self.step_noting(key, step, note, out) {
            return;
        }
        let job = &mut self.jobs[key];
        (job.touched_at, job.asks) = (self.now, 0);
        let stopping = job.live().is_some_and(Live::stopping);
        let unreachable = job.on.is_some_and(|on| !self.pool[on].is_healthy());
        if let (Some(on), true) = (job.on, runs) {
            self.dirty.all_if(self.pool[on].settle(key, self.now));
        }
        self.arm(key);
        if unreachable {
            // Old news does not make the cluster reachable.
            self.mark_lost(key, out);
        } else if stopping {
            self.send_stop(key, out);
        }
    }

    /// A send had no answer, so it may have arrived. Asks the cluster.
    pub(super) fn mark_uncertain(&mut self, key: JobKey, message: &Message, out: &mut Output) {
        self.mark_unheard(key, Step::NoAnswer, message, out);
    }

    /// A send ended with this step, and it is unknown whether any send arrived. Asks the cluster.
    pub(super) fn mark_unheard(&mut self, key: JobKey, step: Step, message: &Message, out: &mut Output) {
        // If the cluster is known to be in trouble, that error counts, not this one.
        if self.jobs[key].live().is_some_and(|live| live.lost_since().is_none()) {
            self.note_dispatch_of(key, false, out);
        }
        if self.step_noting(key, step, |job| job.note_error(message), out) {
            self.look_for(key, out);
        }
    }

    /// The cluster cannot say at present what became of this attempt.
    pub(super) fn mark_lost(&mut self, key: JobKey, out: &mut Output) {
        if self.step(key, Step::LoseContact, out) {
            self.look_for(key, out);
        }
    }

    /// The control plane was down. A request that may or may not have left is uncertain. Clusters
    /// could not be asked meanwhile, which does not count as their loss.
    pub(super) fn mark_interrupted(&mut self, key: JobKey, out: &mut Output) {
        if self.step(key, Step::Interrupt, out) && self.jobs[key].record().state() == State::Unknown {
            self.look_for(key, out);
        }
    }

    /// Asks the cluster about a lost attempt, at once or after a while.
    fn look_for(&mut self, key: JobKey, out: &mut Output) {
        // A probe without a report must not keep all other work waiting.
        if self.jobs[key].on.is_some_and(|on| self.pool[on].breaker.is_probe(key)) {
            self.note_dispatch_of(key, false, out);
        }
        let job = &mut self.jobs[key];
        let sends = match job.live().map(Live::standing) {
            Some(Standing::Unheard { sends, .. }) => *sends,
            _ => 1,
        };
        if sends > 1 {
            // Sent again and lost again: wait longer each time.
            job.asks = u8::try_from(sends).unwrap_or(u8::MAX);
            job.touched_at = self.now;
            self.arm(key);
        } else {
            job.asks = 0;
            self.ask(key, out);
        }
    }

    /// Asks the cluster about an attempt, if the cluster can be asked.
    pub(super) fn ask(&mut self, key: JobKey, out: &mut Output) {
        let lookup = |run, cluster, question| Effect::Lookup { run, cluster, question };
        self.ask_by(key, lookup, out);
    }

    /// The attempt will be given up, and a request for it may still be on its way. Has its cluster
    /// refuse that request first, or say that it has arrived.
    pub(super) fn bury(&mut self, key: JobKey, out: &mut Output) {
        let bury = |run, cluster, question| Effect::Bury { run, cluster, question };
        self.ask_by(key, bury, out);
    }

    fn ask_by(&mut self, key: JobKey, by: fn(Run, ClusterName, u32) -> Effect, out: &mut Output) {
        let question = self.jobs.next_question();
        let job = &mut self.jobs[key];
        let (Some(live), Some(on)) = (job.live(), job.on) else { return };
        if self.pool[on].is_healthy() && self.rewind.waits_for().is_none() {
            out.effects.push(by(job.run(), live.cluster.clone(), question));
            let first = job.question.map_or(question, |open| open.first);
            job.question = Some(Question { first, latest: question });
            job.touched_at = self.now;
            job.asks = job.asks.saturating_add(1);
        }
        self.arm(key);
    }

    /// Sends the same attempt to the same cluster again.
    pub(super) fn send_again(&mut self, key: JobKey, out: &mut Output) {
        if !self.step(key, Step::Resend, out) {
            return;
        }
        let job = &mut self.jobs[key];
        job.touched_at = self.now;
        if let Some(live) = job.live() {
            out.effects.push(Effect::Submit { run: job.run(), cluster: live.cluster.clone() });
        }
        self.arm(key);
    }

    /// Asks the cluster to stop an attempt. While a submit is under way, or the cluster cannot be asked,
    /// the stop is left for later. Holders of placements learn of the stop with their next heartbeat.
    pub(super) fn send_stop(&mut self, key: JobKey, out: &mut Output) {
        if self.is_rewound() {
            return;
        }
        let job = &mut self.jobs[key];
        let Some(live) = job.live().filter(|_| job.is_job()) else { return };
        if live.lost_since().is_none() && live.has_arrived() {
            out.effects.push(Effect::Stop { run: job.run(), cluster: live.cluster.clone() });
            job.touched_at = self.now;
            self.arm(key);
            if self.waits_for_nodes(key) {
                self.recall(key, out);
            }
        }
    }

    /// A dispatch to the cluster of this job worked, or did not.
    pub(super) fn note_dispatch_of(&mut self, key: JobKey, worked: bool, out: &mut Output) {
        if let Some(on) = self.jobs[key].on {
            self.note_dispatch(on, worked, out);
        }
    }
}
