//! `/v1/placements`: the control plane grants a place, the caller runs its task or actor
//! there and keeps what it runs to itself.

use std::time::Duration;

use axum::{
    Json,
    extract::State,
    http::{StatusCode, Uri},
};
use multicluster_api::{self as api, PlacementState, codes};
use multicluster_core::{
    Input, Refusal, ReleaseOutcome, Reply,
    record::{JobRecord, Phase},
};
use multicluster_types::{JobId, Kind, Message};

use super::{
    Api,
    request::{self, Job, Lease, OptionalJson, Params},
    views,
    wait::stored,
};
use crate::{
    Plane,
    driver::{Failure, NewJob},
    http::error::Problem,
    submission::{Wishes, parent_names},
};

/// The longest a request is kept waiting.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Checks one request.
pub(super) fn new_placement(sent: api::PlacementRequest) -> Result<NewJob, Problem> {
    if sent.kind == Kind::Job {
        let problem = Problem::new(codes::BAD_BODY, "kind is job: placements are for tasks and actors");
        return Err(problem.hint("submit jobs with POST /v1/jobs"));
    }
    let id = sent.id.map(JobId::new).transpose().map_err(|error| Problem::told(codes::BAD_JOB, &error))?;
    let wishes = Wishes {
        preferred_cluster: sent.preferred_cluster,
        required: sent.required,
        tags: sent.tags,
        priority: sent.priority,
        max_retries: sent.max_retries,
        on_cluster_loss: sent.on_cluster_loss,
        parent: parent_names(sent.parent_job, sent.parent_cluster),
    };
    let (work, parent) = wishes.check(sent.kind, sent.demand)?;
    Ok(NewJob::placement(id, work, parent))
}

/// Ask for a placement
#[utoipa::path(post, path = "/v1/placements", tag = "placements", operation_id = "request_placement", request_body = api::PlacementRequest,
    responses((status = 201, body = api::Accepted), (status = 200, body = api::Accepted), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn submit(
    State(plane): State<Plane>,
    request::Json(sent): request::Json<api::PlacementRequest>,
) -> Result<(StatusCode, Json<api::Accepted>), Problem> {
    let placement = new_placement(sent)?;
    let accepted =
        plane.driver.submit(placement).await.map_err(|failure| Problem::from(failure).in_submission())?;
    let status = if accepted.duplicate.is_some() { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(views::accepted(&accepted.job, accepted.duplicate))))
}

/// Wait for a placement
///
/// Answers as soon as it is granted or has ended, or with why it waits when the time is up.
#[utoipa::path(get, path = "/v1/placements/{id}", tag = "placements", operation_id = "get_placement",
    params(("id" = String, Path),
        ("wait" = Option<String>, Query, description = "How long, such as 20s; at once if not said, 60s at most")),
    responses((status = 200, body = api::Placement), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn get(
    State(api): State<Api>,
    Job(id): Job,
    uri: Uri,
) -> Result<Json<api::Placement>, Problem> {
    let params = Params::of(&uri, &["wait"])?;
    let patience = params.wait("wait", Duration::ZERO, LONGEST_WAIT)?;
    let decided = |record: &JobRecord| !matches!(record.phase, Phase::Waiting { .. });
    let record = api.waiters.until(&api.plane, &id, patience, decided).await?;
    is_placement(&record)?;
    show(&api.plane, record).await.map(Json)
}

/// Jobs are not the caller's to run.
fn is_placement(record: &JobRecord) -> Result<(), Problem> {
    if record.work.kind != Kind::Job {
        return Ok(());
    }
    let id = &record.id;
    let problem =
        Problem::from(Failure::Refused(Refusal::UnknownJob { job: id.clone() })).about("no placement");
    Err(problem.hint(format!("{id} is a job: see /v1/jobs/{id}")))
}

async fn show(plane: &Plane, record: JobRecord) -> Result<api::Placement, Problem> {
    let (id, state, kind) = (record.id.clone(), record.state(), record.work.kind);
    let last_error = record.troubles.as_ref().and_then(|troubles| troubles.last_error.clone());
    let (status, granted, why, message) = match record.phase {
        Phase::Waiting { .. } => {
            let asked = id.clone();
            let why = plane.driver.read(move |core| core.explain(&asked).ok()).await?;
            (PlacementState::Queued, None, why.map(views::explanation), last_error)
        }
        Phase::Live(live) => {
            let cluster = live.cluster.clone();
            let look = plane.driver.read(move |core| {
                let head = core.cluster(&cluster).map(|cluster| cluster.spec.head_address.to_string());
                (head, core.settings().lease_ttl)
            });
            let (head_address, ttl) = look.await?;
            let granted = api::Granted {
                cluster: live.cluster.to_string(),
                attempt: live.attempt.0,
                head_address,
                stopping: live.stopping,
                lease_seconds: ttl.0 / 1000,
            };
            (PlacementState::Granted, Some(granted), None, last_error)
        }
        Phase::Ended(ended) => (PlacementState::Ended, None, None, ended.message),
    };
    let message = message.map(|message| message.to_string());
    Ok(api::Placement { id: id.to_string(), kind, status, state, granted, why, message })
}

/// Give up a placement, from outside
///
/// At once if it waits; its holder is told with the next heartbeat otherwise.
#[utoipa::path(post, path = "/v1/placements/{id}/stop", tag = "placements", operation_id = "stop_placement", params(("id" = String, Path)),
    responses((status = 202, body = api::Placement), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn stop(
    State(plane): State<Plane>,
    Job(id): Job,
) -> Result<(StatusCode, Json<api::Placement>), Problem> {
    is_placement(&stored(&plane, &id).await?)?;
    plane.driver.act(Input::Stop { job: id.clone() }).await?;
    let record = stored(&plane, &id).await?;
    Ok((StatusCode::ACCEPTED, Json(show(&plane, record).await?)))
}

/// Say that the holder of a placement is alive, and has handed its work to the cluster
#[utoipa::path(post, path = "/v1/placements/{id}/{attempt}/heartbeat", tag = "placements", operation_id = "heartbeat",
    params(("id" = String, Path), ("attempt" = u32, Path)),
    responses((status = 200, body = api::Alive), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn heartbeat(
    State(plane): State<Plane>,
    Lease(job, attempt): Lease,
    OptionalJson(_): OptionalJson<Nothing>,
) -> Result<Json<api::Alive>, Problem> {
    let reply = plane.driver.act(Input::Heartbeat { job, attempt }).await?;
    Ok(Json(api::Alive { stopping: matches!(reply, Reply::Alive { stopping: true }) }))
}

/// A body that says nothing.
#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// Say that the holder of a placement is done with it
#[utoipa::path(post, path = "/v1/placements/{id}/{attempt}/release", tag = "placements", operation_id = "release",
    params(("id" = String, Path), ("attempt" = u32, Path)), request_body = api::ReleaseRequest,
    responses((status = 204), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn release(
    State(plane): State<Plane>,
    Lease(job, attempt): Lease,
    request::Json(sent): request::Json<api::ReleaseRequest>,
) -> Result<StatusCode, Problem> {
    let message = |usual: &str| sent.message.as_deref().map_or_else(|| Message::new(usual), Message::new);
    let outcome = match sent.outcome {
        api::Released::Succeeded => ReleaseOutcome::Succeeded,
        api::Released::Failed => ReleaseOutcome::Failed(message("its caller says it failed")),
        api::Released::Unreachable => {
            ReleaseOutcome::Unreachable(message("its caller could not reach the cluster"))
        }
        api::Released::Stopped => ReleaseOutcome::Stopped,
    };
    plane.driver.act(Input::Released { job, attempt, outcome }).await?;
    Ok(StatusCode::NO_CONTENT)
}
