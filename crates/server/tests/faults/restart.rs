//! The control plane itself stops and starts again.

use std::time::Duration;

use multicluster_testkit::{Endpoint, Fault, JobStatus};
use multicluster_types::State;

use crate::world::*;

#[tokio::test]
async fn jobs_go_on_while_we_are_away_and_are_adopted() {
    let fake = quick("only").await;
    let mut world = World::with(&[&fake], &[("max_running_jobs", "1")]).await;
    let running = world.submit(runs("forever")).await;
    world.wait_for(&running, State::Running).await;
    let queued = world.submit(runs("echo next")).await;
    world.stop().await;
    assert_eq!(status(&fake, running.as_str()), Some(JobStatus::Running));
    fake.finish(running.as_str(), JobStatus::Succeeded);
    world.start();
    world.wait_for(&running, State::Succeeded).await;
    world.wait_for(&queued, State::Succeeded).await;
    assert_eq!((fake.runs(running.as_str()), fake.runs(queued.as_str())), (1, 1));
}

#[tokio::test]
async fn a_request_under_way_when_we_ended_is_looked_up_before_anything_is_sent() {
    for arrived in [true, false] {
        let fake = quick("only").await;
        let mut world = World::over(&[&fake]).await;
        fake.fault_next(Endpoint::Submit, if arrived { Fault::HangAfter } else { Fault::Hang }, 1);
        let job = world.submit(runs("echo once")).await;
        world.wait_for(&job, State::Dispatching).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        world.stop().await;
        world.start();
        world.wait_for(&job, State::Succeeded).await;
        assert_eq!(fake.runs(job.as_str()), 1, "arrived: {arrived}");
        let sent = fake.submissions().iter().filter(|s| s.submission_id == job.as_str()).count();
        assert_eq!(sent, 1, "it is sent only if it is not there (arrived: {arrived})");
    }
}

#[tokio::test]
async fn a_cluster_that_left_the_configuration_is_drained_first() {
    let (old, new) = (quick("old").await, quick("new").await);
    let mut world = World::over(&[&old, &new]).await;
    let job = world.submit(runs("forever").on("old")).await;
    world.wait_for(&job, State::Running).await;
    world.clusters.remove(0);
    world.reload().await;
    assert_eq!(world.state(&job).await, Some(State::Running));
    old.finish(job.as_str(), JobStatus::Succeeded);
    world.wait_for(&job, State::Succeeded).await;
    world
        .until("the cluster is gone".into(), async || {
            world.plane().driver.read(|core| core.clusters().count()).await.unwrap() == 1
        })
        .await;
}
