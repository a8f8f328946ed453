//! What was promised on one cluster and is not yet in its snapshot.
//!
//! An entry is made when work is dispatched. It *settles* when the work is seen
//! running, and is struck out by the first snapshot taken safely after that:
//! from then on the snapshot itself shows the use. So a burst cannot land on one
//! cluster because the facts were stale.
//!
//! The memory of a driver is in the facts later than what a job reserved: Ray measures
//! it every 5 to 15 seconds.

use std::{collections::BTreeMap, sync::Arc};

use multicluster_types::{Resources, Span, Timestamp, Work};

use crate::jobs::JobKey;

/// How old the memory in a snapshot may be.
const MEMORY_AGE: Span = Span::seconds(15);

/// The promises on one cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    entries: BTreeMap<JobKey, Entry>,
    assumed: Resources,
    /// How many of them put a driver on the head node.
    drivers: u32,
}

#[derive(Debug, Clone)]
struct Entry {
    work: Arc<Work>,
    settled_at: Option<Timestamp>,
}

impl Ledger {
    /// The sum of all promises.
    pub(crate) fn assumed(&self) -> &Resources {
        &self.assumed
    }

    /// Drivers whose memory is not in the facts yet.
    pub(crate) fn drivers(&self) -> u32 {
        self.drivers
    }

    /// Promises room to a job. Work that asks for nothing needs no entry, but for its driver.
    pub(crate) fn reserve(&mut self, job: JobKey, work: &Arc<Work>) {
        if !work.demand.is_empty() || work.burdens_head() {
            let before = self.entries.insert(job, Entry { work: Arc::clone(work), settled_at: None });
            debug_assert!(before.is_none(), "a job is on one cluster once");
            self.assumed.add(&work.demand);
            self.drivers += u32::from(work.burdens_head());
        }
    }

    /// The job was seen running at `at`.
    pub(crate) fn settle(&mut self, job: JobKey, at: Timestamp) {
        if let Some(entry) = self.entries.get_mut(&job) {
            entry.settled_at.get_or_insert(at);
        }
    }

    /// The job is gone from the cluster.
    pub(crate) fn release(&mut self, job: JobKey) {
        if let Some(entry) = self.entries.remove(&job) {
            self.take_back(&entry.work);
        }
    }

    /// Strikes out what a snapshot taken at `taken_at` must show. True if anything was.
    pub(crate) fn strike_out(&mut self, taken_at: Timestamp, margin: Span) -> bool {
        let shown = |entry: &Entry| {
            let margin = if entry.work.burdens_head() { margin.max(MEMORY_AGE) } else { margin };
            entry.settled_at.is_some_and(|at| at + margin < taken_at)
        };
        let shown: Vec<_> =
            self.entries.iter().filter(|(_, entry)| shown(entry)).map(|(job, _)| *job).collect();
        shown.iter().for_each(|job| self.release(*job));
        !shown.is_empty()
    }

    fn take_back(&mut self, work: &Work) {
        self.drivers -= u32::from(work.burdens_head());
        if self.assumed.is_saturated() {
            // A sum beyond all bounds forgot its parts.
            self.assumed = self.sum();
        } else {
            self.assumed.subtract(&work.demand);
        }
    }

    fn sum(&self) -> Resources {
        let mut sum = Resources::default();
        self.entries.values().for_each(|entry| sum.add(&entry.work.demand));
        sum
    }

    /// Do the entries add up, and does each belong to a job on this cluster?
    pub(crate) fn check(&self, is_here: impl Fn(JobKey) -> bool) -> Result<(), String> {
        if let Some(job) = self.entries.keys().find(|job| !is_here(**job)) {
            return Err(format!("ledger holds room for {job:?}, which is not there"));
        }
        let drivers = self.entries.values().filter(|entry| entry.work.burdens_head()).count();
        if drivers != self.drivers as usize {
            return Err(format!("ledger says {} drivers, its entries {drivers}", self.drivers));
        }
        let sum = self.sum();
        if sum == self.assumed {
            Ok(())
        } else {
            Err(format!("ledger says {:?}, its entries {sum:?}", self.assumed))
        }
    }
}

#[cfg(test)]
mod tests {
    use multicluster_types::Kind;

    use super::*;

    #[test]
    fn a_promise_counts_until_a_snapshot_taken_after_it_settled() {
        let demand = Resources::from_amounts([("CPU", 4.0)]).unwrap();
        let work = Arc::new(Work { demand: demand.clone(), ..Work::new(Kind::Job) });
        let mut ledger = Ledger::default();
        let margin = Span::seconds(3);
        ledger.reserve(JobKey(1), &work);
        assert!(!ledger.strike_out(Timestamp(60_000), margin), "not settled: no snapshot can show it");
        ledger.settle(JobKey(1), Timestamp(70_000));
        assert!(!ledger.strike_out(Timestamp(69_000), margin), "taken before it ran");
        assert!(!ledger.strike_out(Timestamp(73_000), margin), "taken within the margin");
        assert_eq!(*ledger.assumed(), demand);
        assert!(ledger.strike_out(Timestamp(73_001), margin));
        assert!(ledger.assumed().is_empty());
    }

    #[test]
    fn a_driver_counts_until_its_memory_was_measured() {
        let mut ledger = Ledger::default();
        ledger.reserve(JobKey(1), &Arc::new(Work::new(Kind::Job)));
        ledger.settle(JobKey(1), Timestamp(70_000));
        assert!(!ledger.strike_out(Timestamp(85_000), Span::seconds(3)));
        assert_eq!(ledger.drivers(), 1);
        assert!(ledger.strike_out(Timestamp(85_001), Span::seconds(3)));
        assert_eq!(ledger.drivers(), 0);
    }
}
