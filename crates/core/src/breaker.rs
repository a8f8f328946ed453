//! The circuit breaker of one cluster.
//!
//! ```text
//!           5 failures in a row              60 s
//!  Closed ─────────────────────▶ Open ───────────────▶ Half open ── one probe
//!    ▲                            ▲                        │
//!    │                            └───── probe fails ──────┤
//!    └───────────────────────────────── probe succeeds ────┘
//! ```
//!
//! The breaker is not durable: after a restart, a failing cluster trips it again.

use multicluster_types::{Reason, Settings, Timestamp};

use crate::jobs::JobKey;

/// The position of the circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Breaker {
    Closed { failures: u32 },
    Open { until: Timestamp },
    HalfOpen { probe: Option<JobKey> },
}

/// The circuit changed its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    Opened { until: Timestamp },
    Closed,
}

impl Default for Breaker {
    fn default() -> Self {
        Breaker::Closed { failures: 0 }
    }
}

impl Breaker {
    /// Why no work may pass now.
    pub(crate) fn reject(self) -> Option<Reason> {
        match self {
            Breaker::Closed { .. } | Breaker::HalfOpen { probe: None } => None,
            Breaker::Open { until } => Some(Reason::BreakerOpen { until }),
            Breaker::HalfOpen { probe: Some(_) } => Some(Reason::BreakerProbing),
        }
    }

    /// A dispatch is under way: if the circuit is half open, this job is the probe.
    pub(crate) fn sent(&mut self, job: JobKey) {
        if let Breaker::HalfOpen { probe } = self {
            *probe = Some(job);
        }
    }

    /// The dispatch did not happen after all: the next one is the probe.
    pub(crate) fn not_sent(&mut self, job: JobKey) {
        if self.is_probe(job) {
            *self = Breaker::HalfOpen { probe: None };
        }
    }

    /// A dispatch worked.
    pub(crate) fn succeeded(&mut self) -> Option<Moved> {
        let was_closed = matches!(self, Breaker::Closed { .. });
        *self = Breaker::default();
        (!was_closed).then_some(Moved::Closed)
    }

    /// A dispatch failed, or its outcome is unknown.
    pub(crate) fn failed(&mut self, now: Timestamp, settings: &Settings) -> Option<Moved> {
        let until = now + settings.breaker_cooldown;
        match self {
            Breaker::Closed { failures } => {
                *failures += 1;
                if *failures < settings.breaker_failures.get() {
                    return None;
                }
            }
            Breaker::HalfOpen { .. } => {}
            // A straggler that was sent before the circuit opened.
            Breaker::Open { .. } => return None,
        }
        *self = Breaker::Open { until };
        Some(Moved::Opened { until })
    }

    /// The cooldown is over: one probe may pass. False if the circuit was not open.
    pub(crate) fn cooled_down(&mut self) -> bool {
        let open = matches!(self, Breaker::Open { .. });
        if open {
            *self = Breaker::HalfOpen { probe: None };
        }
        open
    }

    /// Is this job the probe that all other work waits for?
    pub(crate) fn is_probe(self, job: JobKey) -> bool {
        self == Breaker::HalfOpen { probe: Some(job) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_failures_open_it_and_one_probe_closes_it() {
        let settings = Settings::default();
        let mut breaker = Breaker::default();
        for _ in 0..4 {
            assert_eq!(breaker.failed(Timestamp(0), &settings), None);
        }
        let until = Timestamp(60_000);
        assert_eq!(breaker.failed(Timestamp(0), &settings), Some(Moved::Opened { until }));
        assert_eq!(breaker.reject(), Some(Reason::BreakerOpen { until }));
        assert!(breaker.cooled_down());
        assert_eq!(breaker.reject(), None);
        breaker.sent(JobKey(7));
        assert_eq!(breaker.reject(), Some(Reason::BreakerProbing));
        assert_eq!(breaker.succeeded(), Some(Moved::Closed));
        assert_eq!(breaker, Breaker::Closed { failures: 0 });
    }

    #[test]
    fn a_success_in_between_starts_the_count_anew() {
        let settings = Settings::default();
        let mut breaker = Breaker::default();
        for _ in 0..100 {
            for _ in 0..4 {
                assert_eq!(breaker.failed(Timestamp(0), &settings), None);
            }
            breaker.succeeded();
        }
    }

    #[test]
    fn a_failed_probe_opens_it_again() {
        let settings = Settings::default();
        let mut breaker = Breaker::HalfOpen { probe: Some(JobKey(1)) };
        assert!(breaker.failed(Timestamp(5), &settings).is_some());
        assert_eq!(breaker, Breaker::Open { until: Timestamp(60_005) });
    }
}
