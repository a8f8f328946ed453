//! The thread that commits the driver's output and then releases it.

use std::{
    thread,
    time::{Duration, Instant},
};

use multicluster_store::{Change, Store, StoreError};
use tokio::sync::mpsc;

use super::{Disk, Outbox};
use crate::{clusters::lanes::Lanes, engine::events::Events, metrics::Metrics};

/// With this many changes, a transaction is long enough.
const ENOUGH: usize = 20_000;
/// A disk that is full or slow gets this long to recover; new work is refused in the meantime.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Writer {
    pub(super) store: Box<dyn Store>,
    pub(super) disk: Disk,
    pub(super) lanes: Lanes,
    pub(super) events: Events,
    pub(super) metrics: Metrics,
}

impl Writer {
    /// Runs until the driver has sent its last outbox.
    pub(super) fn run(mut self, mut inbox: mpsc::Receiver<Outbox>) -> Result<(), StoreError> {
        while let Some(first) = inbox.blocking_recv() {
            self.write(first, &mut inbox)?;
        }
        Ok(())
    }

    /// Writes this outbox and all that wait in one transaction.
    pub(super) fn write(
        &mut self,
        first: Outbox,
        inbox: &mut mpsc::Receiver<Outbox>,
    ) -> Result<(), StoreError> {
        let (mut changes, mut batch) = (Vec::new(), Vec::new());
        let (mut next, mut must_sync) = (Some(first), false);
        while let Some(mut outbox) = next.take() {
            changes.append(&mut outbox.changes);
            must_sync |= outbox.must_sync;
            batch.push(outbox);
            if changes.len() < ENOUGH {
                next = inbox.try_recv().ok();
            }
        }
        if !changes.is_empty() {
            self.commit(&changes, must_sync)?;
        }
        batch.into_iter().for_each(|outbox| self.release(outbox));
        self.events.publish(changes.into_iter());
        Ok(())
    }

    /// Changes that cannot be made durable must not take effect. The core is ahead of the store by
    /// now, so the only way out is to exit and start from the durable state.
    fn commit(&mut self, changes: &[Change], must_sync: bool) -> Result<(), StoreError> {
        let started = Instant::now();
        loop {
            let store = &mut self.store;
            let committed = if must_sync { store.commit(changes) } else { store.commit_lightly(changes) };
            let Err(error) = committed else { break };
            if self.disk.failed(&error) >= PATIENCE {
                return Err(error);
            }
            tracing::error!(%error, changes = changes.len(), "cannot commit; trying again");
            thread::sleep(Duration::from_millis(500));
        }
        if let Some(outage) = self.disk.works() {
            tracing::info!(?outage, "commits work again; nothing was lost");
        }
        self.metrics.committed(started.elapsed(), changes.len());
        Ok(())
    }

    fn release(&self, outbox: Outbox) {
        outbox.answers.into_iter().for_each(|answer| answer());
        outbox.lanes.into_iter().for_each(|change| self.lanes.change(change));
        outbox.effects.into_iter().for_each(|(effect, means)| self.lanes.perform(effect, means));
    }
}
