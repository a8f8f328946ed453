//! Packages.

use bytes::Bytes;
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
