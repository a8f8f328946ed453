//! The real history.

use std::{collections::HashSet, sync::Arc};

use multicluster_api::{FinishedRun, Page};
use multicluster_simulator::{
    Arrival, ClusterReport, Counts, Distribution, Pool, Report, Utilization, VirtualCluster, Workload,
};
use multicluster_types::{
    ClusterName, Dimension, JobId, Kind, Origin, Owner, Preference, Priority, Span, Tags, Work,
};

use crate::{client::Client, exit::Failure};

/// As in the simulator: shorter runs count as this long in the slowdown.
const SHORT: f64 = 10.0;

/// The past of a pool: jobs that ran to their end, in the order in which they were submitted.
pub(super) struct Past {
    pub(super) runs: Vec<FinishedRun>,
}

impl Past {
    /// The history of the jobs that were submitted between these times.
    pub(super) async fn ask(client: &Client, from: u64, to: u64) -> Result<Self, Failure> {
        let mut runs = Vec::new();
        let mut query = vec![("since", from.to_string()), ("limit", "1000".to_owned())];
        loop {
            let Page { items, next_cursor } =
                client.get::<Page<FinishedRun>>(&["v1", "runs"], &query).await?.value;
            runs.extend(items.into_iter().filter(|run| (from..=to).contains(&run.submitted_at)));
            let Some(cursor) = next_cursor else { break };
            query.truncate(2);
            query.push(("cursor", cursor));
        }
        runs.sort_by_key(|run| run.submitted_at);
        Ok(Self { runs })
    }

    pub(super) fn workload(&self) -> Workload {
        let begin = self.begin();
        let mut works = HashSet::new();
        let arrivals = self.runs.iter().enumerate().filter_map(|(nth, run)| {
            let work = Arc::new(work(run)?);
            // Equal work is kept once.
            let work = works.get(&work).cloned().unwrap_or_else(|| {
                works.insert(Arc::clone(&work));
                work
            });
            Some(Arrival {
                id: JobId::new(format!("run-{nth}")).ok()?,
                at: Span(run.submitted_at - begin),
                duration: duration(run),
                work,
            })
        });
        Workload { arrivals: arrivals.collect(), ignored_columns: Vec::new() }
    }

    /// The real history, in the terms of the simulator.
    pub(super) fn report(&self, pool: &Pool) -> Report {
        let makespan =
            self.runs.iter().map(|run| run.ended_at).max().unwrap_or_default().saturating_sub(self.begin());
        let (mut waits, mut slowdowns) = (Vec::new(), Vec::new());
        for run in &self.runs {
            let wait = Span(run.started_at.saturating_sub(run.submitted_at)).as_seconds();
            let took = run.ran_seconds;
            waits.push(wait);
            slowdowns.push(((wait + took) / took.max(SHORT)).max(1.0));
        }
        let count = self.runs.len() as u64;
        Report {
            jobs: Counts { submitted: count, finished: count, rejected: 0, never_placed: 0 },
            makespan: Span(makespan),
            wait_s: Distribution::of(waits),
            slowdown: Distribution::of(slowdowns),
            clusters: pool.clusters.iter().map(|cluster| self.on(cluster, Span(makespan))).collect(),
            rejected: Vec::new(),
            never_placed: Vec::new(),
        }
    }

    /// The share of one cluster.
    fn on(&self, cluster: &VirtualCluster, makespan: Span) -> ClusterReport {
        let here: Vec<_> = self.runs.iter().filter(|run| run.cluster == cluster.spec.name.as_str()).collect();
        let share = |dimension: Dimension| {
            let total = cluster.total.get(&dimension).as_f64() * makespan.as_seconds();
            let used = here.iter().map(|run| run.demand.get(&dimension).as_f64() * run.ran_seconds);
            (total > 0.0).then(|| used.sum::<f64>() / total)
        };
        let hours = makespan.as_seconds() / 3600.0;
        #[expect(clippy::cast_precision_loss, reason = "at most a few million")]
        let jobs_per_hour = if hours > 0.0 { here.len() as f64 / hours } else { 0.0 };
        ClusterReport {
            name: cluster.spec.name.clone(),
            capacity: cluster.total.clone(),
            jobs: here.len() as u64,
            jobs_per_hour,
            utilization: Utilization {
                cpu: share(Dimension::Cpu),
                gpu: share(Dimension::Gpu),
                memory: share(Dimension::Memory),
            },
            held_back: 0,
        }
    }

    fn begin(&self) -> u64 {
        self.runs.first().map_or(0, |run| run.submitted_at)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was a Span before")]
fn duration(run: &FinishedRun) -> Span {
    Span((run.ran_seconds * 1000.0).round() as u64)
}

/// Its demand.
fn work(run: &FinishedRun) -> Option<Work> {
    let preference = match &run.preferred_cluster {
        Some(cluster) => {
            Some(Preference { cluster: ClusterName::new(cluster).ok()?, required: run.required })
        }
        None => None,
    };
    let owner = match &run.owner {
        Some(owner) => Some(Owner::new(owner).ok()?),
        None => None,
    };
    Some(Work {
        demand: run.demand.clone(),
        reserves: run.reserves.clone().map(Box::new),
        tags: Tags::new(&run.tags).ok()?,
        preference,
        owner,
        origin: if run.inside { Origin::Inside } else { Origin::Outside },
        priority: Priority(run.priority),
        ..Work::new(Kind::Job)
    })
}
