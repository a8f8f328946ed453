//! The table of all timers.

use std::collections::BTreeSet;

use multicluster_types::Timestamp;

use crate::{jobs::JobKey, pool::ClusterKey, queue::ClassKey};

/// What a timer is for. When it goes off, its owner decides whether it still matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A queued job's backoff ends, or its caller is gone; the cluster of a live job is to be asked.
    Job(JobKey),
    /// The head of this class may have waited too long.
    Starving(ClassKey),
    /// The next top-level submission is allowed.
    Spacing(ClusterKey),
    /// The latest snapshot may be too old.
    Freshness(ClusterKey),
    /// An open circuit may be probed.
    Breaker(ClusterKey),
    /// A cluster that was asked to grow should have, or may be asked again.
    Growth(ClusterKey),
    /// A policy that uses the time may decide differently.
    Policies,
    /// A job may be stopped for others from now on, or need not be waited for any longer.
    Preemption,
    /// Ended jobs may be forgotten.
    Retention,
}

/// Timers in order of time. Each owner keeps the time of its timer, so that it can cancel the timer.
#[derive(Debug, Default)]
pub(crate) struct Timers(BTreeSet<(Timestamp, Timer)>);

/// The owner's copy of the time of a timer.
pub(crate) type Due = Option<Timestamp>;

impl Timers {
    /// Sets a timer for `at`, and cancels the one that `due` holds.
    pub(crate) fn set(&mut self, due: &mut Due, timer: Timer, at: Timestamp) {
        self.clear(due, timer);
        self.0.insert((at, timer));
        *due = Some(at);
    }

    /// Cancels a timer.
    pub(crate) fn clear(&mut self, due: &mut Due, timer: Timer) {
        if let Some(at) = due.take() {
            self.0.remove(&(at, timer));
        }
    }

    /// The time of the earliest timer.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.0.first().map(|(at, _)| *at)
    }

    /// The next timer that is due. Its owner must clear its [`Due`].
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        self.0.pop_first().map(|(_, timer)| timer)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
