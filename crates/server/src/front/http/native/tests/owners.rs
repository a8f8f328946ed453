use multicluster_core::Input;
use multicluster_types::{Owner, Priority, Resources, ShareTerms, ShareWeight, Shares, Span};
use serde_json::{Value, json};

use super::access::Guarded;

/// A group of zorro and others with a weight of 3, and limits of both.
async fn shared(name: &str) -> Guarded {
    let guarded = Guarded::with(name, "", 4096).await;
    let owner = |name: &str| Owner::new(name).unwrap();
    let research = ShareTerms {
        weight: ShareWeight::new(3.0).unwrap(),
        members: vec![owner("zorro"), owner("bernardo")],
        limit: Resources::from_amounts([("CPU", 64.0)]).unwrap(),
        max_queued: Some(2),
        ..ShareTerms::default()
    };
    let diego = ShareTerms { max_priority: Some(Priority(5)), ..ShareTerms::default() };
    let idle = ShareTerms::default();
    let named = [(owner("research"), research), (owner("diego"), diego), (owner("idle"), idle)];
    let shares = Shares::new(Span::minutes(60), named.into()).unwrap();
    let read = |core: &multicluster_core::Core| {
        let clusters = core.clusters().map(|cluster| (*cluster.spec).clone()).collect();
        (core.settings().clone(), clusters)
    };
    let (mut settings, clusters) = guarded.world.plane().driver.read(read).await.unwrap();
    settings.shares = shares;
    guarded.world.plane().driver.act(Input::Reload { settings: Box::new(settings), clusters }).await.unwrap();
    guarded
}

fn job(id: &str, cpus: u32) -> Value {
    json!({"id": id, "entrypoint": "x", "needs": {"CPU": cpus}})
}

fn names(owners: &Value) -> Vec<&str> {
    owners["items"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn each_owner_is_shown_with_what_it_had_and_whose_turn_is_next() {
    let guarded = shared("owners").await;
    guarded.world.polled("mac", 8.0).await;
    let submit = async |token: &str, id: &str, cpus| {
        guarded.ask(token, "POST", "/v1/jobs", job(id, cpus)).await.expect(201);
    };
    for token in [&guarded.diego, &guarded.zorro] {
        let task = json!({"kind": "task", "demand": {"CPU": 4}});
        let granted = guarded.ask(token, "POST", "/v1/placements", task).await.expect(201);
        assert_eq!(granted["status"], "granted", "{granted}");
    }
    submit(&guarded.zorro, "z-2", 4).await;
    submit(&guarded.diego, "d-2", 4).await;

    let all = guarded.get(&guarded.read, "/v1/owners").await.expect(200);
    assert_eq!((&all["half_life_seconds"], &all["more"]), (&json!(3600), &json!(0)));
    assert_eq!(names(&all), ["research", "diego", "idle"], "{all}");
    let [research, diego, idle] = [0, 1, 2].map(|at| &all["items"][at]);
    assert_eq!(research["members"], json!(["zorro", "bernardo"]));
    assert_eq!((&research["weight"], &research["entitled"]), (&json!(3.0), &json!(0.75)));
    assert_eq!((&research["holds"], &research["held"]["CPU"]), (&json!(0.5), &json!(4)));
    assert_eq!((&research["limit"]["CPU"], &research["max_queued"]), (&json!(64), &json!(2)));
    assert_eq!(
        (&research["live"], &research["queued"], &research["turn"]),
        (&json!(1), &json!(1), &json!(1))
    );
    assert_eq!(research["queued_job"], "z-2");
    assert!(research["queued_at"].as_u64().unwrap() <= all["at"].as_u64().unwrap());
    let text = research["text"].as_str().unwrap();
    assert!(text.ends_with("of the pool over the last 1h, its share is 75 %: next in line"), "{text}");
    assert_eq!((&diego["turn"], &diego["max_priority"]), (&json!(2), &json!(5)));
    assert!(diego["text"].as_str().unwrap().ends_with("its share is 25 %: second in line"), "{diego}");
    assert_eq!((&idle["live"], &idle["queued"], &idle["turn"]), (&json!(0), &json!(0), &Value::Null));
    assert!(idle["text"].as_str().unwrap().ends_with("its share is 20 %: nothing queued"), "{idle}");
}

#[tokio::test]
async fn a_caller_that_sees_its_own_work_only_sees_its_own_row() {
    let guarded = shared("own-row").await;
    guarded.world.polled("mac", 8.0).await;
    let (zorro, diego) = (&guarded.zorro, &guarded.diego);
    guarded.ask(&guarded.admin, "POST", "/v1/clusters/mac/cordon", json!({})).await.expect(200);
    for (token, id) in [(diego, "d-1"), (zorro, "z-1")] {
        guarded.ask(token, "POST", "/v1/jobs", job(id, 4)).await.expect(201);
    }
    let own = guarded.get(zorro, "/v1/owners").await.expect(200);
    assert_eq!(names(&own), ["research"], "{own}");
    assert_eq!(own["items"][0]["members"], json!(["zorro"]), "other members are not shown");
    assert_eq!(own["items"][0]["queued_job"], "z-1");
    let own = guarded.get(diego, "/v1/owners").await.expect(200);
    assert_eq!(names(&own), ["diego"], "{own}");
    guarded.ask("", "GET", "/v1/owners", Value::Null).await.refused(401, "no_token");

    // Why work of others goes first: with names only for callers that may see all work.
    let path = "/v1/jobs/d-1/explain";
    let why = guarded.get(&guarded.admin, path).await.expect(200);
    assert_eq!(why["turns"]["owner"], "diego", "{why}");
    assert_eq!((&why["turns"]["next"], &why["turns"]["holds"]), (&json!("research"), &json!(0.0)));
    assert_eq!(why["turns"]["half_life_seconds"], 3600);
    let text = why["turns"]["text"].as_str().unwrap();
    assert!(text.ends_with("its share is 25 %: research goes first"), "{text}");
    assert!(why["summary"].as_str().unwrap().lines().any(|line| line == text), "{why}");
    for path in [path, "/v1/jobs/d-1", "/v1/queue", "/api/jobs/d-1"] {
        let heard = guarded.get(diego, path).await;
        assert_eq!(heard.status, 200, "{path}");
        assert!(heard.text.contains("other work goes first"), "{path}: {}", heard.text);
        assert!(!heard.text.contains("research"), "{path}: {}", heard.text);
    }
}

#[tokio::test]
async fn an_owner_may_queue_and_ask_for_what_its_share_allows() {
    let guarded = shared("allowed").await;
    let (zorro, diego) = (&guarded.zorro, &guarded.diego);
    for id in ["z-1", "z-2"] {
        guarded.ask(zorro, "POST", "/v1/jobs", job(id, 4)).await.expect(201);
    }
    let refused = guarded.ask(zorro, "POST", "/v1/jobs", job("z-3", 4)).await.refused(429, "queue_full");
    assert_eq!(refused["message"], "research has 2 queued, at most 2 are allowed");
    let too_high = json!({"entrypoint": "x", "priority": 6});
    let refused = guarded.ask(diego, "POST", "/v1/jobs", too_high).await.refused(403, "priority_too_high");
    assert_eq!(refused["message"], "diego may ask for a priority up to 5, not 6");
    assert_eq!(refused["hint"], "submit with --priority 5 or less");
}
