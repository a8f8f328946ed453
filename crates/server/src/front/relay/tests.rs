//! Replicas whose leader comes, goes and dies, with routes that count what they are asked.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
};

use axum::{Json, http::StatusCode, response::IntoResponse, routing::get};
use multicluster_api::{ErrorBody, Leader};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::*;
use crate::front::access::Access;

/// Counts requests, and answers each with what this function says.
fn counting(
    count: &Arc<AtomicUsize>,
    answer: impl Fn(usize, &str, Value) -> Response + Clone + Send + Sync + 'static,
) -> Router {
    let count = Arc::clone(count);
    Router::new().fallback(move |request: Request| async move {
        let path = request.uri().path().to_owned();
        let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap_or_default();
        let nth = count.fetch_add(1, Ordering::Relaxed);
        answer(nth, &path, serde_json::from_slice(&body).unwrap_or_default())
    })
}

fn says(text: &'static str) -> impl Fn(usize, &str, Value) -> Response + Clone {
    move |_, _, _| text.into_response()
}

fn problem(code: multicluster_api::Code) -> Response {
    Problem::new(code, "so it is").into_response()
}

/// A relay, and the hand that changes who leads.
struct Stage {
    routes: Router,
    scenes: watch::Sender<Scene>,
    local: Arc<AtomicUsize>,
}

impl Stage {
    /// Nobody leads. Our own routes have a list of jobs, and nothing else.
    fn new() -> Self {
        let (scenes, watched) = watch::channel(Scene::unknown());
        let count = Arc::new(AtomicUsize::new(0));
        let local = counting(&count, |_, path, _| match path {
            "/v1/jobs" | "/healthz" => "stored".into_response(),
            _ => problem(codes::NO_LEADER),
        });
        let relay = Relay::new(Parts {
            scenes: watched,
            local,
            hosts: Hosts::at(([127, 0, 0, 1], 8700).into(), &[]),
            peers: Peers::new("here-1", Vec::new(), Access::open()).unwrap(),
            metrics: Metrics::default(),
            look: Arc::default(),
        });
        Self { routes: relay.router(), scenes, local: count }
    }

    fn we_lead(&self, epoch: u64, routes: Router) {
        self.lead(epoch, None, Some(routes));
    }

    fn lead(&self, epoch: u64, at: Option<SocketAddr>, routes: Option<Router>) {
        let address = at.map(|at| format!("http://{at}"));
        let leader = Leader { replica: "there-2".into(), address, since: 0, epoch };
        self.scenes.send_modify(|scene| (scene.lead, scene.leader) = (routes, Some(leader)));
    }

    fn nobody_leads(&self) {
        self.scenes.send_modify(|scene| (scene.lead, scene.leader) = (None, None));
    }

    async fn ask(&self, method: &str, path: &str, body: Value) -> (StatusCode, String) {
        self.ask_with(method, path, body, &[]).await
    }

    async fn ask_with(
        &self,
        method: &str,
        path: &str,
        body: Value,
        headers: &[(&str, &str)],
    ) -> (StatusCode, String) {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost:8700");
        request = request.header("content-length", text.len());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.routes.clone().call(request.body(Body::from(text)).unwrap()).await.unwrap();
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap_or_default();
        (status, String::from_utf8_lossy(&body).into_owned())
    }
}

fn code(text: &str) -> String {
    serde_json::from_str::<ErrorBody>(text).map_or_else(|_| text.to_owned(), |body| body.code)
}

async fn listening(routes: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes).await });
    address
}

#[tokio::test(start_paused = true)]
async fn while_nobody_leads_requests_wait_and_are_refused_after_ten_seconds() {
    let stage = Stage::new();
    let begun = Instant::now();
    let (status, text) = stage.ask("POST", "/v1/jobs/a/stop", Value::Null).await;
    assert_eq!((status, code(&text).as_str()), (StatusCode::SERVICE_UNAVAILABLE, "no_leader"));
    assert_eq!(begun.elapsed().as_secs(), 10);
    let waits = async {
        tokio::time::sleep(Duration::from_secs(4)).await;
        let count = Arc::default();
        stage.we_lead(1, counting(&count, says("done")));
    };
    let (answer, ()) = tokio::join!(stage.ask("POST", "/v1/jobs/a/stop", Value::Null), waits);
    assert_eq!(answer, (StatusCode::OK, "done".to_owned()));
}

#[tokio::test]
async fn while_nobody_leads_what_is_stored_is_shown() {
    let stage = Stage::new();
    assert_eq!(stage.ask("GET", "/v1/jobs", Value::Null).await.1, "stored");
    assert_eq!(stage.ask("GET", "/healthz", Value::Null).await.1, "stored");
    assert_eq!(stage.local.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_follower_passes_on_what_it_cannot_answer_and_nothing_else() {
    let (stage, count) = (Stage::new(), Arc::default());
    let leader = counting(&count, |_, path, body| format!("{path} {body}").into_response());
    stage.lead(1, Some(listening(leader).await), None);
    let asked = stage.ask("POST", "/v1/jobs/a/stop?now=1", json!({"why": "x"})).await;
    assert_eq!(asked, (StatusCode::OK, r#"/v1/jobs/a/stop {"why":"x"}"#.to_owned()));
    assert_eq!(stage.ask("GET", "/v1/jobs", Value::Null).await.1, "stored");
    // What the database alone does not tell.
    assert_eq!(stage.ask("GET", "/v1/jobs/a", Value::Null).await.1, "/v1/jobs/a null");
    // The leader's sessions are not ours.
    let session = [("cookie", "a=b; ray-multicluster-session=s")];
    assert_eq!(stage.ask_with("GET", "/v1/jobs", Value::Null, &session).await.1, "/v1/jobs null");
    assert_eq!(count.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn a_request_that_was_passed_on_goes_no_further() {
    let (stage, count) = (Stage::new(), Arc::default());
    stage.lead(1, Some(listening(counting(&count, says("leader"))).await), None);
    let forwarded = [("x-ray-multicluster-forwarded", "there-2")];
    let (status, text) = stage.ask_with("POST", "/v1/jobs/a/stop", Value::Null, &forwarded).await;
    assert_eq!((status.as_u16(), code(&text).as_str()), (503, "no_leader"));
    assert_eq!(count.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_request_that_was_not_done_is_made_again_wherever_the_lead_is_then() {
    let (stage, old, new) = (Stage::new(), Arc::default(), Arc::default());
    stage.lead(1, Some(listening(counting(&old, |_, _, _| problem(codes::NO_LEADER))).await), None);
    let moves = async {
        while old.load(Ordering::Relaxed) < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stage.we_lead(2, counting(&new, |_, _, body| body["entrypoint"].to_string().into_response()));
    };
    let (answer, ()) = tokio::join!(stage.ask("POST", "/v1/jobs", json!({"entrypoint": "x"})), moves);
    assert_eq!(answer, (StatusCode::OK, r#""x""#.to_owned()));
    assert_eq!(new.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_leader_that_cannot_be_reached_did_nothing() {
    let (stage, count) = (Stage::new(), Arc::default());
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    stage.lead(1, Some(gone), None);
    let moves = async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        stage.we_lead(2, counting(&count, says("done")));
    };
    let (answer, ()) = tokio::join!(stage.ask("POST", "/v1/jobs", json!({"entrypoint": "x"})), moves);
    assert_eq!(answer, (StatusCode::OK, "done".to_owned()));
}

#[tokio::test]
async fn what_may_have_been_done_is_made_again_only_if_that_does_no_harm() {
    for (path, body, again) in [
        ("/v1/jobs", json!({"entrypoint": "x"}), false),
        ("/v1/jobs", json!({"entrypoint": "x", "id": "mine"}), true),
        ("/v1/jobs/a/stop", json!({}), true),
        ("/v1/jobs/a/rerun", json!({}), false),
        ("/v1/placements/heartbeat", json!({}), true),
        ("/v1/clusters", json!({"name": "c"}), false),
    ] {
        let (stage, count) = (Stage::new(), Arc::default());
        stage.we_lead(
            1,
            counting(&count, |nth, _, _| match nth {
                0 => problem(codes::LEADER_LOST),
                _ => "done".into_response(),
            }),
        );
        let (status, text) = stage.ask("POST", path, body.clone()).await;
        match again {
            true => assert_eq!((status.as_u16(), text.as_str()), (200, "done"), "{path} {body}"),
            false => {
                assert_eq!((status.as_u16(), code(&text).as_str()), (503, "leader_lost"), "{path} {body}")
            }
        }
        assert_eq!(count.load(Ordering::Relaxed), 1 + usize::from(again), "{path} {body}");
    }
}

/// They neither choose an id nor ask twice.
#[tokio::test]
async fn a_submission_of_rays_client_is_repeated_under_one_id_and_its_second_answer_is_a_success() {
    let (stage, count) = (Stage::new(), Arc::default());
    let ids = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let told = Arc::clone(&ids);
    stage.we_lead(
        1,
        counting(&count, move |nth, _, body| {
            told.lock().push(body["submission_id"].as_str().unwrap_or_default().to_owned());
            match nth {
                0 => problem(codes::LEADER_LOST),
                _ => (StatusCode::INTERNAL_SERVER_ERROR, "ValueError: Job … already exists.").into_response(),
            }
        }),
    );
    let (status, text) = stage.ask("POST", "/api/jobs/", json!({"entrypoint": "x"})).await;
    let ids = ids.lock().clone();
    assert!(ids.len() == 2 && ids[0] == ids[1] && ids[0].starts_with("raysubmit_"), "{ids:?}");
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, answer), (StatusCode::OK, json!({"job_id": ids[0], "submission_id": ids[0]})));
    // An id of the caller's own may have existed before.
    let named = json!({"entrypoint": "x", "submission_id": "mine"});
    count.store(0, Ordering::Relaxed);
    let (status, text) = stage.ask("POST", "/api/jobs/", named).await;
    assert_eq!(status.as_u16(), 503, "{text}");
}

#[tokio::test]
async fn what_waits_at_a_leader_that_steps_down_goes_on_at_the_next() {
    let (stage, count) = (Stage::new(), Arc::default());
    let waits = Router::new().route("/v1/jobs/{id}/wait", get(std::future::pending::<Json<Value>>));
    stage.we_lead(1, waits);
    let moves = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        stage.nobody_leads();
        tokio::time::sleep(Duration::from_millis(50)).await;
        stage.we_lead(2, counting(&count, says("ended")));
    };
    let (answer, ()) = tokio::join!(stage.ask("GET", "/v1/jobs/a/wait", Value::Null), moves);
    assert_eq!(answer, (StatusCode::OK, "ended".to_owned()));
}

#[tokio::test]
async fn a_stream_breaks_off_when_the_leader_changes() {
    let stage = Stage::new();
    let endless = || async {
        let first = stream::once(async { Ok::<_, axum::Error>("event: log\n\n") });
        Body::from_stream(first.chain(stream::pending()))
    };
    stage.we_lead(1, Router::new().route("/v1/events", get(endless)));
    let request = Request::get("/v1/events").header("host", "localhost:8700").body(Body::empty());
    let mut chunks =
        stage.routes.clone().call(request.unwrap()).await.unwrap().into_body().into_data_stream();
    assert!(chunks.next().await.unwrap().is_ok());
    stage.nobody_leads();
    assert!(chunks.next().await.unwrap().is_err(), "not a good end");
    assert!(chunks.next().await.is_none());
}

#[tokio::test]
async fn a_page_of_another_site_is_refused_before_anybody_is_asked() {
    let (stage, count) = (Stage::new(), Arc::default());
    stage.we_lead(1, counting(&count, says("done")));
    let evil = [("origin", "http://evil.example")];
    let (status, text) = stage.ask_with("POST", "/v1/jobs", json!({}), &evil).await;
    assert_eq!((status.as_u16(), code(&text).as_str()), (403, "origin_not_allowed"));
    assert_eq!(count.load(Ordering::Relaxed), 0);
}
