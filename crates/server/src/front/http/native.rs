//! The native API `/v1`: everything that the control plane can do and show, with an OpenAPI
//! document.
//!
//! - `jobs`, `resolved`, `decisions`, `batch`, `placements`, `leases`, `clusters`, `plane` the
//!   routes, by subject
//! - `events` a live stream of events · `follow` a live stream of a log · `wait` long polls
//! - `views` how things are shown · `request` how requests are read · `document` what the OpenAPI
//!   document says about every route

mod advice;
mod batch;
mod clusters;
mod decisions;
mod document;
mod events;
mod follow;
mod history;
mod inside;
mod jobs;
mod leases;
mod owners;
mod placements;
mod plane;
mod policies;
mod reasons;
pub(super) mod request;
mod resolved;
#[cfg(test)]
mod tests;
mod views;
mod wait;

use std::sync::Arc;

use axum::{
    Router,
    extract::FromRef,
    http::header,
    response::{IntoResponse, Response},
    routing::get,
};
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use self::wait::Waiters;
use crate::front::plane::Plane;

/// Shared by the routes.
#[derive(Clone)]
struct Api {
    plane: Plane,
    waiters: Waiters,
}

impl FromRef<Api> for Plane {
    fn from_ref(api: &Api) -> Plane {
        api.plane.clone()
    }
}

#[derive(OpenApi)]
#[openapi(info(
    title = "ray_multicluster_scheduler",
    description = "One front door to many Ray clusters. Moments are milliseconds since the Unix epoch \
                   (`…_at`), lengths of time are seconds (`…_seconds`). Explanations are in English, or in \
                   Chinese with `Accept-Language: zh`."
))]
struct Document;

pub(super) fn routes(plane: &Plane) -> Router {
    let api = Api { plane: plane.clone(), waiters: Waiters::start(&plane.events) };
    let (router, document) = described().with_state(api).split_for_parts();
    let json: Arc<str> = document::describe(document).into();
    let serve = move || async move { with_type("application/json", json.to_string()) };
    router.route("/v1/openapi.json", get(serve))
}

fn with_type(kind: &'static str, body: String) -> Response {
    ([(header::CONTENT_TYPE, kind)], body).into_response()
}

fn described() -> OpenApiRouter<Api> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(jobs::submit, jobs::list))
        .routes(routes!(batch::submit))
        .routes(routes!(jobs::get, jobs::delete))
        .routes(routes!(jobs::stop))
        .routes(routes!(jobs::rerun))
        .routes(routes!(jobs::attempts))
        .routes(routes!(resolved::resolved))
        .routes(routes!(jobs::logs))
        .routes(routes!(follow::follow))
        .routes(routes!(jobs::wait))
        .routes(routes!(decisions::explain))
        .routes(routes!(decisions::of_job))
        .routes(routes!(decisions::list))
        .routes(routes!(decisions::what_if))
        .routes(routes!(events::of_job))
        .routes(routes!(events::stream))
        .routes(routes!(placements::submit))
        .routes(routes!(batch::place))
        .routes(routes!(placements::get))
        .routes(routes!(placements::stop))
        .routes(routes!(leases::heartbeat))
        .routes(routes!(leases::release))
        .routes(routes!(leases::stop))
        .routes(routes!(clusters::list, clusters::register))
        .routes(routes!(clusters::get, clusters::replace, clusters::update, clusters::remove))
        .routes(routes!(clusters::connection))
        .routes(routes!(clusters::cordon))
        .routes(routes!(clusters::uncordon))
        .routes(routes!(clusters::drain))
        .routes(routes!(clusters::check))
        .routes(routes!(clusters::pool))
        .routes(routes!(policies::list))
        .routes(routes!(policies::set, policies::remove))
        .routes(routes!(policies::attempt))
        .routes(routes!(plane::queue))
        .routes(routes!(owners::list))
        .routes(routes!(history::history))
        .routes(routes!(plane::settings))
        .routes(routes!(plane::reload))
        .routes(routes!(plane::version))
        .routes(routes!(plane::plane))
        .routes(routes!(plane::log))
        .routes(routes!(advice::advice))
        .routes(routes!(advice::runs))
}
