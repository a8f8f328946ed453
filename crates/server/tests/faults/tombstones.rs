//! A request that arrives after its job was given up does not run.

use multicluster_core::Input;
use multicluster_ray::{Endpoint as Dashboard, RayClient, RayError, SubmitRequest, Timeouts};
use multicluster_testkit::{Endpoint, FakeRay, Fault, JobStatus};
use multicluster_types::{JobId, State};

use crate::world::*;

/// The request of this job as the control plane sent it, or will have sent it when it arrives.
async fn request_of(fake: &FakeRay, world: &World, like: &str, job: &JobId) -> SubmitRequest {
    let life = world.record(job).await.unwrap().submitted_at;
    let sent = fake.submissions().into_iter().find(|sent| sent.submission_id == like).unwrap();
    let mut metadata: std::collections::BTreeMap<String, String> =
        serde_json::from_value(sent.request["metadata"].clone()).unwrap();
    metadata.insert("multicluster.job_id".into(), job.to_string());
    metadata.insert("multicluster.life".into(), life.0.to_string());
    SubmitRequest { metadata, ..SubmitRequest::new(job.as_str(), "echo late") }
}

/// A control plane that was paused, or a proxy, delivers the request now.
async fn arrives_late(fake: &FakeRay, request: &SubmitRequest) -> Result<String, RayError> {
    RayClient::new(&Dashboard::new(fake.url()), Timeouts::default()).unwrap().submit(request).await
}

/// A job whose request got no answer, and is on its way somewhere.
async fn a_lost_request(fake: &FakeRay, world: &World) -> (JobId, SubmitRequest) {
    let first = world.submit(runs("echo first").id("first")).await;
    world.wait_for(&first, State::Succeeded).await;
    // Look-ups have no answer either, so that the job is not sent again before the test says so.
    fake.fault(Endpoint::Job, Fault::Status(500, "Traceback …".into()));
    fake.fault_next(Endpoint::Submit, Fault::ResetBefore, 1);
    let job = world.submit(runs("echo late").id("late")).await;
    world.wait_for(&job, State::Unknown).await;
    (job.clone(), request_of(fake, world, "first", &job).await)
}

#[tokio::test]
async fn a_request_that_arrives_after_its_job_was_stopped_does_not_run() {
    let fake = quick("only").await;
    let world = World::over(&[&fake]).await;
    let (job, request) = a_lost_request(&fake, &world).await;
    world.plane().driver.act(Input::Stop { job: job.clone() }).await.unwrap();
    fake.clear_faults();
    world.wait_for(&job, State::Stopped).await;
    let late = arrives_late(&fake, &request).await;
    assert!(late.is_err_and(|error| error.is_already_exists()), "the tombstone keeps it out");
    assert_eq!(fake.runs(job.as_str()), 0);
    let record = world.record(&job).await.unwrap();
    assert_eq!((record.state(), record.attempts), (State::Stopped, 1));
}

#[tokio::test]
async fn a_late_request_that_comes_before_the_tombstone_is_adopted_and_stopped() {
    let fake = quick("only").await;
    let world = World::over(&[&fake]).await;
    let (job, request) = a_lost_request(&fake, &world).await;
    world.plane().driver.act(Input::Stop { job: job.clone() }).await.unwrap();
    let sleeps = SubmitRequest { entrypoint: "sleep 3600".into(), ..request };
    arrives_late(&fake, &sleeps).await.unwrap();
    fake.clear_faults();
    world.wait_for(&job, State::Stopped).await;
    assert_eq!((fake.runs(job.as_str()), status(&fake, job.as_str())), (1, Some(JobStatus::Stopped)));
    assert_eq!(world.record(&job).await.unwrap().attempts, 1);
}

#[tokio::test]
async fn a_tombstone_whose_answer_is_lost_is_found() {
    for fault in [Fault::ResetAfter, Fault::Garbage, Fault::StatusAfter(502, "bad gateway".into())] {
        let fake = quick("only").await;
        let world = World::over(&[&fake]).await;
        let (job, request) = a_lost_request(&fake, &world).await;
        world.plane().driver.act(Input::Stop { job: job.clone() }).await.unwrap();
        fake.fault_next(Endpoint::Submit, fault.clone(), 1);
        fake.clear_fault(Endpoint::Job);
        world.wait_for(&job, State::Stopped).await;
        assert!(arrives_late(&fake, &request).await.is_err(), "{fault:?}");
        assert_eq!(fake.runs(job.as_str()), 0, "{fault:?}");
    }
}

#[tokio::test]
async fn a_job_that_is_given_up_elsewhere_runs_once_although_its_first_request_arrives_late() {
    let (slow, other) = (quick("slow").await, quick("other").await);
    let mut world = World::with(&[&slow], &[("dispatch_attempts", "2")]).await;
    let (job, request) = a_lost_request(&slow, &world).await;
    world.clusters.push(multicluster_types::ClusterSpec::new(
        multicluster_types::ClusterName::new("other").unwrap(),
        "127.0.0.1:1",
        other.url(),
    ));
    world.reload().await;
    world.healthy("other").await;
    slow.clear_fault(Endpoint::Job);
    // The second send is lost, too; then the job is buried.
    slow.fault_next(Endpoint::Submit, Fault::ResetBefore, 1);
    world.wait_for(&job, State::Succeeded).await;
    assert!(arrives_late(&slow, &request).await.is_err());
    assert_eq!(all_runs(&[&slow, &other])[job.as_str()], 1);
    assert_eq!(other.runs("late-a2"), 1);
}

#[tokio::test]
async fn a_tombstone_is_not_a_run_of_ours() {
    let fake = quick("only").await;
    let world = World::over(&[&fake]).await;
    let (job, _) = a_lost_request(&fake, &world).await;
    world.plane().driver.act(Input::Stop { job: job.clone() }).await.unwrap();
    fake.clear_faults();
    world.wait_for(&job, State::Stopped).await;
    fake.wait_for(job.as_str(), JobStatus::Succeeded, SOON).await;
    assert!(world.log_copy(&job).await.is_empty());
    // A job that is forgotten leaves its tombstone, which keeps late requests out for a while.
    world.plane().driver.act(Input::Delete { job: job.clone() }).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(4500)).await;
    assert!(status(&fake, job.as_str()).is_some());
    // The same id is another job's now.
    let again = world.submit(runs("echo again").id("late")).await;
    world.wait_for(&again, State::Succeeded).await;
    assert_eq!((fake.runs("late"), fake.runs("late-a2")), (0, 1));
}
