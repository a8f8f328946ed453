//! The text of a configuration, and which parts of it may be shown.
//!
//! A configuration holds secrets: the values under `runtime_env`, tokens, headers (and tokens
//! written where the name of a variable belongs). They are hidden here, where excerpts are made,
//! so that code for error messages need not handle them.

use std::ops::Range;

use crate::diagnostic::Place;

/// Keys whose values are never shown.
pub(crate) const SECRET_KEYS: [&str; 6] =
    ["runtime_env", "env_vars", "token", "token_env", "token_command", "headers"];

/// The position of a value: line and column from 1, and its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Mark {
    /// The beginning of a file.
    pub(crate) const START: Mark = Mark { line: 1, column: 1, start: 0, end: 0 };
}

#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) origin: &'a str,
    text: &'a str,
    secrets: Secrets,
}

/// The parts that must not be shown.
#[derive(Debug)]
enum Secrets {
    /// The text could not be parsed, so it is unknown where its secrets end: from the first
    /// secret key on, lines show their key alone.
    Unknown,
    /// These bytes, and the rest of their lines (a comment may explain a password).
    At(Vec<Range<usize>>),
}

/// How much of a line is shown, in characters.
const WIDTH: usize = 100;
/// How much of that comes before the place itself, on a longer line.
const LEAD: usize = 60;
const CUT: char = '…';

impl<'a> Source<'a> {
    pub(crate) fn new(origin: &'a str, text: &'a str) -> Self {
        Self { origin, text, secrets: Secrets::Unknown }
    }

    /// From now on exactly these bytes are secret.
    pub(crate) fn hide_only(&mut self, ranges: Vec<Range<usize>>) {
        self.secrets = Secrets::At(ranges);
    }

    /// The place with its line. Nothing from byte `visible_to` on is shown.
    pub(crate) fn place(&self, mark: Mark, visible_to: usize) -> Place {
        let line = self.line(mark.line);
        let end = self.text.floor_char_boundary(self.visible_end(&line).min(visible_to)).max(line.start);
        let is_cut = !self.text[end..line.end].trim().is_empty();

        let shown = &self.text[line.start..end];
        let shown = if is_cut { shown.trim_end() } else { shown };
        let mut characters: Vec<char> = shown.chars().map(printable).collect();
        let mut column = (mark.column.max(1) as usize - 1).min(characters.len());
        if is_cut {
            let end = characters.len();
            characters.extend((end > 0).then_some(' '));
            characters.push(CUT);
            // The place may be hidden: then the sign for hidden text is marked.
            column = if column == end { characters.len() - 1 } else { column };
        }
        let width = self.text.get(mark.start..mark.end.min(line.end)).map_or(1, |text| text.chars().count());
        let (excerpt, column) = window(&characters, column);
        let room = excerpt.chars().count().saturating_sub(column).max(1);
        Place { line: mark.line, column: mark.column, excerpt, marked: (column, width.clamp(1, room)) }
    }

    /// Up to where a key may be shown: including its colon, if it looks like a name.
    pub(crate) fn key_end(&self, key: Mark) -> usize {
        let text = self.text.get(key.start..key.end).unwrap_or_default();
        let name = text.trim_matches(['"', '\'']);
        match name_length(name) {
            length if length == name.len() => key.end.saturating_add(1),
            length => key.start + text.find(name).unwrap_or(0) + length,
        }
    }

    /// The bytes of a line, without its end. YAML ends lines with LF, CR LF or CR.
    fn line(&self, number: u32) -> Range<usize> {
        let bytes = self.text.as_bytes();
        let is_end = |at: usize| match bytes[at] {
            b'\n' => true,
            b'\r' => bytes.get(at + 1) != Some(&b'\n'),
            _ => false,
        };
        let mut start = 0;
        for _ in 1..number {
            match (start..bytes.len()).find(|&at| is_end(at)) {
                Some(end) => start = end + 1,
                None => return bytes.len()..bytes.len(),
            }
        }
        // A byte order mark is not part of the first line.
        if start == 0 && self.text.starts_with('\u{feff}') {
            start = '\u{feff}'.len_utf8();
        }
        let end = (start..bytes.len()).find(|&at| matches!(bytes[at], b'\n' | b'\r')).unwrap_or(bytes.len());
        start..end
    }

    /// Up to which byte a line may be shown.
    fn visible_end(&self, line: &Range<usize>) -> usize {
        match &self.secrets {
            Secrets::At(ranges) => ranges
                .iter()
                .filter(|secret| secret.start < line.end && secret.end > line.start)
                .map(|secret| secret.start.max(line.start))
                .min()
                .unwrap_or(line.end),
            Secrets::Unknown => {
                let before = &self.text[..line.end];
                if SECRET_KEYS.iter().any(|key| before.contains(key)) {
                    line.start + key_length(&self.text[line.clone()])
                } else {
                    line.end
                }
            }
        }
    }
}

/// The part of a long line around a column, and the column in it.
fn window(characters: &[char], column: usize) -> (String, usize) {
    let skipped = if characters.len() > WIDTH { column.saturating_sub(LEAD) } else { 0 };
    let (before, after) = (skipped > 0, characters.len() > skipped + WIDTH);
    let mut excerpt = String::from(if before { "…" } else { "" });
    excerpt.extend(characters.iter().skip(skipped).take(WIDTH));
    excerpt.push_str(if after { "…" } else { "" });
    (excerpt.trim_end().to_owned(), column - skipped + usize::from(before))
}

/// The length of `  - key:` at the start of a line; 0 if there is none.
fn key_length(line: &str) -> usize {
    let rest = line.trim_start_matches([' ', '-']);
    let key = name_length(rest);
    match &rest[key..] {
        after if after == ":" || after.starts_with(": ") => line.len() - rest.len() + key + 1,
        _ => 0,
    }
}

/// How much of a text looks like a name. Names are short; a long word may well be a token.
pub(crate) fn name_length(text: &str) -> usize {
    const LONGEST: usize = 40;
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    text.char_indices()
        .enumerate()
        .find(|(nth, (_, c))| *nth == LONGEST || !is_name(*c))
        .map_or(text.len(), |(_, (at, _))| at)
}

/// Replaces characters that move the cursor, ring the bell or reverse the text.
pub(crate) fn printable(c: char) -> char {
    match c {
        '\t' => ' ',
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => {
            '\u{fffd}'
        }
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}
