//! Limits how many are under way at a time, in total and for one key. More wait for their turn,
//! first come, first served; their number and their wait are limited, too.

use std::{collections::HashMap, hash::Hash, sync::Arc, time::Duration};

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

use super::places::{Full, Places};

/// Turns that are taken and given back.
#[derive(Debug)]
pub(super) struct Turns<K> {
    most: usize,
    each: usize,
    all: Arc<Semaphore>,
    /// One for each key that has or wants a turn.
    own: Mutex<HashMap<K, Arc<Semaphore>>>,
    in_line: Arc<Places<K>>,
    patience: Duration,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    _of_all: OwnedSemaphorePermit,
    _of_own: Option<OwnedSemaphorePermit>,
}

impl<K: Eq + Hash + Clone> Turns<K> {
    pub(super) fn new(most: usize, each: usize, in_line: Places<K>, patience: Duration) -> Self {
        let (all, in_line) = (Arc::new(Semaphore::new(most)), Arc::new(in_line));
        Self { most, each, all, own: Mutex::default(), in_line, patience }
    }

    /// Waits for the next turn; an error says why there is none in time.
    pub(super) async fn enter(&self, of: Option<K>) -> Result<Permit, Full> {
        if let Some(turn) = self.wait(of.clone()).now_or_never() {
            return Ok(turn);
        }
        let _in_line = self.in_line.enter(of.clone())?;
        let deadline = Instant::now() + self.patience;
        let own = timeout_at(deadline, self.own(of)).await.map_err(|_| Full::OfOne(self.each))?;
        timeout_at(deadline, self.with(own)).await.map_err(|_| Full::All(self.most))
    }

    /// Waits for the next turn, however long it takes: for callers whose number is already limited.
    pub(super) async fn wait(&self, of: Option<K>) -> Permit {
        let own = self.own(of).await;
        self.with(own).await
    }

    /// Taken before the turn among all: an owner with many requests stands in that line `each`
    /// times.
    async fn own(&self, of: Option<K>) -> Option<OwnedSemaphorePermit> {
        let semaphore = {
            let mut own = self.own.lock();
            own.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
            Arc::clone(own.entry(of?).or_insert_with(|| Arc::new(Semaphore::new(self.each))))
        };
        Some(permit(semaphore).await)
    }

    async fn with(&self, own: Option<OwnedSemaphorePermit>) -> Permit {
        Permit { _of_all: permit(Arc::clone(&self.all)).await, _of_own: own }
    }
}

async fn permit(semaphore: Arc<Semaphore>) -> OwnedSemaphorePermit {
    semaphore.acquire_owned().await.expect("it is never closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn more_wait_so_many_and_for_a_while_and_one_holds_up_no_other() {
        let patience = Duration::from_secs(5);
        let turns = Turns::new(2, 1, Places::new(3, 2), patience);
        let enter = |of: &'static str| turns.enter(Some(of));
        let first = enter("a").await.unwrap();
        let mut second = Box::pin(enter("a"));
        assert!(second.as_mut().now_or_never().is_none());
        let mut third = Box::pin(enter("a"));
        assert!(third.as_mut().now_or_never().is_none());
        assert_eq!(enter("a").now_or_never().unwrap().unwrap_err(), Full::OfOne(2), "no more wait");
        drop(enter("b").now_or_never().expect("others have a turn").unwrap());

        drop(first);
        assert!(third.as_mut().now_or_never().is_none(), "the one before is first");
        let second = second.await.unwrap();
        let began = Instant::now();
        assert_eq!(third.await.unwrap_err(), Full::OfOne(1));
        assert!(began.elapsed() <= patience, "nobody waits for longer");
        let mut patient = Box::pin(turns.wait(Some("a")));
        tokio::time::sleep(patience * 3).await;
        assert!(patient.as_mut().now_or_never().is_none());
        drop(second);
        assert!(patient.now_or_never().is_some());
        drop(enter("b").await.unwrap());
        assert_eq!(turns.own.lock().len(), 1, "nothing is kept of who left");
    }

    #[tokio::test(start_paused = true)]
    async fn when_all_are_taken_nobody_new_overtakes_who_waits() {
        let turns = Turns::new(1, 1, Places::new(3, 2), Duration::from_secs(5));
        let first = turns.enter(Some("a")).await.unwrap();
        let mut second = Box::pin(turns.enter(Some("b")));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        let mut third = Box::pin(turns.enter(Some("c")));
        assert!(third.as_mut().now_or_never().is_none());
        let second = second.await.unwrap();
        assert_eq!(third.await.unwrap_err(), Full::All(1));
        drop(second);
    }
}
