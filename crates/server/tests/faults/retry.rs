//! Which failures on a cluster are worth a retry: the exit codes that Ray reports.

use multicluster_server::NewJob;
use multicluster_testkit::{FakeRay, JobStatus};
use multicluster_types::{ExitCodes, JobId, Lang, RetryCodes, State};

use crate::world::*;

/// A job that is run twice more, if its exit code is worth it.
fn retried(id: &str, entrypoint: &str, retry_on: &[i64], never_retry_on: &[i64]) -> NewJob {
    let [only, never] =
        [retry_on, never_retry_on].map(|codes| ExitCodes::new(codes.iter().copied()).unwrap());
    let mut job = runs(entrypoint).id(id);
    let retry = &mut job.submission.work.retry;
    (retry.max_retries, retry.codes) = (2, Some(Box::new(RetryCodes::new(only, never).unwrap())));
    job
}

async fn why(world: &World, job: &JobId) -> String {
    let job = job.clone();
    world.plane().driver.read(move |core| core.explain(&job).unwrap().summary(Lang::En)).await.unwrap()
}

fn all_runs(fake: &FakeRay, id: &str) -> u32 {
    ["", "-a2", "-a3"].iter().map(|nth| fake.runs(&format!("{id}{nth}"))).sum()
}

#[tokio::test]
async fn exit_codes_decide_which_jobs_run_again() {
    let fake = quick("only").await;
    let world = World::over(&[&fake]).await;
    let cases = [
        ("listed", "exit 3", &[3, 4][..], &[][..], ""),
        ("not-listed", "exit 5", &[3, 4], &[], "not retried: exit code 5 is not in retry_on"),
        ("excluded", "exit 2", &[], &[2], "not retried: exit code 2 is in never_retry_on"),
        ("not-excluded", "exit 1", &[], &[2], ""),
        ("killed", "exit -9", &[-9, 137], &[], ""),
        ("killed-in-a-shell", "exit 137", &[-9, 137], &[], ""),
    ];
    for (id, entrypoint, retry_on, never, _) in cases {
        world.submit(retried(id, entrypoint, retry_on, never)).await;
    }
    for (id, _, _, _, told) in cases {
        let job = job_id(id);
        world.wait_for(&job, State::Failed).await;
        let expected = if told.is_empty() { 3 } else { 1 };
        assert_eq!(all_runs(&fake, id), expected, "{id}");
        let why = why(&world, &job).await;
        assert_eq!(why.contains("not retried"), !told.is_empty(), "{why}");
        assert!(why.contains(told), "{why}");
    }
}

#[tokio::test]
async fn a_driver_that_dies_with_its_node_has_no_exit_code() {
    let fake = quick("only").await;
    let world = World::over(&[&fake]).await;
    let job = world.submit(retried("listed", "forever", &[1], &[])).await;
    world.wait_for(&job, State::Running).await;
    fake.kill_node(0);
    world.wait_for(&job, State::Failed).await;
    let why = why(&world, &job).await;
    assert!(why.contains("not retried: the exit code is unknown, so it is not in retry_on"), "{why}");
}

#[tokio::test]
async fn exit_codes_are_known_after_a_restart() {
    let fake = quick("only").await;
    let mut world = World::over(&[&fake]).await;
    let job = world.submit(retried("job", "forever", &[], &[1])).await;
    world.wait_for(&job, State::Running).await;
    world.stop().await;
    // It ends with exit code 1 while nobody looks.
    fake.finish("job", JobStatus::Failed);
    world.start();
    world.wait_for(&job, State::Failed).await;
    assert!(why(&world, &job).await.contains("exit code 1 is in never_retry_on"));
    assert_eq!(all_runs(&fake, "job"), 1);
}
