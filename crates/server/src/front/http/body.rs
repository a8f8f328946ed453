//! Request bodies: bounded in size and time, and read to the end where the client would otherwise
//! miss the answer.

use std::{
    io,
    ops::Deref,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, BodyDataStream, Bytes, HttpBody},
    extract::Request,
    http::header,
};
use futures_util::{Stream, StreamExt};
use http_body::{Frame, SizeHint};
use multicluster_api::codes;
use multicluster_types::settings;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, Sleep};

use crate::{
    front::bounds::{BodyRoom, Bounds},
    problem::{HINT, Problem},
};

/// The largest body, except for batches and packages.
pub(crate) const USUAL: usize = 1 << 20;
/// A client that sends nothing for this long is gone or malicious.
const IDLE: Duration = Duration::from_secs(10);
/// A body may take a minute, plus the time that its bytes need at `BYTES_A_SECOND`. This keeps a
/// client that sends a byte now and then from holding a place for hours.
const GRACE: Duration = Duration::from_secs(60);
const BYTES_A_SECOND: u64 = 64 << 10;
/// An error's text repeats at most this much of the body.
const EXCERPT: usize = 300;

/// A body, and its share of the memory for all bodies.
pub(crate) struct Whole {
    pub(crate) bytes: Vec<u8>,
    pub(crate) room: BodyRoom,
}

impl Deref for Whole {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads the whole body, if it is within the limit, comes in time, and there is room for it.
pub(crate) async fn read(request: Request, limit: usize) -> Result<Whole, Problem> {
    let extensions = request.extensions();
    let (Some(bounds), Some(caller)) = (extensions.get::<Bounds>(), extensions.get()) else {
        return Err(Problem::new(codes::INTERNAL, "the request has no limit for its body"));
    };
    let mut room = bounds.body(caller);
    let declared = request.headers().get(header::CONTENT_LENGTH);
    let declared = declared.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|length| length > limit) {
        return Err(too_large(limit));
    }
    // A declared length may be false, so it does not reserve much memory.
    let mut bytes = Vec::with_capacity(declared.unwrap_or_default().min(USUAL));
    let mut chunks = request.into_body().into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| too_slow(&error.to_string()))?;
        if bytes.len() + chunk.len() > limit {
            return Err(too_large(limit));
        }
        room.grow(chunk.len())?;
        bytes.extend_from_slice(&chunk);
    }
    Ok(Whole { bytes, room })
}

/// Gives up on a client that sends nothing for a while, and keeps the unread part of its body for
/// [`Rest::drain`].
pub(crate) fn watched(request: Request) -> (Request, Rest) {
    let rest = Rest::default();
    let headers = request.headers();
    if !headers.contains_key(header::CONTENT_LENGTH) && !headers.contains_key(header::TRANSFER_ENCODING) {
        return (request, rest);
    }
    let kept = rest.clone();
    let is_sent = !headers.contains_key(header::EXPECT);
    let request = request.map(|body| {
        let chunks = Left::Unread(body.into_data_stream());
        Body::from_stream(Watched { chunks, is_sent, patience: None, pace: Pace::new(), kept })
    });
    (request, rest)
}

/// The same body. `what` is kept until nearly all of the body is sent, or the body is dropped.
pub(crate) fn held(body: Body, what: impl Send + Unpin + 'static) -> Body {
    Body::new(Held { body, rest: Bytes::new(), _what: what })
}

/// Bodies are sent in pieces of this size: a body is dropped as soon as its last piece is taken,
/// and only a few small pieces are taken ahead of the client.
const PIECE: usize = 64 << 10;

struct Held<T> {
    body: Body,
    /// The rest of a chunk that was larger than a piece.
    rest: Bytes,
    _what: T,
}

impl<T: Unpin> HttpBody for Held<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                other => return other,
            }
        }
        let piece = self.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (left, body) = (self.rest.len() as u64, self.body.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(left + body.lower());
        if let Some(upper) = body.upper() {
            hint.set_upper(left + upper);
        }
        hint
    }
}

/// The unread part of a body.
#[derive(Clone, Default)]
pub(crate) struct Rest(Arc<Mutex<Left>>);

#[derive(Default)]
enum Left {
    #[default]
    Nothing,
    Unread(BodyDataStream),
    /// The body broke off, was given up, or will not be sent: where the next request begins is
    /// unknown.
    Broken,
}

/// How much of an unread body is drained, and for how long. Not for longer than a connection may be
/// idle: once it is answered, it counts as idle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drained {
    bytes: u64,
    within: Duration,
}

impl Drained {
    /// For any request of any caller.
    pub(crate) const USUAL: Drained = Drained { bytes: 8 << 20, within: Duration::from_secs(3) };
    /// For packages, of callers that may upload them: a package that is too large exceeds `USUAL`.
    pub(crate) const PACKAGE: Drained =
        Drained { bytes: 4 * multicluster_ray::MAX_PACKAGE_BYTES, within: Duration::from_secs(15) };

    /// Returns false if there is more.
    async fn take(self, mut chunks: BodyDataStream) -> bool {
        let all = async {
            let mut taken = 0;
            while let Some(chunk) = chunks.next().await {
                taken += chunk.map_or(self.bytes, |chunk| chunk.len() as u64);
                if taken >= self.bytes {
                    return false;
                }
            }
            true
        };
        tokio::time::timeout(self.within, all).await.unwrap_or(false)
    }
}

impl Rest {
    /// Drains the rest of the body, within bounds, while the answer is being sent. Returns false if
    /// there is too much: then this answer is the connection's last.
    ///
    /// If a connection is closed while its client still sends, it is reset, and the answer is lost.
    /// A connection that is kept must be at the beginning of the next request: hyper waits for
    /// that, and closes the connection if the body is dropped.
    pub(crate) fn drain(&self, bounds: Drained) -> bool {
        match self.left() {
            Left::Nothing => true,
            Left::Broken => false,
            Left::Unread(chunks) => {
                let fits = HttpBody::size_hint(&chunks).lower() < bounds.bytes;
                tokio::spawn(bounds.take(chunks));
                fits
            }
        }
    }

    fn left(&self) -> Left {
        std::mem::take(&mut *self.0.lock())
    }
}

struct Watched {
    chunks: Left,
    /// False while the client waits for our `100 Continue` before it sends (`Expect:
    /// 100-continue`).
    is_sent: bool,
    /// Runs while no bytes come.
    patience: Option<Pin<Box<Sleep>>>,
    pace: Pace,
    kept: Rest,
}

/// How many bytes came, and since when.
struct Pace {
    since: Instant,
    bytes: u64,
}

impl Pace {
    fn new() -> Self {
        Self { since: Instant::now(), bytes: 0 }
    }

    /// Returns false if the client is slower than any honest one.
    fn keeps_up(&mut self, more: usize) -> bool {
        self.bytes += more as u64;
        self.since.elapsed() < GRACE + Duration::from_secs(self.bytes / BYTES_A_SECOND)
    }
}

impl Stream for Watched {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        // Polling the body makes hyper send `100 Continue`.
        self.is_sent = true;
        let Left::Unread(chunks) = &mut self.chunks else { return Poll::Ready(None) };
        if let Poll::Ready(chunk) = chunks.poll_next_unpin(context) {
            self.patience = None;
            match &chunk {
                Some(Ok(bytes)) if !self.pace.keeps_up(bytes.len()) => {
                    return Poll::Ready(Some(Err(self.give_up("it trickles in"))));
                }
                Some(Ok(_)) => {}
                Some(Err(_)) => self.chunks = Left::Broken,
                None => self.chunks = Left::Nothing,
            }
            return Poll::Ready(chunk.map(|chunk| chunk.map_err(io::Error::other)));
        }
        let patience = self.patience.get_or_insert_with(|| Box::pin(tokio::time::sleep(IDLE)));
        if patience.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(Some(Err(self.give_up("the client sent nothing for a while"))))
    }
}

impl Watched {
    fn give_up(&mut self, why: &str) -> io::Error {
        self.chunks = Left::Broken;
        io::Error::new(io::ErrorKind::TimedOut, why)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.is_sent {
            self.chunks = Left::Broken;
        }
        *self.kept.0.lock() = std::mem::take(&mut self.chunks);
    }
}

/// Parses JSON; an error says what is wrong with it and where.
pub(crate) fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, Problem> {
    if json.is_empty() {
        return Err(Problem::new(codes::BAD_JSON, "the body is empty").hint("send a JSON object"));
    }
    // serde would read a list as the fields in their order, which no client means.
    if json.trim_ascii_start().first().is_some_and(|first| *first == b'[') {
        let problem = Problem::new(codes::BAD_BODY, "the body is a list, not an object");
        return Err(problem.hint("wrap it: {…}; batches are {\"jobs\": […]}"));
    }
    serde_json::from_slice(json).map_err(|error| {
        let text = error.to_string();
        if error.classify() == serde_json::error::Category::Data {
            return wrong_data(&text);
        }
        Problem::new(codes::BAD_JSON, format!("the body is not JSON: {}", excerpt(&text)))
    })
}

fn wrong_data(text: &str) -> Problem {
    // The error of a list with too many items. Other errors do not begin with text from the caller,
    // so the caller cannot imitate this one.
    if text.starts_with("more than ") {
        return Problem::new(codes::TOO_LARGE, excerpt(text));
    }
    let Some((start, rest)) = text.split_once("unknown field `") else { return wrong_value(text) };
    let mut quoted = rest.split('`');
    let given = quoted.next().unwrap_or_default();
    // ", expected one of `a`, `b` at line 1 column 2": every second piece is a name.
    let known: Vec<_> = quoted.skip(1).step_by(2).collect();
    let meant = settings::closest(given, known.iter().copied());
    let meant = meant.map_or(String::new(), |name| format!("did you mean {name}? "));
    let place = text.rfind(" at line ").map_or("", |at| &text[at..]);
    let given: String = given.chars().take(60).collect();
    Problem::new(codes::BAD_BODY, format!("{start}unknown field {given:?}{place}"))
        .hint(format!("{meant}known names: {}", known.join(", ")))
}

/// Errors of our own types give advice after `hint:`, and serde appends the position.
fn wrong_value(text: &str) -> Problem {
    let Some((what, hint)) = text.split_once(HINT) else {
        return Problem::new(codes::BAD_BODY, excerpt(text));
    };
    let (hint, place) = hint.split_at(hint.rfind(" at line ").unwrap_or(hint.len()));
    Problem::new(codes::BAD_BODY, excerpt(what) + place).hint(excerpt(hint))
}

fn excerpt(text: &str) -> String {
    if text.len() <= EXCERPT {
        return text.to_owned();
    }
    // The position is at the end.
    let place = text.rfind(" at line ").map_or("", |at| &text[at..]);
    format!("{}…{place}", &text[..text.floor_char_boundary(EXCERPT)])
}

fn too_large(limit: usize) -> Problem {
    Problem::new(codes::TOO_LARGE, format!("the body is larger than {limit} bytes"))
}

pub(crate) fn too_slow(why: &str) -> Problem {
    Problem::new(codes::TOO_SLOW, format!("the body did not arrive: {why}"))
}

#[cfg(test)]
mod tests {
    use multicluster_api::{BatchRequest, JobRequest, PlacementRequest};

    use super::*;
    use crate::{front::access::Caller, metrics::Metrics};

    #[test]
    fn what_is_wrong_with_json_is_said_with_its_place() {
        for (json, code, message) in [
            ("", "bad_json", "the body is empty"),
            ("{\"entrypoint\": 'x'}", "bad_json", "the body is not JSON: expected value at line 1 column 16"),
            (
                "{\"entrypoint\": \"x\"",
                "bad_json",
                "the body is not JSON: EOF while parsing an object at line 1 column 18",
            ),
            (
                "{\n\"entrypoint\": 5}",
                "bad_body",
                "invalid type: integer `5`, expected a string at line 2 column 15",
            ),
            ("{}", "bad_body", "missing field `entrypoint` at line 1 column 2"),
            (" []", "bad_body", "the body is a list, not an object"),
            ("5", "bad_body", "invalid type: integer `5`, expected struct JobRequest at line 1 column 1"),
            ("{\"entrypont\": 1}", "bad_body", "unknown field \"entrypont\" at line 1 column 12"),
            (
                "{\"9 in one request\": 1}",
                "bad_body",
                "unknown field \"9 in one request\" at line 1 column 19",
            ),
        ] {
            let problem = parse::<JobRequest>(json.as_bytes()).unwrap_err();
            assert_eq!((problem.code, problem.message.as_str()), (code, message));
            assert!(problem.hint.is_some());
        }
        let problem = parse::<JobRequest>(b"{\"entrypont\": 1}").unwrap_err();
        let hint = problem.hint.unwrap();
        assert!(hint.starts_with("did you mean entrypoint? known names: id, "), "{hint}");
    }

    #[test]
    fn a_value_that_says_what_to_do_about_it_is_heard() {
        let problem = parse::<PlacementRequest>(br#"{"kind": "task", "demand": {"CPU": -1}}"#).unwrap_err();
        assert_eq!(problem.message, "-1 is negative at line 1 column 38");
        assert_eq!(problem.hint.as_deref(), Some("amounts start at 0"));
    }

    #[test]
    fn a_hostile_name_is_not_repeated_in_full() {
        let json = format!("{{\"{}\": 1}}", "x".repeat(1 << 20));
        assert!(parse::<JobRequest>(json.as_bytes()).unwrap_err().to_string().len() < 1000);
        let json = format!("{{\"entrypoint\": \"x\", \"priority\": \"{}\"}}", "x".repeat(1 << 20));
        assert!(parse::<JobRequest>(json.as_bytes()).unwrap_err().to_string().len() < 1000);
        let deep = format!("{{\"runtime_env\":{{\"x\":{}", "[".repeat(100_000));
        assert_eq!(parse::<JobRequest>(deep.as_bytes()).unwrap_err().status.as_u16(), 400);
    }

    /// A request as the guard passes it on.
    fn admitted(mut request: Request) -> Request {
        let bounds = Bounds::new(8, &multicluster_types::Settings::default(), Metrics::default());
        request.extensions_mut().insert(bounds);
        request.extensions_mut().insert(Caller::ANYBODY);
        request
    }

    /// Sends a body in these pieces and returns whether all of it was read in the end.
    async fn left_over(pieces: Vec<usize>, read: bool) -> bool {
        let sent =
            futures_util::stream::iter(pieces.into_iter().map(|size| Ok::<_, io::Error>(vec![0; size])));
        let request =
            Request::builder().header(header::TRANSFER_ENCODING, "chunked").body(Body::from_stream(sent));
        let (request, rest) = watched(admitted(request.unwrap()));
        if read {
            drop(super::read(request, 1000).await);
        } else {
            drop(request);
        }
        match rest.left() {
            Left::Nothing => true,
            Left::Broken => false,
            Left::Unread(chunks) => Drained::USUAL.take(chunks).await,
        }
    }

    #[tokio::test]
    async fn what_was_not_read_is_taken_within_bounds() {
        assert!(left_over(vec![10, 10], true).await);
        assert!(left_over(vec![500, 501, 1 << 20], true).await);
        assert!(left_over(vec![1 << 20; 5], false).await);
        assert!(!left_over(vec![1 << 20; 50], false).await);
        assert!(left_over(vec![], false).await);
        let broken = futures_util::stream::iter([Ok(vec![0]), Err(io::Error::other("reset"))]);
        let request = Request::builder().header(header::CONTENT_LENGTH, 5).body(Body::from_stream(broken));
        let (request, rest) = watched(admitted(request.unwrap()));
        assert_eq!(super::read(request, 1000).await.err().unwrap().code, "too_slow");
        assert!(!rest.drain(Drained::USUAL));
    }

    #[test]
    fn a_batch_of_too_many_is_too_large() {
        let jobs = "{\"entrypoint\":\"x\"},".repeat(BatchRequest::MAX);
        let json = format!("{{\"jobs\":[{jobs}{{\"entrypoint\":\"x\"}}]}}");
        assert_eq!(parse::<BatchRequest>(json.as_bytes()).unwrap_err().status.as_u16(), 413);
    }
}
