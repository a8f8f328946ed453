//! Long polls: callers that wait for one job each.
//!
//! One task hears every event and wakes those who wait for that job, so that a thousand
//! waiters cost nothing while other jobs change.

use std::{collections::HashMap, sync::Arc, time::Duration};

use multicluster_core::{Core, Refusal, record::JobRecord};
use multicluster_types::JobId;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, broadcast::error::RecvError},
    time::{Instant, timeout},
};

use crate::{
    engine::{
        driver::{Failure, Turn},
        events::Events,
    },
    front::plane::Plane,
    problem::Problem,
};

/// Who waits for what.
#[derive(Clone, Default)]
pub(super) struct Waiters(Arc<Mutex<Waiting>>);

type Waiting = HashMap<JobId, (Arc<Notify>, usize)>;

impl Waiters {
    /// Listens until there are no events any more.
    pub(super) fn start(events: &Events) -> Self {
        let waiters = Self::default();
        let (waiting, mut events) = (Arc::downgrade(&waiters.0), events.watch());
        tokio::spawn(async move {
            loop {
                let event = events.recv().await;
                let Some(waiting) = waiting.upgrade() else { return };
                let waiting = waiting.lock();
                match event {
                    Ok(event) => {
                        let waiter = event.job.as_ref().and_then(|job| waiting.get(job));
                        waiter.into_iter().for_each(|(notify, _)| notify.notify_waiters());
                    }
                    // Some were missed: anybody's may be among them.
                    Err(RecvError::Lagged(_)) => {
                        waiting.values().for_each(|(notify, _)| notify.notify_waiters());
                    }
                    Err(RecvError::Closed) => return,
                }
            }
        });
        waiters
    }

    /// What `see` sees as soon as it is ready, or as it is when the time is up; `see` is told
    /// whether this is the last time. Only what is durable is seen: a grant that a crash
    /// could undo must not be acted on.
    pub(super) async fn until<T: Send + 'static>(
        &self,
        plane: &Plane,
        job: &JobId,
        patience: Duration,
        see: impl Fn(&mut Turn, &JobId, bool) -> Result<T, Refusal> + Copy + Send + 'static,
        ready: impl Fn(&T) -> bool,
    ) -> Result<T, Problem> {
        let deadline = Instant::now() + patience;
        let waiter = Waiter::new(self, job);
        loop {
            // Enabled before the look, so that what happens in between is not missed.
            let mut news = std::pin::pin!(waiter.notify.notified());
            news.as_mut().enable();
            let left = deadline.saturating_duration_since(Instant::now());
            let (id, last) = (job.clone(), left.is_zero());
            let look = move |turn: &mut Turn| {
                see(turn, &id, last).map(|seen| (seen, asked_again_after(turn.core())))
            };
            let (seen, again) = plane.driver.turn(look).await?.map_err(Failure::Refused)?;
            if ready(&seen) || last {
                return Ok(seen);
            }
            // Time being up shows in the next round.
            drop(timeout(left.min(again), news).await);
        }
    }
}

/// A caller that waits for a placement is heard of more often than leases expire.
pub(super) fn asked_again_after(core: &Core) -> Duration {
    Duration::from_millis((core.settings().lease_ttl.0 / 3).max(20))
}

/// One caller that waits for one job; the entry goes with the last.
struct Waiter<'a> {
    waiters: &'a Waiters,
    job: &'a JobId,
    notify: Arc<Notify>,
}

impl<'a> Waiter<'a> {
    fn new(waiters: &'a Waiters, job: &'a JobId) -> Self {
        let mut waiting = waiters.0.lock();
        let (notify, count) = waiting.entry(job.clone()).or_default();
        *count += 1;
        let notify = Arc::clone(notify);
        drop(waiting);
        Self { waiters, job, notify }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut waiting = self.waiters.0.lock();
        if let Some((_, count)) = waiting.get_mut(self.job) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(self.job);
            }
        }
    }
}

/// The job as it is committed.
pub(super) async fn stored(plane: &Plane, job: &JobId) -> Result<JobRecord, Problem> {
    let id = job.clone();
    let found = plane.stored(move |store| store.job(&id)).await?;
    let stored = found.ok_or_else(|| Failure::Refused(Refusal::UnknownJob { job: job.clone() }))?;
    Ok(stored.record)
}
