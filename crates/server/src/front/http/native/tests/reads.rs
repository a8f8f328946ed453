//! Requests that read much delay neither requests for one job nor dispatches.

use std::{
    collections::BTreeSet,
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use axum::{body::Body, http::header, response::Response};
use multicluster_config::Config;
use multicluster_core::record::AttemptRecord;
use multicluster_store::{
    FinishedRun, JobFilter, LogCopy, Page, Reader, Sample, SampleStep, StoreError, StoredEvent, StoredJob,
    Waits, sqlite,
};
use multicluster_testkit::{Endpoint, FakeOptions, FakeRay, Fault, JobStatus};
use multicluster_types::{
    Attempt, ClusterName, ClusterSpec, Decision, JobId, Payload, Settings, Span, Timestamp,
};
use serde_json::json;
use tokio::task::JoinHandle;
use tower::Service;

use super::{access::Guarded, request, send};
use crate::front::http;

/// A store whose lists for this owner take as long as the test wants.
struct Slow {
    store: Arc<dyn Reader>,
    owner: &'static str,
    held: Mutex<bool>,
    changed: Condvar,
}

impl Slow {
    fn new(store: Arc<dyn Reader>, owner: &'static str) -> Arc<Self> {
        Arc::new(Self { store, owner, held: Mutex::new(true), changed: Condvar::new() })
    }

    fn go_on(&self) {
        *self.held.lock().unwrap() = false;
        self.changed.notify_all();
    }
}

impl Reader for Slow {
    fn jobs(
        &self,
        filter: &JobFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Page<StoredJob>, StoreError> {
        if filter.owner.as_ref().is_some_and(|owner| owner.as_str() == self.owner) {
            drop(self.changed.wait_while(self.held.lock().unwrap(), |held| *held).unwrap());
        }
        self.store.jobs(filter, before, limit)
    }

    fn job(&self, id: &JobId) -> Result<Option<StoredJob>, StoreError> {
        self.store.job(id)
    }

    fn payload(&self, id: &JobId) -> Result<Option<Payload>, StoreError> {
        panic!("{id} is dispatched with what is read for those who ask")
    }

    fn attempts(&self, job: &JobId) -> Result<Vec<AttemptRecord>, StoreError> {
        self.store.attempts(job)
    }

    fn decisions(
        &self,
        job: Option<&JobId>,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Page<Decision>, StoreError> {
        self.store.decisions(job, before, limit)
    }

    fn events(
        &self,
        jobs: Option<&BTreeSet<JobId>>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.store.events(jobs, after, limit)
    }

    fn runs(
        &self,
        from: Timestamp,
        until: Timestamp,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Page<FinishedRun>, StoreError> {
        self.store.runs(from, until, before, limit)
    }

    fn waits(&self, from: Timestamp, until: Timestamp, step: Span) -> Result<Vec<Waits>, StoreError> {
        self.store.waits(from, until, step)
    }

    fn samples(
        &self,
        step: SampleStep,
        from: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<Sample>, StoreError> {
        self.store.samples(step, from, until)
    }

    fn log_copy(&self, job: &JobId, attempt: Option<Attempt>) -> Result<Option<LogCopy>, StoreError> {
        self.store.log_copy(job, attempt)
    }

    fn log_piece(
        &self,
        job: &JobId,
        attempt: Attempt,
        at: u64,
    ) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        self.store.log_piece(job, attempt, at)
    }
}

#[tokio::test]
async fn who_lists_without_end_waits_for_itself_and_others_notice_nothing() {
    let guarded = Guarded::with("searches", "", 4096).await;
    let slow = Slow::new(Arc::clone(&guarded.world.plane().reader), "zorro");
    let guarded = guarded.reading(slow.clone());
    let Guarded { zorro, diego, .. } = &guarded;
    guarded.ask(zorro, "POST", "/v1/jobs", json!({"id": "z", "entrypoint": "x"})).await.expect(201);
    let list = |token: &str, path: &str| -> JoinHandle<Response> {
        let mut asked = request("GET", path, Body::empty());
        asked.headers_mut().insert(header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
        let mut router = guarded.router.clone();
        tokio::spawn(async move { router.call(asked).await.unwrap() })
    };
    // One is read, as many wait as one owner may have in line, and no more.
    let mut asked: Vec<_> = (0..40).map(|_| list(zorro, "/v1/jobs?q=zzz")).collect();
    asked.push(list(zorro, "/api/jobs/"));
    let refused = |asked: &[JoinHandle<Response>]| asked.iter().filter(|one| one.is_finished()).count();
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        if refused(&asked) == 8 {
            break;
        }
    }
    assert_eq!(refused(&asked), 8);
    let told = guarded.get(zorro, "/v1/jobs").await;
    assert!(told.headers.contains_key(header::RETRY_AFTER));
    let told = told.refused(503, "busy");
    assert!(told["message"].as_str().unwrap().starts_with("32 lists are being read for zorro"), "{told}");
    guarded.get(zorro, "/v1/jobs/z").await.expect(200);
    guarded.get(diego, "/v1/jobs?q=zzz").await.expect(200);
    assert_eq!(guarded.get(diego, "/readyz").await.status, 200);

    // When a caller disconnects, the store is still reading: the turn lasts until the read ends.
    asked.iter().for_each(JoinHandle::abort);
    tokio::task::yield_now().await;
    let again = list(zorro, "/v1/jobs");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!again.is_finished());
    slow.go_on();
    assert_eq!(again.await.unwrap().status(), 200);
}

/// A control plane over this fake that cannot read payloads with the callers' reader; nor with its
/// own, if that is gone.
async fn over(fake: &FakeRay, own_is_gone: bool) -> (crate::Started, axum::Router) {
    let mut settings = Settings::default();
    for (name, value) in [("submission_interval", "0s"), ("poll_interval", "100ms")] {
        settings.set(name, value).unwrap();
    }
    let cluster = ClusterSpec::new(ClusterName::new(fake.name()).unwrap(), "127.0.0.1:1", fake.url());
    let config = Config {
        settings,
        clusters: vec![cluster],
        sso: Default::default(),
        warnings: Vec::new(),
        files: Vec::new(),
        discovered: multicluster_config::Discovered::default(),
    };
    let mut opened = sqlite::open_temporary().unwrap();
    opened.reader = Slow::new(opened.reader, "nobody");
    if own_is_gone {
        opened.own_reader = Arc::clone(&opened.reader);
    }
    let started = crate::process::start(config, opened, None).unwrap();
    let router = http::router(started.plane.clone(), "127.0.0.1:8700".parse().unwrap(), &[]);
    (started, router)
}

#[tokio::test]
async fn a_dispatch_does_not_wait_for_those_who_ask() {
    let fake = FakeRay::start(FakeOptions::new("mac")).await;
    let (_started, router) = over(&fake, false).await;
    let job = json!({"id": "j", "entrypoint": "x"});
    send(&router, request("POST", "/v1/jobs", job.to_string().into())).await.expect(201);
    fake.wait_for("j", JobStatus::Succeeded, Duration::from_secs(20)).await;
}

/// A problem of our own: it does not make the clusters worse.
#[tokio::test]
async fn what_could_not_be_read_here_does_not_count_against_a_cluster() {
    let fake = FakeRay::start(FakeOptions::new("mac")).await;
    let (_started, router) = over(&fake, true).await;
    for number in 0..6 {
        let job = json!({"id": format!("j{number}"), "entrypoint": "x"});
        send(&router, request("POST", "/v1/jobs", job.to_string().into())).await.expect(201);
    }
    let page = async || send(&router, request("GET", "/metrics", Body::empty())).await.text;
    let not_sent = "multicluster_dispatch_seconds_count{cluster=\"mac\",outcome=\"not_sent\"} ";
    let count = |page: &str| page.lines().find_map(|line| line.strip_prefix(not_sent)?.parse::<u32>().ok());
    for _ in 0..500 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        if count(&page().await) >= Some(6) {
            break;
        }
    }
    let page = page().await;
    assert!(count(&page) >= Some(6), "{page}");
    assert!(
        page.contains("multicluster_cluster_breaker_state{cluster=\"mac\",state=\"closed\"} 1"),
        "{page}"
    );
}

/// To find the end of a log, all of it must come from a dashboard, which is one process.
#[tokio::test]
async fn so_many_logs_are_read_at_a_time_over_either_api() {
    let fake = FakeRay::start(FakeOptions::new("mac")).await;
    let (_started, router) = over(&fake, false).await;
    let job = json!({"id": "j", "entrypoint": "forever"});
    send(&router, request("POST", "/v1/jobs", job.to_string().into())).await.expect(201);
    fake.wait_for("j", JobStatus::Running, Duration::from_secs(20)).await;
    send(&router, request("GET", "/v1/jobs/j/logs", Body::empty())).await.expect(200);

    fake.fault(Endpoint::Logs, Fault::Hang);
    let before = fake.request_count(Endpoint::Logs);
    let read = |number: usize| {
        let path = ["/v1/jobs/j/logs", "/api/jobs/j/logs"][number % 2];
        let (mut router, asked) = (router.clone(), request("GET", path, Body::empty()));
        tokio::spawn(async move { router.call(asked).await.unwrap() })
    };
    let asked: Vec<_> = (0..100).map(read).collect();
    let refused = || asked.iter().filter(|one| one.is_finished()).count();
    let read = || fake.request_count(Endpoint::Logs) - before;
    for _ in 0..300 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        if refused() >= 28 && read() >= 8 {
            break;
        }
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!((refused(), read()), (28, 8), "8 are read, 64 wait");
    for one in asked.iter().filter(|one| !one.is_finished()) {
        one.abort();
    }
    for answer in asked {
        if let Ok(refused) = answer.await {
            assert_eq!(refused.status(), 503);
            assert!(refused.headers().contains_key(header::RETRY_AFTER));
        }
    }
}
