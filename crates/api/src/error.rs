//! How the control plane says no.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body of every answer that is not a success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// A stable word; programs go by this one.
    #[schema(example = "queue_full")]
    pub code: String,
    /// What happened, to which job or cluster.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// An error code, as the docs show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// The word in [`ErrorBody::code`].
    pub word: &'static str,
    /// The HTTP status that goes with it.
    pub status: u16,
    /// What it means.
    pub meaning: &'static str,
    /// What to do about it, where the answer itself knows nothing better.
    pub hint: &'static str,
}

macro_rules! codes {
    ($($name:ident = $word:literal, $status:literal, $meaning:literal, $hint:literal;)+) => {
        /// Every error code, declared once.
        pub mod codes {
            use super::Code;
            $(
                #[doc = $meaning]
                pub const $name: Code =
                    Code { word: $word, status: $status, meaning: $meaning, hint: $hint };
            )+
            /// All of them, by status.
            pub const ALL: &[Code] = &[$($name),+];

            /// The code of this word.
            #[must_use]
            pub fn find(word: &str) -> Option<Code> {
                ALL.iter().find(|code| code.word == word).copied()
            }
        }
    };
}

codes! {
    BAD_JSON = "bad_json", 400, "The body is not JSON.",
        "check the body with a JSON tool; strings need double quotes, lists no trailing comma";
    BAD_BODY = "bad_body", 400, "The body is JSON, but not what this request takes.",
        "see /v1/openapi.json for what this request takes";
    BAD_QUERY = "bad_query", 400, "A parameter after the `?` cannot be used.",
        "see /v1/openapi.json for the parameters of this request";
    BAD_ID = "bad_id", 400, "A name or id in the address cannot be one.",
        "use letters, digits, '_', '.' and '-'";
    BAD_JOB = "bad_job", 400, "The job as described cannot run anywhere.",
        "JobRequest in /v1/openapi.json says what a job may say";
    BAD_HINT = "bad_hint", 400, "A `multicluster.*` key of the metadata cannot be used.",
        "JobRequest in /v1/openapi.json has a field for each";
    MISSING_PACKAGE = "missing_package", 400, "The runtime_env names a `gcs://` package that is not here.",
        "upload it first: PUT /api/packages/gcs/NAME";
    BAD_CLUSTER = "bad_cluster", 400, "The cluster as described cannot be used.",
        "the keys are those of a cluster in cluster.yaml";
    NO_TOKEN = "no_token", 401, "The control plane wants a token, and none was given.",
        "set RAY_MULTICLUSTER_TOKEN, or send Authorization: Bearer TOKEN; ray-multicluster token create makes one";
    BAD_TOKEN = "bad_token", 403, "The token is unknown, revoked or expired.",
        "ask whoever runs the control plane for another: ray-multicluster token create";
    FORBIDDEN = "forbidden", 403, "The token is good, but not for this.",
        "ask whoever runs the control plane for a token of another role";
    HOST_NOT_ALLOWED = "host_not_allowed", 403, "The control plane does not answer to this `Host`.",
        "use http://127.0.0.1 or http://localhost, or start it with the name you want to use";
    ORIGIN_NOT_ALLOWED = "origin_not_allowed", 403, "A web page of another site made this request.",
        "open the console under the same address as the API";
    NOT_FOUND = "not_found", 404, "There is nothing at this address.",
        "GET /v1/openapi.json lists what there is";
    UNKNOWN_JOB = "unknown_job", 404, "There is no such job.",
        "ended jobs are forgotten after retain_for";
    UNKNOWN_CLUSTER = "unknown_cluster", 404, "There is no such cluster; 400 where a job names it.",
        "GET /v1/clusters lists those there are";
    UNKNOWN_POLICY = "unknown_policy", 404, "There is no such policy.",
        "GET /v1/policies lists those there are";
    METHOD_NOT_ALLOWED = "method_not_allowed", 405, "This address does not take this method.",
        "the Allow header of this answer names those it takes";
    TOO_SLOW = "too_slow", 408, "The request did not arrive in time.",
        "send the body without pauses; large batches may be split";
    CONFLICT = "conflict", 409, "The id belongs to a job with other content.",
        "choose another id, or submit exactly the same again";
    WRONG_STATE = "wrong_state", 409, "The job has ended, or has not, or never had what is asked.",
        "GET /v1/jobs/ID shows its state";
    NOT_INSIDE = "not_inside", 409, "The job named as the parent does not run on that cluster.",
        "submit from outside a job, without its context";
    NO_LEASE = "no_lease", 409, "The placement is not, or no longer, the caller's.",
        "it expired or was given to a later attempt; submit again";
    DUPLICATE_CLUSTER = "duplicate_cluster", 409, "A cluster of this name is registered already.",
        "PUT /v1/clusters/NAME replaces it";
    FILE_POLICY = "file_policy", 409, "The policy is one of the settings: the API does not change those.",
        "change it under scheduler.policies in the configuration file, or use another name";
    TOO_LARGE = "too_large", 413, "The body, or a list in it, is larger than allowed.",
        "send less at once";
    BAD_CONFIG = "bad_config", 422, "The configuration file has errors; nothing was changed.",
        "correct the file, then reload";
    BAD_POLICY = "bad_policy", 422, "A policy cannot be used; nothing was changed.",
        "correct the policy: expressions are CEL, see docs/scheduling.md";
    INFEASIBLE = "infeasible", 422, "No registered cluster could ever take this work.",
        "ask for less, or set infeasible: queue";
    QUEUE_FULL = "queue_full", 429, "The queue is full: try later.",
        "submit later, or raise max_queue";
    RATE_LIMITED = "rate_limited", 429, "The token submits more than it may a second: wait as long as `Retry-After` says.",
        "wait a moment, or send many jobs in one batch less often";
    INTERNAL = "internal", 500, "A bug in the control plane; nothing was changed.",
        "the log of the control plane says more; please report it";
    STORE_FAILED = "store_failed", 500, "The state could not be read or written.",
        "the log of the control plane says more; check the disk";
    NO_CLUSTERS = "no_clusters", 503, "No cluster is registered.",
        "list some in cluster.yaml, or register one";
    BUSY = "busy", 503, "Too many of the same at once.",
        "try again in a moment";
    OVERLOADED = "overloaded", 503, "More is asked than the control plane keeps up with; nothing was changed.",
        "try again in a moment";
    STOPPING = "stopping", 503, "The control plane is stopping.",
        "try again in a moment";
    CANNOT_WRITE = "cannot_write", 503, "The state cannot be written, so nothing new is accepted.",
        "make room on its disk, or mend it, and try again";
    STORE_FULL = "store_full", 507, "No room on the disk, or for another package.",
        "delete ended jobs, or make room on the disk";
}

#[cfg(test)]
mod tests {
    use super::codes;

    #[test]
    fn codes_are_unique_ordered_and_all_have_a_hint() {
        for pair in codes::ALL.windows(2) {
            assert!(pair[0].status <= pair[1].status, "{} before {}", pair[0].word, pair[1].word);
        }
        for code in codes::ALL {
            assert_eq!(codes::ALL.iter().filter(|c| c.word == code.word).count(), 1, "{}", code.word);
            assert!(!code.hint.is_empty() && code.meaning.ends_with('.'), "{}", code.word);
        }
    }
}
