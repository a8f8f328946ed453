use axum::body::Body;
use serde_json::json;

use super::{World, request};

#[tokio::test]
async fn clusters_are_shown_with_their_facts_and_without_their_secrets() {
    let world = World::new().await;
    world.polled("mac", 8.0).await;
    let listed = world.get("/v1/clusters").await;
    assert!(!listed.text.contains("s3cret"), "{}", listed.text);
    let listed = listed.expect(200);
    let (centos, mac) = (&listed["items"][0], &listed["items"][1]);
    assert_eq!((&centos["name"], &centos["health"]["state"]), (&json!("centos"), &json!("never_seen")));
    assert_eq!(centos["connection"]["has_token"], true);
    assert_eq!(centos["home_dir"], "/home/zorro");
    assert_eq!((&mac["health"]["state"], &mac["total"]["CPU"]), (&json!("healthy"), &json!(8)));
    assert_eq!((&mac["logical"]["cpu"], mac["logical"].get("gpu")), (&json!(0.0), None));
    assert_eq!(mac["breaker"], json!({"state": "closed"}));
    assert_eq!(mac["limits"]["resource_threshold"], 0.7);
    assert!(mac["snapshot_age_seconds"].as_f64().unwrap() < 60.0);
    assert_eq!(&world.get("/v1/clusters/centos").await.expect(200)["runtime_env"]["conda"], "ts");

    world.post("/v1/placements", json!({"id": "t", "kind": "task", "demand": {"CPU": 2}})).await.expect(201);
    let mac = world.get("/v1/clusters/mac").await.expect(200);
    assert_eq!((&mac["promised"]["CPU"], &mac["free"]["CPU"]), (&json!(2), &json!(6)));
    assert_eq!((&mac["logical"]["cpu"], &mac["live"]), (&json!(0.25), &json!(1)));
    let pool = world.get("/v1/pool").await.expect(200);
    assert_eq!((&pool["clusters"], &pool["available"], &pool["live"]), (&json!(2), &json!(1), &json!(1)));
    assert_eq!((&pool["total"]["CPU"], &pool["free"]["CPU"]), (&json!(8), &json!(6)));
    assert_eq!(pool["health"], json!({"healthy": 1, "never_seen": 1}));
}

#[tokio::test]
async fn whoever_connects_gets_all_it_takes_and_nobody_else_does() {
    let world = World::new().await;
    let connection = world.get("/v1/clusters/centos/connection").await;
    assert_eq!(connection.headers["cache-control"], "no-store");
    assert_eq!(
        connection.expect(200),
        json!({
            "name": "centos", "head_address": "127.0.0.1:1", "token": "s3cret", "home_dir": "/home/zorro",
            "runtime_env": {"conda": "ts", "env_vars": {"home_dir": "/home/zorro", "API_TOKEN": "s3cret"}},
        })
    );
    world.polled("mac", 8.0).await;
    assert_eq!(
        world.get("/v1/clusters/mac/connection").await.expect(200),
        json!({
            "name": "mac", "head_address": "127.0.0.1:2", "runtime_env": {},
            "ray_version": "2.60.0", "python_version": "3.11.7", "incarnation": "session_1",
        })
    );
    assert_eq!(world.get("/v1/clusters/mac").await.expect(200)["python_version"], "3.11.7");
    world.get("/v1/clusters/none/connection").await.refused(404, "unknown_cluster");
    assert!(!world.get("/v1/clusters/centos").await.text.contains("s3cret"));
}

#[tokio::test]
async fn a_cluster_is_registered_described_anew_and_removed() {
    let world = World::new().await;
    let gpu = json!({
        "name": "gpu", "head_address": "127.0.0.1:3", "dashboard": "http://127.0.0.1:3", "tags": ["gpu"],
        "submission_interval": "10s", "token": "s3cret", "plane_address": "http://10.0.0.1:8700",
    });
    let shown = world.post("/v1/clusters", gpu.clone()).await.expect(201);
    assert_eq!(
        (&shown["source"], &shown["limits"]["submission_interval_seconds"]),
        (&json!("api"), &json!(10.0))
    );
    let connection = world.get("/v1/clusters/gpu/connection").await.expect(200);
    assert_eq!(connection["plane_address"], "http://10.0.0.1:8700");
    world.post("/v1/clusters", gpu.clone()).await.refused(409, "duplicate_cluster");
    let mut anew = gpu;
    anew.as_object_mut().unwrap().remove("name");
    anew["weight"] = json!(3);
    assert_eq!(world.put("/v1/clusters/gpu", anew.clone()).await.expect(200)["weight"], 3.0);
    anew["name"] = json!("other");
    world.put("/v1/clusters/gpu", anew).await.refused(400, "bad_cluster");
    world.put("/v1/clusters/gpu", json!({"wieght": 3})).await.refused(400, "bad_cluster");
    assert_eq!(
        world.delete("/v1/clusters/gpu").await.expect(200),
        json!({"name": "gpu", "removed": true, "live": 0})
    );
    world.delete("/v1/clusters/gpu").await.refused(404, "unknown_cluster");
}

#[tokio::test]
async fn a_cluster_with_work_on_it_leaves_once_that_has_ended_unless_forced() {
    let world = World::new().await;
    world.polled("mac", 8.0).await;
    world.post("/v1/placements", json!({"id": "t", "kind": "task"})).await.expect(201);
    let left = world.delete("/v1/clusters/mac").await.expect(200);
    assert_eq!(left, json!({"name": "mac", "removed": false, "live": 1}));
    assert_eq!(world.get("/v1/clusters/mac").await.expect(200)["leaving"], true);
    assert_eq!(world.delete("/v1/clusters/mac?force=true").await.expect(200)["removed"], true);
}

#[tokio::test]
async fn an_operator_keeps_work_off_a_cluster_and_says_why() {
    let world = World::new().await;
    world.polled("mac", 8.0).await;
    let closed = world.post("/v1/clusters/mac/cordon", json!({"note": "disk swap"})).await.expect(200);
    assert_eq!((&closed["cordoned"], &closed["draining"]), (&json!("disk swap"), &json!(false)));
    let id = world.queued(json!({"entrypoint": "x"})).await;
    let why = world.get(&format!("/v1/jobs/{id}/explain")).await.expect(200);
    assert_eq!(why["clusters"][1]["text"], "cordoned: disk swap");
    // The body is optional. The note stays until there is another, or the cluster takes work again.
    let post = async |verb: &str| {
        world.raw(request("POST", &format!("/v1/clusters/mac/{verb}"), Body::empty())).await.expect(200)
    };
    let drained = post("drain").await;
    assert_eq!((&drained["cordoned"], &drained["draining"]), (&json!("disk swap"), &json!(true)));
    assert!(post("uncordon").await.get("cordoned").is_none());
    assert_eq!(post("drain").await["cordoned"], "by an operator");
    post("uncordon").await;
    world.raw(request("POST", "/v1/clusters/mac/check", Body::empty())).await.expect(202);
    for verb in ["cordon", "drain", "uncordon", "check"] {
        let problem =
            world.post(&format!("/v1/clusters/moc/{verb}"), json!({})).await.refused(404, "unknown_cluster");
        assert!(problem["hint"].as_str().unwrap().contains("centos, mac"), "{problem}");
    }
}

#[tokio::test]
async fn settings_and_version_are_shown() {
    let world = World::new().await;
    let settings = world.get("/v1/settings").await.expect(200);
    let interval = settings["items"].as_array().unwrap().iter().find(|s| s["name"] == "submission_interval");
    assert_eq!(interval.unwrap()["value"], "0s");
    assert_eq!(
        settings["policies"][0],
        json!({"name": "score", "kind": "built_in", "weight": 1.0, "source": "file"})
    );
    let version = world.get("/v1/version").await.expect(200);
    assert_eq!((&version["api"], version["plane"].as_str()), (&json!("v1"), Some(&*world.plane().id)));
}
