//! The routes over a whole control plane and fake Ray clusters, tested with our own client for Ray:
//! if it takes the control plane for a Ray cluster, Ray's own clients do too.

mod api;
mod files;
mod following;
mod strangers;

use std::time::Duration;

use multicluster_config::Config;
use multicluster_core::HealthState;
use multicluster_ray::{Endpoint, JobDetails, JobStatus, LogTail, RayClient, SubmitRequest, Timeouts};
use multicluster_store::sqlite;
use multicluster_testkit::{FakeOptions, FakeRay};
use multicluster_types::{ClusterName, ClusterSpec, JobId, Settings};
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinSet};

use super::{Sorry, job_id};
use crate::{Started, front::plane::Plane, process::start};

const SOON: Duration = Duration::from_secs(20);

/// A control plane with a listener.
struct Stage {
    plane: Plane,
    url: String,
    ray: RayClient,
    http: reqwest::Client,
    _started: Started,
    _serving: JoinSet<()>,
}

async fn a_fake(name: &str) -> FakeRay {
    FakeRay::start(FakeOptions::new(name)).await
}

impl Stage {
    async fn over(fakes: &[&FakeRay]) -> Self {
        Self::with(fakes, &[]).await
    }

    async fn with(fakes: &[&FakeRay], changes: &[(&str, &str)]) -> Self {
        let mut settings = Settings::default();
        let quick = [("submission_interval", "0s"), ("poll_interval", "100ms"), ("retry_backoff", "50ms")];
        for (name, value) in quick.iter().chain(changes) {
            settings.set(name, value).unwrap();
        }
        let spec = |fake: &&FakeRay| {
            ClusterSpec::new(ClusterName::new(fake.name()).unwrap(), "127.0.0.1:1", fake.url())
        };
        let config = Config {
            settings,
            clusters: fakes.iter().map(spec).collect(),
            sso: Default::default(),
            warnings: Vec::new(),
            files: Vec::new(),
            discovered: multicluster_config::Discovered::default(),
        };
        let started = start(config, sqlite::open_temporary().unwrap(), None).unwrap();
        let plane = started.plane.clone();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = crate::front::http::router(plane.clone(), address, &[]);
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, router).await.unwrap() });
        let url = format!("http://{address}");
        let ray = RayClient::new(&Endpoint::new(&url), Timeouts::default()).unwrap();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let stage = Self { plane, url, ray, http, _started: started, _serving: serving };
        for fake in fakes {
            let name = ClusterName::new(fake.name()).unwrap();
            stage
                .until("healthy", async || {
                    let name = name.clone();
                    let view = stage.plane.driver.read(move |core| core.cluster(&name)).await.unwrap();
                    view.is_some_and(|view| view.health == HealthState::Healthy)
                })
                .await;
        }
        stage
    }

    async fn until(&self, what: &str, is_so: impl AsyncFn() -> bool) {
        let waited = tokio::time::timeout(SOON, async {
            while !is_so().await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        waited.await.unwrap_or_else(|_| panic!("never: {what}"));
    }

    async fn submit(&self, id: &str, entrypoint: &str) {
        assert_eq!(self.ray.submit(&SubmitRequest::new(id, entrypoint)).await.unwrap(), id);
    }

    async fn details(&self, id: &str) -> JobDetails {
        self.ray.job(id).await.unwrap().unwrap()
    }

    async fn wait_for(&self, id: &str, status: JobStatus) {
        self.until(&format!("{id} is {status:?}"), async || self.details(id).await.status == status).await;
    }

    async fn logs(&self, id: &str) -> String {
        printed(&self.ray.logs(id, 1 << 20).await.unwrap().unwrap().text)
    }

    async fn get(&self, path: &str) -> (u16, String) {
        self.send(self.http.get(format!("{}{path}", self.url))).await
    }

    async fn post(&self, body: impl Into<reqwest::Body>) -> (u16, String) {
        self.send(self.http.post(format!("{}/api/jobs/", self.url)).body(body)).await
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> (u16, String) {
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let kind =
            response.headers().get("content-type").map_or(String::new(), |k| k.to_str().unwrap().to_owned());
        let text = response.text().await.unwrap();
        assert!(status == 200 || kind.starts_with("text/plain"), "{status} {kind} {text}");
        (status, text)
    }

    async fn shown(&self, id: &str) -> Value {
        serde_json::from_str(&self.get(&format!("/api/jobs/{id}")).await.1).unwrap()
    }
}

/// Everything until the stream closes, or the error that ended it.
async fn read_all(mut tail: LogTail) -> Result<String, String> {
    let mut all = String::new();
    while let Some(piece) = tokio::time::timeout(SOON, tail.next()).await.expect("it ends") {
        all += &piece.map_err(|error| format!("after {all:?}: {error}"))?;
    }
    Ok(printed(&all))
}

/// The output of the entrypoint itself: Ray begins each log with two lines of its own.
fn printed(log: &str) -> String {
    let is_rays = |line: &&str| {
        line.contains(" -- Runtime env is setting up.") || line.starts_with("Running entrypoint for job ")
    };
    log.split_inclusive('\n').filter(|line| !is_rays(line)).collect()
}

#[test]
fn who_asks_for_an_attempt_or_a_driver_is_told_what_to_ask_for() {
    let told = |id: &str| job_id(id).err().unwrap_or_else(|| Sorry::no_such_job(id)).text;
    assert_eq!(told("nope"), "Job nope does not exist");
    assert!(told("nightly-a2").contains("ask for nightly"), "{}", told("nightly-a2"));
    assert!(told("02000000").contains("submission id"), "{}", told("02000000"));
    assert_eq!(told("../../etc/passwd"), "Job ../../etc/passwd does not exist");
}

fn an_id(text: &str) -> JobId {
    JobId::new(text).unwrap()
}
