//! Everything that is served over HTTP: the native API, Ray's Jobs API, metrics, the console.
//!
//! ```text
//! request ─ guard (Host, Origin, token, share, panics, latency) ─┬─ native    /v1/…
//!                                                                ├─ ray_jobs  /api/…
//!                                                                ├─ metrics   /metrics /healthz /readyz
//!                                                                ├─ login     /login /logout
//!                                                                └─ console   / /assets/… /favicon.svg
//! ```

pub(crate) mod body;
mod console;
mod host;
mod login;
mod metrics;
mod native;
pub(crate) mod ray_jobs;

use std::{net::SocketAddr, panic::AssertUnwindSafe, sync::Arc, time::Instant};

use axum::{
    Router,
    body::HttpBody,
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header},
    middleware::{self, Next},
    response::{IntoResponse, Redirect, Response},
};
use futures_util::FutureExt;
use multicluster_api::codes;
use multicluster_types::JobId;

use self::body::Drained;
pub(crate) use self::host::Hosts;
use crate::{
    engine::driver::Driver,
    front::{
        access::{Access, Caller, Needs, Peer, is_a_submit},
        bounds::{Bounds, Place, Taken},
        plane::Plane,
        usage::Usage,
    },
    metrics::Metrics,
    problem::{self, Problem},
};

/// All routes, for a listener at this address with these additional names.
pub(crate) fn router(plane: Plane, address: SocketAddr, names: &[String]) -> Router {
    let guard = Guard {
        hosts: Arc::new(Hosts::at(address, names)),
        metrics: plane.metrics.clone(),
        usage: plane.usage.clone(),
        access: plane.access.clone(),
        driver: plane.driver.clone(),
        bounds: plane.bounds.clone(),
    };
    native::routes(&plane)
        .merge(login::routes(plane.access.clone()))
        .merge(ray_jobs::routes().merge(metrics::routes()).with_state(plane))
        .merge(console::routes())
        .method_not_allowed_fallback(wrong_method)
        .fallback(nowhere)
        .layer(middleware::from_fn_with_state(guard, watch))
}

#[derive(Clone)]
struct Guard {
    hosts: Arc<Hosts>,
    metrics: Metrics,
    usage: Usage,
    access: Access,
    driver: Driver,
    bounds: Bounds,
}

/// An admitted request.
struct Admitted {
    caller: Caller,
    place: Option<Place>,
    /// Set for a request that submits one job, task or actor.
    taken: Option<Taken>,
}

impl Guard {
    /// Identifies the caller and checks that the caller may make this request, from this origin,
    /// and that there is a place for it.
    async fn admit(
        &self,
        method: &Method,
        uri: &Uri,
        route: Option<&str>,
        headers: &HeaderMap,
        peer: Option<Peer>,
    ) -> Result<Admitted, Problem> {
        self.hosts.check(headers, uri)?;
        let path = uri.path();
        let needs = Needs::of(method, route);
        if needs == Needs::Nothing {
            let place = (!is_sign_of_life(uri)).then(|| self.bounds.stranger()).transpose()?;
            return Ok(Admitted { caller: Caller::ANYBODY, place, taken: None });
        }
        let caller = self.access.caller(headers, peer.map(|peer| peer.0)).await?;
        if !needs.are_met_by(caller.role) {
            let message = format!("role `{}` may not do this", caller.role.as_str());
            let hint = format!("{method} {path} needs {}", needs.as_str());
            return Err(Problem::new(codes::FORBIDDEN, message).hint(hint));
        }
        if caller.sees_only().is_some()
            && let Some(id) = route.and_then(|route| part(route, path, "{id}"))
        {
            self.check_owner(&caller, id).await?;
        }
        let (place, mut taken) = (self.bounds.request(&caller)?, None);
        if is_a_submit(method, route) {
            // Before the request counts: it would be refused in any case.
            self.driver.disk.check()?;
            taken = Some(self.bounds.submit(&caller, 1)?);
        }
        Ok(Admitted { caller, place: Some(place), taken })
    }

    /// Jobs of other owners do not exist for this caller. An id without a job is refused here, too:
    /// another owner could create that job between this check and the request itself.
    async fn check_owner(&self, caller: &Caller, id: &str) -> Result<(), Problem> {
        // The id as it is written in the path. Ids need no percent-escapes, and an escaped one
        // would be another id once it is decoded, so it does not exist for this caller.
        if let Ok(job) = JobId::new(id) {
            let (asked, caller) = (job, caller.clone());
            let seen = self.driver.read(move |core| {
                core.job(&asked).is_some_and(|record| caller.may_see(record.work.owner.as_ref()))
            });
            if seen.await? {
                return Ok(());
            }
        }
        // Ray's wording: its clients look for it.
        let shown: String = id.chars().take(128).collect();
        let problem = Problem::new(codes::UNKNOWN_JOB, format!("Job {shown} does not exist"));
        Err(problem.hint("with the role submit, a caller sees its own jobs only"))
    }
}

/// Every request passes here.
async fn watch(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map(MatchedPath::as_str);
    let peer = request.extensions().get::<Peer>().copied();
    let using = guard.usage.enter();
    let admitted = match &using {
        Some(_) => guard.admit(&method, &uri, route, request.headers(), peer).await,
        None => Err(Problem::new(codes::STOPPING, "the control plane is shutting down: it was idle")),
    };
    let drained = match route {
        Some("/api/packages/{protocol}/{name}") if admitted.is_ok() => Drained::PACKAGE,
        _ => Drained::USUAL,
    };
    let (mut request, rest) = body::watched(request);
    let mut response = match admitted {
        Err(problem) => {
            drop(request);
            render(problem, &uri)
        }
        // A request leaves nothing half changed: the driver owns all state.
        Ok(Admitted { caller, place, taken }) => {
            request.extensions_mut().insert(caller.clone());
            request.extensions_mut().insert(guard.bounds.clone());
            let response = match AssertUnwindSafe(next.run(request)).catch_unwind().await {
                Ok(response) => response,
                Err(_) => {
                    tracing::error!(%method, path = uri.path(), "a request panicked");
                    render(Problem::new(codes::INTERNAL, "the request ran into a bug"), &uri)
                }
            };
            if let Some(taken) = taken {
                taken.keep(usize::from(response.status().is_success()));
            }
            // A caller that changed something must get the answer, and batches are bounded already.
            let size = if method == Method::GET { response.body().size_hint().lower() } else { 0 };
            match guard.bounds.answer(&caller, size) {
                Ok(large) => response.map(|answer| body::held(answer, (place, large))),
                Err(problem) => render(problem, &uri),
            }
        }
    };
    problem::say_when(response.status(), response.headers_mut());
    if !rest.drain(drained) || using.is_none() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    guard.metrics.api(route, &method, response.status().as_u16(), started.elapsed());
    response
}

/// The part of a path at the position of this word in its template.
fn part<'a>(template: &str, path: &'a str, word: &str) -> Option<&'a str> {
    template.split('/').zip(path.split('/')).find(|(this, _)| *this == word).map(|(_, part)| part)
}

/// Whether this request is answered however busy the control plane is.
pub(crate) fn is_sign_of_life(uri: &Uri) -> bool {
    uri.path() == "/healthz"
}

/// The answer to a request that does not reach the router.
pub(crate) fn turned_away(problem: Problem, request: Request) -> Response {
    let mut response = render(problem, request.uri());
    let (request, rest) = body::watched(request);
    drop(request);
    rest.drain(Drained::USUAL);
    problem::say_when(response.status(), response.headers_mut());
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Ray's clients print the body as it is, our clients read JSON, and browsers are sent to the
/// login.
pub(crate) fn render(problem: Problem, uri: &Uri) -> Response {
    if uri.path() == "/" && [codes::NO_TOKEN.word, codes::BAD_TOKEN.word].contains(&problem.code) {
        return Redirect::to("/login").into_response();
    }
    if uri.path().starts_with("/api/") { problem.into_text_response() } else { problem.into_response() }
}

async fn nowhere(method: Method, uri: Uri) -> Response {
    let shown: String = uri.path().chars().take(200).collect();
    let problem = Problem::new(codes::NOT_FOUND, format!("no such route: {method} {shown}"));
    let hint = match shown.as_str() {
        "/api/jobs" => Some("with a slash at the end: /api/jobs/".to_owned()),
        path if path.starts_with("/api/") => {
            Some("supported routes of Ray's API: /api/version, /api/jobs/, /api/packages/".to_owned())
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
    use multicluster_types::Settings;
    use tower::Service;

    use super::*;

    fn a_guard() -> Guard {
        Guard {
            hosts: Arc::new(Hosts::at(([127, 0, 0, 1], 1).into(), &[])),
            metrics: Metrics::default(),
            usage: Usage::new(),
            access: Access::open(),
            driver: Driver::new(Metrics::default(), None).0,
            bounds: Bounds::new(8, &Settings::default(), Metrics::default()),
        }
    }

    async fn ask(router: Router, path: &str) -> Response {
        let mut router = router.layer(middleware::from_fn_with_state(a_guard(), watch));
        let request = Request::builder().uri(path).header("host", "localhost").body(Body::empty());
        router.call(request.unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn a_request_that_panics_is_answered_and_harms_no_other() {
        let bug = || async { panic!("a bug") as StatusCode };
        let router = Router::new().route("/v1/bug", get(bug)).route("/api/bug", get(bug));
        for (path, kind) in [("/v1/bug", "application/json"), ("/api/bug", "text/plain; charset=utf-8")] {
            let response = ask(router.clone(), path).await;
            assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
            assert_eq!(response.headers()["content-type"], kind);
        }
    }

    /// Not even for a body that never comes.
    #[tokio::test]
    async fn an_answer_does_not_wait_for_a_body_that_nobody_reads() {
        let mut router = Router::new().layer(middleware::from_fn_with_state(a_guard(), watch));
        let unsent = Body::from_stream(futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>());
        let request = Request::post("/v1/jobs").header("host", "somewhere").header("content-length", 9);
        let answer = router.call(request.body(unsent).unwrap());
        let answer = tokio::time::timeout(std::time::Duration::from_secs(1), answer).await;
        assert_eq!(answer.expect("at once").unwrap().status(), StatusCode::FORBIDDEN);
    }

    /// However many requests come without a token, there is room for those with one, and for health
    /// checks.
    #[tokio::test]
    async fn strangers_have_a_quarter_of_the_room() {
        let guard = a_guard();
        let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static("localhost"))]);
        let ask = async |path: &'static str| {
            let uri = Uri::from_static(path);
            guard.admit(&Method::POST, &uri, Some(path), &headers, None).await.map(|admitted| admitted.place)
        };
        let strangers = [ask("/login").await.unwrap(), ask("/login").await.unwrap()];
        assert_eq!(ask("/login").await.err().unwrap().code, "busy");
        assert!(ask("/logout").await.is_ok() && ask("/healthz").await.is_ok());
        drop(strangers);
        assert!(ask("/login").await.is_ok());
    }

    /// In either form of answer.
    #[tokio::test]
    async fn whoever_is_turned_away_for_now_is_told_when_to_come_back() {
        for code in codes::ALL.iter().copied() {
            let problem = Problem::new(code, "no");
            let (json, text) = (problem.clone(), problem.clone());
            let bare = (problem.status, "no");
            let router = Router::new()
                .route("/v1/json", get(async move || json))
                .route("/api/text", get(async move || text.into_text_response()))
                .route("/bare", get(async move || bare));
            for path in ["/v1/json", "/api/text", "/bare"] {
                let response = ask(router.clone(), path).await;
                let told = response.headers().contains_key(header::RETRY_AFTER);
                assert_eq!(told, matches!(code.status, 429 | 503), "{path} {}", code.word);
            }
        }
    }
}
