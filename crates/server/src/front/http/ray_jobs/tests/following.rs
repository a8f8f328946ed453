//! Logs, at once and followed.

use multicluster_testkit::{Endpoint as At, Fault};
use serde_json::json;

use super::*;
use crate::front::logs::LONGEST;

async fn tail(stage: &Stage, id: &str) -> LogTail {
    stage.ray.tail(id).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_log_is_followed_from_the_queue_to_its_end() {
    let fake = a_fake("mac").await;
    let stage = Stage::with(&[&fake], &[("max_running_jobs", "1")]).await;
    stage.submit("first", "forever").await;
    stage.wait_for("first", JobStatus::Running).await;
    stage.submit("second", "lines 25; sleep 0.5; echo end").await;
    let following = tokio::spawn(read_all(tail(&stage, "second").await));
    assert_eq!(stage.details("second").await.status, JobStatus::Pending);
    fake.finish("first", multicluster_testkit::JobStatus::Succeeded);
    let all = following.await.unwrap().unwrap();
    let expected: String = (1..=25).map(|i| format!("line {i}\n")).chain(["end\n".to_owned()]).collect();
    assert_eq!(all, expected);
    assert_eq!(
        stage.details("second").await.status,
        JobStatus::Succeeded,
        "it closes when the job has ended"
    );
    assert_eq!(read_all(tail(&stage, "second").await).await.unwrap(), expected, "afterwards too");
}

#[tokio::test]
async fn a_stream_that_closes_early_or_breaks_is_taken_up_again() {
    for fault in [Fault::TailEarlyClose(1), Fault::TailBreak(2), Fault::Status(500, "oh".into())] {
        let fake = a_fake("mac").await;
        let stage = Stage::over(&[&fake]).await;
        fake.fault_next(At::Tail, fault.clone(), 2);
        stage.submit("j", "lines 40; sleep 1; lines 3").await;
        let expected: String = (1..=40).chain(1..=3).map(|i| format!("line {i}\n")).collect();
        assert_eq!(read_all(tail(&stage, "j").await).await.unwrap(), expected, "{fault:?}");
    }
}

#[tokio::test]
async fn what_the_stream_never_brings_comes_from_the_log_itself() {
    let fake = a_fake("mac").await;
    let stage = Stage::over(&[&fake]).await;
    fake.fault(At::Tail, Fault::TailEarlyClose(1));
    stage.submit("j", "lines 40; sleep 0.3").await;
    let expected: String = (1..=40).map(|i| format!("line {i}\n")).collect();
    assert_eq!(read_all(tail(&stage, "j").await).await.unwrap(), expected);
}

#[tokio::test]
async fn the_log_of_a_job_outlives_its_cluster() {
    let fake = a_fake("mac").await;
    let stage = Stage::over(&[&fake]).await;
    stage.submit("j", "echo kept").await;
    stage.wait_for("j", JobStatus::Succeeded).await;
    let has_copy = async || stage.plane.stored(|s| s.log_copy(&an_id("j"), None)).await.unwrap().is_some();
    stage.until("a copy", has_copy).await;
    fake.down().await;
    assert_eq!(stage.logs("j").await, "kept\n");
    assert_eq!(read_all(tail(&stage, "j").await).await.unwrap(), "kept\n");
}

/// Longer than a log that is served in one piece.
#[tokio::test]
async fn the_whole_log_of_a_job_outlives_its_cluster_if_all_of_it_is_copied() {
    let fake = a_fake("mac").await;
    let stage = Stage::with(&[&fake], &[("log_copy", "all")]).await;
    stage.submit("j", "forever").await;
    stage.wait_for("j", JobStatus::Running).await;
    let line = |number: usize| format!("epoch {number}: loss 0.123456789, {}\r\n", "é".repeat(1000));
    fake.write_log("j", "first\n");
    let first = async || stage.plane.stored(|s| s.log_copy(&an_id("j"), None)).await.unwrap().is_some();
    stage.until("a first copy", first).await;
    let log: String = (0..9000).map(line).collect();
    fake.write_log("j", &log);
    fake.finish("j", multicluster_testkit::JobStatus::Succeeded);
    stage.wait_for("j", JobStatus::Succeeded).await;
    let size = "first\n".len() + log.len();
    let is_copied = async || {
        let copy = stage.plane.stored(|store| store.log_copy(&an_id("j"), None)).await.unwrap().unwrap();
        copy.size >= size as u64 && copy.taken_at.0 > 0
    };
    stage.until("the whole copy", is_copied).await;
    fake.down().await;
    let tailed = read_all(tail(&stage, "j").await).await.unwrap();
    assert!(size > LONGEST && tailed == format!("first\n{}", log.replace('\r', "")), "{}", tailed.len());
    let end = stage.ray.logs("j", LONGEST).await.unwrap().unwrap().text;
    assert!(log.replace('\r', "").ends_with(&end) && end.len() > LONGEST - 64 * 1024, "{}", end.len());
}

#[tokio::test]
async fn a_log_that_ray_cannot_serve_is_read_from_its_file() {
    let fake = a_fake("mac").await;
    let stage = Stage::over(&[&fake]).await;
    fake.fault(At::Logs, Fault::Status(500, "UnicodeDecodeError".into()));
    stage.submit("j", "echo binary").await;
    stage.wait_for("j", JobStatus::Succeeded).await;
    assert_eq!(stage.logs("j").await, "binary\n");
}

#[tokio::test]
async fn a_job_that_is_run_again_elsewhere_is_followed_there() {
    let (a, b) = (a_fake("a").await, a_fake("b").await);
    let stage = Stage::over(&[&a, &b]).await;
    let body = json!({"entrypoint": "echo try; sleep 1.5; exit 1", "submission_id": "j",
                      "metadata": {"multicluster.max_retries": "1"}});
    assert_eq!(stage.post(body.to_string()).await.0, 200);
    let all = read_all(tail(&stage, "j").await).await.unwrap();
    assert_eq!(all.matches("try\n").count(), 2, "{all}");
    assert!(all.contains("[ray-multicluster] attempt 1 on cluster"), "{all}");
    assert_eq!(stage.details("j").await.status, JobStatus::Failed);
}

#[tokio::test]
async fn a_job_whose_cluster_is_lost_is_followed_to_the_next() {
    let (a, b) = (a_fake("a").await, a_fake("b").await);
    let stage = Stage::with(&[&a, &b], &[("unhealthy_after", "1"), ("loss_grace", "300ms")]).await;
    let body = json!({"entrypoint": "echo here; sleep 2", "submission_id": "j", "metadata":
        {"multicluster.preferred_cluster": "a", "multicluster.on_cluster_loss": "requeue"}});
    assert_eq!(stage.post(body.to_string()).await.0, 200);
    stage.wait_for("j", JobStatus::Running).await;
    let following = tokio::spawn(read_all(tail(&stage, "j").await));
    a.down().await;
    let all = following.await.unwrap().unwrap();
    assert!(all.contains("attempt 1 on cluster a ended; attempt 2 on cluster b:\n"), "{all}");
    assert!(all.ends_with("here\n"), "{all}");
    assert_eq!(stage.details("j").await.status, JobStatus::Succeeded);
}

#[tokio::test]
async fn a_follower_waits_for_a_cluster_that_is_gone_for_a_while() {
    let fake = a_fake("mac").await;
    let stage = Stage::with(&[&fake], &[("unhealthy_after", "1")]).await;
    stage.submit("j", "forever").await;
    stage.wait_for("j", JobStatus::Running).await;
    fake.write_log("j", "before\n");
    let mut following = tail(&stage, "j").await;
    let mut seen = String::new();
    while !seen.ends_with("before\n") {
        seen += &following.next().await.unwrap().unwrap();
    }
    fake.down().await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    fake.up().await;
    fake.write_log("j", "after\n");
    let piece = tokio::time::timeout(SOON, following.next()).await.unwrap();
    assert_eq!(piece.unwrap().unwrap(), "after\n");
    fake.finish("j", multicluster_testkit::JobStatus::Succeeded);
    assert_eq!(read_all(following).await.unwrap(), "");
}

#[tokio::test]
async fn who_leaves_is_not_followed_for_and_a_stopped_plane_breaks_off() {
    let fake = a_fake("mac").await;
    let stage = Stage::over(&[&fake]).await;
    stage.submit("j", "forever").await;
    stage.wait_for("j", JobStatus::Running).await;
    let followers = async || {
        let page = stage.get("/metrics").await.1;
        page.lines()
            .find_map(|line| line.strip_prefix("multicluster_log_followers "))
            .unwrap_or("?")
            .to_owned()
    };
    let leaving = tail(&stage, "j").await;
    stage.until("one follower", async || followers().await == "1.0").await;
    drop(leaving);
    stage.until("no follower", async || followers().await == "0.0").await;

    let following = tail(&stage, "j").await;
    let Stage { _started, _serving, .. } = stage;
    _started.stop().await.unwrap();
    let error = read_all(following).await.unwrap_err();
    assert!(error.contains("broke") || error.contains("1006"), "{error}");
}

/// The same log over the native API.
#[tokio::test]
async fn a_log_is_followed_as_events_too() {
    let fake = a_fake("mac").await;
    let stage = Stage::over(&[&fake]).await;
    fake.fault_next(At::Tail, Fault::TailBreak(2), 1);
    stage.submit("j", "lines 30; sleep 0.5; echo end").await;
    let (status, told) = stage.get("/v1/jobs/j/logs/follow").await;
    assert_eq!(status, 200);
    let (mut text, mut kinds) = (String::new(), Vec::new());
    for event in told.split("\n\n").filter(|event| !event.is_empty() && !event.starts_with(':')) {
        let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let data: serde_json::Value = serde_json::from_str(field("data: ")).unwrap();
        kinds.push(field("event: ").to_owned());
        if kinds.last().unwrap() == "log" {
            assert_eq!((&data["attempt"], &data["cluster"]), (&json!(1), &json!("mac")));
            assert_eq!(data["from"], json!(text.len()), "each piece says where it belongs");
            text += data["text"].as_str().unwrap();
        }
    }
    let expected: String = (1..=30).map(|i| format!("line {i}\n")).chain(["end\n".to_owned()]).collect();
    assert_eq!(printed(&text), expected);
    assert_eq!(kinds.last().unwrap(), "end", "the log is complete");
}

/// What the native API streamed: the text by attempt, and the notes.
async fn streamed(stage: &Stage, query: &str) -> (Vec<(u64, String)>, String) {
    let (status, told) = stage.get(&format!("/v1/jobs/j/logs/follow?{query}")).await;
    assert_eq!(status, 200, "{told}");
    let (mut logs, mut notes) = (Vec::<(u64, String)>::new(), String::new());
    assert!(told.trim_end().ends_with("event: end\ndata: {}"), "the log is complete");
    for data in told.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        let Some(text) = data["text"].as_str() else { continue };
        match (data["attempt"].as_u64(), logs.last_mut()) {
            (None, _) => notes += text,
            (Some(attempt), Some((last, all))) if *last == attempt => all.push_str(text),
            (Some(attempt), _) => logs.push((attempt, text.to_owned())),
        }
    }
    (logs, notes)
}

#[tokio::test]
async fn a_follower_may_begin_with_the_last_lines() {
    let fake = a_fake("mac").await;
    let stage = Stage::over(&[&fake]).await;
    stage.submit("j", "lines 30; sleep 2; echo end").await;
    stage.until("its lines", async || stage.logs("j").await.ends_with("line 30\n")).await;
    let (logs, _) = streamed(&stage, "lines=3").await;
    assert_eq!(logs, [(1, "line 28\nline 29\nline 30\nend\n".to_owned())]);
    assert_eq!(streamed(&stage, "lines=1").await.0, [(1, "end\n".to_owned())], "after its end too");
    assert_eq!(streamed(&stage, "lines=0").await.0, []);
}

#[tokio::test]
async fn one_attempt_alone_can_be_followed() {
    let fake = a_fake("mac").await;
    let stage = Stage::over(&[&fake]).await;
    let body = json!({"entrypoint": "echo try; sleep 1; exit 1", "submission_id": "j",
                      "metadata": {"multicluster.max_retries": "1"}});
    assert_eq!(stage.post(body.to_string()).await.0, 200);
    stage.wait_for("j", JobStatus::Failed).await;
    for attempt in [1, 2] {
        let (logs, notes) = streamed(&stage, &format!("attempt={attempt}")).await;
        let [(shown, text)] = logs.as_slice() else { panic!("{logs:?}") };
        assert_eq!((*shown, printed(text).as_str(), notes.as_str()), (attempt, "try\n", ""));
    }
    let (logs, notes) = streamed(&stage, "attempt=3").await;
    assert_eq!((logs, notes.as_str()), (vec![], "[ray-multicluster] there is no attempt 3 of this job\n"));
    assert_eq!(streamed(&stage, "once=true").await.0.len(), 1, "the latest alone");
}

#[tokio::test]
async fn a_log_however_long_is_passed_on_from_its_first_line() {
    let fake = a_fake("mac").await;
    let stage = Stage::over(&[&fake]).await;
    stage.submit("j", "forever").await;
    stage.wait_for("j", JobStatus::Running).await;
    let long: String = (0..18_000).map(|nth| format!("{nth:01000}\n")).collect();
    assert!(long.len() > LONGEST);
    fake.write_log("j", &long);
    // While it runs: what there is now.
    let (logs, notes) = streamed(&stage, "once=true").await;
    let [(1, text)] = logs.as_slice() else { panic!("{} attempts, {notes}", logs.len()) };
    assert!(printed(text) == long, "{} bytes of {}, {notes}", text.len(), long.len());
    // Also if it never stops printing.
    let prints = async {
        loop {
            fake.write_log("j", "more\n");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let (logs, _) = tokio::select! {
        streamed = streamed(&stage, "once=true") => streamed,
        () = prints => unreachable!("it prints all the time"),
        () = tokio::time::sleep(Duration::from_secs(40)) => panic!("it is followed without an end"),
    };
    assert!(printed(&logs[0].1).starts_with(&long));
    fake.finish("j", multicluster_testkit::JobStatus::Succeeded);
    stage.wait_for("j", JobStatus::Succeeded).await;
    let (logs, notes) = streamed(&stage, "").await;
    let [(1, text)] = logs.as_slice() else { panic!("{} attempts, {notes}", logs.len()) };
    let more = printed(text).strip_prefix(&*long).map(str::to_owned);
    assert!(
        more.is_some_and(|more| more.lines().all(|line| line == "more")),
        "{} bytes, {notes}",
        text.len()
    );
}

#[tokio::test]
async fn a_job_that_has_printed_nothing_is_not_waited_for() {
    let fake = a_fake("mac").await;
    let stage = Stage::with(&[&fake], &[("max_running_jobs", "1")]).await;
    stage.submit("first", "forever").await;
    stage.wait_for("first", JobStatus::Running).await;
    stage.submit("j", "echo x").await;
    assert_eq!(streamed(&stage, "once=true").await, (vec![], String::new()));
}
