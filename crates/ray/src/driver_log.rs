//! The driver's log file, byte for byte.

use tokio::sync::mpsc;

use crate::{
    answer::{Answer, meaning},
    error::{Call, Class, Kind, RayError},
    transport::Sink,
};

/// The size of a marked block.
const BLOCK: usize = 1 << 16;
/// Before this release, Ray put a mark before each block: `1`, or `0` before an error.
const UNMARKED_SINCE: (u32, u32) = (2, 45);

/// Reads the file and removes the marks. The file itself goes to `out`.
#[derive(Debug)]
pub(crate) struct DriverLog<Out> {
    out: Out,
    next: Next,
}

#[derive(Debug)]
enum Next {
    /// The file itself, to the end.
    File,
    /// A mark.
    Mark,
    /// This many bytes of the file, then a mark.
    Block(usize),
    /// The error text.
    Error(Vec<u8>),
}

impl<Out> DriverLog<Out> {
    pub(crate) fn new(release: Option<(u32, u32)>, out: Out) -> Self {
        let marked = release.is_some_and(|release| release < UNMARKED_SINCE);
        Self { out, next: if marked { Next::Mark } else { Next::File } }
    }

    /// The file was read to its end; `None` if there is no such file.
    pub(crate) fn finish(self, answer: Answer) -> Result<Option<Out>, RayError> {
        let missing = |text: &[u8]| String::from_utf8_lossy(text).contains("A file is not found at");
        match self.next {
            _ if answer.status == 500 && missing(&answer.body) => Ok(None),
            _ if !answer.is_success() => Err(answer.into_error(Call::DriverLog)),
            Next::Error(text) if missing(&text) => Ok(None),
            Next::Error(text) => {
                let message = meaning(&String::from_utf8_lossy(&text));
                Err(RayError::new(Call::DriverLog, Class::Transient, Kind::Failing, message))
            }
            _ => Ok(Some(self.out)),
        }
    }
}

impl<Out: Sink + Send> Sink for DriverLog<Out> {
    fn take(&mut self, mut piece: &[u8]) -> Result<(), RayError> {
        // Network chunks do not match the blocks of the file, so bytes are counted.
        while let [first, rest @ ..] = piece {
            match &mut self.next {
                Next::File => return self.out.take(piece),
                Next::Mark => {
                    (self.next, piece) = match first {
                        b'1' => (Next::Block(BLOCK), rest),
                        b'0' => (Next::Error(Vec::new()), rest),
                        _ => (Next::File, piece),
                    };
                }
                Next::Block(left) => {
                    let (now, later) = piece.split_at(piece.len().min(*left));
                    self.out.take(now)?;
                    *left -= now.len();
                    if *left == 0 {
                        self.next = Next::Mark;
                    }
                    piece = later;
                }
                Next::Error(text) => {
                    let room = 4096_usize.saturating_sub(text.len());
                    text.extend_from_slice(&piece[..piece.len().min(room)]);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn ready(&mut self) -> impl Future<Output = Result<(), RayError>> + Send {
        self.out.ready()
    }
}

/// Passes a file on in pieces, to a receiver that may take its time.
#[derive(Debug)]
pub(crate) struct Pieces {
    waiting: Vec<u8>,
    out: mpsc::Sender<Vec<u8>>,
}

impl Pieces {
    pub(crate) fn new(out: mpsc::Sender<Vec<u8>>) -> Self {
        Self { waiting: Vec::new(), out }
    }
}

impl Sink for Pieces {
    fn take(&mut self, piece: &[u8]) -> Result<(), RayError> {
        self.waiting.extend_from_slice(piece);
        Ok(())
    }

    async fn ready(&mut self) -> Result<(), RayError> {
        let piece = std::mem::take(&mut self.waiting);
        let unwanted = |_| RayError::new(Call::DriverLog, Class::Transient, Kind::Lost, "no longer wanted");
        self.out.send(piece).await.map_err(unwanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::End;

    fn read(release: (u32, u32), pieces: &[&[u8]]) -> Result<Option<Vec<u8>>, RayError> {
        let mut log = DriverLog::new(Some(release), End::new(1 << 20));
        for piece in pieces {
            log.take(piece).unwrap();
        }
        let read = log.finish(Answer { status: 200, body: Vec::new(), location: None })?;
        Ok(read.map(End::into_bytes))
    }

    #[test]
    fn the_marks_of_older_rays_are_taken_out_wherever_the_network_cuts() {
        assert_eq!(read((2, 9), &[b"1hi\n"]).unwrap().unwrap(), b"hi\n");
        let mut wire = vec![b'1'];
        wire.extend([b'a'; BLOCK]);
        wire.extend(b"1tail");
        for cut in [1, 2, BLOCK, BLOCK + 1, BLOCK + 2] {
            let log = read((2, 44), &[&wire[..cut], &wire[cut..]]).unwrap().unwrap();
            assert_eq!((log.len(), &log[BLOCK..]), (BLOCK + 4, &b"tail"[..]), "{cut}");
        }
    }

    #[test]
    fn a_newer_ray_sends_the_file_as_it_is() {
        assert_eq!(read((2, 45), &[b"1", b"0\xff"]).unwrap().unwrap(), b"10\xff");
        assert_eq!(read((2, 60), &[]).unwrap().unwrap(), b"");
    }

    #[test]
    fn a_missing_file_is_none_and_another_error_is_one() {
        let said = |text: &str| read((2, 9), &[format!("0Closing HTTP stream.\n{text}").as_bytes()]);
        assert_eq!(said("A file is not found at: /tmp/x.log").unwrap(), None);
        let error = said("Agent for node id: abc doesn't exist.").unwrap_err();
        assert!(error.is_transient() && error.message.as_str().contains("Agent"), "{error}");
    }
}
