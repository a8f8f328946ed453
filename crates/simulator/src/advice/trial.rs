//! One replay, and what is kept of it.

use std::collections::BTreeMap;

use multicluster_types::Owner;

use super::{Fullness, Outcome, OwnerWait};
use crate::{
    Lab, Percentiles, SimulationError, Workload,
    engine::{self, Fate, Trace, moment},
    fleet::METERED,
};

/// Replays the workload; `None` if the time was over before the end.
pub(super) fn run(
    lab: &Lab,
    workload: &Workload,
    may_go_on: &dyn Fn() -> bool,
) -> Result<Option<Outcome>, SimulationError> {
    let trace = engine::run_while(&lab.pool, &lab.nodes, workload, may_go_on)?;
    Ok(trace.map(|trace| outcome(lab, workload, &trace)))
}

#[derive(Default)]
struct Mean {
    sum: f64,
    count: u64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    fn get(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "at most a few million")]
        let count = self.count.max(1) as f64;
        self.sum / count
    }
}

fn outcome(lab: &Lab, workload: &Workload, trace: &Trace) -> Outcome {
    let shares = &lab.pool.settings.shares;
    let mut waits = Vec::new();
    let mut halves = [Mean::default(), Mean::default()];
    let mut owners: BTreeMap<&Owner, Mean> = BTreeMap::new();
    let mut last_end = moment(multicluster_types::Span::ZERO);
    let middle = workload.arrivals.len() / 2;
    for (nth, (arrival, fate)) in workload.arrivals.iter().zip(&trace.fates).enumerate() {
        let Fate::Done { started, ended } = *fate else { continue };
        let wait = started.since(moment(arrival.at)).as_seconds();
        waits.push(wait);
        halves[usize::from(nth >= middle)].add(wait);
        if let Some(owner) = &arrival.work.owner {
            owners.entry(shares.sharer_of(owner)).or_default().add(wait);
        }
        last_end = last_end.max(ended);
    }
    let first = workload.arrivals.first().map(|arrival| moment(arrival.at)).unwrap_or_default();
    let window = last_end.since(first);
    let clusters = lab.pool.clusters.iter().zip(&trace.meters).map(|(cluster, meter)| {
        let shares = (0..METERED.len()).filter_map(|nth| {
            let mean = meter.utilization(nth, &cluster.size(), window)?;
            Some((nth, mean, meter.peak(nth, &cluster.size())?))
        });
        let most =
            shares.max_by(|a, b| (a.2, a.1).partial_cmp(&(b.2, b.1)).unwrap_or(std::cmp::Ordering::Equal));
        let (nth, mean, peak) = most.unwrap_or_default();
        Fullness { cluster: cluster.spec.name.clone(), resource: METERED[nth].to_string(), mean, peak }
    });
    Outcome {
        finished: waits.len() as u64,
        wait_s: Percentiles::of(waits),
        halves_s: halves.map(|half| half.get()),
        clusters: clusters.collect(),
        owners: owners
            .into_iter()
            .map(|(owner, mean)| OwnerWait { owner: owner.clone(), jobs: mean.count, mean_s: mean.get() })
            .collect(),
    }
}

impl Outcome {
    /// The cluster that was the fullest, by its mean or by its peak; of equal ones, the first.
    pub(super) fn fullest(&self, by: impl Fn(&Fullness) -> f64) -> Option<&Fullness> {
        let some = self.clusters.iter().filter(|cluster| by(cluster) > 0.0);
        some.rev().max_by(|a, b| by(a).total_cmp(&by(b)))
    }
}
