//! The conclusions that a caller may draw from each failure: above all, whether a job exists now.

use std::time::{Duration, Instant};

use multicluster_ray::{Class, Kind, SubmitRequest};
use multicluster_testkit::{Endpoint, FakeOptions, FakeRay, Fault};

use crate::{client, hasty};

async fn fake() -> FakeRay {
    FakeRay::start(FakeOptions::new("mac").cpus(8.0)).await
}

#[tokio::test]
async fn a_submit_without_a_usable_answer_is_of_unknown_outcome() {
    for (fault, kind) in [
        (Fault::Hang, Kind::Timeout),
        (Fault::HangAfter, Kind::Timeout),
        (Fault::ResetBefore, Kind::Lost),
        (Fault::ResetAfter, Kind::Lost),
        (Fault::Truncated, Kind::Lost),
        (Fault::Garbage, Kind::BadAnswer),
        (Fault::Huge(6 << 20), Kind::TooLarge),
        (Fault::Status(500, "boom".into()), Kind::Failing),
        (Fault::StatusAfter(502, "Bad Gateway".into()), Kind::Failing),
        (Fault::Status(503, String::new()), Kind::Failing),
    ] {
        let fake = fake().await;
        fake.fault_next(Endpoint::Submit, fault.clone(), 1);
        let error = hasty(fake.url()).submit(&SubmitRequest::new("a", "sleep 9")).await.unwrap_err();
        assert_eq!((error.class, error.kind), (Class::OutcomeUnknown, kind), "{fault:?}: {error}");
        // The request was sent once, in every case: the caller decides about a second one.
        assert_eq!(fake.request_count(Endpoint::Submit), 1, "{fault:?}");
    }
}

#[tokio::test]
async fn a_submit_that_certainly_did_not_arrive_says_so() {
    let fake = fake().await;
    let ray = hasty(fake.url());
    let job = SubmitRequest::new("a", "sleep 9");
    fake.fault_next(Endpoint::Submit, Fault::NoAgent, 1);
    let error = ray.submit(&job).await.unwrap_err();
    assert_eq!((error.class, error.kind, error.may_have_arrived()), (Class::Transient, Kind::NoAgent, false));
    fake.down().await;
    let error = ray.submit(&job).await.unwrap_err();
    assert_eq!((error.class, error.kind), (Class::Transient, Kind::Unreachable), "{error}");
    assert!(error.to_string().contains("Connection refused") && error.hint.is_some(), "{error}");
    fake.up().await;
    ray.submit(&job).await.unwrap();
    assert_eq!(fake.submissions().len(), 1);
}

#[tokio::test]
async fn a_question_without_a_usable_answer_may_be_asked_again() {
    for fault in [
        Fault::Hang,
        Fault::ResetBefore,
        Fault::Truncated,
        Fault::Garbage,
        Fault::Status(500, "boom".into()),
        Fault::Status(503, "<html><title>503</title></html>".into()),
        Fault::Status(429, "slow down".into()),
    ] {
        let fake = fake().await;
        let ray = hasty(fake.url());
        fake.fault(Endpoint::Any, fault.clone());
        let started = Instant::now();
        let errors = [
            ray.version().await.unwrap_err(),
            ray.facts().await.unwrap_err(),
            ray.jobs().await.unwrap_err(),
            ray.job("a").await.unwrap_err(),
            ray.logs("a", 1000).await.unwrap_err(),
            ray.tail("a").await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.class, Class::Transient, "{fault:?}: {error}");
        }
        assert!(started.elapsed() < Duration::from_secs(10), "{fault:?}");
        fake.clear_faults();
        ray.facts().await.unwrap();
    }
}

#[tokio::test]
async fn a_fault_in_any_part_of_the_facts_fails_them_all() {
    for endpoint in [Endpoint::Version, Endpoint::Nodes, Endpoint::Summary] {
        let fake = fake().await;
        let ray = hasty(fake.url());
        for fault in [Fault::Status(500, "boom".into()), Fault::Garbage, Fault::Hang] {
            fake.fault_next(endpoint, fault.clone(), 1);
            let error = ray.facts().await.unwrap_err();
            assert_eq!(error.class, Class::Transient, "{endpoint:?} {fault:?}: {error}");
        }
        ray.facts().await.unwrap();
    }
}

#[tokio::test]
async fn a_head_that_restarts_between_two_questions_is_noticed() {
    let fake = fake().await;
    let ray = client(fake.url());
    let before = ray.facts().await.unwrap().version;
    fake.fault_next(Endpoint::Nodes, Fault::Slow(Duration::from_millis(400)), 1);
    let asked = tokio::spawn(async move { (ray.facts().await, ray) });
    tokio::time::sleep(Duration::from_millis(150)).await;
    fake.restart();
    let (facts, ray) = asked.await.unwrap();
    // Timing decides which request the restart hits; no result may look like an answer.
    let error = facts.unwrap_err();
    assert!(error.is_transient() && matches!(error.kind, Kind::Restarted | Kind::Lost), "{error}");
    assert_ne!(ray.facts().await.unwrap().version.session_name, before.session_name);
}

#[tokio::test]
async fn a_log_tail_that_breaks_is_an_error_and_one_that_closes_is_an_end() {
    let fake = fake().await;
    let ray = client(fake.url());
    ray.submit(&SubmitRequest::new("a", "sleep 60")).await.unwrap();
    fake.wait_for("a", multicluster_testkit::JobStatus::Running, Duration::from_secs(5)).await;
    fake.write_log("a", &"line\n".repeat(40));
    fake.fault_next(Endpoint::Tail, Fault::TailBreak(1), 1);
    let mut tail = ray.tail("a").await.unwrap().unwrap();
    tail.next().await.unwrap().unwrap();
    let error = tail.next().await.unwrap().unwrap_err();
    assert_eq!((error.class, error.kind), (Class::Transient, Kind::Lost));
    assert!(tail.next().await.is_none(), "an error ends it");
    fake.fault_next(Endpoint::Tail, Fault::TailEarlyClose(1), 1);
    let mut tail = ray.tail("a").await.unwrap().unwrap();
    tail.next().await.unwrap().unwrap();
    assert!(tail.next().await.is_none());
}
