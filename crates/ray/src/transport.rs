//! Sending a request and reading its answer, within bounds of time and size.

use std::{
    pin::pin,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use reqwest::{Method, RequestBuilder, Response, Url, header};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::{
    answer::{Answer, printable},
    endpoint::{BuildError, Endpoint, Target, Timeouts, root_cause},
    error::{Call, Class, Kind, RayError},
    job::JobDetails,
    secrets::Secrets,
};

/// The longest answer about one object. A job's runtime_env may be large.
pub(crate) const ONE: usize = 4 << 20;
/// The longest answer with a list: Ray lists every job it ever ran.
pub(crate) const MANY: usize = 64 << 20;
/// How much of an error body is read: enough for nested tracebacks.
const ERROR_BODY: usize = 64 << 10;

/// Receives the body of a success, piece by piece.
pub(crate) trait Sink {
    fn take(&mut self, piece: &[u8]) -> Result<(), RayError>;
}

/// One cluster's connections.
#[derive(Debug)]
pub(crate) struct Transport {
    target: Target,
    pub(crate) timeouts: Timeouts,
    secrets: Secrets,
}

impl Transport {
    pub(crate) fn new(endpoint: &Endpoint, timeouts: Timeouts) -> Result<Self, BuildError> {
        Ok(Self { target: Target::new(endpoint, &timeouts)?, timeouts, secrets: Secrets::of(endpoint) })
    }

    pub(crate) fn address(&self) -> &str {
        &self.target.shown
    }

    /// The address of a resource; every segment is escaped.
    pub(crate) fn url<'a>(&self, segments: impl IntoIterator<Item = &'a str>) -> Url {
        self.target.url(segments)
    }

    /// A request that only reads.
    pub(crate) fn get(&self, url: Url) -> RequestBuilder {
        self.target.kept.get(url)
    }

    /// A request that changes something.
    pub(crate) fn order(&self, method: Method, url: Url) -> RequestBuilder {
        self.target.fresh.request(method, url)
    }

    /// Sends a request and reads an answer of at most `max` bytes, of any status.
    pub(crate) async fn ask(
        &self,
        call: Call,
        request: RequestBuilder,
        max: usize,
    ) -> Result<Answer, RayError> {
        let mut whole = Whole { call, max, body: Vec::new() };
        let mut answer = self.ask_into(call, request, self.timeouts.call, &mut whole).await?;
        if answer.is_success() {
            answer.body = whole.body;
        }
        Ok(answer)
    }

    /// Sends a request and reads JSON.
    pub(crate) async fn ask_json<T: DeserializeOwned>(
        &self,
        call: Call,
        request: RequestBuilder,
        max: usize,
    ) -> Result<T, RayError> {
        let body = self.ask(call, request, max).await?.into_body(call).map_err(|e| self.own(e))?;
        self.parse(call, &body)
    }

    /// Sends a request and passes the body of a success to `sink`. The answer then has no body.
    pub(crate) async fn ask_into(
        &self,
        call: Call,
        request: RequestBuilder,
        limit: Duration,
        sink: &mut impl Sink,
    ) -> Result<Answer, RayError> {
        let exchange = self.exchange(call, request, sink);
        let result = timeout(limit, exchange).await.unwrap_or_else(|_| Err(too_late(call, limit)));
        result.map_err(|error| self.own(error))
    }

    /// Sends a large request. It may take long, but must not stand still: `moved` counts its bytes.
    pub(crate) async fn upload(
        &self,
        call: Call,
        request: RequestBuilder,
        moved: &AtomicU64,
        sink: &mut impl Sink,
    ) -> Result<Answer, RayError> {
        let limit = self.timeouts.upload;
        let mut exchange = pin!(self.exchange(call, request, sink));
        loop {
            let before = moved.load(Ordering::Relaxed);
            match timeout(limit, &mut exchange).await {
                Ok(result) => return result.map_err(|error| self.own(error)),
                Err(_) if moved.load(Ordering::Relaxed) > before => {}
                Err(_) => return Err(self.own(too_late(call, limit))),
            }
        }
    }

    async fn exchange(
        &self,
        call: Call,
        request: RequestBuilder,
        sink: &mut impl Sink,
    ) -> Result<Answer, RayError> {
        let mut response = self.open(call, request).await?;
        let mut answer = head(&response);
        if answer.is_success() {
            while let Some(piece) = response.chunk().await.map_err(|e| sent(call, e))? {
                sink.take(&piece)?;
            }
        } else {
            answer.body = some_of(call, &mut response).await?;
        }
        Ok(answer)
    }

    /// Sends a request and returns once the head of the answer has arrived. The caller limits the time.
    pub(crate) async fn open(&self, call: Call, request: RequestBuilder) -> Result<Response, RayError> {
        request.send().await.map_err(|error| sent(call, error))
    }

    pub(crate) fn parse<T: DeserializeOwned>(&self, call: Call, body: &[u8]) -> Result<T, RayError> {
        serde_json::from_slice(body).map_err(|error| {
            let message = if body.is_empty() {
                "an empty answer".into()
            } else {
                format!("not what Ray answers: {error}")
            };
            self.own(RayError::bad_answer(call, message))
        })
    }

    /// Completes an error: adds the address, and removes secrets.
    pub(crate) fn own(&self, error: RayError) -> RayError {
        let error = error.at(&self.target.shown);
        RayError { message: self.secrets.hide(&error.message), ..error }
    }

    /// Removes secrets from Ray's report about a job.
    pub(crate) fn own_job(&self, job: JobDetails) -> JobDetails {
        JobDetails { message: job.message.map(|message| self.secrets.hide(&message)), ..job }
    }
}

struct Whole {
    call: Call,
    max: usize,
    body: Vec<u8>,
}

impl Sink for Whole {
    fn take(&mut self, piece: &[u8]) -> Result<(), RayError> {
        // Counted, because Content-Length may be absent or wrong.
        if self.body.len() + piece.len() > self.max {
            let message = format!("the answer is longer than {} MiB", self.max >> 20);
            let class = if self.call.is_write() { Class::OutcomeUnknown } else { Class::Permanent };
            let error = RayError::new(self.call, class, Kind::TooLarge, message);
            return Err(if self.call == Call::Jobs {
                error.hint("Ray keeps every job it ever ran: delete old ones on that cluster")
            } else {
                error
            });
        }
        self.body.extend_from_slice(piece);
        Ok(())
    }
}

pub(crate) fn head(response: &Response) -> Answer {
    let location = response.headers().get(header::LOCATION).filter(|_| response.status().is_redirection());
    let location = location.and_then(|value| value.to_str().ok()).map(|text| {
        // The part after `?` may contain the secret of a login.
        text.split(['?', '#']).next().unwrap_or_default().chars().take(200).collect()
    });
    Answer { status: response.status().as_u16(), body: Vec::new(), location }
}

/// The useful part of a failure's body. If the connection breaks, the received part counts,
/// unless the text decides what the status means: half of "Job x does not exist" says nothing.
pub(crate) async fn some_of(call: Call, response: &mut Response) -> Result<Vec<u8>, RayError> {
    let mut body = Vec::new();
    while body.len() < ERROR_BODY {
        match response.chunk().await {
            Ok(Some(piece)) => {
                let room = ERROR_BODY - body.len();
                body.extend_from_slice(&piece[..piece.len().min(room)]);
            }
            Ok(None) => break,
            Err(error) if matches!(response.status().as_u16(), 400 | 404) => return Err(sent(call, error)),
            Err(_) => break,
        }
    }
    Ok(body)
}

pub(crate) fn too_late(call: Call, limit: Duration) -> RayError {
    RayError::new(call, call.unknown(), Kind::Timeout, format!("no complete answer within {limit:?}"))
        .hint("the cluster is overloaded or hangs, or the network drops packets")
}

/// The meaning of an error while sending or reading.
fn sent(call: Call, error: reqwest::Error) -> RayError {
    let error = error.without_url();
    let cause = printable(&root_cause(&error));
    if error.is_connect() {
        let failed = |what| RayError::new(call, Class::Transient, Kind::Unreachable, what);
        let lower = cause.to_ascii_lowercase();
        return if error.is_dns() {
            failed(format!("no such host: {cause}"))
                .hint("check the spelling, and that this machine can look the name up")
        } else if error.is_timeout() {
            failed("no connection in time".to_owned())
                .hint("is the host up, and is the port open towards this machine?")
        } else if lower.contains("certificate") || lower.contains("unknownissuer") {
            failed(format!("the certificate was not accepted: {cause}"))
                .hint("name the CA that signed it for this cluster, and use the host name that is in it")
        } else if lower.contains("corrupt message") || lower.contains("invalidcontenttype") {
            failed(format!("no TLS there: {cause}")).hint("is it http:// rather than https://?")
        } else {
            failed(format!("cannot connect: {cause}"))
                .hint("is the head running, and is this its dashboard's port (8265 unless set otherwise)?")
        };
    }
    if error.is_builder() {
        return RayError::refused(call, format!("cannot be sent: {cause}"));
    }
    if error.is_timeout() {
        return RayError::new(call, call.unknown(), Kind::Timeout, cause);
    }
    // hyper names the part that it could not parse: "invalid HTTP version parsed", ….
    if cause.starts_with("invalid") {
        return RayError::bad_answer(call, format!("no HTTP answer: {cause}"));
    }
    RayError::new(call, call.unknown(), Kind::Lost, format!("the connection broke: {cause}"))
        .hint("did the head restart, or does a proxy in between close connections early?")
}
