//! A client of the native API: typed answers, readable failures.

mod away;
mod events;
mod logs;
mod proof;
mod sse;

use std::time::Duration;

use multicluster_api::{Accepted, ErrorBody, Job, JobRequest};
use multicluster_types::{Lang, env_vars};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url, header, redirect};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    address::Address,
    exit::{Exit, Failure},
};

use away::Away;
pub(crate) use events::Events;
pub(crate) use logs::{LogEvent, LogFollower};

const CONNECT: Duration = Duration::from_secs(5);
/// Longer than the control plane delays any request.
const CALL: Duration = Duration::from_secs(75);
/// A stream sends a sign of life every 15 s, and a wait is answered after 30 s: a control plane
/// that is silent for longer is gone.
const SILENCE: Duration = Duration::from_secs(45);
const UPLOAD: Duration = Duration::from_secs(300);

/// A client of one control plane.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: Url,
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
        let bad = |why: &str| {
            Failure::new(
                Exit::BadInput,
                format!("{} is not the address of a control plane: {why}", address.url),
            )
            .hint("write http://host:port")
        };
        let base = Url::parse(&address.url).map_err(|error| bad(&error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none_or(str::is_empty) {
            return Err(bad("it does not begin with http:// or https://"));
        }
        let keeps_token = !address.is_known && proof::has_token();
        let mut headers =
            if keeps_token { header::HeaderMap::new() } else { proof::headers(address.own_token)? };
        headers.insert(header::ACCEPT_LANGUAGE, header::HeaderValue::from_static(lang.as_str()));
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("ray-multicluster/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .no_proxy()
            .tcp_nodelay(true)
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE)
            .default_headers(headers);
        if let Some(authorities) = proof::authorities()? {
            builder = builder.tls_certs_only(authorities);
        }
        if base.scheme() == "http" {
            // Never used, and a slim container may have no certificates.
            builder = builder.tls_certs_only([]);
        }
        let http = builder.build().map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        Ok(Self { http, base, why: address.why, keeps_token })
    }

    /// Without a trailing slash.
    pub(crate) fn address(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &Query<'_>,
    ) -> Result<Answer<T>, Failure> {
        self.ask(self.request(Method::GET, path, query)).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<Answer<T>, Failure> {
        let body = serde_json::to_vec(body).expect("the API's own types are JSON");
        let request = self.request(Method::POST, path, &[]);
        self.ask(request.header(header::CONTENT_TYPE, "application/json").body(body)).await
    }

    pub(crate) async fn put<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<Answer<T>, Failure> {
        let body = serde_json::to_vec(body).expect("the API's own types are JSON");
        let request = self.request(Method::PUT, path, &[]);
        self.ask(request.header(header::CONTENT_TYPE, "application/json").body(body)).await
    }

    pub(crate) async fn delete<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &Query<'_>,
    ) -> Result<Answer<T>, Failure> {
        self.ask(self.request(Method::DELETE, path, query)).await
    }

    /// An answer that is not JSON.
    pub(crate) async fn text(&self, path: &[&str]) -> Result<String, Failure> {
        let response = self.send(self.request(Method::GET, path, &[]).timeout(CALL)).await?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        response.text().await.map_err(|error| self.away(&error))
    }

    /// Submits one job, even if an answer is lost: with an id, it is sent again until there is one.
    pub(crate) async fn submit(&self, job: &JobRequest) -> Result<Answer<Accepted>, Failure> {
        let mut away = Away::default();
        loop {
            let body = serde_json::to_vec(job).expect("the API's own types are JSON");
            let mut request = self.request(Method::POST, &["v1", "jobs"], &[]);
            if let Some(traceparent) = traceparent() {
                request = request.header("traceparent", traceparent);
            }
            let request = request.header(header::CONTENT_TYPE, "application/json").body(body);
            match self.ask(request).await {
                Err(failure) if failure.exit != Exit::Unreachable => return Err(failure),
                Err(failure) if job.id.is_some() => away.pause(failure).await?,
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
        let request = self.request(Method::GET, &["api", "packages", "gcs", name], &[]).timeout(CALL);
        let response = self.send(request).await?;
        match response.status() {
            StatusCode::NOT_FOUND => Ok(false),
            status if status.is_success() => Ok(true),
            _ => Err(self.plain_refusal(response).await),
        }
    }

    pub(crate) async fn put_package(
        &self,
        name: &str,
        length: u64,
        body: reqwest::Body,
    ) -> Result<(), Failure> {
        let request = self.request(Method::PUT, &["api", "packages", "gcs", name], &[]).timeout(UPLOAD);
        let response = self.send(request.header(header::CONTENT_LENGTH, length).body(body)).await?;
        if response.status().is_success() { Ok(()) } else { Err(self.plain_refusal(response).await) }
    }

    fn request(&self, method: Method, path: &[&str], query: &Query<'_>) -> RequestBuilder {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.http.request(method, url)
    }

    async fn ask<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<Answer<T>, Failure> {
        let response = self.send(request.timeout(CALL)).await?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        let body = response.bytes().await.map_err(|error| self.away(&error))?;
        let read = || {
            let raw: Value = serde_json::from_slice(&body)?;
            let value = T::deserialize(&raw)?;
            Ok(Answer { value, raw })
        };
        read().map_err(|error: serde_json::Error| self.stranger(&error.to_string()))
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, Failure> {
        request.send().await.map_err(|error| self.away(&error))
    }

    /// An answer that is not a success, with its own text.
    async fn refusal(&self, response: Response) -> Failure {
        let status = response.status();
        let body = response.bytes().await.unwrap_or_default();
        match serde_json::from_slice::<ErrorBody>(&body) {
            Ok(body) if status == StatusCode::UNAUTHORIZED && self.keeps_token => {
                let (token, here) = (env_vars::TOKEN, self.address());
                Failure::refused(status.as_u16(), body)
                    .hint(format!("{token} is only sent to an address that you name: --address {here}"))
            }
            Ok(body) => Failure::refused(status.as_u16(), body),
            Err(_) => self.stranger(&format!("HTTP {status}")),
        }
    }

    /// The same for Ray's own routes, which answer in plain text.
    async fn plain_refusal(&self, response: Response) -> Failure {
        let status = response.status();
        let text = response.text().await.unwrap_or_default();
        let message = format!("HTTP {status}: {}", text.trim().chars().take(500).collect::<String>());
        Failure::refused(status.as_u16(), ErrorBody { code: String::new(), message, hint: None })
    }

    /// No answer, or an incomplete one.
    fn away(&self, error: &reqwest::Error) -> Failure {
        let mut cause: &dyn std::error::Error = error;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        let said = if error.is_timeout() { "no answer in time".to_owned() } else { cause.to_string() };
        let message = format!("cannot reach a control plane at {}: {said}\n  {}", self.address(), self.why);
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

/// The span that started this process, for the job's trace.
fn traceparent() -> Option<header::HeaderValue> {
    std::env::var("TRACEPARENT").ok()?.parse().ok()
}
