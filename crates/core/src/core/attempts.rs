//! The life of one attempt on its cluster, from the request to the outcome.
//!
//! The rule behind all of this: once a request *may* have arrived, the attempt stays on that
//! cluster under that id until the cluster itself reports its fate. Only the owner's policy
//! (`on_cluster_loss: requeue`) can waive that. Before such an attempt is given up it is *buried*:
//! a no-op is submitted under its id, so that a request that is still on its way is refused.

use std::collections::BTreeSet;

use multicluster_types::{ClusterName, Incarnation, Message, Span, State, Timestamp, Transition};

use crate::{
    Core, DispatchOutcome, LookupOutcome, Observation, Output, Pushing, Refusal, Run, RunStatus,
    jobs::JobKey,
    pool::ClusterKey,
    record::{AttemptOutcome, Live, Sent, Stage, Standing, Step},
};

impl Core {
    /// A submit request is not sent yet: the packages of the job are on their way, however long
    /// that takes.
    pub(super) fn handle_pushing(&mut self, run: &Run, pushed: u64, of: u64) {
        let Some((key, live)) = self.live_job(run) else { return };
        if live.state() == State::Dispatching {
            let job = &mut self.jobs[key];
            (job.touched_at, job.pushing) = (self.now, Some(Pushing { pushed, of }));
            self.arm(key);
        }
    }

    /// A submit request came to an end.
    pub(super) fn handle_dispatched(
        &mut self,
        run: &Run,
        outcome: DispatchOutcome,
        took: Span,
        out: &mut Output,
    ) {
        let Some((key, live)) = self.live_job(run) else { return };
        self.note_submission(key, &outcome, took);
        // News that overtook this completion is as good or better.
        if live.has_arrived() {
            return;
        }
        match outcome {
            DispatchOutcome::Accepted => self.mark_pending(key, out),
            // An earlier send of this attempt may run: the cluster must say that it does not.
            DispatchOutcome::Refused(message) if live.may_have_arrived() => {
                self.mark_unheard(key, Step::Refuse(message.clone()), &message, out);
            }
            DispatchOutcome::Refused(message) => {
                self.note_dispatch_of(key, true, out);
                self.close_attempt(key, AttemptOutcome::NotStarted, Some(&message), out);
                self.end(key, Transition::Fail, Some(message), out);
            }
            // An earlier send may have arrived even though this one did not.
            DispatchOutcome::Failed(message)
            | DispatchOutcome::Denied(message)
            | DispatchOutcome::NotSent(message)
            | DispatchOutcome::Unsupported(message)
            | DispatchOutcome::Taken(message)
                if live.may_have_arrived() =>
            {
                self.mark_uncertain(key, &message, out);
            }
            DispatchOutcome::Failed(message) => {
                self.note_dispatch_of(key, false, out);
                self.try_elsewhere(key, &message, out);
            }
            DispatchOutcome::Denied(message) => self.handle_denied(key, &message, out),
            DispatchOutcome::Unsupported(message) => {
                self.note_dispatch_of(key, true, out);
                self.try_others(key, &message, out);
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

    /// Notes how the dashboard coped with a submission, if one was sent. The cluster's other
    /// users see that a submission failed, but not whose or how.
    fn note_submission(&mut self, key: JobKey, outcome: &DispatchOutcome, took: Span) {
        let Some(on) = self.jobs[key].on.filter(|_| took != Span::ZERO) else { return };
        match outcome {
            DispatchOutcome::Failed(_) => self.pool[on].slow_down(self.now, "a submission failed".into()),
            DispatchOutcome::Unknown(_) => {
                self.pool[on].slow_down(self.now, "a submission got no answer".into());
            }
            DispatchOutcome::Accepted
            | DispatchOutcome::Refused(_)
            | DispatchOutcome::Unsupported(_)
            | DispatchOutcome::Taken(_) => {
                self.note_latency(on, took);
            }
            DispatchOutcome::Denied(_) | DispatchOutcome::NotSent(_) => {}
        }
    }

    /// The cluster refused our token. No work goes there until it answers a poll again. A token that
    /// is being replaced must cost no job, so the job waits as if it had not been sent. If the
    /// cluster answers polls and refuses jobs all the same, that is a failure like any other.
    fn handle_denied(&mut self, key: JobKey, message: &Message, out: &mut Output) {
        let Some(on) = self.jobs[key].on else { return };
        let cluster = &mut self.pool[on];
        let was_healthy = cluster.is_healthy();
        let again = was_healthy && cluster.denied;
        cluster.denied = true;
        if was_healthy {
            self.doubt(on, out);
        }
        if again {
            self.note_dispatch_of(key, false, out);
            self.try_elsewhere(key, message, out);
        } else {
            self.pool[on].breaker.not_sent(key);
            self.try_later(key, message, out);
        }
    }

    /// A lookup of one attempt came to an end.
    pub(super) fn handle_looked_up(
        &mut self,
        run: &Run,
        question: u32,
        outcome: LookupOutcome,
        out: &mut Output,
    ) {
        let Some((key, live)) = self.live_job(run) else {
            return self.handle_orphan_looked_up(run, &outcome, out);
        };
        if !self.jobs[key].question.is_some_and(|open| open.counts(question, &outcome)) {
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
            // On the head that it was sent to, only a request that never arrived finds its id in
            // use. On another head it may have been taken after the job had run.
            LookupOutcome::Taken { message, incarnation }
                if !live.has_arrived() && same_head(&live, incarnation.as_ref()) == Some(true) =>
            {
                self.try_elsewhere(key, &message, out);
            }
            LookupOutcome::Buried { incarnation }
                if !live.has_arrived() && same_head(&live, incarnation.as_ref()) == Some(true) =>
            {
                self.handle_buried(key, &live, out);
            }
            LookupOutcome::NotFound { incarnation } if !live.has_arrived() => {
                self.handle_not_arrived(key, &live, incarnation.as_ref(), out);
            }
            LookupOutcome::Taken { incarnation, .. }
            | LookupOutcome::Buried { incarnation }
            | LookupOutcome::NotFound { incarnation } => {
                self.handle_gone(key, &live, incarnation.as_ref(), out);
            }
        }
    }

    /// The attempt has not arrived so far. If it is sent again and the old request still arrives,
    /// Ray refuses the second of the two. If it is to be given up, it is buried first.
    fn handle_not_arrived(
        &mut self,
        key: JobKey,
        live: &Live,
        incarnation: Option<&Incarnation>,
        out: &mut Output,
    ) {
        let most = self.settings.dispatch_attempts.get();
        let sends_left = match live.standing() {
            Standing::Sending { sends } | Standing::Unheard { sends, .. } => *sends < most,
            Standing::Pending { .. } | Standing::Running { .. } => return,
        };
        let refused = matches!(live.standing(), Standing::Unheard { sent: Sent::Refused(_), .. });
        // A head that restarted may have restarted after the job had run.
        let may_be_sent = same_head(live, incarnation) == Some(true);
        if may_be_sent && sends_left && !refused && !live.stops_for_good() {
            self.send_again(key, out);
        } else {
            self.bury(key, out);
        }
    }

    /// The attempt never ran, and never will.
    fn handle_buried(&mut self, key: JobKey, live: &Live, out: &mut Output) {
        match live.standing() {
            Standing::Unheard { sent: Sent::Refused(why), .. } => {
                self.close_attempt(key, AttemptOutcome::NotStarted, Some(why), out);
                self.end(key, Transition::Fail, Some(why.clone()), out);
            }
            _ if live.stops_for_good() => {
                self.close_attempt(key, AttemptOutcome::Stopped, None, out);
                self.end(key, Transition::Stop, Some("stopped before it reached its cluster".into()), out);
            }
            Standing::Unheard { sends, .. } | Standing::Sending { sends } => {
                let message =
                    format!("cluster {} did not accept the job after {sends} submit requests", live.cluster);
                self.try_elsewhere(key, &message.into(), out);
            }
            Standing::Pending { .. } | Standing::Running { .. } => {}
        }
    }

    /// The cluster does not have the attempt, and it may have run there before.
    fn handle_gone(&mut self, key: JobKey, live: &Live, incarnation: Option<&Incarnation>, out: &mut Output) {
        let cluster = &live.cluster;
        let message = match same_head(live, incarnation) {
            Some(true) => format!("cluster {cluster} no longer knows this job"),
            Some(false) => format!(
                "cluster {cluster} restarted and no longer knows this job; it may or may not have finished"
            ),
            None => format!(
                "cluster {cluster} does not know this job, and does not report whether it restarted; \
                 the job may or may not have run"
            ),
        };
        self.lose(key, &message.into(), out);
    }

    /// Keeps the runs of known jobs and of forgotten ones. Drops runs of an earlier job with the
    /// same id: they say nothing about the present job.
    pub(super) fn current(&self, mut seen: Vec<Observation>) -> Vec<Observation> {
        seen.retain(|seen| self.job(&seen.run.job).is_none_or(|job| seen.run.is_of(job)));
        seen
    }

    /// A watch saw what a cluster runs.
    pub(super) fn handle_observed(
        &mut self,
        name: &ClusterName,
        incarnation: Option<&Incarnation>,
        complete_at: Option<Timestamp>,
        seen: &[Observation],
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let on = self.find_cluster(name)?;
        if self.is_rewound() {
            return Ok(()); // A later attempt may run elsewhere: the lists will tell.
        }
        // Reports from an earlier head are void: the new head knows none of its jobs.
        if self.pool[on].incarnation() != incarnation {
            return Ok(());
        }
        if let Some(at) = complete_at {
            self.ask_about_missing(on, at + self.skew, seen, out);
        }
        for seen in seen {
            match self.find_live(&seen.run) {
                Some(key) if self.jobs[key].is_job() && self.jobs[key].on == Some(on) => {
                    self.reported_run = seen.ran;
                    self.apply_status(key, &seen.status, out);
                    self.reported_run = None;
                }
                Some(_) => {}
                None => self.handle_orphan_seen(name, seen, out),
            }
        }
        Ok(())
    }

    /// Asks the cluster about jobs that should be in a complete list and are not: they may have
    /// been deleted on the cluster.
    fn ask_about_missing(&mut self, on: ClusterKey, at: Timestamp, seen: &[Observation], out: &mut Output) {
        let seen: BTreeSet<_> = seen.iter().map(|seen| (&seen.run.job, seen.run.attempt)).collect();
        let missing = |key: &JobKey| {
            let job = &self.jobs[*key];
            job.live().is_some_and(|live| {
                // A list that was asked for before the latest news may not show it. Stops are repeated
                // so often that every list is that old; they are no news.
                let is_newer = job.touched_at < at || live.stopping();
                let expected = live.has_arrived() && live.lost_since().is_none() && is_newer;
                expected && job.question.is_none() && !seen.contains(&(&job.record().id, live.attempt))
            })
        };
        let missing: Vec<_> = self.jobs_on(on).into_iter().filter(missing).collect();
        for key in missing {
            self.ask(key, out);
        }
    }

    /// Applies what the cluster reports about an attempt, asked or not.
    pub(super) fn apply_status(&mut self, key: JobKey, status: &RunStatus, out: &mut Output) {
        let Some(live) = self.jobs[key].live().cloned() else { return };
        // The cluster has the attempt, so the dispatch worked in any case.
        if !live.has_arrived() {
            self.note_dispatch_of(key, true, out);
        }
        match status {
            RunStatus::Pending => {
                if !live.has_arrived() {
                    self.mark_pending(key, out);
                } else if live.lost_since().is_some() {
                    self.mark_found(key, live.stage(), out);
                }
            }
            RunStatus::Running => {
                if live.state() != State::Running {
                    self.mark_found(key, Stage::Running, out);
                }
            }
            RunStatus::Succeeded => {
                // The job started well, whether or not it was seen running.
                if let Some(on) = self.jobs[key].on {
                    self.pool[on].settle(key, self.now);
                }
                self.close_attempt(key, AttemptOutcome::Succeeded, None, out);
                self.end(key, Transition::Succeed, None, out);
            }
            RunStatus::Stopped | RunStatus::Failed { never_started: false, .. } if live.preempted() => {
                self.handle_preempted(key, out);
            }
            RunStatus::Stopped => {
                self.close_attempt(key, AttemptOutcome::Stopped, None, out);
                // The state says enough, unless the job was stopped on the cluster itself.
                let by_others = (!live.stopping()).then(|| {
                    format!("stopped on cluster {}, not through the control plane", live.cluster).into()
                });
                self.end(key, Transition::Stop, by_others, out);
            }
            RunStatus::Failed { message, never_started: false, .. } if live.stopping() => {
                self.close_attempt(key, AttemptOutcome::Failed, Some(message), out);
                self.end(key, Transition::Fail, Some(message.clone()), out);
            }
            // It waited for nodes that did not come, which is no fault of the job.
            RunStatus::Failed { message, never_started: true, .. } if self.waits_for_nodes(key) => {
                self.try_later(key, message, out);
            }
            RunStatus::Failed { message, never_started: true, .. } => self.try_elsewhere(key, message, out),
            RunStatus::Failed { message, never_started: false, exit_code } => {
                self.handle_run_failed(key, message, *exit_code, out);
            }
        }
    }

    /// The job that a completion belongs to. Tasks and actors have no completions.
    fn live_job(&self, run: &Run) -> Option<(JobKey, Live)> {
        let key = self.find_live(run).filter(|key| self.jobs[*key].is_job())?;
        Some((key, self.jobs[key].live()?.clone()))
    }
}

/// Whether an answer comes from the head that the attempt was sent to; `None` if that is unknown.
fn same_head(live: &Live, incarnation: Option<&Incarnation>) -> Option<bool> {
    let lives = live.incarnation.as_ref().zip(incarnation);
    lives.map(|(then, now)| then == now)
}
