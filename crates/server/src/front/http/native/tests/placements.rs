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
        json!({"cluster": "mac", "attempt": 1, "head_address": "127.0.0.1:2", "stopping": false,
            "lease_seconds": 30, "reuse_seconds": 1})
    );
    let decision = &world.get("/v1/jobs/t/decisions").await.expect(200)["items"][0];
    assert_eq!(
        (&decision["cluster"], &decision["clusters"][1]["verdict"]),
        (&json!("mac"), &json!("chosen"))
    );
    assert_eq!(&world.get("/v1/decisions?limit=1").await.expect(200)["items"][0], decision);

    let beat = async |attempt: u32| {
        let body = json!({"leases": [{"id": "t", "attempt": attempt}]});
        world.post("/v1/placements/heartbeat", body).await.expect(200)["leases"][0]["status"].clone()
    };
    assert_eq!(beat(1).await, "alive");
    let shown = world.get("/v1/jobs/t").await.expect(200);
    assert_eq!((&shown["state"], &shown["history"][0]["cluster"]), (&json!("running"), &json!("mac")));
    assert_eq!(beat(2).await, "gone");
    let stopping = world.post("/v1/placements/t/stop", json!({})).await.expect(202);
    assert_eq!(stopping["granted"]["stopping"], true);
    assert_eq!(beat(1).await, "stopping");
    let release =
        json!({"leases": [{"id": "t", "attempt": 1, "outcome": "failed", "message": "ValueError"}]});
    let released = world.post("/v1/placements/release", release.clone()).await.expect(200);
    assert_eq!(released, json!({"leases": [{"id": "t", "attempt": 1, "status": "released"}]}));
    let again = world.post("/v1/placements/release", release).await.expect(200);
    assert_eq!(again["leases"][0]["status"], "gone");
    let ended = world.get("/v1/placements/t?wait=20s").await.expect(200);
    assert_eq!(ended["status"], "ended");
    assert_eq!(beat(1).await, "gone");
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

    // Requested again: the same placement, which is granted while the request waits.
    let arriving = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        world.polled("mac", 8.0).await;
    };
    let (granted, ()) = tokio::join!(world.post("/v1/placements?wait=20s", task), arriving);
    let granted = granted.expect(200);
    assert_eq!((&granted["status"], &granted["granted"]["cluster"]), (&json!("granted"), &json!("mac")));
    assert!(started.elapsed() < Duration::from_secs(10));

    // There is room: granted at once, however long the request would wait.
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
        // The caller has the function and runs it again, so there are no retries here.
        (json!({"kind": "task", "max_retries": 1}), "bad_body"),
        (json!({"kind": "task", "retry_on": [1]}), "bad_body"),
        (json!({"kind": "task", "preemptible": true}), "bad_job"),
        (json!({"kind": "actor", "preemptible": true}), "bad_job"),
        (json!({"kind": "task", "stop_grace": "10m"}), "bad_body"),
    ] {
        world.post("/v1/placements", body).await.refused(400, code);
    }
    for (path, body, status, code) in [
        ("heartbeat", json!({"leases": [{"id": "j", "x": 1}]}), 400, "bad_body"),
        ("heartbeat", json!({"leases": vec![json!({"id": "j"}); 10_001]}), 413, "too_large"),
        ("release", json!({"leases": [{"id": "j", "outcome": "great"}]}), 400, "bad_body"),
        ("stop", json!({"id": "j"}), 400, "bad_body"),
    ] {
        world.post(&format!("/v1/placements/{path}"), body).await.refused(status, code);
    }
    let gone = json!({"leases": [{"id": "a/b", "status": "gone"}, {"id": "j", "status": "gone"}]});
    let both = json!({"leases": [{"id": "a/b", "outcome": "stopped"}, {"id": "j", "outcome": "stopped"}]});
    assert_eq!(world.post("/v1/placements/release", both).await.expect(200), gone);
    assert_eq!(world.post("/v1/placements/stop", json!({"ids": ["a/b", "j"]})).await.expect(200), gone);
    assert_eq!(world.get("/v1/jobs/j").await.expect(200)["state"], "queued", "a job is no placement");
}

#[tokio::test]
async fn a_program_tells_of_all_its_places_at_once() {
    let world = World::new().await;
    let task = |id: &str, tag: &str| json!({"id": id, "kind": "task", "demand": {"CPU": 1}, "tags": [tag]});
    let all =
        [task("held", "macos"), task("waits", "linux"), task("late", "macos"), task("unwanted", "linux")];
    world.polled("mac", 8.0).await;
    world.post("/v1/placements/batch", json!({"placements": all})).await.expect(200);
    let beats = json!({"leases": [
        {"id": "waits"}, {"id": "held", "attempt": 1}, {"id": "none", "attempt": 1}, {"id": "late", "attempt": 0},
    ]});
    assert_eq!(
        world.post("/v1/placements/heartbeat", beats).await.expect(200),
        json!({"leases": [
            {"id": "waits", "status": "queued"}, {"id": "held", "attempt": 1, "status": "alive"},
            {"id": "none", "attempt": 1, "status": "gone"}, {"id": "late", "attempt": 1, "status": "granted"},
        ]})
    );
    assert_eq!(
        world.get("/v1/jobs/late").await.expect(200)["state"],
        "dispatching",
        "nothing runs there yet"
    );
    let stopped = world.post("/v1/placements/stop", json!({"ids": ["held", "waits"]})).await.expect(200);
    assert_eq!(
        stopped,
        json!({"leases": [{"id": "held", "status": "stopping"}, {"id": "waits", "status": "stopping"}]})
    );
    assert_eq!(world.get("/v1/placements/waits").await.expect(200)["status"], "ended");
    let done = json!({"leases": [
        {"id": "held", "attempt": 1, "outcome": "succeeded"}, {"id": "late", "outcome": "stopped"},
        {"id": "unwanted", "outcome": "stopped"},
    ]});
    let done = world.post("/v1/placements/release", done).await.expect(200);
    assert!(done["leases"].as_array().unwrap().iter().all(|lease| lease["status"] == "released"), "{done}");
    for (id, state) in [("held", "succeeded"), ("late", "stopped"), ("unwanted", "stopped")] {
        assert_eq!(world.get(&format!("/v1/jobs/{id}")).await.expect(200)["state"], state);
    }
}

/// A waiting request keeps its placement alive; without one, the placement is given up.
#[tokio::test]
async fn a_placement_is_given_up_when_nobody_waits_for_it() {
    let world = World::with("  lease_ttl: 1s\n").await;
    let task = |id: &str| json!({"id": id, "kind": "task", "demand": {"CPU": 1}});
    let (waited_for, _) = tokio::join!(
        world.post("/v1/placements?wait=3s", task("a")),
        world.post("/v1/placements", task("b")),
    );
    assert_eq!(waited_for.expect(201)["status"], "queued");
    let given_up = world.get("/v1/placements/b").await.expect(200);
    assert_eq!(given_up["status"], "ended");
    assert_eq!(given_up["message"], "its caller was silent for 1s while it was queued");
    let many =
        world.post("/v1/placements/batch?wait=3s", json!({"placements": [task("c"), task("d")]})).await;
    for result in many.expect(200)["results"].as_array().unwrap() {
        assert_eq!(result["placement"]["status"], "queued");
    }
}
