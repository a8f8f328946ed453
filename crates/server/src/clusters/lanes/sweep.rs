//! Deletes runs of ours on one cluster that ended long enough ago, if `clean_up_after` is set: Ray
//! never forgets a job, and reads them all for each list.
//!
//! Each sweep reads the cluster's list, so nothing has to be remembered, and runs that a crash left
//! behind are found as well. Tombstones go too, once they are old enough.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use multicluster_core::{Run, record::Phase};
use multicluster_ray::{JobDetails, RayError};
use multicluster_store::{Reader, StoreError};
use multicluster_types::{LogLimit, Span, Timestamp};
use tokio::{task::spawn_blocking, time::sleep};

use super::{bury, lane::Lane, status};

/// Between two sweeps; less if `clean_up_after` is shorter.
const EVERY: Duration = Duration::from_secs(60);
/// Never more often than this: each sweep reads Ray's whole list.
const SOONEST: Duration = Duration::from_secs(10);
/// Deletes in one sweep, and as many copies of logs, so that a head node with ten thousand old runs
/// is not kept busy for hours.
const MOST: usize = 200;

pub(super) async fn run(lane: Arc<Lane>) {
    loop {
        let after = lane.shared.see(|core| core.settings().clean_up_after).await;
        let Some(after) = after else { return };
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

/// Whether a run that has ended on its cluster may be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Its job ended long ago: the run may be deleted once we have the end of its log.
    Old,
    /// Its job is not in the store, and the run ended long ago.
    Forgotten,
    /// Too recent to delete.
    Kept,
}

impl Lane {
    async fn sweep(&self) -> Result<(), RayError> {
        let listed = self.client.jobs().await?.jobs;
        let now = self.shared.clock.now();
        let spent = listed.iter().filter(|details| bury::is_spent(details, now));
        let spent: Vec<_> = spent.filter_map(|details| self.runs.buried(details)).take(MOST).collect();
        let over = listed.into_iter().filter(status::is_over);
        let over = over.filter_map(|job| self.runs.identify(job)).collect();
        let copies = self.shared.see(|core| core.settings().log_copy != LogLimit::End(0)).await;
        let (gone, uncopied) = self.choose(self.judge(over).await, copies.unwrap_or(true)).await;
        if !gone.is_empty() {
            tracing::info!(cluster = %self.cluster, runs = gone.len(), "deleting runs that ended long ago");
        }
        join_all(gone.iter().chain(&spent).map(|run| self.forget(run))).await;
        // The next sweep finds the copies.
        join_all(uncopied.iter().map(|(run, details)| self.copy_log(run, details))).await;
        Ok(())
    }

    async fn judge(&self, over: Vec<(Run, JobDetails)>) -> Vec<(Fate, Run, JobDetails)> {
        let look = self.shared.see(move |core| {
            let (now, after) = (core.now(), core.settings().clean_up_after);
            let judged = over.into_iter().map(|(run, details)| {
                let job = core.job(&run.job).filter(|job| run.is_of(job));
                let fate = fate(job.map(|job| &job.phase), details.end_time, |at| at + after <= now);
                (fate, run, details)
            });
            judged.filter(|(fate, ..)| *fate != Fate::Kept).collect()
        });
        look.await.unwrap_or_default()
    }

    /// Splits the runs into those to delete now and those to copy first. The order is random, so
    /// that runs that cannot be copied, because their node is gone for example, do not block the
    /// others. These runs stay until their job is forgotten. Without `copies` none is copied.
    async fn choose(
        &self,
        mut old: Vec<(Fate, Run, JobDetails)>,
        copies: bool,
    ) -> (Vec<Run>, Vec<(Run, JobDetails)>) {
        old.sort_by_cached_key(|_| uuid::Uuid::new_v4());
        let (mut gone, mut uncopied) = (Vec::new(), Vec::new());
        for (fate, run, details) in old {
            if gone.len() == MOST || uncopied.len() == MOST {
                break;
            }
            if fate == Fate::Forgotten || !copies || self.has_copy(&run).await {
                gone.push(run);
            } else {
                uncopied.push((run, details));
            }
        }
        (gone, uncopied)
    }

    async fn has_copy(&self, run: &Run) -> bool {
        let (reader, run) = (Arc::clone(&self.shared.reader), run.clone());
        matches!(spawn_blocking(move || has_end_of_log(&*reader, &run)).await, Ok(Ok(true)))
    }
}

/// A copy that was taken while the run was still running lacks the end.
fn has_end_of_log(reader: &dyn Reader, run: &Run) -> Result<bool, StoreError> {
    let Some(copy) = reader.log_copy(&run.job, Some(run.attempt))? else { return Ok(false) };
    let attempts = reader.attempts(&run.job)?;
    let ended = attempts.iter().find(|past| past.live.attempt == run.attempt);
    Ok(ended.is_some_and(|past| copy.taken_at >= past.ended_at))
}

/// `phase` is that of the run's job, `end` is reported by the cluster. Runs of unknown jobs wait as
/// long as the others: after a backup is restored, they may belong to jobs accepted since.
fn fate(phase: Option<&Phase>, end: Option<Timestamp>, is_old: impl Fn(Timestamp) -> bool) -> Fate {
    match phase {
        Some(Phase::Ended(ended)) if is_old(ended.at) => Fate::Old,
        None if end.is_some_and(is_old) => Fate::Forgotten,
        _ => Fate::Kept,
    }
}

#[cfg(test)]
mod tests {
    use multicluster_core::record::Ended;
    use multicluster_types::State;

    use super::*;

    #[test]
    fn a_run_that_nobody_knows_waits_as_long_as_the_others() {
        let ended = |at| {
            Phase::Ended(Box::new(Ended {
                state: State::Succeeded,
                at,
                ran: None,
                cluster: None,
                message: None,
            }))
        };
        let is_old = |at| at <= Timestamp(1000);
        let (old, new) = (Timestamp(1000), Timestamp(1001));
        // Our own records win, whatever the cluster's clock says.
        assert_eq!(fate(Some(&ended(old)), Some(new), is_old), Fate::Old);
        assert_eq!(fate(Some(&ended(new)), Some(old), is_old), Fate::Kept);
        assert_eq!(fate(None, Some(old), is_old), Fate::Forgotten);
        assert_eq!(fate(None, Some(new), is_old), Fate::Kept);
        assert_eq!(fate(None, None, is_old), Fate::Kept);
    }
}
