//! Sending a request and reading its answer, within bounds of time and size.

use std::{
    future::ready,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use multicluster_types::Message;
use parking_lot::RwLock;
use reqwest::{Method, RequestBuilder, Response, Url, header};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::{
    answer::{Answer, printable},
    credentials::{Credentials, Proof},
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

    /// Waits until the next piece can be taken.
    fn ready(&mut self) -> impl Future<Output = Result<(), RayError>> + Send {
        ready(Ok(()))
    }
}

/// One cluster's connections.
#[derive(Debug)]
pub(crate) struct Transport {
    target: Target,
    pub(crate) timeouts: Timeouts,
    credentials: Credentials,
    hidden: Vec<String>,
    secrets: RwLock<Known>,
}

/// What no message may contain, and the proofs that it was made of: the last two, because a cluster
/// may still speak of the one before.
#[derive(Debug)]
struct Known {
    proofs: [Option<Arc<Proof>>; 2],
    secrets: Secrets,
}

impl Transport {
    pub(crate) fn new(endpoint: &Endpoint, timeouts: Timeouts) -> Result<Self, BuildError> {
        let hidden = endpoint.hidden.clone();
        let secrets = Secrets::new(std::iter::empty(), hidden.iter().map(String::as_str));
        Ok(Self {
            target: Target::new(endpoint, &timeouts)?,
            timeouts,
            credentials: Credentials::new(endpoint)?,
            secrets: RwLock::new(Known { proofs: [None, None], secrets }),
            hidden,
        })
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
        // Not within the limit: a command for a token may take its time, and nothing is sent meanwhile.
        let proof = self.proof(call).await?;
        let again = request.try_clone();
        let answer = self.ask_once(call, request, &proof, limit, sink).await?;
        match again {
            Some(again) if answer.is_denied() => match self.another(call, &answer, &proof).await? {
                Some(other) => self.ask_once(call, again, &other, limit, sink).await,
                None => Ok(answer),
            },
            _ => Ok(answer),
        }
    }

    async fn ask_once(
        &self,
        call: Call,
        request: RequestBuilder,
        proof: &Proof,
        limit: Duration,
        sink: &mut impl Sink,
    ) -> Result<Answer, RayError> {
        let exchange = self.exchange(call, request.headers(proof.headers.clone()), sink);
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
        let proof = self.proof(call).await?;
        let mut exchange = pin!(self.exchange(call, request.headers(proof.headers.clone()), sink));
        loop {
            let before = moved.load(Ordering::Relaxed);
            match timeout(limit, &mut exchange).await {
                Ok(result) => {
                    let answer = result.map_err(|error| self.own(error))?;
                    if answer.is_denied() && self.another(call, &answer, &proof).await?.is_some() {
                        // It cannot be sent again from here, but it would be accepted now.
                        let error = answer.into_error(call);
                        return Err(self.own(RayError { class: Class::Transient, ..error }));
                    }
                    return Ok(answer);
                }
                Err(_) if moved.load(Ordering::Relaxed) > before => {}
                Err(_) => return Err(self.own(too_late(call, limit))),
            }
        }
    }

    /// What the next request carries.
    pub(crate) async fn proof(&self, call: Call) -> Result<Arc<Proof>, RayError> {
        let proof = self.credentials.now().await.map_err(|why| {
            let error = RayError::new(call, Class::Transient, Kind::NoToken, why);
            self.own(error)
        })?;
        self.learn(&proof);
        Ok(proof)
    }

    /// What to show instead of a proof that was refused; `None` if there is nothing else.
    ///
    /// # Errors
    /// If it cannot be read again.
    pub(crate) async fn another(
        &self,
        call: Call,
        answer: &Answer,
        refused: &Proof,
    ) -> Result<Option<Arc<Proof>>, RayError> {
        let other = self.credentials.instead_of(refused).await.map_err(|why| {
            let message = format!("{} was refused, and there is no other: {why}", self.credentials.name());
            self.own(RayError::new(call, Class::Permanent, Kind::Denied, message).status(answer.status))
        })?;
        if let Some(other) = &other {
            self.learn(other);
        }
        Ok(other)
    }

    /// From now on no message contains this.
    fn learn(&self, proof: &Arc<Proof>) {
        let is_known =
            |known: &Known| known.proofs[0].as_ref().is_some_and(|last| last.headers == proof.headers);
        if is_known(&self.secrets.read()) {
            return;
        }
        let mut known = self.secrets.write();
        let proofs = [Some(Arc::clone(proof)), known.proofs[0].take()];
        let texts = proofs.iter().flatten().flat_map(|proof| &proof.texts).map(String::as_str);
        let secrets = Secrets::new(texts, self.hidden.iter().map(String::as_str));
        *known = Known { proofs, secrets };
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
                sink.ready().await?;
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

    /// Completes an error: adds the address, says what was refused, and removes secrets.
    pub(crate) fn own(&self, error: RayError) -> RayError {
        let mut error = error.at(&self.target.shown);
        let name = self.credentials.name();
        if error.kind == Kind::Denied && !error.message.as_str().starts_with(&name) {
            error.message = format!("{name} was refused: {}", error.message).into();
        }
        RayError { message: self.hide(&error.message), ..error }
    }

    /// Removes secrets from Ray's report about a job.
    pub(crate) fn own_job(&self, job: JobDetails) -> JobDetails {
        JobDetails { message: job.message.map(|message| self.hide(&message)), ..job }
    }

    fn hide(&self, message: &Message) -> Message {
        self.secrets.read().secrets.hide(message)
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
