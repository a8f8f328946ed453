//! Moments and lengths of time, as people read them.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::{Timestamp, tz::TimeZone};

/// In milliseconds since the epoch, as the API counts.
pub(crate) fn now() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

/// `0.4s`, `42s`, `12m03s`, `3h12m`, `5d04h`.
pub(crate) fn length(ms: u64) -> String {
    let s = ms / 1000;
    match s {
        0..=9 => format!("{}.{}s", s, ms % 1000 / 100),
        10..=99 => format!("{s}s"),
        100..=5999 => format!("{}m{:02}s", s / 60, s % 60),
        6000..=172_799 => format!("{}h{:02}m", s / 3600, s % 3600 / 60),
        _ => format!("{}d{:02}h", s / 86_400, s % 86_400 / 3600),
    }
}

/// How long ago.
pub(crate) fn since(moment: u64, now: u64) -> String {
    length(now.saturating_sub(moment))
}

/// `in 12s`, or `now`.
pub(crate) fn until(moment: Option<u64>, now: u64) -> String {
    match moment.filter(|moment| *moment > now) {
        Some(moment) => format!("in {}s", (moment - now).div_ceil(1000)),
        None => "now".to_owned(),
    }
}

/// On the clock of this machine: `2026-11-16 09:01:06`.
pub(crate) fn moment(ms: u64) -> String {
    shown(ms, "%Y-%m-%d %H:%M:%S")
}

/// The time of day, for streams.
pub(crate) fn clock(ms: u64) -> String {
    shown(ms, "%H:%M:%S")
}

fn shown(ms: u64, format: &str) -> String {
    let moment = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    moment.map_or("–".to_owned(), |at| at.to_zoned(TimeZone::system()).strftime(format).to_string())
}

/// A time as people write it: `2026-11-16`, `2026-11-16 09:00`, `2026-11-16T09:00:00Z`, or `2h`: so long ago.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    if let Some(length) = ago(text) {
        return Ok(now().saturating_sub(length));
    }
    let hint = "write 2026-11-16, 2026-11-16T09:00, 2026-11-16T09:00:00Z, or 2h for two hours ago";
    let bad = || format!("{text:?} is not a date or time\n  hint: {hint}");
    let moment = match text.parse::<Timestamp>() {
        Ok(moment) => moment,
        Err(_) => {
            let local = text.parse::<jiff::civil::DateTime>().map_err(|_| bad())?;
            local.to_zoned(TimeZone::system()).map_err(|_| bad())?.timestamp()
        }
    };
    u64::try_from(moment.as_millisecond()).map_err(|_| bad())
}

/// `90s`, `30m`, `2h`, `7d`, in milliseconds.
fn ago(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(seconds * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_as_exact_as_they_need_be() {
        for (ms, shown) in [
            (0, "0.0s"),
            (1_450, "1.4s"),
            (42_000, "42s"),
            (723_000, "12m03s"),
            (11_520_000, "3h12m"),
            (446_400_000, "5d04h"),
        ] {
            assert_eq!(length(ms), shown);
        }
        assert_eq!(until(Some(12_400), 0), "in 13s");
        assert_eq!(until(Some(5), 5), "now");
    }

    #[test]
    fn moments_are_read_as_people_write_them() {
        assert_eq!(parse("2026-11-16T09:00:00Z"), Ok(1_794_819_600_000));
        for text in ["2026-11-16", "2026-11-16 09:00", "2026-11-16T09:00:30"] {
            assert!(parse(text).is_ok(), "{text}");
        }
        assert_eq!((ago("90s"), ago("2h"), ago("1d")), (Some(90_000), Some(7_200_000), Some(86_400_000)));
        assert_eq!((ago("h"), ago("2x"), ago("-2h"), ago("")), (None, None, None, None));
        assert!(parse("2h").is_ok_and(|at| now() - at >= 7_200_000));
        assert!(parse("yesterday").unwrap_err().contains("hint: write"));
    }
}
