//! Leases by the thousand: programs tell of all they hold in one request.

use axum::{
    Extension, Json,
    extract::{FromRequest, Request, State},
};
use multicluster_api::{self as api, LeaseAnswer, LeaseAnswers, LeaseStatus};
use multicluster_core::{Core, Input, ReleaseOutcome, Reply};
use multicluster_types::{Attempt, JobId, Kind, Message};
use serde::de::DeserializeOwned;

use super::batch::stopping;
use crate::{
    engine::driver::Turn,
    front::{access::Caller, http::body, plane::Plane},
    problem::Problem,
    redact::redact_text,
};

/// Ten thousand, with a few words each.
const LARGEST: usize = 4 << 20;

/// A list of leases.
pub(super) struct Listed<T>(T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for Listed<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        body::parse(&body::read(request, LARGEST).await?).map(Self)
    }
}

/// Say that the holders of placements are alive
///
/// Up to 10,000, with one answer for each in order. With `attempt`: the holder lives, and has
/// handed its work to the cluster. Without it: whoever asked for the placement still waits.
#[utoipa::path(post, path = "/v1/placements/heartbeat", tag = "placements", operation_id = "heartbeat", request_body = api::LeaseBeats,
    responses((status = 200, body = api::LeaseAnswers), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn heartbeat(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Listed(sent): Listed<api::LeaseBeats>,
) -> Result<Json<LeaseAnswers>, Problem> {
    let beat = |lease: &api::LeaseBeat| {
        let job = JobId::new(lease.id.as_str()).ok()?;
        Some(match held(lease.attempt) {
            Some(attempt) => Input::Heartbeat { job, attempt },
            None => Input::Waits { job },
        })
    };
    let inputs = sent.leases.iter().map(beat).collect();
    let said = |reply: Option<Reply>| match reply {
        Some(Reply::Waits) => (None, LeaseStatus::Queued),
        Some(Reply::Granted { attempt }) => (Some(attempt), LeaseStatus::Granted),
        Some(Reply::Alive { stopping: true }) => (None, LeaseStatus::Stopping),
        Some(_) => (None, LeaseStatus::Alive),
        None => (None, LeaseStatus::Gone),
    };
    let named = sent.leases.into_iter().map(|lease| (lease.id, lease.attempt));
    together(&plane, caller, inputs, named.collect(), said).await
}

/// Say that the holders of placements are done with them
///
/// Up to 10,000, with one answer for each in order. Without `attempt` a placement is
/// withdrawn, whether it waits or is granted: whoever asked for it does not want it any more.
#[utoipa::path(post, path = "/v1/placements/release", tag = "placements", operation_id = "release", request_body = api::LeaseReleases,
    responses((status = 200, body = api::LeaseAnswers), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn release(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Listed(sent): Listed<api::LeaseReleases>,
) -> Result<Json<LeaseAnswers>, Problem> {
    let given_back = |lease: &api::LeaseRelease| {
        let job = JobId::new(lease.id.as_str()).ok()?;
        Some(match held(lease.attempt) {
            Some(attempt) => Input::Released { job, attempt, outcome: outcome(lease) },
            None => Input::Withdraw { job },
        })
    };
    let inputs = sent.leases.iter().map(given_back).collect();
    let said = |reply: Option<Reply>| (None, reply.map_or(LeaseStatus::Gone, |_| LeaseStatus::Released));
    let named = sent.leases.into_iter().map(|lease| (lease.id, lease.attempt));
    together(&plane, caller, inputs, named.collect(), said).await
}

/// Give up many placements, from outside
///
/// At once if they wait; their holders are told with the next heartbeat otherwise.
#[utoipa::path(post, path = "/v1/placements/stop", tag = "placements", operation_id = "stop_placements", request_body = api::PlacementIds,
    responses((status = 200, body = api::LeaseAnswers), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn stop(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Listed(sent): Listed<api::PlacementIds>,
) -> Result<Json<LeaseAnswers>, Problem> {
    let inputs = sent.ids.iter().map(|id| Some(Input::Stop { job: JobId::new(id.as_str()).ok()? })).collect();
    let said = |reply: Option<Reply>| (None, reply.map_or(LeaseStatus::Gone, |_| LeaseStatus::Stopping));
    let named = sent.ids.into_iter().map(|id| (id, None));
    together(&plane, caller, inputs, named.collect(), said).await
}

/// Attempts count from 1.
fn held(attempt: Option<u32>) -> Option<Attempt> {
    attempt.filter(|attempt| *attempt > 0).map(Attempt)
}

fn outcome(lease: &api::LeaseRelease) -> ReleaseOutcome {
    let message = |usual: &str| {
        lease.message.as_deref().map_or_else(|| Message::new(usual), |said| redact_text(said).into())
    };
    match lease.outcome {
        api::Released::Succeeded => ReleaseOutcome::Succeeded,
        api::Released::Failed => ReleaseOutcome::Failed(message("its caller says it failed")),
        api::Released::Unreachable => {
            ReleaseOutcome::Unreachable(message("its caller could not reach the cluster"))
        }
        api::Released::Stopped => ReleaseOutcome::Stopped,
    }
}

/// Feeds them in one turn. A text that cannot be an id names no lease.
async fn together(
    plane: &Plane,
    caller: Caller,
    inputs: Vec<Option<Input>>,
    named: Vec<(String, Option<u32>)>,
    said: impl Fn(Option<Reply>) -> (Option<Attempt>, LeaseStatus),
) -> Result<Json<LeaseAnswers>, Problem> {
    let act = move |turn: &mut Turn| {
        let inputs: Vec<_> = inputs
            .into_iter()
            .map(|input| input.filter(|input| is_ours(turn.core(), &caller, input)))
            .collect();
        let meant: Vec<bool> = inputs.iter().map(Option::is_some).collect();
        (meant, turn.act(Input::Together(inputs.into_iter().flatten().collect())))
    };
    let (meant, reply) = plane.driver.turn(act).await?;
    let Ok(Reply::Each(each)) = reply else { return Err(stopping()) };
    let mut each = each.into_iter();
    let answer = |((id, attempt), meant): ((String, Option<u32>), bool)| {
        let reply = if meant { each.next().and_then(Result::ok) } else { None };
        let (now, status) = said(reply);
        LeaseAnswer { id, attempt: now.map(|attempt| attempt.0).or(attempt), status }
    };
    Ok(Json(LeaseAnswers { leases: named.into_iter().zip(meant).map(answer).collect() }))
}

/// Jobs are stopped elsewhere; another owner's lease does not exist for this caller.
fn is_ours(core: &Core, caller: &Caller, input: &Input) -> bool {
    let (Input::Stop { job }
    | Input::Heartbeat { job, .. }
    | Input::Waits { job }
    | Input::Released { job, .. }
    | Input::Withdraw { job }) = input
    else {
        return false;
    };
    let record = core.job(job).filter(|record| record.work.kind != Kind::Job);
    record.is_some_and(|record| caller.may_see(record.work.owner.as_ref()))
}
