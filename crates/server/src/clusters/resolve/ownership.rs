//! The mark on every run of ours: which control plane started it, for which job.

use std::collections::BTreeMap;

use multicluster_types::{Attempt, ClusterName, JobId, Timestamp};

use super::Context;

const JOB: &str = "multicluster.job_id";
const ATTEMPT: &str = "multicluster.attempt";
const PLANE: &str = "multicluster.plane";
const LIFE: &str = "multicluster.life";
const CLUSTER: &str = "multicluster.cluster";

/// The owner of a run, as written into the run's metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ownership {
    /// The job.
    pub job: JobId,
    /// The number of the attempt.
    pub attempt: Attempt,
    /// The control plane that started the run.
    pub plane: String,
    /// When that job was accepted, which tells two jobs with the same id apart.
    pub life: Timestamp,
}

impl Ownership {
    /// The mark for this dispatch.
    #[must_use]
    pub fn of(context: &Context<'_>) -> Self {
        Self {
            job: context.job.clone(),
            attempt: context.attempt,
            plane: context.plane_id.to_owned(),
            life: context.submitted_at,
        }
    }

    /// Reads the mark from a run's metadata; `None` if no control plane started the run.
    #[must_use]
    pub fn parse(metadata: &BTreeMap<String, String>) -> Option<Self> {
        Some(Self {
            job: JobId::new(metadata.get(JOB)?).ok()?,
            attempt: Attempt(number(metadata.get(ATTEMPT)?).filter(|&attempt| attempt >= 1)?),
            plane: metadata.get(PLANE)?.clone(),
            life: Timestamp(number(metadata.get(LIFE)?)?),
        })
    }

    /// The caller's metadata with the mark. Values that the caller wrote under the same names are
    /// overwritten, so that no caller can mark a run as another's. Placement hints stay, so that
    /// Ray's own dashboard shows them.
    pub(super) fn mark(
        self,
        metadata: &BTreeMap<String, String>,
        cluster: &ClusterName,
    ) -> BTreeMap<String, String> {
        let mut marked = metadata.clone();
        marked.extend(
            [
                (JOB, self.job.to_string()),
                (ATTEMPT, self.attempt.to_string()),
                (PLANE, self.plane),
                (LIFE, self.life.0.to_string()),
                (CLUSTER, cluster.to_string()),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
        marked
    }
}

/// Digits only: we never write `+1` or ` 1`.
fn number<N: std::str::FromStr>(text: &str) -> Option<N> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}
