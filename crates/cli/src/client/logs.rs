//! A job's log as it is written, over attempts and over restarts of the control plane.

use std::collections::HashSet;

use serde::Deserialize;

use super::{Client, sse::EventSource};
use crate::exit::Failure;

/// A part of a log stream.
pub(crate) enum LogEvent {
    /// Output of the job.
    Text { attempt: u32, cluster: String, text: String },
    /// A line of the control plane's own.
    Note(String),
    /// The end of the log.
    End,
}

#[derive(Deserialize)]
struct Piece {
    attempt: u32,
    cluster: String,
    from: u64,
    text: String,
}

#[derive(Deserialize)]
struct Note {
    text: String,
}

/// The part of a log that is wanted; by default all of it, until the job ends.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LogPart {
    /// Only this attempt.
    pub(crate) attempt: Option<u32>,
    /// Begins with the last lines.
    pub(crate) lines: Option<u32>,
    /// Ends with what there is now.
    pub(crate) once: bool,
}

/// The log of one job, from its beginning; sent again from there after the connection breaks.
pub(crate) struct LogFollower {
    source: EventSource,
    told: Told,
    /// Notes have no numbers: they come again after the connection breaks.
    notes: HashSet<String>,
}

const LINES: &str = "lines";

/// The latest attempt, and how many bytes of its log have been passed on.
#[derive(Default)]
struct Told {
    attempt: u32,
    bytes: u64,
}

impl LogFollower {
    pub(crate) async fn open(client: &Client, job: &str, part: LogPart) -> Result<Self, Failure> {
        let LogPart { attempt, lines, once } = part;
        let numbers = [("attempt", attempt), (LINES, lines)].into_iter();
        let query = numbers
            .filter_map(|(name, number)| Some((name, number?.to_string())))
            .chain(once.then(|| ("once", "true".to_owned())));
        let path = ["v1", "jobs", job, "logs", "follow"];
        let source = EventSource::open(client, &path, query.collect(), None).await?;
        Ok(Self { source, told: Told::default(), notes: HashSet::new() })
    }

    pub(crate) async fn next(&mut self) -> Result<LogEvent, Failure> {
        loop {
            let event = self.source.next().await?;
            match event.name.as_str() {
                "end" => return Ok(LogEvent::End),
                "note" => {
                    if let Ok(Note { text }) = serde_json::from_str(&event.data)
                        && self.notes.insert(text.clone())
                    {
                        return Ok(LogEvent::Note(text));
                    }
                }
                _ => {
                    let piece = serde_json::from_str(&event.data).ok();
                    // The last lines are others after a break: then from the beginning, less what was
                    // passed on.
                    self.source.forget(LINES);
                    if let Some(told) = piece.and_then(|piece| self.told.rest_of(piece)) {
                        return Ok(told);
                    }
                }
            }
        }
    }
}

impl Told {
    /// The new part of a piece.
    fn rest_of(&mut self, piece: Piece) -> Option<LogEvent> {
        let Piece { attempt, cluster, from, mut text } = piece;
        let end = from + text.len() as u64;
        let known = if attempt == self.attempt { self.bytes } else { 0 };
        if attempt < self.attempt || end <= known {
            return None;
        }
        // Both ends of the passed part are character boundaries.
        let skip = usize::try_from(known.saturating_sub(from)).unwrap_or(usize::MAX);
        if skip > 0 && text.is_char_boundary(skip) {
            text.drain(..skip);
        }
        *self = Self { attempt, bytes: end };
        Some(LogEvent::Text { attempt, cluster, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_again_after_a_break_is_not_shown_again() {
        let mut seen = Told::default();
        let mut told = String::new();
        for (attempt, from, text) in [
            (1, 0, "one\n"),
            (1, 4, "two\n"),
            // The connection broke off: from the beginning, in other pieces.
            (1, 0, "one\ntwo\nthr"),
            (1, 11, "ee\n"),
            (2, 0, "again\n"),
            (1, 0, "one\ntwo\nthree\n"),
            (2, 0, "again\nü\n"),
        ] {
            let piece = Piece { attempt, cluster: "mac".to_owned(), from, text: text.to_owned() };
            if let Some(LogEvent::Text { text, .. }) = seen.rest_of(piece) {
                told += &text;
            }
        }
        assert_eq!(told, "one\ntwo\nthree\nagain\nü\n");
    }
}
