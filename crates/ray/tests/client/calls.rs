//! Every call, against a fake that answers as Ray does.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use multicluster_ray::{
    Call, Class, Endpoint, JobKind, JobStatus, Kind, PackageBody, RayClient, SubmitRequest, Timeouts,
};
use multicluster_testkit::{FakeFleet, FakeNode, FakeOptions, FakeRay};
use multicluster_types::{Quantity, ResourceName, Timestamp};

use crate::client;

async fn fake() -> (FakeRay, RayClient) {
    let fake =
        FakeRay::start(FakeOptions::new("mac").cpus(8.0).gpus(1.0).resource("my_custom_res", 2.5)).await;
    let client = client(fake.url());
    (fake, client)
}

#[tokio::test]
async fn a_job_is_submitted_watched_stopped_and_deleted() {
    let (fake, ray) = fake().await;
    let job = SubmitRequest {
        metadata: [("k".to_owned(), "v".to_owned())].into(),
        entrypoint_num_cpus: Some(1.0),
        ..SubmitRequest::new("a", "sleep 60")
    };
    assert_eq!(ray.submit(&job).await.unwrap(), "a");
    fake.wait_for("a", multicluster_testkit::JobStatus::Running, Duration::from_secs(5)).await;
    let seen = ray.job("a").await.unwrap().unwrap();
    assert_eq!((seen.status, seen.metadata["k"].as_str()), (JobStatus::Running, "v"));
    let error = ray.delete("a").await.unwrap_err();
    assert_eq!((error.class, error.kind), (Class::Permanent, Kind::NotEnded));
    assert_eq!(ray.stop("a").await.unwrap(), Some(true));
    fake.finish("a", multicluster_testkit::JobStatus::Stopped);
    assert_eq!(ray.stop("a").await.unwrap(), Some(false));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(ray.delete("a").await.unwrap(), Some(true));
    for missing in [ray.delete("b").await.unwrap(), ray.stop("b").await.unwrap()] {
        assert_eq!(missing, None);
    }
    assert_eq!(ray.job("b").await.unwrap(), None);
    assert_eq!(ray.logs("b", 100).await.unwrap(), None);
    assert!(ray.tail("b").await.unwrap().is_none());
}

#[tokio::test]
async fn a_second_submit_under_the_same_id_is_told_apart() {
    let (_fake, ray) = fake().await;
    let job = SubmitRequest::new("twice", "sleep 60");
    ray.submit(&job).await.unwrap();
    let error = ray.submit(&job).await.unwrap_err();
    assert!(error.is_already_exists() && error.may_have_arrived(), "{error}");
    assert!(error.message.as_str().starts_with("ValueError: Job with submission_id twice"), "{error}");
}

#[tokio::test]
async fn all_jobs_are_listed_also_drivers() {
    let (fake, ray) = fake().await;
    ray.submit(&SubmitRequest::new("a", "true")).await.unwrap();
    fake.add_driver_job("python notebook.py");
    let list = ray.jobs().await.unwrap();
    assert!(list.is_complete());
    let mut kinds: Vec<_> = list.jobs.iter().map(|job| (job.kind, job.submission_id.as_deref())).collect();
    kinds.sort_by_key(|(kind, _)| *kind == JobKind::Driver);
    assert_eq!(kinds, [(JobKind::Submission, Some("a")), (JobKind::Driver, None)]);
}

#[tokio::test]
async fn facts_are_exact() {
    let options = FakeOptions::new("mac").cpus(8.0).gpus(1.0).resource("my_custom_res", 2.5);
    let node = FakeNode::new(4.0).resource("memory", 4e9).label("zone", "eu-1");
    let fake = FakeRay::start(options.node(node)).await;
    fake.occupy(&[("CPU", 1.5), ("my_custom_res", 0.25)]);
    let ray = client(fake.url());
    let facts = ray.facts().await.unwrap();
    let custom = ResourceName::new("my_custom_res").unwrap();
    assert_eq!(facts.total.cpu, Quantity::whole(12).unwrap());
    assert_eq!(facts.used.cpu, Quantity::from_f64(1.5).unwrap());
    assert_eq!(facts.total.custom(&custom), Quantity::from_f64(2.5).unwrap());
    assert_eq!(facts.used.custom(&custom), Quantity::from_f64(0.25).unwrap());
    assert_eq!(facts.nodes[1].labels["zone"], "eu-1");
    assert_eq!(facts.notes, []);
    let snapshot = facts.snapshot(Timestamp(5));
    assert_eq!(snapshot.nodes, 2);
    assert_eq!(snapshot.incarnation.unwrap().as_str(), fake.session_name());
    fake.kill_node(1);
    assert_eq!(ray.facts().await.unwrap().total.cpu, Quantity::whole(8).unwrap());
}

#[tokio::test]
async fn a_head_without_a_session_is_known_by_its_node() {
    let fake = FakeRay::start(FakeOptions::new("old").without_session_name()).await;
    let ray = client(fake.url());
    assert_eq!(ray.version().await.unwrap().session_name, None);
    let facts = ray.facts().await.unwrap();
    let before = facts.snapshot(Timestamp(5)).incarnation.unwrap();
    assert_eq!(before.as_str(), facts.nodes[0].id);
    assert_eq!(ray.incarnation().await.unwrap(), Some(before.clone()));
    fake.restart();
    let ray = client(fake.url());
    let after = ray.incarnation().await.unwrap().unwrap();
    assert_ne!(after, before);
    assert_eq!(ray.facts().await.unwrap().snapshot(Timestamp(6)).incarnation, Some(after));
}

#[tokio::test]
async fn a_head_without_nodes_is_not_healthy() {
    let fake = FakeRay::start(FakeOptions::new("new").without_nodes()).await;
    let error = client(fake.url()).facts().await.unwrap_err();
    assert_eq!((error.class, error.kind), (Class::Transient, Kind::NotReady));
    assert!(error.to_string().contains(&fake.url()), "{error}");
}

#[tokio::test]
async fn packages_are_asked_for_and_uploaded() {
    let (fake, ray) = fake().await;
    let name = "_ray_pkg_0123456789abcdef.zip";
    assert!(!ray.has_package(name).await.unwrap());
    ray.put_package(name, Bytes::from_static(b"zip")).await.unwrap();
    assert!(ray.has_package(name).await.unwrap());
    let pieces = stream::iter([Ok(Bytes::from_static(b"ab")), Ok(Bytes::from_static(b"cde"))]);
    ray.put_package("s.zip", PackageBody::stream(5, pieces)).await.unwrap();
    assert_eq!(fake.packages()["s.zip"], &b"abcde"[..]);
}

/// A link of 1 MB/s, and a limit of half a second.
#[tokio::test]
async fn an_upload_may_take_long_but_not_stand_still() {
    let (fake, _) = fake().await;
    let limits = Timeouts { upload: Duration::from_millis(500), ..Timeouts::default() };
    let ray = RayClient::new(&Endpoint::new(fake.url()), limits).unwrap();
    let content = Bytes::from(vec![7; 2_000_000]);
    // The sockets between the two take some megabytes at once.
    let slices: Vec<_> = content.chunks(100_000).map(Bytes::copy_from_slice).collect();
    let paced = |pause: u64| {
        let slices = stream::iter(slices.clone()).then(move |slice| async move {
            tokio::time::sleep(Duration::from_millis(pause)).await;
            Ok(slice)
        });
        PackageBody::stream(2_000_000, slices)
    };
    let sent = Arc::new(AtomicU64::new(0));
    ray.put_package("slow.zip", paced(100).counted(Arc::clone(&sent))).await.unwrap();
    assert_eq!((&fake.packages()["slow.zip"], sent.load(Ordering::Relaxed)), (&content, 2_000_000));
    let error = ray.put_package("stuck.zip", paced(2_000)).await.unwrap_err();
    assert_eq!((error.kind, error.class), (Kind::Timeout, Class::Transient), "{error}");
    ray.put_package("whole.zip", content.clone()).await.unwrap();
    assert_eq!(fake.packages()["whole.zip"], content);
}

#[tokio::test]
async fn a_package_that_is_not_what_was_announced_never_arrives() {
    let (fake, ray) = fake().await;
    for len in [4, 6] {
        let pieces = stream::iter([Ok(Bytes::from_static(b"ab")), Ok(Bytes::from_static(b"cde"))]);
        let error = ray.put_package("s.zip", PackageBody::stream(len, pieces)).await.unwrap_err();
        assert_eq!((error.call, error.class), (Call::PutPackage, Class::Transient), "{len}");
        assert!(!fake.packages().contains_key("s.zip"), "{len}");
    }
    let huge = PackageBody::stream(101 << 20, stream::empty());
    assert!(ray.put_package("huge.zip", huge).await.unwrap_err().is_refusal());
    assert!(ray.put_package("../x", Bytes::new()).await.unwrap_err().is_refusal());
}

#[tokio::test]
async fn logs_are_read_and_followed() {
    let (fake, ray) = fake().await;
    ray.submit(&SubmitRequest::new("a", "sleep 60")).await.unwrap();
    fake.wait_for("a", multicluster_testkit::JobStatus::Running, Duration::from_secs(5)).await;
    fake.write_log("a", "first line\n");
    fake.write_log("a", "last line é\n");
    let logs = ray.logs("a", 1 << 20).await.unwrap().unwrap();
    assert!(logs.text.ends_with("first line\nlast line é\n") && logs.skipped == 0, "{logs:?}");
    assert_eq!(ray.logs("a", 13).await.unwrap().unwrap().text, "last line é\n");
    let node = ray.job("a").await.unwrap().unwrap().driver_node_id.unwrap();
    let end = ray.driver_log("a", &node, 1, 1000).await.unwrap().unwrap();
    assert_eq!(String::from_utf8(end).unwrap(), "last line é\n");

    let mut tail = ray.tail("a").await.unwrap().unwrap();
    let mut seen = String::new();
    while !seen.contains("last line é\n") {
        seen += &tail.next().await.unwrap().unwrap();
    }
    fake.write_log("a", "more\n");
    fake.finish("a", multicluster_testkit::JobStatus::Succeeded);
    let rest: Vec<_> = tail.by_ref().map(Result::unwrap).collect().await;
    assert_eq!(rest.concat(), "more\n");
    assert!(tail.next().await.is_none());
}

#[tokio::test]
async fn a_path_in_the_address_is_kept() {
    let fleet = FakeFleet::start(3).await;
    let url = fleet.cluster(2).url();
    for spelling in [url.clone(), format!("{url}/")] {
        let ray = client(spelling);
        assert_eq!(
            ray.version().await.unwrap().session_name.unwrap().as_str(),
            fleet.cluster(2).session_name()
        );
        ray.facts().await.unwrap();
        ray.jobs().await.unwrap();
    }
    let ray = client(url);
    ray.submit(&SubmitRequest::new("a", "sleep 60")).await.unwrap();
    assert_eq!(fleet.cluster(2).submissions().len(), 1);
    assert!(ray.tail("a").await.unwrap().is_some());
}

#[tokio::test]
async fn the_clusters_token_is_sent_with_every_call() {
    let fake = FakeRay::start(FakeOptions::new("safe").token("s3cret-token")).await;
    let connect = |endpoint: &Endpoint| RayClient::new(endpoint, Timeouts::default()).unwrap();
    let ray = connect(&Endpoint::new(fake.url()).with_token("s3cret-token\n"));
    ray.facts().await.unwrap();
    ray.submit(&SubmitRequest::new("a", "sleep 60")).await.unwrap();
    assert!(ray.tail("a").await.unwrap().is_some());
    for (endpoint, status, hint) in [
        (Endpoint::new(fake.url()), 401, "wants a token"),
        (Endpoint::new(fake.url()).with_token("wrong-token"), 403, "not accepted"),
    ] {
        let ray = connect(&endpoint);
        for error in [ray.facts().await.unwrap_err(), ray.tail("a").await.unwrap_err()] {
            assert_eq!(
                (error.kind, error.status, error.class),
                (Kind::Denied, Some(status), Class::Permanent)
            );
            assert!(error.hint.unwrap().contains(hint), "{error}");
        }
    }
}
