//! Many at once: one request, one transaction, one answer for each in order.

use axum::{
    Extension, Json,
    extract::{Request, State},
    http::header,
    response::{IntoResponse, Response},
};
use multicluster_api::{self as api, ErrorBody, PlacementAnswer, PlacementState, codes};
use multicluster_core::{
    Accepted, Core, Input, Refusal,
    record::{JobRecord, Phase},
};
use multicluster_types::{JobId, Lang};
use serde::{
    Serialize, Serializer,
    ser::{SerializeSeq, SerializeStruct},
};
use tokio::time::Instant;

use super::{
    Api,
    placements::{Sight, new_placement, patience},
    views,
    wait::asked_again_after,
};
use crate::{
    engine::{
        driver::{NewJob, Turn},
        off_thread::off_thread,
    },
    front::{
        access::Caller,
        bounds::{BodyRoom, Place},
        http::body::{self, Whole},
        submission::{self, Dedup},
    },
    problem::Problem,
    traces,
};

/// The largest batch, in bytes.
const LARGEST: usize = 64 << 20;

/// Submit many jobs
///
/// Up to 10,000 in 64 MiB. Each is accepted or refused on its own; the results are in
/// the order of the jobs.
#[utoipa::path(post, path = "/v1/jobs/batch", tag = "jobs", operation_id = "submit_jobs", request_body = api::BatchRequest,
    responses((status = 200, body = api::BatchAnswer), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn submit(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let traceparent = traces::of_headers(request.headers());
    let (json, _place) = read(&api, &caller, request).await?;
    let turn = api.plane.bounds.check_batch().await;
    let checked = off_thread(move || {
        let batch: api::BatchRequest = body::parse(&json)?;
        let jobs = batch.jobs.into_iter();
        Ok::<_, Problem>(jobs.map(|job| submission::check_alone(job, Dedup::ByContent)).collect::<Vec<_>>())
    });
    let checked = checked.await??;
    drop(turn);
    api.plane.driver.disk.check()?;
    let taken = api.plane.bounds.submit(&caller, checked.len())?;
    let answer = accept(&api, &caller, checked, traceparent.as_ref()).await?;
    taken.keep(answer.accepted());
    let json =
        serde_json::to_vec(&answer).map_err(|error| Problem::new(codes::INTERNAL, error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

/// Ask for many placements
///
/// Up to 10,000 in 64 MiB. Together they count as one submission under the 40-second rule.
/// Answers as soon as each is granted or refused, or with how they stand when the time is up.
#[utoipa::path(post, path = "/v1/placements/batch", tag = "placements", operation_id = "request_placements", request_body = api::PlacementBatch,
    params(("wait" = Option<String>, Query, description = "How long, such as 20s; at once if not said, 60s at most")),
    responses((status = 200, body = api::PlacementAnswers), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn place(
    State(api): State<Api>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Json<api::PlacementAnswers>, Problem> {
    let deadline = Instant::now() + patience(request.uri())?;
    let (json, place) = read(&api, &caller, request).await?;
    let turn = api.plane.bounds.check_batch().await;
    let owner = caller.clone();
    let checked = off_thread(move || {
        let batch: api::PlacementBatch = body::parse(&json)?;
        let owned = |sent| owner.own(new_placement(sent)?);
        Ok::<_, Problem>(batch.placements.into_iter().map(owned).collect::<Vec<_>>())
    });
    let checked = checked.await??;
    drop(turn);
    api.plane.driver.disk.check()?;
    let taken = api.plane.bounds.submit(&caller, checked.len())?;
    let (wanted, refused) = sort_out(checked);
    let submitted = api.plane.driver.turn(move |turn| {
        let each = turn.submit_batch(wanted);
        let seen = |accepted: Accepted| {
            let mut seen = sight(turn.core(), accepted.job)?;
            seen.notices = accepted.notices;
            Ok(seen)
        };
        each.into_iter().map(|result| seen(result?)).collect::<Vec<_>>()
    });
    let submitted = submitted.await?;
    taken.keep(submitted.iter().filter(|seen| seen.is_ok()).count());
    let mut each = submitted.into_iter().map(placed);
    drop(place);
    let mut results: Vec<_> = refused
        .into_iter()
        .map(|problem| match problem {
            Some(problem) => PlacementAnswer::Error(problem.body()),
            None => each.next().unwrap_or_else(|| PlacementAnswer::Error(stopping().body())),
        })
        .collect();
    // They are accepted: a caller that cannot wait here is told how they stand, and asks on.
    if let Err(problem) = wait_for_all(&api, &caller, &mut results, deadline).await {
        tracing::debug!(%problem, "answering a batch before all are placed");
    }
    let refused = results.iter().filter(|result| matches!(result, PlacementAnswer::Error(_))).count();
    Ok(Json(api::PlacementAnswers { accepted: results.len() - refused, refused, results }))
}

fn sight(core: &Core, job: JobId) -> Result<Sight, Refusal> {
    let record = core.job(&job).ok_or(Refusal::UnknownJob { job })?;
    Ok(Sight::of(core, record, false))
}

fn placed(seen: Result<Sight, Refusal>) -> PlacementAnswer {
    match seen {
        Ok(seen) => PlacementAnswer::Placement(Box::new(seen.show())),
        Err(refusal) => PlacementAnswer::Error(Problem::from(refusal).body()),
    }
}

/// Waits until none of them is queued, or the time is up. Only for the last of them, for it
/// is the last to be granted as a rule: so few looks are needed, however many there are.
async fn wait_for_all(
    api: &Api,
    caller: &Caller,
    results: &mut [PlacementAnswer],
    deadline: Instant,
) -> Result<(), Problem> {
    let mut place = None;
    loop {
        let queued: Vec<(usize, JobId)> = results
            .iter()
            .enumerate()
            .filter_map(|(place, result)| match result {
                PlacementAnswer::Placement(shown) if shown.status == PlacementState::Queued => {
                    Some((place, shown.id.parse().ok()?))
                }
                _ => None,
            })
            .collect();
        let left = deadline.saturating_duration_since(Instant::now());
        let Some((_, last)) = queued.last().filter(|_| !left.is_zero()) else { return Ok(()) };
        if place.is_none() {
            place = Some(api.plane.bounds.wait(caller)?);
        }
        let decided = |turn: &mut Turn, id: &JobId, _| {
            let waits = |job: &JobRecord| matches!(job.phase, Phase::Waiting { .. });
            Ok(!turn.core().job(id).is_some_and(waits))
        };
        let again = api.plane.driver.read(asked_again_after).await?;
        api.waiters.until(&api.plane, last, left.min(again), decided, |decided| *decided).await?;
        let look = |turn: &mut Turn| {
            let waits = |(_, job): &(usize, JobId)| Input::Waits { job: job.clone() };
            drop(turn.act(Input::Together(queued.iter().map(waits).collect())));
            let seen = |(place, id)| (place, sight(turn.core(), id));
            queued.into_iter().map(seen).collect::<Vec<_>>()
        };
        for (place, seen) in api.plane.driver.turn(look).await? {
            let told = match &mut results[place] {
                PlacementAnswer::Placement(shown) => std::mem::take(&mut shown.notices),
                PlacementAnswer::Error(_) => Vec::new(),
            };
            results[place] = placed(seen);
            if let PlacementAnswer::Placement(shown) = &mut results[place] {
                shown.notices = told;
            }
        }
    }
}

/// A bounded number at a time, because they may be large: the place is kept until they are
/// durable. A caller that is slow to send a batch does not hold up those whose batch is here.
async fn read(api: &Api, caller: &Caller, request: Request) -> Result<(Vec<u8>, (Place, BodyRoom)), Problem> {
    let place = api.plane.bounds.batch(caller)?;
    let Whole { bytes, room } = body::read(request, LARGEST).await?;
    Ok((bytes, (place, room)))
}

pub(super) fn stopping() -> Problem {
    Problem::new(codes::STOPPING, "the control plane is stopping")
}

/// Hands those that are right to the driver.
async fn accept(
    api: &Api,
    caller: &Caller,
    checked: Vec<Result<submission::Checked, Problem>>,
    traceparent: Option<&String>,
) -> Result<BatchOutcome, Problem> {
    let checked = submission::check_all(&api.plane, caller, checked).await?;
    let (jobs, refused) = sort_out(checked);
    let jobs: Vec<_> = jobs.into_iter().map(|job| job.traced(traceparent)).collect();
    let results = if jobs.is_empty() { Vec::new() } else { api.plane.driver.submit_batch(jobs).await? };
    Ok(BatchOutcome { refused, results })
}

/// What is right in itself, and for each of all what is wrong with it.
fn sort_out(checked: Vec<Result<NewJob, Problem>>) -> (Vec<NewJob>, Vec<Option<Problem>>) {
    let mut right = Vec::with_capacity(checked.len());
    let wrong = checked.into_iter().map(|job| job.map(|job| right.push(job)).err()).collect();
    (right, wrong)
}

/// An [`api::BatchAnswer`] that is written without being built: ten thousand of them a
/// request, a hundred thousand a second.
struct BatchOutcome {
    /// What was wrong with each in itself; `None`: the driver had its say.
    refused: Vec<Option<Problem>>,
    /// The driver's say, in order.
    results: Vec<Result<Accepted, Refusal>>,
}

impl BatchOutcome {
    fn accepted(&self) -> usize {
        self.results.iter().filter(|result| result.is_ok()).count()
    }
}

impl Serialize for BatchOutcome {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let accepted = self.accepted();
        let mut answer = to.serialize_struct("BatchAnswer", 3)?;
        answer.serialize_field("accepted", &accepted)?;
        answer.serialize_field("refused", &(self.refused.len() - accepted))?;
        answer.serialize_field("results", &Results(self))?;
        answer.end()
    }
}

struct Results<'a>(&'a BatchOutcome);

impl Serialize for Results<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut results = self.0.results.iter();
        let mut list = to.serialize_seq(Some(self.0.refused.len()))?;
        for refused in &self.0.refused {
            let item = match refused {
                Some(problem) => Item::Refused { error: problem.body() },
                None => match results.next() {
                    Some(Ok(accepted)) if accepted.duplicate.is_none() && accepted.notices.is_empty() => {
                        Item::New { id: accepted.job.as_str() }
                    }
                    Some(Ok(accepted)) => Item::Told(views::accepted(accepted, Lang::En)),
                    Some(Err(refusal)) => Item::Refused { error: Problem::from(refusal.clone()).body() },
                    None => Item::Refused { error: stopping().body() },
                },
            };
            list.serialize_element(&item)?;
        }
        list.end()
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Item<'a> {
    New { id: &'a str },
    Told(api::Accepted),
    Refused { error: ErrorBody },
}

#[cfg(test)]
mod tests {
    use super::*;
    use multicluster_core::Duplicate;

    #[test]
    fn the_answer_is_in_the_order_of_the_request() {
        let accepted =
            |id: &str, duplicate| Ok(Accepted { job: JobId::new(id).unwrap(), duplicate, notices: vec![] });
        let answer = BatchOutcome {
            refused: vec![None, Some(Problem::new(codes::BAD_JOB, "no")), None, None],
            results: vec![
                accepted("a", None),
                accepted("b", Some(Duplicate::SameId)),
                Err(Refusal::NoClusters),
            ],
        };
        let json = serde_json::to_string(&answer).unwrap();
        let read: api::BatchAnswer = serde_json::from_str(&json).unwrap();
        assert_eq!((read.accepted, read.refused), (2, 2));
        let words: Vec<_> = read
            .results
            .iter()
            .map(|item| match item {
                api::BatchItem::Accepted(accepted) => accepted.id.as_str(),
                api::BatchItem::Refused { error } => error.code.as_str(),
            })
            .collect();
        assert_eq!(words, ["a", "bad_job", "b", "no_clusters"]);
    }
}
