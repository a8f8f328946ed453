//! The history of the pool as a workload.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use multicluster_simulator::{Arrival, Pool, Workload};
use multicluster_store::{FinishedRun, Reader, StoreError};
use multicluster_types::{JobId, Span, Timestamp, Work};

/// How many runs are read at once.
const PAGE: usize = 10_000;
/// The most runs that are replayed, the latest ones: about 50 MB.
const MOST: usize = 200_000;

/// The jobs that ran, in the order in which they were submitted.
pub(super) struct Past {
    pub(super) workload: Workload,
    /// How long each waited, in the same order.
    waits_s: Vec<f64>,
    /// There were more.
    pub(super) is_cut: bool,
}

impl Past {
    /// The jobs that were submitted since then.
    pub(super) fn read(reader: &dyn Reader, from: Timestamp, pool: &Pool) -> Result<Self, StoreError> {
        let mut runs = Vec::new();
        let mut cursor = None;
        let is_cut = loop {
            let page = reader.runs(from, Timestamp(u64::MAX), cursor, PAGE)?;
            runs.extend(page.items.into_iter().filter(|run| run.submitted_at >= from));
            if runs.len() >= MOST {
                runs.truncate(MOST);
                break true;
            }
            match page.next {
                Some(next) => cursor = Some(next),
                None => break false,
            }
        };
        runs.sort_by_key(|run| run.submitted_at);
        Ok(Self::of(&runs, pool, is_cut))
    }

    fn of(runs: &[FinishedRun], pool: &Pool, is_cut: bool) -> Self {
        let begin = runs.first().map_or(0, |run| run.submitted_at.0);
        let mut works = Works::new(pool);
        let (mut arrivals, mut waits_s) = (Vec::with_capacity(runs.len()), Vec::with_capacity(runs.len()));
        for (nth, run) in runs.iter().enumerate() {
            // Names of our own: those of the jobs are not kept.
            let Ok(id) = JobId::new(format!("run-{nth}")) else { continue };
            let at = Span(run.submitted_at.0 - begin);
            arrivals.push(Arrival { id, at, duration: run.ran, work: works.known(&run.work) });
            waits_s.push(run.started_at.since(run.submitted_at).as_seconds());
        }
        Self { workload: Workload { arrivals, ignored_columns: Vec::new() }, waits_s, is_cut }
    }

    /// The mean wait of the latest of them, as it was.
    pub(super) fn mean_wait_s(&self, latest: u64) -> f64 {
        let from = self.waits_s.len().saturating_sub(usize::try_from(latest).unwrap_or(usize::MAX));
        let waits = &self.waits_s[from..];
        #[expect(clippy::cast_precision_loss, reason = "at most a million")]
        let count = waits.len().max(1) as f64;
        waits.iter().sum::<f64>() / count
    }
}

/// Equal work is kept once. Work that asked for a cluster which is gone asks for none: it would be
/// refused, and so would be everything that can be said about it.
struct Works<'a> {
    clusters: BTreeSet<&'a str>,
    known: HashMap<*const Work, Arc<Work>>,
}

impl<'a> Works<'a> {
    fn new(pool: &'a Pool) -> Self {
        let clusters = pool.clusters.iter().map(|cluster| cluster.spec.name.as_str()).collect();
        Self { clusters, known: HashMap::new() }
    }

    fn known(&mut self, work: &Arc<Work>) -> Arc<Work> {
        let known = self.known.entry(Arc::as_ptr(work)).or_insert_with(|| match &work.preference {
            Some(wanted) if !self.clusters.contains(wanted.cluster.as_str()) => {
                Arc::new(Work { preference: None, ..(**work).clone() })
            }
            _ => Arc::clone(work),
        });
        Arc::clone(known)
    }
}
