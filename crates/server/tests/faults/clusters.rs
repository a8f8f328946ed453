//! Clusters that join, leave, restart or answer nonsense.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use multicluster_core::HealthState;
use multicluster_server::Driver;
use multicluster_testkit::{Endpoint, Fault, JobStatus};
use multicluster_types::{ClusterName, ClusterSpec, State};

use crate::world::*;

async fn health(world: &World, cluster: &str) -> HealthState {
    let name = ClusterName::new(cluster).unwrap();
    world.plane().driver.read(move |core| core.cluster(&name)).await.unwrap().unwrap().health
}

#[tokio::test]
async fn a_dashboard_that_talks_nonsense_is_unhealthy_and_says_so() {
    for fault in [
        Fault::Garbage,
        Fault::Truncated,
        Fault::Status(500, "Internal Server Error".into()),
        Fault::Status(200, "[]".into()),
        Fault::ResetBefore,
    ] {
        let fake = quick("only").await;
        let world = World::over(&[&fake]).await;
        fake.fault(Endpoint::Any, fault.clone());
        world
            .until(format!("unhealthy after {fault:?}"), async || {
                matches!(health(&world, "only").await, HealthState::Unhealthy { .. })
            })
            .await;
        let HealthState::Unhealthy { error, .. } = health(&world, "only").await else { panic!() };
        assert!(error.to_string().contains(&fake.url()), "{fault:?}: {error}");
        fake.clear_faults();
        world.healthy("only").await;
    }
}

/// The driver is blocked, and its inbox is full for longer than callers wait.
#[tokio::test]
async fn a_driver_that_does_not_keep_up_loses_no_cluster() {
    let fake = quick("only").await;
    let world = World::over(&[&fake]).await;
    let job = world.submit(runs("forever")).await;
    world.wait_for(&job, State::Running).await;
    let driver = world.plane().driver.clone();
    let (go_on, stands_still) = std::sync::mpsc::channel::<()>();
    let ask = |driver: Driver| tokio::spawn(async move { driver.read(|_| ()).await.is_ok() });
    let stop = tokio::spawn({
        let driver = driver.clone();
        async move { driver.read(move |_| stands_still.recv().is_err()).await }
    });
    let crowd: Vec<_> = (0..5000).map(|_| ask(driver.clone())).collect();
    tokio::time::sleep(Duration::from_secs(7)).await;
    drop(go_on);
    assert!(stop.await.unwrap().unwrap());
    let heard = join_all(crowd).await.into_iter().filter(|heard| *heard.as_ref().unwrap()).count();
    assert!(heard < 5000, "nobody was turned away");

    fake.finish(job.as_str(), JobStatus::Succeeded);
    world.wait_for(&job, State::Succeeded).await;
    let polls = fake.request_count(Endpoint::Nodes);
    world.until("it is polled again".into(), async || fake.request_count(Endpoint::Nodes) > polls).await;
}

#[tokio::test]
async fn a_cluster_that_goes_away_and_comes_back_with_its_jobs_is_reconciled() {
    let fake = quick("only").await;
    let world = World::over(&[&fake]).await;
    let job = world.submit(runs("forever")).await;
    world.wait_for(&job, State::Running).await;
    fake.down().await;
    world.wait_for(&job, State::Unknown).await;
    fake.finish(job.as_str(), JobStatus::Succeeded);
    fake.up().await;
    world.wait_for(&job, State::Succeeded).await;
    assert_eq!(fake.runs(job.as_str()), 1);
}

#[tokio::test]
async fn what_a_restarted_head_has_lost_is_failed_unless_it_may_run_again() {
    let (fragile, other) = (quick("fragile").await, quick("other").await);
    let world = World::over(&[&fragile, &other]).await;
    let once = world.submit(runs("forever").on("fragile")).await;
    let again = world.submit(runs("forever").idempotent().id("again")).await;
    let twin = world.submit(runs("sleep 60").idempotent().id("twin")).await;
    for job in [&once, &again, &twin] {
        world.wait_for(job, State::Running).await;
    }
    fragile.restart();
    world.wait_for(&once, State::Failed).await;
    world
        .until("both idempotent ones run somewhere".into(), async || {
            world.state(&again).await == Some(State::Running)
                && world.state(&twin).await == Some(State::Running)
        })
        .await;
    assert_eq!(fragile.runs(once.as_str()), 1);
}

#[tokio::test]
async fn the_log_of_an_ended_job_outlives_its_cluster() {
    let fake = quick("only").await;
    let world = World::over(&[&fake]).await;
    let job = world.submit(runs("echo kept")).await;
    world.wait_for(&job, State::Succeeded).await;
    world.until("a copy is stored".into(), async || !world.log_copy(&job).await.is_empty()).await;
    fake.down().await;
    assert!(world.log_copy(&job).await.ends_with("\nkept\n"));
}

#[tokio::test]
async fn a_moved_dashboard_gets_a_new_lane_and_the_old_one_is_void() {
    let (old, new) = (quick("only").await, quick("only").await);
    let mut world = World::over(&[&old]).await;
    old.fault(Endpoint::Any, Fault::Slow(Duration::from_millis(300)));
    world.clusters = vec![ClusterSpec::new(ClusterName::new("only").unwrap(), "127.0.0.1:1", new.url())];
    world.reload().await;
    let job = world.submit(runs("echo moved")).await;
    world.wait_for(&job, State::Succeeded).await;
    assert_eq!((old.runs(job.as_str()), new.runs(job.as_str())), (0, 1));
    let asked = old.request_count(Endpoint::Any);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(old.request_count(Endpoint::Any), asked, "nobody asks the old address any more");
}

#[tokio::test]
async fn a_cluster_with_an_unreachable_dashboard_is_unhealthy_and_nothing_else_is_tried() {
    let decoy = quick("decoy").await;
    let mut world = World::over(&[&decoy]).await;
    // The head address leads to a dashboard that answers: it must not be used.
    let name = ClusterName::new("gone").unwrap();
    let head = decoy.url().trim_start_matches("http://").to_owned();
    world.clusters.push(ClusterSpec::new(name, Arc::<str>::from(head), "http://127.0.0.1:1"));
    let before = decoy.request_count(Endpoint::Submit);
    world.reload().await;
    let job = world.submit(runs("echo nowhere").on("gone")).await;
    world
        .until("unhealthy".into(), async || {
            matches!(health(&world, "gone").await, HealthState::Unhealthy { .. })
        })
        .await;
    assert_eq!(world.state(&job).await, Some(State::Queued));
    assert_eq!(decoy.request_count(Endpoint::Submit), before);
}
