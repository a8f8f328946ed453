//! How long work is expected to run, by how long the last work of its owner ran: what an owner
//! submits now resembles what the owner submitted a moment ago more than anything else.
//!
//! The geometric mean of a few runs of the same demand orders jobs best among the ways that were
//! compared (`docs/scheduling-quality.md`): durations differ by orders of magnitude, and one run of a
//! day says little about the next.

use std::collections::{BTreeMap, VecDeque};

use multicluster_types::{Owner, Resources, Span, Work};

/// How many of the last runs count.
const LAST: usize = 5;
/// How many demands of one owner are distinguished. One more, and all are forgotten.
const DEMANDS: usize = 64;

/// The last runs of each owner.
#[derive(Debug, Default)]
pub(crate) struct Runs(BTreeMap<Option<Owner>, OfOwner>);

#[derive(Debug, Default)]
struct OfOwner {
    all: Last,
    by_demand: BTreeMap<Resources, Last>,
}

/// The logarithms of the last runs.
#[derive(Debug, Default)]
struct Last(VecDeque<u64>);

impl Last {
    fn note(&mut self, logarithm: u64) {
        if self.0.len() == LAST {
            self.0.pop_front();
        }
        self.0.push_back(logarithm);
    }

    fn mean(&self) -> Option<u64> {
        let count = u64::try_from(self.0.len()).ok().filter(|count| *count > 0)?;
        Some(self.0.iter().sum::<u64>() / count)
    }
}

impl Runs {
    /// Work ended after it had run for so long.
    pub(crate) fn note(&mut self, work: &Work, ran: Span) {
        let owner = self.0.entry(work.owner.clone()).or_default();
        if owner.by_demand.len() >= DEMANDS && !owner.by_demand.contains_key(&work.demand) {
            owner.by_demand.clear();
        }
        owner.all.note(logarithm(ran));
        owner.by_demand.entry(work.demand.clone()).or_default().note(logarithm(ran));
    }

    /// The mean of the last runs of its owner with the same demand, or else with any. Work of an owner
    /// without runs is expected to be short, until it is not.
    pub(crate) fn expected(&self, work: &Work) -> Span {
        let owner = self.0.get(&work.owner);
        let same = |owner: &OfOwner| owner.by_demand.get(&work.demand).and_then(Last::mean);
        let mean = owner.and_then(|owner| same(owner).or_else(|| owner.all.mean()));
        mean.map_or(Span::ZERO, exponential)
    }
}

/// The binary logarithm of a duration in ms, in 1/2^16, straight between powers of two. Integers
/// only: a replay on another machine gives the same order.
fn logarithm(span: Span) -> u64 {
    let value = span.0.saturating_add(1);
    let digits = u64::from(value.ilog2());
    let rest = u128::from(value - (1 << digits)) << 16;
    (digits << 16) + u64::try_from(rest >> digits).unwrap_or(0)
}

/// The opposite of [`logarithm`].
fn exponential(logarithm: u64) -> Span {
    let (digits, rest) = ((logarithm >> 16).min(62), logarithm & 0xffff);
    let value = (1_u128 << digits) + ((u128::from(rest) << digits) >> 16);
    Span(u64::try_from(value - 1).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use multicluster_types::Kind;
    use proptest::prelude::*;

    use super::*;

    fn work(owner: &str, cpus: f64) -> Work {
        let demand = Resources::from_amounts([("CPU", cpus)]).unwrap();
        Work { demand, owner: Owner::new(owner).ok(), ..Work::new(Kind::Job) }
    }

    #[test]
    fn the_last_five_runs_of_the_same_demand_count_and_else_those_of_the_owner() {
        let mut runs = Runs::default();
        assert_eq!(runs.expected(&work("ann", 1.0)), Span::ZERO, "unknown work counts as short");
        for seconds in [100_000, 100_000, 8, 8, 8, 8, 8] {
            runs.note(&work("ann", 1.0), Span::seconds(seconds));
        }
        let expected = runs.expected(&work("ann", 1.0)).as_seconds();
        assert!((expected - 8.0).abs() < 0.01, "{expected}");
        runs.note(&work("ann", 4.0), Span::seconds(4000));
        assert!(runs.expected(&work("ann", 4.0)).as_seconds() > 3999.0);
        let other = runs.expected(&work("ann", 2.0)).as_seconds();
        assert!(other > 8.0 && other < 100.0, "a mean of both: {other}");
        assert_eq!(runs.expected(&work("bob", 1.0)), Span::ZERO);
    }

    #[test]
    fn an_owner_with_ever_new_demands_takes_bounded_memory() {
        let mut runs = Runs::default();
        for n in 0..1000 {
            runs.note(&work("ann", f64::from(n)), Span::seconds(10));
        }
        assert!(runs.0.values().all(|owner| owner.by_demand.len() <= DEMANDS));
        assert!(runs.expected(&work("ann", 5000.0)).as_seconds() > 9.9, "a new demand is not unknown work");
    }

    proptest! {
        #[test]
        fn a_logarithm_keeps_the_order_and_can_be_undone(a in 0..u64::MAX / 4, b in 0..u64::MAX / 4) {
            prop_assert!((a <= b) || (logarithm(Span(a)) >= logarithm(Span(b))));
            let back = exponential(logarithm(Span(a))).0;
            prop_assert!(back.abs_diff(a) <= a / 10_000 + 1, "{a} {back}");
        }
    }
}
