use serde_json::{Value, json};

use super::{World, access::Guarded};

fn names(listed: &Value) -> Vec<(&str, &str)> {
    let items = listed["items"].as_array().unwrap();
    items.iter().map(|item| (item["name"].as_str().unwrap(), item["source"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn a_policy_is_registered_decides_and_is_removed() {
    let world = World::new().await;
    world.polled("centos", 8.0).await;
    world.polled("mac", 8.0).await;
    let job = json!({"entrypoint": "x"});
    assert_eq!(world.post("/v1/what-if", job.clone()).await.expect(200)["chosen"], "mac");
    let sent = json!({"expression": "cluster == 'centos' ? 1.0 : 0.0", "weight": 5});
    let set = world.put("/v1/policies/to_centos", sent.clone()).await.expect(200);
    assert_eq!(
        set,
        json!({"name": "to_centos", "kind": "score", "source": "api", "weight": 5.0,
               "expression": "cluster == 'centos' ? 1.0 : 0.0"})
    );
    assert_eq!(world.post("/v1/what-if", job.clone()).await.expect(200)["chosen"], "centos");
    world.put("/v1/policies/small", json!({"filter": "cpu < 100.0"})).await.expect(200);
    let listed = world.get("/v1/policies").await.expect(200);
    let of_file = [("score", "file"), ("weighted_preference", "file")];
    assert_eq!(names(&listed), [of_file[0], of_file[1], ("small", "api"), ("to_centos", "api")]);
    assert_eq!(world.get("/v1/settings").await.expect(200)["policies"], listed["items"]);
    world.delete("/v1/policies/to_centos").await.expect(200);
    assert_eq!(names(&world.delete("/v1/policies/small").await.expect(200)), of_file);
    assert_eq!(world.post("/v1/what-if", job).await.expect(200)["chosen"], "mac");
}

#[tokio::test]
async fn a_policy_that_cannot_be_used_is_refused_as_such_with_text_and_hint() {
    let world = World::new().await;
    for (name, sent, message, hint) in [
        ("mine", json!({"expression": "free_cpu *"}), "policy mine: ", "expressions are CEL"),
        ("mine", json!({"expression": "fre_cpu"}), "fre_cpu", "known names are cluster, "),
        ("mine", json!({"filter": "free_cpu"}), "not true or false", "known names"),
        (
            "mine",
            json!({"filter": "true", "expression": "1.0"}),
            "an expression and a filter",
            "two policies",
        ),
        ("mine", json!({"filter": "true", "weight": 2}), "it has no weight", "remove the weight"),
        ("mine", json!({"expression": "1.0", "weight": -2}), "-2", "0"),
        ("mine", json!({"weight": 2}), "there is no policy", "add an `expression`"),
        ("spread", json!({"expression": "1.0"}), "spread is built in", "another name"),
    ] {
        let refused = world.put(&format!("/v1/policies/{name}"), sent.clone()).await;
        let refused = refused.refused(422, "bad_policy");
        let told = |field: &str| refused[field].as_str().unwrap().to_owned();
        assert!(told("message").contains(message), "{sent}: {refused}");
        assert!(told("hint").contains(hint), "{sent}: {refused}");
        let tried = json!({"name": name, "policy": sent});
        world.post("/v1/policies/try", tried).await.refused(422, "bad_policy");
    }
    world.put("/v1/policies/mine", json!({"expresion": "1.0"})).await.refused(400, "bad_body");
    world.put("/v1/policies/a%20b", json!({"expression": "1.0"})).await.refused(400, "bad_id");
    let refused = world.put("/v1/policies/score", json!({"weight": 2})).await.refused(409, "file_policy");
    assert!(refused["hint"].as_str().unwrap().contains("scheduler.policies"), "{refused}");
    assert_eq!(names(&world.get("/v1/policies").await.expect(200)).len(), 2);
    world.put("/v1/policies/spread", json!({"weight": 0.5})).await.expect(200);
}

#[tokio::test]
async fn a_policy_is_tried_on_a_job_on_a_submitted_one_and_on_the_last_decisions() {
    let world = World::new().await;
    world.polled("centos", 8.0).await;
    world.polled("mac", 8.0).await;
    for number in 0..3 {
        // Tasks are not dispatched, so nothing fails in the meantime.
        let task = json!({"id": format!("job-{number}"), "kind": "task", "demand": {"CPU": 1}});
        world.post("/v1/placements", task).await.expect(201);
    }
    world.plane().driver.turn(|_| ()).await.unwrap();
    let policy = json!({"expression": "cluster == 'centos' ? 1.0 : 0.0", "weight": 50});
    let on = |what: Value| {
        let mut trial = json!({"name": "to_centos", "policy": policy});
        trial.as_object_mut().unwrap().extend(what.as_object().unwrap().clone());
        trial
    };
    let job = json!({"job": {"entrypoint": "x"}});
    let tried = world.post("/v1/policies/try", on(job)).await.expect(200);
    assert_eq!((&tried["differ"], &tried["items"][0]["differs"]), (&json!(1), &json!(true)));
    let item = &tried["items"][0];
    assert_eq!((&item["now"]["chosen"], &item["then"]["chosen"]), (&json!("mac"), &json!("centos")));
    let parts = item["then"]["clusters"][0]["parts"].as_array().unwrap();
    assert!(parts.contains(&json!({"policy": "to_centos", "score": 1.0})), "{parts:?}");
    let tried = world.post("/v1/policies/try", on(json!({"job_id": "job-1"}))).await.expect(200);
    assert_eq!(tried["items"][0]["job"], "job-1");
    let tried = world.post("/v1/policies/try", on(json!({"decisions": 2}))).await.expect(200);
    let items = tried["items"].as_array().unwrap();
    assert_eq!(items.len(), 2);
    assert_eq!((&items[0]["job"], &items[0]["then"]["chosen"]), (&json!("job-2"), &json!("centos")));
    assert!(items[0]["decided"].is_string() && items[0]["decided_at"].is_u64(), "{tried}");
    assert_eq!(items[0]["now"]["clusters"], json!([]), "told for a single job");
    let without = json!({"name": "weighted_preference"});
    assert_eq!(world.post("/v1/policies/try", without).await.expect(200)["items"][2]["job"], "job-0");
    assert_eq!(names(&world.get("/v1/policies").await.expect(200)).len(), 2, "nothing changed");

    world.post("/v1/policies/try", json!({"name": "none"})).await.refused(404, "unknown_policy");
    world.post("/v1/policies/try", on(json!({"job_id": "none"}))).await.refused(404, "unknown_job");
    world.post("/v1/policies/try", on(json!({"decisions": 0}))).await.refused(422, "bad_policy");
    let both = on(json!({"decisions": 1, "job_id": "job-1"}));
    world.post("/v1/policies/try", both).await.refused(422, "bad_policy");
}

#[tokio::test]
async fn only_administrators_change_policies_and_each_tries_on_its_own_work() {
    let guarded = Guarded::with("policies", "", 4096).await;
    let Guarded { read, zorro, diego, admin, .. } = &guarded;
    let policy = json!({"filter": "true"});
    for token in [read, zorro] {
        let refused = guarded.ask(token, "PUT", "/v1/policies/mine", policy.clone()).await;
        refused.refused(403, "forbidden");
        guarded.ask(token, "DELETE", "/v1/policies/mine", Value::Null).await.refused(403, "forbidden");
        guarded.get(token, "/v1/policies").await.expect(200);
    }
    guarded.ask(zorro, "POST", "/v1/jobs", json!({"id": "z", "entrypoint": "x"})).await.expect(201);
    let trial = json!({"name": "mine", "policy": policy, "job_id": "z"});
    guarded.ask(zorro, "POST", "/v1/policies/try", trial.clone()).await.expect(200);
    guarded.ask(diego, "POST", "/v1/policies/try", trial).await.refused(404, "unknown_job");

    guarded.ask(admin, "PUT", "/v1/policies/mine", policy).await.expect(200);
    guarded.ask(admin, "DELETE", "/v1/policies/mine", Value::Null).await.expect(200);
    let events = guarded.world.plane().stored(|store| store.events(None, 0, 100)).await.unwrap();
    let told: Vec<Value> = events.iter().map(|event| serde_json::from_str(&event.body).unwrap()).collect();
    let told: Vec<_> = told.iter().filter(|event| event["type"] == "policy").collect();
    let shown = |event: &Value| {
        let field = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        [field("policy"), field("change"), field("owner"), field("message")]
    };
    let kinds: Vec<_> = events.iter().map(crate::engine::events::kind).collect();
    assert_eq!(kinds, ["cluster", "cluster", "job", "policy", "policy"], "as the stream names them");
    assert_eq!(shown(told[0]), ["mine", "registered", "root", "filter true"]);
    assert_eq!(shown(told[1]), ["mine", "removed", "root", ""]);
}
