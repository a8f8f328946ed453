//! The log tail.

use std::time::Duration;

use futures_util::StreamExt;
use multicluster_testkit::{Endpoint, FakeOptions, FakeRay, Fault, JobStatus};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::client::{get, submit};

/// The frames until the end, and the close code if there was a close.
async fn tail(fake: &FakeRay, id: &str) -> (Vec<String>, Option<u16>) {
    let url = format!("{}/api/jobs/{id}/logs/tail", fake.url()).replace("http://", "ws://");
    let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
    let mut frames = Vec::new();
    loop {
        let next = tokio::time::timeout(Duration::from_secs(5), socket.next()).await.expect("the tail ends");
        match next {
            Some(Ok(Message::Text(text))) => frames.push(text.to_string()),
            Some(Ok(Message::Close(frame))) => return (frames, frame.map(|frame| frame.code.into())),
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return (frames, None),
        }
    }
}

async fn fake() -> FakeRay {
    FakeRay::start(FakeOptions::new("a")).await
}

#[tokio::test]
async fn lines_come_in_frames_of_ten_and_the_end_is_1000() {
    let fake = fake().await;
    submit(&fake, "j", "lines 25; sleep 0.2; echo end").await;
    let (frames, code) = tail(&fake, "j").await;
    assert_eq!(code, Some(1000));
    assert!(frames.iter().all(|frame| frame.lines().count() <= 10));
    let logs = get(&fake, "/api/jobs/j/logs").await.json();
    assert_eq!(frames.concat(), logs["logs"].as_str().unwrap());
    assert!(frames.concat().ends_with("line 25\nend\n"));
    assert_eq!(fake.job("j").unwrap().status, JobStatus::Succeeded);
}

#[tokio::test]
async fn a_tail_may_lose_its_connection() {
    let fake = fake().await;
    fake.fault_next(Endpoint::Tail, Fault::TailBreak(2), 1);
    submit(&fake, "j", "lines 50; forever").await;
    fake.wait_for("j", JobStatus::Running, Duration::from_secs(5)).await;
    let (frames, code) = tail(&fake, "j").await;
    assert_eq!((frames.len(), code), (2, None));
}

#[tokio::test]
async fn a_tail_may_close_properly_though_the_job_runs_on() {
    let fake = fake().await;
    fake.fault(Endpoint::Tail, Fault::TailEarlyClose(1));
    submit(&fake, "j", "lines 50; forever").await;
    fake.wait_for("j", JobStatus::Running, Duration::from_secs(5)).await;
    let (frames, code) = tail(&fake, "j").await;
    assert_eq!((frames.len(), code), (1, Some(1000)));
    assert_eq!(fake.job("j").unwrap().status, JobStatus::Running);
}

#[tokio::test]
async fn a_tail_breaks_when_the_cluster_goes_away() {
    let fake = fake().await;
    submit(&fake, "j", "forever").await;
    let (ended, ()) = tokio::join!(tail(&fake, "j"), async {
        fake.wait_for("j", JobStatus::Running, Duration::from_secs(5)).await;
        fake.write_log("j", "late\n");
        tokio::time::sleep(Duration::from_millis(400)).await;
        fake.down().await;
    });
    assert_eq!(ended.1, None);
    assert!(ended.0.concat().ends_with("late\n"));
}

#[tokio::test]
async fn an_unknown_job_has_no_tail() {
    let fake = fake().await;
    let url = format!("{}/api/jobs/no/logs/tail", fake.url()).replace("http://", "ws://");
    match tokio_tungstenite::connect_async(url).await {
        Err(Error::Http(answer)) => assert_eq!(answer.status(), 404),
        other => panic!("{other:?}"),
    }
    submit(&fake, "j", "forever").await;
    get(&fake, "/api/jobs/j/logs/tail").await.assert(500, "WebSocket proxy error");
}

#[tokio::test]
async fn the_log_file_gives_the_last_lines() {
    let fake = fake().await;
    submit(&fake, "j", "lines 9").await;
    fake.wait_for("j", JobStatus::Succeeded, Duration::from_secs(5)).await;
    let node = fake.job("j").unwrap().details["driver_node_id"].as_str().unwrap().to_owned();
    let file =
        |lines: &str| format!("/api/v0/logs/file?node_id={node}&filename=job-driver-j.log&lines={lines}");
    assert_eq!(get(&fake, &file("2")).await.body, "line 8\nline 9\n");
    assert_eq!(get(&fake, &file("-1")).await.body.lines().count(), 11);
}
