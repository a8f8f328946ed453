//! The one table of what is due when.

use std::collections::BTreeSet;

use multicluster_types::Timestamp;

use crate::{jobs::JobKey, pool::ClusterKey, queue::ClassKey};

/// What a moment is for. The owner decides, when it comes, whether it still means
/// anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A waiting job's backoff ends, or its caller is gone; a live one is due to be asked about.
    Job(JobKey),
    /// The head of this class may have waited too long.
    Starving(ClassKey),
    /// The next top-level submission is allowed.
    Spacing(ClusterKey),
    /// The latest snapshot may be too old.
    Freshness(ClusterKey),
    /// An open circuit may be probed.
    Breaker(ClusterKey),
    /// A policy that asks for the time may say something else.
    Policies,
    /// Ended jobs may be forgotten.
    Retention,
}

/// Moments in order. Each owner keeps the moment it asked for, so that it can
/// take it back.
#[derive(Debug, Default)]
pub(crate) struct Timers(BTreeSet<(Timestamp, Timer)>);

/// An owner's side of a timer.
pub(crate) type Due = Option<Timestamp>;

impl Timers {
    /// Asks to be woken at `at`, and no longer at what `due` said before.
    pub(crate) fn set(&mut self, due: &mut Due, timer: Timer, at: Timestamp) {
        self.clear(due, timer);
        self.0.insert((at, timer));
        *due = Some(at);
    }

    /// Takes a request back.
    pub(crate) fn clear(&mut self, due: &mut Due, timer: Timer) {
        if let Some(at) = due.take() {
            self.0.remove(&(at, timer));
        }
    }

    /// The earliest moment asked for.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.0.first().map(|(at, _)| *at)
    }

    /// The next timer that is due. Its owner must forget its [`Due`].
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
