//! Lists: by owner and time, with the reasons of queued jobs.

use serde_json::{Value, json};

use super::{World, access::Guarded};

fn ids(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_list_has_the_jobs_of_a_time() {
    let world = World::new().await;
    for id in ["early", "late"] {
        world.queued(json!({"id": id, "entrypoint": "x"})).await;
        // Jobs of one millisecond cannot be told apart by time.
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    world.post("/v1/jobs/early/stop", json!({})).await.expect(202);
    let job = async |id: &str| world.get(&format!("/v1/jobs/{id}")).await.expect(200);
    let (early, late) = (job("early").await, job("late").await);
    let ended = early["ended_at"].as_u64().unwrap();
    let submitted = late["submitted_at"].as_u64().unwrap();
    for (query, found) in [
        (format!("since={ended}"), vec!["late", "early"]),
        // It is still queued, however long ago it was submitted.
        (format!("since={}", ended + 1), vec!["late"]),
        (format!("until={submitted}"), vec!["early"]),
        (format!("until={}", submitted + 1), vec!["late", "early"]),
        (format!("since={}&until={submitted}", ended + 1), vec![]),
        (format!("state=stopped&since={ended}&q=early"), vec!["early"]),
    ] {
        let page = world.get(&format!("/v1/jobs?{query}")).await.expect(200);
        assert_eq!(ids(&page), found, "{query}");
    }
    let problem = world.get("/v1/jobs?since=yesterday").await.refused(400, "bad_query");
    assert!(problem["hint"].as_str().unwrap().contains("ms since 1970"), "{problem}");
}

#[tokio::test]
async fn queued_jobs_say_in_one_line_why_they_wait() {
    let world = World::new().await;
    world.polled("mac", 8.0).await;
    world.queued(json!({"id": "never", "entrypoint": "x", "needs": {"CPU": 16}})).await;
    world
        .queued(json!({"id": "picky", "entrypoint": "x", "preferred_cluster": "centos", "required": true}))
        .await;
    let page = world.get("/v1/jobs").await.expect(200);
    let why = |at: usize| page["items"][at]["waits_for"].as_str().unwrap().to_owned();
    // That mac is not what it asks for is no news.
    assert_eq!(why(0), "centos: has not answered a poll yet");
    assert!(why(1).starts_with("centos: has not answered a poll yet; mac: "), "{}", why(1));
    world.post("/v1/jobs/never/stop", json!({})).await.expect(202);
    let ended = world.get("/v1/jobs?state=stopped").await.expect(200);
    assert!(ended["items"][0].get("waits_for").is_none(), "{ended}");
}

#[tokio::test]
async fn a_list_has_the_jobs_of_one_owner() {
    let guarded = Guarded::with("of-owner", "", 4096).await;
    let Guarded { read, zorro, diego, .. } = &guarded;
    for (token, id) in [(zorro, "z"), (diego, "d")] {
        guarded.ask(token, "POST", "/v1/jobs", json!({"id": id, "entrypoint": "x"})).await.expect(201);
    }
    let listed = async |token: &str, owner: &str| {
        let page = guarded.get(token, &format!("/v1/jobs?owner={owner}")).await.expect(200);
        ids(&page).join(" ")
    };
    assert_eq!(listed(read, "zorro").await, "z");
    assert_eq!(listed(read, "diego").await, "d");
    assert_eq!(listed(zorro, "zorro").await, "z");
    // The work of others is not there.
    assert_eq!(listed(zorro, "diego").await, "");
}
