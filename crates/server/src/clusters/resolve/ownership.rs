//! The mark on every run of ours: which control plane started it, for which job.

use std::collections::BTreeMap;

use multicluster_types::{Attempt, ClusterName, ContentHash, JobId, Timestamp, Work};
use serde::{Deserialize, Serialize};

use super::Context;

const JOB: &str = "multicluster.job_id";
const ATTEMPT: &str = "multicluster.attempt";
const PLANE: &str = "multicluster.plane";
const LIFE: &str = "multicluster.life";
const CLUSTER: &str = "multicluster.cluster";
/// What a record of the job can be made from if the store has lost it.
const RECORD: &str = "multicluster.record";
/// In place of [`PLANE`] on a tombstone. So nothing that looks for runs of ours finds one, earlier
/// versions included.
const TOMBSTONE: &str = "multicluster.tombstone";

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
        Self::parse_as(metadata, PLANE)
    }

    /// Reads the mark of a tombstone; `None` if the run is none.
    pub(crate) fn parse_tombstone(metadata: &BTreeMap<String, String>) -> Option<Self> {
        Self::parse_as(metadata, TOMBSTONE).filter(|_| !metadata.contains_key(PLANE))
    }

    fn parse_as(metadata: &BTreeMap<String, String>, plane: &str) -> Option<Self> {
        Some(Self {
            job: JobId::new(metadata.get(JOB)?).ok()?,
            attempt: Attempt(number(metadata.get(ATTEMPT)?).filter(|&attempt| attempt >= 1)?),
            plane: metadata.get(plane)?.clone(),
            life: Timestamp(number(metadata.get(LIFE)?)?),
        })
    }

    /// The metadata of a tombstone for this attempt.
    pub(crate) fn tombstone(self, cluster: &ClusterName) -> BTreeMap<String, String> {
        self.written(TOMBSTONE, cluster).collect()
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
        marked.remove(TOMBSTONE);
        marked.remove(RECORD);
        marked.extend(self.written(PLANE, cluster));
        marked
    }

    fn written(self, plane: &str, cluster: &ClusterName) -> impl Iterator<Item = (String, String)> + use<> {
        let (job, attempt, life) = (self.job.to_string(), self.attempt.to_string(), self.life.0.to_string());
        [(JOB, job), (ATTEMPT, attempt), (plane, self.plane), (LIFE, life), (CLUSTER, cluster.to_string())]
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
    }
}

/// What a run says about its job, beside whose it is.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Brief {
    pub(crate) work: Option<Box<Work>>,
    pub(crate) content: Option<ContentHash>,
    #[serde(default)]
    pub(crate) bytes: u32,
}

impl Brief {
    /// Writes it into the metadata of a run.
    pub(crate) fn write(&self, metadata: &mut BTreeMap<String, String>) {
        if let Ok(text) = serde_json::to_string(self) {
            metadata.insert(RECORD.to_owned(), text);
        }
    }

    /// Reads it; runs of earlier versions have none.
    pub(crate) fn read(metadata: &BTreeMap<String, String>) -> Self {
        metadata.get(RECORD).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }
}

/// The metadata of a run as its submitter wrote it.
pub(crate) fn unmarked(mut metadata: BTreeMap<String, String>) -> BTreeMap<String, String> {
    metadata.retain(|name, _| ![JOB, ATTEMPT, PLANE, LIFE, CLUSTER, RECORD].contains(&name.as_str()));
    metadata
}

/// Digits only: we never write `+1` or ` 1`.
fn number<N: std::str::FromStr>(text: &str) -> Option<N> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}
