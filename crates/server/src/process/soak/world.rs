//! The control plane and its clusters, on a clock that jumps.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, StatusCode},
    response::Response,
};
use multicluster_core::Core;
use multicluster_testkit::{FakeOptions, FakeRay};
use serde_json::Value;
use tokio::time::sleep;
use tower::Service;

use super::{A_DAY, AN_HOUR};
use crate::{
    engine::driver,
    front::{http, plane::Plane},
    process::{Around, Assembled, assemble},
};

/// How far the clock jumps at most, and so how long an answer over a socket takes: a paused clock
/// also jumps while bytes are on their way.
const TICK: Duration = Duration::from_millis(10);
const CLUSTERS: [(&str, f64); 3] = [("centos", 64.0), ("mac", 32.0), ("spot", 32.0)];

pub(super) struct World {
    router: Router,
    pub(super) plane: Plane,
    pub(super) fakes: Vec<FakeRay>,
    pub(super) state: PathBuf,
}

impl World {
    /// A day uses the default retention, and an hour a 24th of it.
    pub(super) async fn start(seconds: u64) -> Arc<Self> {
        tokio::spawn(async {
            loop {
                sleep(TICK).await;
            }
        });
        let mut fakes = Vec::new();
        for (name, cpus) in CLUSTERS {
            fakes.push(FakeRay::start(FakeOptions::new(name).cpus(cpus).memory(64e9)).await);
        }
        let of_a_day = |kept: u64| (kept * seconds / A_DAY).max(1);
        let options = multicluster_store::Options {
            events: of_a_day(100_000),
            ..multicluster_store::Options::default()
        };
        let state = folder();
        let opened = multicluster_store::sqlite::open(&state, options).unwrap();
        let config =
            multicluster_config::parse(&file(&fakes, of_a_day(10_000), of_a_day(AN_HOUR)), "soak", [])
                .unwrap();
        let around = Around::alone(&config);
        let Assembled { plane, parts, inbox, inputs, .. } = assemble(config, opened, None, around).unwrap();
        driver::start_here(parts, inbox, inputs);
        let router = http::router(plane.clone(), "127.0.0.1:8700".parse().unwrap(), &[]);
        Arc::new(Self { router, plane, fakes, state })
    }

    /// Sends a request to the API, without a socket in between.
    pub(super) async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        let response = self.open(method, path, body).await;
        let status = response.status();
        let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    /// The same, for streams.
    pub(super) async fn open(&self, method: &str, path: &str, body: Option<Value>) -> Response {
        let request = Request::builder().method(method).uri(path).header("host", "localhost:8700");
        let body = body.map_or_else(Body::empty, |json| json.to_string().into());
        self.router.clone().call(request.body(body).unwrap()).await.unwrap()
    }

    /// Every hour one cluster is unreachable for three minutes, and another head node restarts.
    pub(super) async fn have_accidents(&self, second: u64) {
        let (hour, minute) = (usize::try_from(second / AN_HOUR).unwrap(), second % AN_HOUR / 60);
        let fake = |n: usize| &self.fakes[n % self.fakes.len()];
        match (minute, second % 60) {
            (5, 0) => fake(hour).down().await,
            (8, 0) => fake(hour).up().await,
            (20, 0) => fake(hour + 1).restart(),
            _ => {}
        }
    }

    /// Waits until no work waits or runs.
    pub(super) async fn wait_until_idle(&self) {
        for _ in 0..AN_HOUR {
            if !self.plane.driver.read(Core::has_work).await.unwrap() {
                return;
            }
            sleep(Duration::from_secs(1)).await;
        }
        let live = |core: &Core| {
            let live = core.jobs().filter(|job| !job.state().is_terminal());
            live.map(|job| format!("{} is {:?}", job.id, job.state())).take(20).collect::<Vec<_>>()
        };
        panic!("an hour later there is still work: {:#?}", self.plane.driver.read(live).await.unwrap());
    }

    /// All work that began has ended, once.
    pub(super) async fn check_ends(&self) {
        let totals = self.plane.metrics.totals();
        assert_eq!(totals.submitted, totals.succeeded + totals.failed + totals.stopped, "{totals:?}");
    }

    /// What was stored of it covers the whole time. The last minute is not over.
    pub(super) async fn check_history(&self, seconds: u64) {
        let since = self.plane.started_at.0;
        let (status, history) = self.ask("GET", &format!("/v1/history?since={since}&step=600"), None).await;
        assert_eq!(status, StatusCode::OK, "{history}");
        let of = |path: &str| history.pointer(path).and_then(Value::as_array).cloned().unwrap_or_default();
        assert!(of("/moments").len() as u64 >= seconds / 600, "{history}");
        let submitted: u64 = of("/pool/submitted").iter().filter_map(Value::as_u64).sum();
        let all = self.plane.metrics.totals().submitted;
        assert!((all / 2..=all).contains(&submitted), "{submitted} of {all}");
        assert!(of("/clusters/centos/cpu").iter().any(|share| share.as_f64() > Some(0.0)), "{history}");
        let waits: u64 = of("/waits/jobs").iter().filter_map(Value::as_u64).sum();
        assert!(waits > 0, "{history}");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.state));
    }
}

/// In memory, if possible: this test has no power cuts, so waiting for a disk would show nothing.
fn folder() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
    parent.join(format!("ray-multicluster-soak-{}", std::process::id()))
}

fn file(fakes: &[FakeRay], retained: u64, clean_up_after: u64) -> String {
    let clusters: String = fakes
        .iter()
        .map(|fake| {
            let (name, url) = (fake.name(), fake.url());
            format!("  - {{ name: {name}, head_address: \"127.0.0.1:1\", dashboard: \"{url}\", tags: [{name}] }}\n")
        })
        .collect();
    format!(
        "clusters:\n{clusters}scheduler: {{ submission_interval: 0s, retain_finished: {retained}, retain_for: 12h, \
         clean_up_after: {clean_up_after}s }}\n"
    )
}
