//! One job, and all of them: get, list, stop, delete.

use axum::{
    Extension, Json,
    body::{Body, Bytes},
    extract::{Path, State},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use futures_util::{StreamExt, stream};
use multicluster_core::{Input, Refusal};
use multicluster_store::{JobFilter, Page, StoredJob};
use multicluster_types::{JobId, Kind, Lang};
use serde_json::json;

use super::{
    Sorry,
    details::{JobDetails, needs_why},
    job_id,
};
use crate::{
    engine::driver::Failure,
    front::{access::Caller, bounds::Permit, plane::Plane},
};

/// How many jobs of a list are in memory at once; fewer if they are large, as the store decides.
const PAGE: usize = 1000;

pub(super) async fn get(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Json<JobDetails>, Sorry> {
    let id = job_id(&id)?;
    let asked = id.clone();
    let job = plane.stored(move |store| store.job(&asked)).await?;
    let job = job.filter(|job| job.record.work.kind == Kind::Job);
    let job = job.ok_or_else(|| Sorry::no_such_job(id.as_str()))?;
    let why = if needs_why(job.record.state()) {
        plane.why(id).await?.map(|why| caller.told(why).summary(Lang::En))
    } else {
        None
    };
    Ok(Json(JobDetails::new(job, why)))
}

/// All jobs, newest first, page by page: a pool remembers a hundred thousand jobs, and Ray's
/// clients do not know pages.
pub(super) async fn list(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Sorry> {
    let kind = [(CONTENT_TYPE, "application/json")];
    // The first page is read before the first byte is sent, so that an error can still be reported.
    let mut separator = b'[';
    let turn = plane.bounds.search(&caller).await?;
    let first = page(&plane, turn, &caller, None).await?;
    let next = first.next;
    let text = shown(first, &mut separator);
    if next.is_none() {
        return Ok((kind, text).into_response());
    }
    // However slowly the client reads, one page is in memory. The next one is read when that is
    // taken.
    let place = plane.bounds.stream(&caller)?;
    let rest = stream::try_unfold((next, separator, place), move |(before, mut separator, place)| {
        let (plane, caller) = (plane.clone(), caller.clone());
        async move {
            if before.is_none() {
                return Ok::<_, Failure>(None);
            }
            let turn = plane.bounds.search_on(&caller).await;
            let page = page(&plane, turn, &caller, before).await?;
            let next = page.next;
            Ok(Some((shown(page, &mut separator), (next, separator, place))))
        }
    });
    let pieces = stream::once(async { Ok(text) }).chain(rest);
    Ok((kind, Body::from_stream(pieces)).into_response())
}

/// A page as its part of one JSON list; `separator` comes before the next job.
fn shown(page: Page<StoredJob>, separator: &mut u8) -> Bytes {
    let mut text = Vec::with_capacity(512 * page.items.len() + 2);
    for job in page.items {
        text.push(*separator);
        *separator = b',';
        serde_json::to_writer(&mut text, &JobDetails::new(job, None)).unwrap_or_default();
    }
    if page.next.is_none() {
        if *separator == b'[' {
            text.push(b'[');
        }
        text.push(b']');
    }
    Bytes::from(text)
}

async fn page(
    plane: &Plane,
    turn: Permit,
    caller: &Caller,
    before: Option<u64>,
) -> Result<Page<StoredJob>, Failure> {
    let filter =
        JobFilter { kind: Some(Kind::Job), owner: caller.sees_only().cloned(), ..JobFilter::default() };
    plane.search(turn, move |store| store.jobs(&filter, before, PAGE)).await
}

/// Returns `true` if there was a job to stop.
pub(super) async fn stop(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, Sorry> {
    let id = known(&plane, &id).await?;
    let stopped = match plane.driver.act(caller.asks(Input::Stop { job: id })).await {
        Ok(_) => true,
        Err(Failure::Refused(Refusal::WrongState { .. })) => false,
        Err(failure) => return Err(failure.into()),
    };
    Ok(Json(json!({ "stopped": stopped })).into_response())
}

pub(super) async fn delete(State(plane): State<Plane>, Path(id): Path<String>) -> Result<Response, Sorry> {
    let id = known(&plane, &id).await?;
    match plane.driver.act(Input::Delete { job: id }).await {
        Ok(_) => Ok(Json(json!({ "deleted": true })).into_response()),
        Err(Failure::Refused(Refusal::WrongState { job, state, .. })) => {
            let state = state.as_ray();
            let text = format!("Attempted to delete job '{job}', but it is in a non-terminal state {state}.");
            Err(Sorry::new(StatusCode::INTERNAL_SERVER_ERROR, text))
        }
        Err(failure) => Err(failure.into()),
    }
}

/// A job. Tasks and actors are not visible in this API.
pub(super) async fn known(plane: &Plane, id: &str) -> Result<JobId, Sorry> {
    let id = job_id(id)?;
    let asked = id.clone();
    let is_job =
        plane.driver.read(move |core| core.job(&asked).is_some_and(|job| job.work.kind == Kind::Job));
    if is_job.await? { Ok(id) } else { Err(Sorry::no_such_job(id.as_str())) }
}
