//! What a job is due for: one table from a job's situation to a moment and an action. Timers are
//! set from this table, and it is consulted again when a timer goes off.

use multicluster_types::{Message, OnClusterLoss, Span, Timestamp};

use super::backoff;
use crate::{
    Core, Output,
    jobs::JobKey,
    record::{Phase, Stage, Standing},
    timers::Timer,
};

/// First and longest wait between two lookups of one lost attempt.
const ASK_FIRST: Span = Span::seconds(1);
const ASK_LONGEST: Span = Span::seconds(30);
/// Ray ignores a stop while a job is pending, so the stop is repeated until the job has ended.
const STOP_AGAIN: Span = Span::seconds(5);

/// The action when a job's timer goes off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Duty {
    /// The caller is gone, so the placement would wait in vain.
    GiveUpWaiting,
    /// The job has backed off long enough.
    MakeReady,
    /// The holder of the placement is gone.
    ExpireLease,
    /// The cluster has been lost for longer than the owner wants to wait.
    Abandon,
    /// Ask the cluster about the job.
    Ask,
    /// The submit request has timed out.
    TakeForLost,
    /// The stop did not end the job.
    StopAgain,
    /// The job waits for nodes that do not come.
    Recall,
}

impl Core {
    /// The table itself.
    fn due(&self, key: JobKey) -> Option<(Timestamp, Duty)> {
        let job = &self.jobs[key];
        let lease_ends = job.touched_at + self.settings.lease_ttl;
        let live = match &job.record().phase {
            Phase::Ended(_) => return None,
            Phase::Waiting { not_before, .. } => {
                let gives_up = (!job.is_job()).then_some((lease_ends, Duty::GiveUpWaiting));
                let backs_off = not_before.filter(|_| !self.is_ready(key)).map(|at| (at, Duty::MakeReady));
                return self.first([gives_up, backs_off]);
            }
            Phase::Live(_) if !job.is_job() => return Some((lease_ends, Duty::ExpireLease)),
            // Another attempt may be the latest. What is due is due when the lists have told.
            Phase::Live(_) if self.is_rewound() => return None,
            Phase::Live(live) => live,
        };
        match live.standing() {
            Standing::Sending { .. } => {
                Some((job.touched_at + self.settings.dispatch_timeout, Duty::TakeForLost))
            }
            Standing::Unheard { since, .. }
            | Standing::Pending { lost: Some(since) }
            | Standing::Running { lost: Some(since), .. } => {
                let waits = job.record().work.retry.on_cluster_loss == OnClusterLoss::Wait;
                let gives_up = (!waits).then(|| (*since + self.settings.loss_grace, Duty::Abandon));
                self.first([gives_up, self.asks_at(key)])
            }
            Standing::Pending { lost: None } | Standing::Running { lost: None, .. } => {
                if live.stopping() {
                    Some((job.touched_at + STOP_AGAIN, Duty::StopAgain))
                } else {
                    // The last lookup had no answer: ask again.
                    let asks = self.asks_at(key).filter(|_| job.asks > 0);
                    let pending = live.stage() == Stage::Pending;
                    let recalled = self.recalled_at(key).filter(|_| pending);
                    self.first([asks, recalled.map(|at| (at, Duty::Recall))])
                }
            }
        }
    }

    /// When the cluster is asked about this job next, if it can be asked.
    fn asks_at(&self, key: JobKey) -> Option<(Timestamp, Duty)> {
        let job = &self.jobs[key];
        job.on.filter(|on| self.pool[*on].is_healthy())?;
        let pause = backoff(ASK_FIRST, ASK_LONGEST, u32::from(job.asks), job.record().seq);
        Some((job.touched_at + pause, Duty::Ask))
    }

    /// The earliest duty; of the duties that are already due, the first in the list.
    fn first(&self, duties: [Option<(Timestamp, Duty)>; 2]) -> Option<(Timestamp, Duty)> {
        duties.into_iter().flatten().min_by_key(|(at, _)| (*at).max(self.now))
    }

    /// Sets the timer that the situation of a job calls for.
    pub(super) fn arm(&mut self, key: JobKey) {
        let due = self.due(key);
        let job = &mut self.jobs[key];
        match due {
            Some((at, _)) => self.timers.set(&mut job.due, Timer::Job(key), at),
            None => self.timers.clear(&mut job.due, Timer::Job(key)),
        }
    }

    /// A job's timer went off.
    pub(super) fn handle_job_due(&mut self, key: JobKey, out: &mut Output) {
        let Some((_, duty)) = self.due(key).filter(|(at, _)| *at <= self.now) else {
            return self.arm(key);
        };
        let said = |what: &str| -> Message {
            let cluster = self.jobs[key].live().map_or("?", |live| live.cluster.as_str());
            format!("cluster {cluster} {what}").into()
        };
        match duty {
            Duty::GiveUpWaiting => self.give_up_waiting(key, out),
            Duty::MakeReady => {
                self.make_ready(key);
                self.arm(key);
            }
            Duty::ExpireLease => self.expire_lease(key, out),
            Duty::Abandon => {
                let message = said("has been unreachable for too long");
                self.abandon(key, &message, out);
            }
            Duty::TakeForLost => {
                let message = said("did not answer the submit request");
                self.mark_uncertain(key, &message, out);
            }
            Duty::Ask => self.ask(key, out),
            Duty::Recall => self.recall(key, out),
            Duty::StopAgain => {
                self.send_stop(key, out);
                // Its answer may never come. As long as it is awaited, nobody else asks.
                if self.jobs[key].question.is_some() {
                    self.ask(key, out);
                }
            }
        }
    }
}
