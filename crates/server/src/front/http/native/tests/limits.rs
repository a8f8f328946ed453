use std::{sync::mpsc, time::Duration};

use axum::{
    body::{Body, BodyDataStream},
    http::{HeaderMap, header},
};
use futures_util::{FutureExt, StreamExt, future::join_all, stream};
use serde_json::{Value, json};
use tower::Service;

use super::{World, access::Guarded, request};

fn seconds(headers: &HeaderMap) -> u64 {
    headers[header::RETRY_AFTER].to_str().unwrap().parse().unwrap()
}

async fn shed(world: &World, reason: &str) -> f64 {
    let page = world.get("/metrics").await.text;
    let name = format!("multicluster_shed_total{{reason=\"{reason}\"}} ");
    page.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
}

#[tokio::test]
async fn who_submits_too_fast_is_told_when_to_come_back_and_others_notice_nothing() {
    let guarded = Guarded::with("rate", "  submit_rate: 1/s", 4096).await;
    let Guarded { zorro, diego, .. } = &guarded;
    let job = |number: usize| json!({"id": format!("j{number}"), "entrypoint": "x"});
    for number in 0..8 {
        guarded.ask(zorro, "POST", "/v1/jobs", job(number)).await.expect(201);
    }
    let task = json!({"id": "t", "kind": "task"});
    guarded.ask(zorro, "POST", "/v1/placements", task.clone()).await.expect(201);
    // A batch is accepted as a whole, and each of its jobs counts.
    let batch = json!({"jobs": (10..20).map(job).collect::<Vec<_>>()});
    guarded.ask(zorro, "POST", "/v1/jobs/batch", batch.clone()).await.expect(200);
    for (path, body) in [
        ("/v1/jobs", job(9)),
        ("/v1/jobs/batch", batch),
        ("/v1/placements", task.clone()),
        ("/v1/placements/batch", json!({"placements": [task]})),
        ("/v1/jobs/j0/rerun", Value::Null),
    ] {
        let answer = guarded.ask(zorro, "POST", path, body).await;
        let wait = seconds(&answer.headers);
        assert!((8..=10).contains(&wait), "{path} {wait}");
        let told = answer.refused(429, "rate_limited");
        assert!(
            told["message"].as_str().unwrap().ends_with(" of zorro submits more than 1 a second"),
            "{told}"
        );
        assert!(told["hint"].as_str().unwrap().starts_with("try again in "), "{told}");
    }
    let ray = guarded.ask(zorro, "POST", "/api/jobs/", json!({"entrypoint": "x"})).await;
    assert_eq!(
        (ray.status.as_u16(), &ray.headers["content-type"]),
        (429, &"text/plain; charset=utf-8".parse().unwrap())
    );
    assert!(
        ray.text.contains("of zorro submits more than 1 a second\n  hint: try again in "),
        "{}",
        ray.text
    );
    assert!(seconds(&ray.headers) >= 8);
    assert_eq!(shed(&guarded.world, "submit_rate").await, 6.0);

    // Requests that submit nothing still work, and so do submissions of other owners.
    let beat = json!({"leases": [{"id": "t"}]});
    guarded.ask(zorro, "POST", "/v1/placements/heartbeat", beat).await.expect(200);
    guarded.ask(zorro, "POST", "/v1/jobs/j0/stop", Value::Null).await.expect(202);
    guarded.ask(diego, "POST", "/v1/jobs", json!({"entrypoint": "y"})).await.expect(201);
}

/// Whatever the reason of the refusal.
#[tokio::test]
async fn what_is_refused_does_not_count_as_submitted() {
    let guarded = Guarded::with("given-back", "  submit_rate: 1/s\n  max_queue: 3", 4096).await;
    let zorro = &guarded.zorro;
    let submit = async |path: &str, body: Value| guarded.ask(zorro, "POST", path, body).await;
    let job = |number: usize| json!({"id": format!("j{number}"), "entrypoint": "x"});
    for number in 0..3 {
        submit("/v1/jobs", job(number)).await.expect(201);
    }
    let other = json!({"id": "j0", "entrypoint": "another"});
    for number in 3..18 {
        submit("/v1/jobs", job(number)).await.refused(429, "queue_full");
        submit("/v1/jobs", json!({})).await.refused(400, "bad_body");
        submit("/v1/jobs", other.clone()).await.refused(409, "conflict");
        submit("/v1/jobs/none/rerun", Value::Null).await.refused(404, "unknown_job");
    }
    // Of a batch, only accepted jobs count.
    let jobs: Vec<_> = (0..50).map(|_| json!({"entrypoint": "y"})).collect();
    let answer = submit("/v1/jobs/batch", json!({"jobs": jobs})).await.expect(200);
    assert_eq!(answer["accepted"], 0, "{answer}");
    let tasks: Vec<_> = (0..50).map(|number| json!({"id": format!("t{number}"), "kind": "task"})).collect();
    let answer = submit("/v1/placements/batch", json!({"placements": tasks})).await.expect(200);
    assert_eq!(answer["accepted"], 3, "{answer}");
    assert_eq!(shed(&guarded.world, "submit_rate").await, 0.0);

    // Six of ten are used. A job that is known already is accepted again, and counts. A few seconds
    // may pass in the meantime.
    // pass in the meantime.
    let mut left = 0;
    while submit("/v1/jobs", job(0)).await.status == 200 {
        left += 1;
    }
    assert!((4..10).contains(&left), "{left}");
    submit("/v1/jobs", job(0)).await.refused(429, "rate_limited");
}

#[tokio::test]
async fn of_batches_and_uploads_one_owner_has_half() {
    let guarded = Guarded::with("sends", "", 4096).await;
    let Guarded { zorro, diego, .. } = &guarded;
    let send = |token: &str, method: &str, path: &str, body: Body| {
        let mut asked = request(method, path, body);
        asked.headers_mut().insert(header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
        guarded.router.clone().call(asked)
    };
    let unsent = || Body::from_stream(stream::pending::<Result<Vec<u8>, std::io::Error>>());
    for (method, path, share, reason, told) in [
        ("POST", "/v1/jobs/batch", 16, "batches", "16 batches are being sent for zorro"),
        ("PUT", "/api/packages/gcs/a.zip", 32, "uploads", "32 packages are being uploaded for zorro"),
    ] {
        let mut sending: Vec<_> = (0..share).map(|_| send(zorro, method, path, unsent())).collect();
        assert!(sending.iter_mut().all(|one| one.now_or_never().is_none()), "{path}");
        let refused = send(zorro, method, path, unsent()).now_or_never().expect("at once").unwrap();
        assert_eq!((refused.status().as_u16(), seconds(refused.headers())), (503, 2), "{path}");
        let text = axum::body::to_bytes(refused.into_body(), 1 << 20).await.unwrap();
        assert!(String::from_utf8_lossy(&text).contains(told), "{text:?}");
        assert_eq!(shed(&guarded.world, reason).await, 1.0);
        let job = || Body::from(json!({"jobs": [{"entrypoint": "x"}]}).to_string());
        assert_eq!(send(diego, method, path, job()).await.unwrap().status(), 200, "{path}");
        sending.pop();
        assert_eq!(send(zorro, method, path, job()).await.unwrap().status(), 200, "one left: {path}");
    }
}

/// As `package_store` says, also before the uploads are complete.
#[tokio::test]
async fn uploads_under_way_have_the_room_that_there_is_and_one_owner_its_share() {
    let guarded = Guarded::with("under-way", "  package_store: 4MiB\n  package_share: 0.5", 4096).await;
    let Guarded { zorro, diego, .. } = &guarded;
    let send = |token: &str, body: Body| {
        let mut asked = request("PUT", "/api/packages/gcs/a.zip", body);
        asked.headers_mut().insert(header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
        guarded.router.clone().call(asked)
    };
    let (is_written, written) = tokio::sync::oneshot::channel();
    let rest = stream::once(async move {
        is_written.send(()).unwrap();
        std::future::pending().await
    });
    let begun = stream::once(async { Ok::<_, std::io::Error>(vec![1; 2 << 20]) });
    let first = tokio::spawn(send(zorro, Body::from_stream(begun.chain(rest))));
    written.await.unwrap();
    let refused = send(zorro, vec![2; 1 << 20].into()).await.unwrap();
    assert_eq!((refused.status().as_u16(), seconds(refused.headers())), (503, 2));
    assert_eq!(shed(&guarded.world, "uploads").await, 1.0);
    assert_eq!(send(diego, vec![3; 1 << 20].into()).await.unwrap().status(), 200, "others have their share");
    first.abort();
    assert!(first.await.is_err());
    assert_eq!(send(zorro, vec![2; 1 << 20].into()).await.unwrap().status(), 200);
}

/// However many bodies there are, and however slowly they come.
#[tokio::test]
async fn of_what_is_being_sent_so_much_is_kept_and_one_owner_has_half() {
    let guarded = Guarded::with("bodies", "", 4096).await;
    let Guarded { zorro, diego, .. } = &guarded;
    let send = |token: &str, path: &str, bytes: usize| {
        let begun = stream::once(async move { Ok::<_, std::io::Error>(vec![b' '; bytes]) });
        let mut asked = request("POST", path, Body::from_stream(begun.chain(stream::pending())));
        asked.headers_mut().insert(header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
        guarded.router.clone().call(asked)
    };
    let paths = ["/v1/placements/heartbeat", "/api/jobs/", "/v1/jobs/batch"];
    let mut sending: Vec<_> = (0..32).map(|number| send(zorro, paths[number % 3], 4 << 20)).collect();
    assert!(sending.iter_mut().all(|one| one.now_or_never().is_none()));
    for path in paths {
        let refused = send(zorro, path, 20 << 10).await.unwrap();
        assert_eq!((refused.status().as_u16(), seconds(refused.headers())), (503, 2), "{path}");
        let text = axum::body::to_bytes(refused.into_body(), 1 << 20).await.unwrap();
        let text = String::from_utf8_lossy(&text);
        assert!(text.contains("134217728 bytes of requests are in memory for zorro"), "{text}");
        assert!(send(diego, path, 4 << 20).now_or_never().is_none(), "others have room");
    }
    assert_eq!(shed(&guarded.world, "bodies").await, 3.0);
    // Small bodies do not count.
    guarded.ask(zorro, "POST", "/v1/jobs", json!({"entrypoint": "x"})).await.expect(201);
    sending.pop();
    assert!(send(zorro, paths[0], 4 << 20).now_or_never().is_none(), "one left");
    drop(sending);
    let large = json!({"entrypoint": "x", "metadata": {"x": "x".repeat(16 << 10)}});
    guarded.ask(zorro, "POST", "/v1/jobs", large).await.expect(201);
}

/// A stream, once its answer has begun.
async fn open(guarded: &Guarded, token: &str, path: &str) -> Result<BodyDataStream, u16> {
    let mut asked = request("GET", path, Body::empty());
    asked.headers_mut().insert(header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
    let response = guarded.router.clone().call(asked).await.unwrap();
    if response.status() == 200 {
        return Ok(response.into_body().into_data_stream());
    }
    assert!(seconds(response.headers()) > 0);
    Err(response.status().as_u16())
}

#[tokio::test]
async fn there_are_so_many_watchers_and_one_owner_has_half_of_them() {
    let guarded = Guarded::with("watchers", "", 16).await;
    let Guarded { zorro, diego, read, .. } = &guarded;
    let watch = async |token: &str| open(&guarded, token, "/v1/events?after=0").await;
    let mut own = Vec::new();
    for _ in 0..6 {
        own.push(watch(zorro).await.unwrap());
    }
    assert_eq!(watch(zorro).await.err(), Some(503), "one owner has as many as it may have");
    let mut others = Vec::new();
    for token in [diego, diego, diego, read, read, read] {
        others.push(watch(token).await.unwrap());
    }
    assert_eq!(watch(diego).await.err(), Some(503), "all are taken");
    assert_eq!(shed(&guarded.world, "watchers").await, 2.0);
    assert!(own[0].next().await.is_some(), "those there are go on");
    own.pop();
    assert!(watch(zorro).await.is_ok(), "one left");
    drop(others);
}

#[tokio::test]
async fn there_are_so_many_followers_and_so_many_who_wait() {
    let guarded = Guarded::with("followers", "", 16).await;
    let Guarded { zorro, diego, .. } = &guarded;
    guarded.ask(zorro, "POST", "/v1/jobs", json!({"id": "z", "entrypoint": "x"})).await.expect(201);
    let follow = async || open(&guarded, zorro, "/v1/jobs/z/logs/follow").await;
    let mut following = Vec::new();
    for _ in 0..6 {
        following.push(follow().await.unwrap());
    }
    assert_eq!(follow().await.err(), Some(503));
    let tail = guarded.get(zorro, "/api/jobs/z/logs/tail").await;
    assert_eq!(tail.status, 400, "what is no WebSocket takes no place");
    drop(following);
    assert!(follow().await.is_ok());

    let wait = async |patience: &str| {
        let path = format!("/v1/jobs/z/wait?timeout={patience}");
        guarded.get(zorro, &path).await.status.as_u16()
    };
    let waits = join_all((0..7).map(|_| wait("500ms"))).await;
    assert_eq!(waits, [200; 7], "for whom there is no place, it is answered as it stands");
    assert_eq!(wait("1ms").await, 200);
    // Accepted work is not refused when there is no place to wait.
    let ask = async |id: &str| {
        let task = json!({"id": id, "kind": "task"});
        guarded.ask(diego, "POST", "/v1/placements?wait=500ms", task).await.expect(201)["status"].clone()
    };
    assert_eq!(join_all(["a", "b", "c", "d", "e", "f", "g"].map(ask)).await, vec![json!("queued"); 7]);
    assert!(shed(&guarded.world, "long_polls").await >= 2.0);
}

/// The driver is blocked, and as many looks wait as may.
#[tokio::test]
async fn whoever_cannot_be_heard_is_sent_away_in_time_and_heard_again_later() {
    let world = World::new().await;
    let (go_on, stands_still) = mpsc::channel::<()>();
    let driver = world.plane().driver.clone();
    let blocking = tokio::spawn(async move { driver.read(move |_| stands_still.recv().is_err()).await });
    let ask = |_| {
        let driver = world.plane().driver.clone();
        tokio::spawn(async move { driver.read(|_| ()).await })
    };
    let crowd: Vec<_> = (0..6000).map(ask).collect();
    while world.plane().driver.has_room_for_looks() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let began = std::time::Instant::now();
    let answer = world.get("/v1/queue").await;
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
    assert!(seconds(&answer.headers) > 0);
    answer.refused(503, "overloaded");
    assert_eq!(world.get("/healthz").await.status, 200);
    drop(go_on);
    assert!(blocking.await.unwrap().unwrap());
    let answers = join_all(crowd).await;
    let heard = answers.iter().filter(|answer| answer.as_ref().unwrap().is_ok()).count();
    // All that were in line.
    assert!((4000..6000).contains(&heard), "{heard}");
    world.get("/v1/queue").await.expect(200);
    assert!(shed(&world, "overload").await > 1.0);
}

/// However slowly it is read, a large answer holds a place while it is being sent.
#[tokio::test]
async fn so_many_large_answers_are_on_their_way_at_a_time() {
    let world = World::new().await;
    for number in 0..100 {
        let metadata = json!({"x": "x".repeat(16 << 10)});
        world.queued(json!({"id": format!("j{number}"), "entrypoint": "x", "metadata": metadata})).await;
    }
    let path = "/v1/jobs?limit=1000";
    let asked = (0..32).map(|_| world.router.clone().call(request("GET", path, Body::empty())));
    let unread = join_all(asked.collect::<Vec<_>>()).await;
    assert!(unread.iter().all(|answer| answer.as_ref().unwrap().status() == 200));
    world.get(path).await.refused(503, "busy");
    world.get("/v1/jobs?limit=10").await.expect(200);
    drop(unread);
    world.get(path).await.expect(200);
    assert_eq!(shed(&world, "large_answers").await, 1.0);
}

/// Ray's clients do not know pages: they get one answer, however many jobs there are.
#[tokio::test]
async fn a_list_for_rays_clients_is_a_large_answer_of_which_one_page_is_held() {
    let world = World::new().await;
    for number in 0..4 {
        let variables = json!({"X": "x".repeat(900 << 10)});
        let job =
            json!({"id": format!("j{number}"), "entrypoint": "x", "runtime_env": {"env_vars": variables}});
        world.queued(job).await;
    }
    let ask = || world.router.clone().call(request("GET", "/api/jobs/", Body::empty()));
    let mut unread = join_all((0..32).map(|_| ask())).await;
    let refused = ask().await.unwrap();
    assert_eq!((refused.status().as_u16(), seconds(refused.headers())), (503, 2));
    assert_eq!(shed(&world, "large_answers").await, 1.0);

    // The second page is read when the first was taken, not before.
    let mut list = unread.pop().unwrap().unwrap().into_body().into_data_stream();
    let begin = list.next().await.unwrap().unwrap();
    world.post("/v1/jobs/j0/stop", Value::Null).await.expect(202);
    world.delete("/v1/jobs/j0").await.expect(204);
    let all: Vec<u8> = stream::once(async { Ok(begin) })
        .chain(list)
        .flat_map(|piece| stream::iter(piece.unwrap()))
        .collect()
        .await;
    let listed: Vec<Value> = serde_json::from_slice(&all).unwrap();
    let ids: Vec<_> = listed.iter().map(|job| job["submission_id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["j3", "j2", "j1"]);
    drop(unread);
    assert_eq!(ask().await.unwrap().status(), 200);
}
