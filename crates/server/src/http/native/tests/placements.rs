use std::time::{Duration, Instant};

use serde_json::json;

use super::World;

#[tokio::test]
async fn a_task_is_granted_kept_alive_told_to_stop_and_released() {
    let world = World::new().await;
    let task = json!({"id": "t", "kind": "task", "demand": {"CPU": 1}, "tags": ["macos"]});
    world.post("/v1/placements", task).await.expect(201);
    let queued = world.get("/v1/placements/t").await.expect(200);
    assert_eq!((&queued["status"], &queued["why"]["queue"]), (&json!("queued"), &json!("tasks")));

    let started = Instant::now();
    let arriving = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        world.polled("mac", 8.0).await;
    };
    let (granted, ()) = tokio::join!(world.get("/v1/placements/t?wait=20s"), arriving);
    assert!(started.elapsed() < Duration::from_secs(10));
    let granted = granted.expect(200);
    assert_eq!(
        granted["granted"],
        json!({"cluster": "mac", "attempt": 1, "head_address": "127.0.0.1:2", "stopping": false, "lease_seconds": 30})
    );
    let decision = &world.get("/v1/jobs/t/decisions").await.expect(200)["items"][0];
    assert_eq!(
        (&decision["cluster"], &decision["clusters"][1]["verdict"]),
        (&json!("mac"), &json!("chosen"))
    );
    assert_eq!(&world.get("/v1/decisions?limit=1").await.expect(200)["items"][0], decision);

    assert_eq!(
        world.post("/v1/placements/t/1/heartbeat", json!({})).await.expect(200),
        json!({"stopping": false})
    );
    let shown = world.get("/v1/jobs/t").await.expect(200);
    assert_eq!((&shown["state"], &shown["history"][0]["cluster"]), (&json!("running"), &json!("mac")));
    world.post("/v1/placements/t/2/heartbeat", json!({})).await.refused(409, "no_lease");
    let stopping = world.post("/v1/placements/t/stop", json!({})).await.expect(202);
    assert_eq!(stopping["granted"]["stopping"], true);
    assert_eq!(
        world.post("/v1/placements/t/1/heartbeat", json!({})).await.expect(200),
        json!({"stopping": true})
    );
    let release = json!({"outcome": "failed", "message": "ValueError"});
    world.post("/v1/placements/t/1/release", release).await.expect(204);
    let ended = world.get("/v1/placements/t?wait=20s").await.expect(200);
    assert_eq!(ended["status"], "ended");
    world.post("/v1/placements/t/1/heartbeat", json!({})).await.refused(409, "no_lease");
    assert_eq!(world.get("/v1/jobs/t/attempts").await.expect(200)["items"][0]["attempt"], 1);
}

#[tokio::test]
async fn many_tasks_are_one_submission_under_the_40_second_rule() {
    let world = World::with("  max_running_jobs: 1\n").await;
    world.polled("mac", 8.0).await;
    let task = json!({"kind": "task", "demand": {"CPU": 1}});
    let answer =
        world.post("/v1/placements/batch", json!({"placements": [task, task, task]})).await.expect(200);
    assert_eq!(answer["accepted"], 3);
    for item in answer["results"].as_array().unwrap() {
        let id = item["id"].as_str().unwrap();
        assert!(id.starts_with("task_"));
        assert_eq!(world.get(&format!("/v1/placements/{id}?wait=5s")).await.expect(200)["status"], "granted");
    }
}

#[tokio::test]
async fn a_placement_that_makes_no_sense_is_refused() {
    let world = World::new().await;
    world.queued(json!({"id": "j", "entrypoint": "x"})).await;
    let problem = world.get("/v1/placements/j").await.refused(404, "unknown_job");
    assert!(problem["hint"].as_str().unwrap().contains("/v1/jobs/j"), "{problem}");
    world.post("/v1/placements/j/stop", json!({})).await.refused(404, "unknown_job");
    world.get("/v1/placements/none").await.refused(404, "unknown_job");
    for (body, code) in [
        (json!({"kind": "job"}), "bad_body"),
        (json!({"kind": "thing"}), "bad_body"),
        (json!({}), "bad_body"),
        (json!({"kind": "task", "demand": {"cpu": 1}}), "bad_body"),
        (json!({"kind": "task", "demand": {"CPU": -1}}), "bad_body"),
        (json!({"kind": "task", "parent_job": "x"}), "bad_job"),
        (json!({"kind": "task", "id": "a/b"}), "bad_job"),
    ] {
        world.post("/v1/placements", body).await.refused(400, code);
    }
    world.post("/v1/placements/j/x/heartbeat", json!({})).await.refused(400, "bad_id");
    world.post("/v1/placements/j/1/heartbeat", json!({"x": 1})).await.refused(400, "bad_body");
    world.post("/v1/placements/j/1/release", json!({"outcome": "great"})).await.refused(400, "bad_body");
}
