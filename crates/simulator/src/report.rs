//! The results of a simulated run, in numbers.

use multicluster_types::{ClusterName, JobId, Lang, Resources, Span, Work};
use serde::{Serialize, Serializer};

use crate::{
    Pool, Workload,
    engine::{Fate, StuckGroup, Trace, moment},
    fleet::Meter,
    quality::bounded_slowdown,
};

/// One run of a workload under one name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// `baseline`, or the changes.
    pub label: String,
    /// The results.
    #[serde(flatten)]
    pub report: Report,
}

/// The results of a workload. All times are in seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The number of arrivals by outcome.
    pub jobs: Counts,
    /// From the first arrival to the last end.
    #[serde(rename = "makespan_s", serialize_with = "seconds")]
    pub makespan: Span,
    /// From arrival to running, for all work that ran.
    pub wait_s: Distribution,
    /// (wait + duration) / duration, with durations below 10 s counted as 10 s: how much longer
    /// it took than on an empty pool.
    pub slowdown: Distribution,
    /// Each cluster, in the order of the file.
    pub clusters: Vec<ClusterReport>,
    /// Refused submissions.
    pub rejected: Vec<Refused>,
    /// Work that was queued until nothing could change any more.
    pub never_placed: Vec<NeverPlaced>,
}

/// The number of arrivals by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Submitted.
    pub submitted: u64,
    /// Ran to the end.
    pub finished: u64,
    /// Refused.
    pub rejected: u64,
    /// Accepted, and never placed.
    pub never_placed: u64,
}

/// Four numbers that describe a distribution. Percentiles are values that occur (nearest rank).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// Arithmetic mean; 0 for an empty set.
    pub mean: f64,
    /// Half are at most this.
    pub p50: f64,
    /// 95 % are at most this.
    pub p95: f64,
    /// The largest.
    pub max: f64,
}

/// The results of one cluster.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClusterReport {
    /// The name of the cluster.
    pub name: ClusterName,
    /// Its resources.
    pub capacity: Resources,
    /// How many runs it got.
    pub jobs: u64,
    /// The same per hour of the makespan.
    pub jobs_per_hour: f64,
    /// Mean share in use over the makespan.
    pub utilization: Utilization,
    /// Runs that were sent although there was no room, and had to wait there.
    pub held_back: u64,
}

/// Mean shares, 0..1; `None` for a resource that a cluster does not have.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Utilization {
    /// CPUs.
    pub cpu: Option<f64>,
    /// GPUs.
    pub gpu: Option<f64>,
    /// Memory.
    pub memory: Option<f64>,
}

/// Arrivals that were refused for the same reason.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Refused {
    /// The refusal's stable word.
    pub code: &'static str,
    /// How many.
    pub count: u64,
    /// The first of them.
    pub first: JobId,
    /// The message for the first of them.
    pub why: String,
}

/// Arrivals with the same demand that were never placed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NeverPlaced {
    /// How many.
    pub count: u64,
    /// The first few of them.
    pub jobs: Vec<JobId>,
    /// Their demand.
    pub work: Work,
    /// The reason of each cluster.
    pub why: Vec<Why>,
    /// The scheduler's own explanation for the first of them.
    pub summary: String,
}

/// The reason of one cluster.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Why {
    /// The name of the cluster.
    pub cluster: ClusterName,
    /// The reason as text.
    pub reason: String,
}

/// How many ids are listed as examples.
const EXAMPLES: usize = 5;

impl Report {
    pub(crate) fn of(pool: &Pool, workload: &Workload, trace: &Trace) -> Self {
        let (mut waits, mut slowdowns) = (Vec::new(), Vec::new());
        let mut last_end = None;
        for (arrival, fate) in workload.arrivals.iter().zip(&trace.fates) {
            if let Fate::Done { started, ended } = *fate {
                let wait = started.since(moment(arrival.at)).as_seconds();
                let duration = arrival.duration.as_seconds();
                waits.push(wait);
                slowdowns.push(bounded_slowdown(wait, duration));
                last_end = last_end.max(Some(ended));
            }
        }
        let first = workload.arrivals.first().map(|arrival| moment(arrival.at)).unwrap_or_default();
        let makespan = last_end.map_or(Span::ZERO, |end| end.since(first));
        let rejected: Vec<_> = trace
            .refused
            .iter()
            .map(|(code, group)| Refused {
                code,
                count: group.count,
                first: group.first.clone(),
                why: group.why.to_string(),
            })
            .collect();
        let clusters = pool.clusters.iter().zip(&trace.meters);
        Self {
            jobs: Counts {
                submitted: workload.arrivals.len() as u64,
                finished: waits.len() as u64,
                rejected: rejected.iter().map(|group| group.count).sum(),
                never_placed: trace.stuck.iter().map(|group| group.arrivals.len() as u64).sum(),
            },
            makespan,
            wait_s: Distribution::of(waits),
            slowdown: Distribution::of(slowdowns),
            clusters: clusters.map(|(cluster, meter)| ClusterReport::of(cluster, meter, makespan)).collect(),
            rejected,
            never_placed: trace.stuck.iter().map(|group| NeverPlaced::of(group, workload)).collect(),
        }
    }
}

impl Distribution {
    /// Of any numbers, in any order.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let Some(&max) = values.last() else { return Self::default() };
        // Nearest rank: the smallest value that `percent` of all do not exceed.
        let at = |percent: usize| values[(values.len() * percent).div_ceil(100).saturating_sub(1)];
        #[expect(clippy::cast_precision_loss, reason = "at most a few million")]
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        Self {
            mean: round(mean, 1e3),
            p50: round(at(50), 1e3),
            p95: round(at(95), 1e3),
            max: round(max, 1e3),
        }
    }
}

impl ClusterReport {
    fn of(cluster: &crate::VirtualCluster, meter: &Meter, makespan: Span) -> Self {
        let share = |nth| meter.utilization(nth, &cluster.size(), makespan).map(|share| round(share, 1e6));
        let hours = makespan.as_seconds() / 3600.0;
        #[expect(clippy::cast_precision_loss, reason = "at most a few million")]
        let jobs_per_hour = if hours > 0.0 { meter.started as f64 / hours } else { 0.0 };
        Self {
            name: cluster.spec.name.clone(),
            capacity: cluster.size(),
            jobs: meter.started,
            jobs_per_hour: round(jobs_per_hour, 1e3),
            utilization: Utilization { cpu: share(0), gpu: share(1), memory: share(2) },
            held_back: meter.held_back,
        }
    }
}

impl NeverPlaced {
    fn of(group: &StuckGroup, workload: &Workload) -> Self {
        let arrivals = || group.arrivals.iter().map(|nth| &workload.arrivals[*nth]);
        let why = group.why.iter().flat_map(|why| why.clusters.iter().map(move |said| (why.at, said)));
        let why = why.map(|(at, said)| Why {
            cluster: said.cluster.clone(),
            reason: said.verdict.describe(at, Lang::En),
        });
        Self {
            count: group.arrivals.len() as u64,
            jobs: arrivals().take(EXAMPLES).map(|arrival| arrival.id.clone()).collect(),
            work: workload.arrivals[group.arrivals[0]].work.as_ref().clone(),
            why: why.collect(),
            summary: match &group.why {
                Some(why) => why.summary(Lang::En),
                None => "too large for every cluster that may run it".to_owned(),
            },
        }
    }
}

/// To the nearest 1/`parts`: further digits are noise.
fn round(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}

fn seconds<S: Serializer>(span: &Span, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(span.as_seconds())
}
