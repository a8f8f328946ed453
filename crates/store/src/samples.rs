//! How the pool stood, in steps: fine ones for a day, coarse ones for a month. One row for each step, with
//! all clusters in it: about 100 bytes and 70 for each cluster.

use std::collections::BTreeMap;

use multicluster_types::{ClusterName, Span, Timestamp};
use serde::{Deserialize, Serialize};

/// How long one stored sample is about. Stored as its seconds: never change one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SampleStep {
    /// Kept for 25 hours: a day, and the hour that is shown first.
    Minute,
    /// Kept for 31 days.
    TenMinutes,
}

impl SampleStep {
    /// All, the finest first.
    pub const ALL: [Self; 2] = [Self::Minute, Self::TenMinutes];

    /// How long it is.
    #[must_use]
    pub const fn span(self) -> Span {
        match self {
            Self::Minute => Span::seconds(60),
            Self::TenMinutes => Span::seconds(600),
        }
    }

    /// How far before the latest one a sample is kept.
    #[must_use]
    pub const fn kept_for(self) -> Span {
        match self {
            Self::Minute => Span::seconds(25 * 3600),
            Self::TenMinutes => Span::seconds(31 * 24 * 3600),
        }
    }

    /// When the step began that has this moment.
    #[must_use]
    pub fn begin(self, at: Timestamp) -> Timestamp {
        Timestamp(at.0 - at.0 % self.span().0)
    }
}

/// How the pool stood in one step, as a whole and cluster by cluster. Counts are the highest of the step,
/// shares its mean, and what happened is counted.
///
/// A record: fields are only added, with a default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// When the step began.
    #[serde(skip)]
    pub begun: Timestamp,
    /// How much was queued in total.
    #[serde(rename = "w", skip_serializing_if = "is_zero")]
    pub waiting: u64,
    /// Jobs, tasks and actors on all clusters.
    #[serde(rename = "l", skip_serializing_if = "is_zero")]
    pub live: u64,
    /// Accepted in this step.
    #[serde(rename = "n", skip_serializing_if = "is_zero")]
    pub submitted: u64,
    /// First seen running, each attempt by itself.
    #[serde(rename = "r", skip_serializing_if = "is_zero")]
    pub started: u64,
    /// Succeeded.
    #[serde(rename = "s", skip_serializing_if = "is_zero")]
    pub succeeded: u64,
    /// Failed.
    #[serde(rename = "f", skip_serializing_if = "is_zero")]
    pub failed: u64,
    /// Stopped.
    #[serde(rename = "x", skip_serializing_if = "is_zero")]
    pub stopped: u64,
    /// Those that were registered.
    #[serde(rename = "c")]
    pub clusters: BTreeMap<ClusterName, ClusterSample>,
}

/// How one cluster stood in one step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterSample {
    /// How many moments the shares are the mean of.
    #[serde(rename = "k")]
    pub moments: u32,
    /// CPUs given out and promised, in 1/10,000 of the total. `None`: unknown, or it has none.
    #[serde(rename = "c", skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u16>,
    /// GPUs, likewise.
    #[serde(rename = "g", skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u16>,
    /// Memory, likewise.
    #[serde(rename = "m", skip_serializing_if = "Option::is_none")]
    pub memory: Option<u16>,
    /// Jobs, tasks and actors on it.
    #[serde(rename = "l", skip_serializing_if = "is_zero")]
    pub live: u64,
    /// How much was queued for it alone.
    #[serde(rename = "w", skip_serializing_if = "is_zero")]
    pub waiting: u64,
    /// Did it answer, all the time? `None`: it was never asked.
    #[serde(rename = "h", skip_serializing_if = "Option::is_none")]
    pub healthy: Option<bool>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Sample {
    /// Adds a later part of the same step.
    pub fn add(&mut self, later: &Self) {
        let Self { begun: _, waiting, live, submitted, started, succeeded, failed, stopped, clusters } =
            later;
        self.waiting = self.waiting.max(*waiting);
        self.live = self.live.max(*live);
        self.submitted += submitted;
        self.started += started;
        self.succeeded += succeeded;
        self.failed += failed;
        self.stopped += stopped;
        for (name, later) in clusters {
            self.clusters.entry(name.clone()).or_default().add(later);
        }
    }
}

impl ClusterSample {
    fn add(&mut self, later: &Self) {
        let (before, after) = (self.moments, later.moments);
        self.cpu = mean((self.cpu, before), (later.cpu, after));
        self.gpu = mean((self.gpu, before), (later.gpu, after));
        self.memory = mean((self.memory, before), (later.memory, after));
        self.moments = before.saturating_add(after);
        self.live = self.live.max(later.live);
        self.waiting = self.waiting.max(later.waiting);
        self.healthy = match (self.healthy, later.healthy) {
            (Some(a), Some(b)) => Some(a && b),
            (a, b) => a.or(b),
        };
    }
}

/// The mean of what is known.
fn mean(a: (Option<u16>, u32), b: (Option<u16>, u32)) -> Option<u16> {
    let ((Some(one), weight), (Some(other), more)) = (a, b) else { return a.0.or(b.0) };
    let (weight, more) = (u64::from(weight.max(1)), u64::from(more.max(1)));
    let sum = u64::from(one) * weight + u64::from(other) * more;
    Some(u16::try_from((sum + (weight + more) / 2) / (weight + more)).unwrap_or(u16::MAX))
}

/// How long jobs waited that started in one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits {
    /// When the step began.
    pub begun: Timestamp,
    /// How many there were.
    pub jobs: u64,
    /// Half of them waited no longer.
    pub p50: Span,
    /// 90 % of them, likewise.
    pub p90: Span,
    /// 99 % of them, likewise.
    pub p99: Span,
}

/// Collects waits one by one; PostgreSQL has them counted by the server, by the same rule.
#[derive(Debug, Default)]
pub(crate) struct Waiting(BTreeMap<u64, Vec<u32>>);

impl Waiting {
    /// A job that started in this step waited this long. Rounded to 1/100 s, for half the memory.
    pub(crate) fn add(&mut self, begun: Timestamp, waited: Span) {
        self.0.entry(begun.0).or_default().push(u32::try_from(waited.0 / 10).unwrap_or(u32::MAX));
    }

    pub(crate) fn finish(self) -> Vec<Waits> {
        let steps = self.0.into_iter().map(|(begun, mut waits)| {
            waits.sort_unstable();
            let at = |percent: usize| {
                let rank = (waits.len() * percent).div_ceil(100).max(1);
                Span(u64::from(waits[rank - 1]) * 10)
            };
            let (p50, p90, p99) = (at(50), at(90), at(99));
            Waits { begun: Timestamp(begun), jobs: waits.len() as u64, p50, p90, p99 }
        });
        steps.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_step_add_up() {
        let name = ClusterName::new("mac").unwrap();
        let part = |live, share, moments, healthy| Sample {
            live,
            submitted: 2,
            clusters: [(
                name.clone(),
                ClusterSample { moments, cpu: share, live, healthy, ..ClusterSample::default() },
            )]
            .into(),
            ..Sample::default()
        };
        let mut step = part(3, None, 1, None);
        step.add(&part(1, Some(1_000), 1, Some(true)));
        assert_eq!(step.clusters[&name].cpu, Some(1_000), "what was not known counts for nothing");
        step.add(&part(2, Some(4_000), 1, Some(false)));
        let mac = step.clusters[&name];
        assert_eq!((step.live, step.submitted), (3, 6));
        assert_eq!((mac.moments, mac.cpu, mac.live, mac.healthy), (3, Some(2_000), 3, Some(false)));
    }

    #[test]
    fn the_percentiles_are_waits_that_there_were() {
        let mut waiting = Waiting::default();
        (1..=200).rev().for_each(|wait| waiting.add(Timestamp(60_000), Span::seconds(wait)));
        waiting.add(Timestamp(0), Span::seconds(7));
        let second = |n| Span::seconds(n);
        let (all, one) = ((second(100), second(180), second(198)), (second(7), second(7), second(7)));
        let found: Vec<_> =
            waiting.finish().iter().map(|w| (w.begun.0, w.jobs, (w.p50, w.p90, w.p99))).collect();
        assert_eq!(found, [(0, 1, one), (60_000, 200, all)]);
    }
}
