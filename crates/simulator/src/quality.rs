//! How good a schedule is: the same measures for every policy, so that they can be compared.

use std::collections::BTreeMap;

use multicluster_types::{Owner, Span};
use serde::Serialize;

use crate::{
    Pool, Utilization, Workload,
    engine::{Fate, Trace, moment},
    fleet::METERED,
};

/// Shorter runs count as this long in the slowdown: it does not matter that a job of a second took ten.
const SHORT: Span = Span::seconds(10);

/// The measures of one run. All times are in seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Quality {
    /// From arrival to running, for all work that ran.
    pub wait_s: Percentiles,
    /// Bounded slowdown: (wait + duration) / duration, with durations below 10 s counted as 10 s.
    pub slowdown: Percentiles,
    /// Mean share of the whole pool in use, from the first arrival to the last end.
    pub utilization: Utilization,
    /// Each owner, by name. Work without an owner is not in here.
    pub owners: Vec<OwnerQuality>,
    /// The owner with the largest mean slowdown.
    pub worst_owner: Option<Owner>,
    /// Jain's fairness of the owners' mean slowdowns: 1 if all are equal, 1/n if one of n has it all.
    pub fairness: f64,
    /// Run time that was lost because work was stopped for other work.
    pub preempted_s: f64,
}

/// The measures of one owner's work.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OwnerQuality {
    /// Who.
    pub owner: Owner,
    /// How many jobs ran.
    pub jobs: u64,
    /// As in [`Quality`].
    pub wait_s: Percentiles,
    /// As in [`Quality`].
    pub slowdown: Percentiles,
}

/// Five numbers that describe a distribution. Percentiles are values that occur (nearest rank).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// Arithmetic mean; 0 for an empty set.
    pub mean: f64,
    /// Half are at most this.
    pub p50: f64,
    /// 95 % are at most this.
    pub p95: f64,
    /// 99 % are at most this.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

#[derive(Default)]
struct Samples {
    waits: Vec<f64>,
    slowdowns: Vec<f64>,
}

impl Quality {
    pub(crate) fn of(pool: &Pool, workload: &Workload, trace: &Trace, makespan: Span) -> Self {
        let mut all = Samples::default();
        let mut by_owner: BTreeMap<&Owner, Samples> = BTreeMap::new();
        for (arrival, fate) in workload.arrivals.iter().zip(&trace.fates) {
            let Fate::Done { started, .. } = *fate else { continue };
            let wait = started.since(moment(arrival.at)).as_seconds();
            let slowdown = bounded_slowdown(wait, arrival.duration.as_seconds());
            all.add(wait, slowdown);
            if let Some(owner) = &arrival.work.owner {
                by_owner.entry(owner).or_default().add(wait, slowdown);
            }
        }
        let owners: Vec<_> = by_owner.into_iter().map(|(owner, samples)| samples.of(owner.clone())).collect();
        let worst = owners.iter().max_by(|a, b| a.slowdown.mean.total_cmp(&b.slowdown.mean));
        Self {
            wait_s: Percentiles::of(all.waits),
            slowdown: Percentiles::of(all.slowdowns),
            utilization: utilization(pool, trace, makespan),
            worst_owner: worst.map(|worst| worst.owner.clone()),
            fairness: jain(owners.iter().map(|owner| owner.slowdown.mean)),
            owners,
            preempted_s: trace.lost.as_seconds(),
        }
    }

    /// The measures of the owner that was served worst.
    #[must_use]
    pub fn worst(&self) -> Option<&OwnerQuality> {
        self.owners.iter().find(|owner| Some(&owner.owner) == self.worst_owner.as_ref())
    }
}

impl Samples {
    fn add(&mut self, wait: f64, slowdown: f64) {
        self.waits.push(wait);
        self.slowdowns.push(slowdown);
    }

    fn of(self, owner: Owner) -> OwnerQuality {
        OwnerQuality {
            owner,
            jobs: self.waits.len() as u64,
            wait_s: Percentiles::of(self.waits),
            slowdown: Percentiles::of(self.slowdowns),
        }
    }
}

impl Percentiles {
    /// Of any numbers, in any order.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let Some(&max) = values.last() else { return Self::default() };
        // Nearest rank: the smallest value that `percent` of all do not exceed.
        let at = |percent: usize| values[(values.len() * percent).div_ceil(100).saturating_sub(1)];
        #[expect(clippy::cast_precision_loss, reason = "at most a few million")]
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let [mean, p50, p95, p99, max] = [mean, at(50), at(95), at(99), max].map(thousandths);
        Self { mean, p50, p95, p99, max }
    }
}

/// How much longer it took than on an empty pool.
pub(crate) fn bounded_slowdown(wait: f64, duration: f64) -> f64 {
    ((wait + duration) / duration.max(SHORT.as_seconds())).max(1.0)
}

/// (Σx)² / (n Σx²); 1 for an empty set.
fn jain(values: impl Iterator<Item = f64>) -> f64 {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for value in values {
        count += 1.0;
        sum += value;
        squares += value * value;
    }
    if squares > 0.0 { thousandths(sum * sum / (count * squares)) } else { 1.0 }
}

fn utilization(pool: &Pool, trace: &Trace, makespan: Span) -> Utilization {
    #[expect(clippy::cast_precision_loss, reason = "a share, for people")]
    let share = |nth: usize| {
        let totals =
            pool.clusters.iter().map(|cluster| u128::from(cluster.size().get(&METERED[nth]).parts()));
        let whole = totals.sum::<u128>() * u128::from(makespan.0.max(1));
        let used: u128 = trace.meters.iter().map(|meter| meter.area(nth)).sum();
        (whole > 0).then(|| (used as f64 / whole as f64 * 1e6).round() / 1e6)
    };
    Utilization { cpu: share(0), gpu: share(1), memory: share(2) }
}

fn thousandths(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occur() {
        let values = (1..=200).rev().map(f64::from).collect();
        assert_eq!(
            Percentiles::of(values),
            Percentiles { mean: 100.5, p50: 100.0, p95: 190.0, p99: 198.0, max: 200.0 }
        );
        assert_eq!(Percentiles::of(vec![]), Percentiles::default());
    }

    #[test]
    fn short_jobs_do_not_count_as_slow_because_they_are_short() {
        assert_eq!(bounded_slowdown(9.0, 1.0), 1.0);
        assert_eq!(bounded_slowdown(20.0, 0.0), 2.0);
        assert_eq!(bounded_slowdown(100.0, 100.0), 2.0);
    }

    #[test]
    fn fairness_is_1_if_all_are_equal_and_1_over_n_if_one_has_it_all() {
        assert_eq!(jain([3.0, 3.0, 3.0].into_iter()), 1.0);
        assert_eq!(jain([9.0, 0.0, 0.0].into_iter()), 0.333);
        assert_eq!(jain([1.0, 3.0].into_iter()), 0.8);
        assert_eq!(jain([].into_iter()), 1.0);
    }
}
