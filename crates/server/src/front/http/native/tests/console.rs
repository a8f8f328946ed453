use axum::{body::Body, http::Request};

use super::{World, request};

#[tokio::test]
async fn the_console_is_at_the_root_for_those_who_may_ask() {
    let world = World::new().await;
    let page = world.get("/").await;
    assert_eq!(page.status.as_u16(), 200);
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    assert_eq!(page.headers["cache-control"], "no-cache");
    assert!(page.text.starts_with("<!doctype html>"), "{}", page.text);
    assert_eq!(world.raw(request("HEAD", "/", Body::empty())).await.status.as_u16(), 200);

    world.get("/assets/none.js").await.refused(404, "not_found");
    world.raw(request("POST", "/", Body::empty())).await.refused(405, "method_not_allowed");
    let rebound = Request::builder().uri("/").header("host", "evil.example").body(Body::empty()).unwrap();
    world.raw(rebound).await.refused(403, "host_not_allowed");
}
