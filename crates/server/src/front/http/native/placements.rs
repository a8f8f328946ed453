//! `/v1/placements`: the control plane grants a place, the caller runs its task or actor
//! there and keeps what it runs to itself.

use std::time::Duration;

use axum::{
    Extension, Json,
    extract::State,
    http::{StatusCode, Uri},
};
use multicluster_api::{self as api, PlacementState, codes};
use multicluster_core::{
    Core, Explanation, Input, Notice, Refusal,
    record::{JobRecord, Phase},
};
use multicluster_types::{JobId, Kind, Lang, Work};

use super::{
    Api,
    request::{self, Job, Params},
    views,
};
use crate::{
    engine::driver::{Failure, NewJob, Turn},
    front::{
        access::Caller,
        plane::Plane,
        submission::{Wishes, parent_names, selector},
    },
    problem::Problem,
};

/// The longest a request is kept waiting.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Seconds: long enough that short tasks seldom ask, short enough not to keep others waiting.
const REUSE: u64 = 1;

/// Checks one request.
pub(super) fn new_placement(sent: api::PlacementRequest) -> Result<NewJob, Problem> {
    if sent.kind == Kind::Job {
        let problem = Problem::new(codes::BAD_BODY, "kind is job: placements are for tasks and actors");
        return Err(problem.hint("submit jobs with POST /v1/jobs"));
    }
    if sent.preemptible {
        let message = format!("preemptible is set: {}s cannot be stopped and run again", sent.kind);
        let problem = Problem::new(codes::BAD_JOB, message);
        return Err(problem.hint("leave it out, or submit a job: only jobs are preemptible"));
    }
    let id = sent.id.map(JobId::new).transpose().map_err(|error| Problem::told(codes::BAD_JOB, &error))?;
    let wishes = Wishes {
        preferred_cluster: sent.preferred_cluster,
        required: sent.required,
        tags: sent.tags,
        os: sent.os,
        arch: sent.arch,
        versions: parent_names(sent.ray_version, sent.python_version),
        priority: sent.priority,
        // To run it again is its caller's business: what it runs never left there.
        max_retries: None,
        retry_on: Vec::new(),
        never_retry_on: Vec::new(),
        on_cluster_loss: sent.on_cluster_loss,
        parent: parent_names(sent.parent_job, sent.parent_cluster),
    };
    let labels = selector("label_selector", sent.label_selector)?;
    let (work, parent) = wishes.check(Work { demand: sent.demand, labels, ..Work::new(sent.kind) })?;
    Ok(NewJob::placement(id, work, parent))
}

/// Ask for a placement
///
/// Answers as soon as it is granted, or with why it waits when the time is up: ask on with
/// `GET /v1/placements/{id}` then. 201 if it is new, 200 if it was there already.
#[utoipa::path(post, path = "/v1/placements", tag = "placements", operation_id = "request_placement", request_body = api::PlacementRequest,
    params(("wait" = Option<String>, Query, description = "How long, such as 20s; at once if not said, 60s at most")),
    responses((status = 201, body = api::Placement), (status = 200, body = api::Placement), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn submit(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
    request::Json(sent): request::Json<api::PlacementRequest>,
) -> Result<(StatusCode, Json<api::Placement>), Problem> {
    let patience = patience(&uri)?;
    let placement = caller.own(new_placement(sent)?)?;
    // Granted at once, it costs one turn of the driver and one commit.
    api.plane.driver.disk.check()?;
    let submitted = api.plane.driver.turn(move |turn| {
        let accepted = turn.submit(placement)?;
        let core = turn.core();
        Ok((core.job(&accepted.job).map(|job| Sight::of(core, job, patience.is_zero())), accepted))
    });
    let (seen, accepted) =
        submitted.await?.map_err(|refusal: Refusal| Problem::from(refusal).in_submission())?;
    let notices = views::notices(&accepted.notices, Lang::En);
    let placement = match seen {
        Some(seen) if seen.is_decided() || patience.is_zero() => seen.show(),
        seen => {
            let (_place, patience) = api.plane.bounds.wait_or_look(&caller, patience).await;
            // It is accepted: whatever goes wrong now, it is told how it stands, and asks on.
            let waited = wait_for(&api, &accepted.job, patience).await;
            waited.or_else(|problem| seen.map(Sight::show).ok_or(problem))?
        }
    };
    let status = if accepted.duplicate.is_some() { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(api::Placement { notices, ..placement })))
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
    Extension(caller): Extension<Caller>,
    Job(id): Job,
    uri: Uri,
) -> Result<Json<api::Placement>, Problem> {
    let (_place, patience) = api.plane.bounds.wait_or_look(&caller, patience(&uri)?).await;
    wait_for(&api, &id, patience).await.map(Json)
}

/// The placement as soon as it is decided. The core hears that its caller still waits.
async fn wait_for(api: &Api, id: &JobId, patience: Duration) -> Result<api::Placement, Problem> {
    let see = |turn: &mut Turn, id: &JobId, last| {
        drop(turn.act(Input::Waits { job: id.clone() }));
        let job = turn.core().job(id).ok_or_else(|| Refusal::UnknownJob { job: id.clone() })?;
        Ok(is_placement(job).map(|()| Sight::of(turn.core(), job, last)))
    };
    let ready = |seen: &Result<Sight, _>| seen.as_ref().map_or(true, Sight::is_decided);
    api.waiters.until(&api.plane, id, patience, see, ready).await?.map(Sight::show)
}

/// How long a caller is ready to wait.
pub(super) fn patience(uri: &Uri) -> Result<Duration, Problem> {
    Params::of(uri, &["wait"])?.wait("wait", Duration::ZERO, LONGEST_WAIT)
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

/// A placement as the core has it. The driver's thread takes it; the caller's shows it.
pub(super) struct Sight {
    record: JobRecord,
    head_address: Option<String>,
    lease_seconds: u64,
    reuse_seconds: u64,
    why: Option<Explanation>,
    /// Set by those who submitted it.
    pub(super) notices: Vec<Notice>,
}

impl Sight {
    /// Why it waits only if it is to be said, because that takes a look at every cluster.
    pub(super) fn of(core: &Core, record: &JobRecord, say_why: bool) -> Self {
        let cluster = record.live().map(|live| &live.cluster);
        let is_spaced = cluster.is_some_and(|cluster| core.is_spaced(cluster));
        let says_why = say_why && matches!(record.phase, Phase::Waiting { .. });
        Self {
            record: record.clone(),
            head_address: cluster.and_then(|cluster| core.head_address(cluster)).map(str::to_owned),
            lease_seconds: core.settings().lease_ttl.0 / 1000,
            reuse_seconds: if is_spaced { 0 } else { REUSE },
            why: says_why.then(|| core.explain(&record.id).ok().map(without_others)).flatten(),
            notices: Vec::new(),
        }
    }

    /// Is there more to it than to wait?
    pub(super) fn is_decided(&self) -> bool {
        !matches!(self.record.phase, Phase::Waiting { .. })
    }

    pub(super) fn show(self) -> api::Placement {
        let record = &self.record;
        let last_error = record.troubles.as_ref().and_then(|troubles| troubles.last_error.as_ref());
        let (status, message) = match &record.phase {
            Phase::Waiting { .. } => (PlacementState::Queued, last_error),
            Phase::Live(_) => (PlacementState::Granted, last_error),
            Phase::Ended(ended) => (PlacementState::Ended, ended.message.as_ref()),
        };
        api::Placement {
            id: record.id.to_string(),
            kind: record.work.kind,
            status,
            state: record.state(),
            granted: record.live().map(|live| api::Granted {
                cluster: live.cluster.to_string(),
                attempt: live.attempt.0,
                head_address: self.head_address,
                stopping: live.stopping(),
                lease_seconds: self.lease_seconds,
                reuse_seconds: self.reuse_seconds,
            }),
            // The SDK prints it among its own words, which are English.
            why: self.why.map(|why| views::explanation(why, Lang::En)),
            message: message.map(ToString::to_string),
            notices: views::notices(&self.notices, Lang::En),
        }
    }
}

/// Other owners are not named to the programs of an owner.
fn without_others(mut why: Explanation) -> Explanation {
    why.turns.iter_mut().for_each(|turns| turns.next = None);
    why
}

/// Give up a placement, from outside
///
/// At once if it waits; its holder is told with the next heartbeat otherwise.
#[utoipa::path(post, path = "/v1/placements/{id}/stop", tag = "placements", operation_id = "stop_placement", params(("id" = String, Path)),
    responses((status = 202, body = api::Placement), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn stop(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Job(id): Job,
) -> Result<(StatusCode, Json<api::Placement>), Problem> {
    let act = move |turn: &mut Turn| -> Result<_, Problem> {
        turn.core().job(&id).map_or(Ok(()), is_placement)?;
        turn.act(caller.asks(Input::Stop { job: id.clone() }))?;
        let job = turn.core().job(&id).ok_or(Refusal::UnknownJob { job: id })?;
        Ok(Sight::of(turn.core(), job, true))
    };
    let seen = plane.driver.turn(act).await??;
    Ok((StatusCode::ACCEPTED, Json(seen.show())))
}
