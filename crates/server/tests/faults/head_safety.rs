//! Overloaded head nodes, and how they are protected.

use std::time::Duration;

use multicluster_core::ClusterView;
use multicluster_testkit::{Endpoint, FakeRay, Fault, JobStatus};
use multicluster_types::{ClusterName, State};

use crate::world::*;

/// Time for a few sweeps: there is at most one in ten seconds.
const SWEPT: Duration = Duration::from_secs(60);

async fn view(world: &World, fake: &FakeRay) -> ClusterView {
    let name = ClusterName::new(fake.name()).unwrap();
    world.plane().driver.read(move |core| core.cluster(&name)).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_dashboard_that_becomes_slow_gets_less_to_do_until_jobs_start_well_again() {
    let fake = quick("only").await;
    let settings = [("dashboard_slow", "500ms"), ("max_starting", "4")];
    let world = World::with(&[&fake], &settings).await;
    assert_eq!(view(&world, &fake).await.starting_limit, 4);
    // The job is not seen running, so it counts as starting for as long.
    for look in [Endpoint::List, Endpoint::Job] {
        fake.fault(look, Fault::Status(500, "not now".into()));
    }
    fake.fault(Endpoint::Summary, Fault::Slow(Duration::from_millis(700)));
    let first = world.submit(runs("echo fine")).await;
    world.until("slowed down".into(), async || view(&world, &fake).await.starting_limit == 2).await;
    fake.clear_faults();
    world.wait_for(&first, State::Succeeded).await;
    for _ in 0..4 {
        let job = world.submit(runs("echo fine")).await;
        world.wait_for(&job, State::Succeeded).await;
    }
    world.until("as before".into(), async || view(&world, &fake).await.starting_limit == 4).await;
}

#[tokio::test]
async fn a_slow_or_failed_submission_slows_down_as_well() {
    for fault in [Fault::Slow(Duration::from_millis(700)), Fault::NoAgent] {
        let fake = quick("only").await;
        let world = World::with(&[&fake], &[("dashboard_slow", "500ms"), ("max_starting", "4")]).await;
        fake.fault_next(Endpoint::Submit, fault, 1);
        let job = world.submit(runs("forever")).await;
        world.until("slowed down".into(), async || view(&world, &fake).await.starting_limit == 2).await;
        world.wait_for(&job, State::Running).await;
    }
}

#[tokio::test]
async fn ended_runs_are_deleted_on_their_cluster_and_nobody_elses() {
    let fake = quick("only").await;
    let mut world = World::with(&[&fake], &[("clean_up_after", "1s")]).await;
    let other = World::over(&[&fake]).await;
    let theirs = other.submit(runs("echo theirs").id("theirs")).await;
    other.wait_for(&theirs, State::Succeeded).await;
    let mut twice = runs("exit 1").id("twice");
    twice.submission.work.retry.max_retries = 1;
    let (once, twice) = (world.submit(runs("echo kept").id("once")).await, world.submit(twice).await);
    let lives = world.submit(runs("forever").id("lives")).await;
    world.wait_for(&once, State::Succeeded).await;
    world.wait_for(&twice, State::Failed).await;
    world.wait_for(&lives, State::Running).await;

    let is_gone = |id: &str| status(&fake, id).is_none();
    world
        .within(SWEPT, "cleaned up".into(), async || {
            ["once", "twice", "twice-a2"].iter().all(|id| is_gone(id))
        })
        .await;
    assert_eq!(status(&fake, "lives"), Some(JobStatus::Running));
    assert_eq!(status(&fake, "theirs"), Some(JobStatus::Succeeded));
    assert_eq!(world.state(&once).await, Some(State::Succeeded), "we know it yet");
    assert!(world.log_copy(&once).await.contains("kept"));
    world.stop().await;
}

/// A copy that was taken while the job ran is not the whole log, and "no such run" is no log at
/// all.
#[tokio::test]
async fn no_run_is_deleted_before_the_end_of_its_log_is_copied() {
    let fake = quick("only").await;
    let world = World::with(&[&fake], &[("clean_up_after", "1s")]).await;
    let job = world.submit(runs("echo begin; forever").id("job")).await;
    world.until("a first copy".into(), async || world.log_copy(&job).await.contains("begin")).await;

    fake.fault(Endpoint::LogFile, Fault::NoAgent);
    fake.fault(Endpoint::Logs, Fault::Status(404, "Job job does not exist".into()));
    fake.write_log("job", "the end\n");
    fake.finish("job", JobStatus::Succeeded);
    world.wait_for(&job, State::Succeeded).await;
    // The watch tries once, then each sweep tries.
    let asked = fake.request_count(Endpoint::Logs);
    let is_swept = async || fake.request_count(Endpoint::Logs) > asked + 1;
    world.within(SWEPT, "swept in vain".into(), is_swept).await;
    assert_eq!(status(&fake, "job"), Some(JobStatus::Succeeded));
    assert!(world.log_copy(&job).await.contains("begin"), "the first copy is still there");

    fake.clear_faults();
    world.within(SWEPT, "cleaned up".into(), async || status(&fake, "job").is_none()).await;
    assert!(world.log_copy(&job).await.contains("the end"));
}

#[tokio::test]
async fn without_the_setting_nothing_is_deleted_and_after_a_restart_with_it_what_is_there_goes() {
    let fake = quick("only").await;
    let mut world = World::over(&[&fake]).await;
    let job = world.submit(runs("echo kept")).await;
    world.wait_for(&job, State::Succeeded).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(status(&fake, job.as_str()), Some(JobStatus::Succeeded));
    world.stop().await;
    world.settings.set("clean_up_after", "1s").unwrap();
    world.start();
    world.within(SWEPT, "cleaned up".into(), async || status(&fake, job.as_str()).is_none()).await;
    assert_eq!(world.state(&job).await, Some(State::Succeeded));
}
