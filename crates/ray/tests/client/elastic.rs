//! A cluster that grows: what its autoscaler reports, and taking back jobs that wait for it.

use std::time::{Duration, Instant};

use multicluster_ray::{Kind, RayClient, Recalled, SubmitRequest};
use multicluster_testkit::{
    Endpoint, FakeAutoscaler, FakeNode, FakeOptions, FakeRay, Fault, JobStatus, Plan,
};
use multicluster_types::{Autoscaler, EntrypointResources};

use crate::{client, hasty};

const SOON: Duration = Duration::from_secs(5);

fn options() -> FakeOptions {
    let autoscaler = FakeAutoscaler::new(FakeNode::new(2.0), 2).takes(Duration::from_millis(200));
    FakeOptions::new("cloud").cpus(0.0).autoscaler(autoscaler)
}

/// A cluster that does not grow any more, with jobs that wait for it.
async fn stuck(options: FakeOptions, jobs: &[&str]) -> (FakeRay, RayClient) {
    let fake = FakeRay::start(options).await;
    fake.fail_launches(Some("InsufficientInstanceCapacity"));
    let ray = client(fake.url());
    for job in jobs {
        wants(&ray, job, 2.0).await;
    }
    (fake, ray)
}

async fn wants(ray: &RayClient, job: &str, cpus: f64) {
    let reserve = EntrypointResources { num_cpus: Some(cpus), ..Default::default() };
    ray.submit(&SubmitRequest::new(job, "forever").reserving(&reserve)).await.unwrap();
}

#[tokio::test]
async fn both_autoscalers_tell_of_launches_and_of_failures() {
    for v2 in [false, true] {
        let mut options = options();
        options.autoscaler_v2 = v2;
        let fake = FakeRay::start(options).await;
        let ray = client(fake.url());
        assert_eq!(ray.autoscaler().await, Some(Autoscaler::default()));
        wants(&ray, "a", 2.0).await;
        wants(&ray, "b", 2.0).await;
        assert_eq!(ray.autoscaler().await, Some(Autoscaler { pending: 2, ..Autoscaler::default() }));
        fake.wait_for("b", JobStatus::Running, SOON).await;
        assert_eq!(ray.autoscaler().await, Some(Autoscaler::default()));

        let (_fake, ray) = stuck(self::options(), &["a"]).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        let report = ray.autoscaler().await.unwrap();
        assert_eq!((report.failed, report.failure.unwrap().as_str()), (1, "w: InsufficientInstanceCapacity"));
    }
}

#[tokio::test]
async fn an_autoscaler_that_cannot_be_asked_is_none() {
    let fake = FakeRay::start(options()).await;
    let ray = hasty(fake.url());
    for fault in [
        Fault::Garbage,
        Fault::Truncated,
        Fault::Huge(8 << 20),
        Fault::Hang,
        Fault::ResetBefore,
        Fault::Status(500, "Traceback".into()),
        Fault::Status(404, "404: Not Found".into()),
    ] {
        fake.fault_next(Endpoint::ClusterStatus, fault.clone(), 1);
        assert_eq!(ray.autoscaler().await, None, "{fault:?}");
    }
    assert!(ray.autoscaler().await.is_some());
}

#[tokio::test]
async fn jobs_that_wait_are_taken_back_and_others_are_left_alone() {
    let (fake, ray) = stuck(options(), &["a", "b", "stays"]).await;
    ray.submit(&SubmitRequest::new("runs", "forever")).await.unwrap();
    ray.submit(&SubmitRequest::new("ended", "exit 1")).await.unwrap();
    fake.wait_for("runs", JobStatus::Running, SOON).await;
    fake.wait_for("ended", JobStatus::Failed, SOON).await;
    let recalled = ray.recall(&["a", "runs", "gone", "b", "ended"], "recall-1", SOON).await.unwrap();
    assert_eq!(
        recalled,
        [
            Recalled::NeverStarted,
            Recalled::Started,
            Recalled::Gone,
            Recalled::NeverStarted,
            Recalled::Started
        ]
    );
    assert_eq!(fake.job("stays").unwrap().status, JobStatus::Pending);
    assert_eq!(fake.job("runs").unwrap().status, JobStatus::Running);
    // Also when there is room, nothing of them runs.
    fake.fail_launches(None);
    fake.wait_for("stays", JobStatus::Running, SOON).await;
    assert_eq!((fake.runs("a"), fake.runs("b"), fake.runs("stays")), (0, 0, 1));
    assert_eq!(fake.alive_nodes(), 2, "nobody waits for another node");
}

#[tokio::test]
async fn nothing_is_sent_for_jobs_that_do_not_wait() {
    let (fake, ray) = stuck(options(), &[]).await;
    assert_eq!(ray.recall(&["gone"], "recall-1", SOON).await.unwrap(), [Recalled::Gone]);
    assert_eq!(fake.submissions().len(), 0);
}

#[tokio::test]
async fn a_job_that_is_not_taken_back_still_waits() {
    let no_python = |submission: &multicluster_testkit::Submission| {
        let is_recaller = submission.submission_id.starts_with("recall");
        is_recaller.then(|| Plan::new(Duration::ZERO, Duration::from_millis(10)).exit_code(127))
    };
    let (fake, ray) = stuck(options().rule(no_python), &["a"]).await;
    assert_eq!(ray.recall(&["a"], "recall-1", SOON).await.unwrap(), [Recalled::Pending]);
    assert_eq!(fake.job("a").unwrap().status, JobStatus::Pending);
}

#[tokio::test]
async fn a_recaller_that_does_not_end_is_not_waited_for() {
    let slow = |submission: &multicluster_testkit::Submission| {
        submission
            .submission_id
            .starts_with("recall")
            .then(|| Plan::new(Duration::ZERO, Duration::ZERO).forever())
    };
    let (_fake, ray) = stuck(options().rule(slow), &["a"]).await;
    let started = Instant::now();
    assert_eq!(
        ray.recall(&["a"], "recall-1", Duration::from_millis(100)).await.unwrap(),
        [Recalled::Pending]
    );
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_job_that_was_ended_after_it_started_may_have_run() {
    let (fake, ray) = stuck(options(), &["a"]).await;
    fake.fail_launches(None);
    fake.wait_for("a", JobStatus::Running, SOON).await;
    fake.kill_supervisor("a");
    assert_eq!(ray.recall(&["a"], "recall-1", SOON).await.unwrap(), [Recalled::Started]);
}

#[tokio::test]
async fn ids_that_the_shell_would_understand_are_refused() {
    let (fake, ray) = stuck(options(), &["a"]).await;
    for bad in ["a'b", "a b", "$(x)", "a;b", ""] {
        let error = ray.recall(&["a", bad], "recall-1", SOON).await.unwrap_err();
        assert_eq!(error.kind, Kind::Refused, "{bad}");
    }
    assert_eq!(ray.recall(&["a"; 101], "recall-1", SOON).await.unwrap_err().kind, Kind::Refused);
    assert_eq!(fake.submissions().len(), 1);
}
