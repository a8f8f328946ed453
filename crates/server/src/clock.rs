//! The clock of the control plane.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use multicluster_types::{Span, Timestamp};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Wall time that never stands still and never goes back. Lanes and the core share one clock, so
/// that their times can be compared.
///
/// It follows the wall clock forward, also over a laptop's sleep, which a monotonic clock does not
/// see. When the wall clock is set back, this clock goes on at its own pace, so that no timer waits
/// for the wall clock to catch up. Its own pace is that of tokio's timers: a test that pauses
/// tokio's clock pauses this one too.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    reading: Arc<Mutex<Reading>>,
    /// Where the time comes from, besides its own pace.
    wall: fn() -> Timestamp,
}

#[derive(Debug)]
struct Reading {
    time: Timestamp,
    at: Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { wall, ..Self::of(wall()) }
    }

    /// A clock that was set by another one, and goes at its own pace: that of a database, for example,
    /// so that replicas whose wall clocks differ agree.
    pub(crate) fn of(time: Timestamp) -> Self {
        let reading = Arc::new(Mutex::new(Reading { time, at: Instant::now() }));
        Self { reading, wall: Timestamp::default }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.reading.lock().advance((self.wall)(), Instant::now())
    }
}

impl Reading {
    fn advance(&mut self, wall: Timestamp, instant: Instant) -> Timestamp {
        let own = self.time.0.saturating_add(millis(instant.duration_since(self.at)));
        let time = Timestamp(own).max(wall);
        // Fractions of a millisecond are kept for the next reading.
        if time > self.time {
            *self = Reading { time, at: instant };
        }
        time
    }
}

pub(crate) fn wall() -> Timestamp {
    Timestamp(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis))
}

pub(crate) fn span(duration: Duration) -> Span {
    Span(millis(duration))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_when_the_wall_clock_is_set_back_and_follows_it_forward() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let mut clock = Reading { time: Timestamp(10_000), at: start };
        assert_eq!(clock.advance(Timestamp(5_000), after(300)), Timestamp(10_300));
        assert_eq!(clock.advance(Timestamp(5_300), after(600)), Timestamp(10_600));
        assert_eq!(clock.advance(Timestamp(90_000), after(900)), Timestamp(90_000));
    }
}
