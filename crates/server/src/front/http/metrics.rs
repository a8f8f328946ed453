//! `/metrics`, `/healthz`, `/readyz`.

use std::time::Duration;

use axum::{
    Extension, Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use multicluster_core::Core;
use multicluster_types::JobId;

use crate::{
    engine::driver::Failure,
    front::{access::Caller, plane::Plane},
    metrics::Seen,
};

/// Load balancers and the like do not wait longer for a readiness check.
const READY_WITHIN: Duration = Duration::from_secs(5);

pub(super) fn routes() -> Router<Plane> {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
}

async fn metrics(State(plane): State<Plane>, Extension(caller): Extension<Caller>) -> Response {
    let sees_all = caller.sees_only().is_none();
    let look = move |core: &Core| if sees_all { Seen::with_owners(core) } else { Seen::of(core) };
    let mut seen = match plane.driver.read(look).await {
        Ok(seen) => seen,
        // What a replica knows that does not lead.
        Err(Failure::NoLeader) => Seen::default(),
        Err(failure) => return (StatusCode::SERVICE_UNAVAILABLE, format!("{failure}\n")).into_response(),
    };
    seen.lead = plane.standing.seen();
    seen.is_writable = plane.driver.disk.check().is_ok();
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, kind)], plane.metrics.render(seen)).into_response()
}

/// Ready: accepted work can be written, the driver answers, and the store can be read. The answer of
/// a replica says which part it has.
async fn ready(State(plane): State<Plane>) -> Response {
    let look = async {
        plane.driver.disk.check()?;
        match plane.driver.read(|_| ()).await {
            Err(Failure::NoLeader) => {} // A follower needs only the store.
            other => other?,
        }
        plane.stored(|store| JobId::new("-").map_or(Ok(None), |nobody| store.job(&nobody))).await
    };
    let problem = match tokio::time::timeout(READY_WITHIN, look).await {
        Ok(Ok(_)) => return format!("ok{}\n", plane.standing.in_a_word()).into_response(),
        Ok(Err(failure)) => failure.to_string(),
        Err(_) => format!("no answer from the driver or the store within {READY_WITHIN:?}"),
    };
    (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {problem}\n")).into_response()
}
