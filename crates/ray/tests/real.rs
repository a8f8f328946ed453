//! Every call against a real Ray head, of any version:
//!
//! ```sh
//! RAY_DASHBOARD=http://127.0.0.1:8265 cargo test -p multicluster-ray --test real -- --ignored --nocapture
//! ```
//!
//! The head needs 2 CPUs. Set `RAY_TOKEN` if the head requires one.

#![allow(clippy::unwrap_used, reason = "tests may")]

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream;
use multicluster_ray::{
    Class, Endpoint, JobDetails, JobStatus, Kind, PackageBody, RayClient, Recalled, SubmitRequest, Timeouts,
};
use multicluster_types::{Credential, Quantity, Timestamp};

fn client() -> RayClient {
    let dashboard = std::env::var("RAY_DASHBOARD").expect("RAY_DASHBOARD names a running head");
    let endpoint = Endpoint {
        token: std::env::var("RAY_TOKEN").ok().map(Credential::given),
        ..Endpoint::new(dashboard)
    };
    RayClient::new(&endpoint, Timeouts::default()).unwrap()
}

fn id(name: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    format!("real-{name}-{}", now.as_millis())
}

async fn until(ray: &RayClient, id: &str, wanted: impl Fn(&JobDetails) -> bool) -> JobDetails {
    let started = Instant::now();
    loop {
        let job = ray.job(id).await.unwrap().unwrap();
        if wanted(&job) {
            return job;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{job:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
#[ignore = "needs a real Ray head"]
async fn real_facts_follow_what_a_job_reserves() {
    let ray = client();
    let version = ray.version().await.unwrap();
    let started = Instant::now();
    let before = loop {
        let facts = ray.facts().await.unwrap();
        // Left over from an earlier run; autoscaler v1 reports only every 5 s.
        if facts.used.cpu.is_zero() {
            break facts;
        }
        assert!(started.elapsed() < Duration::from_secs(90), "something runs there: {:?}", facts.used);
        tokio::time::sleep(Duration::from_millis(500)).await;
    };
    println!("{version:?}\n{before:#?}");
    assert_eq!(before.version, version);
    assert!(before.total.cpu >= Quantity::whole(2).unwrap() && before.python_version.is_some());
    assert!(before.physical.cpu.is_some() && before.physical.memory.is_some());
    let id = id("facts");
    let job = SubmitRequest {
        entrypoint_num_cpus: Some(1.5),
        entrypoint_memory: Some(500_000_000),
        ..SubmitRequest::new(&id, "sleep 60")
    };
    ray.submit(&job).await.unwrap();
    until(&ray, &id, |job| job.status == JobStatus::Running).await;
    let wanted = before.used.cpu.plus(Quantity::from_f64(1.5).unwrap());
    let started = Instant::now();
    loop {
        let facts = ray.facts().await.unwrap();
        if facts.used.cpu == wanted {
            let memory = facts.used.memory.minus(before.used.memory).as_f64();
            assert!((memory - 5e8).abs() < 1e7, "{memory}");
            println!("seen in use after {:?}: {:?}", started.elapsed(), facts.snapshot(Timestamp(0)));
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{facts:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(ray.stop(&id).await.unwrap(), Some(true));
    until(&ray, &id, |job| job.status == JobStatus::Stopped).await;
}

#[tokio::test]
#[ignore = "needs a real Ray head"]
async fn real_jobs_live_and_are_forgotten() {
    let ray = client();
    let id = id("life");
    let job = SubmitRequest {
        metadata: [("multicluster.attempt".to_owned(), "1".to_owned())].into(),
        runtime_env: serde_json::json!({"env_vars": {"GREETING": "hello"}}).as_object().cloned().unwrap(),
        ..SubmitRequest::new(&id, "echo $GREETING é 🦀; sleep 4; exit 3")
    };
    assert_eq!(ray.submit(&job).await.unwrap(), id);
    let error = ray.submit(&job).await.unwrap_err();
    assert!(
        error.is_already_exists() && error.message.as_str().starts_with("ValueError: Job with"),
        "{error}"
    );
    let error = ray.delete(&id).await.unwrap_err();
    assert_eq!((error.kind, error.class), (Kind::NotEnded, Class::Permanent), "{error}");
    let running = until(&ray, &id, |job| job.status == JobStatus::Running).await;
    assert_eq!(running.metadata["multicluster.attempt"], "1");
    let list = ray.jobs().await.unwrap();
    assert!(list.is_complete() && list.jobs.iter().any(|job| job.has_id(&id)), "{list:?}");

    let mut tail = ray.tail(&id).await.unwrap().unwrap();
    let mut text = String::new();
    while let Some(piece) = tail.next().await {
        text += &piece.unwrap();
    }
    assert!(text.contains("hello é 🦀\n"), "{text}");
    let ended = until(&ray, &id, |job| job.status.is_terminal()).await;
    assert_eq!(ended.status, JobStatus::Failed, "{ended:?}");
    assert!(ended.end_time > ended.start_time && ended.message.is_some(), "{ended:?}");
    assert_eq!(ray.logs(&id, 1 << 20).await.unwrap().unwrap().text, text);
    let end = ray.logs(&id, 8).await.unwrap().unwrap();
    assert!(end.skipped > 0 && text.ends_with(&end.text), "{end:?}");
    let node = ended.driver_node_id.unwrap();
    let file = ray.driver_log(&id, &node, 100, 1 << 20).await.unwrap().unwrap();
    assert!(text.ends_with(&String::from_utf8(file).unwrap()), "{text}");

    assert_eq!(ray.stop(&id).await.unwrap(), Some(false));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(ray.delete(&id).await.unwrap(), Some(true));
    assert_eq!(ray.job(&id).await.unwrap(), None);
}

#[tokio::test]
#[ignore = "needs a real Ray head"]
async fn real_output_that_is_not_text_is_still_readable() {
    let ray = client();
    let id = id("bytes");
    // Larger than a block, so that the marks of older Ray versions are inside.
    let script =
        r#"python -c "import sys; o=sys.stdout.buffer; [o.write(b'%06d \xff\n' % i) for i in range(30000)]""#;
    ray.submit(&SubmitRequest::new(&id, script)).await.unwrap();
    let ended = until(&ray, &id, |job| job.status.is_terminal()).await;
    println!(
        "{:?}: logs {:?}",
        ended.status,
        ray.logs(&id, 100).await.map(|logs| logs.map(|logs| logs.skipped))
    );
    let node = ended.driver_node_id.unwrap();
    let file = ray.driver_log(&id, &node, 20_000, 1 << 20).await.unwrap().unwrap();
    let wanted: Vec<u8> =
        (10_000..30_000).flat_map(|i| [format!("{i:06} ").as_bytes(), b"\xff\n"].concat()).collect();
    assert_eq!(file.len(), wanted.len());
    assert!(file == wanted, "the file differs");
    assert_eq!(ray.driver_log("no-such-job", &node, 10, 100).await.unwrap(), None);
    assert!(ray.driver_log(&id, &"ab".repeat(28), 10, 100).await.unwrap_err().is_transient());
}

#[tokio::test]
#[ignore = "needs a real Ray head"]
async fn real_packages_and_what_is_missing() {
    let ray = client();
    let name = format!("{}.zip", id("package"));
    assert!(!ray.has_package(&name).await.unwrap());
    ray.put_package(&name, Bytes::from(vec![7; 1 << 20])).await.unwrap();
    assert!(ray.has_package(&name).await.unwrap());
    let pieces = stream::iter((0..64).map(|_| Ok(Bytes::from(vec![7; 1 << 16]))));
    ray.put_package(&format!("s-{name}"), PackageBody::stream(64 << 16, pieces)).await.unwrap();
    assert!(ray.has_package(&format!("s-{name}")).await.unwrap());

    assert_eq!(ray.job("no-such-job").await.unwrap(), None);
    assert_eq!(ray.stop("no-such-job").await.unwrap(), None);
    assert_eq!(ray.delete("no-such-job").await.unwrap(), None);
    assert_eq!(ray.logs("no-such-job", 100).await.unwrap(), None);
    assert!(ray.tail("no-such-job").await.unwrap().is_none());
    let odd = SubmitRequest {
        runtime_env: serde_json::json!({"pip": 7}).as_object().cloned().unwrap(),
        ..SubmitRequest::new(id("odd"), "true")
    };
    println!("an odd runtime_env: {:?}", ray.submit(&odd).await);
}

#[tokio::test]
#[ignore = "needs a real Ray head"]
async fn real_jobs_that_wait_are_recalled() {
    let ray = client();
    assert_eq!(ray.autoscaler().await.map(|report| report.failed), Some(0));
    let (waits, runs) = (id("waits"), id("runs"));
    let file = std::env::temp_dir().join(&waits);
    let wanted = SubmitRequest {
        entrypoint_num_cpus: Some(10_000.0),
        ..SubmitRequest::new(waits.clone(), format!("touch {}", file.display()))
    };
    ray.submit(&wanted).await.unwrap();
    ray.submit(&SubmitRequest::new(runs.clone(), "sleep 60")).await.unwrap();
    until(&ray, &runs, |job| job.status == JobStatus::Running).await;
    let started = Instant::now();
    let recaller = id("recaller");
    let recalled = ray.recall(&[&waits, &runs, "nosuch"], &recaller, Duration::from_secs(60)).await.unwrap();
    println!("recalled after {:?}", started.elapsed());
    assert_eq!(recalled, [Recalled::NeverStarted, Recalled::Started, Recalled::Gone]);
    assert_eq!(ray.job(&runs).await.unwrap().unwrap().status, JobStatus::Running);
    ray.stop(&runs).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    for id in [&waits, &recaller] {
        assert_eq!(ray.delete(id).await.unwrap(), Some(true));
    }
    assert!(!file.exists());
}
