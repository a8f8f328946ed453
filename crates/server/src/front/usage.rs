//! Tracks whether the control plane is in use: one that is idle may exit without harm.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// Counts requests under way. Every request enters here, until the door is closed.
#[derive(Debug, Clone)]
pub(crate) struct Usage(Arc<Mutex<Door>>);

#[derive(Debug)]
struct Door {
    inside: usize,
    last_left: Instant,
    closed: bool,
}

/// A request, or a stream that outlives it, is under way.
#[derive(Debug)]
pub(crate) struct Using(Usage);

impl Usage {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Door { inside: 0, last_left: Instant::now(), closed: false })))
    }

    /// Lets a request in; `None` once the door is closed.
    pub(crate) fn enter(&self) -> Option<Using> {
        let mut door = self.0.lock();
        if door.closed {
            return None;
        }
        door.inside += 1;
        Some(Using(self.clone()))
    }

    /// Closes the door for good if no request was inside for that long. A request either comes
    /// before that and is served to its end, or comes after it and is refused.
    pub(crate) fn close_if_unused(&self, for_so_long: Duration) -> bool {
        let mut door = self.0.lock();
        door.closed |= door.inside == 0 && door.last_left.elapsed() >= for_so_long;
        door.closed
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        let mut door = self.0.0.lock();
        door.inside -= 1;
        door.last_left = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_door_closes_only_behind_the_last_and_stays_closed() {
        let usage = Usage::new();
        let (one, two) = (usage.enter().unwrap(), usage.enter().unwrap());
        drop(one);
        assert!(!usage.close_if_unused(Duration::ZERO), "one is inside yet");
        drop(two);
        assert!(!usage.close_if_unused(Duration::from_secs(60)), "it left just now");
        assert!(usage.close_if_unused(Duration::ZERO));
        assert!(usage.enter().is_none());
        assert!(usage.close_if_unused(Duration::from_secs(60)), "for good");
    }
}
