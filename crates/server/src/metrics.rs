//! Counters and measurements.
//!
//! Counters and histograms are kept here and fed where things happen; gauges (clusters, queues) are
//! looked up for each scrape. Nothing is global, and nothing is labelled by job: the number of
//! series is bounded by clusters, routes and reasons.
//!
//! - `catalogue` every metric: name, type, help, labels; `docs/metrics.md` is generated from it
//! - `series` where the numbers are kept · `page` how they are written
//! - `process` the kernel's figures about this process

mod catalogue;
mod lead;
mod page;
mod process;
mod series;
mod shed;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use multicluster_core::{Core, CycleStats, Event, record::AttemptRecord};
use multicluster_types::{Attempt, ClusterName, Decision, JobId, Kind, State};

pub(crate) use lead::{Forwarded, Led};
pub(crate) use page::{LeadSeen, Seen};
pub(crate) use shed::Shed;

use prometheus_client::metrics::counter::Counter;

use series::{Cluster, Series};

/// Shared by everything that measures. Cheap to clone. The methods below are on the hot path and
/// allocate nothing for a cluster or a route that was seen before.
#[derive(Clone, Default)]
pub struct Metrics {
    series: Arc<Series>,
}

impl Metrics {
    /// A transaction with this many changes was made durable.
    pub(crate) fn committed(&self, took: Duration, changes: usize) {
        self.series.commit.observe(took.as_secs_f64());
        #[expect(clippy::cast_precision_loss, reason = "a histogram; no transaction has 2^53 changes")]
        self.series.commit_changes.observe(changes as f64);
    }

    /// A cluster was chosen.
    pub(crate) fn decided(&self, decision: &Decision) {
        self.series.cluster(&decision.cluster, |cluster| cluster.placed.inc());
    }

    /// A job or a cluster changed. `core` is the state after that.
    pub(crate) fn happened(&self, event: &Event, core: &Core) {
        match event {
            Event::Job { job, at, state, cluster, attempt, message, .. } => {
                self.series.entered[*state as usize].inc();
                let record = core.job(job);
                let kind = record.map_or(Kind::Job, |record| record.work.kind);
                match state {
                    // A job that is queued again has a message, even if that happens in the same
                    // millisecond.
                    State::Queued
                        if message.is_none() && record.is_some_and(|record| record.submitted_at == *at) =>
                    {
                        self.series.accepted[kind as usize].inc();
                    }
                    // The event repeats when the job is sent again or is being stopped. Only the
                    // first event of the first attempt ends the wait.
                    State::Dispatching if *attempt == Some(Attempt::FIRST) => {
                        let Some((record, cluster)) = record.zip(cluster.as_ref()) else { return };
                        if record.live().is_some_and(|live| live.dispatched_at == *at) {
                            let waited = at.since(record.submitted_at).as_seconds();
                            self.series.cluster(cluster, |cluster| cluster.waited(kind, waited));
                        }
                    }
                    // The event repeats when the job is found again after a loss, or is being
                    // stopped.
                    State::Running if record.and_then(|record| record.live()?.running_at()) == Some(*at) => {
                        self.series.started[kind as usize].inc();
                    }
                    State::Succeeded | State::Failed | State::Stopped => {
                        self.in_cluster(cluster.as_ref(), |cluster| cluster.ended(kind, *state));
                    }
                    _ => {}
                }
            }
            Event::Cluster { cluster, change, .. } => self.series.changed(cluster, change),
            Event::Policy { .. } | Event::Config { .. } => {}
        }
    }

    /// One attempt ended. Called for every `Write::Attempt`.
    pub(crate) fn attempted(&self, attempt: &AttemptRecord, core: &Core) {
        if let Some(running_at) = attempt.live.running_at() {
            let kind = kind_of(&attempt.job, core);
            let ran = attempt.ended_at.since(running_at).as_seconds();
            self.series.cluster(&attempt.live.cluster, |cluster| cluster.ran(kind, ran));
        }
    }

    /// The scheduler tried a change that is not possible for the job.
    pub(crate) fn impossible(&self) {
        self.series.impossible.inc();
    }

    /// The scheduler went through its queues.
    pub(crate) fn cycled(&self, cycle: &CycleStats) {
        let series = &self.series;
        series.cycles.inc();
        series.heads.inc_by(cycle.heads.into());
        series.looks.inc_by(cycle.looks.into());
        series.placed.inc_by(cycle.placed.into());
        for (reason, count) in &cycle.rejections {
            series.passed_over[*reason as usize].inc_by((*count).into());
        }
    }

    /// A submit request to a cluster ended.
    pub(crate) fn dispatched(&self, cluster: &ClusterName, outcome: &'static str, took: Duration) {
        self.series.cluster(cluster, |cluster| cluster.dispatched(outcome, took.as_secs_f64()));
    }

    /// A poll of a cluster ended.
    pub(crate) fn polled(&self, cluster: &ClusterName, answered: bool, took: Duration) {
        self.series.cluster(cluster, |cluster| cluster.polled(answered, took.as_secs_f64()));
    }

    /// A request was answered. `route` is the router's template, never a path from a caller; `None`
    /// if no route matched.
    pub(crate) fn api(&self, route: Option<&str>, method: &http::Method, status: u16, took: Duration) {
        self.series.api(route.unwrap_or("unmatched"), method, status, took.as_secs_f64());
    }

    /// A request or connection was refused.
    pub(crate) fn shed(&self, shed: Shed) {
        self.series.shed[shed as usize].inc();
    }

    /// The lead changed.
    pub(crate) fn led(&self, change: Led) {
        self.series.led[change as usize].inc();
    }

    /// A request was answered by this replica while another one led.
    pub(crate) fn forwarded(&self, result: Forwarded) {
        self.series.forwarded[result as usize].inc();
    }

    /// A request waits for a leader, until the guard is dropped.
    pub(crate) fn holds(&self) -> Held {
        self.series.held.inc();
        Held(Arc::clone(&self.series))
    }

    /// The traces of this many jobs were sent.
    pub(crate) fn traces_sent(&self, jobs: u64) {
        self.series.traces_sent.inc_by(jobs);
    }

    /// This many are not sent.
    pub(crate) fn traces_dropped(&self, jobs: u64) {
        self.series.traces_dropped.inc_by(jobs);
    }

    /// A log is being followed, until the guard is dropped.
    pub(crate) fn tailing(&self) -> Tailing {
        self.series.tails.inc();
        Tailing(Arc::clone(&self.series))
    }

    /// The totals since the control plane started.
    pub(crate) fn totals(&self) -> Totals {
        let sum = |counters: &[Counter]| counters.iter().map(Counter::get).sum();
        let entered = |state: State| self.series.entered[state as usize].get();
        Totals {
            submitted: sum(&self.series.accepted),
            started: sum(&self.series.started),
            succeeded: entered(State::Succeeded),
            failed: entered(State::Failed),
            stopped: entered(State::Stopped),
        }
    }

    /// All metrics in the format of Prometheus.
    pub(crate) fn render(&self, seen: Seen) -> String {
        page::render(Arc::clone(&self.series), seen)
    }

    fn in_cluster(&self, name: Option<&ClusterName>, count: impl FnOnce(&Cluster)) {
        match name {
            Some(name) => self.series.cluster(name, count),
            None => count(&self.series.nowhere),
        }
    }
}

/// How often each of these happened, over all kinds and clusters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) submitted: u64,
    pub(crate) started: u64,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) stopped: u64,
}

impl Totals {
    /// The difference to earlier totals.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            submitted: self.submitted - before.submitted,
            started: self.started - before.started,
            succeeded: self.succeeded - before.succeeded,
            failed: self.failed - before.failed,
            stopped: self.stopped - before.stopped,
        }
    }
}

/// Counts one follower of a log.
pub(crate) struct Tailing(Arc<Series>);

impl Drop for Tailing {
    fn drop(&mut self) {
        self.0.tails.dec();
    }
}

/// Counts one request that waits for a leader.
pub(crate) struct Held(Arc<Series>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.held.dec();
    }
}

fn kind_of(job: &JobId, core: &Core) -> Kind {
    core.job(job).map_or(Kind::Job, |record| record.work.kind)
}
