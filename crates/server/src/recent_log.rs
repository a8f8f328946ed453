//! The latest lines of this process's own log, in memory, for `GET /v1/log`.
//!
//! One for the process, as the subscriber of `tracing` is.

use std::{collections::VecDeque, io};

use parking_lot::Mutex;

use crate::redact::redact_text;

/// What is kept, in bytes.
const MOST_BYTES: usize = 256 << 10;
/// Longer lines are cut.
const LONGEST: usize = 4 << 10;

static KEPT: Mutex<Kept> = Mutex::new(Kept { lines: VecDeque::new(), bytes: 0, dropped: 0 });

#[derive(Default)]
struct Kept {
    lines: VecDeque<String>,
    bytes: usize,
    dropped: u64,
}

/// Takes the lines of a log: one for each call of `write`.
pub(crate) struct RecentLog;

impl RecentLog {
    /// The lines without secrets, the oldest first, and how many older ones there were.
    pub(crate) fn lines() -> (Vec<String>, u64) {
        let (lines, dropped) = {
            let kept = KEPT.lock();
            (Vec::from_iter(kept.lines.iter().cloned()), kept.dropped)
        };
        (lines.iter().map(|line| redact_text(line)).collect(), dropped)
    }
}

impl io::Write for RecentLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end();
        KEPT.lock().push(text[..text.floor_char_boundary(LONGEST)].to_owned());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Kept {
    fn push(&mut self, line: String) {
        self.bytes += line.len();
        self.lines.push_back(line);
        while self.bytes > MOST_BYTES
            && let Some(oldest) = self.lines.pop_front()
        {
            self.bytes -= oldest.len();
            self.dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_lines_are_kept_and_the_memory_is_bounded() {
        let mut kept = Kept::default();
        for nth in 0..1000 {
            kept.push(format!("{nth} {}", "x".repeat(1000)));
        }
        assert!(kept.bytes <= MOST_BYTES);
        assert_eq!(kept.bytes, kept.lines.iter().map(String::len).sum::<usize>());
        assert!(kept.lines.back().is_some_and(|line| line.starts_with("999 ")));
        assert_eq!(kept.dropped + kept.lines.len() as u64, 1000);
    }
}
