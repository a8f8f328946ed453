//! How an attempt ends, and what happens to its job then.

use multicluster_types::{ClusterName, Message, OnClusterLoss, Span, State, Transition};

use super::backoff;
use crate::{
    Core, Output, Write,
    jobs::{AfterFailure, JobKey},
    record::{AttemptOutcome, AttemptRecord, Ended, Live, PREEMPTED, Phase, Unsuited},
};

impl Core {
    /// This attempt certainly never started: another cluster may do better.
    pub(super) fn try_elsewhere(&mut self, key: JobKey, message: &Message, out: &mut Output) {
        let limit = self.settings.dispatch_attempts.get();
        let Some(cluster) = self.close_unstarted(key, message, out) else { return };
        let failures = self.jobs[key].note_not_started(&cluster);
        if failures >= limit {
            let message =
                format!("failed to start {failures} times; last error, on cluster {cluster}: {message}");
            self.end(key, Transition::Fail, Some(message.into()), out);
        } else {
            self.wait_again(key, message, failures, out);
        }
    }

    /// This attempt never started, and that is no fault of the job: it waits as if it had not been
    /// sent.
    pub(super) fn try_later(&mut self, key: JobKey, message: &Message, out: &mut Output) {
        if self.close_unstarted(key, message, out).is_some() {
            self.wait_again(key, message, 1, out);
        }
    }

    /// The cluster can never accept this job. The job goes to others, or fails if there are none.
    pub(super) fn try_others(&mut self, key: JobKey, message: &Message, out: &mut Output) {
        let Some(cluster) = self.close_unstarted(key, message, out) else { return };
        let snapshot = self.pool.find(&cluster).and_then(|on| self.pool[on].snapshot());
        let ray = snapshot.map_or("", |snapshot| snapshot.ray_version.as_str()).into();
        self.jobs[key].note_unsuited(Unsuited { cluster, ray, error: message.clone() });
        let job = &self.jobs[key];
        let look = self.look_of(job);
        if self.pool.iter().all(|(_, cluster)| look.never(cluster).is_some()) {
            self.end(key, Transition::Fail, Some(message.clone()), out);
        } else {
            self.wait_again(key, message, 1, out);
        }
    }

    /// Closes an attempt that never started, and returns its cluster. `None`: the job was being
    /// stopped, and has ended.
    fn close_unstarted(&mut self, key: JobKey, message: &Message, out: &mut Output) -> Option<ClusterName> {
        let live = self.jobs[key].live()?;
        let (cluster, stopping) = (live.cluster.clone(), live.stops_for_good());
        self.close_attempt(key, AttemptOutcome::NotStarted, Some(message), out);
        if stopping {
            self.end(key, Transition::Stop, Some("stopped before it started".into()), out);
            return None;
        }
        Some(cluster)
    }

    /// The attempt ran and failed: it is retried only if its owner allows that, for this exit code.
    pub(super) fn handle_run_failed(
        &mut self,
        key: JobKey,
        message: &Message,
        exit_code: Option<i64>,
        out: &mut Output,
    ) {
        self.close_attempt(key, AttemptOutcome::Failed, Some(message), out);
        match self.jobs[key].note_run_failed(exit_code) {
            AfterFailure::Retry(failures) => self.wait_again(key, message, failures, out),
            AfterFailure::UsedUp => self.end(key, Transition::Fail, Some(message.clone()), out),
            AfterFailure::Excluded(why) => {
                // Lists and explanations show the last line only.
                let (text, line) = (message.as_str().trim(), message.line());
                let before = if line == text { String::new() } else { format!("{text}\n") };
                let message = format!("{before}not retried: {why}; last error: {line}");
                self.end(key, Transition::Fail, Some(message.into()), out);
            }
        }
    }

    /// The attempt was stopped for other work, whatever it reports about its end: the job goes back to
    /// its place in the queue.
    pub(super) fn handle_preempted(&mut self, key: JobKey, out: &mut Output) {
        let message: Message = PREEMPTED.into();
        self.close_attempt(key, AttemptOutcome::Preempted, Some(&message), out);
        let job = &mut self.jobs[key];
        job.note_preempted();
        job.note_error(&message);
        let next = Phase::Waiting { since: self.now, not_before: None };
        let _ = self.move_to(key, Transition::Requeue, next, out);
    }

    /// The cluster lost the attempt and will not find it again. Idempotent work is requeued; other work fails,
    /// because it may have run.
    pub(super) fn lose(&mut self, key: JobKey, message: &Message, out: &mut Output) {
        self.close_attempt(key, AttemptOutcome::Lost, Some(message), out);
        let job = &self.jobs[key];
        if job.live().is_some_and(Live::stops_for_good) {
            self.end(key, Transition::Stop, Some(message.clone()), out);
        } else if job.record().work.retry.on_cluster_loss == OnClusterLoss::Requeue {
            self.wait_again(key, message, 1, out);
        } else {
            self.end(key, Transition::Fail, Some(message.clone()), out);
        }
    }

    /// Gives up on an attempt that may still run: the attempt is stopped when its cluster can be
    /// asked again. Only idempotent work is tried elsewhere.
    pub(super) fn abandon(&mut self, key: JobKey, message: &Message, out: &mut Output) {
        self.orphan(key, out);
        self.lose(key, message, out);
    }

    /// Returns a job to the queue, in its old place, after a pause.
    fn wait_again(&mut self, key: JobKey, error: &Message, failures: u32, out: &mut Output) {
        let job = &mut self.jobs[key];
        job.note_error(error);
        let record = job.record();
        let salt = record.seq.wrapping_mul(31).wrapping_add(u64::from(record.attempts));
        let pause = backoff(self.settings.retry_backoff, self.settings.retry_backoff_max, failures, salt);
        let next = Phase::Waiting { since: self.now, not_before: Some(self.now + pause) };
        let _ = self.move_to(key, Transition::Requeue, next, out);
    }

    /// Ends a job.
    pub(super) fn end(
        &mut self,
        key: JobKey,
        transition: Transition,
        message: Option<Message>,
        out: &mut Output,
    ) {
        let job = &self.jobs[key];
        let cluster = job.live().map(|live| live.cluster.clone());
        let ran = job.live().and_then(|live| self.ran(live, transition));
        if let (Some(ran), true) = (ran, job.is_job()) {
            self.runs.note(&job.record().work, ran);
        }
        let state = match transition {
            Transition::Succeed => State::Succeeded,
            Transition::Stop => State::Stopped,
            _ => State::Failed,
        };
        let ended = Ended { state, at: self.now, ran, cluster, message };
        let _ = self.move_to(key, transition, Phase::Ended(Box::new(ended)), out);
    }

    /// How long an attempt that ends now ran, if it did. One that was never seen running was too short for
    /// that: its cluster knows.
    fn ran(&self, live: &Live, transition: Transition) -> Option<Span> {
        let reported = self.reported_run.filter(|_| transition != Transition::Stop);
        let most = self.now.since(live.dispatched_at);
        live.running_at().map(|since| self.now.since(since)).or(reported.map(|ran| ran.min(most)))
    }

    /// Writes an attempt into the history.
    pub(super) fn close_attempt(
        &self,
        key: JobKey,
        outcome: AttemptOutcome,
        message: Option<&Message>,
        out: &mut Output,
    ) {
        let record = self.jobs[key].record();
        let Some(live) = record.live() else { return };
        out.writes.push(Write::Attempt(Box::new(AttemptRecord {
            job: record.id.clone(),
            live: live.clone(),
            ended_at: self.now,
            outcome,
            message: message.cloned(),
        })));
    }
}
