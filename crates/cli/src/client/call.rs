//! A request, as it can be sent to any replica, and again.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{
    Body, Method, RequestBuilder, Url,
    header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serde::Serialize;

/// Answers are waited for this long, longer than the control plane delays any request.
const WAIT: Duration = Duration::from_secs(75);

pub(crate) struct Call {
    method: Method,
    path: Vec<String>,
    query: Vec<(String, String)>,
    headers: HeaderMap,
    body: Option<Box<dyn Fn() -> Body + Send + Sync>>,
    timeout: Option<Duration>,
    /// It does no harm if it is done twice.
    pub(super) is_repeatable: bool,
}

impl Call {
    pub(crate) fn new(method: Method, path: &[&str], query: &[(&str, String)]) -> Self {
        Self {
            is_repeatable: matches!(method, Method::GET | Method::PUT),
            method,
            path: path.iter().map(|&part| part.to_owned()).collect(),
            query: query.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
            headers: HeaderMap::new(),
            body: None,
            timeout: Some(WAIT),
        }
    }

    pub(super) fn json(mut self, body: &impl Serialize) -> Self {
        let body = Bytes::from(serde_json::to_vec(body).expect("the API's own types are JSON"));
        self.body = Some(Box::new(move || body.clone().into()));
        self.header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
    }

    /// `body` begins anew each time it is sent.
    pub(super) fn stream(mut self, length: u64, body: impl Fn() -> Body + Send + Sync + 'static) -> Self {
        self.body = Some(Box::new(body));
        self.header(CONTENT_LENGTH, length.into())
    }

    pub(super) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// `None`: as long as there are signs of life.
    pub(super) fn timeout(self, timeout: Option<Duration>) -> Self {
        Self { timeout, ..self }
    }

    pub(super) fn repeatable(self) -> Self {
        Self { is_repeatable: true, ..self }
    }

    /// One of Ray's own routes, which answer errors in plain text.
    pub(super) fn is_of_ray(&self) -> bool {
        self.path.first().is_some_and(|first| first == "api")
    }

    pub(super) fn at(&self, base: &Url, http: &reqwest::Client) -> RequestBuilder {
        let mut url = base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(&self.path);
        }
        if !self.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&self.query);
        }
        let mut request = http.request(self.method.clone(), url).headers(self.headers.clone());
        if let Some(timeout) = self.timeout {
            request = request.timeout(timeout);
        }
        match &self.body {
            Some(body) => request.body(body()),
            None => request,
        }
    }
}
