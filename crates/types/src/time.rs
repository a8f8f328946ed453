//! Time as the core knows it: milliseconds passed in from outside.

use std::{fmt, ops, str::FromStr};

use serde::{Deserialize, Serialize};

/// A moment, in milliseconds since the Unix epoch. Persistable; nothing in the
/// core reads a clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// How long after `earlier` this is; zero if it is before.
    #[must_use]
    pub fn since(self, earlier: Timestamp) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// Makes it `latest` if it is later than that. True if it was.
    pub fn not_after(&mut self, latest: Timestamp) -> bool {
        let is_later = *self > latest;
        *self = latest.min(*self);
        is_later
    }
}

impl ops::Add<Span> for Timestamp {
    type Output = Timestamp;
    fn add(self, span: Span) -> Timestamp {
        Timestamp(self.0.saturating_add(span.0))
    }
}

/// A length of time, in milliseconds. Written `40s`, `5m`, `1.5h`, `250ms`, or as
/// a plain number of seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Span(pub u64);

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);

    /// Whole seconds.
    #[must_use]
    pub const fn seconds(seconds: u64) -> Span {
        Span(seconds.saturating_mul(1000))
    }

    /// Whole minutes.
    #[must_use]
    pub const fn minutes(minutes: u64) -> Span {
        Span::seconds(minutes.saturating_mul(60))
    }

    /// So many times as long.
    #[must_use]
    pub const fn times(self, count: u32) -> Span {
        Span(self.0.saturating_mul(count as u64))
    }

    /// As seconds, for people and metrics.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for display; 2^53 ms is 285,000 years")]
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1000.0
    }
}

/// Why a length of time could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a length of time\n  hint: write 40s, 500ms, 5m, 1.5h, 7d, or a number of seconds")]
pub struct SpanError {
    /// The first characters of the input.
    pub text: String,
}

/// Longer than any sensible setting (about 100 years), so sums cannot overflow.
const LONGEST_MS: f64 = 3.2e12;

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Span, SpanError> {
        let error = || SpanError { text: text.chars().take(40).collect() };
        let trimmed = text.trim();
        let digits = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(digits);
        let unit_ms = match unit.trim() {
            "ms" => 1.0,
            "" | "s" | "sec" | "seconds" => 1000.0,
            "m" | "min" | "minutes" => 60_000.0,
            "h" | "hours" => 3_600_000.0,
            "d" | "days" => 86_400_000.0,
            _ => return Err(error()),
        };
        let ms = number.parse::<f64>().map_err(|_| error())? * unit_ms;
        if !(0.0..=LONGEST_MS).contains(&ms) {
            return Err(error());
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "range checked above")]
        Ok(Span(ms.round() as u64))
    }
}

impl fmt::Display for Span {
    /// The shortest exact form that parses back: `40s`, `1500ms`, `5m`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            0 => "0s".to_owned(),
            ms if ms % 86_400_000 == 0 => format!("{}d", ms / 86_400_000),
            ms if ms % 3_600_000 == 0 => format!("{}h", ms / 3_600_000),
            ms if ms % 60_000 == 0 => format!("{}m", ms / 60_000),
            ms if ms % 1000 == 0 => format!("{}s", ms / 1000),
            ms => format!("{ms}ms"),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spans_are_read_as_people_write_them() {
        for (text, ms) in [
            ("40s", 40_000),
            ("40", 40_000),
            ("0.5", 500),
            ("5 m", 300_000),
            ("1.5h", 5_400_000),
            ("250ms", 250),
            ("7d", 604_800_000),
        ] {
            assert_eq!(text.parse::<Span>().unwrap(), Span(ms), "{text}");
        }
        for bad in ["", "s", "-1s", "NaN", "inf", "1e9", "40x", "99999999999d", "1.2.3"] {
            assert!(bad.parse::<Span>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_span_is_shown_as_it_would_be_read(ms in 0u64..10_000_000_000) {
            prop_assert_eq!(Span(ms).to_string().parse::<Span>().unwrap(), Span(ms));
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") { let _ = text.parse::<Span>(); }
    }
}
