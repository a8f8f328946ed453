//! The real history.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::{StreamExt, stream};
use multicluster_api::{Attempt, Job, Page};
use multicluster_simulator::{
    Arrival, ClusterReport, Counts, Distribution, Pool, Report, Utilization, VirtualCluster, Workload,
};
use multicluster_types::{ClusterName, Dimension, JobId, Origin, Preference, Priority, Span, Tags, Work};

use crate::{
    client::Client,
    exit::{Exit, Failure},
};

/// How many requests are sent at once.
const AT_ONCE: usize = 8;
/// As in the simulator: shorter runs count as this long in the slowdown.
const SHORT: f64 = 10.0;

/// The past of a pool.
pub(super) struct Past {
    pub(super) runs: Vec<Ran>,
    /// Jobs that cannot be replayed, because their run time is unknown.
    without: usize,
}

/// One job that ran to its end.
pub(super) struct Ran {
    job: Job,
    cluster: String,
    started: u64,
    ended: u64,
    /// Run time of the last attempt.
    duration: Span,
}

impl Past {
    /// The history of the jobs that were submitted between these times.
    pub(super) async fn ask(client: &Client, from: u64, to: u64) -> Result<Self, Failure> {
        let jobs = submitted(client, from, to).await?;
        let all = jobs.len();
        let asked =
            jobs.into_iter().filter(|job| job.state.is_terminal() && job.attempts > 0).map(async |job| {
                let path = ["v1", "jobs", &job.id, "attempts"];
                match client.get::<Page<Attempt>>(&path, &[]).await {
                    Ok(attempts) => Ok(Ran::of(job, &attempts.value.items)),
                    // The job was forgotten after it was listed.
                    Err(failure) if failure.exit == Exit::NotFound => Ok(None),
                    Err(failure) => Err(failure),
                }
            });
        let found: Vec<Result<Option<Ran>, Failure>> = stream::iter(asked).buffered(AT_ONCE).collect().await;
        let mut runs = Vec::new();
        for ran in found {
            runs.extend(ran?);
        }
        runs.sort_by_key(|ran| ran.job.submitted_at);
        Ok(Self { without: all - runs.len(), runs })
    }

    /// A note about the jobs that cannot be replayed.
    pub(super) fn left_out(&self) -> Option<String> {
        (self.without > 0).then(|| {
            let (some, all) = (self.without, self.without + self.runs.len());
            format!("{some} of {all} left out: they never ran, still do, or their run time is not known")
        })
    }

    pub(super) fn workload(&self) -> Workload {
        let begin = self.begin();
        let arrivals = self.runs.iter().filter_map(|ran| {
            Some(Arrival {
                id: JobId::new(&ran.job.id).ok()?,
                at: Span(ran.job.submitted_at - begin),
                duration: ran.duration,
                work: Arc::new(work(&ran.job)?),
            })
        });
        Workload { arrivals: arrivals.collect(), ignored_columns: Vec::new() }
    }

    /// The real history, in the terms of the simulator.
    pub(super) fn report(&self, pool: &Pool) -> Report {
        let makespan =
            self.runs.iter().map(|ran| ran.ended).max().unwrap_or_default().saturating_sub(self.begin());
        let (mut waits, mut slowdowns) = (Vec::new(), Vec::new());
        for ran in &self.runs {
            let wait = Span(ran.started.saturating_sub(ran.job.submitted_at)).as_seconds();
            let took = ran.duration.as_seconds();
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
        let here: Vec<_> = self.runs.iter().filter(|ran| ran.cluster == cluster.spec.name.as_str()).collect();
        let share = |dimension: Dimension| {
            let total = cluster.total.get(&dimension).as_f64() * makespan.as_seconds();
            let used =
                here.iter().map(|ran| ran.job.demand.get(&dimension).as_f64() * ran.duration.as_seconds());
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
        self.runs.first().map_or(0, |ran| ran.job.submitted_at)
    }
}

/// Lists are newest first: a job older than `from` ends the search.
async fn submitted(client: &Client, from: u64, to: u64) -> Result<Vec<Job>, Failure> {
    let mut found = BTreeMap::new();
    let mut query = vec![("limit", "1000".to_owned())];
    loop {
        let Page { items, next_cursor } = client.get::<Page<Job>>(&["v1", "jobs"], &query).await?.value;
        let is_past = items.last().is_some_and(|job| job.submitted_at < from);
        let within = items.into_iter().filter(|job| (from..=to).contains(&job.submitted_at));
        found.extend(within.map(|job| (job.id.clone(), job)));
        match next_cursor {
            Some(cursor) if !is_past => {
                query.truncate(1);
                query.push(("cursor", cursor));
            }
            _ => return Ok(found.into_values().collect()),
        }
    }
}

impl Ran {
    /// `None` if it was never seen starting.
    fn of(job: Job, attempts: &[Attempt]) -> Option<Self> {
        let started = attempts.iter().find_map(|attempt| attempt.running_at)?;
        let last = attempts.iter().rev().find(|attempt| attempt.running_at.is_some())?;
        let ended = last.ended_at?;
        let duration = Span(ended.saturating_sub(last.running_at?));
        Some(Self { cluster: last.cluster.clone(), job, started, ended, duration })
    }
}

/// Its demand.
fn work(job: &Job) -> Option<Work> {
    let preference = job
        .preferred_cluster
        .as_ref()
        .map(|cluster| Some(Preference { cluster: ClusterName::new(cluster).ok()?, required: job.required }));
    let preference = match preference {
        Some(wanted) => Some(wanted?),
        None => None,
    };
    let origin = if job.parent_job.is_some() { Origin::Inside } else { Origin::Outside };
    Some(Work {
        demand: job.demand.clone(),
        reserves: job.reserves.clone().map(Box::new),
        tags: Tags::new(&job.tags).ok()?,
        preference,
        origin,
        priority: Priority(job.priority),
        ..Work::new(job.kind)
    })
}
