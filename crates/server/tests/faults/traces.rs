//! Traces of jobs, as a collector gets them.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU16, Ordering},
    },
};

use axum::{Json, Router, extract::State as Shared, http::StatusCode, routing::post};
use multicluster_server::NewJob;
use multicluster_testkit::FakeRay;
use multicluster_types::{JobId, Kind, Payload, State, Work};
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinSet};

use crate::world::*;

const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

type Received = Arc<Mutex<Vec<Value>>>;

/// Accepts OTLP over HTTP, with this status.
struct Collector {
    address: String,
    status: Arc<AtomicU16>,
    received: Received,
    _serving: JoinSet<()>,
}

impl Collector {
    async fn start() -> Self {
        let (status, received) = (Arc::new(AtomicU16::new(200)), Received::default());
        let take = |Shared((status, received)): Shared<(Arc<AtomicU16>, Received)>,
                    Json(sent): Json<Value>| async move {
            received.lock().unwrap().push(sent);
            StatusCode::from_u16(status.load(Ordering::Relaxed)).unwrap()
        };
        let router = Router::new().route("/v1/traces", post(take));
        let router = router.with_state((Arc::clone(&status), Arc::clone(&received)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, status, received, _serving: serving }
    }

    fn requests(&self) -> usize {
        self.received.lock().unwrap().len()
    }

    /// All spans so far.
    fn spans(&self) -> Vec<Span> {
        let received = self.received.lock().unwrap();
        let spans = received.iter().flat_map(|sent| {
            let resource = &sent["resourceSpans"][0];
            assert_eq!(resource["resource"]["attributes"][0]["value"]["stringValue"], "ray-multicluster");
            resource["scopeSpans"][0]["spans"].as_array().unwrap().clone()
        });
        spans.map(Span).collect()
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Span(Value);

impl Span {
    fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap_or_default()
    }

    fn times(&self) -> (u64, u64) {
        let nanos = |field| self.text(field).parse().unwrap();
        (nanos("startTimeUnixNano"), nanos("endTimeUnixNano"))
    }

    fn attributes(&self) -> BTreeMap<String, String> {
        let attributes = self.0["attributes"].as_array().unwrap().iter();
        let text =
            |value: &Value| value["stringValue"].as_str().or(value["intValue"].as_str()).unwrap().to_owned();
        let pair = |one: &Value| {
            (one["key"].as_str().unwrap().replace("ray_multicluster.", ""), text(&one["value"]))
        };
        attributes.map(pair).collect()
    }

    fn has(&self, key: &str, value: &str) -> bool {
        self.attributes().get(key).is_some_and(|has| has == value)
    }
}

fn traced(id: &str, entrypoint: &str, traceparent: Option<&str>) -> NewJob {
    let traceparent = traceparent.map(Into::into);
    let payload = Payload { entrypoint: entrypoint.into(), traceparent, ..Payload::default() };
    NewJob::job(Some(job_id(id)), Work::new(Kind::Job), payload, None)
}

async fn world_to(collector: &Collector, fake: &FakeRay) -> World {
    World::with(&[fake], &[("traces", &collector.address)]).await
}

async fn ends(world: &World, job: NewJob, state: State) -> JobId {
    let job = world.submit(job).await;
    world.wait_for(&job, state).await;
    job
}

/// The variable that this attempt got.
fn traceparent_in(fake: &FakeRay, id: &str) -> Option<String> {
    let sent = fake.submissions().into_iter().find(|sent| sent.submission_id == id).unwrap();
    sent.request["runtime_env"]["env_vars"]["TRACEPARENT"].as_str().map(Into::into)
}

#[tokio::test]
async fn a_job_is_one_trace_below_the_submitters_span_and_above_the_jobs_own() {
    let (collector, fake) = (Collector::start().await, quick("only").await);
    let world = world_to(&collector, &fake).await;
    let mut job = traced("job", "echo hi; sleep 1", Some(GIVEN));
    job.submission.work.owner = Some("ann".parse().unwrap());
    ends(&world, job, State::Succeeded).await;
    world.until("a trace".into(), async || collector.requests() > 0).await;
    let spans = collector.spans();
    let names: Vec<_> = spans.iter().map(|span| span.text("name")).collect();
    assert_eq!(names, ["job", "queued", "attempt", "dispatched", "ran"]);
    assert!(spans.iter().all(|span| span.text("traceId") == "0af7651916cd43dd8448eb211c80319c"));
    let parents: Vec<_> = spans.iter().map(|span| span.text("parentSpanId")).collect();
    let (root, attempt) = (spans[0].text("spanId"), spans[2].text("spanId"));
    assert_eq!(parents, ["b7ad6b7169203331", root, root, attempt, attempt]);
    let [whole, queued, tried, dispatched, ran] = [0, 1, 2, 3, 4].map(|at: usize| spans[at].times());
    assert_eq!((queued.0, queued.1, tried, ran.0), (whole.0, tried.0, (dispatched.0, ran.1), dispatched.1));
    assert!(whole.0 <= tried.0 && ran.0 < ran.1 && ran.1 <= whole.1, "{spans:?}");
    let record = world.record(&job_id("job")).await.unwrap();
    assert_eq!(whole.0, record.submitted_at.0 * 1_000_000);
    for (key, value) in
        [("job.id", "job"), ("owner", "ann"), ("cluster", "only"), ("attempts", "1"), ("state", "succeeded")]
    {
        assert!(spans[0].has(key, value), "{key}: {:?}", spans[0]);
    }
    assert!(
        spans[2].has("attempt", "1")
            && spans[2].has("outcome", "succeeded")
            && spans[4].has("cluster", "only")
    );
    assert!(spans.iter().all(|span| span.0["status"] == serde_json::json!({})));
    let handed = format!("00-0af7651916cd43dd8448eb211c80319c-{attempt}-01");
    assert_eq!(traceparent_in(&fake, "job"), Some(handed));
}

#[tokio::test]
async fn a_failed_job_is_an_error_with_a_span_for_each_attempt() {
    let (collector, fake) = (Collector::start().await, quick("only").await);
    let world = world_to(&collector, &fake).await;
    let mut job = traced("twice", "exit 3", None);
    job.submission.work.retry.max_retries = 1;
    ends(&world, job, State::Failed).await;
    world.until("a trace".into(), async || collector.requests() > 0).await;
    let spans = collector.spans();
    let root = &spans[0];
    assert_eq!((root.text("parentSpanId"), root.text("traceId").len()), ("", 32), "its own trace");
    assert_eq!(root.0["status"]["code"], 2);
    assert!(root.0["status"]["message"].as_str().unwrap().contains("exit code 3"), "{root:?}");
    assert!(root.has("state", "failed") && root.attributes()["reason"].contains("exit code 3"));
    let tried: Vec<_> = spans.iter().filter(|span| span.text("name") == "attempt").collect();
    assert!(
        tried.len() == 2
            && tried.iter().all(|span| span.has("outcome", "failed") && span.0["status"]["code"] == 2)
    );
    assert!(tried[0].times().1 <= tried[1].times().0 && tried[1].has("attempt", "2"));
    let last = format!("00-{}-{}-01", root.text("traceId"), tried[1].text("spanId"));
    assert_eq!(traceparent_in(&fake, "twice-a2"), Some(last));
}

#[tokio::test]
async fn a_job_that_was_stopped_in_the_queue_has_only_waited() {
    let (collector, fake) = (Collector::start().await, quick("only").await);
    let world = world_to(&collector, &fake).await;
    let mut job = traced("waits", "echo hi", None);
    job.submission.work.demand = multicluster_types::Resources::from_amounts([("CPU", 1000.0)]).unwrap();
    let job = world.submit(job).await;
    world.plane().driver.act(multicluster_core::Input::Stop { job }).await.unwrap();
    world.until("a trace".into(), async || collector.requests() > 0).await;
    let spans = collector.spans();
    let names: Vec<_> = spans.iter().map(|span| span.text("name")).collect();
    assert_eq!((names, spans[0].times()), (vec!["job", "queued"], spans[1].times()));
}

/// Neither the collector's absence nor a restart loses a trace; the ids are the same.
#[tokio::test]
async fn a_trace_that_was_not_accepted_is_sent_after_a_restart_with_the_same_ids() {
    let (collector, fake) = (Collector::start().await, quick("only").await);
    let mut world = world_to(&collector, &fake).await;
    collector.status.store(503, Ordering::Relaxed);
    ends(&world, traced("job", "echo hi", None), State::Succeeded).await;
    world.until("a try".into(), async || collector.requests() > 0).await;
    let (refused, position) = (collector.spans(), world.file("traces.position"));
    world.stop().await;
    collector.received.lock().unwrap().clear();
    collector.status.store(200, Ordering::Relaxed);
    world.start();
    world.until("a trace".into(), async || collector.requests() > 0).await;
    assert_eq!(&collector.spans()[..4], &refused[..4]);
    // Accepted: another restart does not send it again.
    let moved = async || world.file("traces.position") != position;
    world.until("the position".into(), moved).await;
    world.stop().await;
    collector.received.lock().unwrap().clear();
    world.start();
    ends(&world, traced("next", "echo hi", None), State::Succeeded).await;
    world.until("the next trace".into(), async || collector.requests() > 0).await;
    assert!(
        collector
            .spans()
            .iter()
            .filter(|span| span.text("name") == "job")
            .all(|job| job.has("job.id", "next"))
    );
}

#[tokio::test]
async fn with_traces_off_a_job_gets_what_its_submitter_sent_and_nothing_else_happens() {
    let fake = quick("only").await;
    let world = World::with(&[&fake], &[("traces", "off")]).await;
    ends(&world, traced("plain", "echo hi", None), State::Succeeded).await;
    ends(&world, traced("given", "echo hi", Some(GIVEN)), State::Succeeded).await;
    assert_eq!(
        (traceparent_in(&fake, "plain"), traceparent_in(&fake, "given").as_deref()),
        (None, Some(GIVEN))
    );
    assert_eq!(world.file("traces.position"), None);
}
