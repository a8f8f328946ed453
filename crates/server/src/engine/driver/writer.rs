//! The thread that commits the driver's output and then releases it.

use std::{
    thread,
    time::{Duration, Instant},
};

use multicluster_store::{Change, Store, StoreError};
use tokio::{runtime, sync::mpsc, time::timeout};

use super::{Disk, Outbox};
use crate::{clusters::lanes::Lanes, engine::events::Events, metrics::Metrics};

/// With this many changes, a transaction is long enough.
const ENOUGH: usize = 20_000;
/// A disk that is full or slow gets this long to recover; new work is refused in the meantime.
const PATIENCE: Duration = Duration::from_secs(30);
/// Before it is tried again.
const PAUSE: Duration = Duration::from_millis(500);

pub(super) struct Writer {
    pub(super) store: Box<dyn Store>,
    pub(super) disk: Disk,
    pub(super) lanes: Lanes,
    pub(super) events: Events,
    pub(super) metrics: Metrics,
    /// Only for timers.
    pub(super) runtime: runtime::Handle,
}

impl Writer {
    /// Runs until the driver has sent its last outbox. Then another process may take over.
    pub(super) fn run(mut self, mut inbox: mpsc::Receiver<Outbox>) -> Result<(), StoreError> {
        while let Some(first) = self.next(&mut inbox)? {
            self.write(first, &mut inbox)?;
        }
        self.store.resign()
    }

    /// The next outbox. While there is none, a store that is leased is renewed.
    fn next(&mut self, inbox: &mut mpsc::Receiver<Outbox>) -> Result<Option<Outbox>, StoreError> {
        let Some(every) = self.store.renews_every() else { return Ok(inbox.blocking_recv()) };
        loop {
            let received = self.runtime.block_on(async { timeout(every, inbox.recv()).await });
            match received {
                Ok(outbox) => return Ok(outbox),
                Err(_) => self.patiently(0, |store| store.renew())?,
            }
        }
    }

    /// Writes this outbox and all that wait in one transaction.
    pub(super) fn write(
        &mut self,
        first: Outbox,
        inbox: &mut mpsc::Receiver<Outbox>,
    ) -> Result<(), StoreError> {
        let (mut changes, mut batch) = (Vec::new(), Vec::new());
        let (mut next, mut must_sync, mut adopts) = (Some(first), false, false);
        while let Some(mut outbox) = next.take() {
            changes.append(&mut outbox.changes);
            must_sync |= outbox.must_sync;
            adopts |= outbox.adopts;
            batch.push(outbox);
            if changes.len() < ENOUGH {
                next = inbox.try_recv().ok();
            }
        }
        if !changes.is_empty() {
            self.commit(&changes, must_sync)?;
        }
        if adopts {
            self.patiently(0, |store| store.adopted())?;
        }
        batch.into_iter().for_each(|outbox| self.release(outbox));
        self.events.publish(changes.into_iter());
        Ok(())
    }

    /// Changes that cannot be made durable must not take effect. The core is ahead of the store by
    /// now, so the only way out is to exit and start from the durable state.
    fn commit(&mut self, changes: &[Change], must_sync: bool) -> Result<(), StoreError> {
        let started = Instant::now();
        self.patiently(changes.len(), |store| {
            if must_sync { store.commit(changes) } else { store.commit_lightly(changes) }
        })?;
        self.metrics.committed(started.elapsed(), changes.len());
        Ok(())
    }

    fn patiently(
        &mut self,
        changes: usize,
        commit: impl Fn(&mut dyn Store) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        // A lease that is about to expire cannot wait as long as a full disk.
        let pause = self.store.renews_every().map_or(PAUSE, |every| every / 4);
        let mut told: Option<Instant> = None;
        loop {
            let Err(error) = commit(&mut *self.store) else { break };
            let is_over = matches!(error, StoreError::NotLeader { .. });
            if is_over || self.disk.failed(&error) >= PATIENCE {
                return Err(error);
            }
            if told.is_none_or(|told| told.elapsed() >= PAUSE) {
                told = Some(Instant::now());
                tracing::error!(%error, changes, "cannot commit; trying again");
            }
            thread::sleep(pause);
        }
        if let Some(outage) = self.disk.works() {
            tracing::info!(?outage, "commits work again; nothing was lost");
        }
        Ok(())
    }

    fn release(&self, outbox: Outbox) {
        outbox.answers.into_iter().for_each(|answer| answer());
        outbox.lanes.into_iter().for_each(|change| self.lanes.change(change));
        outbox.effects.into_iter().for_each(|(effect, means)| self.lanes.perform(effect, means));
    }
}
