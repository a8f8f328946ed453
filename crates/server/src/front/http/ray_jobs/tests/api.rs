//! Submit, get, list, stop, delete, version.

use std::collections::BTreeMap;

use multicluster_ray::Kind;
use multicluster_testkit::{Endpoint as Asked, Fault};
use multicluster_types::{Kind as WorkKind, Payload, Work};
use serde_json::json;

use super::*;
use crate::engine::driver::NewJob;

#[tokio::test]
async fn a_job_lives_its_life_as_on_ray() {
    let fake = a_fake("mac").await;
    let stage = Stage::over(&[&fake]).await;
    stage.submit("nightly", "echo hi && sleep 0.2").await;
    stage.wait_for("nightly", JobStatus::Succeeded).await;
    let shown = stage.shown("nightly").await;
    assert_eq!(shown["type"], "SUBMISSION");
    assert_eq!(shown["metadata"]["multicluster.cluster"], "mac");
    assert_eq!(shown["metadata"]["multicluster.state"], "succeeded");
    assert!(shown["end_time"].as_u64() >= shown["start_time"].as_u64());
    assert_eq!(stage.logs("nightly").await, "hi\n");
    assert_eq!(stage.ray.stop("nightly").await.unwrap(), Some(false));
    assert_eq!(stage.ray.delete("nightly").await.unwrap(), Some(true));
    assert_eq!(stage.ray.job("nightly").await.unwrap(), None);
}

#[tokio::test]
async fn status_calls_are_answered_from_what_the_watch_saw_and_never_reach_the_cluster() {
    let fake = a_fake("mac").await;
    let stage = Stage::over(&[&fake]).await;
    stage.submit("fails", "python train.py && sleep 0.2 && exit 3").await;
    stage.wait_for("fails", JobStatus::Failed).await;
    stage.submit("runs", "python train.py && sleep 300").await;
    let has_driver = async || stage.details("runs").await.driver_info.is_some();
    stage.until("its driver is seen", has_driver).await;
    // The watch goes on; a hundred status calls must not add requests to the cluster.
    fake.fault(Asked::Job, Fault::Hang);
    let before = fake.request_count(Asked::Job);
    for _ in 0..100 {
        let failed = stage.details("fails").await;
        assert_eq!(failed.driver_exit_code, Some(3));
        assert_eq!(failed.error_type.as_deref(), Some("JOB_ENTRYPOINT_COMMAND_ERROR"));
        assert!(failed.driver_node_id.is_some() && failed.driver_agent_http_address.is_some());
        let runs = stage.details("runs").await;
        assert_eq!(runs.driver_info.unwrap().id, runs.job_id);
    }
    let listed: Vec<Value> = serde_json::from_str(&stage.get("/api/jobs/").await.1).unwrap();
    assert_eq!(listed, [stage.shown("runs").await, stage.shown("fails").await]);
    let driver =
        |shown: &Value| shown["driver_info"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert!(listed.iter().all(|shown| driver(shown) == ["id", "node_ip_address", "pid"]), "{listed:?}");
    assert!(fake.request_count(Asked::Job) < before + 10);
}

#[tokio::test]
async fn two_identical_submissions_without_an_id_are_two_jobs_unless_asked_otherwise() {
    let fake = a_fake("mac").await;
    let stage = Stage::over(&[&fake]).await;
    let submit = async |metadata: Value| {
        let body = json!({"entrypoint": "true", "entrypoint_num_cpus": 1000, "metadata": metadata});
        let (status, body) = stage.post(body.to_string()).await;
        assert_eq!(status, 200, "{body}");
        serde_json::from_str::<BTreeMap<String, String>>(&body).unwrap()["submission_id"].clone()
    };
    assert_ne!(submit(json!({})).await, submit(json!({})).await);
    let once = json!({"multicluster.dedup": "content"});
    assert_eq!(submit(once.clone()).await, submit(once).await);
    assert_eq!(stage.ray.jobs().await.unwrap().jobs.len(), 3);
}

#[tokio::test]
async fn keys_that_ray_ignores_are_passed_on_and_told_in_a_header() {
    let fake = a_fake("mac").await;
    let stage = Stage::over(&[&fake]).await;
    let body = json!({"entrypoint": "true", "submission_id": "j", "runtime_env": {"pips": ["polars"]}});
    let sent =
        stage.http.post(format!("{}/api/jobs/", stage.url)).body(body.to_string()).send().await.unwrap();
    assert_eq!(sent.status(), 200);
    let notice = sent.headers()["x-ray-multicluster-notice"].to_str().unwrap().to_owned();
    assert_eq!(notice, "Ray ignores runtime_env.pips: it knows no such key");
    stage.wait_for("j", JobStatus::Succeeded).await;
    assert_eq!(fake.submissions()[0].request["runtime_env"]["pips"], json!(["polars"]));
}

#[tokio::test]
async fn a_queued_job_is_pending_says_why_and_can_be_stopped() {
    let fake = a_fake("mac").await;
    let stage = Stage::over(&[&fake]).await;
    let mut large = SubmitRequest::new("large", "true");
    large.entrypoint_num_cpus = Some(1000.0);
    stage.ray.submit(&large).await.unwrap();
    let details = stage.details("large").await;
    assert_eq!(details.status, JobStatus::Pending);
    let message = details.message.unwrap().to_string();
    let words =
        "Job has not started yet. It may be waiting for resources (CPUs, GPUs, memory, custom resources) ";
    assert!(message.starts_with(words), "{message}");
    assert!(message.contains("mac: too small: CPU 1000 requested, 8 in total"), "{message}");
    assert_eq!(stage.logs("large").await, "");
    let not_ended = stage.ray.delete("large").await.unwrap_err();
    assert_eq!(not_ended.kind, Kind::NotEnded, "{not_ended}");
    assert_eq!(stage.ray.stop("large").await.unwrap(), Some(true));
    let stopped = stage.details("large").await;
    assert_eq!(stopped.status, JobStatus::Stopped);
    assert!(stopped.message.unwrap().as_str().starts_with("Job was intentionally stopped."));
}

#[tokio::test]
async fn an_id_that_exists_is_refused_in_rays_words_whatever_it_runs() {
    let fake = a_fake("mac").await;
    let stage = Stage::over(&[&fake]).await;
    stage.submit("once", "true").await;
    for entrypoint in ["true", "false"] {
        let error = stage.ray.submit(&SubmitRequest::new("once", entrypoint)).await.unwrap_err();
        assert!(error.is_already_exists(), "{error}");
        assert_eq!(error.status, Some(500));
    }
}

#[tokio::test]
async fn an_id_is_made_if_none_is_given() {
    let fake = a_fake("mac").await;
    let stage = Stage::over(&[&fake]).await;
    let (status, body) = stage.post(json!({"entrypoint": "true"}).to_string()).await;
    assert_eq!(status, 200, "{body}");
    let answer: BTreeMap<String, String> = serde_json::from_str(&body).unwrap();
    assert_eq!(answer.keys().collect::<Vec<_>>(), ["job_id", "submission_id"]);
    assert!(answer["submission_id"].starts_with("raysubmit_"), "{body}");
    assert_eq!(answer["job_id"], answer["submission_id"]);
}

#[tokio::test]
async fn bad_requests_are_told_what_is_wrong_and_change_nothing() {
    let fake = a_fake("mac").await;
    let stage = Stage::over(&[&fake]).await;
    for (body, status, words) in [
        (
            json!({"entrypoint": "x", "nope": 1}).to_string(),
            400,
            "__init__() got an unexpected keyword argument",
        ),
        (json!({}).to_string(), 400, "missing 1 required positional argument: 'entrypoint'"),
        (json!({"entrypoint": ["x"]}).to_string(), 400, "entrypoint must be a string"),
        ("{\"entrypoint\": \"x".to_owned(), 400, "not JSON"),
        (String::new(), 400, "not JSON"),
        ("[".repeat(100_000), 400, "not JSON"),
        (json!({"entrypoint": "x", "submission_id": "has/slash"}).to_string(), 400, "has/slash"),
        (json!({"entrypoint": "x", "entrypoint_num_cpus": -1}).to_string(), 400, "entrypoint_num_cpus"),
        (
            json!({"entrypoint": "x", "metadata": {"multicluster.preferred_cluster": "moc"}}).to_string(),
            400,
            "unknown cluster moc",
        ),
        (
            json!({"entrypoint": "x", "runtime_env": {"working_dir": "gcs://_ray_pkg_0.zip"}}).to_string(),
            400,
            "_ray_pkg_0.zip",
        ),
        ("x".repeat(5 << 20), 413, "Maximum request body size"),
    ] {
        let (got, text) = stage.post(body.clone()).await;
        assert_eq!(got, status, "{text}\n{}", &body[..body.len().min(200)]);
        assert!(text.contains(words) && text.len() < 2000, "{text}");
    }
    assert_eq!(stage.get("/api/jobs/").await, (200, "[]".to_owned()));
    for path in [
        "/api/jobs/nope",
        "/api/jobs/nope/logs",
        "/api/jobs/nope/logs/tail",
        "/api/jobs/..%2F..%2Fx",
        "/api/jobs",
    ] {
        assert_eq!(stage.get(path).await.0, 404, "{path}");
    }
    let (status, text) = stage.get("/api/jobs/02000000").await;
    assert!(status == 404 && text.starts_with("Job 02000000 does not exist\n  hint: "), "{text}");
}

#[tokio::test]
async fn secrets_are_not_shown_and_hints_are() {
    let fake = a_fake("mac").await;
    let stage = Stage::over(&[&fake]).await;
    let body = json!({
        "entrypoint": "true", "submission_id": "s", "runtime_env": {"env_vars": {"API_TOKEN": "hunter2", "A": "b"}},
        "metadata": {"multicluster.preferred_cluster": "mac", "team": "quant"},
    });
    assert_eq!(stage.post(body.to_string()).await.0, 200);
    let shown = stage.shown("s").await;
    assert!(!shown.to_string().contains("hunter2"), "{shown}");
    assert_eq!(shown["metadata"]["team"], "quant");
    stage.wait_for("s", JobStatus::Succeeded).await;
    let sent = fake.submissions().pop().unwrap();
    assert!(sent.request.to_string().contains("hunter2"), "the cluster gets it");
    // Except for the secret, the job can be submitted again as it was shown.
    let mut again = body.clone();
    (again["submission_id"], again["metadata"]) = ("t".into(), stage.shown("s").await["metadata"].clone());
    assert_eq!(stage.post(again.to_string()).await.0, 200);
}

#[tokio::test]
async fn the_list_has_every_job_over_many_pages_and_no_task() {
    let fake = a_fake("mac").await;
    let stage = Stage::with(&[&fake], &[("max_running_jobs", "1")]).await;
    let jobs: Vec<_> = (0..1203)
        .map(|i| {
            let payload = Payload { entrypoint: "forever".into(), ..Payload::default() };
            NewJob::job(Some(an_id(&format!("j{i}"))), Work::new(WorkKind::Job), payload, None)
        })
        .chain([NewJob::placement(Some(an_id("a-task")), Work::new(WorkKind::Task), None)])
        .collect();
    assert!(stage.plane.driver.submit_batch(jobs).await.unwrap().iter().all(Result::is_ok));
    let listed: Vec<Value> = serde_json::from_str(&stage.get("/api/jobs/").await.1).unwrap();
    assert_eq!(listed.len(), 1203);
    assert!(listed.iter().all(|job| job["type"] == "SUBMISSION" && job["message"].is_string()));
    assert_eq!(stage.get("/api/jobs/a-task").await.0, 404);
    assert_eq!(stage.ray.stop("a-task").await.unwrap(), None);
}

#[tokio::test]
async fn the_version_is_that_of_most_clusters_and_has_exactly_rays_keys() {
    let old = |name| FakeRay::start(FakeOptions::new(name).ray_version("2.9.3"));
    let (a, b, c) = (old("a").await, a_fake("b").await, old("c").await);
    let stage = Stage::over(&[&a, &b, &c]).await;
    let version: BTreeMap<String, String> = serde_json::from_str(&stage.get("/api/version").await.1).unwrap();
    assert_eq!(version.keys().collect::<Vec<_>>(), ["ray_commit", "ray_version", "session_name", "version"]);
    assert_eq!(version["ray_version"], "2.9.3");
    assert!(version["version"].parse::<u32>().unwrap() > 0 && !version["ray_commit"].is_empty());
}

/// The facts from the watch and the polls are enough.
#[tokio::test]
async fn no_status_call_asks_a_cluster() {
    let fake = a_fake("mac").await;
    let stage = Stage::with(&[&fake], &[("poll_interval", "1h")]).await;
    stage.submit("long", "forever").await;
    stage.wait_for("long", JobStatus::Running).await;
    let asked = || fake.request_count(Asked::Any);
    let (began, before) = (std::time::Instant::now(), asked());
    for _ in 0..200 {
        for path in ["/api/jobs/long", "/api/version", "/v1/jobs/long", "/api/jobs/", "/v1/jobs"] {
            assert_eq!(stage.get(path).await.0, 200, "{path}");
        }
    }
    // The watch goes on at its own pace, a few requests a second.
    let (asked, most) = (asked() - before, 20 + 20 * began.elapsed().as_secs());
    assert!(asked <= most, "{asked} requests while 1000 were answered in {:?}", began.elapsed());
}

#[tokio::test]
async fn metrics_health_and_readiness_answer() {
    let fake = a_fake("mac").await;
    let stage = Stage::over(&[&fake]).await;
    stage.submit("a", "true").await;
    stage.wait_for("a", JobStatus::Succeeded).await;
    assert_eq!(stage.get("/healthz").await, (200, "ok\n".into()));
    assert_eq!(stage.get("/readyz").await, (200, "ok\n".into()));
    let page = stage.get("/metrics").await.1;
    for line in [
        r#"multicluster_cluster_healthy{cluster="mac"} 1.0"#,
        r#"multicluster_ended_total{kind="job",cluster="mac",state="succeeded"} 1"#,
        r#"multicluster_api_seconds_count{route="/api/jobs/",method="POST",status="2xx"} 1"#,
        r#"multicluster_dispatch_seconds_count{cluster="mac",outcome="accepted"} 1"#,
    ] {
        assert!(page.lines().any(|shown| shown == line), "no {line} in\n{page}");
    }
}

#[tokio::test]
async fn the_submitters_span_is_kept_whichever_way_it_submits() {
    let fake = a_fake("mac").await;
    let stage = Stage::over(&[&fake]).await;
    let given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let post = async |path: &str, body: serde_json::Value, header: &'static str| {
        let request = stage.http.post(format!("{}{path}", stage.url)).header("traceparent", header);
        let request = request.header("content-type", "application/json").body(body.to_string());
        assert!(request.send().await.unwrap().status().is_success(), "{path}");
    };
    post("/api/jobs/", json!({"submission_id": "ray", "entrypoint": "true"}), given).await;
    post("/v1/jobs", json!({"id": "native", "entrypoint": "true"}), given).await;
    post("/v1/jobs/batch", json!({"jobs": [{"id": "batch", "entrypoint": "true"}]}), given).await;
    post("/v1/jobs", json!({"id": "garbage", "entrypoint": "true"}), "00-garbage").await;
    for (id, expected) in
        [("ray", Some(given)), ("native", Some(given)), ("batch", Some(given)), ("garbage", None)]
    {
        let payload = stage.plane.stored(move |store| store.payload(&an_id(id))).await.unwrap().unwrap();
        assert_eq!(payload.traceparent.as_deref(), expected, "{id}");
    }
}
