//! Deletes runs of ours on one cluster that ended long enough ago, where `clean_up_after` says
//! so: Ray keeps every job for good, and reads them all for each list.
//!
//! What is there is asked each time, so nothing is remembered, and what a crash left behind is
//! found as well.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use multicluster_core::{Core, record::Phase};
use multicluster_ray::RayError;
use multicluster_types::Span;
use tokio::time::sleep;

use super::{lane::Lane, status};
use crate::driver::Run;

/// Between two sweeps; less if runs are to go sooner than that.
const EVERY: Duration = Duration::from_secs(60);
const SOONEST: Duration = Duration::from_secs(1);
/// Copied and deleted in one sweep: a head with ten thousand is not kept busy with them for hours.
const MOST: usize = 200;

pub(super) async fn run(lane: Arc<Lane>) {
    loop {
        let after = lane.shared.driver.read(|core| core.settings().clean_up_after).await;
        let Ok(after) = after else { return };
        let pause = Duration::from_millis(after.0).clamp(SOONEST, EVERY);
        if after == Span::ZERO {
            sleep(EVERY).await;
            continue;
        }
        sleep(pause).await;
        if let Err(error) = lane.sweep().await {
            tracing::debug!(cluster = %lane.cluster, %error, "cannot clean up");
        }
    }
}

/// What our books say of a run that its cluster says is over.
enum Fate {
    /// It belongs to a job that has ended long ago: once its log is copied, it may go.
    Old,
    /// It belongs to a job that was forgotten.
    Forgotten,
    /// Somebody may want it yet.
    Kept,
}

impl Lane {
    async fn sweep(&self) -> Result<(), RayError> {
        let listed = self.client.jobs().await?.jobs.into_iter();
        let over: Vec<_> = listed.filter(status::is_over).filter_map(|job| self.identify(job)).collect();
        let runs: Vec<_> = over.iter().map(|(run, _)| run.clone()).collect();
        let look = self.shared.driver.read(move |core| runs.iter().map(|run| fate(core, run)).collect());
        let Ok(fates): Result<Vec<Fate>, _> = look.await else { return Ok(()) };
        let (mut gone, mut uncopied) = (Vec::new(), Vec::new());
        for ((run, details), fate) in over.into_iter().zip(fates) {
            match fate {
                Fate::Forgotten => gone.push(run),
                Fate::Old if self.has_copy(&run).await => gone.push(run),
                Fate::Old => uncopied.push((run, details)),
                Fate::Kept => {}
            }
        }
        // The next sweep finds the copies.
        for (run, details) in uncopied.iter().take(MOST) {
            self.copy_log(run, details).await;
        }
        gone.truncate(MOST);
        if !gone.is_empty() {
            tracing::info!(cluster = %self.cluster, runs = gone.len(), "deleting runs that ended long ago");
        }
        join_all(gone.into_iter().map(|run| self.forget(run))).await;
        Ok(())
    }

    /// Have we a copy of its log?
    async fn has_copy(&self, run: &Run) -> bool {
        let reader = Arc::clone(&self.shared.reader);
        let (job, attempt) = (run.job.clone(), run.attempt);
        let copy = tokio::task::spawn_blocking(move || reader.logs(&job, Some(attempt))).await;
        matches!(copy, Ok(Ok(Some(_))))
    }
}

fn fate(core: &Core, run: &Run) -> Fate {
    let known = core.job(&run.job).filter(|job| run.life.is_none_or(|life| life == job.submitted_at));
    match known.map(|job| &job.phase) {
        None => Fate::Forgotten,
        Some(Phase::Ended(ended)) if ended.at + core.settings().clean_up_after <= core.now() => Fate::Old,
        Some(_) => Fate::Kept,
    }
}
