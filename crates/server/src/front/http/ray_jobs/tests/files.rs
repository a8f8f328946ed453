//! Packages.

use bytes::Bytes;
use multicluster_testkit::{Endpoint as At, Fault};
use serde_json::json;

use super::*;

const NAME: &str = "_ray_pkg_0123456789abcdef.zip";

#[tokio::test]
async fn a_package_is_kept_and_pushed_to_the_cluster_that_wins() {
    let fake = a_fake("mac").await;
    let stage = Stage::over(&[&fake]).await;
    assert!(!stage.ray.has_package(NAME).await.unwrap());
    let content = Bytes::from(vec![7; 3 << 20]);
    stage.ray.put_package(NAME, content.clone()).await.unwrap();
    assert!(stage.ray.has_package(NAME).await.unwrap());
    let body = json!({"entrypoint": "true", "submission_id": "j", "runtime_env": {"working_dir": format!("gcs://{NAME}")}});
    assert_eq!(stage.post(body.to_string()).await.0, 200);
    stage.wait_for("j", JobStatus::Succeeded).await;
    assert!(fake.packages().values().any(|pushed| *pushed == content), "{:?}", fake.packages().keys());
    assert_eq!(stage.shown("j").await["runtime_env"]["working_dir"], format!("gcs://{NAME}"));
}

/// The link has 1 MB/s, so the push takes five times as long as a request may take to leave.
#[tokio::test]
async fn a_package_that_takes_longer_than_a_dispatch_is_pushed_once_and_delays_nobody() {
    let fake = a_fake("mac").await;
    let stage = Stage::with(&[&fake], &[("dispatch_timeout", "2s"), ("breaker_failures", "1")]).await;
    stage.ray.put_package(NAME, Bytes::from(vec![7; 5_000_000])).await.unwrap();
    fake.fault(At::PackagePut, Fault::Throttle(1_000_000));
    let submit = async |id: &str| {
        let body = json!({"entrypoint": "true", "submission_id": id, "runtime_env": {"working_dir": format!("gcs://{NAME}")}});
        assert_eq!(stage.post(body.to_string()).await.0, 200);
    };
    submit("large").await;
    stage.until("a push", async || fake.request_count(At::PackagePut) > 0).await;
    submit("unwanted").await;
    stage.submit("small", "true").await;
    stage.wait_for("small", JobStatus::Succeeded).await;
    let stop = multicluster_core::Input::Stop { job: an_id("unwanted") };
    stage.plane.driver.act(stop).await.unwrap();
    stage.wait_for("unwanted", JobStatus::Stopped).await;
    assert_eq!(stage.details("large").await.status, JobStatus::Pending);
    let told = async || stage.get("/v1/jobs/large/explain").await.1.contains("pushing its packages: ");
    stage.until("why tells how far the push is", told).await;
    stage.wait_for("large", JobStatus::Succeeded).await;
    assert_eq!((fake.request_count(At::PackagePut), fake.runs("large"), fake.runs("unwanted")), (1, 1, 0));
    let attempts = stage.plane.driver.read(|core| core.job(&an_id("large")).unwrap().attempts).await;
    assert_eq!(attempts.unwrap(), 1);
}

#[tokio::test]
async fn names_that_could_leave_the_folder_and_other_protocols_are_refused() {
    let fake = a_fake("mac").await;
    let stage = Stage::over(&[&fake]).await;
    for path in ["gcs/..%2F..%2Fevil.zip", "gcs/.hidden", "gcs/a%2Fb.zip", "s3/x.zip", "gcs/%00.zip"] {
        let url = format!("{}/api/packages/{path}", stage.url);
        assert_eq!(stage.send(stage.http.get(&url)).await.0, 400, "{path}");
        assert_eq!(stage.send(stage.http.put(&url).body("x")).await.0, 400, "{path}");
    }
    let (status, text) = stage.get("/api/packages/gcs/nope.zip").await;
    assert_eq!((status, text.as_str()), (404, "Package gcs://nope.zip does not exist"));
}

#[tokio::test]
async fn what_ray_would_not_take_is_refused_announced_or_not() {
    let fake = a_fake("mac").await;
    let stage = Stage::over(&[&fake]).await;
    let url = format!("{}/api/packages/gcs/{NAME}", stage.url);
    let piece = Bytes::from(vec![0; 1 << 20]);
    let pieces = vec![piece; 101];
    let whole = pieces.concat();
    let stream = futures_util::stream::iter(pieces.into_iter().map(Ok::<_, std::io::Error>));
    let announced = stage.send(stage.http.put(&url).body(whole)).await;
    let streamed = stage.send(stage.http.put(&url).body(reqwest::Body::wrap_stream(stream))).await;
    for (status, text) in [announced, streamed] {
        assert_eq!(status, 413, "{text}");
        assert!(text.starts_with("Maximum request body size 104857600 exceeded."), "{text}");
    }
    assert!(!stage.ray.has_package(NAME).await.unwrap());
}
