//! After a head was replaced, a run of somebody else may have the id of a job of ours: nothing of it
//! is shown as ours.

use multicluster_testkit::{Endpoint as At, Fault};
use multicluster_types::Attempt;

use super::*;

const SECRET: &str = "lines 50; echo secret; forever";

/// The head restarts, and somebody else starts a run under this id.
async fn replace(fake: &FakeRay, id: &str, entrypoint: &str) {
    fake.restart();
    let stranger = RayClient::new(&Endpoint::new(fake.url()), Timeouts::default()).unwrap();
    stranger.submit(&SubmitRequest::new(id, entrypoint)).await.unwrap();
    fake.wait_for(id, multicluster_testkit::JobStatus::Running, SOON).await;
}

/// The control plane does not notice a new head from now on: its polls and its watch fail.
fn hide_the_head(fake: &FakeRay) {
    fake.fault(At::Version, Fault::Status(500, "busy".into()));
}

async fn has_copy(stage: &Stage) -> bool {
    stage.plane.stored(|store| store.log_copy(&an_id("j"), None)).await.unwrap().is_some()
}

#[tokio::test]
async fn the_log_of_an_ended_job_is_never_that_of_a_strangers_run() {
    let fake = a_fake("mac").await;
    let stage = Stage::over(&[&fake]).await;
    stage.submit("j", "echo ours").await;
    stage.wait_for("j", JobStatus::Succeeded).await;
    stage.until("a copy", async || has_copy(&stage).await).await;
    replace(&fake, "j", SECRET).await;
    assert_eq!(stage.logs("j").await, "ours\n");
    assert_eq!(read_all(stage.ray.tail("j").await.unwrap().unwrap()).await.unwrap(), "ours\n");
    // Nor is the driver's file read, where Ray's own answer fails.
    fake.fault(At::Logs, Fault::Status(500, "UnicodeDecodeError".into()));
    assert_eq!(stage.logs("j").await, "ours\n");
}

#[tokio::test]
async fn a_follower_of_a_running_job_never_gets_the_output_of_a_stranger() {
    let fake = a_fake("mac").await;
    let stage = Stage::with(&[&fake], &[("unhealthy_after", "1000")]).await;
    stage.submit("j", "echo ours; forever").await;
    stage.wait_for("j", JobStatus::Running).await;
    let mut following = stage.ray.tail("j").await.unwrap().unwrap();
    let mut seen = String::new();
    while !seen.ends_with("ours\n") {
        seen += &following.next().await.unwrap().unwrap();
    }
    hide_the_head(&fake);
    let tails = fake.request_count(At::Tail);
    replace(&fake, "j", SECRET).await;
    stage.until("the follower came back", async || fake.request_count(At::Tail) > tails).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!stage.logs("j").await.contains("secret"));
    fake.clear_faults();
    let rest = read_all(following).await.unwrap();
    assert!(!rest.contains("secret"), "{rest}");
    assert_eq!(stage.details("j").await.status, JobStatus::Failed, "its run is gone");
}

#[tokio::test]
async fn no_strangers_log_is_stored_as_the_copy_of_ours() {
    let fake = a_fake("mac").await;
    let stage = Stage::over(&[&fake]).await;
    // The copy is being taken while the head is replaced.
    fake.fault(At::LogFile, Fault::Hang);
    fake.fault(At::Logs, Fault::Slow(Duration::from_secs(1)));
    stage.submit("j", "echo ours").await;
    stage.wait_for("j", JobStatus::Succeeded).await;
    stage.until("a copy is being taken", async || fake.request_count(At::LogFile) > 0).await;
    replace(&fake, "j", SECRET).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let copy = stage.plane.stored(|store| store.log_piece(&an_id("j"), Attempt(1), 0)).await.unwrap();
    assert!(copy.is_none_or(|(_, body)| !String::from_utf8(body).unwrap().contains("secret")));
}

#[tokio::test]
async fn the_work_of_a_stranger_is_not_shown_inside_our_job() {
    let long = Duration::from_secs(60);
    let fake = FakeRay::start(FakeOptions::new("mac").runs_for(long)).await;
    let stage = Stage::with(&[&fake], &[("unhealthy_after", "1000")]).await;
    stage.submit("j", "python ours.py").await;
    stage.wait_for("j", JobStatus::Running).await;
    let asked = async || {
        let before = fake.request_count(At::Other);
        assert_eq!(stage.get("/v1/jobs/j/explain").await.0, 200);
        fake.request_count(At::Other) - before
    };
    assert_eq!(asked().await, 1, "the tasks of our own run are asked for");
    hide_the_head(&fake);
    replace(&fake, "j", "python theirs.py").await;
    assert_eq!(asked().await, 0, "the stranger's tasks are not");
}
