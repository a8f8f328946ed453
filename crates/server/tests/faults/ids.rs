//! Ids that were used before, by us or by other submitters.

use multicluster_core::Input;
use multicluster_ray::{Endpoint, RayClient, SubmitRequest, Timeouts};
use multicluster_testkit::JobStatus;
use multicluster_types::State;

use crate::world::*;

#[tokio::test]
async fn an_id_that_somebody_else_uses_on_the_cluster_is_not_mistaken_for_ours() {
    let fake = quick("only").await;
    let mut world = World::over(&[&fake]).await;
    // Another control plane runs a job with that id on the same cluster.
    let other = World::over(&[&fake]).await;
    let theirs = other.submit(runs("exit 1").id("report")).await;
    other.wait_for(&theirs, State::Failed).await;

    let ours = world.submit(runs("echo ours").id("report")).await;
    world.wait_for(&ours, State::Succeeded).await;
    assert_eq!((fake.runs("report"), fake.runs("report-a2")), (1, 1));
    world.stop().await;
}

#[tokio::test]
async fn an_id_that_is_used_again_after_a_delete_is_a_new_job() {
    let fake = quick("only").await;
    let world = World::over(&[&fake]).await;
    let job = world.submit(runs("exit 1").id("daily")).await;
    world.wait_for(&job, State::Failed).await;
    world.plane().driver.act(Input::Delete { job: job.clone() }).await.unwrap();
    // The old run is still on the cluster: its outcome must not become the new job's.
    let again = world.submit(runs("sleep 1 && echo fine").id("daily")).await;
    world.wait_for(&again, State::Succeeded).await;
    assert_eq!(fake.runs("daily") + fake.runs("daily-a2"), 2);
}

#[tokio::test]
async fn a_forgotten_job_is_deleted_from_its_cluster_too() {
    let fake = quick("only").await;
    let world = World::over(&[&fake]).await;
    let job = world.submit(runs("echo gone")).await;
    world.wait_for(&job, State::Succeeded).await;
    assert_eq!(status(&fake, job.as_str()), Some(JobStatus::Succeeded));
    world.plane().driver.act(Input::Delete { job: job.clone() }).await.unwrap();
    world.until("deleted".into(), async || status(&fake, job.as_str()).is_none()).await;
}

#[tokio::test]
async fn a_run_that_carries_a_copy_of_our_mark_is_not_ours() {
    let fake = quick("only").await;
    let world = World::over(&[&fake]).await;
    // Enough jobs that the watch uses the list of all jobs.
    let mut jobs = Vec::new();
    for n in 0..8 {
        jobs.push(world.submit(runs("sleep 3600").id(&format!("ours-{n}"))).await);
    }
    for job in &jobs {
        world.wait_for(job, State::Running).await;
    }
    let ours = fake.submissions().into_iter().find(|sent| sent.submission_id == "ours-0").unwrap();
    let ray = RayClient::new(&Endpoint::new(fake.url()), Timeouts::default()).unwrap();
    let metadata = serde_json::from_value(ours.request["metadata"].clone()).unwrap();
    let copy = SubmitRequest { metadata, ..SubmitRequest::new("copy", "exit 1") };
    ray.submit(&copy).await.unwrap();
    fake.wait_for("copy", JobStatus::Failed, SOON).await;
    // Later events are seen; the copy itself is not.
    fake.finish("ours-1", JobStatus::Succeeded);
    world.wait_for(&jobs[1], State::Succeeded).await;
    assert_eq!(world.state(&jobs[0]).await, Some(State::Running));
}

#[tokio::test]
async fn a_job_may_be_called_like_another_ones_second_attempt() {
    let fake = quick("only").await;
    let world = World::over(&[&fake]).await;
    let taken = world.submit(runs("echo mine").id("train-a2")).await;
    world.wait_for(&taken, State::Succeeded).await;
    let mut retried = runs("exit 1").id("train");
    retried.submission.work.retry.max_retries = 1;
    let retried = world.submit(retried).await;
    world.wait_for(&retried, State::Failed).await;
    // The second attempt found its id in use, so the job ran under the third.
    assert_eq!(["train", "train-a2", "train-a3"].map(|id| fake.runs(id)), [1, 1, 1]);
    assert_eq!(world.state(&taken).await, Some(State::Succeeded));
}
