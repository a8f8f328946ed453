//! Text from outside, bounded.

use std::{borrow::Cow, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

mod cause;

/// Text from others (Ray's error bodies, an operator's reason), cut to a length that is safe to
/// keep, log and show.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Message(Arc<str>);

impl Message {
    /// The longest message kept, in bytes. Ray's texts contain whole tracebacks.
    pub const MAX: usize = 16 << 10;
    /// A cut text leaves room for text that is added around it later, so that it is cut only once.
    const ROOM: usize = 1 << 10;
    /// The longest [`line`](Self::line).
    const LINE: usize = 512;

    /// Keeps at most [`Message::MAX`] bytes, see [`cut`].
    #[must_use]
    pub fn new(text: impl AsRef<str>) -> Self {
        let text = text.as_ref();
        if text.len() <= Self::MAX {
            Self(text.into())
        } else {
            Self(cut(text, Self::MAX - Self::ROOM).into())
        }
    }

    /// The kept text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The line for lists and headlines: of a failure, the one that says why it failed.
    #[must_use]
    pub fn line(&self) -> Cow<'_, str> {
        match cause::of(&self.0) {
            Cow::Borrowed(line) => cut(line, Self::LINE),
            Cow::Owned(line) => cut(&line, Self::LINE).into_owned().into(),
        }
    }
}

/// How a cut begins and ends. The text next to these marks may be half of a word or line.
pub const CUT: [&str; 2] = ["…[", " bytes left out]…"];

/// The beginning and, three times as long, the end of a text that has more than `max` bytes, with
/// a mark in between that says how much was left out. The end begins with a whole line or word:
/// half of one may be half of a secret, which could no longer be recognised.
#[must_use]
pub fn cut(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let mark = |left_out: usize| format!("{}{left_out}{}", CUT[0], CUT[1]);
    let room = max.saturating_sub(mark(text.len()).len());
    let first = &text[..text.floor_char_boundary(room / 4)];
    let last = &text[text.ceil_char_boundary(text.len() - (room - room / 4))..];
    let whole = last.find('\n').or_else(|| last.find(char::is_whitespace)).filter(|at| *at < last.len() / 2);
    let last = whole.map_or(last, |at| last[at..].trim_start());
    Cow::Owned(format!("{first}{}{last}", mark(text.len() - first.len() - last.len())))
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<Message> for String {
    fn from(message: Message) -> String {
        message.0.as_ref().to_owned()
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_text_both_ends_are_kept_and_the_rest_is_counted() {
        let long = format!("first{}last", "é".repeat(5 << 20));
        let message = Message::new(&long);
        let kept = message.as_str();
        assert!(kept.len() <= Message::MAX - Message::ROOM, "{}", kept.len());
        assert!(kept.len() > Message::MAX - Message::ROOM - 64, "{}", kept.len());
        assert!(kept.starts_with("firsté") && kept.ends_with("élast"));
        let (first, rest) = kept.split_once(CUT[0]).unwrap();
        let (left_out, last) = rest.split_once(CUT[1]).unwrap();
        assert_eq!(left_out.parse::<usize>().unwrap(), long.len() - first.len() - last.len());
        assert!(last.len() > 2 * first.len());
    }

    #[test]
    fn the_end_begins_with_a_whole_line() {
        let lines: String = (0..9999).map(|n| format!("--token hunter{n} --x\n")).collect();
        let message = Message::new(&lines);
        let (_, last) = message.as_str().split_once(CUT[1]).unwrap();
        assert!(last.starts_with("--token hunter") && last.ends_with("hunter9998 --x\n"), "{last}");
    }

    #[test]
    fn what_fits_is_kept_as_it_is_and_a_cut_text_is_not_cut_again_for_a_few_words() {
        let fits = "é".repeat(Message::MAX / 2);
        assert_eq!(Message::new(&fits).as_str(), fits);
        let long = Message::new("x".repeat(1 << 20));
        let around = format!("could not be started; the last error: {long}");
        assert_eq!(Message::new(&around).as_str(), around);
    }

    /// The console has the same function: `console/src/format.ts`.
    #[test]
    fn lists_show_the_line_that_says_what_happened() {
        let cases = include_str!("../tests/fixtures/last_lines.json");
        let cases: Vec<(String, String)> = serde_json::from_str(cases).unwrap();
        assert!(cases.len() > 5);
        for (text, line) in cases {
            assert_eq!(Message::new(&text).line(), line, "{text}");
        }
    }

    #[test]
    fn a_line_for_lists_is_short() {
        let line = Message::new(format!("Error: {}!", "x".repeat(1 << 20))).line().into_owned();
        assert!(
            line.len() <= Message::LINE && line.starts_with("Error: x") && line.ends_with("x!"),
            "{line}"
        );
    }
}
