//! `/v1/jobs`.

use std::time::Duration;

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
};
use multicluster_api::{self as api, codes};
use multicluster_core::{Input, Refusal};
use multicluster_store::{JobFilter, Search};
use multicluster_types::{Attempt, ClusterName, JobId, Kind, Owner, State as JobState, Tag, Timestamp};

use super::{
    Api, reasons,
    request::{self, Job, Language, MOST_LISTED, Params},
    views,
};
use crate::{
    engine::driver::{Failure, Turn},
    front::{
        access::Caller,
        logs,
        plane::Plane,
        submission::{self, Door},
    },
    problem::Problem,
    traces,
};

/// The longest a request is kept waiting.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Jobs may be large: a page ends early rather than be huge.
const PAGE_BYTES: usize = 8 << 20;
const READ_AT_ONCE: usize = 25;

/// Submit a job
///
/// It is durable when this answers: 201 for a new job, 200 for one that was there already.
#[utoipa::path(post, path = "/v1/jobs", tag = "jobs", operation_id = "submit_job", request_body = api::JobRequest,
    responses((status = 201, body = api::Accepted), (status = 200, body = api::Accepted), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn submit(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Language(lang): Language,
    headers: HeaderMap,
    request::Json(sent): request::Json<api::JobRequest>,
) -> Result<(StatusCode, Json<api::Accepted>), Problem> {
    let job = submission::check(sent, Door::Native, &plane, &caller).await?;
    let job = job.traced(traces::of_headers(&headers).as_ref());
    let accepted =
        plane.driver.submit(job).await.map_err(|failure| Problem::from(failure).in_submission())?;
    let status = if accepted.duplicate.is_some() { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(views::accepted(&accepted, lang))))
}

/// List jobs, the latest first
#[utoipa::path(get, path = "/v1/jobs", tag = "jobs", operation_id = "list_jobs",
    params(
        ("state" = Option<String>, Query, description = "Only in these states; may be repeated, or have commas"),
        ("kind" = Option<String>, Query, description = "job, task or actor"),
        ("cluster" = Option<String>, Query, description = "That are or were on this cluster"),
        ("tag" = Option<String>, Query, description = "Carrying this tag or label; all of them if repeated"),
        ("id" = Option<String>, Query, description = "Whose id contains this"),
        ("q" = Option<String>, Query, description = "Whose id, entrypoint or any tag contains this, whatever the case"),
        ("owner" = Option<String>, Query, description = "That this owner submitted"),
        ("since" = Option<u64>, Query, description = "That had not ended at this time, in ms since 1970"),
        ("until" = Option<u64>, Query, description = "That were submitted before this time, in ms since 1970"),
        ("limit" = Option<u32>, Query, description = "At most so many, 1 to 1000; 100 if not said. A page of large jobs may end earlier"),
        ("cursor" = Option<String>, Query, description = "next_cursor of the page before")),
    responses((status = 200, body = api::Page<api::Job>), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn list(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Language(lang): Language,
    uri: Uri,
) -> Result<Json<api::Page<api::Job>>, Problem> {
    let known = ["state", "kind", "cluster", "tag", "id", "q", "owner", "since", "until", "limit", "cursor"];
    let params = Params::of(&uri, &known)?;
    let mut filter = filter(&params)?;
    if let Some(own) = caller.sees_only() {
        // The work of others is not there for this caller.
        if filter.owner.as_ref().is_some_and(|owner| owner != own) {
            return Ok(Json(api::Page { items: Vec::new(), next_cursor: None }));
        }
        filter.owner = Some(own.clone());
    }
    let (limit, cursor) = (params.limit()?, params.cursor()?);
    let turn = plane.bounds.search(&caller).await?;
    let mut page = plane
        .search(turn, move |store| {
            let (mut items, mut next, mut bytes, mut hidden) = (Vec::new(), cursor, 0, 0);
            loop {
                let asked = READ_AT_ONCE.min(limit - items.len());
                let page = store.jobs(&filter, next, asked)?;
                // It looked at as many as it may: who wants more asks again.
                let given_up = page.items.len() < asked;
                for stored in page.items {
                    let job = views::listed(&stored);
                    if filter.search.as_ref().is_some_and(|search| !is_seen(&job, search)) {
                        hidden += 1;
                        continue;
                    }
                    bytes += job.entrypoint.as_ref().map_or(0, String::len);
                    bytes += job.metadata.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
                    items.push(job);
                }
                next = page.next;
                let full = items.len() >= limit || hidden >= MOST_LISTED || bytes >= PAGE_BYTES;
                if next.is_none() || given_up || full {
                    let next_cursor = next.map(|next| next.to_string());
                    return Ok(api::Page { items, next_cursor });
                }
            }
        })
        .await?;
    reasons::add(&plane, &caller, &mut page.items, lang).await;
    Ok(Json(page))
}

/// What is shown redacted is not found by what it hides.
fn is_seen(job: &api::Job, search: &Search) -> bool {
    search.finds(&job.id, job.entrypoint.as_deref(), job.tags.iter().map(String::as_str))
}

fn filter(params: &Params) -> Result<JobFilter, Problem> {
    let words = JobState::ALL.map(JobState::as_str);
    let kind =
        |text: &str| [Kind::Job, Kind::Task, Kind::Actor].into_iter().find(|kind| kind.as_str() == text);
    let mut kinds = params.each("kind", "job, task or actor", kind)?;
    if kinds.len() > 1 {
        return Err(Problem::new(codes::BAD_QUERY, "kind is given twice").hint("give one, or none for all"));
    }
    Ok(JobFilter {
        states: params.each("state", &words.join(", "), JobState::meant)?,
        kind: kinds.pop(),
        cluster: params.value::<ClusterName>("cluster", "the name of a cluster")?,
        owner: params.value::<Owner>("owner", "the name of an owner")?,
        since: params.value("since", "a time in ms since 1970")?.map(Timestamp),
        until: params.value("until", "a time in ms since 1970")?.map(Timestamp),
        tags: params.each("tag", "a tag", |text| Tag::new(text).ok())?,
        id_contains: params.text("id")?.map(str::to_owned),
        search: params.text("q")?.map(Search::new),
    })
}

/// Show a job
///
/// With its attempts, and why it waits.
#[utoipa::path(get, path = "/v1/jobs/{id}", tag = "jobs", operation_id = "get_job", params(("id" = String, Path)),
    responses((status = 200, body = api::JobDetail), (status = 404, body = api::ErrorBody)))]
pub(super) async fn get(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Language(lang): Language,
    Job(id): Job,
) -> Result<Json<api::JobDetail>, Problem> {
    let asked = id.clone();
    let stored = plane
        .stored(move |store| {
            let Some(job) = store.job(&asked)? else { return Ok(None) };
            Ok(Some((job, store.attempts(&asked)?)))
        })
        .await?;
    let unknown = Failure::Refused(Refusal::UnknownJob { job: id.clone() });
    let (stored, attempts) = stored.ok_or(unknown)?;
    let why = if stored.record.state().is_terminal() { None } else { plane.why(id).await? };
    let why = why.filter(|why| !why.state.is_terminal());
    let why = why.map(|why| views::explanation(caller.told(why), lang));
    let latest = stored.record.live().or(attempts.last().map(|attempt| &attempt.live));
    let dashboard = match latest {
        Some(latest) => plane.dashboard(latest.cluster.clone()).await,
        None => None,
    };
    Ok(Json(views::detail(&stored, &attempts, dashboard.as_deref(), why)))
}

/// Stop a job
///
/// At once if it waits, through its cluster if it is on one.
#[utoipa::path(post, path = "/v1/jobs/{id}/stop", tag = "jobs", operation_id = "stop_job", params(("id" = String, Path)),
    responses((status = 202, body = api::Job), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn stop(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Job(job): Job,
) -> Result<(StatusCode, Json<api::Job>), Problem> {
    plane.driver.act(caller.asks(Input::Stop { job: job.clone() })).await?;
    Ok((StatusCode::ACCEPTED, shown(&plane, job).await?))
}

/// Run a failed or stopped job again
///
/// Under the same id, as another attempt.
#[utoipa::path(post, path = "/v1/jobs/{id}/rerun", tag = "jobs", operation_id = "rerun_job", params(("id" = String, Path)),
    responses((status = 202, body = api::Job), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn rerun(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Job(job): Job,
) -> Result<(StatusCode, Json<api::Job>), Problem> {
    plane.driver.act(caller.asks(Input::Rerun { job: job.clone() })).await?;
    Ok((StatusCode::ACCEPTED, shown(&plane, job).await?))
}

/// Forget an ended job
#[utoipa::path(delete, path = "/v1/jobs/{id}", tag = "jobs", operation_id = "delete_job", params(("id" = String, Path)),
    responses((status = 204), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn delete(State(plane): State<Plane>, Job(job): Job) -> Result<StatusCode, Problem> {
    plane.driver.act(Input::Delete { job }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Show the attempts of a job, first to last
#[utoipa::path(get, path = "/v1/jobs/{id}/attempts", tag = "jobs", operation_id = "list_attempts", params(("id" = String, Path)),
    responses((status = 200, body = api::Page<api::Attempt>), (status = 404, body = api::ErrorBody)))]
pub(super) async fn attempts(
    State(plane): State<Plane>,
    Job(id): Job,
) -> Result<Json<api::Page<api::Attempt>>, Problem> {
    let asked = id.clone();
    let found = plane.stored(move |store| Ok((store.job(&asked)?, store.attempts(&asked)?))).await?;
    let (Some(job), attempts) = found else {
        return Err(Failure::Refused(Refusal::UnknownJob { job: id }).into());
    };
    Ok(Json(api::Page { items: views::history(&job.record, &attempts), next_cursor: None }))
}

/// Show the last lines of a job
///
/// Up to 1 MiB of them; `logs/follow` has the whole log, however long.
#[utoipa::path(get, path = "/v1/jobs/{id}/logs", tag = "jobs", operation_id = "get_logs",
    params(("id" = String, Path),
        ("attempt" = Option<u32>, Query, description = "Which try; the latest if not said"),
        ("lines" = Option<usize>, Query, description = "At most so many of the last lines")),
    responses((status = 200, body = api::Logs), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn logs(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Job(id): Job,
    uri: Uri,
) -> Result<Json<api::Logs>, Problem> {
    let params = Params::of(&uri, &["attempt", "lines"])?;
    let attempt = params.value::<u32>("attempt", "the number of an attempt, from 1")?.map(Attempt);
    let lines = params.value::<usize>("lines", "a whole number")?;
    let _turn = plane.bounds.log(&caller).await?;
    let found = logs::last_lines(&plane, &id, attempt, logs::END).await?;
    let (mut truncated, mut text) = (found.is_truncated(), found.text);
    if let Some(from) = lines.and_then(|lines| logs::start_of_last(&text, lines)) {
        truncated = true;
        text.drain(..from);
    }
    Ok(Json(api::Logs {
        id: id.to_string(),
        attempt: found.run.as_ref().map(|run| run.attempt.0),
        cluster: found.run.as_ref().map(|run| run.cluster.to_string()),
        text,
        truncated,
        source: found.source.as_str().to_owned(),
    }))
}

/// Wait until a job has ended
///
/// Answers as soon as it has, or with the job as it is when the time is up.
#[utoipa::path(get, path = "/v1/jobs/{id}/wait", tag = "jobs", operation_id = "wait_for_job",
    params(("id" = String, Path),
        ("timeout" = Option<String>, Query, description = "How long, such as 20s; 30s if not said, 60s at most")),
    responses((status = 200, body = api::Job), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn wait(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    Job(id): Job,
    uri: Uri,
) -> Result<Json<api::Job>, Problem> {
    let params = Params::of(&uri, &["timeout"])?;
    let patience = params.wait("timeout", Duration::from_secs(30), LONGEST_WAIT)?;
    let (_place, patience) = api.plane.bounds.wait_or_look(&caller, patience).await;
    let ended = |turn: &mut Turn, id: &JobId, _| {
        let job = turn.core().job(id).ok_or_else(|| Refusal::UnknownJob { job: id.clone() })?;
        Ok(job.state().is_terminal())
    };
    api.waiters.until(&api.plane, &id, patience, ended, |ended| *ended).await?;
    shown(&api.plane, id).await
}

async fn shown(plane: &Plane, id: JobId) -> Result<Json<api::Job>, Problem> {
    let asked = id.clone();
    let stored = plane.stored(move |store| store.job(&asked)).await?;
    let stored = stored.ok_or(Failure::Refused(Refusal::UnknownJob { job: id }))?;
    Ok(Json(views::job(&stored)))
}
