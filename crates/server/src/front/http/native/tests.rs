//! The API as its callers see it: the whole router over a control plane in memory. Its clusters do
//! not exist: the tests provide their facts.

mod access;
mod advice;
mod clusters;
mod console;
mod document;
mod events;
mod history;
mod jobs;
mod limits;
mod lists;
mod owners;
mod placements;
mod policies;
mod problems;
mod queue;
mod reads;
mod resolved;
mod sso;
mod typescript;

use std::path::Path;

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, HeaderValue, Request, StatusCode, header},
};
use multicluster_core::Input;
use multicluster_store::Opened;
use multicluster_types::{ClusterName, Incarnation, Load, Platform, Resources, Snapshot, Span};
use serde_json::Value;
use tower::Service;

use crate::{
    Started,
    clock::wall,
    front::{http, plane::Plane},
};

/// No server listens at these addresses: the lanes' polls fail, and all facts come from the tests.
const CLUSTERS: &str = "
clusters:
  - name: centos
    head_address: 127.0.0.1:1
    dashboard: http://127.0.0.1:1
    tags: [linux, x86_64]
    runtime_env: { conda: ts, env_vars: { home_dir: /home/zorro, API_TOKEN: s3cret } }
    token: s3cret
  - name: mac
    head_address: 127.0.0.1:2
    dashboard: http://127.0.0.1:2
    tags: [macos]
    weight: 2.0
scheduler:
  submission_interval: 0
  poll_interval: 1h
  snapshot_max_age: 1h
  unhealthy_after: 1000000
";

pub(super) struct World {
    router: Router,
    started: Started,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
    pub(super) json: Value,
}

impl World {
    pub(super) async fn new() -> Self {
        Self::with("").await
    }

    /// With these additional settings.
    pub(super) async fn with(settings: &str) -> Self {
        Self::start(settings, None).await
    }

    /// A reload reads this file.
    pub(super) async fn of_file(file: &Path) -> Self {
        Self::start("", Some(file)).await
    }

    async fn start(settings: &str, file: Option<&Path>) -> Self {
        Self::of(settings, file, multicluster_store::sqlite::open_temporary().unwrap()).await
    }

    /// With the state that an earlier one left.
    async fn of(settings: &str, file: Option<&Path>, opened: Opened) -> Self {
        let config = multicluster_config::parse(&format!("{CLUSTERS}{settings}"), "test", []).unwrap();
        let started = crate::process::start(config, opened, file.map(Path::to_owned)).unwrap();
        let router = http::router(started.plane.clone(), "127.0.0.1:8700".parse().unwrap(), &[]);
        // Once this is durable, the configuration is in force and watchers have its events.
        started.plane.driver.turn(|_| ()).await.unwrap();
        Self { router, started }
    }

    pub(super) fn plane(&self) -> &Plane {
        &self.started.plane
    }

    pub(super) async fn stop(self) -> Router {
        self.started.stop().await.unwrap();
        self.router
    }

    /// This cluster has just answered a poll.
    pub(super) async fn polled(&self, cluster: &str, cpus: f64) {
        let snapshot = Snapshot {
            taken_at: wall(),
            total: Resources::from_amounts([("CPU", cpus), ("memory", 1e9)]).unwrap(),
            used: Resources::default(),
            physical: Load::default(),
            head: None,
            nodes: 1,
            shapes: Vec::new(),
            platform: Platform::default(),
            ray_version: "2.60.0".into(),
            python_version: Some("3.11.7".into()),
            incarnation: Some(Incarnation::new("session_1").unwrap()),
            autoscaler: None,
        };
        let cluster = ClusterName::new(cluster).unwrap();
        self.plane()
            .driver
            .act(Input::Polled { cluster, snapshot: Box::new(snapshot), took: Span::ZERO })
            .await
            .unwrap();
    }

    pub(super) async fn get(&self, path: &str) -> Heard {
        send(&self.router, request("GET", path, Body::empty())).await
    }

    /// As a caller that prefers Chinese.
    pub(super) async fn get_zh(&self, path: &str) -> Heard {
        let mut request = request("GET", path, Body::empty());
        let accepted = HeaderValue::from_static("zh-CN,zh;q=0.9,en;q=0.8");
        request.headers_mut().insert(header::ACCEPT_LANGUAGE, accepted);
        send(&self.router, request).await
    }

    pub(super) async fn delete(&self, path: &str) -> Heard {
        send(&self.router, request("DELETE", path, Body::empty())).await
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> Heard {
        send(&self.router, request("POST", path, body.to_string().into())).await
    }

    pub(super) async fn put(&self, path: &str, body: Value) -> Heard {
        send(&self.router, request("PUT", path, body.to_string().into())).await
    }

    pub(super) async fn raw(&self, request: Request<Body>) -> Heard {
        send(&self.router, request).await
    }

    /// Submits a job that stays queued: no cluster has answered a poll.
    pub(super) async fn queued(&self, body: Value) -> String {
        let answer = self.post("/v1/jobs", body).await.expect(201);
        answer["id"].as_str().unwrap().to_owned()
    }
}

pub(super) fn request(method: &str, path: &str, body: Body) -> Request<Body> {
    Request::builder().method(method).uri(path).header("host", "localhost:8700").body(body).unwrap()
}

pub(super) async fn send(router: &Router, request: Request<Body>) -> Heard {
    let response = router.clone().call(request).await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let json = serde_json::from_str(&text).unwrap_or_default();
    Heard { status, headers, text, json }
}

impl Heard {
    /// The JSON, if the status is as expected.
    #[track_caller]
    pub(super) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        self.json
    }

    /// Checks that the request was refused with this status and code, in the form of all errors.
    #[track_caller]
    pub(super) fn refused(self, status: u16, code: &str) -> Value {
        assert_eq!((self.status.as_u16(), self.json["code"].as_str()), (status, Some(code)), "{}", self.text);
        assert_eq!(self.headers["content-type"], "application/json");
        for field in ["message", "hint"] {
            assert!(self.json[field].as_str().is_some_and(|text| !text.is_empty()), "{}", self.text);
        }
        self.json
    }
}
