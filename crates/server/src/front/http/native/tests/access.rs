use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use axum::{
    Router,
    body::Body,
    http::{Request, header},
};
use multicluster_store::Reader;
use multicluster_types::{Owner, Priority};
use serde_json::{Value, json};

use super::{Heard, World, request, send};
use crate::front::{
    access::{Access, COOKIE, Limits, Role, Tokens},
    bounds::Bounds,
    http,
    plane::Plane,
};

/// A control plane with tokens: one of each role, and two of role submit.
pub(super) struct Guarded {
    pub(super) world: World,
    plane: Plane,
    pub(super) router: Router,
    file: PathBuf,
    pub(super) read: String,
    pub(super) zorro: String,
    pub(super) diego: String,
    pub(super) admin: String,
}

impl Guarded {
    async fn new(name: &str) -> Self {
        Self::with(name, "", 4096).await
    }

    /// With these additional settings, and this many connections.
    pub(super) async fn with(name: &str, settings: &str, connections: usize) -> Self {
        let file = std::env::temp_dir().join(format!("guarded-{}-{name}/tokens.json", std::process::id()));
        let token = |owner: &str, role| {
            Tokens::create(&file, Owner::new(owner).unwrap(), role, Limits::default()).unwrap().0
        };
        let (read, admin) = (token("grafana", Role::Read), token("root", Role::Admin));
        let (zorro, diego) = (token("zorro", Role::Submit), token("diego", Role::Submit));
        let world = World::with(settings).await;
        let mut plane = world.plane().clone();
        let settings = plane.driver.read(|core| core.settings().clone()).await.unwrap();
        plane.bounds = Bounds::new(connections, &settings, plane.metrics.clone());
        plane.access = Access::by_file(&file, false).unwrap();
        let router = http::router(plane.clone(), "127.0.0.1:8700".parse().unwrap(), &[]);
        Self { world, plane, router, file, read, zorro, diego, admin }
    }

    /// The same, but callers read from this reader.
    pub(super) fn reading(mut self, reader: Arc<dyn Reader>) -> Self {
        self.plane.reader = reader;
        self.router = http::router(self.plane.clone(), "127.0.0.1:8700".parse().unwrap(), &[]);
        self
    }

    pub(super) async fn ask(&self, token: &str, method: &str, path: &str, body: Value) -> Heard {
        let body = if body.is_null() { Body::empty() } else { body.to_string().into() };
        let mut request = request(method, path, body);
        if !token.is_empty() {
            let bearer = format!("Bearer {token}").parse().unwrap();
            request.headers_mut().insert(header::AUTHORIZATION, bearer);
        }
        send(&self.router, request).await
    }

    pub(super) async fn get(&self, token: &str, path: &str) -> Heard {
        self.ask(token, "GET", path, Value::Null).await
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(self.file.parent().unwrap()));
    }
}

/// Routes outside the native API. The others come from its OpenAPI document.
const OTHERS: [&str; 17] = [
    "/",
    "/login",
    "/logout",
    "/favicon.svg",
    "/assets/{*path}",
    "/metrics",
    "/healthz",
    "/readyz",
    "/api/version",
    "/api/jobs/",
    "/api/jobs/{id}",
    "/api/jobs/{id}/stop",
    "/api/jobs/{id}/logs",
    "/api/jobs/{id}/logs/tail",
    "/api/packages/{protocol}/{name}",
    "/api/authentication_mode",
    "/v1/openapi.json",
];

/// Every route with every method: only two answer without a token.
#[tokio::test]
async fn no_route_answers_without_a_token() {
    let guarded = Guarded::new("routes").await;
    let document = guarded.get(&guarded.read, "/v1/openapi.json").await.expect(200);
    let native = document["paths"].as_object().unwrap().keys().cloned();
    let paths: Vec<_> = native.chain(OTHERS.map(str::to_owned)).collect();
    assert!(paths.len() > 45, "{}", paths.len());
    let mut open = Vec::new();
    for path in paths {
        let path = path.replace("{id}", "x").replace("{name}", "mac").replace("{protocol}", "gcs");
        let path = path.replace("{*path}", "x.js");
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
            let answer = guarded.ask("", method, &path, Value::Null).await;
            let is_shown_the_way =
                path == "/" && answer.headers.get("location").is_some_and(|to| to == "/login");
            if answer.status != 401 && !is_shown_the_way {
                open.push((path.clone(), method));
            }
        }
    }
    open.retain(|(path, _)| path != "/healthz" && path != "/login");
    assert!(open.is_empty(), "{open:?}");
}

#[tokio::test]
async fn each_role_does_what_it_is_for_and_is_told_what_it_is_not() {
    let guarded = Guarded::new("roles").await;
    let Guarded { read, zorro, admin, .. } = &guarded;
    let job = json!({"entrypoint": "x"});
    let told = guarded.ask(read, "POST", "/v1/jobs", job.clone()).await.refused(403, "forbidden");
    assert_eq!(told["hint"], "POST /v1/jobs needs the role submit or admin");
    guarded.ask(zorro, "POST", "/v1/jobs", job.clone()).await.expect(201);
    guarded.ask(zorro, "POST", "/v1/clusters/mac/cordon", Value::Null).await.refused(403, "forbidden");
    guarded.ask(admin, "POST", "/v1/clusters/mac/cordon", Value::Null).await.expect(200);
    guarded.get(read, "/v1/clusters/mac/connection").await.refused(403, "forbidden");
    guarded.get(zorro, "/v1/clusters/mac/connection").await.expect(200);
    let who = guarded.get(zorro, "/v1/version").await.expect(200);
    assert_eq!((&who["owner"], &who["role"]), (&json!("zorro"), &json!("submit")));
    guarded.get("rmc_guess", "/v1/jobs").await.refused(403, "bad_token");
    guarded.get("", "/v1/jobs").await.refused(401, "no_token");
}

#[tokio::test]
async fn who_submits_sees_and_stops_its_own_alone() {
    let guarded = Guarded::new("own").await;
    let Guarded { read, zorro, diego, admin, .. } = &guarded;
    for (token, id) in [(zorro, "z"), (diego, "d")] {
        let job = json!({"id": id, "entrypoint": "x"});
        guarded.ask(token, "POST", "/v1/jobs", job).await.expect(201);
        let task = json!({"id": format!("{id}-task"), "kind": "task"});
        guarded.ask(token, "POST", "/v1/placements", task).await.expect(201);
    }
    let ids = async |token: &str, path: &str| {
        let answer = guarded.get(token, path).await.expect(200);
        let items = answer.as_array().or(answer["items"].as_array()).unwrap().clone();
        let id = |item: &Value| item["id"].as_str().or(item["submission_id"].as_str()).unwrap().to_owned();
        let mut ids: Vec<_> = items.iter().map(id).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(zorro, "/v1/jobs").await, ["z", "z-task"]);
    assert_eq!(ids(zorro, "/api/jobs/").await, ["z"]);
    for all in [read, admin] {
        assert_eq!(ids(all, "/v1/jobs").await, ["d", "d-task", "z", "z-task"]);
    }
    assert_eq!(guarded.get(admin, "/v1/jobs/d").await.expect(200)["owner"], "diego");

    for (method, path) in [
        ("GET", "/v1/jobs/d"),
        ("GET", "/v1/jobs/%64"),
        ("GET", "/v1/jobs/%64/logs"),
        ("POST", "/v1/jobs/%64/stop"),
        ("DELETE", "/v1/jobs/%64"),
        ("POST", "/v1/placements/%64-task/stop"),
        ("GET", "/v1/jobs/d/logs"),
        ("GET", "/v1/jobs/d/explain"),
        ("GET", "/v1/jobs/d/events"),
        ("POST", "/v1/jobs/d/stop"),
        ("POST", "/v1/jobs/d/rerun"),
        ("DELETE", "/v1/jobs/d"),
        ("GET", "/v1/placements/d-task"),
        ("POST", "/v1/placements/d-task/stop"),
    ] {
        guarded.ask(zorro, method, path, Value::Null).await.refused(404, "unknown_job");
    }
    for path in ["/api/jobs/d/stop", "/api/jobs/%64/stop"] {
        let ray = guarded.ask(zorro, "POST", path, Value::Null).await;
        assert_eq!((ray.status.as_u16(), ray.text.contains("does not exist")), (404, true), "{path}");
    }

    let theirs = json!({"leases": [{"id": "d-task"}, {"id": "z-task"}]});
    let beats = guarded.ask(zorro, "POST", "/v1/placements/heartbeat", theirs).await.expect(200);
    assert_eq!(
        (&beats["leases"][0]["status"], &beats["leases"][1]["status"]),
        (&json!("gone"), &json!("queued"))
    );
    let stop = json!({"ids": ["d-task"]});
    let stopped = guarded.ask(zorro, "POST", "/v1/placements/stop", stop).await.expect(200);
    assert_eq!(stopped["leases"][0]["status"], "gone");

    let queue = guarded.get(zorro, "/v1/queue").await.expect(200).to_string();
    assert!(queue.contains("\"z\"") && !queue.contains("\"d\""), "{queue}");
    guarded.world.polled("mac", 8.0).await;
    let about = async |token: &str| {
        let page = guarded.get(token, "/v1/decisions").await.expect(200);
        page["items"].as_array().unwrap().iter().map(|item| item["job"].to_string()).collect::<BTreeSet<_>>()
    };
    assert_eq!(about(read).await.len(), 4);
    assert_eq!(about(zorro).await, BTreeSet::from([json!("z").to_string(), json!("z-task").to_string()]));

    guarded.ask(zorro, "POST", "/v1/jobs/z/stop", Value::Null).await.expect(202);
    guarded.ask(admin, "POST", "/v1/jobs/d/stop", Value::Null).await.expect(202);
}

#[tokio::test]
async fn what_somebody_else_has_is_neither_taken_over_nor_told() {
    let guarded = Guarded::new("ids").await;
    let Guarded { zorro, diego, .. } = &guarded;
    let job = json!({"id": "nightly", "entrypoint": "x"});
    guarded.ask(zorro, "POST", "/v1/jobs", job.clone()).await.expect(201);
    guarded.ask(zorro, "POST", "/v1/jobs", job.clone()).await.expect(200);
    guarded.ask(diego, "POST", "/v1/jobs", job).await.refused(409, "conflict");
    let same = json!({"entrypoint": "y"});
    let first = guarded.ask(zorro, "POST", "/v1/jobs", same.clone()).await.expect(201);
    let second = guarded.ask(diego, "POST", "/v1/jobs", same).await.expect(201);
    assert_ne!(first["id"], second["id"], "the same content, of two owners, is two jobs");
}

/// Knowing the name of another owner's package is not enough to read or replace it.
#[tokio::test]
async fn packages_are_their_owners() {
    let guarded = Guarded::new("packages").await;
    let Guarded { zorro, diego, .. } = &guarded;
    let put = async |token: &str, content: &str| {
        let mut request = request("PUT", "/api/packages/gcs/_ray_pkg_1.zip", content.to_owned().into());
        let bearer = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().insert(header::AUTHORIZATION, bearer);
        assert_eq!(send(&guarded.router, request).await.status, 200);
    };
    let find =
        async |token: &str| guarded.get(token, "/api/packages/gcs/_ray_pkg_1.zip").await.status.as_u16();
    let job = json!({"entrypoint": "x", "runtime_env": {"working_dir": "gcs://_ray_pkg_1.zip"}});
    put(diego, "diego's").await;
    assert_eq!((find(diego).await, find(zorro).await), (200, 404));
    guarded.ask(zorro, "POST", "/v1/jobs", job.clone()).await.refused(400, "missing_package");

    put(zorro, "zorro's").await;
    let sent = async |token: &str| {
        let id = guarded.ask(token, "POST", "/v1/jobs", job.clone()).await.expect(201)["id"].clone();
        let path = format!("/v1/jobs/{}", id.as_str().unwrap());
        guarded.get(token, &path).await.expect(200)["packages"]["gcs://_ray_pkg_1.zip"].clone()
    };
    assert_ne!(sent(diego).await, sent(zorro).await);
}

#[tokio::test]
async fn the_login_page_is_in_the_language_of_the_browser() {
    let guarded = Guarded::new("login-zh").await;
    let ask = async |method: &str, language: &str| {
        let mut asked: Request<Body> = request(method, "/login", "token=guess".to_owned().into());
        let kind = "application/x-www-form-urlencoded".parse().unwrap();
        asked.headers_mut().insert(header::CONTENT_TYPE, kind);
        asked.headers_mut().insert(header::ACCEPT_LANGUAGE, language.parse().unwrap());
        send(&guarded.router, asked).await.text
    };
    for (language, lang, button, why) in [
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh-CN", "登录", "令牌不存在、已撤销或已过期。"),
        ("de, en;q=0.5", "en", "Log in", "This token is unknown, revoked or expired."),
    ] {
        let page = ask("GET", language).await;
        assert!(page.contains(&format!("<html lang=\"{lang}\">")), "{page}");
        assert!(page.contains(&format!("<button>{button}</button>")) && !page.contains(why), "{page}");
        // The form goes to the page's own address, which has what is after the `#`.
        assert!(page.contains("<form method=\"post\">"), "{page}");
        let refused = ask("POST", language).await;
        assert!(refused.contains(why) && refused.contains(button), "{refused}");
        for place in ["%lang%", "%intro%", "%said%", "%label%", "%button%"] {
            assert!(!page.contains(place) && !refused.contains(place), "{place}");
        }
    }
}

#[tokio::test]
async fn people_log_in_with_a_token_that_their_browser_keeps() {
    let guarded = Guarded::new("login").await;
    let page = guarded.get("", "/login").await;
    assert!(!page.headers["content-security-policy"].to_str().unwrap().contains("script"));
    assert!(page.text.contains("name=\"token\""));
    let post = async |body: String| {
        let mut request: Request<Body> = request("POST", "/login", body.into());
        let kind = "application/x-www-form-urlencoded".parse().unwrap();
        request.headers_mut().insert(header::CONTENT_TYPE, kind);
        send(&guarded.router, request).await
    };
    let refused = post("token=guess".to_owned()).await;
    assert_eq!(refused.status, 403);
    assert!(refused.text.contains("unknown, revoked or expired") && !refused.text.contains("guess"));
    assert_eq!(
        post(format!("token={}", "x".repeat(20 << 10))).await.status,
        413,
        "nor is more kept of a stranger"
    );

    let welcome = post(format!("token={}", guarded.admin)).await;
    assert_eq!((welcome.status.as_u16(), &welcome.headers["location"]), (303, &"/".parse().unwrap()));
    let cookie = welcome.headers["set-cookie"].to_str().unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let mut with_cookie = request("GET", "/v1/jobs", Body::empty());
    let session = cookie.split(';').next().unwrap();
    assert!(session.starts_with(COOKIE) && !cookie.contains(&guarded.admin), "{cookie}");
    with_cookie.headers_mut().insert(header::COOKIE, session.parse().unwrap());
    send(&guarded.router, with_cookie).await.expect(200);
    let asks = async |method: &str, path: &str| {
        let mut with_cookie = request(method, path, Body::empty());
        with_cookie.headers_mut().insert(header::COOKIE, session.parse().unwrap());
        send(&guarded.router, with_cookie).await
    };
    assert_eq!(asks("POST", "/logout").await.status, 303);
    asks("GET", "/v1/jobs").await.refused(401, "no_token");
    // A world of its own, so that it lives as long as its router.
    assert_eq!(guarded.world.get("/login").await.status, 303, "nothing to do where there are no tokens");
}

#[tokio::test]
async fn a_token_cannot_pass_others_by_a_priority_above_its_own() {
    let mut guarded = Guarded::new("priority").await;
    let limits = Limits { max_priority: Some(Priority(5)), ..Limits::default() };
    let owner = Owner::new("modest").unwrap();
    let (modest, _) = Tokens::create(&guarded.file, owner, Role::Submit, limits).unwrap();
    guarded.plane.access = Access::by_file(&guarded.file, false).unwrap();
    guarded.router = http::router(guarded.plane.clone(), "127.0.0.1:8700".parse().unwrap(), &[]);

    let by_hint = json!({"entrypoint": "x", "metadata": {"multicluster.priority": "6"}});
    for (path, body) in [
        ("/v1/jobs", json!({"entrypoint": "x", "priority": 6})),
        ("/v1/jobs", by_hint.clone()),
        ("/v1/placements", json!({"kind": "task", "priority": 6})),
    ] {
        let refused = guarded.ask(&modest, "POST", path, body).await.refused(403, "priority_too_high");
        assert!(
            refused["message"]
                .as_str()
                .unwrap()
                .starts_with("this token may ask for a priority up to 5, not 6"),
            "{refused}"
        );
    }
    guarded.ask(&modest, "POST", "/api/jobs/", by_hint).await.expect(403);
    for (path, list, work) in [
        ("/v1/jobs/batch", "jobs", json!({"entrypoint": "x"})),
        ("/v1/placements/batch", "placements", json!({"kind": "task"})),
    ] {
        let each = [5, 6].map(|priority| {
            let mut work = work.clone();
            work["priority"] = json!(priority);
            work
        });
        let answer = guarded.ask(&modest, "POST", path, json!({list: each})).await.expect(200);
        assert_eq!((&answer["accepted"], &answer["refused"]), (&json!(1), &json!(1)), "{answer}");
        assert_eq!(answer["results"][1]["error"]["code"], "priority_too_high", "{answer}");
    }
    guarded.ask(&modest, "POST", "/v1/jobs", json!({"entrypoint": "y", "priority": 5})).await.expect(201);
    guarded
        .ask(&guarded.zorro, "POST", "/v1/jobs", json!({"entrypoint": "x", "priority": 6}))
        .await
        .expect(201);
}
