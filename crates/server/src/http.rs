//! Everything that is asked over HTTP: the native API, Ray's Jobs API, metrics, the console.
//!
//! ```text
//! request ─ guard (Host, Origin, panics, latency) ─┬─ native    /v1/…
//!                                                  ├─ ray_jobs  /api/…
//!                                                  ├─ metrics   /metrics /healthz /readyz
//!                                                  └─ console   / /assets/… /favicon.svg
//! ```

pub(crate) mod body;
mod console;
pub(crate) mod error;
mod host;
mod native;
mod ray_jobs;
mod route;

use std::{net::SocketAddr, panic::AssertUnwindSafe, sync::Arc, time::Instant};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderValue, Method, StatusCode, Uri, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use futures_util::FutureExt;
use multicluster_api::codes;

use self::{error::Problem, host::Hosts, route::Routes};
use crate::{
    Plane,
    metrics::{self, Metrics},
    usage::Usage,
};

/// All routes, for a listener at this address.
pub(crate) fn router(plane: Plane, address: SocketAddr) -> Router {
    let (native, paths) = native::routes(&plane);
    let guard = Guard {
        hosts: Arc::new(Hosts::at(address)),
        routes: Arc::new(Routes::new(paths)),
        metrics: plane.metrics.clone(),
        usage: plane.usage.clone(),
    };
    native
        .merge(ray_jobs::routes().merge(metrics::routes()).with_state(plane))
        .merge(console::routes())
        .method_not_allowed_fallback(wrong_method)
        .fallback(nowhere)
        .layer(middleware::from_fn_with_state(guard, watch))
}

#[derive(Clone)]
struct Guard {
    hosts: Arc<Hosts>,
    routes: Arc<Routes>,
    metrics: Metrics,
    usage: Usage,
}

/// Every request passes here.
async fn watch(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let using = guard.usage.enter();
    let allowed = match &using {
        Some(_) => guard.hosts.check(request.headers(), request.uri()),
        None => Err(Problem::new(codes::STOPPING, "the control plane ends, for nobody needed it")),
    };
    let (request, rest) = body::watched(request);
    let mut response = match allowed {
        Err(problem) => {
            drop(request);
            render(problem, &uri)
        }
        // Nothing that a request touches is left half changed: the driver owns all state.
        Ok(()) => match AssertUnwindSafe(next.run(request)).catch_unwind().await {
            Ok(response) => response,
            Err(_) => {
                tracing::error!(%method, path = uri.path(), "a request panicked");
                render(Problem::new(codes::INTERNAL, "the request ran into a bug"), &uri)
            }
        },
    };
    if !rest.drain().await || using.is_none() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    let route = guard.routes.find(uri.path());
    guard.metrics.api(route, &method, response.status().as_u16(), started.elapsed());
    response
}

/// Ray's clients print the body as it is; ours read JSON.
fn render(problem: Problem, uri: &Uri) -> Response {
    if uri.path().starts_with("/api/") { problem.into_text_response() } else { problem.into_response() }
}

async fn nowhere(method: Method, uri: Uri) -> Response {
    let shown: String = uri.path().chars().take(200).collect();
    let problem = Problem::new(codes::NOT_FOUND, format!("nothing is at {method} {shown}"));
    let hint = match shown.as_str() {
        "/api/jobs" => Some("with a slash at the end: /api/jobs/".to_owned()),
        path if path.starts_with("/api/") => {
            Some("of Ray's API there are /api/version, /api/jobs/, /api/packages/".to_owned())
        }
        path => path
            .strip_suffix('/')
            .filter(|path| path.starts_with("/v1/"))
            .map(|path| format!("without the slash at the end: {path}")),
    };
    render(hint.into_iter().fold(problem, Problem::hint), &uri)
}

async fn wrong_method(method: Method, uri: Uri) -> Response {
    let shown: String = uri.path().chars().take(200).collect();
    let problem = Problem::new(codes::METHOD_NOT_ALLOWED, format!("{shown} does not take {method}"));
    debug_assert_eq!(problem.status, StatusCode::METHOD_NOT_ALLOWED);
    render(problem, &uri)
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, routing::get};
    use tower::Service;

    use super::*;

    #[tokio::test]
    async fn a_request_that_panics_is_answered_and_harms_no_other() {
        let guard = Guard {
            hosts: Arc::new(Hosts::at(([127, 0, 0, 1], 1).into())),
            routes: Arc::new(Routes::new([])),
            metrics: Metrics::default(),
            usage: Usage::new(),
        };
        let bug = || async { panic!("a bug") as StatusCode };
        let router = Router::new().route("/v1/bug", get(bug)).route("/api/bug", get(bug));
        let mut router = router.layer(middleware::from_fn_with_state(guard, watch));
        for (path, kind) in [("/v1/bug", "application/json"), ("/api/bug", "text/plain; charset=utf-8")] {
            let request = Request::builder().uri(path).header("host", "localhost").body(Body::empty());
            let response = router.call(request.unwrap()).await.unwrap();
            assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
            assert_eq!(response.headers()["content-type"], kind);
        }
    }
}
