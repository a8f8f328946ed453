//! Why: explanations, decisions, what-if.

use axum::{Extension, Json, extract::State, http::Uri};
use multicluster_api as api;
use multicluster_core::Core;
use multicluster_types::{JobId, Lang};

use super::{
    inside,
    request::{self, Job, Language, Params},
    views,
    wait::stored,
};
use crate::{
    engine::driver::Failure,
    front::{
        access::Caller,
        plane::Plane,
        submission::{self, Dedup},
    },
    problem::Problem,
};

/// Explain where a job is, and what it waits for
#[utoipa::path(get, path = "/v1/jobs/{id}/explain", tag = "decisions", operation_id = "explain_job", params(("id" = String, Path)),
    responses((status = 200, body = api::Explanation), (status = 404, body = api::ErrorBody)))]
pub(super) async fn explain(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Language(lang): Language,
    Job(id): Job,
) -> Result<Json<api::Explanation>, Problem> {
    let why = plane.driver.read(move |core| core.explain(&id)).await?.map_err(Failure::Refused)?;
    let inside = inside::waiting(&plane, &why).await;
    let mut told = views::explanation(caller.told(why), lang);
    for work in &inside {
        told.summary += &format!("\n{}", work.text);
    }
    Ok(Json(api::Explanation { inside, ..told }))
}

/// List the decisions about a job, the latest first
#[utoipa::path(get, path = "/v1/jobs/{id}/decisions", tag = "decisions", operation_id = "list_job_decisions",
    params(("id" = String, Path),
        ("limit" = Option<u32>, Query, description = "1 to 1000; 100 if not said"),
        ("cursor" = Option<String>, Query, description = "next_cursor of the page before")),
    responses((status = 200, body = api::Page<api::Decision>), (status = 404, body = api::ErrorBody)))]
pub(super) async fn of_job(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Language(lang): Language,
    Job(id): Job,
    uri: Uri,
) -> Result<Json<api::Page<api::Decision>>, Problem> {
    stored(&plane, &id).await?;
    page(&plane, &caller, Some(id), &uri, lang).await
}

/// List decisions, the latest first
#[utoipa::path(get, path = "/v1/decisions", tag = "decisions", operation_id = "list_decisions",
    params(("limit" = Option<u32>, Query, description = "1 to 1000; 100 if not said"),
        ("cursor" = Option<String>, Query, description = "next_cursor of the page before")),
    responses((status = 200, body = api::Page<api::Decision>), (status = 400, body = api::ErrorBody)))]
pub(super) async fn list(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Language(lang): Language,
    uri: Uri,
) -> Result<Json<api::Page<api::Decision>>, Problem> {
    let Json(mut page) = page(&plane, &caller, None, &uri, lang).await?;
    if caller.sees_only().is_some() {
        let about: Vec<_> = page.items.iter().map(|decision| decision.job.clone()).collect();
        let mut seen = plane.driver.read(move |core| owned(core, &caller, &about)).await?.into_iter();
        page.items.retain(|_| seen.next().unwrap_or_default());
    }
    Ok(Json(page))
}

/// For each of these jobs: whether the caller may see it.
fn owned(core: &Core, caller: &Caller, jobs: &[String]) -> Vec<bool> {
    let record = |job: &String| core.job(&JobId::new(job.as_str()).ok()?);
    let seen = |job: &String| record(job).is_some_and(|record| caller.may_see(record.work.owner.as_ref()));
    jobs.iter().map(seen).collect()
}

async fn page(
    plane: &Plane,
    caller: &Caller,
    job: Option<JobId>,
    uri: &Uri,
    lang: Lang,
) -> Result<Json<api::Page<api::Decision>>, Problem> {
    let params = Params::of(uri, &["limit", "cursor"])?;
    let (limit, cursor) = (params.limit()?, params.cursor()?);
    let turn = plane.bounds.search(caller).await?;
    let page = plane
        .search(turn, move |store| {
            let page = store.decisions(job.as_ref(), cursor, limit)?;
            let items = page.items.iter().map(|decision| views::decision(decision, lang)).collect();
            Ok(api::Page { items, next_cursor: page.next.map(|next| next.to_string()) })
        })
        .await?;
    Ok(Json(page))
}

/// Ask what would become of a job
///
/// Nothing is submitted; packages need not be uploaded yet.
#[utoipa::path(post, path = "/v1/what-if", tag = "decisions", operation_id = "what_if", request_body = api::JobRequest,
    responses((status = 200, body = api::WhatIf), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn what_if(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Language(lang): Language,
    request::Json(sent): request::Json<api::JobRequest>,
) -> Result<Json<api::WhatIf>, Problem> {
    let checked = submission::check_alone(sent, Dedup::ByContent)?.with_known_keys(&plane).await?;
    let (mut work, parent) = checked.into_work();
    work.owner = caller.owner;
    let what = plane.driver.read(move |core| core.what_if(&work, parent.as_ref())).await?;
    Ok(Json(views::what_if(what, lang)))
}
