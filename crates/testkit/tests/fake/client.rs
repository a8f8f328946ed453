//! A small client: status and body, or the error.

use std::sync::OnceLock;

use multicluster_testkit::FakeRay;
use reqwest::Method;
use serde_json::{Value, json};

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) kind: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    #[track_caller]
    pub(crate) fn assert(&self, status: u16, words: &str) {
        assert_eq!(self.status, status, "{}", self.body);
        assert!(self.body.contains(words), "{} is not in {}", words, self.body);
    }
}

pub(crate) async fn send(request: reqwest::RequestBuilder) -> Result<Answer, reqwest::Error> {
    let answer = request.send().await?;
    let kind = answer.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
    Ok(Answer {
        status: answer.status().as_u16(),
        kind: kind.unwrap_or_default(),
        body: answer.text().await?,
    })
}

/// One client for all tests, because creating one is slow. It keeps no connection: each test has
/// its own runtime.
pub(crate) fn client() -> &'static reqwest::Client {
    static CLIENT: OnceLock<reqwest::Client> = OnceLock::new();
    CLIENT.get_or_init(|| reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap())
}

pub(crate) fn request(fake: &FakeRay, method: Method, path: &str) -> reqwest::RequestBuilder {
    client().request(method, format!("{}{path}", fake.url()))
}

pub(crate) async fn get(fake: &FakeRay, path: &str) -> Answer {
    send(request(fake, Method::GET, path)).await.unwrap()
}

pub(crate) async fn try_get(fake: &FakeRay, path: &str) -> Result<Answer, reqwest::Error> {
    send(request(fake, Method::GET, path)).await
}

pub(crate) async fn post(fake: &FakeRay, path: &str, body: &Value) -> Answer {
    try_post(fake, path, body).await.unwrap()
}

pub(crate) async fn try_post(fake: &FakeRay, path: &str, body: &Value) -> Result<Answer, reqwest::Error> {
    send(request(fake, Method::POST, path).body(body.to_string())).await
}

pub(crate) async fn submit(fake: &FakeRay, id: &str, entrypoint: &str) -> Answer {
    post(fake, "/api/jobs/", &json!({"entrypoint": entrypoint, "submission_id": id})).await
}

pub(crate) async fn status(fake: &FakeRay, id: &str) -> String {
    get(fake, &format!("/api/jobs/{id}")).await.json()["status"].as_str().unwrap().to_owned()
}
