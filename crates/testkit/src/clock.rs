//! Time: tokio's clock drives the jobs, wall-clock milliseconds are derived from it.
//!
//! So in a test with a paused clock, `end_time - start_time` agrees with the time that the test advanced.

use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// A moment on tokio's clock, tied to the wall clock once.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    base: Instant,
    wall_ms: u64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
        Self { base: Instant::now(), wall_ms: u64::try_from(since.as_millis()).expect("milliseconds fit") }
    }

    /// Milliseconds since 1970.
    pub(crate) fn ms(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.base);
        self.wall_ms + u64::try_from(since.as_millis()).expect("milliseconds fit")
    }
}

/// `2026-11-16 02:06:52` in UTC.
pub(crate) fn date(ms: u64) -> String {
    let seconds = ms / 1000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Howard Hinnant's civil_from_days, for days after 1970 only.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    #[test]
    fn dates_are_read_off_milliseconds() {
        assert_eq!(super::date(1_794_794_771_384), "2026-11-16 02:06:11");
        assert_eq!(super::date(951_782_400_000), "2000-02-29 00:00:00");
    }
}
