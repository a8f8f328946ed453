//! A generated workload, for users without a trace.

use std::collections::HashSet;

use multicluster_types::{JobId, Kind, Priority, Resources, Span, Work};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{Arrival, Pool, Workload, workload::share};

/// The parameters of a generated workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Synthetic {
    /// The number of jobs.
    pub jobs: u32,
    /// The same seed gives the same workload.
    pub seed: u64,
    /// Mean time between arrivals.
    pub gap: Span,
}

/// One shape of work, and how common it is.
struct Shape {
    of_100: u32,
    kind: Kind,
    cpu: f64,
    gpu: f64,
    gib: f64,
    /// Mean, in seconds.
    duration: f64,
    priority: i32,
}

/// Many small jobs, few large ones, the large ones longer: as in traces of real clusters.
const SHAPES: [Shape; 7] = [
    Shape { of_100: 40, kind: Kind::Job, cpu: 1.0, gpu: 0.0, gib: 2.0, duration: 60.0, priority: 0 },
    Shape { of_100: 20, kind: Kind::Job, cpu: 2.0, gpu: 0.0, gib: 8.0, duration: 180.0, priority: 0 },
    Shape { of_100: 15, kind: Kind::Task, cpu: 1.0, gpu: 0.0, gib: 1.0, duration: 20.0, priority: 0 },
    Shape { of_100: 10, kind: Kind::Job, cpu: 4.0, gpu: 0.0, gib: 16.0, duration: 300.0, priority: 0 },
    Shape { of_100: 5, kind: Kind::Job, cpu: 2.0, gpu: 0.0, gib: 4.0, duration: 90.0, priority: 10 },
    Shape { of_100: 5, kind: Kind::Job, cpu: 8.0, gpu: 0.0, gib: 32.0, duration: 900.0, priority: 0 },
    Shape { of_100: 5, kind: Kind::Job, cpu: 4.0, gpu: 1.0, gib: 16.0, duration: 1200.0, priority: 0 },
];

/// Generates work that the pool can hold: shapes too large for every cluster are left out.
/// Arrivals and durations are exponential.
#[must_use]
pub fn generate(what: Synthetic, pool: &Pool) -> Workload {
    let mut random = ChaCha8Rng::seed_from_u64(what.seed);
    let works: Vec<_> =
        SHAPES.iter().map(|shape| (shape, shape.work())).filter(|(_, w)| fits(w, pool)).collect();
    let all: u32 = works.iter().map(|(shape, _)| shape.of_100).sum();
    let mut shared = HashSet::new();
    let mut at = Span::ZERO;
    let mut arrivals = Vec::new();
    for nth in 1..=what.jobs {
        if works.is_empty() {
            break;
        }
        let mut ticket = random.random_range(0..all);
        let drawn = works.iter().find(|(shape, _)| match ticket.checked_sub(shape.of_100) {
            Some(rest) => {
                ticket = rest;
                false
            }
            None => true,
        });
        let Some((shape, work)) = drawn else { continue };
        let Ok(id) = JobId::new(format!("job-{nth}")) else { continue };
        let duration = exponential(shape.duration, &mut random);
        arrivals.push(Arrival { id, at, duration, work: share(work.clone(), &mut shared) });
        at = Span(at.0.saturating_add(exponential(what.gap.as_seconds(), &mut random).0));
    }
    Workload { arrivals, ignored_columns: Vec::new() }
}

impl Shape {
    fn work(&self) -> Work {
        let bytes = self.gib * f64::from(1 << 30);
        let demand = Resources::from_amounts([("CPU", self.cpu), ("GPU", self.gpu), ("memory", bytes)])
            .expect("legal names and amounts");
        Work { demand, priority: Priority(self.priority), ..Work::new(self.kind) }
    }
}

fn fits(work: &Work, pool: &Pool) -> bool {
    pool.clusters.iter().any(|cluster| work.demand.first_beyond_total(&cluster.size()).is_none())
}

/// Rounded to whole milliseconds, and cut at ten times the mean.
fn exponential(mean: f64, random: &mut ChaCha8Rng) -> Span {
    let uniform: f64 = random.random();
    let seconds = (-(1.0 - uniform).ln()).min(10.0) * mean;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates; never negative")]
    Span((seconds * 1000.0).round() as u64)
}
