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

/// The last bytes of everything that is pushed.
#[derive(Debug)]
pub(crate) struct End {
    kept: Vec<u8>,
    keep: usize,
    skipped: u64,
}

impl End {
    pub(crate) fn new(keep: usize) -> Self {
        // Room for at least one whole character.
        Self { kept: Vec::new(), keep: keep.max(4), skipped: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
        // Moved only when twice too long, so that each byte is moved once on average.
        if self.kept.len() >= self.keep.saturating_mul(2) {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let surplus = self.kept.len().saturating_sub(self.keep);
        self.kept.drain(..surplus);
        self.skipped += surplus as u64;
    }

    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        self.cut();
        self.kept
    }

    fn into_logs(mut self) -> Logs {
        self.cut();
        // Drops the rest of a character that was cut.
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

/// Reads `{"logs": "…"}` as it arrives and keeps the end of the text. A log of a gigabyte is one
/// JSON string: parsing it whole would need it in memory twice.
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
    /// The number of missing digits, and the number so far.
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

    /// Handles a half without its other half: Python writes bytes that are not UTF-8 this way.
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
                // Nearly everything is plain text, which is copied in runs, not byte by byte.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &[u8], keep: usize, step: usize) -> Result<Logs, RayError> {
        let mut reader = Reader::new(keep);
        body.chunks(step).try_for_each(|piece| reader.take(piece))?;
        reader.finish()
    }

    #[test]
    fn a_log_is_read_the_same_however_the_network_cuts_it() {
        let text = "tab\tquote\" back\\ nl\n esc\u{1b}[1m é 漢 🦀 \u{0}/end";
        let body = serde_json::json!({ "logs": text }).to_string();
        let escaped = r#"{"logs": "\u00e9\u6f22\ud83e\udd80\/"}"#;
        for step in [1, 2, 3, 7, 4096] {
            assert_eq!(read(body.as_bytes(), 1 << 20, step).unwrap().text, text);
            assert_eq!(read(escaped.as_bytes(), 1 << 20, step).unwrap().text, "é漢🦀/");
        }
    }

    #[test]
    fn half_a_character_becomes_a_replacement() {
        for (body, text) in [
            (r#"{"logs":"\ud83ex"}"#, "\u{fffd}x"),
            (r#"{"logs":"\ud83e\ud83e\udd80"}"#, "\u{fffd}🦀"),
            (r#"{"logs":"\udd80"}"#, "\u{fffd}"),
            (r#"{"logs":"\ud83e"}"#, "\u{fffd}"),
            (r#"{"logs":"\ud83e\n"}"#, "\u{fffd}\n"),
        ] {
            assert_eq!(read(body.as_bytes(), 100, 1).unwrap().text, text, "{body}");
        }
    }

    #[test]
    fn only_the_end_is_kept_from_the_start_of_a_character() {
        let text = "é".repeat(1000);
        let body = serde_json::json!({ "logs": text }).to_string();
        let logs = read(body.as_bytes(), 101, 13).unwrap();
        assert_eq!((logs.text.as_str(), logs.skipped), ("é".repeat(50).as_str(), 1900));
    }

    #[test]
    fn an_answer_cut_short_or_of_another_form_is_an_error() {
        let whole = r#" { "logs" : "a\u0041" } "#;
        assert_eq!(read(whole.as_bytes(), 10, 1).unwrap().text, "aA");
        for end in 1..whole.len() - 2 {
            assert!(read(&whole.as_bytes()[..end], 10, 4).is_err(), "{end}");
        }
        for bad in [
            "",
            "[]",
            "{}",
            r#"{"log":"x"}"#,
            r#"{"logsx":"x"}"#,
            r#"{"logs":null}"#,
            r#"{"logs":"\x"}"#,
            "{\"logs\":\"\"}x",
        ] {
            assert!(read(bad.as_bytes(), 10, 4).is_err(), "{bad}");
        }
    }
}
