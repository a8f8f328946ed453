//! The Jobs API and its oddities.

use std::time::{Duration, Instant};

use multicluster_testkit::{Endpoint, FakeOptions, FakeRay, JobStatus, Plan};
use reqwest::Method;
use serde_json::json;

use crate::client::{get, post, request, send, status, submit};

const SOON: Duration = Duration::from_secs(5);

async fn fake() -> FakeRay {
    FakeRay::start(FakeOptions::new("a")).await
}

#[tokio::test]
async fn a_job_is_pending_then_running_then_succeeded() {
    let fake = FakeRay::start(FakeOptions::new("a").pending_for(Duration::from_millis(500))).await;
    let answer = submit(&fake, "j", "echo hi; sleep 0.5").await;
    assert_eq!(answer.json(), json!({"job_id": "j", "submission_id": "j"}));
    assert_eq!(answer.kind, "application/json; charset=utf-8");
    assert_eq!(status(&fake, "j").await, "PENDING");
    fake.wait_for("j", JobStatus::Running, SOON).await;
    assert_eq!(status(&fake, "j").await, "RUNNING");
    fake.wait_for("j", JobStatus::Succeeded, SOON).await;
    let details = get(&fake, "/api/jobs/j").await.json();
    assert_eq!(details.as_object().unwrap().len(), 15);
    assert_eq!(details["driver_exit_code"], 0);
    assert_eq!(details["message"], "Job finished successfully.");
    let ran_ms = details["end_time"].as_u64().unwrap() - details["start_time"].as_u64().unwrap();
    assert!((999..=1001).contains(&ran_ms), "{ran_ms}");
    let logs = get(&fake, "/api/jobs/j/logs").await.json();
    assert!(
        logs["logs"].as_str().unwrap().ends_with("Running entrypoint for job j: echo hi; sleep 0.5\nhi\n")
    );
    assert_eq!(fake.runs("j"), 1);
}

#[tokio::test]
async fn jobs_that_name_the_ledger_are_in_it_once_per_run() {
    let ledger = std::env::temp_dir().join(format!("fake-ray-ledger-{}", std::process::id()));
    let mut options = FakeOptions::new("a");
    options.ledger = Some(ledger.clone());
    let fake = FakeRay::start(options).await;
    let entrypoint = format!("echo begin >> {}; exit 3", ledger.display());
    for _ in 0..2 {
        submit(&fake, "j", &entrypoint).await;
    }
    submit(&fake, "stranger", "true").await;
    fake.wait_for("j", JobStatus::Failed, SOON).await;
    fake.restart();
    submit(&fake, "j", "forever").await;
    fake.wait_for("j", JobStatus::Running, SOON).await;
    let text = std::fs::read_to_string(&ledger).unwrap();
    std::fs::remove_file(ledger).unwrap();
    let words: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
    let lines: Vec<_> = words.iter().map(|line| [&line[..3], &line[4..]].concat().join(" ")).collect();
    assert_eq!(lines, ["sent a j", "begin a j", "end a j 3"]);
    assert!(words.iter().all(|line| line[3].parse::<f64>().unwrap() > 1.7e9), "{text}");
}

#[tokio::test]
async fn an_older_ray_refuses_fields_that_it_does_not_know() {
    let mut options = FakeOptions::new("old");
    options.unknown_fields = vec!["entrypoint_memory".into()];
    let fake = FakeRay::start(options).await;
    let body = json!({"entrypoint": "true", "submission_id": "j", "entrypoint_memory": 1});
    let told = "got an unexpected keyword argument 'entrypoint_memory'";
    post(&fake, "/api/jobs/", &body).await.assert(400, told);
    submit(&fake, "j", "true").await;
    fake.wait_for("j", JobStatus::Succeeded, SOON).await;
}

#[tokio::test]
async fn a_failing_entrypoint_leaves_code_and_log_in_the_message() {
    let fake = fake().await;
    submit(&fake, "j", "echo oops && exit 3").await;
    fake.wait_for("j", JobStatus::Failed, SOON).await;
    let details = get(&fake, "/api/jobs/j").await.json();
    assert_eq!(details["driver_exit_code"], 3);
    assert_eq!(details["error_type"], "JOB_ENTRYPOINT_COMMAND_ERROR");
    let message = details["message"].as_str().unwrap();
    assert!(message.contains("failed with exit code 3") && message.ends_with("oops\n"), "{message}");
}

/// Ray reports what Python's `subprocess` does: the negative number of the signal.
#[tokio::test]
async fn a_killed_entrypoint_has_a_negative_exit_code() {
    let fake = fake().await;
    submit(&fake, "j", "exit -9").await;
    fake.wait_for("j", JobStatus::Failed, SOON).await;
    let details = get(&fake, "/api/jobs/j").await.json();
    assert_eq!(details["driver_exit_code"], -9);
    assert!(details["message"].as_str().unwrap().contains("failed with exit code -9"));
}

#[tokio::test]
async fn an_id_can_be_used_once() {
    let fake = fake().await;
    submit(&fake, "j", "forever").await;
    let again = submit(&fake, "j", "forever").await;
    again.assert(500, "Job with submission_id j already exists");
    assert_eq!(again.kind, "text/plain; charset=utf-8");
    let accepted: Vec<bool> = fake.submissions().iter().map(|submission| submission.accepted).collect();
    assert_eq!(accepted, [true, false]);
    fake.wait_for("j", JobStatus::Running, SOON).await;
    assert_eq!(fake.runs("j"), 1);
}

#[tokio::test]
async fn requests_that_ray_refuses_are_refused_alike() {
    let fake = fake().await;
    post(&fake, "/api/jobs/", &json!({"entrypoint": "a", "x": 1}))
        .await
        .assert(400, "unexpected keyword argument 'x'");
    post(&fake, "/api/jobs/", &json!({}))
        .await
        .assert(400, "missing 1 required positional argument: 'entrypoint'");
    post(&fake, "/api/jobs/", &json!([])).await.assert(500, "Server got itself in trouble");
    get(&fake, "/api/jobs/no").await.assert(404, "Job no does not exist");
    post(&fake, "/api/jobs/no/stop", &json!(null)).await.assert(404, "Job no does not exist");
    assert!(fake.submissions().is_empty());
}

#[tokio::test]
async fn trailing_slashes_matter() {
    let fake = fake().await;
    get(&fake, "/api/jobs").await.assert(404, "404: Not Found");
    get(&fake, "/api/version/").await.assert(404, "404: Not Found");
    get(&fake, "/api/jobs/").await.assert(200, "[]");
    submit(&fake, "j", "forever").await;
    get(&fake, "/api/jobs/j/").await.assert(404, "404: Not Found");
    send(request(&fake, Method::PUT, "/api/jobs/")).await.unwrap().assert(405, "405: Method Not Allowed");
    assert_eq!(fake.request_count(Endpoint::Other), 4);
}

#[tokio::test]
async fn stopping_a_pending_job_answers_yes_and_does_nothing_until_it_runs() {
    let mut options = FakeOptions::new("a").cpus(1.0);
    options.stopped_pending_runs_for = Duration::from_millis(500);
    let fake = FakeRay::start(options).await;
    let demand = |id: &str| json!({"entrypoint": "forever", "submission_id": id, "entrypoint_num_cpus": 1});
    post(&fake, "/api/jobs/", &demand("first")).await;
    fake.wait_for("first", JobStatus::Running, SOON).await;
    post(&fake, "/api/jobs/", &demand("second")).await;
    let stopped = post(&fake, "/api/jobs/second/stop", &json!(null)).await;
    assert_eq!(stopped.json(), json!({"stopped": true}));
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(status(&fake, "second").await, "PENDING");
    let deleted = send(request(&fake, Method::DELETE, "/api/jobs/second")).await.unwrap();
    deleted.assert(500, "but it is in a non-terminal state PENDING");
    // With room, it runs despite the stop, and is killed only then.
    fake.finish("first", JobStatus::Succeeded);
    fake.wait_for("second", JobStatus::Running, SOON).await;
    fake.wait_for("second", JobStatus::Stopped, SOON).await;
    assert_eq!(fake.runs("second"), 1);
}

#[tokio::test]
async fn a_running_job_stops_and_a_stopped_one_cannot() {
    let mut options = FakeOptions::new("a");
    options.stop_takes = Duration::from_millis(500);
    let fake = FakeRay::start(options).await;
    submit(&fake, "j", "forever").await;
    fake.wait_for("j", JobStatus::Running, SOON).await;
    assert_eq!(post(&fake, "/api/jobs/j/stop", &json!(null)).await.json(), json!({"stopped": true}));
    assert_eq!(status(&fake, "j").await, "RUNNING");
    fake.wait_for("j", JobStatus::Stopped, SOON).await;
    assert_eq!(post(&fake, "/api/jobs/j/stop", &json!(null)).await.json(), json!({"stopped": false}));
}

#[tokio::test]
async fn a_job_deleted_too_soon_comes_back_as_failed() {
    let mut options = FakeOptions::new("a");
    options.resurrect_within = Duration::from_millis(500);
    let fake = FakeRay::start(options).await;
    submit(&fake, "j", "true").await;
    fake.wait_for("j", JobStatus::Succeeded, SOON).await;
    let delete = || send(request(&fake, Method::DELETE, "/api/jobs/j"));
    assert_eq!(delete().await.unwrap().json(), json!({"deleted": true}));
    get(&fake, "/api/jobs/j").await.assert(404, "Job j does not exist");
    fake.wait_for("j", JobStatus::Failed, SOON).await;
    assert_eq!(get(&fake, "/api/jobs/j").await.json()["entrypoint"], "Entrypoint not found.");
    tokio::time::sleep(Duration::from_millis(550)).await;
    delete().await.unwrap();
    tokio::time::sleep(Duration::from_millis(550)).await;
    get(&fake, "/api/jobs/j").await.assert(404, "Job j does not exist");
}

#[tokio::test]
async fn what_cannot_start_is_accepted_and_fails() {
    let fake = fake().await;
    let request = json!({"entrypoint": "true", "submission_id": "j", "entrypoint_num_cpus": -1});
    post(&fake, "/api/jobs/", &request).await.assert(200, "j");
    fake.wait_for("j", JobStatus::Failed, SOON).await;
    assert_eq!(get(&fake, "/api/jobs/j").await.json()["error_type"], "JOB_SUPERVISOR_ACTOR_START_FAILURE");
    post(&fake, "/api/jobs/", &json!({"entrypoint": "true", "submission_id": "a/b"}))
        .await
        .assert(500, "trouble");
    assert_eq!(fake.job("a/b").unwrap().status, JobStatus::Pending);
}

#[tokio::test]
async fn a_job_needs_its_package() {
    let fake = fake().await;
    let job = |id: &str| json!({"entrypoint": "true", "submission_id": id, "runtime_env": {"working_dir": "gcs://_ray_pkg_1.zip"}});
    post(&fake, "/api/jobs/", &job("too-early")).await.assert(200, "too-early");
    fake.wait_for("too-early", JobStatus::Failed, SOON).await;
    let details = get(&fake, "/api/jobs/too-early").await.json();
    assert!(
        details["message"]
            .as_str()
            .unwrap()
            .contains("Failed to download runtime_env file package gcs://_ray_pkg_1")
    );
    get(&fake, "/api/packages/gcs/_ray_pkg_1.zip")
        .await
        .assert(404, "Package gcs://_ray_pkg_1.zip does not exist");
    let put = request(&fake, Method::PUT, "/api/packages/gcs/_ray_pkg_1.zip").body("zip");
    send(put).await.unwrap().assert(200, "");
    assert_eq!(fake.packages()["_ray_pkg_1.zip"].as_ref(), b"zip");
    post(&fake, "/api/jobs/", &job("in-time")).await;
    fake.wait_for("in-time", JobStatus::Succeeded, SOON).await;
}

#[tokio::test]
async fn a_package_nobody_asked_for_goes_with_its_last_job() {
    let fake = fake().await;
    send(request(&fake, Method::PUT, "/api/packages/gcs/p.zip").body("zip")).await.unwrap();
    let env = json!({"py_modules": ["gcs://p.zip"]});
    post(&fake, "/api/jobs/", &json!({"entrypoint": "true", "submission_id": "j", "runtime_env": env})).await;
    fake.wait_for("j", JobStatus::Succeeded, SOON).await;
    assert!(fake.packages().is_empty());
}

#[tokio::test]
async fn too_large_a_body_is_refused() {
    let mut options = FakeOptions::new("a");
    options.max_body = 1_000_000;
    let fake = FakeRay::start(options).await;
    let put = |size| request(&fake, Method::PUT, "/api/packages/gcs/p.zip").body(vec![0_u8; size]);
    send(put(1_000_000)).await.unwrap().assert(200, "");
    send(put(3_000_000)).await.unwrap().assert(413, "Maximum request body size 1000000 exceeded.");
    assert_eq!(FakeOptions::default().max_body, 104_857_600);
}

#[tokio::test]
async fn a_token_is_wanted_exactly() {
    let fake = FakeRay::start(FakeOptions::new("a").token("t0")).await;
    get(&fake, "/api/version").await.assert(401, "Unauthorized: Missing authentication token");
    get(&fake, "/api/gcs_healthz").await.assert(200, "success");
    for (header, value, status) in [
        ("authorization", "Bearer t0", 200),
        ("authorization", "bearer t0", 403),
        ("authorization", "Bearer t1", 403),
        ("x-ray-authorization", "Bearer t0", 200),
        ("cookie", "a=b; ray-authentication-token=t0", 200),
    ] {
        let answer = send(request(&fake, Method::GET, "/api/version").header(header, value)).await.unwrap();
        assert_eq!(answer.status, status, "{header}: {value}");
    }
}

#[tokio::test]
async fn browsers_may_look_but_see_no_secrets() {
    let fake = fake().await;
    let env = json!({"env_vars": {"KEY": "secret"}});
    post(&fake, "/api/jobs/", &json!({"entrypoint": "forever", "submission_id": "j", "runtime_env": env}))
        .await;
    let origin = |method, path| request(&fake, method, path).header("origin", "http://x");
    send(origin(Method::POST, "/api/jobs/j/stop"))
        .await
        .unwrap()
        .assert(405, "not allowed for browser traffic");
    let seen = send(origin(Method::GET, "/api/jobs/j")).await.unwrap().json();
    assert_eq!(seen["runtime_env"]["env_vars"]["KEY"], "<redacted>");
}

#[tokio::test]
async fn drivers_are_listed_and_their_ids_name_jobs_too() {
    let fake = fake().await;
    submit(&fake, "j", "python train.py; forever").await;
    fake.wait_for("j", JobStatus::Running, SOON).await;
    assert_eq!(get(&fake, "/api/jobs/01000000").await.json()["submission_id"], "j");
    assert_eq!(fake.add_driver_job("python notebook.py"), "02000000");
    let list = get(&fake, "/api/jobs/").await.json();
    let driver = list.as_array().unwrap().iter().find(|job| job["type"] == "DRIVER").unwrap();
    assert!(driver["submission_id"].is_null());
}

#[tokio::test]
async fn a_rule_decides_from_the_request() {
    let rule = |submission: &multicluster_testkit::Submission| {
        let slow = submission.request["metadata"]["slow"] == "yes";
        slow.then(|| Plan::new(Duration::ZERO, Duration::ZERO).never_start())
    };
    let mut options = FakeOptions::new("a").rule(rule);
    options.start_timeout = Duration::from_millis(600);
    let fake = FakeRay::start(options).await;
    post(
        &fake,
        "/api/jobs/",
        &json!({"entrypoint": "true", "submission_id": "s", "metadata": {"slow": "yes"}}),
    )
    .await;
    submit(&fake, "q", "true").await;
    fake.wait_for("q", JobStatus::Succeeded, SOON).await;
    assert_eq!(status(&fake, "s").await, "PENDING");
    fake.wait_for("s", JobStatus::Failed, SOON).await;
    assert_eq!(get(&fake, "/api/jobs/s").await.json()["error_type"], "JOB_SUPERVISOR_ACTOR_START_TIMEOUT");
}

#[tokio::test]
async fn launches_are_limited_per_second() {
    let fake = FakeRay::start(FakeOptions::new("a").launches_per_second(20.0)).await;
    let first = Instant::now();
    for n in 0..9 {
        submit(&fake, &format!("j{n}"), "forever").await;
    }
    for n in 0..9 {
        fake.wait_for(&format!("j{n}"), JobStatus::Running, SOON).await;
    }
    // Eight intervals of 50 ms lie between nine starts.
    assert!(first.elapsed() >= Duration::from_millis(400));
}

#[tokio::test]
async fn a_job_without_an_id_gets_one_of_rays() {
    let fake = fake().await;
    let answer = post(&fake, "/api/jobs/", &json!({"entrypoint": "true"})).await.json();
    let id = answer["submission_id"].as_str().unwrap();
    assert!(id.starts_with("raysubmit_") && id.len() == 26, "{id}");
}
