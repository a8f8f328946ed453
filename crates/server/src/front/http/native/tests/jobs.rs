use std::time::{Duration, Instant};

use axum::http::{HeaderValue, header::ACCEPT_LANGUAGE};
use serde_json::{Value, json};

use super::{World, request};
use crate::front::submission::{self, Dedup};

fn ids(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_job_is_accepted_shown_explained_stopped_run_again_and_forgotten() {
    let world = World::new().await;
    let sent = json!({
        "id": "nightly", "entrypoint": "API_TOKEN=hunter2 python train.py",
        "runtime_env": {"env_vars": {"HF_TOKEN": "hunter2", "MODE": "fast"}},
        "metadata": {"owner": "zorro", "multicluster.priority": "7"},
        "entrypoint_num_cpus": 2, "tags": ["linux", "fund"], "max_retries": 1,
        "retry_on": [137, 75, 137], "never_retry_on": [2], "preemptible": true, "stop_grace": 90,
    });
    let accepted = world.post("/v1/jobs", sent.clone()).await.expect(201);
    assert_eq!(accepted, json!({"id": "nightly"}));
    let again = world.post("/v1/jobs", sent).await.expect(200);
    assert_eq!(again, json!({"id": "nightly", "duplicate": "same_id"}));

    let shown = world.get("/v1/jobs/nightly").await;
    assert!(!shown.text.contains("hunter2"), "{}", shown.text);
    let shown = shown.expect(200);
    assert_eq!(shown["state"], "queued");
    assert_eq!(shown["ray_status"], "PENDING");
    assert_eq!(shown["priority"], 7);
    assert_eq!((&shown["retry_on"], &shown["never_retry_on"]), (&json!([75, 137]), &json!([2])));
    assert_eq!((&shown["preemptible"], &shown["stop_grace"]), (&json!(true), &json!(90.0)));
    assert_eq!(shown["demand"], json!({"CPU": 2}));
    assert_eq!(shown["runtime_env"]["env_vars"]["MODE"], "fast");
    assert_eq!(shown["metadata"]["owner"], "zorro");
    assert_eq!(shown["history"], json!([]));
    assert_eq!(shown["why"]["queue"], "jobs");
    let mac = &shown["why"]["clusters"][1];
    assert_eq!((&mac["cluster"], &mac["verdict"]), (&json!("mac"), &json!("rejected")));

    let why = world.get("/v1/jobs/nightly/explain").await.expect(200);
    assert!(why["summary"].as_str().unwrap().contains("centos: has not answered a poll yet"), "{why}");
    assert_eq!(why["clusters"][0]["reason"], "never_seen");

    let stopped = world.post("/v1/jobs/nightly/stop", json!({})).await.expect(202);
    assert_eq!(stopped["state"], "stopped");
    world.post("/v1/jobs/nightly/stop", json!({})).await.refused(409, "wrong_state");
    let ended = world.get("/v1/jobs/nightly").await.expect(200);
    assert!(ended["ended_at"].is_u64() && ended.get("why").is_none(), "{ended}");

    assert_eq!(world.post("/v1/jobs/nightly/rerun", json!({})).await.expect(202)["state"], "queued");
    world.delete("/v1/jobs/nightly").await.refused(409, "wrong_state");
    world.post("/v1/jobs/nightly/stop", json!({})).await.expect(202);
    world.delete("/v1/jobs/nightly").await.expect(204);
    world.get("/v1/jobs/nightly").await.refused(404, "unknown_job");
    for of in ["explain", "attempts", "decisions", "events", "logs", "resolved", "wait"] {
        world.get(&format!("/v1/jobs/nightly/{of}")).await.refused(404, "unknown_job");
    }
}

#[tokio::test]
async fn explanations_are_in_the_language_that_the_caller_reads() {
    let world = World::new().await;
    world.polled("mac", 8.0).await;
    world.queued(json!({"id": "runs", "entrypoint": "x", "preferred_cluster": "mac"})).await;
    world.queued(json!({"id": "waits", "entrypoint": "x", "tags": ["linux"]})).await;

    let why = world.get_zh("/v1/jobs/waits/explain").await.expect(200);
    let said = &why["clusters"];
    assert_eq!((&said[0]["reason"], &said[0]["text"]), (&json!("never_seen"), &json!("尚未响应过轮询")));
    assert_eq!((&said[1]["reason"], &said[1]["text"]), (&json!("missing_tags"), &json!("缺少标签 linux")));
    let summary = why["summary"].as_str().unwrap();
    assert!(summary.ends_with("秒，排在最前\ncentos：尚未响应过轮询\nmac：缺少标签 linux"), "{summary}");
    let english = world.get("/v1/jobs/waits/explain").await.expect(200);
    assert_eq!(english["clusters"][1]["text"], "missing tags: linux");
    assert_eq!(english["clusters"][1]["details"], said[1]["details"], "numbers have no language");

    // Everywhere the reason is shown.
    assert_eq!(world.get_zh("/v1/jobs/waits").await.expect(200)["why"]["clusters"], *said);
    let queues = world.get_zh("/v1/queue").await.expect(200);
    let jobs = queues["items"].as_array().unwrap().iter().find(|queue| queue["name"] == "jobs").unwrap();
    assert_eq!(jobs["heads"][0]["clusters"], *said);
    for path in ["/v1/decisions", "/v1/jobs/runs/decisions"] {
        let decision = &world.get_zh(path).await.expect(200)["items"][0]["clusters"];
        assert_eq!(decision[0]["text"], "尚未响应过轮询");
        assert!(decision[1]["text"].as_str().unwrap().starts_with("选中，得分 "), "{decision}");
    }
    let sent = json!({"entrypoint": "x", "preferred_cluster": "centos", "required": true});
    let mut what = request("POST", "/v1/what-if", sent.to_string().into());
    what.headers_mut().insert(ACCEPT_LANGUAGE, HeaderValue::from_static("zh"));
    assert_eq!(world.raw(what).await.expect(200)["clusters"][0]["text"], "尚未响应过轮询");
}

#[tokio::test]
async fn a_request_of_rays_own_shape_is_a_job() {
    let world = World::new().await;
    let sent = json!({"entrypoint": "x", "submission_id": "mine", "runtime_env": null, "metadata": null});
    assert_eq!(world.post("/v1/jobs", sent).await.expect(201)["id"], "mine");
    let made = world.post("/v1/jobs", json!({"entrypoint": "y"})).await.expect(201);
    assert!(made["id"].as_str().unwrap().starts_with("raysubmit_"), "{made}");
    let same = world.post("/v1/jobs", json!({"entrypoint": "y"})).await.expect(200);
    assert_eq!(same, json!({"id": made["id"], "duplicate": "same_content"}));
}

#[tokio::test]
async fn the_same_job_submitted_by_another_version_of_the_sdk_is_the_same_job() {
    let world = World::new().await;
    for version in ["old", "new"] {
        let mut upload = world.plane().packages.begin(&multicluster_store::Room::default()).unwrap();
        upload.write(version.as_bytes()).unwrap();
        upload.finish(&format!("_ray_pkg_{version}.zip")).unwrap();
    }
    let sent = |version: &str| json!({"id": "mine", "entrypoint": "x", "sdk": format!("gcs://_ray_pkg_{version}.zip")});
    world.post("/v1/jobs", sent("old")).await.expect(201);
    let again = world.post("/v1/jobs", sent("new")).await.expect(200);
    assert_eq!(again, json!({"id": "mine", "duplicate": "same_id"}));
    world.post("/v1/jobs", sent("lost")).await.refused(400, "missing_package");
    let shown = world.get("/v1/jobs/mine").await.expect(200);
    assert!(shown["packages"].as_object().unwrap().contains_key("gcs://_ray_pkg_old.zip"), "{shown}");
}

#[tokio::test]
async fn lists_are_filtered_and_come_in_pages() {
    let world = World::new().await;
    for number in 0..5 {
        let tags = if number % 2 == 0 { json!(["even", "linux"]) } else { json!(["odd"]) };
        world.queued(json!({"id": format!("job-{number}"), "entrypoint": "x", "tags": tags})).await;
    }
    world.post("/v1/placements", json!({"id": "t", "kind": "task"})).await.expect(201);
    world.post("/v1/jobs/job-1/stop", json!({})).await.expect(202);

    let all = world.get("/v1/jobs").await.expect(200);
    assert_eq!(ids(&all), ["t", "job-4", "job-3", "job-2", "job-1", "job-0"]);
    assert!(all.get("next_cursor").is_none());
    let (mut seen, mut path) = (Vec::new(), "/v1/jobs?limit=2&kind=job".to_owned());
    loop {
        let page = world.get(&path).await.expect(200);
        seen.extend(ids(&page).into_iter().map(str::to_owned));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/v1/jobs?limit=2&kind=job&cursor={cursor}");
    }
    assert_eq!(seen, ["job-4", "job-3", "job-2", "job-1", "job-0"]);
    for (query, found) in [
        ("state=stopped", vec!["job-1"]),
        ("state=STOPPED,running", vec!["job-1"]),
        ("state=stopped&state=queued&tag=odd", vec!["job-3", "job-1"]),
        ("tag=even&tag=linux&id=2", vec!["job-2"]),
        ("kind=task", vec!["t"]),
        ("cluster=mac", vec![]),
        ("id=ob-4", vec!["job-4"]),
        ("q=OB-4", vec!["job-4"]),
        ("q=EVE&limit=2", vec!["job-4", "job-2"]),
        ("q=even&state=stopped", vec![]),
    ] {
        assert_eq!(ids(&world.get(&format!("/v1/jobs?{query}")).await.expect(200)), found, "{query}");
    }
}

#[tokio::test]
async fn a_search_finds_entrypoints_as_they_are_shown() {
    let world = World::new().await;
    world.queued(json!({"id": "a", "entrypoint": "API_TOKEN=hunter2 python Train.py"})).await;
    world.queued(json!({"id": "b", "entrypoint": "python hunter2.py"})).await;
    assert_eq!(ids(&world.get("/v1/jobs?q=train.py").await.expect(200)), ["a"]);
    let found = world.get("/v1/jobs?q=hunter2").await.expect(200);
    assert_eq!(ids(&found), ["b"], "what is redacted is not found by what it hides");
}

#[tokio::test]
async fn many_jobs_are_accepted_or_refused_each_on_its_own_in_order() {
    let world = World::new().await;
    world.queued(json!({"id": "taken", "entrypoint": "other"})).await;
    let jobs = json!([
        {"id": "a", "entrypoint": "x"},
        {"id": "bad id", "entrypoint": "x"},
        {"id": "taken", "entrypoint": "x"},
        {"id": "b", "entrypoint": "x", "runtime_env": {"working_dir": "gcs://none.zip"}},
        {"id": "c", "entrypoint": "x", "preferred_cluster": "moc"},
        {"entrypoint": "y"},
        {"id": "a", "entrypoint": "x"},
    ]);
    let answer = world.post("/v1/jobs/batch", json!({"jobs": jobs})).await.expect(200);
    assert_eq!((&answer["accepted"], &answer["refused"]), (&json!(3), &json!(4)));
    let words: Vec<_> = answer["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| {
            item["id"].as_str().or(item["error"]["code"].as_str()).unwrap().split('_').next().unwrap()
        })
        .collect();
    assert_eq!(words, ["a", "bad", "conflict", "missing", "unknown", "raysubmit", "a"]);
    assert_eq!(answer["results"][6]["duplicate"], "same_id");
    assert_eq!(world.get("/v1/queue").await.expect(200)["waiting"], 3);
    assert_eq!(world.post("/v1/jobs/batch", json!({"jobs": []})).await.expect(200)["accepted"], 0);
}

#[tokio::test]
async fn packages_are_kept_by_their_content() {
    let world = World::new().await;
    let job = json!({"id": "p", "entrypoint": "x", "runtime_env": {"working_dir": "gcs://_ray_pkg_1.zip"}});
    let problem = world.post("/v1/jobs", job.clone()).await.refused(400, "missing_package");
    assert!(problem["hint"].as_str().unwrap().contains("PUT /api/packages/gcs/_ray_pkg_1.zip"), "{problem}");
    let mut upload = world.plane().packages.begin(&multicluster_store::Room::default()).unwrap();
    upload.write(b"content").unwrap();
    let package = upload.finish("_ray_pkg_1.zip").unwrap();
    world.post("/v1/jobs", job).await.expect(201);
    let shown = world.get("/v1/jobs/p").await.expect(200);
    assert_eq!(shown["packages"], json!({"gcs://_ray_pkg_1.zip": package.sha256}));
}

#[tokio::test]
async fn packages_that_stand_for_folders_are_kept_with_the_job() {
    let world = World::new().await;
    let job = json!({"id": "p", "entrypoint": "x", "packages": {"/a/b/": "gcs://_ray_pkg_1.zip"}});
    let problem = world.post("/v1/jobs", job.clone()).await.refused(400, "missing_package");
    assert!(problem["message"].as_str().unwrap().contains("gcs://_ray_pkg_1.zip"), "{problem}");
    let upload = |name: &str, content: &[u8]| {
        let mut upload = world.plane().packages.begin(&multicluster_store::Room::default()).unwrap();
        upload.write(content).unwrap();
        upload.finish(name).unwrap()
    };
    let package = upload("_ray_pkg_1.zip", b"content");
    upload("_ray_pkg_2.zip", b"other");
    world.post("/v1/jobs", job).await.expect(201);
    let shown = world.get("/v1/jobs/p").await.expect(200);
    assert_eq!(shown["packages"], json!({"gcs://_ray_pkg_1.zip": package.sha256}));

    let same = json!({"id": "p", "entrypoint": "x", "packages": {"/a/b": "gcs://_ray_pkg_1.zip"}});
    assert_eq!(world.post("/v1/jobs", same).await.expect(200)["duplicate"], "same_id");
    for packages in
        [json!({}), json!({"/a/c": "gcs://_ray_pkg_1.zip"}), json!({"/a/b": "gcs://_ray_pkg_2.zip"})]
    {
        let other = json!({"id": "p", "entrypoint": "x", "packages": packages});
        world.post("/v1/jobs", other).await.refused(409, "conflict");
    }
    let document = world.get("/v1/openapi.json").await.expect(200);
    assert!(document["components"]["schemas"]["JobRequest"]["properties"]["packages"].is_object());
}

#[tokio::test]
async fn waiting_ends_with_the_job_or_with_the_time() {
    let world = World::new().await;
    let id = world.queued(json!({"entrypoint": "x"})).await;
    let started = Instant::now();
    let still = world.get(&format!("/v1/jobs/{id}/wait?timeout=200ms")).await.expect(200);
    assert_eq!(still["state"], "queued");
    assert!(started.elapsed() >= Duration::from_millis(200));
    let started = Instant::now();
    let wait_path = format!("/v1/jobs/{id}/wait");
    let stop_path = format!("/v1/jobs/{id}/stop");
    let waiting = world.get(&wait_path);
    let stopping = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        world.post(&stop_path, json!({})).await.expect(202);
    };
    let (ended, ()) = tokio::join!(waiting, stopping);
    assert_eq!(ended.expect(200)["state"], "stopped");
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn what_if_says_where_a_job_would_go_and_changes_nothing() {
    let world = World::new().await;
    world.polled("mac", 8.0).await;
    let what =
        world.post("/v1/what-if", json!({"entrypoint": "x", "entrypoint_num_cpus": 4})).await.expect(200);
    assert_eq!(what["chosen"], "mac");
    assert_eq!(what["clusters"][1]["verdict"], "chosen");
    assert!(
        what["clusters"][1]["score"].is_number()
            && !what["clusters"][1]["parts"].as_array().unwrap().is_empty()
    );
    let large =
        world.post("/v1/what-if", json!({"entrypoint": "x", "entrypoint_num_cpus": 64})).await.expect(200);
    assert!(large.get("chosen").is_none());
    assert_eq!(large["clusters"][1]["reason"], "infeasible");
    assert_eq!(large["clusters"][1]["details"]["total"], 8);
    let unknown =
        world.post("/v1/what-if", json!({"entrypoint": "x", "preferred_cluster": "moc"})).await.expect(200);
    assert!(unknown["refused"].as_str().unwrap().contains("unknown cluster moc"));
    assert_eq!(world.get("/v1/jobs").await.expect(200)["items"], json!([]));
}

#[tokio::test]
async fn a_tag_that_looks_mistyped_is_told_wherever_work_is_submitted_or_previewed() {
    let world = World::new().await;
    let told = json!(["no cluster carries lnux: it is kept as a label; did you mean linux?"]);
    let job = |id: &str| json!({"id": id, "entrypoint": "x", "tags": ["lnux", "tradebot"]});
    let accepted = world.post("/v1/jobs", job("a")).await.expect(201);
    assert_eq!(accepted, json!({"id": "a", "notice": told[0], "notices": told}));
    assert_eq!(world.post("/v1/what-if", job("a")).await.expect(200)["notices"], told);
    let mut asked = request("POST", "/v1/what-if", job("a").to_string().into());
    asked.headers_mut().insert(ACCEPT_LANGUAGE, HeaderValue::from_static("zh-CN"));
    let zh = world.raw(asked).await.expect(200);
    assert_eq!(zh["notices"][0], "没有集群带有标签 lnux：它只作为标记保留；是否想写 linux？");
    let batch = json!({"jobs": [job("b"), {"id": "c", "entrypoint": "x", "tags": ["tradebot"]}]});
    let batch = world.post("/v1/jobs/batch", batch).await.expect(200);
    assert_eq!(batch["results"], json!([{"id": "b", "notice": told[0], "notices": told}, {"id": "c"}]));
    let task = |id: &str| json!({"id": id, "kind": "task", "tags": ["lnux"]});
    assert_eq!(world.post("/v1/placements", task("t")).await.expect(201)["notices"], told);
    let tasks = json!({"placements": [task("u"), {"id": "v", "kind": "task"}]});
    let tasks = world.post("/v1/placements/batch?wait=10ms", tasks).await.expect(200);
    assert_eq!(tasks["results"][0]["placement"]["notices"], told);
    assert_eq!(tasks["results"][1]["placement"].get("notices"), None);
}

#[tokio::test]
async fn the_reason_that_counts_most_comes_first_and_the_others_behind_it() {
    let world = World::new().await;
    world.polled("mac", 8.0).await;
    world.post("/v1/clusters/mac/cordon", json!({"note": "disk"})).await.expect(200);
    let job = json!({"id": "large", "entrypoint": "x", "needs": {"CPU": 64}, "tags": ["macos"]});
    world.queued(job).await;
    let why = world.get("/v1/jobs/large/explain").await.expect(200);
    let mac = &why["clusters"][1];
    assert_eq!(mac["reason"], "infeasible");
    assert_eq!(mac["text"], "too small: CPU 64 requested, 8 in total");
    assert_eq!(mac["others"], json!([{"reason": "cordoned", "text": "cordoned: disk"}]));
    let line = "mac: too small: CPU 64 requested, 8 in total; also cordoned: disk";
    assert!(why["summary"].as_str().unwrap().ends_with(line), "{why}");
}

#[tokio::test]
async fn a_key_that_a_runtime_env_does_not_have_is_refused_at_once() {
    let world = World::new().await;
    let job = |key: &str| json!({"id": "a", "entrypoint": "x", "runtime_env": {key: ["polars"]}});
    let refused = world.post("/v1/jobs", job("pips")).await.refused(400, "bad_job");
    assert_eq!(refused["message"], "runtime_env has no key \"pips\"");
    assert_eq!(refused["hint"], "did you mean pip?");
    world.post("/v1/what-if", job("pips")).await.refused(400, "bad_job");
    let batch = world.post("/v1/jobs/batch", json!({"jobs": [job("pips"), job("pip")]})).await.expect(200);
    assert_eq!(batch["results"][0]["error"]["code"], "bad_job");
    assert_eq!(batch["results"][1]["id"], "a");
    // A plugin reads it on a cluster that has it in its own runtime_env.
    let own = json!({"pips": ["numpy"]});
    let gpu = json!({"name": "gpu", "head_address": "127.0.0.1:3", "dashboard": "http://127.0.0.1:3",
        "runtime_env": own});
    world.post("/v1/clusters", gpu).await.expect(201);
    let plugin = json!({"id": "b", "entrypoint": "x", "runtime_env": own});
    world.post("/v1/jobs", plugin).await.expect(201);
}

#[tokio::test]
async fn a_job_that_printed_nothing_has_an_empty_log() {
    let world = World::new().await;
    let id = world.queued(json!({"entrypoint": "x"})).await;
    let logs = world.get(&format!("/v1/jobs/{id}/logs?lines=10")).await.expect(200);
    assert_eq!(logs, json!({"id": id, "text": "", "truncated": false, "source": "none"}));
}

/// A measurement, not a test: `cargo test … how_fast -- --ignored --nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures"]
async fn how_fast_batches_are_accepted() {
    let world = World::with("  max_queue: 10000000\n").await;
    for round in 0..8 {
        let jobs: Vec<_> = (0..10_000)
            .map(|n| {
                json!({"entrypoint": format!("python train.py --n {round} {n}"), "entrypoint_num_cpus": 1,
                    "runtime_env": {"env_vars": {"A": "1", "B": "2"}}, "metadata": {"owner": "zorro"}, "tags": ["linux"]})
            })
            .collect();
        let text = json!({"jobs": jobs}).to_string();
        let started = Instant::now();
        let parsed: multicluster_api::BatchRequest =
            crate::front::http::body::parse(text.as_bytes()).unwrap();
        let parse = started.elapsed();
        let jobs: Vec<_> =
            parsed.jobs.into_iter().map(|job| submission::check_alone(job, Dedup::ByContent)).collect();
        let check = started.elapsed() - parse;
        assert!(jobs.iter().all(Result::is_ok));
        let started = Instant::now();
        let answer = world.raw(super::request("POST", "/v1/jobs/batch", text.into())).await.expect(200);
        assert_eq!(answer["accepted"], 10_000);
        let all = started.elapsed();
        println!(
            "10,000 jobs: parse {parse:?}, check {check:?}; request {all:?}, {:.0}/s",
            1e4 / all.as_secs_f64()
        );
    }
}
