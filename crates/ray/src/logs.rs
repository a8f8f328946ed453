//! Logs, of which only the end is kept.

use crate::{
    error::{Call, RayError},
    transport::Sink,
};

/// A log, or its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Logs {
    /// The text.
    pub text: String,
    /// How many bytes before it were left out.
    pub skipped: u64,
}

/// The last bytes of whatever is pushed.
#[derive(Debug)]
pub(crate) struct End {
    kept: Vec<u8>,
    keep: usize,
    skipped: u64,
}

impl End {
    pub(crate) fn new(keep: usize) -> Self {
        Self { kept: Vec::new(), keep: keep.max(1), skipped: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
        // Moved only when twice too long, so that a byte is moved once on average.
        if self.kept.len() >= self.keep.saturating_mul(2) {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let surplus = self.kept.len().saturating_sub(self.keep);
        self.kept.drain(..surplus);
        self.skipped += surplus as u64;
    }

    /// The bytes, and how many before them are gone.
    pub(crate) fn into_bytes(mut self) -> (Vec<u8>, u64) {
        self.cut();
        (self.kept, self.skipped)
    }

    fn into_logs(mut self) -> Logs {
        self.cut();
        // Half a character at the cut is no character.
        if self.skipped > 0 {
            let start = self.kept.iter().take(4).position(|b| b & 0xC0 != 0x80).unwrap_or(0);
            self.kept.drain(..start);
            self.skipped += start as u64;
        }
        let text = String::from_utf8(self.kept)
            .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned());
        Logs { text, skipped: self.skipped }
    }
}

impl Sink for End {
    fn take(&mut self, piece: &[u8]) -> Result<(), RayError> {
        self.push(piece);
        Ok(())
    }
}

/// Reads `{"logs": "…"}` as it comes in and keeps the end of the text. A log of a
/// gigabyte is one JSON string: parsing it whole would need it in memory twice.
#[derive(Debug)]
pub(crate) struct Reader {
    at: At,
    key: Vec<u8>,
    /// The first half of a character written as two `\u` escapes.
    high: Option<u16>,
    end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Start,
    BeforeKey,
    Key,
    BeforeColon,
    BeforeText,
    Text,
    Escape,
    /// Digits still to come, and the number so far.
    Unicode(u8, u16),
    AfterText,
    Done,
}

impl Reader {
    pub(crate) fn new(keep: usize) -> Self {
        Self { at: At::Start, key: Vec::new(), high: None, end: End::new(keep) }
    }

    /// The log, if its end was reached.
    pub(crate) fn finish(self) -> Result<Logs, RayError> {
        if self.at == At::Done { Ok(self.end.into_logs()) } else { Err(broken("it ends too early")) }
    }

    fn push_char(&mut self, c: char) {
        self.end.push(c.encode_utf8(&mut [0; 4]).as_bytes());
    }

    /// A half without its other half: Python writes what was not UTF-8 that way.
    fn drop_half(&mut self) {
        if self.high.take().is_some() {
            self.push_char(char::REPLACEMENT_CHARACTER);
        }
    }

    fn push_unit(&mut self, unit: u16) {
        if let Some(high) = self.high.filter(|_| (0xDC00..0xE000).contains(&unit)) {
            self.high = None;
            let c = char::decode_utf16([high, unit]).next().and_then(Result::ok);
            return self.push_char(c.unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        self.drop_half();
        match unit {
            0xD800..0xDC00 => self.high = Some(unit),
            _ => self.push_char(char::from_u32(unit.into()).unwrap_or(char::REPLACEMENT_CHARACTER)),
        }
    }

    fn step(&mut self, byte: u8) -> Result<(), RayError> {
        let space = byte.is_ascii_whitespace();
        self.at = match (self.at, byte) {
            (At::Start | At::BeforeKey | At::BeforeColon | At::BeforeText | At::AfterText | At::Done, _)
                if space =>
            {
                self.at
            }
            (At::Start, b'{') => At::BeforeKey,
            (At::BeforeKey, b'"') => At::Key,
            (At::Key, b'"') if self.key == b"logs" => At::BeforeColon,
            (At::Key, _) if self.key.len() < 4 => {
                self.key.push(byte);
                At::Key
            }
            (At::BeforeColon, b':') => At::BeforeText,
            (At::BeforeText, b'"') => At::Text,
            (At::Text, b'"') => {
                self.drop_half();
                At::AfterText
            }
            (At::Text, b'\\') => At::Escape,
            (At::Escape, b'u') => At::Unicode(4, 0),
            (At::Escape, _) => {
                self.drop_half();
                self.end.push(&[match byte {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'b' => 8,
                    b'f' => 12,
                    b'"' | b'\\' | b'/' => byte,
                    _ => return Err(broken("it has an unknown escape")),
                }]);
                At::Text
            }
            (At::Unicode(left, sum), _) => {
                let digit = char::from(byte).to_digit(16).and_then(|d| u16::try_from(d).ok());
                let sum = sum << 4 | digit.ok_or_else(|| broken("it has a bad escape"))?;
                if left == 1 {
                    self.push_unit(sum);
                    At::Text
                } else {
                    At::Unicode(left - 1, sum)
                }
            }
            (At::AfterText, b'}') => At::Done,
            _ => return Err(broken("it is not {\"logs\": text}")),
        };
        Ok(())
    }
}

impl Sink for Reader {
    fn take(&mut self, mut piece: &[u8]) -> Result<(), RayError> {
        while let [first, rest @ ..] = piece {
            if self.at == At::Text {
                // Nearly everything is plain text: taken in runs, not byte by byte.
                let run = piece.iter().position(|b| matches!(b, b'"' | b'\\')).unwrap_or(piece.len());
                if run > 0 {
                    self.drop_half();
                    self.end.push(&piece[..run]);
                    piece = &piece[run..];
                    continue;
                }
            }
            self.step(*first)?;
            piece = rest;
        }
        Ok(())
    }
}

fn broken(why: &str) -> RayError {
    RayError::bad_answer(Call::Logs, format!("the answer cannot be read: {why}"))
}
