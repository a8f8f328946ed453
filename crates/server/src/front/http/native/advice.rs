//! `/v1/advice`: what would have shortened the waits. `/v1/runs`: the history it is computed from.

use axum::{Extension, Json, extract::State, http::Uri};
use multicluster_api::{self as api, codes};
use multicluster_store::FinishedRun;
use multicluster_types::{Origin, Timestamp};

use super::request::{Language, Params};
use crate::{
    front::{
        access::Caller,
        advice::{Answer, MOST_DAYS, NoAdvice, not_yet},
        plane::Plane,
    },
    problem::Problem,
};

/// Say what would have shortened the waits
///
/// Replays the jobs of the last days under other settings, with the real scheduler on virtual time.
/// Nothing is changed. It may take half a minute: while `state` is `working`, ask again.
#[utoipa::path(get, path = "/v1/advice", tag = "plane", operation_id = "get_advice",
    params(("days" = Option<u32>, Query, description = "How far back, 1 to 31; 14 if not said")),
    responses((status = 200, body = api::Advice), (status = 400, body = api::ErrorBody)))]
pub(super) async fn advice(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Language(lang): Language,
    uri: Uri,
) -> Result<Json<api::Advice>, Problem> {
    let days = Params::of(&uri, &["days"])?.number("days", 14, MOST_DAYS)?;
    let days = u32::try_from(days).unwrap_or(u32::MAX);
    Ok(Json(match plane.adviser.advice(&plane.driver, &plane.reader, days).await {
        Ok(Answer::Done(found)) => found.show(&caller, lang),
        Ok(Answer::Working(progress)) => not_yet(days, progress, lang),
        Err(NoAdvice::Failure(failure)) => return Err(failure.into()),
        Err(NoAdvice::Failed(why)) => {
            return Err(Problem::new(codes::INTERNAL, format!("the history could not be replayed: {why}")));
        }
    }))
}

/// List jobs that ran, the latest ended first
///
/// For up to 31 days and 1,000,000 jobs, also when the jobs themselves are forgotten. Without tasks
/// and actors.
#[utoipa::path(get, path = "/v1/runs", tag = "plane", operation_id = "list_runs",
    params(("since" = Option<u64>, Query, description = "That ended at this moment or later"),
        ("until" = Option<u64>, Query, description = "That ran before this moment: those between the two ran then"),
        ("limit" = Option<u32>, Query, description = "1 to 1000; 100 if not said"),
        ("cursor" = Option<String>, Query, description = "next_cursor of the page before")),
    responses((status = 200, body = api::Page<api::FinishedRun>), (status = 400, body = api::ErrorBody)))]
pub(super) async fn runs(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Json<api::Page<api::FinishedRun>>, Problem> {
    let params = Params::of(&uri, &["since", "until", "limit", "cursor"])?;
    let since = params.value::<u64>("since", "milliseconds since the Unix epoch")?.unwrap_or(0);
    let until = params.value::<u64>("until", "milliseconds since the Unix epoch")?.unwrap_or(u64::MAX);
    let (limit, cursor) = (params.limit()?, params.cursor()?);
    let turn = plane.bounds.search(&caller).await?;
    let page = plane
        .search(turn, move |store| store.runs(Timestamp(since), Timestamp(until), cursor, limit))
        .await?;
    let seen = page.items.iter().filter(|run| caller.may_see(run.work.owner.as_ref()));
    Ok(Json(api::Page {
        items: seen.map(view).collect(),
        next_cursor: page.next.map(|next| next.to_string()),
    }))
}

fn view(run: &FinishedRun) -> api::FinishedRun {
    let FinishedRun { job, submitted_at, started_at, ended_at, ran, state, cluster, work } = run;
    let wanted = work.preference.as_ref();
    api::FinishedRun {
        id: job.as_ref().map(ToString::to_string),
        submitted_at: submitted_at.0,
        started_at: started_at.0,
        ended_at: ended_at.0,
        ran_seconds: ran.as_seconds(),
        state: state.as_str().to_owned(),
        cluster: cluster.to_string(),
        owner: work.owner.as_ref().map(ToString::to_string),
        priority: work.priority.0,
        demand: work.demand.clone(),
        reserves: work.reserves.as_deref().cloned(),
        tags: work.tags.iter().map(ToString::to_string).collect(),
        preferred_cluster: wanted.map(|wanted| wanted.cluster.to_string()),
        required: wanted.is_some_and(|wanted| wanted.required),
        inside: work.origin == Origin::Inside,
    }
}
