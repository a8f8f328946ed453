//! Many at once: one request, one transaction, one answer for each in order.

use axum::{
    extract::{Request, State},
    http::header,
    response::{IntoResponse, Response},
};
use multicluster_api::{self as api, ErrorBody, codes};
use multicluster_core::{Accepted, Refusal};
use serde::{
    Serialize, Serializer,
    ser::{SerializeSeq, SerializeStruct},
};

use super::{Api, placements::new_placement, views};
use crate::{
    driver::NewJob,
    http::{body, error::Problem},
    submission::{self, JobRequest},
};

/// The largest batch, in bytes.
const LARGEST: usize = 64 << 20;

/// Submit many jobs
///
/// Up to 10,000 in 64 MiB. Each is accepted or refused on its own; the results are in
/// the order of the jobs.
#[utoipa::path(post, path = "/v1/jobs/batch", tag = "jobs", operation_id = "submit_jobs", request_body = api::BatchRequest,
    responses((status = 200, body = api::BatchAnswer), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn submit(State(api): State<Api>, request: Request) -> Result<Response, Problem> {
    let json = read(&api, request).await?;
    let _turn = api.batches.acquire().await.map_err(|_| stopping())?;
    // Milliseconds of pure work, which would hold up others' requests here.
    let checked = off_thread(move || {
        let batch: api::BatchRequest = body::parse(&json)?;
        let jobs = batch.jobs.into_iter();
        Ok(jobs.map(|job| JobRequest::from(job).check_alone()).collect::<Vec<_>>())
    });
    let checked = submission::check_all(&api.plane, checked.await?).await?;
    accept(&api, checked).await
}

/// Ask for many placements
///
/// Up to 10,000 in 64 MiB. Together they count as one submission under the 40-second rule.
#[utoipa::path(post, path = "/v1/placements/batch", tag = "placements", operation_id = "request_placements", request_body = api::PlacementBatch,
    responses((status = 200, body = api::BatchAnswer), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn place(State(api): State<Api>, request: Request) -> Result<Response, Problem> {
    let json = read(&api, request).await?;
    let _turn = api.batches.acquire().await.map_err(|_| stopping())?;
    let checked = off_thread(move || {
        let batch: api::PlacementBatch = body::parse(&json)?;
        Ok(batch.placements.into_iter().map(new_placement).collect::<Vec<_>>())
    });
    accept(&api, checked.await?).await
}

/// So many at a time, for they may be large; and nobody who is slow to send one holds up
/// those whose batch is here.
async fn read(api: &Api, request: Request) -> Result<Vec<u8>, Problem> {
    let busy = "too many batches are being sent at once";
    let Ok(_place) = api.incoming.try_acquire() else { return Err(Problem::new(codes::BUSY, busy)) };
    body::read(request, LARGEST).await
}

async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.map_err(|_| stopping())?
}

fn stopping() -> Problem {
    Problem::new(codes::STOPPING, "the control plane is stopping")
}

/// Hands those that are right to the driver, and puts the answers back into order.
async fn accept(api: &Api, checked: Vec<Result<NewJob, Problem>>) -> Result<Response, Problem> {
    let mut jobs = Vec::with_capacity(checked.len());
    let refused: Vec<Option<Problem>> =
        checked.into_iter().map(|job| job.map(|job| jobs.push(job)).err()).collect();
    let results = if jobs.is_empty() { Vec::new() } else { api.plane.driver.submit_batch(jobs).await? };
    let answer = Answer { refused, results };
    let json =
        serde_json::to_vec(&answer).map_err(|error| Problem::new(codes::INTERNAL, error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

/// An [`api::BatchAnswer`] that is written without being built: ten thousand of them a
/// request, a hundred thousand a second.
struct Answer {
    /// What was wrong with each in itself; `None`: the driver had its say.
    refused: Vec<Option<Problem>>,
    /// The driver's say, in order.
    results: Vec<Result<Accepted, Refusal>>,
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let accepted = self.results.iter().filter(|result| result.is_ok()).count();
        let mut answer = to.serialize_struct("BatchAnswer", 3)?;
        answer.serialize_field("accepted", &accepted)?;
        answer.serialize_field("refused", &(self.refused.len() - accepted))?;
        answer.serialize_field("results", &Results(self))?;
        answer.end()
    }
}

struct Results<'a>(&'a Answer);

impl Serialize for Results<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut results = self.0.results.iter();
        let mut list = to.serialize_seq(Some(self.0.refused.len()))?;
        for refused in &self.0.refused {
            let item = match refused {
                Some(problem) => Item::Refused { error: problem.body() },
                None => match results.next() {
                    Some(Ok(accepted)) if accepted.duplicate.is_none() => {
                        Item::New { id: accepted.job.as_str() }
                    }
                    Some(Ok(accepted)) => Item::Known(views::accepted(&accepted.job, accepted.duplicate)),
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
    Known(api::Accepted),
    Refused { error: ErrorBody },
}

#[cfg(test)]
mod tests {
    use multicluster_core::Duplicate;
    use multicluster_types::JobId;

    use super::*;

    #[test]
    fn the_answer_is_in_the_order_of_the_request() {
        let accepted = |id: &str, duplicate| Ok(Accepted { job: JobId::new(id).unwrap(), duplicate });
        let answer = Answer {
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
