//! Server-Sent Events: over one connection, and over restarts of the control plane and new leaders.

use jiff::fmt::rfc2822;
use reqwest::{Method, Response, header};

use super::{Call, Client, Query, away::Away};
use crate::{exit::Failure, output::time};

/// One event. Missing fields are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) data: String,
}

/// A stream of events that is opened again where it broke off.
pub(super) struct EventSource {
    client: Client,
    path: Vec<String>,
    query: Vec<(&'static str, String)>,
    /// The number of the latest event, if they have numbers.
    last: Option<String>,
    stream: Option<Stream>,
    /// When it was first opened, in milliseconds, by the clock of the server; by ours if the
    /// server does not report its time.
    pub(super) opened_at: u64,
    /// Prints nothing while the control plane is away.
    pub(super) is_quiet: bool,
}

impl EventSource {
    /// Opened at once, so that no event from now on is missed. `last`: the number of the event
    /// before the first.
    pub(super) async fn open(
        client: &Client,
        path: &[&str],
        query: Vec<(&'static str, String)>,
        last: Option<String>,
    ) -> Result<Self, Failure> {
        let (client, path) = (client.clone(), path.iter().map(|&part| part.to_owned()).collect());
        let mut source = Self { client, path, query, last, stream: None, opened_at: 0, is_quiet: false };
        let stream = source.connect().await?;
        source.opened_at = stream.opened_at;
        source.stream = Some(stream);
        Ok(source)
    }

    /// From the next connection on, without this parameter.
    pub(super) fn forget(&mut self, parameter: &str) {
        self.query.retain(|(name, _)| *name != parameter);
    }

    async fn connect(&self) -> Result<Stream, Failure> {
        let path: Vec<_> = self.path.iter().map(String::as_str).collect();
        Stream::open(&self.client, &path, &self.query, self.last.as_deref()).await
    }

    /// The next event, however long the control plane is away.
    pub(super) async fn next(&mut self) -> Result<Event, Failure> {
        let mut away = Away::new(self.is_quiet);
        loop {
            let stream = match &mut self.stream {
                Some(stream) => stream,
                None => match self.connect().await {
                    Ok(stream) => self.stream.insert(stream),
                    Err(failure) => {
                        away.pause(failure).await?;
                        continue;
                    }
                },
            };
            if let Ok(Some(event)) = stream.next().await {
                if !event.id.is_empty() {
                    self.last = Some(event.id.clone());
                }
                if event.data.is_empty() {
                    continue;
                }
                return Ok(event);
            }
            self.stream = None;
            away.broke_off().await;
        }
    }
}

/// A stream of events over one connection.
struct Stream {
    client: Client,
    response: Response,
    parser: Parser,
    opened_at: u64,
}

impl Stream {
    async fn open(
        client: &Client,
        path: &[&str],
        query: &Query<'_>,
        last: Option<&str>,
    ) -> Result<Self, Failure> {
        let mut call = Call::new(Method::GET, path, query).timeout(None);
        if let Some(last) = last.and_then(|last| last.parse().ok()) {
            call = call.header(header::HeaderName::from_static("last-event-id"), last);
        }
        let accepted = header::HeaderValue::from_static("text/event-stream");
        let response = client.send(&call.header(header::ACCEPT, accepted)).await?;
        if !response.status().is_success() {
            return Err(client.refusal(response).await);
        }
        let date = response.headers().get(header::DATE).and_then(|date| date.to_str().ok());
        let opened_at = date.and_then(end_of_second).unwrap_or_else(time::now);
        Ok(Self { client: client.clone(), response, parser: Parser::default(), opened_at })
    }

    /// `None` when the connection was closed.
    async fn next(&mut self) -> Result<Option<Event>, Failure> {
        loop {
            if let Some(event) = self.parser.next() {
                return Ok(Some(event));
            }
            match self.response.chunk().await.map_err(|error| self.client.broken_off(&error))? {
                Some(bytes) => self.parser.feed(&bytes),
                None => return Ok(None),
            }
        }
    }
}

/// A date has whole seconds: returns the last millisecond of it.
fn end_of_second(date: &str) -> Option<u64> {
    let second = rfc2822::parse(date).ok()?.timestamp().as_second();
    Some(u64::try_from(second).ok()? * 1000 + 999)
}

/// Parses lines into events, however they are split.
#[derive(Default)]
struct Parser {
    buffer: Vec<u8>,
    /// How much of the buffer has been parsed.
    read: usize,
    event: Event,
}

impl Parser {
    fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.read);
        self.read = 0;
        self.buffer.extend_from_slice(bytes);
    }

    fn next(&mut self) -> Option<Event> {
        loop {
            let rest = &self.buffer[self.read..];
            let end = rest.iter().position(|&byte| byte == b'\n')?;
            let line = String::from_utf8_lossy(rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]));
            let done = line.is_empty();
            if !done {
                let (field, value) = line.split_once(':').unwrap_or((&line, ""));
                let value = value.strip_prefix(' ').unwrap_or(value);
                match field {
                    "id" => value.clone_into(&mut self.event.id),
                    "event" => value.clone_into(&mut self.event.name),
                    "data" if self.event.data.is_empty() => value.clone_into(&mut self.event.data),
                    "data" => self.event.data.extend(["\n", value]),
                    // A comment: a sign of life.
                    _ => {}
                }
            }
            self.read += end + 1;
            // A number alone says where the stream begins.
            if done && !(self.event.data.is_empty() && self.event.id.is_empty()) {
                return Some(std::mem::take(&mut self.event));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_of_an_answer_is_read() {
        assert_eq!(end_of_second("Mon, 16 Nov 2026 10:49:55 GMT"), Some(1_794_826_195_999));
        assert_eq!(end_of_second("now"), None);
    }

    #[test]
    fn events_are_read_whatever_pieces_they_come_in() {
        let sent =
            b": hello\n\nid: 2\n\nid: 3\nevent: job\ndata: {\"a\": 1}\n\nevent: end\r\ndata:{}\r\n\r\ndata: half";
        let expected = [
            Event { id: "2".into(), ..Event::default() },
            Event { id: "3".into(), name: "job".into(), data: "{\"a\": 1}".into() },
            Event { id: String::new(), name: "end".into(), data: "{}".into() },
        ];
        for size in 1..sent.len() {
            let mut parser = Parser::default();
            let mut events = Vec::new();
            for piece in sent.chunks(size) {
                parser.feed(piece);
                events.extend(std::iter::from_fn(|| parser.next()));
            }
            assert_eq!(events, expected, "in pieces of {size}");
        }
    }
}
