//! Every error code, as a caller meets it.

use std::{collections::BTreeSet, io};

use axum::{body::Body, http::Request};
use futures_util::stream;
use multicluster_api::codes;
use serde_json::{Value, json};

use super::{CLUSTERS, Heard, World, request, send};

fn host(host: &str, origin: Option<&str>) -> Request<Body> {
    let builder = Request::builder().uri("/v1/version").header("host", host);
    origin
        .into_iter()
        .fold(builder, |builder, origin| builder.header("origin", origin))
        .body(Body::empty())
        .unwrap()
}

fn a_job(more: Value) -> Value {
    let mut job = json!({"entrypoint": "x"});
    let Value::Object(more) = more else { unreachable!("fields") };
    job.as_object_mut().unwrap().extend(more);
    job
}

#[tokio::test]
async fn every_code_can_be_met_and_comes_with_a_hint() {
    let world = World::new().await;
    world.queued(json!({"id": "j", "entrypoint": "x"})).await;
    let mut met = BTreeSet::new();
    let mut check = |answer: Heard, code: &str| {
        let status = codes::find(code).unwrap().status;
        answer.refused(status, code);
        met.insert(code.to_owned());
    };
    check(world.raw(request("POST", "/v1/jobs", "{".into())).await, "bad_json");
    check(world.post("/v1/jobs", a_job(json!({"entrypont": 1}))).await, "bad_body");
    check(world.get("/v1/jobs?stat=x").await, "bad_query");
    check(world.get("/v1/history?minutes=5&step=60").await, "bad_period");
    check(world.get("/v1/jobs/a%2Fb").await, "bad_id");
    check(world.post("/v1/jobs", a_job(json!({"entrypoint_num_cpus": -1}))).await, "bad_job");
    for (fields, code) in [
        (json!({"retry_on": [3]}), "bad_job"),
        (json!({"max_retries": 1, "retry_on": [3], "never_retry_on": [3]}), "bad_job"),
        (json!({"max_retries": 1, "retry_on": [256]}), "bad_job"),
        (json!({"max_retries": 1, "never_retry_on": [3.5]}), "bad_body"),
        (json!({"max_retries": 1, "never_retry_on": "3"}), "bad_body"),
        (json!({"stop_grace": 0}), "bad_job"),
        (json!({"stop_grace": "25h"}), "bad_job"),
        (json!({"stop_grace": "soon"}), "bad_body"),
        (json!({"stop_grace": -1}), "bad_body"),
        (json!({"preemptible": "yes"}), "bad_body"),
    ] {
        check(world.post("/v1/jobs", a_job(fields)).await, code);
    }
    check(world.post("/v1/jobs", a_job(json!({"metadata": {"multicluster.tag": "x"}}))).await, "bad_hint");
    let missing = json!({"runtime_env": {"working_dir": "gcs://a.zip"}});
    check(world.post("/v1/jobs", a_job(missing)).await, "missing_package");
    check(world.post("/v1/clusters", json!({"name": "x"})).await, "bad_cluster");
    check(world.raw(host("evil.example", None)).await, "host_not_allowed");
    check(world.raw(host("localhost", Some("http://evil.example"))).await, "origin_not_allowed");
    check(world.get("/v2/jobs").await, "not_found");
    check(world.get("/v1/jobs/none").await, "unknown_job");
    check(world.get("/v1/clusters/none").await, "unknown_cluster");
    check(world.delete("/v1/jobs").await, "method_not_allowed");
    let broken = stream::iter([Ok("{"), Err(io::Error::other("reset"))]);
    check(world.raw(request("POST", "/v1/jobs", Body::from_stream(broken))).await, "too_slow");
    check(world.post("/v1/jobs", json!({"id": "j", "entrypoint": "other"})).await, "conflict");
    check(world.delete("/v1/jobs/j").await, "wrong_state");
    let inside = json!({"parent_job": "j", "parent_cluster": "mac"});
    check(world.post("/v1/jobs", a_job(inside)).await, "not_inside");
    let mac = json!({"name": "mac", "head_address": "127.0.0.1:2", "dashboard": "http://127.0.0.1:2"});
    check(world.post("/v1/clusters", mac).await, "duplicate_cluster");
    check(world.raw(request("POST", "/v1/jobs", "x".repeat((1 << 20) + 1).into())).await, "too_large");
    check(world.post("/v1/config/reload", json!({})).await, "bad_config");
    check(world.put("/v1/policies/mine", json!({"expression": "fre_cpu"})).await, "bad_policy");
    check(world.delete("/v1/policies/mine").await, "unknown_policy");
    check(world.delete("/v1/policies/score").await, "file_policy");
    let full = World::with("  max_queue: 0\n").await.post("/v1/jobs", a_job(json!({}))).await;
    assert_eq!(full.headers["retry-after"], "5");
    check(full, "queue_full");
    let picky = World::with("  infeasible: reject\n").await;
    picky.polled("mac", 8.0).await;
    picky.polled("centos", 8.0).await;
    check(picky.post("/v1/jobs", a_job(json!({"entrypoint_num_cpus": 64}))).await, "infeasible");
    let strict = World::with("  unknown_tags: reject\n").await;
    check(strict.post("/v1/jobs", a_job(json!({"tags": ["tradebot"]}))).await, "unknown_tag");
    for cluster in ["mac", "centos"] {
        picky.delete(&format!("/v1/clusters/{cluster}?force")).await.expect(200);
    }
    check(picky.post("/v1/jobs", a_job(json!({}))).await, "no_clusters");
    let router = world.stop().await;
    check(send(&router, request("GET", "/v1/clusters", Body::empty())).await, "stopping");

    // Codes that one caller cannot provoke here: tokens (see `access`), an expired lease, which is
    // one entry of a list, a bug, a broken disk, replicas, a cluster whose token cannot be read (see
    // tests/sdk/test_tokens.py), overload (see `limits`).
    let missed: Vec<_> =
        codes::ALL.iter().map(|code| code.word).filter(|code| !met.contains(*code)).collect();
    let tokens = ["no_token", "bad_token", "forbidden", "priority_too_high"];
    let others = [
        "no_lease",
        "rate_limited",
        "internal",
        "store_failed",
        "cluster_token",
        "busy",
        "overloaded",
        "cannot_write",
        "no_leader",
        "leader_lost",
        "store_full",
    ];
    assert_eq!(missed, [&tokens[..], &others[..]].concat());
}

#[tokio::test]
async fn a_reload_tells_a_bad_policy_from_a_bad_file() {
    let file = std::env::temp_dir().join(format!("reloaded-{}.yaml", std::process::id()));
    let world = World::of_file(&file).await;
    let reload = async |more: &str| {
        std::fs::write(&file, format!("{CLUSTERS}{more}")).unwrap();
        world.post("/v1/config/reload", json!({})).await
    };
    for policies in
        ["[{name: mine, expression: 'cluster.('}]", "[{name: mine, filter: '1 + 1'}]", "[{name: scoer}]", "7"]
    {
        let told = reload(&format!("  policies: {policies}\n")).await.refused(422, "bad_policy");
        assert_eq!(told["hint"], codes::BAD_POLICY.hint);
        assert!(told["message"].as_str().unwrap().contains(".yaml:"), "{told}");
    }
    reload("  policies: [{name: scoer}]\n  max_queue: many\n").await.refused(422, "bad_config");
    assert_eq!(reload("  policies: [{name: score}]\n").await.expect(200)["clusters"], 2);
    std::fs::remove_file(&file).unwrap();
}

#[tokio::test]
async fn a_refused_configuration_is_shown_until_a_later_one_is_in_force() {
    let folder = std::env::temp_dir().join(format!("refused-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("cluster.yaml");
    let world = World::of_file(&file).await;
    let from = world.plane().events.newest();
    let reload = async |text: &str| {
        std::fs::write(&file, text).unwrap();
        world.post("/v1/config/reload", json!({})).await
    };
    let problem = async || world.get("/v1/pool").await.expect(200)["config_problem"].clone();
    assert_eq!(problem().await, Value::Null);

    reload(&format!("{CLUSTERS}  max_queue: many\n")).await.refused(422, "bad_config");
    let shown = problem().await;
    let why = shown["message"].as_str().unwrap();
    assert!(why.contains("cluster.yaml:") && why.contains("max_queue") && why.contains("hint: "), "{why}");
    assert!(shown["at"].is_u64());
    reload(CLUSTERS).await.expect(200);
    assert_eq!(problem().await, Value::Null);
    reload(CLUSTERS).await.expect(200);

    let events = world.plane().stored(move |store| store.events(None, from, 100)).await.unwrap();
    let events = events.iter().map(|event| serde_json::from_str::<Value>(&event.body).unwrap());
    let told: Vec<_> = events.filter(|event| event["type"] == "config").collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!((&told[0]["change"], &told[1]["change"]), (&json!("refused"), &json!("reloaded")));
    let message = told[0]["message"].as_str().unwrap();
    assert!(
        message.contains("cluster.yaml:") && message.contains("max_queue") && message.lines().count() == 1
    );
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_wrong_file_of_clusters_harms_only_itself() {
    let folder = std::env::temp_dir().join(format!("cluster-files-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("clusters.d")).unwrap();
    let file = folder.join("cluster.yaml");
    let own = format!("{CLUSTERS}cluster_files: [clusters.d/*.yaml]\n");
    std::fs::write(&file, &own).unwrap();
    let put = |name: &str, text: &str| std::fs::write(folder.join("clusters.d").join(name), text).unwrap();
    let found = |name: &str, more: &str| {
        format!(
            "clusters: [{{name: {name}, head_address: '127.0.0.1:1', dashboard: 'http://127.0.0.1:1'{more}}}]"
        )
    };
    let world = World::of_file(&file).await;
    let from = world.plane().events.newest();
    let reload = async || world.post("/v1/config/reload", json!({})).await;
    let names = async || {
        let listed = world.get("/v1/clusters").await.expect(200);
        let names =
            listed["items"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned());
        names.collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    };
    let problem = async || world.get("/v1/pool").await.expect(200)["config_problem"]["message"].clone();

    put("a.yaml", &found("a", ""));
    put("b.yaml", &found("b", ""));
    assert_eq!(reload().await.expect(200), json!({"clusters": 4, "warnings": []}));
    put("a.yaml", &found("a2", ""));
    put("b.yaml", &found("b", ", runtime_env: {env_vars: {KEY: s3cret}, pip: 7, pip: 8}"));
    let told = reload().await.expect(200);
    assert!(told["refused"][0].as_str().unwrap().contains("b.yaml:1:"), "{told}");
    assert_eq!(names().await, ["a2", "b", "centos", "mac"], "b is as it was");
    let shown = problem().await;
    let shown = shown.as_str().unwrap();
    assert!(shown.starts_with("clusters.d/b.yaml:1:") && !shown.contains("s3cret"), "{shown}");
    assert!(shown.ends_with("clusters.d/b.yaml: as it last was valid: b"), "{shown}");

    // Nor does the configuration file itself hold up the others.
    std::fs::write(&file, "clusters: [").unwrap();
    std::fs::remove_file(folder.join("clusters.d/a.yaml")).unwrap();
    put("c.yaml", &found("c", ""));
    reload().await.refused(422, "bad_config");
    assert_eq!(names().await, ["b", "c", "centos", "mac"]);
    let shown = problem().await;
    let shown = shown.as_str().unwrap();
    assert!(shown.starts_with("cluster.yaml:1:") && shown.contains("clusters.d/b.yaml:1:"), "{shown}");

    std::fs::write(&file, &own).unwrap();
    put("b.yaml", &found("b", ""));
    assert_eq!(reload().await.expect(200)["clusters"], 4);
    assert_eq!(problem().await, Value::Null);
    let events = world.plane().stored(move |store| store.events(None, from, 100)).await.unwrap();
    let events = events.iter().map(|event| serde_json::from_str::<Value>(&event.body).unwrap());
    let changes: Vec<_> =
        events.filter(|event| event["type"] == "config").map(|event| event["change"].clone()).collect();
    assert_eq!(changes, ["refused", "refused", "reloaded"]);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_job_that_names_an_unknown_cluster_is_itself_at_fault() {
    let world = World::new().await;
    let answer = world.post("/v1/jobs", a_job(json!({"preferred_cluster": "moc"}))).await;
    let problem = answer.refused(400, "unknown_cluster");
    assert_eq!(problem["hint"], "there are centos, mac");
}

#[tokio::test]
async fn bad_addresses_say_what_is_meant() {
    let world = World::new().await;
    let problem = world.get("/v1/jobs/").await.refused(404, "not_found");
    assert_eq!(problem["hint"], "without the slash at the end: /v1/jobs");
    let wrong = world.put("/v1/jobs", json!({})).await;
    assert_eq!(wrong.headers["allow"], "POST,GET,HEAD");
    wrong.refused(405, "method_not_allowed");
    // Ray's clients print the body as it is.
    let ray = world.get("/api/jobs").await;
    assert_eq!(
        (ray.status.as_u16(), &ray.headers["content-type"]),
        (404, &"text/plain; charset=utf-8".parse().unwrap())
    );
    for path in ["/v1/jobs/%ff", "/v1/jobs/..%2f..%2fetc%2fpasswd", "/v1/clusters/a%20b"] {
        world.get(path).await.refused(400, "bad_id");
    }
}

#[tokio::test]
async fn bodies_are_bounded_and_wrong_ones_change_nothing() {
    let world = World::new().await;
    let declared = Request::builder()
        .method("POST")
        .uri("/v1/jobs/batch")
        .header("host", "localhost")
        .header("content-length", (65 << 20).to_string())
        .body(Body::from_stream(stream::pending::<io::Result<&str>>()))
        .unwrap();
    world.raw(declared).await.refused(413, "too_large");
    let many = json!({"jobs": vec![json!({"entrypoint": "x"}); 10_001]});
    world.post("/v1/jobs/batch", many).await.refused(413, "too_large");
    for body in ["", "null", "[]", "5", "\"x\"", "{\"jobs\": 5}", "{\"jobs\": [5]}", "\u{0}", "{\"jobs\": [}"]
    {
        let answer = world.raw(request("POST", "/v1/jobs/batch", body.into())).await;
        assert_eq!(answer.status.as_u16(), 400, "{body:?}: {}", answer.text);
        assert!(answer.json["hint"].is_string(), "{}", answer.text);
    }
    let not_text = request("POST", "/v1/jobs", vec![b'"', 0xff, 0xfe].into());
    world.raw(not_text).await.refused(400, "bad_json");
    assert_eq!(world.get("/v1/jobs").await.expect(200)["items"], json!([]));
}
