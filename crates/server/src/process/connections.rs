//! The open connections, and which of them are idle.
//!
//! When all places are taken, the connection that has been idle for longest is closed for the new
//! one. So a client that opens thousands of connections and sends nothing, or never completes the
//! head of a request, locks no one out. If no connection is idle, a few spare ones only answer that
//! the client should come back later.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

/// Connections beyond the limit, which are only told to come back later.
const SPARE: usize = 64;

/// All open connections.
pub(super) struct Connections {
    most: usize,
    open: Mutex<Open>,
    /// A connection was closed or became idle.
    changed: Arc<Notify>,
}

#[derive(Default)]
struct Open {
    last: u64,
    /// By number: connections with a place, and spare ones.
    placed: HashMap<u64, Arc<State>>,
    spare: HashMap<u64, Arc<State>>,
}

impl Open {
    fn those(&mut self, is_spare: bool) -> &mut HashMap<u64, Arc<State>> {
        if is_spare { &mut self.spare } else { &mut self.placed }
    }
}

struct State {
    is_spare: bool,
    doing: Mutex<Doing>,
    leave: Notify,
    changed: Arc<Notify>,
}

struct Doing {
    requests: usize,
    /// The client reads more slowly than we write.
    writing: bool,
    /// When the last request or write ended.
    since: Instant,
}

/// An open connection, until it is dropped.
pub(super) struct Connection {
    all: Arc<Connections>,
    number: u64,
    state: Arc<State>,
}

/// A request on this connection is under way, until its answer is sent.
pub(super) struct Asking(Arc<State>);

impl Connections {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, open: Mutex::default(), changed: Arc::default() })
    }

    /// Waits for a place. True: another connection was closed for it.
    pub(super) async fn enter(self: &Arc<Self>) -> (Connection, bool) {
        loop {
            // Enabled before the check, so that a change in between is not missed.
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            for is_spare in [false, true] {
                if let Some(connection) = self.try_enter(is_spare) {
                    return (connection, false);
                }
                if self.close_idlest(is_spare)
                    && let Some(connection) = self.try_enter(is_spare)
                {
                    return (connection, true);
                }
            }
            changed.await;
        }
    }

    fn try_enter(self: &Arc<Self>, is_spare: bool) -> Option<Connection> {
        let mut open = self.open.lock();
        if open.those(is_spare).len() >= if is_spare { SPARE } else { self.most } {
            return None;
        }
        open.last += 1;
        let number = open.last;
        let doing = Mutex::new(Doing { requests: 0, writing: false, since: Instant::now() });
        let (leave, changed) = (Notify::new(), Arc::clone(&self.changed));
        let state = Arc::new(State { is_spare, doing, leave, changed });
        open.those(is_spare).insert(number, Arc::clone(&state));
        Some(Connection { all: Arc::clone(self), number, state })
    }

    /// Tells the connection that has been idle for longest, of the spare ones or of the others, to
    /// close. Its place is free at once. Returns false if all are being served.
    pub(super) fn close_idlest(&self, is_spare: bool) -> bool {
        let mut open = self.open.lock();
        let those = open.those(is_spare);
        let idle = those.iter().filter_map(|(number, state)| Some((state.idle_since()?, *number)));
        let Some((_, idlest)) = idle.min() else { return false };
        if let Some(state) = those.remove(&idlest) {
            state.leave.notify_one();
        }
        true
    }
}

impl State {
    fn idle_since(&self) -> Option<Instant> {
        let doing = self.doing.lock();
        (doing.requests == 0 && !doing.writing).then_some(doing.since)
    }
}

impl Connection {
    /// Whether this is a spare connection: all its requests are refused.
    pub(super) fn is_spare(&self) -> bool {
        self.state.is_spare
    }

    /// A request has arrived.
    pub(super) fn asks(&self) -> Asking {
        self.state.doing.lock().requests += 1;
        Asking(Arc::clone(&self.state))
    }

    /// Notes whether the client reads more slowly than we write.
    pub(super) fn writes(&self, writing: bool) {
        let mut doing = self.state.doing.lock();
        doing.writing = writing;
        doing.since = Instant::now();
        drop(doing);
        if !writing {
            self.state.changed.notify_one();
        }
    }

    /// Completes when the connection has been idle for this long.
    pub(super) async fn idle_for(&self, span: Duration) {
        loop {
            let idle = self.state.idle_since().map_or(Duration::ZERO, |since| since.elapsed());
            if idle >= span {
                return;
            }
            tokio::time::sleep(span - idle).await;
        }
    }

    /// Completes when another connection gets this one's place.
    pub(super) async fn told_to_leave(&self) {
        self.state.leave.notified().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.all.open.lock().those(self.is_spare()).remove(&self.number);
        self.all.changed.notify_one();
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let mut doing = self.0.doing.lock();
        doing.requests -= 1;
        doing.since = Instant::now();
        drop(doing);
        self.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the connection was told to close.
    async fn must_leave(connection: &Connection) -> bool {
        tokio::time::timeout(Duration::from_millis(50), connection.told_to_leave()).await.is_ok()
    }

    #[tokio::test]
    async fn the_idlest_makes_room_and_who_is_being_served_stays() {
        let all = Connections::new(3);
        let (served, _) = all.enter().await;
        let asking = served.asks();
        let (first, _) = all.enter().await;
        let (second, made_room) = all.enter().await;
        assert!(!made_room);
        drop(first.asks());
        let (third, made_room) = all.enter().await;
        assert!(made_room && must_leave(&second).await, "it asked nothing for longest");
        assert!(!must_leave(&served).await && !must_leave(&first).await);

        let [_first, third_asks] = [first.asks(), third.asks()];
        let (spare, made_room) = all.enter().await;
        assert!(spare.is_spare() && !made_room, "all are being served");
        drop(spare);
        let spare: Vec<_> = futures_util::future::join_all((0..SPARE).map(|_| all.enter())).await;
        let asks: Vec<_> = spare.iter().map(|(spare, _)| spare.asks()).collect();
        let entering = tokio::spawn({
            let all = Arc::clone(&all);
            async move { all.enter().await }
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!entering.is_finished(), "there are not even spare ones");
        drop((asks, spare, third_asks));
        let (entered, _) = tokio::time::timeout(Duration::from_secs(5), entering).await.unwrap().unwrap();
        drop((entered, asking, served, first, third));
        let open = all.open.lock();
        assert!(open.placed.is_empty() && open.spare.is_empty());
    }
}
