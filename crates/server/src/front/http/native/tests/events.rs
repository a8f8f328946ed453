use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tower::Service;

use super::{World, access::Guarded, request};

/// Reads a stream of events as a client would.
struct Client {
    chunks: BodyDataStream,
    text: String,
}

impl Client {
    async fn open(world: &World, path: &str, last: Option<u64>) -> Self {
        let mut request = request("GET", path, Body::empty());
        if let Some(last) = last {
            request.headers_mut().insert("last-event-id", last.into());
        }
        let response = world.router.clone().call(request).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { chunks: response.into_body().into_data_stream(), text: String::new() }
    }

    async fn next(&mut self) -> (u64, Value) {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let field =
                    |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                // The first one may be a number alone.
                let parsed = field("id:").zip(field("data:"));
                let parsed = parsed.map(|(id, data)| (id.parse().unwrap(), data.to_owned()));
                self.text = rest.to_owned();
                if let Some((id, data)) = parsed {
                    return (id, serde_json::from_str(&data).unwrap());
                }
                continue;
            }
            let chunk = tokio::time::timeout(Duration::from_secs(10), self.chunks.next()).await;
            let chunk = chunk.expect("an event in time").expect("more events").unwrap();
            self.text += std::str::from_utf8(&chunk).unwrap();
        }
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_before_its_first_event_has_a_number_to_resume_from() {
    let world = World::new().await;
    let mut broken = Client::open(&world, "/v1/events", None).await;
    let chunk = tokio::time::timeout(Duration::from_secs(10), broken.chunks.next()).await;
    let text = String::from_utf8(chunk.expect("at once").unwrap().unwrap().to_vec()).unwrap();
    let from = text.trim().strip_prefix("id: ").expect("a number alone").parse().unwrap();
    drop(broken);
    world.queued(json!({"id": "a", "entrypoint": "x"})).await;
    let (seq, event) = Client::open(&world, "/v1/events", Some(from)).await.next().await;
    assert_eq!((seq, &event["job"]), (from + 1, &json!("a")));
}

#[tokio::test]
async fn a_stream_tells_what_happens_and_resumes_where_it_ended() {
    let world = World::new().await;
    let mut live = Client::open(&world, "/v1/events", None).await;
    world.queued(json!({"id": "a", "entrypoint": "x"})).await;
    let (first, event) = live.next().await;
    assert_eq!(
        (&event["job"], &event["state"], event["seq"].as_u64()),
        (&json!("a"), &json!("queued"), Some(first))
    );
    world.post("/v1/jobs/a/stop", json!({})).await.expect(202);
    world.post("/v1/clusters/mac/cordon", json!({})).await.expect(200);
    let (second, event) = live.next().await;
    assert_eq!((second, &event["state"]), (first + 1, &json!("stopped")));

    let mut resumed = Client::open(&world, "/v1/events", Some(first)).await;
    assert_eq!(resumed.next().await, (second, event));
    assert_eq!(resumed.next().await.1["change"], "cordoned");
    let mut all = Client::open(&world, "/v1/events?after=0", None).await;
    assert_eq!(all.next().await.1["type"], "cluster");
    let mut one = Client::open(&world, "/v1/events?after=0&job=a", None).await;
    assert_eq!((one.next().await.0, one.next().await.0), (first, second));
    world.queued(json!({"id": "b", "entrypoint": "x"})).await;
    world.post("/v1/jobs/a/rerun", json!({})).await.expect(202);
    assert_eq!(one.next().await.1["state"], "queued");

    let listed = world.get("/v1/jobs/a/events?limit=2").await.expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    assert_eq!(listed["last_seq"], second);
    let rest = world.get(&format!("/v1/jobs/a/events?after={second}")).await.expect(200);
    assert_eq!(rest["items"][0]["state"], "queued");
}

#[tokio::test]
async fn the_events_of_an_earlier_job_of_the_same_id_do_not_hide_those_of_the_present_one() {
    let world = World::new().await;
    world.queued(json!({"id": "a", "entrypoint": "x"})).await;
    world.post("/v1/jobs/a/stop", json!({})).await.expect(202);
    for _ in 0..3 {
        world.post("/v1/jobs/a/rerun", json!({})).await.expect(202);
        world.post("/v1/jobs/a/stop", json!({})).await.expect(202);
    }
    world.delete("/v1/jobs/a").await.expect(204);
    tokio::time::sleep(Duration::from_millis(5)).await; // Lives differ by their time.
    world.queued(json!({"id": "a", "entrypoint": "y"})).await;
    world.post("/v1/jobs/a/stop", json!({})).await.expect(202);
    let (mut after, mut states) = (0, Vec::new());
    loop {
        let page = world.get(&format!("/v1/jobs/a/events?limit=1&after={after}")).await.expect(200);
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 1, "{items:?}");
        let Some(event) = items.first() else { break };
        states.push(event["state"].clone());
        assert!(page["last_seq"].as_u64().unwrap() > after);
        after = page["last_seq"].as_u64().unwrap();
    }
    assert_eq!(states, ["queued", "stopped"]);
}

#[tokio::test]
async fn a_stream_of_some_jobs_tells_of_no_other() {
    let world = World::new().await;
    for id in ["a", "b", "c"] {
        world.queued(json!({"id": id, "entrypoint": "x"})).await;
    }
    let mut some = Client::open(&world, "/v1/events?after=0&job=c&job=a&job=later,a", None).await;
    let mut live = Client::open(&world, "/v1/events?job=c&job=later", None).await;
    world.queued(json!({"id": "later", "entrypoint": "x"})).await;
    world.post("/v1/clusters/mac/cordon", json!({})).await.expect(200);
    world.post("/v1/jobs/b/stop", json!({})).await.expect(202);
    world.post("/v1/jobs/c/stop", json!({})).await.expect(202);
    for (job, state) in [("a", "queued"), ("c", "queued"), ("later", "queued"), ("c", "stopped")] {
        let (_, event) = some.next().await;
        assert_eq!((&event["job"], &event["state"]), (&json!(job), &json!(state)));
    }
    let mut told = Vec::new();
    while told.last() != Some(&json!(["c", "stopped"])) {
        let (_, event) = live.next().await;
        told.push(json!([event["job"], event["state"]]));
    }
    // Callers are answered before watchers get the event, so the first event of c may be here, too.
    told.retain(|event| *event != json!(["c", "queued"]));
    assert_eq!(told, [json!(["later", "queued"]), json!(["c", "stopped"])]);

    let naming = |count: usize| (0..count).map(|n| format!("job=j{n}")).collect::<Vec<_>>().join("&");
    Client::open(&world, &format!("/v1/events?{}", naming(1000)), None).await;
    let problem = world.get(&format!("/v1/events?{}", naming(1001))).await.refused(400, "bad_query");
    assert_eq!(problem["message"], "1001 jobs given");
    world.get("/v1/events?job=a&job=../b").await.refused(400, "bad_query");
}

/// More events than fit in memory happen while the client does not read.
#[tokio::test]
async fn a_slow_watcher_misses_nothing() {
    let world = World::new().await;
    let mut from_now = Client::open(&world, "/v1/events", None).await;
    let mut from_start = Client::open(&world, "/v1/events?after=0", None).await;
    for round in 0..3 {
        let jobs: Vec<_> =
            (0..4000).map(|n| json!({"id": format!("j{round}-{n}"), "entrypoint": "x"})).collect();
        assert_eq!(world.post("/v1/jobs/batch", json!({"jobs": jobs})).await.expect(200)["accepted"], 4000);
    }
    let mut last = 0;
    for number in 0..12_000 {
        let (seq, event) = from_now.next().await;
        assert_eq!(event["job"], format!("j{}-{}", number / 4000, number % 4000));
        assert!(last == 0 || seq == last + 1, "{last} {seq}");
        last = seq;
    }
    let mut before = from_start.next().await.0;
    while before < last {
        let (seq, _) = from_start.next().await;
        assert_eq!(seq, before + 1);
        before = seq;
    }
}

#[tokio::test]
async fn events_say_whose_job_it_is_and_who_did_it() {
    let guarded = Guarded::with("who", "", 4096).await;
    let Guarded { zorro, admin, .. } = &guarded;
    let from = guarded.world.plane().events.newest();
    let job = json!({"id": "z", "entrypoint": "x"});
    guarded.ask(zorro, "POST", "/v1/jobs", job).await.expect(201);
    guarded.ask(admin, "POST", "/v1/jobs/z/stop", json!({})).await.expect(202);
    let drained = guarded.ask(admin, "POST", "/v1/clusters/mac/drain", json!({})).await.expect(200);
    assert_eq!(drained["cordoned"], "by root");
    guarded.ask(admin, "POST", "/v1/clusters/mac/cordon", json!({"note": "disk swap"})).await.expect(200);

    let events = guarded.world.plane().stored(move |store| store.events(None, from, 100)).await.unwrap();
    let events: Vec<Value> = events.iter().map(|event| serde_json::from_str(&event.body).unwrap()).collect();
    let told = |what: &str| {
        let is_it = |event: &&Value| event["state"] == what || event["change"] == what;
        let event = events.iter().find(is_it).unwrap_or_else(|| panic!("{what}: {events:?}"));
        ["owner", "by", "message"].map(|name| event[name].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(told("queued"), ["zorro", "", ""]);
    assert_eq!(told("stopped")[..2], ["zorro", "root"]);
    assert_eq!(told("draining"), ["", "root", "by root"]);
    assert_eq!(told("drained"), ["", "root", ""]);
    assert_eq!(told("cordoned"), ["", "root", "disk swap"]);
}
