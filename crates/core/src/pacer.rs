//! How many jobs one cluster may be starting at once, learnt from how the cluster copes.
//!
//! ```text
//!  max_starting ┐     ┌──── one more for each round of jobs that started well
//!               └┐  ┌─┘
//!   slow, or no  └──┘ half
//! ```
//!
//! Like TCP: additive increase, multiplicative decrease. A place becomes free when a job is seen
//! running, so the window sets the rate: a slow head gets less to do. The window is not durable:
//! after a restart, an overloaded cluster lowers it again.

use multicluster_types::{Message, Span, Timestamp};

/// Requests sent before a cut say nothing about the cut. So there is no second cut for as long as
/// a request may take.
const COOL_DOWN: Span = Span::seconds(10);
/// After this long without trouble, the window is reset: with few jobs, starts alone would take
/// forever to widen it.
const FORGET: Span = Span::seconds(300);

/// The window of one cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Pacer(Option<Lowered>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Lowered {
    window: u32,
    /// Jobs that started well since the window last changed.
    started: u32,
    cut_at: Timestamp,
    why: Message,
}

impl Pacer {
    /// How many may be starting at once, where the settings allow `most`.
    pub(crate) fn window(&self, most: u32) -> u32 {
        self.0.as_ref().map_or(most, |lowered| lowered.window.min(most))
    }

    /// Why the window is smaller than `most`.
    pub(crate) fn why(&self, most: u32) -> Option<&Message> {
        self.0.as_ref().filter(|lowered| lowered.window < most).map(|lowered| &lowered.why)
    }

    /// The cluster does not cope: half as many jobs may be starting from now on.
    pub(crate) fn trouble(&mut self, now: Timestamp, most: u32, why: Message) {
        if self.0.as_ref().is_some_and(|lowered| now < lowered.cut_at + COOL_DOWN) {
            return;
        }
        let window = (self.window(most) / 2).max(1);
        self.0 = Some(Lowered { window, started: 0, cut_at: now, why });
    }

    /// Resets the window if all is well. True if more jobs may be starting from now on.
    pub(crate) fn forget(&mut self, now: Timestamp) -> bool {
        self.0.take_if(|lowered| now >= lowered.cut_at + FORGET).is_some()
    }

    /// A job was seen running.
    pub(crate) fn started(&mut self, most: u32) {
        let Some(lowered) = &mut self.0 else { return };
        lowered.started += 1;
        if lowered.started >= lowered.window {
            (lowered.window, lowered.started) = (lowered.window + 1, 0);
        }
        if lowered.window >= most {
            self.0 = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(pacer: &mut Pacer, seconds: u64) {
        pacer.trouble(Timestamp(seconds * 1000), 16, "it was slow".into());
    }

    #[test]
    fn trouble_halves_it_and_starts_bring_it_back_one_by_one() {
        let mut pacer = Pacer::default();
        assert_eq!((pacer.window(16), pacer.why(16)), (16, None));
        cut(&mut pacer, 0);
        assert_eq!((pacer.window(16), pacer.why(16).map(Message::as_str)), (8, Some("it was slow")));
        for wanted in 9..=15 {
            for _ in 1..wanted {
                assert_eq!(pacer.window(16), wanted - 1);
                pacer.started(16);
            }
            assert_eq!(pacer.window(16), wanted);
        }
        (0..15).for_each(|_| pacer.started(16));
        assert_eq!(pacer, Pacer::default());
    }

    #[test]
    fn a_burst_of_bad_news_is_one_piece_of_news() {
        let mut pacer = Pacer::default();
        (0..10).for_each(|second| cut(&mut pacer, second));
        assert_eq!(pacer.window(16), 8);
        cut(&mut pacer, 10);
        assert_eq!(pacer.window(16), 4);
    }

    #[test]
    fn one_may_always_start() {
        let mut pacer = Pacer::default();
        (0..100).for_each(|n| cut(&mut pacer, n * 10));
        assert_eq!(pacer.window(16), 1);
        pacer.started(16);
        assert_eq!(pacer.window(16), 2);
    }

    #[test]
    fn what_is_long_ago_is_forgotten() {
        let mut pacer = Pacer::default();
        assert!(!pacer.forget(Timestamp(0)));
        cut(&mut pacer, 0);
        assert!(!pacer.forget(Timestamp(299_999)));
        assert!(pacer.forget(Timestamp(300_000)));
        assert_eq!(pacer.window(16), 16);
    }

    #[test]
    fn the_setting_is_obeyed_at_once() {
        let mut pacer = Pacer::default();
        cut(&mut pacer, 0);
        assert_eq!((pacer.window(4), pacer.why(4)), (4, None));
        assert_eq!(pacer.window(100), 8);
    }
}
