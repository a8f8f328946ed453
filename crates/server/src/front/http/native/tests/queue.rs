use std::time::Duration;

use serde_json::json;

use super::World;

#[tokio::test]
async fn a_queue_shows_those_whose_turn_is_next_and_why_they_wait() {
    let world = World::new().await;
    let here = json!({
        "id": "here", "entrypoint": "x", "preferred_cluster": "mac", "required": true, "priority": 3,
        "tags": ["fund"], "entrypoint_num_cpus": 2,
    });
    world.queued(here).await;
    for id in ["a", "b"] {
        world.queued(json!({"id": id, "entrypoint": "x"})).await;
    }
    let queues = world.get("/v1/queue").await.expect(200);
    assert_eq!(queues["waiting"], 3);
    let named = |name: &str| {
        let queue = queues["items"].as_array().unwrap().iter().find(|queue| queue["name"] == name);
        queue.unwrap().clone()
    };
    let mut mac = named("jobs@mac");
    let head = mac["heads"][0].take();
    assert_eq!(
        mac,
        json!({
            "name": "jobs@mac", "kind": "jobs", "cluster": "mac", "waiting": 1, "limit": 100_000, "heads": [null],
        })
    );
    let why = world.get("/v1/jobs/here/explain").await.expect(200);
    let shown = world.get("/v1/jobs/here").await.expect(200);
    assert_eq!(
        head,
        json!({
            "id": "here", "kind": "job", "demand": {"CPU": 2}, "tags": ["fund"], "preferred_cluster": "mac",
            "required": true, "priority": 3, "queued_at": shown["queued_at"], "waiting": 1,
            "summary": head["summary"], "clusters": why["clusters"],
        })
    );
    assert!(head["summary"].as_str().unwrap().contains("mac: has not answered a poll yet"), "{head}");

    let jobs = named("jobs");
    assert_eq!((&jobs["heads"][0]["id"], &jobs["heads"][0]["waiting"]), (&json!("a"), &json!(2)));
    assert!(jobs["heads"][0].get("required").is_none() && jobs["heads"].get(1).is_none(), "{jobs}");
}

#[tokio::test]
async fn at_most_twenty_heads_of_a_queue_are_shown() {
    let world = World::new().await;
    let jobs: Vec<_> = (0..23).map(|n| json!({"entrypoint": "x", "priority": n})).collect();
    world.post("/v1/jobs/batch", json!({"jobs": jobs})).await.expect(200);
    let queue = &world.get("/v1/queue").await.expect(200)["items"][0];
    assert_eq!((queue["heads"].as_array().unwrap().len(), &queue["more_heads"]), (20, &json!(3)));
    assert_eq!(queue["heads"][0]["priority"], 22);
}

#[tokio::test]
async fn the_last_hour_begins_with_the_control_plane() {
    let world = World::new().await;
    // The first sample is taken at once, but in another task.
    let history = loop {
        let history = world.get("/v1/history").await.expect(200);
        if history["at"].is_u64() {
            break history;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    assert_eq!((&history["step_seconds"], &history["moments"]), (&json!(15), &json!([history["at"]])));
    assert_eq!(history["clusters"]["mac"]["healthy"], json!([null]));
    assert_eq!(history["pool"]["waiting"], json!([0]));
    assert_eq!(world.get("/v1/history?minutes=1").await.expect(200), history);
    for bad in ["minutes=0", "minutes=61", "minutes=x", "hours=1"] {
        world.get(&format!("/v1/history?{bad}")).await.refused(400, "bad_query");
    }
}
