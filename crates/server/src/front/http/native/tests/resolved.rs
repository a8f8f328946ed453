use serde_json::json;

use super::World;

fn a_job(id: &str) -> serde_json::Value {
    json!({
        "id": id, "entrypoint": "python /Users/zorro/train.py --token hunter2", "home": "/Users/zorro",
        "runtime_env": {"env_vars": {"HF_TOKEN": "hunter2", "DATA": "/Users/zorro/data"}},
    })
}

#[tokio::test]
async fn a_job_is_shown_as_its_cluster_is_sent_it() {
    let world = World::new().await;
    world.queued(a_job("waits")).await;
    let problem = world.get("/v1/jobs/waits/resolved").await.refused(409, "wrong_state");
    assert!(problem["hint"].as_str().unwrap().contains("?cluster=NAME"), "{problem}");

    let shown = world.get("/v1/jobs/waits/resolved?cluster=centos").await;
    assert!(!shown.text.contains("hunter2") && !shown.text.contains("s3cret"), "{}", shown.text);
    assert_eq!(
        shown.expect(200),
        json!({
            "cluster": "centos",
            "entrypoint": "python /home/zorro/train.py --token <redacted>",
            "runtime_env": {"conda": "ts", "env_vars": {
                "home_dir": "/home/zorro", "API_TOKEN": "<redacted>", "HF_TOKEN": "<redacted>",
                "DATA": "/home/zorro/data", "RAY_MULTICLUSTER_CURRENT_CLUSTER": "centos",
                "RAY_MULTICLUSTER_JOB_ID": "waits", "RAY_MULTICLUSTER_ATTEMPT": "1",
                "RAY_MULTICLUSTER_VERSION": env!("CARGO_PKG_VERSION"),
            }},
            "as_of": "now",
        })
    );
    world.get("/v1/jobs/waits/resolved?cluster=moc").await.refused(404, "unknown_cluster");
    world.get("/v1/jobs/waits/resolved?clutser=mac").await.refused(400, "bad_query");
}

#[tokio::test]
async fn the_cluster_of_the_latest_attempt_is_meant() {
    let world = World::new().await;
    world.polled("mac", 8.0).await;
    world.queued(a_job("sent")).await;
    let resolved = world.get("/v1/jobs/sent/resolved").await.expect(200);
    assert_eq!(resolved["cluster"], "mac");
    assert_eq!(resolved["runtime_env"]["env_vars"]["RAY_MULTICLUSTER_CURRENT_CLUSTER"], "mac");
    assert_eq!(world.get("/v1/jobs/sent/resolved?cluster=centos").await.expect(200)["cluster"], "centos");
}

#[tokio::test]
async fn the_span_that_a_job_is_sent_with_is_shown() {
    let world = World::with("  traces: http://127.0.0.1:1\n").await;
    world.queued(a_job("waits")).await;
    let span = async |id: &str| {
        let shown = world.get(&format!("/v1/jobs/{id}/resolved?cluster=mac")).await.expect(200);
        shown["runtime_env"]["env_vars"]["TRACEPARENT"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(span("waits").await.len(), 55, "of its own trace");
}

#[tokio::test]
async fn no_cluster_is_sent_a_task() {
    let world = World::new().await;
    world.post("/v1/placements", json!({"id": "t", "kind": "task"})).await.expect(201);
    let problem = world.get("/v1/jobs/t/resolved?cluster=mac").await.refused(409, "wrong_state");
    assert!(problem["message"].as_str().unwrap().contains("task"), "{problem}");
}
