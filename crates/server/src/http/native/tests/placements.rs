use std::time::{Duration, Instant};

use serde_json::json;

use super::World;

#[tokio::test]
async fn a_task_is_granted_kept_alive_told_to_stop_and_released() {
    let world = World::new().await;
    let task = json!({"id": "t", "kind": "task", "demand": {"CPU": 1}, "tags": ["macos"]});
    let queued = world.post("/v1/placements", task).await.expect(201);
    assert_eq!((&queued["status"], &queued["why"]["queue"]), (&json!("queued"), &json!("tasks")));
    assert_eq!(world.get("/v1/placements/t").await.expect(200)["why"]["ahead"], queued["why"]["ahead"]);

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
async fn a_place_is_asked_for_and_granted_in_one_request() {
    let world = World::new().await;
    let task = json!({"id": "t", "kind": "task", "demand": {"CPU": 1}});
    let started = Instant::now();
    let waits = world.post("/v1/placements?wait=200ms", task.clone()).await.expect(201);
    assert!(started.elapsed() >= Duration::from_millis(200), "it waits as long as it is told");
    assert!(waits["why"]["summary"].as_str().is_some_and(|why| !why.is_empty()), "{waits}");

    // Asked again: the same one, which is granted while the request waits.
    let arriving = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        world.polled("mac", 8.0).await;
    };
    let (granted, ()) = tokio::join!(world.post("/v1/placements?wait=20s", task), arriving);
    let granted = granted.expect(200);
    assert_eq!((&granted["status"], &granted["granted"]["cluster"]), (&json!("granted"), &json!("mac")));
    assert!(started.elapsed() < Duration::from_secs(10));

    // There is room: at once, however long it would wait.
    let actor = json!({"id": "a", "kind": "actor", "demand": {"CPU": 1}});
    let granted = world.post("/v1/placements?wait=60s", actor).await.expect(201);
    assert_eq!((&granted["status"], &granted["granted"]["attempt"]), (&json!("granted"), &json!(1)));
    world.post("/v1/placements?wait=soon", json!({"kind": "task"})).await.refused(400, "bad_query");
    let full = json!({"kind": "task", "preferred_cluster": "none"});
    world.post("/v1/placements?wait=1s", full).await.refused(400, "unknown_cluster");
}

#[tokio::test]
async fn many_places_are_told_when_all_are_decided_or_the_time_is_up() {
    let world = World::new().await;
    let task = |id: &str, tag: &str| json!({"id": id, "kind": "task", "demand": {"CPU": 1}, "tags": [tag]});
    let some = json!({"placements": [task("a", "macos"), {"kind": "task", "id": "a/b"}, task("b", "linux")]});
    world.polled("mac", 8.0).await;
    let answer = world.post("/v1/placements/batch?wait=100ms", some.clone()).await.expect(200);
    assert_eq!((&answer["accepted"], &answer["refused"]), (&json!(2), &json!(1)));
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results[0]["placement"]["granted"]["cluster"], "mac");
    assert_eq!(results[1]["error"]["code"], "bad_job");
    assert_eq!(
        (&results[2]["placement"]["status"], &results[2]["placement"]["id"]),
        (&json!("queued"), &json!("b"))
    );

    let arriving = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        world.polled("centos", 8.0).await;
    };
    let started = Instant::now();
    let (answer, ()) = tokio::join!(world.post("/v1/placements/batch?wait=20s", some), arriving);
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(answer.expect(200)["results"][2]["placement"]["granted"]["cluster"], "centos");
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
        assert!(item["placement"]["id"].as_str().unwrap().starts_with("task_"));
        assert_eq!(item["placement"]["status"], "granted");
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
