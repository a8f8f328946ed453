//! Packages: what `working_dir` and `py_modules` point to.

use std::{
    fmt, io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::{
    Stream, StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use reqwest::Body;

/// The largest package that Ray accepts over REST.
pub const MAX_PACKAGE_BYTES: u64 = 100 << 20;

/// Content in memory is sent in pieces of this size, so that progress shows.
const PIECE: usize = 256 << 10;

/// The content of a package: in memory, or as a stream.
pub struct PackageBody {
    pub(crate) len: u64,
    /// How many bytes were sent.
    pub(crate) sent: Arc<AtomicU64>,
    content: Content,
}

enum Content {
    Whole(Bytes),
    Stream(BoxStream<'static, io::Result<Bytes>>),
}

impl PackageBody {
    /// Content as a stream, e.g. from a file: exactly `len` bytes.
    pub fn stream(len: u64, pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Self {
        Self { len, sent: Arc::default(), content: Content::Stream(Box::pin(pieces)) }
    }

    /// Adds the bytes that were sent to this number, while they are being sent.
    #[must_use]
    pub fn counted(self, sent: Arc<AtomicU64>) -> Self {
        Self { sent, ..self }
    }

    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Is it empty?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The same content once more, if it is in memory. Its progress does not show.
    pub(crate) fn again(&self) -> Option<Self> {
        match &self.content {
            Content::Whole(bytes) => Some(bytes.clone().into()),
            Content::Stream(_) => None,
        }
    }

    pub(crate) fn into_body(self) -> Body {
        let pieces = match self.content {
            Content::Whole(bytes) => pieces_of(bytes).boxed(),
            Content::Stream(pieces) => Exactly { left: self.len, pieces }.boxed(),
        };
        let sent = self.sent;
        Body::wrap_stream(pieces.inspect_ok(move |piece| {
            sent.fetch_add(piece.len() as u64, Ordering::Relaxed);
        }))
    }
}

impl From<Bytes> for PackageBody {
    fn from(bytes: Bytes) -> Self {
        Self { len: bytes.len() as u64, sent: Arc::default(), content: Content::Whole(bytes) }
    }
}

impl From<Vec<u8>> for PackageBody {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

fn pieces_of(mut bytes: Bytes) -> impl Stream<Item = io::Result<Bytes>> {
    stream::iter(std::iter::from_fn(move || {
        let piece = bytes.split_to(bytes.len().min(PIECE));
        (!piece.is_empty()).then_some(Ok(piece))
    }))
}

impl fmt::Debug for PackageBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackageBody").field("len", &self.len).finish_non_exhaustive()
    }
}

/// Fails unless there are exactly as many bytes as promised: a truncated package under the name
/// of the whole one would be served to every later job.
struct Exactly {
    left: u64,
    pieces: BoxStream<'static, io::Result<Bytes>>,
}

impl Stream for Exactly {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let piece = futures_util::ready!(self.pieces.as_mut().poll_next(cx));
        Poll::Ready(match piece {
            Some(Ok(bytes)) => match self.left.checked_sub(bytes.len() as u64) {
                Some(left) => {
                    self.left = left;
                    Some(Ok(bytes))
                }
                None => Some(Err(io::Error::other("the package is longer than announced"))),
            },
            None if self.left > 0 => {
                self.left = 0;
                Some(Err(io::Error::other("the package is shorter than announced")))
            }
            other => other,
        })
    }
}
