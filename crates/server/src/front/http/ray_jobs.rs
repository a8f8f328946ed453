//! Ray's Jobs API, as Ray's own clients speak it: to `ray job …` and `JobSubmissionClient`, the
//! whole pool looks like one Ray cluster.
//!
//! These clients accept only 200 as a success, most answers must have exactly the expected keys,
//! and errors are plain text that the clients print. Where Ray answers bad input with a 500 and a
//! traceback, we answer 400 and say what is wrong, in Ray's words where clients look for them.
//!
//! - `submit` submissions · `details` how jobs are shown · `jobs` one job, and all
//! - `logs` logs, at once or followed · `packages` uploaded files · `version`

mod details;
mod hints;
mod jobs;
mod logs;
mod packages;
mod submit;
#[cfg(test)]
mod tests;
mod version;

use axum::{
    Router,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{AppendHeaders, IntoResponse, Response},
    routing::{get, post},
};
use multicluster_core::Refusal;
use multicluster_types::JobId;

use crate::{
    engine::driver::Failure,
    front::plane::Plane,
    problem::{CODE, Problem},
};

pub(crate) use self::logs::tailed;

pub(crate) fn routes() -> Router<Plane> {
    // `/api/jobs` without the slash is a 404, as in Ray.
    Router::new()
        .route("/api/version", get(version::version))
        .route("/api/jobs/", get(jobs::list).post(submit::submit))
        .route("/api/jobs/{id}", get(jobs::get).delete(jobs::delete))
        .route("/api/jobs/{id}/stop", post(jobs::stop))
        .route("/api/jobs/{id}/logs", get(logs::whole))
        .route("/api/jobs/{id}/logs/tail", get(logs::tail))
        .route("/api/packages/{protocol}/{name}", get(packages::find).put(packages::upload))
}

/// An answer that is not 200.
#[derive(Debug)]
struct Sorry {
    status: StatusCode,
    text: String,
    /// Only if the leader is missing, and not the request at fault.
    code: Option<&'static str>,
}

impl Sorry {
    fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), code: None }
    }

    fn bad_request(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    /// In Ray's words, followed by a hint what may have been meant.
    fn no_such_job(id: &str) -> Self {
        let shown: String = id.chars().take(200).collect();
        let attempt_of =
            |(job, number): (&str, &str)| number.parse::<u32>().is_ok_and(|n| n > 1).then(|| job.to_owned());
        let hint = match shown.rsplit_once("-a").and_then(attempt_of) {
            Some(job) => {
                format!("\n  hint: if that is a later attempt of job {job}, ask for {job}")
            }
            None if looks_like_a_driver(id) => {
                "\n  hint: that looks like the id of a driver, which several clusters may use: ask for the submission id".to_owned()
            }
            None => String::new(),
        };
        Self::new(StatusCode::NOT_FOUND, format!("Job {shown} does not exist{hint}"))
    }
}

impl IntoResponse for Sorry {
    fn into_response(self) -> Response {
        let code = self.code.map(|code| AppendHeaders([(CODE, code)]));
        (self.status, [(CONTENT_TYPE, "text/plain; charset=utf-8")], code, self.text).into_response()
    }
}

impl From<Problem> for Sorry {
    fn from(problem: Problem) -> Self {
        let code = problem.is_about_the_leader().then_some(problem.code);
        Self { status: problem.status, text: problem.to_string(), code }
    }
}

impl From<Failure> for Sorry {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(Refusal::UnknownJob { job }) => Self::no_such_job(job.as_str()),
            failure => Problem::from(failure).into(),
        }
    }
}

/// The job in the path. An id that is not valid belongs to no job.
fn job_id(text: &str) -> Result<JobId, Sorry> {
    JobId::new(text).map_err(|_| Sorry::no_such_job(text))
}

/// Ray numbers drivers in eight hexadecimal digits.
fn looks_like_a_driver(id: &str) -> bool {
    id.len() == 8 && id.bytes().all(|b| b.is_ascii_hexdigit())
}
