//! The bytes of a workload file: unpacked if they are compressed, and not without end.

use std::{
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use flate2::bufread::MultiGzDecoder;

use super::WorkloadError;

/// The most text of one file, unpacked: a small file can unpack to any size.
const MAX_TEXT: u64 = 4 << 30;

/// How the file describes work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// Comma-separated values with a header.
    Csv,
    /// Standard Workload Format.
    Swf,
}

/// A source of text.
pub(super) type Text = BufReader<Box<dyn Read>>;

/// Opens a source: `.gz` is recognised by its first bytes.
pub(super) fn open(source: impl Read + 'static, origin: &str) -> Result<(Text, Format), WorkloadError> {
    let mut packed = BufReader::new(source);
    let is_gzip = packed.fill_buf().map_err(|error| unreadable(error, origin))?.starts_with(&[0x1f, 0x8b]);
    let text: Box<dyn Read> = if is_gzip {
        Box::new(Bounded { source: MultiGzDecoder::new(packed), left: MAX_TEXT })
    } else {
        Box::new(Bounded { source: packed, left: MAX_TEXT })
    };
    let mut text = BufReader::new(text);
    let start = text.fill_buf().map_err(|error| unreadable(error, origin))?;
    let format = by_name(origin).unwrap_or_else(|| by_contents(start));
    Ok((text, format))
}

fn by_name(origin: &str) -> Option<Format> {
    let name = origin.to_ascii_lowercase();
    let name = Path::new(name.strip_suffix(".gz").unwrap_or(&name));
    match name.extension()?.to_str()? {
        "swf" => Some(Format::Swf),
        "csv" => Some(Format::Csv),
        _ => None,
    }
}

/// Comments of SWF start with `;`, and its lines are numbers separated by spaces.
fn by_contents(start: &[u8]) -> Format {
    let start = String::from_utf8_lossy(start);
    let first = start.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let numbers = first.split_whitespace().filter(|field| field.parse::<f64>().is_ok()).count();
    if first.starts_with(';') || numbers >= super::swf::FIELDS { Format::Swf } else { Format::Csv }
}

/// The error of a file that cannot be read to its end.
pub(super) fn unreadable(source: io::Error, origin: &str) -> WorkloadError {
    let origin = origin.to_owned();
    match source.kind() {
        io::ErrorKind::FileTooLarge => WorkloadError::TooMuchText { origin, max: MAX_TEXT },
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
            WorkloadError::Damaged { origin, source }
        }
        _ => WorkloadError::Io { origin, source },
    }
}

/// Fails after so many bytes.
struct Bounded<R> {
    source: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let read = self.source.read(out)?;
        self.left = self.left.saturating_sub(read as u64);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_name_or_by_contents() {
        assert_eq!(by_name("x/KTH-SP2.SWF.gz"), Some(Format::Swf));
        assert_eq!(by_name("a.csv"), Some(Format::Csv));
        assert_eq!(by_name("trace.txt.gz"), None);
        assert_eq!(by_contents(b"; Version: 2.2\n"), Format::Swf);
        assert_eq!(by_contents(b"\n 1 0 -1 60 4 -1 -1 4 -1 -1 1 3 1 -1 1 -1 -1 -1\n"), Format::Swf);
        assert_eq!(by_contents(b"arrival,duration\n0,1\n"), Format::Csv);
        assert_eq!(by_contents(b""), Format::Csv);
    }

    #[test]
    fn text_without_an_end_is_an_error() {
        let mut endless = Bounded { source: io::repeat(b'\n'), left: 100_000 };
        let error = io::copy(&mut endless, &mut io::sink()).unwrap_err();
        let error = unreadable(error, "t.csv.gz").to_string();
        assert!(error.contains("t.csv.gz: more than 4 GiB of text"), "{error}");
    }
}
