//! How the control plane says no.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::schema;

/// The body of every answer that is not a success.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// A stable word for programs.
    #[schema(schema_with = schema::code)]
    pub code: String,
    /// What happened, and to which job or cluster.
    pub message: String,
    /// What to do about it.
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
    BAD_BODY = "bad_body", 400, "The body is JSON, but not what this request accepts.",
        "see /v1/openapi.json for what this request accepts";
    BAD_QUERY = "bad_query", 400, "A parameter after the `?` cannot be used.",
        "see /v1/openapi.json for the parameters of this request";
    BAD_PERIOD = "bad_period", 400, "There is no such period, or not in such steps.",
        "give since and until in ms since 1970, within the last 31 days, and at most 1500 steps";
    BAD_ID = "bad_id", 400, "A name or id in the URL is not valid.",
        "use letters, digits, '_', '.' and '-'";
    BAD_JOB = "bad_job", 400, "The job as described cannot run anywhere.",
        "see JobRequest in /v1/openapi.json for the fields of a job";
    BAD_HINT = "bad_hint", 400, "A `multicluster.*` key of the metadata cannot be used.",
        "see JobRequest in /v1/openapi.json: it has a field for each of them";
    MISSING_PACKAGE = "missing_package", 400, "The runtime_env names a `gcs://` package that was not uploaded.",
        "upload it first: PUT /api/packages/gcs/NAME";
    BAD_CLUSTER = "bad_cluster", 400, "The cluster as described cannot be used.",
        "the keys are those of a cluster in cluster.yaml";
    NO_TOKEN = "no_token", 401, "The control plane requires a token, and none was sent.",
        "set RAY_MULTICLUSTER_TOKEN, or send Authorization: Bearer TOKEN; ray-multicluster token create makes one";
    BAD_TOKEN = "bad_token", 403, "The token is unknown, revoked or expired.",
        "ask the operator of the control plane for a new token: ray-multicluster token create";
    FORBIDDEN = "forbidden", 403, "The role of the token does not allow this.",
        "ask the operator of the control plane for a token with another role";
    PRIORITY_TOO_HIGH = "priority_too_high", 403, "The priority is higher than the token, or the share of its owner, allows.",
        "submit with a lower priority, or ask the operator of the control plane to allow a higher one";
    HOST_NOT_ALLOWED = "host_not_allowed", 403, "The control plane does not answer to this `Host`.",
        "use http://127.0.0.1 or http://localhost, or start it with the name you want to use";
    ORIGIN_NOT_ALLOWED = "origin_not_allowed", 403, "A web page of another site made this request.",
        "open the console under the same address as the API";
    NOT_FOUND = "not_found", 404, "There is no such route.",
        "GET /v1/openapi.json lists the routes";
    UNKNOWN_JOB = "unknown_job", 404, "There is no such job.",
        "ended jobs are forgotten after retain_for";
    UNKNOWN_CLUSTER = "unknown_cluster", 404, "There is no such cluster; 400 if a job names it.",
        "GET /v1/clusters lists the clusters";
    UNKNOWN_POLICY = "unknown_policy", 404, "There is no such policy.",
        "GET /v1/policies lists the policies";
    METHOD_NOT_ALLOWED = "method_not_allowed", 405, "This route does not accept this method.",
        "the Allow header of this answer lists the methods that it accepts";
    TOO_SLOW = "too_slow", 408, "The request did not arrive in time.",
        "send the body without pauses; split large batches";
    CONFLICT = "conflict", 409, "The id belongs to a job with different content.",
        "choose another id, or submit exactly the same job again";
    WRONG_STATE = "wrong_state", 409, "The job is not in a state in which this is possible.",
        "GET /v1/jobs/ID shows its state";
    NOT_INSIDE = "not_inside", 409, "The job named as the parent is not running on that cluster.",
        "submit from outside the job, without its context";
    NO_LEASE = "no_lease", 409, "The caller does not hold this placement, or no longer.",
        "it expired, or a later attempt holds it; submit again";
    DUPLICATE_CLUSTER = "duplicate_cluster", 409, "A cluster with this name is already registered.",
        "PUT /v1/clusters/NAME replaces it";
    FILE_POLICY = "file_policy", 409, "The policy is set in the configuration file: the API cannot change it.",
        "change it under scheduler.policies in the configuration file, or use another name";
    TOO_LARGE = "too_large", 413, "The body, or a list in it, is larger than allowed.",
        "send less at once";
    BAD_CONFIG = "bad_config", 422, "The configuration file has errors; nothing was changed.",
        "correct the file, then reload";
    BAD_POLICY = "bad_policy", 422, "A policy cannot be used; nothing was changed.",
        "correct the policy: expressions are CEL, see docs/scheduling.md";
    INFEASIBLE = "infeasible", 422, "No registered cluster is large enough for this job.",
        "request less, or set infeasible: queue";
    UNKNOWN_TAG = "unknown_tag", 422, "No registered cluster carries a tag of this job.",
        "correct the tag, or set unknown_tags: allow";
    QUEUE_FULL = "queue_full", 429, "The queue is full: try again later.",
        "submit later, or raise max_queue";
    RATE_LIMITED = "rate_limited", 429, "The token submits too fast: wait as long as `Retry-After` says.",
        "wait a moment, or send many jobs in one batch less often";
    INTERNAL = "internal", 500, "A bug in the control plane; nothing was changed.",
        "see the log of the control plane; please report it";
    STORE_FAILED = "store_failed", 500, "The state could not be read or written.",
        "see the log of the control plane; check the disk";
    CLUSTER_TOKEN = "cluster_token", 502, "The control plane has no token for the cluster: its file cannot be read, or its command failed.",
        "ask the operator of the control plane; ray-multicluster clusters shows the reason";
    NO_CLUSTERS = "no_clusters", 503, "No cluster is registered.",
        "add some to cluster.yaml, or register one";
    BUSY = "busy", 503, "Too many requests of this kind at once.",
        "try again in a moment";
    OVERLOADED = "overloaded", 503, "The control plane cannot keep up with its requests; nothing was changed.",
        "try again in a moment";
    STOPPING = "stopping", 503, "The control plane is stopping.",
        "try again in a moment";
    CANNOT_WRITE = "cannot_write", 503, "The state directory is not writable, or its disk is nearly full: nothing new is accepted.",
        "free space on its disk, or repair it, and try again";
    NO_LEADER = "no_leader", 503, "No replica of the control plane leads at the moment; nothing was done.",
        "try again in a moment: another replica takes over within seconds";
    LEADER_LOST = "leader_lost", 503, "The leading replica went away while it had the request, which may have been done.",
        "send the same request again if it has an id, or look first whether it was done";
    STORE_FULL = "store_full", 507, "No space on the disk, or none for another package.",
        "delete ended jobs, or free space on the disk";
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
