//! The share of one cluster that our work has, whatever its snapshot shows.
//!
//! An entry is made when work is dispatched: a *promise*. The promise *settles* when the work is
//! seen running, and the first snapshot taken safely after that shows its use. So a burst cannot
//! land on one cluster because of stale facts. From then on the entry is a *claim*, until the
//! work leaves: a job that needs 16 CPUs and uses 3 at the moment still has 16.
//!
//! Work that a running job starts uses the claim of that job, and has none of its own.
//!
//! The memory of a driver appears in the facts later than the other resources of a job: Ray
//! measures it every 5 to 15 seconds.

use std::{cmp::Ordering, collections::BTreeMap, iter::repeat_n, sync::Arc};

use multicluster_types::{Origin, Quantity, Resources, Snapshot, Span, Timestamp, Work};

use crate::jobs::JobKey;

/// How old the memory figures in a snapshot may be.
const MEMORY_AGE: Span = Span::seconds(15);

static NOTHING: Resources = Resources::NONE;

/// The promises and claims on one cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    entries: BTreeMap<JobKey, Entry>,
    sums: Sums,
}

#[derive(Debug, Clone)]
struct Entry {
    work: Arc<Work>,
    settled_at: Option<Timestamp>,
    /// Do the facts show the use of this work?
    is_shown: bool,
    /// Do the facts show the memory of its driver, if it has one on the head node?
    driver_is_shown: bool,
}

/// The entries, added up.
#[derive(Debug, Clone, Default, PartialEq)]
struct Sums {
    /// Promised: not in the facts yet.
    promised: Resources,
    /// The part of the promises that running jobs have started.
    inside: Resources,
    /// The part of the promises that Ray sets aside at once; the rest is for tasks the jobs will start.
    held: Resources,
    /// In the facts: the demand of work from outside, and what Ray has set aside for any work.
    shown: Resources,
    set_aside: Resources,
    /// The promises that must fit on one node each, with how many there are of each demand.
    on_nodes: BTreeMap<OnNode, usize>,
    /// Drivers whose memory is not in the facts yet.
    drivers: u32,
    /// Does settled work have a claim?
    keeps_claims: bool,
}

/// What some work demands of a single node, the largest first.
#[derive(Debug, Clone)]
struct OnNode(Arc<Work>);

impl Ord for OnNode {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (&other.0, &self.0);
        a.on_one_node().cmp(b.on_one_node()).then_with(|| a.labels.cmp(&b.labels))
    }
}

impl PartialOrd for OnNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OnNode {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for OnNode {}

impl Sums {
    fn change(&mut self, entry: &Entry, change: fn(&mut Resources, &Resources)) {
        let work = &*entry.work;
        if entry.is_shown {
            change(&mut self.set_aside, work.on_one_node());
            if work.origin == Origin::Outside {
                change(&mut self.shown, &work.demand);
            }
        } else {
            change(&mut self.promised, &work.demand);
            change(&mut self.held, work.on_one_node());
            if work.origin == Origin::Inside {
                change(&mut self.inside, &work.demand);
            }
        }
    }

    fn add(&mut self, entry: &Entry) {
        self.change(entry, Resources::add);
        self.drivers += entry.unseen_driver();
        if let Some(demand) = entry.on_node() {
            *self.on_nodes.entry(demand).or_default() += 1;
        }
    }

    fn take_back(&mut self, entry: &Entry) {
        self.change(entry, Resources::subtract);
        self.drivers -= entry.unseen_driver();
        if let Some(demand) = entry.on_node()
            && let Some(count) = self.on_nodes.get_mut(&demand)
        {
            *count -= 1;
            if *count == 0 {
                self.on_nodes.remove(&demand);
            }
        }
    }

    fn is_saturated(&self) -> bool {
        let sums = [&self.promised, &self.inside, &self.held, &self.shown, &self.set_aside];
        sums.iter().any(|sum| sum.is_saturated())
    }
}

impl Entry {
    fn unseen_driver(&self) -> u32 {
        u32::from(!self.driver_is_shown && self.work.burdens_head())
    }

    /// What it is promised on one node.
    fn on_node(&self) -> Option<OnNode> {
        let is_promised = !self.is_shown && !self.work.on_one_node().is_empty();
        is_promised.then(|| OnNode(Arc::clone(&self.work)))
    }
}

impl Ledger {
    /// The sum of all promises.
    pub(crate) fn promised(&self) -> &Resources {
        &self.sums.promised
    }

    /// The demand of settled work, if that counts for as long as the work is there.
    pub(crate) fn claimed(&self) -> &Resources {
        if self.sums.keeps_claims { &self.sums.shown } else { &NOTHING }
    }

    /// The part of what the facts show as used that our work accounts for.
    pub(crate) fn ours(&self) -> Resources {
        let mut ours = self.sums.shown.clone();
        ours.raise_to(&self.sums.set_aside);
        ours
    }

    /// All that our work from outside demands, in the facts or not.
    pub(crate) fn demanded(&self) -> Resources {
        let mut all = self.sums.promised.clone();
        all.add(&self.sums.shown);
        all
    }

    /// Drivers whose memory is not in the facts yet.
    pub(crate) fn drivers(&self) -> u32 {
        self.sums.drivers
    }

    /// Sets whether settled work has a claim.
    pub(crate) fn keep_claims(&mut self, keep: bool) {
        self.sums.keeps_claims = keep;
    }

    /// How much of one resource, read by `get`, the work of a running job may still use: what Ray
    /// has not given out, and is not about to. The claims are there for this work.
    pub(crate) fn free_inside(&self, snapshot: &Snapshot, get: &dyn Fn(&Resources) -> Quantity) -> Quantity {
        get(&snapshot.total).minus(get(&snapshot.used)).minus(get(&self.sums.held))
    }

    /// What work from outside may still use: the total, less the larger of used and claimed, less
    /// the promises. Work started by running jobs uses their claims.
    pub(crate) fn free(&self, snapshot: &Snapshot) -> Resources {
        let sums = &self.sums;
        let mut taken = snapshot.used.clone();
        taken.add(&sums.inside);
        taken.raise_to(self.claimed());
        taken.add(&sums.promised);
        taken.subtract(&sums.inside);
        let mut free = snapshot.total.clone();
        free.subtract(&taken);
        free
    }

    /// Work that is promised room on one node, and is not in the facts yet: in an order that depends
    /// on the demands alone.
    pub(crate) fn promised_on_nodes(&self) -> impl Iterator<Item = &Work> {
        self.sums.on_nodes.iter().flat_map(|(demand, count)| repeat_n(&*demand.0, *count))
    }

    /// Promises room to a job. Work without a demand needs no entry, except for its driver.
    pub(crate) fn reserve(&mut self, job: JobKey, work: &Arc<Work>) {
        if !work.demand.is_empty() || work.burdens_head() {
            let entry =
                Entry { work: Arc::clone(work), settled_at: None, is_shown: false, driver_is_shown: false };
            self.sums.add(&entry);
            let before = self.entries.insert(job, entry);
            debug_assert!(before.is_none(), "a job is on one cluster once");
        }
    }

    /// The job was seen running at `at`.
    pub(crate) fn settle(&mut self, job: JobKey, at: Timestamp) {
        if let Some(entry) = self.entries.get_mut(&job) {
            entry.settled_at.get_or_insert(at);
        }
    }

    /// The job has left the cluster.
    pub(crate) fn release(&mut self, job: JobKey) {
        if let Some(entry) = self.entries.remove(&job) {
            self.forget(&entry);
        }
    }

    /// Removes the promises that a snapshot taken at `taken_at` must show. True if there were any.
    pub(crate) fn strike_out(&mut self, taken_at: Timestamp, margin: Span) -> bool {
        let mut any = false;
        let shows = |at: Option<Timestamp>, margin| at.is_some_and(|at| at + margin < taken_at);
        let saturated = self.sums.is_saturated();
        for entry in self.entries.values_mut() {
            let is_shown = entry.is_shown || shows(entry.settled_at, margin);
            let driver_is_shown = entry.driver_is_shown || shows(entry.settled_at, margin.max(MEMORY_AGE));
            if (is_shown, driver_is_shown) == (entry.is_shown, entry.driver_is_shown) {
                continue;
            }
            any |= is_shown != entry.is_shown || entry.work.burdens_head();
            self.sums.take_back(entry);
            (entry.is_shown, entry.driver_is_shown) = (is_shown, driver_is_shown);
            self.sums.add(entry);
        }
        if saturated {
            self.sums = self.sum();
        }
        any
    }

    fn forget(&mut self, entry: &Entry) {
        if self.sums.is_saturated() {
            // A saturated sum cannot be reduced by its parts.
            self.sums = self.sum();
        } else {
            self.sums.take_back(entry);
        }
    }

    fn sum(&self) -> Sums {
        let mut sums = Sums { keeps_claims: self.sums.keeps_claims, ..Sums::default() };
        self.entries.values().for_each(|entry| sums.add(entry));
        sums
    }

    /// Do the entries add up, and does each belong to a job on this cluster?
    pub(crate) fn check(&self, is_here: impl Fn(JobKey) -> bool) -> Result<(), String> {
        if let Some(job) = self.entries.keys().find(|job| !is_here(**job)) {
            return Err(format!("ledger holds room for {job:?}, which is not there"));
        }
        let sums = self.sum();
        if sums == self.sums {
            Ok(())
        } else {
            Err(format!("ledger says {:?}, its entries {sums:?}", self.sums))
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
        ledger.keep_claims(true);
        let margin = Span::seconds(3);
        ledger.reserve(JobKey(1), &work);
        assert!(!ledger.strike_out(Timestamp(60_000), margin), "not settled: no snapshot can show it");
        ledger.settle(JobKey(1), Timestamp(70_000));
        assert!(!ledger.strike_out(Timestamp(69_000), margin), "taken before it ran");
        assert!(!ledger.strike_out(Timestamp(73_000), margin), "taken within the margin");
        assert_eq!(*ledger.promised(), demand);
        assert!(ledger.strike_out(Timestamp(73_001), margin));
        assert!(ledger.promised().is_empty());
        assert_eq!(*ledger.claimed(), demand, "it still needs it");
        ledger.release(JobKey(1));
        assert!(ledger.claimed().is_empty());
    }

    #[test]
    fn a_driver_counts_until_its_memory_was_measured() {
        let mut ledger = Ledger::default();
        let cpus = Resources::from_amounts([("CPU", 16.0)]).unwrap();
        ledger.reserve(JobKey(1), &Arc::new(Work::job(&cpus, Resources::default())));
        ledger.settle(JobKey(1), Timestamp(70_000));
        assert!(ledger.strike_out(Timestamp(85_000), Span::seconds(3)));
        assert_eq!((ledger.drivers(), ledger.promised().is_empty()), (1, true), "its CPUs show earlier");
        assert!(ledger.strike_out(Timestamp(85_001), Span::seconds(3)));
        assert_eq!(ledger.drivers(), 0);
    }
}
