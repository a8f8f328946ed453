//! The life of one attempt on its cluster, from the request to the outcome.
//!
//! The rule everything here serves: once a request *may* have arrived, the attempt
//! stays on that cluster under that id until the cluster itself says what became
//! of it. Only its owner's policy (`on_cluster_loss: requeue`) can waive that.

use std::collections::BTreeSet;

use multicluster_types::{
    Attempt, ClusterName, Incarnation, JobId, Kind, Message, OnClusterLoss, Span, State, Timestamp,
    Transition,
};

use crate::{
    Core, DispatchOutcome, Effect, LookupOutcome, Observation, Output, Refusal, RunStatus, Write,
    core::backoff,
    jobs::JobKey,
    pool::ClusterKey,
    record::{AttemptOutcome, AttemptRecord, Live, Orphan, Phase, Stage},
    timers::Timer,
};

/// First and longest wait between questions about one lost attempt.
const ASK_FIRST: Span = Span::seconds(1);
const ASK_LONGEST: Span = Span::seconds(30);
/// After so many times "not found" (about half a minute) a request that had no answer
/// will not turn up any more.
const CERTAIN_AFTER: u8 = 6;
/// Ray ignores a stop while a job is pending, so it is repeated until it is over.
const STOP_AGAIN: Span = Span::seconds(5);

/// What a watch saw.
pub(crate) struct Watch {
    pub(crate) incarnation: Option<Incarnation>,
    pub(crate) complete_at: Option<Timestamp>,
    pub(crate) runs: Vec<Observation>,
}

impl Core {
    /// A submit request came to an end.
    pub(crate) fn handle_dispatched(
        &mut self,
        job: &JobId,
        attempt: Attempt,
        outcome: DispatchOutcome,
        took: Span,
        out: &mut Output,
    ) {
        let Some((key, live)) = self.live_job(job, attempt) else { return };
        self.note_submission(key, &outcome, took);
        // News that overtook this completion is as good or better.
        if live.stage != Stage::Sending {
            return;
        }
        match outcome {
            DispatchOutcome::Accepted => self.mark_pending(key, out),
            // An earlier send may run: its cluster must say that it does not.
            DispatchOutcome::Refused(message) if live.uncertain => {
                if let Phase::Live(live) = &mut self.jobs[key].record.phase {
                    live.refused = Some(message.clone());
                }
                self.mark_uncertain(key, &message, out);
            }
            DispatchOutcome::Refused(message) => {
                self.note_dispatch_of(key, true, out);
                self.close_attempt(key, AttemptOutcome::NotStarted, Some(&message), out);
                self.end(key, Transition::Fail, Some(message), out);
            }
            // An earlier send may have arrived even though this one did not.
            DispatchOutcome::Failed(message) | DispatchOutcome::NotSent(message) if live.uncertain => {
                self.mark_uncertain(key, &message, out);
            }
            DispatchOutcome::Failed(message) => {
                self.note_dispatch_of(key, false, out);
                self.try_elsewhere(key, &message, out);
            }
            DispatchOutcome::NotSent(message) => {
                if let Some(on) = self.jobs[key].on {
                    self.pool[on].breaker.not_sent(key);
                }
                self.try_elsewhere(key, &message, out);
            }
            DispatchOutcome::Unknown(message) => self.mark_uncertain(key, &message, out),
            DispatchOutcome::Taken(message) => {
                self.note_dispatch_of(key, true, out);
                self.try_elsewhere(key, &message, out);
            }
        }
    }

    /// How its dashboard coped with a submission, if it got one. The cluster's other users are
    /// told that one failed, and not whose or how.
    fn note_submission(&mut self, key: JobKey, outcome: &DispatchOutcome, took: Span) {
        let Some(on) = self.jobs[key].on.filter(|_| took != Span::ZERO) else { return };
        match outcome {
            DispatchOutcome::Failed(_) => self.pool[on].slow_down(self.now, "a submission failed".into()),
            DispatchOutcome::Unknown(_) => {
                self.pool[on].slow_down(self.now, "a submission had no answer".into());
            }
            DispatchOutcome::Accepted | DispatchOutcome::Refused(_) | DispatchOutcome::Taken(_) => {
                self.note_latency(on, took);
            }
            DispatchOutcome::NotSent(_) => {}
        }
    }

    /// A question about one attempt came to an end.
    pub(crate) fn handle_looked_up(
        &mut self,
        job: &JobId,
        attempt: Attempt,
        question: u32,
        outcome: LookupOutcome,
        out: &mut Output,
    ) {
        let Some((key, live)) = self.live_job(job, attempt) else { return };
        if self.jobs[key].question != Some(question) {
            return;
        }
        self.jobs[key].question = None;
        match outcome {
            LookupOutcome::Found(status) => {
                self.jobs[key].asks = 0;
                self.arm(key);
                self.apply_status(key, &status, out);
            }
            LookupOutcome::NoAnswer => self.arm(key),
            // Only a request that never arrived can find its id in use.
            LookupOutcome::Taken(message) if live.stage == Stage::Sending => {
                self.try_elsewhere(key, &message, out)
            }
            LookupOutcome::Taken(message) => self.lose(key, &message, out),
            LookupOutcome::NotFound { incarnation } => {
                self.handle_not_found(key, &live, incarnation.as_ref(), out)
            }
        }
    }

    /// Its cluster answered that it has no such attempt.
    fn handle_not_found(
        &mut self,
        key: JobKey,
        live: &Live,
        incarnation: Option<&Incarnation>,
        out: &mut Output,
    ) {
        if live.stage == Stage::Sending && incarnation == live.incarnation.as_ref() {
            // It never arrived. Should the old request arrive yet, Ray refuses the
            // second of the two.
            if let Some(message) = &live.refused {
                self.close_attempt(key, AttemptOutcome::NotStarted, Some(message), out);
                self.end(key, Transition::Fail, Some(message.clone()), out);
            } else if live.stopping && live.uncertain && self.jobs[key].asks < CERTAIN_AFTER {
                // The request may be in the cluster's hands yet, and nothing will be sent
                // that could meet it there: to be told STOPPED and run is the worst of both.
                self.arm(key);
            } else if live.stopping {
                self.close_attempt(key, AttemptOutcome::Stopped, None, out);
                self.end(key, Transition::Stop, Some("stopped before it reached its cluster".into()), out);
            } else if live.sends >= self.settings.dispatch_attempts.get() {
                let sends = live.sends;
                let message = format!("cluster {} did not take it in {sends} sends", live.cluster);
                self.abandon(key, &message.into(), out);
            } else {
                self.send_again(key, out);
            }
            return;
        }
        let message = if live.incarnation.as_ref() == incarnation {
            format!("cluster {} no longer knows it", live.cluster)
        } else {
            format!(
                "cluster {} was started anew and lost it; whether it had finished is unknown",
                live.cluster
            )
        };
        self.lose(key, &message.into(), out);
    }

    /// A watch saw what a cluster runs.
    pub(crate) fn handle_observed(
        &mut self,
        name: &ClusterName,
        watch: &Watch,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let on = self.find_cluster(name)?;
        // The word of an earlier head is void: all it knew is gone.
        if self.pool[on].incarnation() != watch.incarnation.as_ref() {
            return Ok(());
        }
        if let Some(at) = watch.complete_at {
            self.ask_about_missing(on, at + self.skew, &watch.runs, out);
        }
        for run in &watch.runs {
            match self.find_live(&run.job, run.attempt) {
                Some(key)
                    if self.jobs[key].record.work.kind == Kind::Job && self.jobs[key].on == Some(on) =>
                {
                    self.apply_status(key, &run.status, out);
                }
                Some(_) => {}
                None => self.handle_orphan_seen(name, run, out),
            }
        }
        Ok(())
    }

    /// Asks about jobs that should be in a complete list and are not: somebody may
    /// have deleted them.
    fn ask_about_missing(&mut self, on: ClusterKey, at: Timestamp, runs: &[Observation], out: &mut Output) {
        let seen: BTreeSet<_> = runs.iter().map(|run| (&run.job, run.attempt)).collect();
        let missing = |key: &JobKey| {
            let job = &self.jobs[*key];
            job.record.live().is_some_and(|live| {
                let expected =
                    live.stage != Stage::Sending && live.lost_since.is_none() && job.touched_at < at;
                expected && job.question.is_none() && !seen.contains(&(&job.record.id, live.attempt))
            })
        };
        let missing: Vec<_> = self.jobs_on(on).into_iter().filter(missing).collect();
        for key in missing {
            self.ask(key, out);
        }
    }

    /// What its cluster says about an attempt, whoever asked.
    fn apply_status(&mut self, key: JobKey, status: &RunStatus, out: &mut Output) {
        let Some(live) = self.jobs[key].record.live().cloned() else { return };
        // It is there: whatever else happens, the dispatch worked.
        if live.stage == Stage::Sending {
            self.note_dispatch_of(key, true, out);
        }
        match status {
            RunStatus::Pending => {
                if live.stage == Stage::Sending {
                    self.mark_pending(key, out);
                } else if live.lost_since.is_some() {
                    self.mark_found(key, live.stage, out);
                }
            }
            RunStatus::Running => {
                if live.stage != Stage::Running || live.lost_since.is_some() {
                    self.mark_found(key, Stage::Running, out);
                }
            }
            RunStatus::Succeeded => {
                // It started well, whether or not anybody saw it run.
                if let Some(on) = self.jobs[key].on {
                    self.pool[on].settle(key, self.now);
                }
                self.close_attempt(key, AttemptOutcome::Succeeded, None, out);
                self.end(key, Transition::Succeed, None, out);
            }
            RunStatus::Stopped => {
                self.close_attempt(key, AttemptOutcome::Stopped, None, out);
                // Its state says it all, unless it was not we who stopped it.
                let by_others = (!live.stopping).then(|| {
                    format!("stopped on cluster {}, not through the control plane", live.cluster).into()
                });
                self.end(key, Transition::Stop, by_others, out);
            }
            RunStatus::Failed { message, never_started: false } if live.stopping => {
                self.close_attempt(key, AttemptOutcome::Failed, Some(message), out);
                self.end(key, Transition::Fail, Some(message.clone()), out);
            }
            RunStatus::Failed { message, never_started: true } => self.try_elsewhere(key, message, out),
            RunStatus::Failed { message, never_started: false } => self.handle_run_failed(key, message, out),
        }
    }

    /// The cluster has the job; it has not started it yet.
    fn mark_pending(&mut self, key: JobKey, out: &mut Output) {
        self.note_dispatch_of(key, true, out);
        self.mark_found(key, Stage::Pending, out);
    }

    /// The attempt is known to be at this stage.
    pub(crate) fn mark_found(&mut self, key: JobKey, stage: Stage, out: &mut Output) {
        let now = self.now;
        let record = &mut self.jobs[key].record;
        // A holder's heartbeat does not prove that its cluster can be reached.
        let runs = stage == Stage::Running && record.work.kind == Kind::Job;
        if let (Some(troubles), true) = (&mut record.troubles, runs) {
            troubles.dispatch_failures = 0;
            troubles.avoid.clear();
        }
        let transition = if stage == Stage::Running { Transition::Start } else { Transition::Accept };
        let change = |live: &mut Live| {
            live.stage = stage;
            live.lost_since = None;
            (live.uncertain, live.refused) = (false, None);
            if stage == Stage::Running {
                live.running_at.get_or_insert(now);
            }
        };
        self.update_live(key, transition, change, out);
        let job = &mut self.jobs[key];
        (job.touched_at, job.asks) = (now, 0);
        let stopping = job.record.live().is_some_and(|live| live.stopping);
        let job_on_unhealthy = job.on.is_some_and(|on| !self.pool[on].is_healthy());
        if let (Some(on), Stage::Running) = (job.on, stage) {
            self.dirty.all |= self.pool[on].settle(key, now);
        }
        self.arm(key);
        if job_on_unhealthy {
            // Old news: it does not make the cluster reachable.
            self.mark_lost(key, out);
        } else if stopping {
            self.send_stop(key, out);
        }
    }

    /// A send had no answer: it may have arrived. Ask.
    fn mark_uncertain(&mut self, key: JobKey, message: &Message, out: &mut Output) {
        let record = &mut self.jobs[key].record;
        record.troubles.get_or_insert_default().last_error = Some(message.clone());
        if let Phase::Live(live) = &mut record.phase {
            live.uncertain = true;
        }
        if record.live().is_some_and(|live| live.lost_since.is_some()) {
            // Its cluster is known to be in trouble: that one counts, not this.
            self.tell(key, out);
        } else {
            self.note_dispatch_of(key, false, out);
        }
        self.mark_lost(key, out);
    }

    /// Nobody can say at present what became of this attempt.
    pub(crate) fn mark_lost(&mut self, key: JobKey, out: &mut Output) {
        let now = self.now;
        let Some(live) = self.jobs[key].record.live() else { return };
        if live.lost_since.is_none() {
            let change = |live: &mut Live| {
                live.lost_since = Some(now);
            };
            self.update_live(key, Transition::LoseContact, change, out);
        }
        // A probe nobody can report on must not keep everything else waiting.
        if self.jobs[key].on.is_some_and(|on| self.pool[on].breaker.is_probe(key)) {
            self.note_dispatch_of(key, false, out);
        }
        let job = &mut self.jobs[key];
        let sends =
            job.record.live().filter(|live| live.stage == Stage::Sending).map_or(1, |live| live.sends);
        if sends > 1 {
            // Sent again and lost again: more patience each time.
            job.asks = u8::try_from(sends).unwrap_or(u8::MAX);
            job.touched_at = now;
            self.arm(key);
        } else {
            job.asks = 0;
            self.ask(key, out);
        }
    }

    /// Asks the cluster about an attempt, if it can be asked.
    pub(crate) fn ask(&mut self, key: JobKey, out: &mut Output) {
        let question = self.jobs.next_question();
        let job = &mut self.jobs[key];
        let (Some(live), Some(on)) = (job.record.live(), job.on) else { return };
        if self.pool[on].is_healthy() {
            let (id, attempt, cluster) = (job.record.id.clone(), live.attempt, live.cluster.clone());
            out.effects.push(Effect::Lookup { job: id, attempt, cluster, question });
            job.question = Some(question);
            job.touched_at = self.now;
            job.asks = job.asks.saturating_add(1);
        }
        self.arm(key);
    }

    /// Sends the same attempt to the same cluster again.
    fn send_again(&mut self, key: JobKey, out: &mut Output) {
        let change = |live: &mut Live| {
            live.lost_since = None;
            live.sends = live.sends.saturating_add(1);
            // The send before it may be under way yet.
            live.uncertain = true;
        };
        self.update_live(key, Transition::Resend, change, out);
        let job = &mut self.jobs[key];
        job.touched_at = self.now;
        if let Some(live) = job.record.live() {
            let (id, attempt, cluster) = (job.record.id.clone(), live.attempt, live.cluster.clone());
            out.effects.push(Effect::Submit { job: id, attempt, cluster });
        }
        self.arm(key);
    }

    /// This attempt certainly never started: another cluster may do better.
    pub(crate) fn try_elsewhere(&mut self, key: JobKey, message: &Message, out: &mut Output) {
        let limit = self.settings.dispatch_attempts.get();
        let Some(live) = self.jobs[key].record.live() else { return };
        let (cluster, stopping) = (live.cluster.clone(), live.stopping);
        self.close_attempt(key, AttemptOutcome::NotStarted, Some(message), out);
        if stopping {
            self.end(key, Transition::Stop, Some("stopped before it started".into()), out);
            return;
        }
        let troubles = self.jobs[key].record.troubles.get_or_insert_default();
        troubles.dispatch_failures += 1;
        if !troubles.avoid.contains(&cluster) {
            troubles.avoid.push(cluster.clone());
        }
        let failures = troubles.dispatch_failures;
        if failures >= limit {
            let message = format!(
                "could not be started in {failures} attempts; the last, on cluster {cluster}: {message}"
            );
            self.end(key, Transition::Fail, Some(message.into()), out);
        } else {
            self.wait_again(key, message, failures, out);
        }
    }

    /// It ran and failed: run it again only if its owner said so.
    fn handle_run_failed(&mut self, key: JobKey, message: &Message, out: &mut Output) {
        self.close_attempt(key, AttemptOutcome::Failed, Some(message), out);
        let record = &mut self.jobs[key].record;
        let allowed = record.work.retry.max_retries;
        let failures = record.troubles.as_ref().map_or(0, |t| t.run_failures);
        if failures >= allowed {
            self.end(key, Transition::Fail, Some(message.clone()), out);
        } else {
            record.troubles.get_or_insert_default().run_failures = failures + 1;
            self.wait_again(key, message, failures + 1, out);
        }
    }

    /// Its cluster lost it for good: idempotent work runs again, other work fails,
    /// for it may have run.
    pub(crate) fn lose(&mut self, key: JobKey, message: &Message, out: &mut Output) {
        self.close_attempt(key, AttemptOutcome::Lost, Some(message), out);
        let record = &self.jobs[key].record;
        let stopping = record.live().is_some_and(|live| live.stopping);
        if stopping {
            self.end(key, Transition::Stop, Some(message.clone()), out);
        } else if record.work.retry.on_cluster_loss == OnClusterLoss::Requeue {
            self.wait_again(key, message, 1, out);
        } else {
            self.end(key, Transition::Fail, Some(message.clone()), out);
        }
    }

    /// Back to the queue, in its old place, after a pause.
    fn wait_again(&mut self, key: JobKey, error: &Message, failures: u32, out: &mut Output) {
        let record = &mut self.jobs[key].record;
        record.troubles.get_or_insert_default().last_error = Some(error.clone());
        let salt = record.seq.wrapping_mul(31).wrapping_add(u64::from(record.attempts));
        let pause = backoff(self.settings.retry_backoff, self.settings.retry_backoff_max, failures, salt);
        let next = Phase::Waiting { since: self.now, not_before: Some(self.now + pause) };
        self.move_to(key, Transition::Requeue, next, out);
    }

    /// Writes an attempt into the history.
    pub(crate) fn close_attempt(
        &self,
        key: JobKey,
        outcome: AttemptOutcome,
        message: Option<&Message>,
        out: &mut Output,
    ) {
        let record = &self.jobs[key].record;
        let Some(live) = record.live() else { return };
        out.writes.push(Write::Attempt(Box::new(AttemptRecord {
            job: record.id.clone(),
            live: live.clone(),
            ended_at: self.now,
            outcome,
            message: message.cloned(),
        })));
    }

    /// A job's timer went off.
    pub(crate) fn handle_job_due(&mut self, key: JobKey, out: &mut Output) {
        let record = &self.jobs[key].record;
        let live = match &record.phase {
            Phase::Waiting { .. } => return self.handle_waiting_due(key, out),
            Phase::Ended(_) => return,
            Phase::Live(live) => live,
        };
        if record.work.kind != Kind::Job {
            return self.expire_lease(key, out);
        }
        if let Some(since) = live.lost_since {
            let gives_up = record.work.retry.on_cluster_loss == OnClusterLoss::Requeue
                && since + self.settings.loss_grace <= self.now;
            if gives_up {
                let message = format!("cluster {} has been lost for too long", live.cluster);
                self.abandon(key, &message.into(), out);
            } else {
                self.ask(key, out);
            }
        } else if live.stage == Stage::Sending {
            let message = format!("cluster {} did not answer the submit request", live.cluster);
            self.mark_uncertain(key, &message.into(), out);
        } else if live.stopping {
            self.send_stop(key, out);
        } else {
            self.ask(key, out);
        }
    }

    /// A waiting job's timer went off: it has backed off long enough, or nobody asks for it.
    fn handle_waiting_due(&mut self, key: JobKey, out: &mut Output) {
        let job = &self.jobs[key];
        let is_placement = job.record.work.kind != Kind::Job;
        if is_placement && job.touched_at + self.settings.lease_ttl <= self.now {
            return self.give_up_waiting(key, out);
        }
        let Phase::Waiting { not_before, .. } = job.record.phase else { return };
        if !self.is_ready(key) && not_before.is_none_or(|at| at <= self.now) {
            self.make_ready(key);
        }
        self.arm(key);
    }

    /// Sets the timer that the situation of a job calls for.
    pub(crate) fn arm(&mut self, key: JobKey) {
        let backs_off = matches!(self.jobs[key].record.phase, Phase::Waiting { not_before: Some(_), .. })
            && !self.is_ready(key);
        let job = &mut self.jobs[key];
        let live = match &job.record.phase {
            Phase::Live(live) => live,
            Phase::Ended(_) => return,
            Phase::Waiting { not_before, .. } => {
                let is_placement = job.record.work.kind != Kind::Job;
                let given_up = is_placement.then(|| job.touched_at + self.settings.lease_ttl);
                match not_before.filter(|_| backs_off).into_iter().chain(given_up).min() {
                    Some(at) => self.timers.set(&mut job.due, Timer::Job(key), at),
                    None => self.timers.clear(&mut job.due, Timer::Job(key)),
                }
                return;
            }
        };
        let reachable = job.on.is_some_and(|on| self.pool[on].is_healthy());
        let ask_again =
            || job.touched_at + backoff(ASK_FIRST, ASK_LONGEST, u32::from(job.asks), job.record.seq);
        let at: Option<Timestamp> = if job.record.work.kind != Kind::Job {
            Some(job.touched_at + self.settings.lease_ttl)
        } else if let Some(since) = live.lost_since {
            let give_up = (job.record.work.retry.on_cluster_loss == OnClusterLoss::Requeue)
                .then(|| since + self.settings.loss_grace);
            give_up.into_iter().chain(reachable.then(ask_again)).min()
        } else if live.stage == Stage::Sending {
            Some(job.touched_at + self.settings.dispatch_timeout)
        } else if live.stopping {
            Some(job.touched_at + STOP_AGAIN)
        } else {
            // Asked in vain: ask again.
            (job.asks > 0 && reachable).then(ask_again)
        };
        match at {
            Some(at) => self.timers.set(&mut job.due, Timer::Job(key), at),
            None => self.timers.clear(&mut job.due, Timer::Job(key)),
        }
    }

    /// Gives up on an attempt that may still run: it is stopped when its cluster can be
    /// asked again. Only idempotent work is tried elsewhere.
    fn abandon(&mut self, key: JobKey, message: &Message, out: &mut Output) {
        let record = &self.jobs[key].record;
        let Some(live) = record.live() else { return };
        let orphan = Orphan { cluster: live.cluster.clone(), job: record.id.clone(), attempt: live.attempt };
        out.writes.push(Write::Orphan(orphan.clone()));
        if self.jobs[key].on.is_some_and(|on| self.pool[on].is_healthy()) {
            self.stop_orphan(orphan.clone(), out);
        }
        self.orphans.insert(orphan);
        self.lose(key, message, out);
    }

    /// A watch saw something that is not a current attempt.
    fn handle_orphan_seen(&mut self, name: &ClusterName, run: &Observation, out: &mut Output) {
        self.stop_what_was_stopped(name, run, out);
        let matches = |o: &&Orphan| o.cluster == *name && o.job == run.job && o.attempt == run.attempt;
        let Some(orphan) = self.orphans.iter().find(matches).cloned() else { return };
        match run.status {
            RunStatus::Pending | RunStatus::Running => {}
            RunStatus::Succeeded | RunStatus::Failed { .. } | RunStatus::Stopped => {
                self.drop_orphan(&orphan, out)
            }
        }
    }

    /// A request that arrives after its job was stopped is stopped as well.
    fn stop_what_was_stopped(&self, name: &ClusterName, run: &Observation, out: &mut Output) {
        let Some(record) = self.jobs.find(&run.job).map(|key| &self.jobs[key].record) else { return };
        let alive = matches!(run.status, RunStatus::Pending | RunStatus::Running);
        if alive && record.state() == State::Stopped && record.attempts == run.attempt.0 {
            let (job, attempt, cluster) = (run.job.clone(), run.attempt, name.clone());
            out.effects.push(Effect::Stop { job, attempt, cluster });
        }
    }

    /// A stop request came to an end. What it led to is learnt by watching.
    pub(crate) fn handle_stop_sent(
        &mut self,
        job: &JobId,
        attempt: Attempt,
        answered: bool,
        out: &mut Output,
    ) {
        let matches = |o: &&Orphan| o.job == *job && o.attempt == attempt;
        let Some(orphan) = self.orphans.iter().find(matches).cloned() else { return };
        self.orphans_being_stopped.remove(&orphan);
        if answered {
            self.drop_orphan(&orphan, out);
        }
    }

    /// Asks a cluster to stop an attempt that was given up, unless that is under way.
    pub(crate) fn stop_orphan(&mut self, orphan: Orphan, out: &mut Output) {
        if self.orphans_being_stopped.insert(orphan.clone()) {
            let Orphan { cluster, job, attempt } = orphan;
            out.effects.push(Effect::Stop { job, attempt, cluster });
        }
    }

    pub(crate) fn drop_orphan(&mut self, orphan: &Orphan, out: &mut Output) {
        self.orphans.remove(orphan);
        self.orphans_being_stopped.remove(orphan);
        out.writes.push(Write::DeleteOrphan(orphan.clone()));
    }

    pub(crate) fn live(&self, job: &JobId, attempt: Attempt) -> Option<(JobKey, Live)> {
        let key = self.find_live(job, attempt)?;
        Some((key, self.jobs[key].record.live()?.clone()))
    }

    /// As [`Self::live`], for completions that only jobs have.
    fn live_job(&self, job: &JobId, attempt: Attempt) -> Option<(JobKey, Live)> {
        self.live(job, attempt).filter(|(key, _)| self.jobs[*key].record.work.kind == Kind::Job)
    }

    pub(crate) fn note_dispatch_of(&mut self, key: JobKey, worked: bool, out: &mut Output) {
        if let Some(on) = self.jobs[key].on {
            self.note_dispatch(on, worked, out);
        }
    }
}
