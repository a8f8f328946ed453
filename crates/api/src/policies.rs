//! Policies: what is in force, what to register, and what would come of it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{JobRequest, WhatIf};

/// The policies in force, all of them together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PolicyList {
    /// Those of the settings first.
    pub items: Vec<Policy>,
}

/// One policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// `built_in`, `score` or `filter`.
    #[schema(example = "score")]
    pub kind: String,
    /// `file`: one of the settings, changed in the configuration file. `api`: registered here.
    #[serde(default = "of_file")]
    #[schema(example = "api")]
    pub source: String,
    /// Its share in the sum; filters have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// The expression, of those that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,
}

fn of_file() -> String {
    "file".to_owned()
}

/// A policy to register, as an entry of `policies:` in the configuration file: an `expression`
/// or a `filter`, unless the name is that of a built-in score.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyRequest {
    /// A CEL expression giving 0..1: a score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "free_cpu / total_cpu")]
    pub expression: Option<String>,
    /// A CEL expression giving true or false: clusters for which it is false take no such work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Share of a score in the weighted sum; 1.0 if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
}

/// A policy to try, and on what. Nothing changes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyTrial {
    /// Its name. One that is in force under this name is replaced, wherever it comes from.
    #[schema(example = "night_on_mac")]
    pub name: String,
    /// The policy; absent: what would be without the one of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyRequest>,
    /// On this job, as if it were submitted now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Box<JobRequest>>,
    /// Or on the work of this job, task or actor, as if it came again now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// Or on the work of the last so many decisions, 1 to 1000; 20 if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decisions: Option<u32>,
}

/// How choices would differ. All is judged on the clusters as they are now: decisions do not
/// keep the facts of their moment. The time between submissions is left out, in both: it says
/// when, not where.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PolicyTried {
    /// When.
    pub at: u64,
    /// How many of the items would go elsewhere, or go instead of wait, or wait instead of go.
    pub differ: usize,
    /// One for each piece of work that was looked at; of decisions, the latest first.
    pub items: Vec<TriedWork>,
    /// Of how many decisions the work is forgotten, or somebody else's.
    pub left_out: usize,
}

/// One piece of work under both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TriedWork {
    /// Whose work it is, if it was ever submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Where it went, of a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<String>,
    /// When that was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<u64>,
    /// Would the choice differ?
    pub differs: bool,
    /// Under the policies in force.
    pub now: WhatIf,
    /// With the change.
    pub then: WhatIf,
}
