//! Our own copies of logs.

use multicluster_testkit::JobStatus;
use multicluster_types::{JobId, State};

use crate::world::*;

fn a_log(lines: usize) -> String {
    (0..lines).map(|number| format!("epoch {number}: loss 0.25, accuracy 0.75\n")).collect()
}

async fn printed(world: &World, fake: &multicluster_testkit::FakeRay, log: &str) -> JobId {
    let job = world.submit(runs("forever").id("job")).await;
    world.wait_for(&job, State::Running).await;
    fake.write_log("job", log);
    fake.finish("job", JobStatus::Succeeded);
    world.wait_for(&job, State::Succeeded).await;
    job
}

#[tokio::test]
async fn a_whole_log_outlives_its_cluster_and_a_restart_in_a_quarter_of_its_room() {
    let fake = quick("only").await;
    let mut world = World::with(&[&fake], &[("log_copy", "all")]).await;
    let before = world.size_on_disk();
    let log = a_log(100_000);
    let job = printed(&world, &fake, &log).await;
    let end = "epoch 99999: loss 0.25, accuracy 0.75\n";
    world.until("a whole copy".into(), async || world.log_copy(&job).await.ends_with(end)).await;
    fake.down().await;
    world.stop().await;
    let grown = world.size_on_disk() - before;
    assert!(grown < log.len() as u64 / 4, "{grown} bytes for {}", log.len());
    world.start();
    assert!(world.log_copy(&job).await.ends_with(&log));
}

#[tokio::test]
async fn only_the_end_of_a_log_is_copied_up_to_the_limit() {
    let fake = quick("only").await;
    let world = World::with(&[&fake], &[("log_copy", "1MiB")]).await;
    let log = a_log(100_000);
    let job = printed(&world, &fake, &log).await;
    world.until("a copy".into(), async || log.ends_with(&world.log_copy(&job).await)).await;
    let copy = world.log_copy(&job).await;
    assert!(copy.len() <= 1 << 20 && copy.lines().count() > 10_000, "{}", copy.len());
}

#[tokio::test]
async fn with_log_copy_0_nothing_is_copied_and_ended_runs_are_deleted_without() {
    let fake = quick("only").await;
    let world = World::with(&[&fake], &[("log_copy", "0"), ("clean_up_after", "1s")]).await;
    let job = printed(&world, &fake, "secret\n").await;
    let swept = std::time::Duration::from_secs(60);
    world.within(swept, "cleaned up".into(), async || status(&fake, "job").is_none()).await;
    assert_eq!(world.log_copy(&job).await, "");
}
