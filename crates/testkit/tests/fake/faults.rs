//! Each fault, as a client meets it.

use std::time::{Duration, Instant};

use multicluster_testkit::{Endpoint, FakeOptions, FakeRay, Fault, JobStatus};
use serde_json::json;

use crate::client::{client, get, request, send, submit, try_get, try_post};

async fn fake() -> FakeRay {
    FakeRay::start(FakeOptions::new("a")).await
}

async fn submit_into(fault: Fault) -> (FakeRay, Result<crate::client::Answer, reqwest::Error>) {
    let fake = fake().await;
    fake.fault_next(Endpoint::Submit, fault, 1);
    let job = json!({"entrypoint": "forever", "submission_id": "j"});
    let answer = try_post(&fake, "/api/jobs/", &job).await;
    (fake, answer)
}

#[tokio::test]
async fn reset_after_leaves_a_job_that_nobody_heard_of() {
    let (fake, answer) = submit_into(Fault::ResetAfter).await;
    assert!(answer.is_err());
    assert_eq!(fake.submissions().len(), 1);
    get(&fake, "/api/jobs/j").await.assert(200, "forever");
    submit(&fake, "j", "forever").await.assert(500, "already exists");
}

#[tokio::test]
async fn a_reset_is_a_reset_and_not_an_orderly_close() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let fake = fake().await;
    for fault in [Fault::ResetBefore, Fault::ResetAfter] {
        fake.fault(Endpoint::Version, fault);
        let mut stream = tokio::net::TcpStream::connect(fake.url().replace("http://", "")).await.unwrap();
        stream.write_all(b"GET /api/version HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let error = stream.read(&mut [0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
}

#[tokio::test]
async fn reset_before_leaves_nothing() {
    let (fake, answer) = submit_into(Fault::ResetBefore).await;
    assert!(answer.is_err());
    assert!(fake.submissions().is_empty());
    assert_eq!(fake.request_count(Endpoint::Submit), 1);
    submit(&fake, "j", "forever").await.assert(200, "j");
}

#[tokio::test]
async fn a_status_is_given_instead_of_acting_or_after_it() {
    let (fake, answer) = submit_into(Fault::Status(503, "busy".into())).await;
    answer.unwrap().assert(503, "busy");
    assert!(fake.submissions().is_empty());
    let (fake, answer) = submit_into(Fault::StatusAfter(500, "oops".into())).await;
    answer.unwrap().assert(500, "oops");
    assert_eq!(fake.submissions().len(), 1);
    let (fake, answer) = submit_into(Fault::NoAgent).await;
    answer.unwrap().assert(500, "No available agent to submit job, please try again later.");
    assert!(fake.submissions().is_empty());
}

#[tokio::test]
async fn hanging_requests_hang_until_the_cluster_goes_down() {
    for (fault, made) in [(Fault::Hang, 0), (Fault::HangAfter, 1)] {
        let fake = fake().await;
        fake.fault(Endpoint::Submit, fault);
        let job = json!({"entrypoint": "true"});
        let post = request(&fake, reqwest::Method::POST, "/api/jobs/").body(job.to_string());
        let timed_out = send(post.timeout(Duration::from_millis(400))).await.err().unwrap();
        assert!(timed_out.is_timeout());
        assert_eq!(fake.submissions().len(), made);
        let (answer, ()) = tokio::join!(try_post(&fake, "/api/jobs/", &job), async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            fake.down().await;
        });
        assert!(answer.is_err());
    }
}

#[tokio::test]
async fn slow_is_late_but_right() {
    let fake = fake().await;
    fake.fault(Endpoint::Any, Fault::Slow(Duration::from_millis(400)));
    let asked = Instant::now();
    get(&fake, "/api/version").await.assert(200, "ray_version");
    assert!(asked.elapsed() >= Duration::from_millis(400));
    fake.clear_faults();
    let asked = Instant::now();
    get(&fake, "/api/version").await.assert(200, "ray_version");
    assert!(asked.elapsed() < Duration::from_millis(400));
}

#[tokio::test]
async fn garbage_is_no_json_and_half_an_answer_is_an_error() {
    let fake = fake().await;
    fake.fault_next(Endpoint::Nodes, Fault::Garbage, 1);
    fake.fault_next(Endpoint::Nodes, Fault::Truncated, 1);
    let garbage = get(&fake, "/api/v0/nodes").await;
    assert_eq!(garbage.status, 200);
    assert!(serde_json::from_str::<serde_json::Value>(&garbage.body).is_err());
    let answer = request(&fake, reqwest::Method::GET, "/api/v0/nodes").send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(answer.bytes().await.is_err());
    get(&fake, "/api/v0/nodes").await.assert(200, "ALIVE");
}

#[tokio::test]
async fn half_an_answer_does_arrive() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let fake = fake().await;
    fake.fault(Endpoint::Version, Fault::Truncated);
    let address = fake.url().replace("http://", "");
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /api/version HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut seen = String::new();
    stream.read_to_string(&mut seen).await.unwrap();
    let (head, body) = seen.split_once("\r\n\r\n").unwrap();
    let announced = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    assert!(body.starts_with('{') && body.len() < announced.parse().unwrap(), "{seen}");
}

#[tokio::test]
async fn a_huge_answer_is_huge() {
    let fake = fake().await;
    fake.fault(Endpoint::Logs, Fault::Huge(3_000_000));
    let body = get(&fake, "/api/jobs/j/logs").await.body;
    assert!(body.len() >= 3_000_000 && body.starts_with("\"aaa") && body.ends_with("aaa\""));
}

#[tokio::test]
async fn faults_of_one_endpoint_leave_the_others_alone() {
    let fake = fake().await;
    fake.fault(Endpoint::List, Fault::ResetBefore);
    assert!(try_get(&fake, "/api/jobs/").await.is_err());
    assert!(try_get(&fake, "/api/version").await.is_ok());
    fake.clear_fault(Endpoint::List);
    assert!(try_get(&fake, "/api/jobs/").await.is_ok());
}

#[tokio::test]
async fn down_refuses_and_up_is_the_same_cluster_on_the_same_port() {
    let fake = fake().await;
    let (url, session) = (fake.url(), fake.session_name());
    submit(&fake, "j", "sleep 0.1").await;
    for _ in 0..3 {
        fake.down().await;
        assert!(try_get(&fake, "/api/version").await.err().unwrap().is_connect());
        fake.up().await;
        get(&fake, "/api/version").await.assert(200, &session);
    }
    assert_eq!(fake.url(), url);
    fake.wait_for("j", JobStatus::Succeeded, Duration::from_secs(5)).await;
}

#[tokio::test]
async fn down_resets_connections_kept_alive() {
    let fake = fake().await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let version = || client.get(format!("{}/api/version", fake.url())).send();
    assert!(version().await.is_ok());
    fake.down().await;
    assert!(version().await.is_err());
    fake.up().await;
    assert!(version().await.is_ok());
}

#[tokio::test]
async fn a_restart_forgets_jobs_but_not_how_often_they_ran() {
    let fake = fake().await;
    let before = fake.session_name();
    submit(&fake, "j", "forever").await;
    fake.wait_for("j", JobStatus::Running, Duration::from_secs(5)).await;
    fake.restart();
    assert_ne!(fake.session_name(), before);
    get(&fake, "/api/jobs/j").await.assert(404, "Job j does not exist");
    submit(&fake, "j", "forever").await.assert(200, "j");
    fake.wait_for("j", JobStatus::Running, Duration::from_secs(5)).await;
    assert_eq!((fake.runs("j"), fake.submissions().len()), (2, 2));
}

#[tokio::test]
async fn a_dropped_fake_is_gone() {
    let fake = fake().await;
    let url = format!("{}/api/version", fake.url());
    get(&fake, "/api/version").await;
    drop(fake);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(client().get(url).send().await.is_err());
}
