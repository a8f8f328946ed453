//! So many at a time, and of them so many for one. More wait for their turn: so many, for a while.

use std::{hash::Hash, pin::pin, sync::Arc, time::Duration};

use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use super::places::{Full, Place, Places};

/// Turns that are taken and given back.
#[derive(Debug)]
pub(super) struct Turns<K> {
    places: Arc<Places<K>>,
    waiting: Arc<Places<K>>,
    patience: Duration,
    left: Notify,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<K: Eq + Hash> {
    place: Option<Place<K>>,
    turns: Arc<Turns<K>>,
}

impl<K: Eq + Hash + Clone> Turns<K> {
    pub(super) fn new(places: Places<K>, waiting: Places<K>, patience: Duration) -> Self {
        Self { places: Arc::new(places), waiting: Arc::new(waiting), patience, left: Notify::new() }
    }

    /// The next one, or why there is none in time.
    pub(super) async fn enter(self: &Arc<Self>, of: Option<K>) -> Result<Turn<K>, Full> {
        if let Ok(place) = self.places.enter(of.clone()) {
            return Ok(self.turn(place));
        }
        let _waiting = self.waiting.enter(of.clone())?;
        self.enter_by(of, Instant::now() + self.patience).await
    }

    /// The next one, however long it takes: for those of whom there are so many anyway.
    pub(super) async fn wait(self: &Arc<Self>, of: Option<K>) -> Turn<K> {
        loop {
            if let Ok(turn) = self.enter_by(of.clone(), Instant::now() + self.patience).await {
                return turn;
            }
        }
    }

    async fn enter_by(self: &Arc<Self>, of: Option<K>, deadline: Instant) -> Result<Turn<K>, Full> {
        loop {
            // Heard from here on: nobody leaves unnoticed between a look and the wait.
            let mut left = pin!(self.left.notified());
            left.as_mut().enable();
            let full = match self.places.enter(of.clone()) {
                Ok(place) => return Ok(self.turn(place)),
                Err(full) => full,
            };
            timeout_at(deadline, left).await.map_err(|_| full)?;
        }
    }

    fn turn(self: &Arc<Self>, place: Place<K>) -> Turn<K> {
        Turn { place: Some(place), turns: Arc::clone(self) }
    }
}

impl<K: Eq + Hash> Drop for Turn<K> {
    fn drop(&mut self) {
        drop(self.place.take());
        self.turns.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn more_wait_so_many_and_for_a_while_and_one_holds_up_no_other() {
        let patience = Duration::from_secs(5);
        let turns = Arc::new(Turns::new(Places::new(2, 1), Places::new(3, 2), patience));
        let enter = |of: &'static str| turns.enter(Some(of));
        let first = enter("a").await.unwrap();
        let mut second = Box::pin(enter("a"));
        assert!(second.as_mut().now_or_never().is_none());
        let mut third = Box::pin(enter("a"));
        assert!(third.as_mut().now_or_never().is_none());
        assert_eq!(enter("a").now_or_never().unwrap().unwrap_err(), Full::OfOne(2), "no more wait");
        drop(enter("b").now_or_never().expect("others have a turn").unwrap());

        drop(first);
        let second = second.await.unwrap();
        let began = Instant::now();
        assert_eq!(third.await.unwrap_err(), Full::OfOne(1));
        assert!(began.elapsed() <= patience, "nobody waits for longer");
        let mut patient = Box::pin(turns.wait(Some("a")));
        tokio::time::sleep(patience * 3).await;
        assert!(patient.as_mut().now_or_never().is_none());
        drop(second);
        assert!(patient.now_or_never().is_some());
    }
}
