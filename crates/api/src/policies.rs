//! Policies: what is in force, what to register, and what would come of it.

use multicluster_types::Source;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::{JobRequest, WhatIf, schema};

/// The policies in force, all of them together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PolicyList {
    /// Those of the settings first.
    pub items: Vec<Policy>,
}

/// One policy.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// `built_in`, `score` or `filter`.
    #[schema(example = "score")]
    pub kind: String,
    /// `file`: one of the settings, changed in the configuration file. `api`: registered here.
    #[schema(schema_with = schema::source)]
    pub source: Source,
    /// Its weight in the sum; filters have none.
    pub weight: Option<f64>,
    /// The expression, of those that have one.
    pub expression: Option<String>,
}

/// A policy to register, as an entry of `policies:` in the configuration file: an `expression`
/// or a `filter`, unless the name is that of a built-in score.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyRequest {
    /// A CEL expression that gives a score of 0..1.
    #[schema(example = "free_cpu / total_cpu")]
    pub expression: Option<String>,
    /// A CEL expression that gives true or false: clusters for which it is false are excluded.
    pub filter: Option<String>,
    /// Weight of a score in the sum; default 1.0.
    pub weight: Option<f64>,
}

/// A policy to try, and on what. Nothing changes.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyTrial {
    /// Its name. One that is in force under this name is replaced, wherever it comes from.
    #[schema(example = "night_on_mac")]
    pub name: String,
    /// The policy; absent: what would be without the one of this name.
    pub policy: Option<PolicyRequest>,
    /// On this job, as if it were submitted now.
    pub job: Option<Box<JobRequest>>,
    /// Or on this job, task or actor, as if it were submitted again now.
    pub job_id: Option<String>,
    /// Or on the jobs of the last so many decisions, 1 to 1000; default 20.
    pub decisions: Option<u32>,
}

/// How choices would differ. Everything is judged with the clusters as they are now: decisions do not
/// keep the facts of their moment. The time between submissions is ignored in both: it decides
/// when, not where.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PolicyTried {
    /// When this was computed.
    pub at: u64,
    /// How many of the items would be placed differently.
    pub differ: usize,
    /// One for each job that was tried; decisions with the latest first.
    pub items: Vec<TriedWork>,
    /// How many decisions were left out, because their job is forgotten or belongs to another owner.
    pub left_out: usize,
}

/// One job under both.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TriedWork {
    /// The id of the job, if it was submitted.
    pub job: Option<String>,
    /// The cluster that it went to; only for decisions.
    pub decided: Option<String>,
    /// When that was decided.
    pub decided_at: Option<u64>,
    /// Whether the choice would differ.
    pub differs: bool,
    /// With the policies in force.
    pub now: WhatIf,
    /// With the change.
    pub then: WhatIf,
}
