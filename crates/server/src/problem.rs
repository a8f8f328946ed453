//! Errors of the HTTP side: one value, rendered as JSON for our API and as text for Ray's clients.

use std::{fmt, time::Duration};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use multicluster_api::{Code, ErrorBody, codes};
use multicluster_core::Refusal;
use multicluster_store::StoreError;

/// Why a request was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    /// A stable word from [`codes::ALL`].
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// When to try again, if known.
    retry_after: Option<Duration>,
}

/// On answers that another replica, or the same one a moment later, may give otherwise: the code.
pub(crate) const CODE: HeaderName = HeaderName::from_static("x-ray-multicluster-code");

/// Separates a message of ours from its hint.
pub(crate) const HINT: &str = "\n  hint: ";

impl Problem {
    /// A problem with the code's own hint.
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::from_u16(code.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            code: code.word,
            message: message.into(),
            hint: Some(code.hint.to_owned()),
            retry_after: None,
        }
    }

    /// From an error of ours, whose text has a hint after `hint:`.
    pub(crate) fn told(code: Code, error: &impl fmt::Display) -> Self {
        let text = error.to_string();
        match text.split_once(HINT) {
            Some((message, hint)) => Self::new(code, message).hint(hint),
            None => Self::new(code, text),
        }
    }

    /// Replaces the hint.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// A retry after this time may succeed.
    pub(crate) fn retry_after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }

    /// Puts the field or item that is meant in front of the message.
    pub(crate) fn about(self, what: impl fmt::Display) -> Self {
        Self { message: format!("{what}: {}", self.message), ..self }
    }

    /// An unknown name in the path is a 404; an unknown name in a job is an error of the job.
    pub(crate) fn in_submission(self) -> Self {
        let is_ours = self.code == codes::UNKNOWN_CLUSTER.word;
        Self { status: if is_ours { StatusCode::BAD_REQUEST } else { self.status }, ..self }
    }

    /// Whether the leader of the control plane is missing, and not the request at fault.
    pub(crate) fn is_about_the_leader(&self) -> bool {
        [codes::NO_LEADER.word, codes::LEADER_LOST.word].contains(&self.code)
    }

    /// As the native API shows it.
    pub(crate) fn body(&self) -> ErrorBody {
        ErrorBody { code: self.code.to_owned(), message: self.message.clone(), hint: self.hint.clone() }
    }

    /// For Ray's clients, which print the body as it is.
    pub(crate) fn into_text_response(self) -> Response {
        let text = self.to_string();
        self.respond("text/plain; charset=utf-8", text)
    }

    fn respond(self, content_type: &'static str, body: String) -> Response {
        let is_about_the_leader = self.is_about_the_leader();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        if is_about_the_leader {
            headers.insert(CODE, HeaderValue::from_static(self.code));
        }
        if let Some(wait) = self.retry_after {
            // Whole seconds, rounded up; a client that comes back too early is refused again.
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            headers.insert(header::RETRY_AFTER, seconds.max(1).into());
        }
        response
    }
}

/// Every refusal that is temporary says when to try again, whatever its source: a full queue
/// empties as clusters accept work, and anything else takes a moment.
pub(crate) fn say_when(status: StatusCode, headers: &mut HeaderMap) {
    let seconds = match status {
        StatusCode::TOO_MANY_REQUESTS => "5",
        StatusCode::SERVICE_UNAVAILABLE => "2",
        _ => return,
    };
    headers.entry(header::RETRY_AFTER).or_insert(HeaderValue::from_static(seconds));
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "{HINT}{hint}"))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_string(&self.body()).unwrap_or_default();
        self.respond("application/json", body)
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let code = codes::find(refusal.code()).unwrap_or(codes::INTERNAL);
        Problem::told(code, &refusal)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::TooLarge { .. } => codes::TOO_LARGE,
            StoreError::BadName { .. } => codes::BAD_JOB,
            StoreError::Crowded { .. } => codes::BUSY,
            StoreError::Full { .. } | StoreError::ShareFull { .. } => codes::STORE_FULL,
            // disk_full
            StoreError::Postgres { code, .. } if code == "53100" => codes::STORE_FULL,
            // Another replica may reach it, and this one in a moment.
            StoreError::Unreachable { .. } | StoreError::NotLeader { .. } => codes::NO_LEADER,
            StoreError::Io { error, .. } if error.kind() == std::io::ErrorKind::StorageFull => {
                codes::STORE_FULL
            }
            _ => codes::STORE_FAILED,
        };
        if code.status >= 500 && ![codes::BUSY.word, codes::NO_LEADER.word].contains(&code.word) {
            tracing::error!(%error, "the store failed a request");
        }
        Problem::told(code, &error)
    }
}

#[cfg(test)]
mod tests {
    use multicluster_core::{QueueKind, QueueName};
    use multicluster_types::{ClusterName, JobId, State, Tag};

    use super::*;

    #[test]
    fn every_refusal_of_the_core_has_a_status_and_a_hint() {
        let (job, cluster) = (JobId::new("j").unwrap(), ClusterName::new("mac").unwrap());
        let queue = QueueName { kind: QueueKind::Jobs, cluster: None };
        for (refusal, status) in [
            (Refusal::QueueFull { queue, len: 7 }, 429),
            (Refusal::Conflict { job: job.clone(), state: State::Running }, 409),
            (Refusal::Taken { job: job.clone() }, 409),
            (Refusal::UnknownCluster { cluster: cluster.clone(), known: vec![] }, 404),
            (Refusal::NoClusters, 503),
            (Refusal::Infeasible { why: "mac: too small".into() }, 422),
            (Refusal::UnknownTag { tag: Tag::new("lnux").unwrap(), similar: None, known: vec![] }, 422),
            (Refusal::NotInside { job: job.clone(), cluster: cluster.clone() }, 409),
            (Refusal::UnknownJob { job: job.clone() }, 404),
            (
                Refusal::WrongState { job: job.clone(), state: State::Failed, verb: "stopped", hint: "no" },
                409,
            ),
            (Refusal::NoLease { job, attempt: multicluster_types::Attempt(1) }, 409),
            (Refusal::DuplicateCluster { cluster, in_list: false }, 409),
            (Refusal::FilePolicy { name: "score".into(), verb: "remove" }, 409),
            (Refusal::UnknownPolicy { name: "none".into(), known: vec![] }, 404),
        ] {
            let problem = Problem::from(refusal);
            assert_eq!(problem.status.as_u16(), status, "{problem}");
            assert!(!problem.message.contains("hint:") && problem.hint.is_some(), "{problem}");
        }
    }

    #[test]
    fn an_unknown_cluster_is_the_jobs_fault_where_a_job_names_it() {
        let unknown = Refusal::UnknownCluster { cluster: ClusterName::new("moc").unwrap(), known: vec![] };
        assert_eq!(Problem::from(unknown).in_submission().status, StatusCode::BAD_REQUEST);
        let other = Problem::from(Refusal::NoClusters).in_submission();
        assert_eq!(other.status, StatusCode::SERVICE_UNAVAILABLE);
    }

    #[test]
    fn a_text_answer_says_the_same() {
        let response = Problem::from(Refusal::NoClusters).into_text_response();
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/plain; charset=utf-8");
    }
}
