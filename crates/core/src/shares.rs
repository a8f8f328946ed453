//! Who has had how much of the pool: one number for each owner or group, and whose turn it is.
//!
//! What a sharer *holds* is the demand of its live work. Its *average* is what it held over time,
//! where time that is one half-life ago counts half: `average' = held + (average - held) * 2^-(t/h)`.
//! That is exact for as long as nothing starts or ends, so it is advanced only then, and read at any
//! moment in between. Integers only: a replay on another machine gives the same order.
//!
//! The next one is the sharer with the least claim: what it will have had for its weight if its head
//! is placed and it goes on like that for a while, as a share of the pool, of the resource of which
//! that is most. A placement counts at once, because it is held at once.

use std::collections::{BTreeMap, BTreeSet};

use multicluster_types::{
    Dimension, Origin, Owner, Quantity, Reason, Resources, Share, ShareTerms, Shares, Span, Timestamp, Work,
};

use crate::record::UsageRecord;

/// A sharer's place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SharerKey(u32);

/// Amounts of what every pool has, in 1/10,000. Wide, so that no sum of demands is cut off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Amounts {
    cpu: u128,
    gpu: u128,
    memory: u128,
}

impl Amounts {
    fn of(resources: &Resources) -> Self {
        let Resources { cpu, gpu, memory, .. } = resources;
        Self { cpu: cpu.parts().into(), gpu: gpu.parts().into(), memory: memory.parts().into() }
    }

    /// What this work holds while it is on a cluster. Work that a running job starts uses what its
    /// parent holds. Work that does not say what it needs counts as one CPU: it is not free.
    fn held_by(work: &Work) -> Self {
        if work.origin == Origin::Inside {
            return Self::default();
        }
        match Self::of(&work.demand) {
            nothing if nothing == Self::default() => Self { cpu: ONE_CPU, ..nothing },
            amounts => amounts,
        }
    }

    fn zip(self, other: Self, each: impl Fn(u128, u128) -> u128) -> Self {
        Self {
            cpu: each(self.cpu, other.cpu),
            gpu: each(self.gpu, other.gpu),
            memory: each(self.memory, other.memory),
        }
    }

    fn plus(self, other: Self) -> Self {
        self.zip(other, u128::saturating_add)
    }

    fn minus(self, other: Self) -> Self {
        self.zip(other, u128::saturating_sub)
    }

    fn times(self, factor: u128) -> Self {
        self.zip(self, |amount, _| amount.saturating_mul(factor))
    }

    /// No more than what a stored number can hold.
    fn capped(self) -> Self {
        self.zip(self, |amount, _| amount.min(u64::MAX.into()))
    }

    /// The largest share of these totals, in 1/2^32.
    fn dominant(self, total: Self) -> u64 {
        let share = |part: u128, whole: u128| match whole {
            0 => 0,
            whole => u64::try_from((part.min(1 << 90) << 32) / whole).unwrap_or(u64::MAX),
        };
        share(self.cpu, total.cpu).max(share(self.gpu, total.gpu)).max(share(self.memory, total.memory))
    }

    /// Too little to count: less than a hundredth of a CPU or GPU, and than 16 MiB.
    fn is_negligible(self) -> bool {
        self.cpu < 100 && self.gpu < 100 && self.memory < Quantity::mebibytes(16).parts().into()
    }
}

fn quantity(parts: u128) -> Quantity {
    Quantity::from_parts(u64::try_from(parts).unwrap_or(u64::MAX))
}

const ONE_CPU: u128 = 10_000;

/// How much more the average counts than what is held now. A sharer that had too much for long has
/// made up for it after one half-life: with less weight it would take several, with more it would
/// get nothing at all meanwhile.
const PAST: u128 = 8;

/// One owner, or one group of owners, or everybody if there are no owners.
#[derive(Debug, Clone)]
pub(crate) struct Sharer {
    pub(crate) name: Option<Owner>,
    pub(crate) terms: ShareTerms,
    pub(crate) queued: u32,
    pub(crate) live: u32,
    held: Amounts,
    /// At `at`; since then it holds what it holds now.
    average: Amounts,
    at: Timestamp,
    /// Is there a record of it?
    stored: bool,
}

impl Sharer {
    pub(crate) fn new(name: Option<Owner>, now: Timestamp, shares: &Shares) -> Self {
        let terms = name.as_ref().and_then(|name| shares.terms(name)).cloned().unwrap_or_default();
        let (held, average) = (Amounts::default(), Amounts::default());
        Self { name, terms, queued: 0, live: 0, held, average, at: now, stored: false }
    }

    /// What its live work holds.
    pub(crate) fn held(&self) -> Resources {
        let mut held = Resources::NONE;
        (held.cpu, held.gpu, held.memory) =
            (quantity(self.held.cpu), quantity(self.held.gpu), quantity(self.held.memory));
        held
    }

    /// Does it have or want some of the pool?
    fn counts(&self) -> bool {
        self.queued > 0 || self.live > 0
    }

    fn average_at(&self, now: Timestamp, half_life: Span) -> Amounts {
        let rest = half_to_the(now.since(self.at).0, half_life.0);
        self.average.zip(self.held.capped(), |average, held| {
            // Rounded down, towards what it holds: an average ends at nothing.
            let gap = (average.abs_diff(held) * u128::from(rest)) >> 62;
            if average > held { held + gap } else { held - gap }
        })
    }

    fn hold(&mut self, held: Amounts, now: Timestamp, half_life: Span) {
        (self.average, self.at) = (self.average_at(now, half_life), now.max(self.at));
        self.held = held;
    }

    /// Does it hold what this work of it makes?
    pub(crate) fn check(&self, queued: u32, live: &[&Work]) -> Result<(), String> {
        let held = live.iter().map(|work| Amounts::held_by(work)).fold(Amounts::default(), Amounts::plus);
        let is = (queued, live.len(), held);
        let was = (self.queued, self.live as usize, self.held);
        if is == was { Ok(()) } else { Err(format!("has {is:?}, was taken for {was:?}")) }
    }

    /// Its stored form. Work without an owner competes with nobody, and has none.
    fn record(&self) -> Option<UsageRecord> {
        let owner = self.name.clone().filter(|_| self.stored)?;
        let part = |amount: u128| u64::try_from(amount).unwrap_or(u64::MAX);
        let Amounts { cpu, gpu, memory } = self.average;
        Some(UsageRecord { owner, cpu: part(cpu), gpu: part(gpu), memory: part(memory), at: self.at })
    }

    /// The first resource of which this work would take it beyond its limit, with what it holds.
    pub(crate) fn beyond_limit(&self, work: &Work) -> Option<Reason> {
        self.limited(work, self.held)
    }

    /// The first resource of which this work alone is beyond its limit.
    pub(crate) fn never(&self, work: &Work) -> Option<Reason> {
        self.limited(work, Amounts::default())
    }

    fn limited(&self, work: &Work, held: Amounts) -> Option<Reason> {
        let (limit, adds) = (&self.terms.limit, Amounts::held_by(work));
        let over = |dimension: Dimension, held: u128, adds: u128| {
            let most = limit.get(&dimension);
            let is_over = !most.is_zero() && adds > 0 && held.saturating_add(adds) > most.parts().into();
            is_over.then(|| Reason::OwnerLimit {
                owner: self.name.as_ref().map_or("", Owner::as_str).into(),
                demand: quantity(adds),
                held: quantity(held),
                limit: most,
                resource: dimension,
            })
        };
        over(Dimension::Cpu, held.cpu, adds.cpu)
            .or_else(|| over(Dimension::Gpu, held.gpu, adds.gpu))
            .or_else(|| over(Dimension::Memory, held.memory, adds.memory))
    }
}

/// All sharers.
#[derive(Debug, Default)]
pub(crate) struct Sharers {
    table: Vec<Sharer>,
    by_name: BTreeMap<Option<Owner>, SharerKey>,
    /// What all clusters have.
    total: Amounts,
    /// How many have queued work.
    waiting: u32,
    /// Whose record must be written.
    changed: BTreeSet<SharerKey>,
}

impl Sharers {
    /// The sharer that an owner's work counts for.
    pub(crate) fn of(&mut self, owner: Option<&Owner>, now: Timestamp, shares: &Shares) -> SharerKey {
        let name = owner.map(|owner| shares.sharer_of(owner).clone());
        self.find_or_add(name, now, shares)
    }

    fn find_or_add(&mut self, name: Option<Owner>, now: Timestamp, shares: &Shares) -> SharerKey {
        if let Some(key) = self.by_name.get(&name) {
            return *key;
        }
        let key = self.table.len();
        let key = SharerKey(u32::try_from(key).expect("fewer than 2^32 sharers fit in memory"));
        self.table.push(Sharer::new(name.clone(), now, shares));
        self.by_name.insert(name, key);
        key
    }

    /// The sharer that an owner's work counts for, if it had any so far.
    pub(crate) fn find(&self, owner: Option<&Owner>, shares: &Shares) -> Option<&Sharer> {
        let name = owner.map(|owner| shares.sharer_of(owner).clone());
        self.by_name.get(&name).map(|key| &self[*key])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SharerKey, &Sharer)> {
        self.by_name.values().map(|key| (*key, &self[*key]))
    }

    /// What all clusters have together.
    pub(crate) fn set_total<'a>(&mut self, totals: impl Iterator<Item = &'a Resources>) {
        self.total = totals.map(Amounts::of).fold(Amounts::default(), Amounts::plus);
    }

    pub(crate) fn enter_queue(&mut self, key: SharerKey) {
        self[key].queued += 1;
        self.waiting += u32::from(self[key].queued == 1);
    }

    pub(crate) fn leave_queue(&mut self, key: SharerKey) {
        self[key].queued -= 1;
        self.waiting -= u32::from(self[key].queued == 0);
    }

    /// Work of this sharer is on a cluster from now on.
    pub(crate) fn start(&mut self, key: SharerKey, work: &Work, now: Timestamp, half_life: Span) {
        self[key].live += 1;
        self.change(key, |held| held.plus(Amounts::held_by(work)), now, half_life);
    }

    /// Work of this sharer has left its cluster.
    pub(crate) fn end(&mut self, key: SharerKey, work: &Work, now: Timestamp, half_life: Span) {
        self[key].live -= 1;
        self.change(key, |held| held.minus(Amounts::held_by(work)), now, half_life);
    }

    fn change(
        &mut self,
        key: SharerKey,
        change: impl Fn(Amounts) -> Amounts,
        now: Timestamp,
        half_life: Span,
    ) {
        let held = change(self[key].held);
        if held != self[key].held {
            self[key].hold(held, now, half_life);
            self.changed.insert(key);
        }
    }

    /// Do several sharers have queued work? With one alone there is nothing to decide.
    pub(crate) fn compete(&self) -> bool {
        self.waiting > 1
    }

    /// What this sharer will have had for its weight if this work is placed: the least goes first.
    pub(crate) fn claim(&self, key: SharerKey, work: &Work, now: Timestamp, half_life: Span) -> u64 {
        let sharer = &self[key];
        let past = sharer.average_at(now, half_life).times(PAST);
        let share =
            u128::from(past.plus(sharer.held).plus(Amounts::held_by(work)).dominant(self.total)) * 1_000;
        u64::try_from(share / u128::from(sharer.terms.weight.parts())).unwrap_or(u64::MAX)
    }

    /// The share of the pool that this sharer had on average, and that it has now.
    pub(crate) fn shares(&self, key: SharerKey, now: Timestamp, half_life: Span) -> (Share, Share) {
        let sharer = &self[key];
        let share = |amounts: Amounts| Share::of(amounts.dominant(self.total), 1 << 32);
        (share(sharer.average_at(now, half_life)), share(sharer.held))
    }

    /// Would it still have no more than its share, with this work?
    pub(crate) fn stays_below(&self, key: SharerKey, work: &Work) -> bool {
        self.holds(key, |held| held.plus(Amounts::held_by(work))) <= self.entitled_parts(key)
    }

    /// Would it still have its share, without this work?
    pub(crate) fn stays_at<'a>(&self, key: SharerKey, without: impl Iterator<Item = &'a Work>) -> bool {
        let given = without.fold(Amounts::default(), |sum, work| sum.plus(Amounts::held_by(work)));
        self.holds(key, |held| held.minus(given)) >= self.entitled_parts(key)
    }

    /// By how much it has more than its share; negative if it has less.
    pub(crate) fn over_share(&self, key: SharerKey) -> i128 {
        i128::from(self.holds(key, |held| held)) - i128::from(self.entitled_parts(key))
    }

    fn holds(&self, key: SharerKey, change: impl Fn(Amounts) -> Amounts) -> u64 {
        change(self[key].held).dominant(self.total)
    }

    /// The part of the pool that its weight stands for, in 1/2^32.
    fn entitled_parts(&self, key: SharerKey) -> u64 {
        let (mine, all) = self.weight_among(key, self.weights());
        (mine << 32) / all.max(1)
    }

    /// The part of the pool that its weight stands for, among all that have or want some of it.
    /// `weights` are [`Sharers::weights`].
    pub(crate) fn entitled(&self, key: SharerKey, weights: u64) -> Share {
        let (mine, all) = self.weight_among(key, weights);
        Share::of(mine, all)
    }

    /// Its weight, and that of all that have or want some of the pool, itself included.
    fn weight_among(&self, key: SharerKey, weights: u64) -> (u64, u64) {
        let sharer = &self[key];
        let mine = u64::from(sharer.terms.weight.parts());
        (mine, weights + if sharer.counts() { 0 } else { mine })
    }

    /// The weights of all that have or want some of the pool.
    pub(crate) fn weights(&self) -> u64 {
        let sharers = self.iter().map(|(_, sharer)| sharer).filter(|sharer| sharer.counts());
        sharers.map(|sharer| u64::from(sharer.terms.weight.parts())).sum()
    }

    /// The records that changed since the last call.
    pub(crate) fn take_changes(&mut self) -> Vec<UsageRecord> {
        let changed = std::mem::take(&mut self.changed);
        let record = |key: SharerKey| {
            self[key].stored = true;
            self[key].record()
        };
        changed.into_iter().filter_map(record).collect()
    }

    /// The stored form of every sharer that has one.
    pub(crate) fn records(&self) -> impl Iterator<Item = UsageRecord> {
        self.iter().filter_map(|(_, sharer)| sharer.record())
    }

    /// Goes on from the stored records. The live work has been entered: it held what it holds
    /// since then.
    pub(crate) fn restore(
        &mut self,
        records: impl Iterator<Item = UsageRecord>,
        now: Timestamp,
        shares: &Shares,
    ) {
        self.changed.clear();
        for UsageRecord { owner, cpu, gpu, memory, at } in records {
            let key = self.find_or_add(Some(owner), now, shares);
            let average = Amounts { cpu: cpu.into(), gpu: gpu.into(), memory: memory.into() };
            (self[key].average, self[key].at, self[key].stored) = (average, at, true);
        }
    }

    /// Drops the records of sharers that have nothing, and had next to nothing; returns whose.
    pub(crate) fn forget_idle(&mut self, now: Timestamp, half_life: Span) -> Vec<Owner> {
        let is_idle = |sharer: &Sharer| {
            sharer.stored && sharer.live == 0 && sharer.average_at(now, half_life).is_negligible()
        };
        let idle = self.table.iter_mut().filter(|sharer| is_idle(sharer));
        let forget = |sharer: &mut Sharer| {
            (sharer.average, sharer.stored) = (Amounts::default(), false);
            sharer.name.clone()
        };
        idle.filter_map(forget).collect()
    }

    /// Other terms are in force: what every sharer had stays, and all work is entered again.
    pub(crate) fn start_again(&mut self, now: Timestamp, half_life_before: Span, shares: &Shares) {
        for (key, sharer) in (0..).map(SharerKey).zip(&mut self.table) {
            let average = sharer.average_at(now, half_life_before);
            *sharer =
                Sharer { average, stored: sharer.stored, ..Sharer::new(sharer.name.clone(), now, shares) };
            if sharer.stored {
                self.changed.insert(key);
            }
        }
        self.waiting = 0;
    }
}

impl std::ops::Index<SharerKey> for Sharers {
    type Output = Sharer;
    fn index(&self, key: SharerKey) -> &Sharer {
        &self.table[key.0 as usize]
    }
}

impl std::ops::IndexMut<SharerKey> for Sharers {
    fn index_mut(&mut self, key: SharerKey) -> &mut Sharer {
        &mut self.table[key.0 as usize]
    }
}

/// How many binary digits of an exponent count.
const DIGITS: usize = 24;

/// 2^-(1/2), 2^-(1/4), … in 1/2^62.
const ROOTS: [u64; DIGITS] = {
    let mut roots = [0; DIGITS];
    let (mut at, mut root) = (0, 1_u64 << 61);
    while at < DIGITS {
        #[expect(clippy::cast_possible_truncation, reason = "the root of less than 2^124 fits 62 bits")]
        let next = ((root as u128) << 62).isqrt() as u64;
        root = next;
        roots[at] = root;
        at += 1;
    }
    roots
};

/// 2^-(elapsed / half_life), in 1/2^62.
fn half_to_the(elapsed: u64, half_life: u64) -> u64 {
    let half_life = half_life.max(1);
    let (whole, mut rest) = (elapsed / half_life, u128::from(elapsed % half_life));
    if whole >= 62 {
        return 0;
    }
    let mut value = 1_u64 << 62;
    for root in ROOTS {
        rest *= 2;
        if rest >= u128::from(half_life) {
            rest -= u128::from(half_life);
            value = u64::try_from((u128::from(value) * u128::from(root)) >> 62).unwrap_or(value);
        }
    }
    value >> whole
}

#[cfg(test)]
mod tests {
    use multicluster_types::Kind;
    use proptest::prelude::*;

    use super::*;

    const HALF_LIFE: Span = Span::minutes(60);

    fn cpus(cpus: f64) -> Work {
        Work { demand: Resources::from_amounts([("CPU", cpus)]).unwrap(), ..Work::new(Kind::Job) }
    }

    fn owner(name: &str) -> Owner {
        Owner::new(name).unwrap()
    }

    fn pool(cpus: f64) -> Sharers {
        let mut sharers = Sharers::default();
        sharers.set_total([Resources::from_amounts([("CPU", cpus)]).unwrap()].iter());
        sharers
    }

    #[test]
    fn what_was_held_one_half_life_ago_counts_half() {
        let (mut sharers, shares) = (pool(8.0), Shares::default());
        let ann = sharers.of(Some(&owner("ann")), Timestamp(0), &shares);
        let had = |sharers: &Sharers, minutes: u64| {
            sharers.shares(ann, Timestamp(Span::minutes(minutes).0), HALF_LIFE).0.as_f64()
        };
        sharers.start(ann, &cpus(4.0), Timestamp(0), HALF_LIFE);
        assert_eq!(had(&sharers, 0), 0.0);
        assert_eq!((had(&sharers, 60), had(&sharers, 120)), (0.25, 0.375), "on the way to a half");
        sharers.end(ann, &cpus(4.0), Timestamp(Span::minutes(120).0), HALF_LIFE);
        assert_eq!((had(&sharers, 180), had(&sharers, 100_000)), (0.1875, 0.0));
    }

    #[test]
    fn a_placement_counts_at_once_and_a_weight_divides() {
        let (mut sharers, shares) = (pool(8.0), Shares::default());
        let [ann, bob] = ["ann", "bob"].map(|name| sharers.of(Some(&owner(name)), Timestamp(0), &shares));
        let claim = |sharers: &Sharers, key| sharers.claim(key, &cpus(1.0), Timestamp(0), HALF_LIFE);
        assert_eq!(claim(&sharers, ann), claim(&sharers, bob));
        sharers.start(ann, &cpus(1.0), Timestamp(0), HALF_LIFE);
        assert_eq!(claim(&sharers, ann), 2 * claim(&sharers, bob));
        sharers[ann].terms.weight = multicluster_types::ShareWeight::new(2.0).unwrap();
        assert_eq!(claim(&sharers, ann), claim(&sharers, bob));
    }

    #[test]
    fn work_that_says_nothing_counts_as_one_cpu_and_inside_work_as_nothing() {
        assert_eq!(Amounts::held_by(&Work::new(Kind::Job)), Amounts::held_by(&cpus(1.0)));
        let inside = Work { origin: Origin::Inside, ..cpus(4.0) };
        assert_eq!(Amounts::held_by(&inside), Amounts::default());
    }

    #[test]
    fn a_restart_changes_no_average() {
        let (mut sharers, shares) = (pool(8.0), Shares::new(HALF_LIFE, BTreeMap::new()).unwrap());
        let ann = sharers.of(Some(&owner("ann")), Timestamp(0), &shares);
        sharers.start(ann, &cpus(4.0), Timestamp(5_000), HALF_LIFE);
        let records = sharers.take_changes();
        let mut again = pool(8.0);
        let key = again.of(Some(&owner("ann")), Timestamp(9_000), &shares);
        again.start(key, &cpus(4.0), Timestamp(9_000), HALF_LIFE);
        again.restore(records.into_iter(), Timestamp(9_000), &shares);
        let at = Timestamp(3_600_000);
        assert_eq!(again[key].average_at(at, HALF_LIFE), sharers[ann].average_at(at, HALF_LIFE));
    }

    proptest! {
        #[test]
        fn a_half_to_any_power_is_right(elapsed in 0..10_000_000_u64, half_life in 1..10_000_000_u64) {
            let exact = (-(elapsed as f64) / half_life as f64).exp2();
            let found = half_to_the(elapsed, half_life) as f64 / (1_u64 << 62) as f64;
            prop_assert!((found - exact).abs() < 1e-6, "{found} {exact}");
        }

        #[test]
        fn an_average_is_between_what_was_held(held in proptest::collection::vec((0..100_u32, 1..10_000_000_u64), 1..20)) {
            let (mut sharers, shares) = (pool(100.0), Shares::default());
            let ann = sharers.of(Some(&owner("ann")), Timestamp(0), &shares);
            let (mut now, mut most) = (0, 0);
            for (cpus, span) in held {
                let amounts = Amounts { cpu: u128::from(cpus) * ONE_CPU, ..Amounts::default() };
                sharers.change(ann, |_| amounts, Timestamp(now), HALF_LIFE);
                (now, most) = (now + span, most.max(amounts.cpu));
                prop_assert!(sharers[ann].average_at(Timestamp(now), HALF_LIFE).cpu <= most);
            }
        }
    }
}
