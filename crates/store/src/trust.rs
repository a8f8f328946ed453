//! Until when a control plane may act and answer from memory.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

/// A moment on a clock that also counts the time that the machine was suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// The present moment.
    #[must_use]
    pub fn now() -> Self {
        #[cfg(target_os = "linux")]
        let clock = rustix::time::ClockId::Boottime;
        // On macOS, this clock counts sleep.
        #[cfg(not(target_os = "linux"))]
        let clock = rustix::time::ClockId::Monotonic;
        let now = rustix::time::clock_gettime(clock);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
        // Never 0, which means "ended".
        Self(seconds.saturating_mul(1_000_000_000).saturating_add(nanos).max(1))
    }

    /// How long ago this was.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        Duration::from_nanos(Self::now().0.saturating_sub(self.0))
    }
}

/// The window in which this process is certain that no other one leads. The store extends it with each
/// commit, from the moment at which the commit was *sent*: whatever happens on the way back, the lease
/// in the database ends later. Once it ended, it never holds again: the next leadership has its own.
#[derive(Debug, Clone)]
pub struct Trust(Arc<Window>);

#[derive(Debug)]
struct Window {
    /// In nanoseconds; [`ENDED`] or [`ALWAYS`].
    until: AtomicU64,
    changed: Notify,
}

const ENDED: u64 = 0;
const ALWAYS: u64 = u64::MAX;

impl Trust {
    /// For a store that belongs to this process alone.
    #[must_use]
    pub fn always() -> Self {
        Self::until(ALWAYS)
    }

    /// From the moment at which the lease was requested.
    #[must_use]
    pub fn since(sent: Moment, window: Duration) -> Self {
        Self::until(end(sent, window))
    }

    fn until(until: u64) -> Self {
        Self(Arc::new(Window { until: AtomicU64::new(until), changed: Notify::new() }))
    }

    /// May this process act and answer now? To be asked as late as possible: right before a request to a
    /// cluster leaves, and before an answer.
    #[must_use]
    pub fn holds(&self) -> bool {
        match self.0.until.load(Ordering::Acquire) {
            ENDED => false,
            ALWAYS => true,
            until => Moment::now().0 < until,
        }
    }

    /// A renewal that was sent at this moment has arrived. Has no effect once the trust ended.
    pub fn extend(&self, sent: Moment, window: Duration) {
        let until = end(sent, window);
        let longer = |now: u64| (now != ENDED && now < until).then_some(until);
        if self.0.until.fetch_update(Ordering::AcqRel, Ordering::Acquire, longer).is_ok() {
            self.0.changed.notify_waiters();
        }
    }

    /// Another one may lead from now on.
    pub fn end(&self) {
        self.0.until.store(ENDED, Ordering::Release);
        self.0.changed.notify_waiters();
    }

    /// Did it end for good?
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0.until.load(Ordering::Acquire) == ENDED
    }

    /// Waits while the window is over but may be extended. True: it holds (again). False: it ended.
    pub async fn wait(&self) -> bool {
        loop {
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            // Before the look, so that no change between the look and the wait is missed.
            changed.as_mut().enable();
            if self.holds() {
                return true;
            }
            if self.has_ended() {
                return false;
            }
            changed.await;
        }
    }
}

fn end(sent: Moment, window: Duration) -> u64 {
    let window = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
    sent.0.saturating_add(window).clamp(ENDED + 1, ALWAYS - 1)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const WINDOW: Duration = Duration::from_millis(40);

    #[test]
    fn it_holds_from_the_moment_of_sending_and_no_longer() {
        let sent = Moment::now();
        let trust = Trust::since(sent, WINDOW);
        assert!(trust.holds() && !trust.has_ended());
        thread::sleep(WINDOW);
        assert!(!trust.holds() && !trust.has_ended());
        // An answer that took longer than the window extends nothing.
        trust.extend(sent, WINDOW);
        assert!(!trust.holds());
        trust.extend(Moment::now(), Duration::from_secs(60));
        assert!(trust.holds());
        // A late answer to an earlier renewal does not shorten it.
        trust.extend(sent, WINDOW);
        assert!(trust.holds());
    }

    #[test]
    fn it_never_holds_again_once_it_ended() {
        for trust in [Trust::always(), Trust::since(Moment::now(), WINDOW)] {
            assert!(trust.holds());
            trust.clone().end();
            assert!(!trust.holds() && trust.has_ended());
            trust.extend(Moment::now(), Duration::from_secs(60));
            assert!(!trust.holds());
        }
    }

    #[tokio::test]
    async fn who_waits_is_told_of_both_ends() {
        for ends in [false, true] {
            let trust = Trust::since(Moment::now(), Duration::ZERO);
            let waits = tokio::spawn({
                let trust = trust.clone();
                async move { trust.wait().await }
            });
            tokio::task::yield_now().await;
            if ends {
                trust.end();
            } else {
                trust.extend(Moment::now(), Duration::from_secs(60));
            }
            assert_eq!(waits.await.unwrap(), !ends);
        }
    }
}
