//! A client of the native API: typed answers, readable failures.

mod away;
mod call;
mod events;
mod failover;
mod logs;
mod proof;
mod replicas;
mod sse;

use std::time::Duration;

use multicluster_api::{Accepted, ErrorBody, Job, JobRequest};
use multicluster_types::{Lang, env_vars};
use reqwest::{Method, Response, StatusCode, header, redirect};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    address::Address,
    exit::{Exit, Failure},
};

use away::Away;
use call::Call;
pub(crate) use events::Events;
use failover::{Repeated, cause, plain};
pub(crate) use logs::{LogEvent, LogFollower, LogPart};
use replicas::Replicas;

const CONNECT: Duration = Duration::from_secs(5);
/// A machine that is gone refuses nothing.
const CONNECT_TO_ONE_OF_SEVERAL: Duration = Duration::from_secs(3);
/// A stream sends a sign of life every 15 s, and a wait is answered after 30 s: a control plane
/// that is silent for longer is gone.
const SILENCE: Duration = Duration::from_secs(45);
const UPLOAD: Duration = Duration::from_secs(300);

/// A client of one control plane, which may have several replicas.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    replicas: Replicas,
    why: String,
    /// There is a token, but the program at this address may not be the one it is for.
    keeps_token: bool,
}

/// An answer: parsed, and as it was sent.
pub(crate) struct Answer<T> {
    pub(crate) value: T,
    pub(crate) raw: Value,
}

/// The query parameters.
pub(crate) type Query<'a> = [(&'a str, String)];

impl Client {
    /// Explanations are in this language.
    pub(crate) fn new(address: Address, lang: Lang) -> Result<Self, Failure> {
        let keeps_token = !address.is_known && proof::has_token();
        let shows_token = !keeps_token && (address.own_token.is_some() || proof::has_token());
        let replicas = Replicas::of(&address, shows_token)?;
        let mut headers =
            if keeps_token { header::HeaderMap::new() } else { proof::headers(address.own_token)? };
        headers.insert(header::ACCEPT_LANGUAGE, header::HeaderValue::from_static(lang.as_str()));
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("ray-multicluster/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .no_proxy()
            .tcp_nodelay(true)
            .connect_timeout(if replicas.are_several() { CONNECT_TO_ONE_OF_SEVERAL } else { CONNECT })
            .read_timeout(SILENCE)
            .default_headers(headers);
        if let Some(authorities) = proof::authorities()? {
            builder = builder.tls_certs_only(authorities);
        }
        if !replicas.any_with_tls() {
            // Never used, and a slim container may have no certificates.
            builder = builder.tls_certs_only([]);
        }
        let http = builder.build().map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        Ok(Self { http, replicas, why: address.why, keeps_token })
    }

    /// The one that answered last, without a trailing slash.
    pub(crate) fn address(&self) -> &str {
        self.replicas.name(self.replicas.current())
    }

    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &Query<'_>,
    ) -> Result<Answer<T>, Failure> {
        self.ask(&Call::new(Method::GET, path, query)).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<Answer<T>, Failure> {
        self.ask(&Call::new(Method::POST, path, &[]).json(body)).await
    }

    /// The same, where it does no harm if it is done twice.
    pub(crate) async fn post_surely<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<Answer<T>, Failure> {
        self.ask(&Call::new(Method::POST, path, &[]).json(body).repeatable()).await
    }

    pub(crate) async fn put<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<Answer<T>, Failure> {
        self.ask(&Call::new(Method::PUT, path, &[]).json(body)).await
    }

    pub(crate) async fn patch<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<Answer<T>, Failure> {
        self.ask(&Call::new(Method::PATCH, path, &[]).json(body).repeatable()).await
    }

    pub(crate) async fn delete<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &Query<'_>,
    ) -> Result<Answer<T>, Failure> {
        self.ask(&Call::new(Method::DELETE, path, query)).await
    }

    /// An answer that is not JSON.
    pub(crate) async fn text(&self, path: &[&str]) -> Result<String, Failure> {
        let response = self.send(&Call::new(Method::GET, path, &[])).await?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        response.text().await.map_err(|error| self.broken_off(&error))
    }

    /// Submits one job, even if an answer is lost: with an id, it is sent again until there is one.
    pub(crate) async fn submit(&self, job: &JobRequest) -> Result<Answer<Accepted>, Failure> {
        let mut call = Call::new(Method::POST, &["v1", "jobs"], &[]).json(job);
        if let Some(traceparent) = traceparent() {
            call = call.header(header::HeaderName::from_static("traceparent"), traceparent);
        }
        if job.id.is_some() {
            call = call.repeatable();
        }
        let mut away = Away::default();
        loop {
            match self.ask(&call).await {
                Err(failure) if failure.exit != Exit::Unreachable && !failure.may_be_done => {
                    return Err(failure);
                }
                Err(failure) if job.id.is_some() => away.pause(failure).await?,
                Err(failure) if !failure.may_be_done => return Err(failure),
                Err(failure) => {
                    let message = format!("the job may or may not have been accepted: {}", failure.message);
                    return Err(Failure::new(Exit::Unreachable, message).hint(
                        "check with `ray-multicluster jobs`; with a --submission-id it is safe to submit again",
                    ));
                }
                answer => return answer,
            }
        }
    }

    /// The job afterwards: stopped, or about to be. A second stop does no harm.
    pub(crate) async fn stop(&self, job: &str) -> Result<Answer<Job>, Failure> {
        match self.post_surely(&["v1", "jobs", job, "stop"], &Value::Null).await {
            // It has ended: most likely by the first try, whose answer was lost.
            Err(failure) if failure.was_repeated && failure.exit == Exit::Refused => {
                self.get(&["v1", "jobs", job], &[]).await
            }
            answer => answer,
        }
    }

    /// Deletes an ended job. A second try does no harm.
    pub(crate) async fn forget(&self, job: &str) -> Result<(), Failure> {
        let response = self.send(&Call::new(Method::DELETE, &["v1", "jobs", job], &[]).repeatable()).await?;
        if response.status().is_success() {
            return Ok(());
        }
        match self.refusal(response).await {
            // The first try, whose answer was lost, did it.
            failure if failure.was_repeated && failure.exit == Exit::NotFound => Ok(()),
            failure => Err(failure),
        }
    }

    /// The job once it has ended, however long that takes.
    pub(crate) async fn wait_for(&self, job: &str) -> Result<Answer<Job>, Failure> {
        let mut away = Away::default();
        loop {
            match self.get::<Job>(&["v1", "jobs", job, "wait"], &[("timeout", "30s".to_owned())]).await {
                Ok(answer) if answer.value.state.is_terminal() => return Ok(answer),
                Ok(_) => away = Away::default(),
                Err(failure) => away.pause(failure).await?,
            }
        }
    }

    /// Does the control plane have this package?
    pub(crate) async fn has_package(&self, name: &str) -> Result<bool, Failure> {
        let response = self.send(&Call::new(Method::GET, &["api", "packages", "gcs", name], &[])).await?;
        match response.status() {
            StatusCode::NOT_FOUND => Ok(false),
            status if status.is_success() => Ok(true),
            _ => Err(plain_refusal(response).await),
        }
    }

    /// `body` begins anew each time.
    pub(crate) async fn put_package(
        &self,
        name: &str,
        length: u64,
        body: impl Fn() -> reqwest::Body + Send + Sync + 'static,
    ) -> Result<(), Failure> {
        let call = Call::new(Method::PUT, &["api", "packages", "gcs", name], &[]).timeout(Some(UPLOAD));
        let response = self.send(&call.stream(length, body)).await?;
        if response.status().is_success() { Ok(()) } else { Err(plain_refusal(response).await) }
    }

    async fn ask<T: DeserializeOwned>(&self, call: &Call) -> Result<Answer<T>, Failure> {
        let response = self.send(call).await?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        let body = response.bytes().await.map_err(|error| self.broken_off(&error))?;
        let read = || {
            let raw: Value = serde_json::from_slice(&body)?;
            let value = T::deserialize(&raw)?;
            Ok(Answer { value, raw })
        };
        read().map_err(|error: serde_json::Error| self.stranger(&error.to_string()))
    }

    /// An answer that is not a success, with its own text.
    async fn refusal(&self, response: Response) -> Failure {
        let status = response.status();
        let was_repeated = response.extensions().get::<Repeated>().is_some();
        let body = response.bytes().await.unwrap_or_default();
        let failure = match serde_json::from_slice::<ErrorBody>(&body) {
            Ok(body) if status == StatusCode::UNAUTHORIZED && self.keeps_token => {
                let (token, here) = (env_vars::TOKEN, self.address());
                Failure::refused(status.as_u16(), body)
                    .hint(format!("{token} is only sent to an address that you name: --address {here}"))
            }
            Ok(body) => Failure::refused(status.as_u16(), body),
            Err(_) => self.stranger(&format!("HTTP {status}")),
        };
        Failure { was_repeated, ..failure }
    }

    /// The answer of the present replica broke off.
    fn broken_off(&self, error: &reqwest::Error) -> Failure {
        self.away(self.replicas.current(), error)
    }

    /// No answer, or an incomplete one.
    fn away(&self, index: usize, error: &reqwest::Error) -> Failure {
        let (address, said) = (self.replicas.name(index), cause(error));
        let message = format!("cannot reach a control plane at {address}: {said}\n  {}", self.why);
        Failure::new(Exit::Unreachable, message).hint(
            "start one with `ray-multicluster serve --config cluster.yaml`, or name another: --address http://host:port",
        )
    }

    /// The program at this address is not our control plane.
    fn stranger(&self, why: &str) -> Failure {
        let message =
            format!("the server at {} is not a control plane of this version: {why}", self.address());
        Failure::new(Exit::Unreachable, message).hint(
            "give the address of the control plane, not of a Ray cluster; check that both have the same version",
        )
    }
}

/// A refusal of one of Ray's own routes, which answer in plain text.
async fn plain_refusal(response: Response) -> Failure {
    let status = response.status();
    plain(status, &response.text().await.unwrap_or_default())
}

/// The span that started this process, for the job's trace.
fn traceparent() -> Option<header::HeaderValue> {
    std::env::var("TRACEPARENT").ok()?.parse().ok()
}
