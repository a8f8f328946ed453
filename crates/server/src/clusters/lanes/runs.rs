//! The runs of one cluster. A run is read by its id, and an id proves nothing: after the head was
//! replaced, somebody else's run may have it. So each read checks the mark of the run, and nothing
//! of a run without our mark leaves this file.

use std::sync::Arc;

use multicluster_core::Run;
use multicluster_ray::{JobDetails, LogTail, Logs, RayClient, RayError};
use multicluster_types::SubmissionId;
use tokio::sync::mpsc;

use crate::clusters::resolve::Ownership;

/// Reads runs of ours on one cluster.
#[derive(Clone)]
pub(crate) struct Runs {
    pub(super) client: RayClient,
    /// The id of this control plane.
    pub(super) plane: Arc<str>,
}

/// The run that a cluster has under the id of one attempt.
pub(crate) enum Found {
    Ours(Box<JobDetails>),
    /// Our tombstone: this attempt was given up, and never runs here.
    Tombstone(Box<JobDetails>),
    SomebodyElses,
    Nothing,
}

impl Runs {
    /// Finds the run under the id of this attempt, and whether it is this attempt.
    pub(crate) async fn find(&self, run: &Run) -> Result<Found, RayError> {
        Ok(match self.client.job(id(run).as_str()).await? {
            None => Found::Nothing,
            Some(details) if self.is(&details, run) => Found::Ours(Box::new(details)),
            Some(details) if self.buried(&details).is_some_and(|buried| is_same(&buried, run)) => {
                Found::Tombstone(Box::new(details))
            }
            Some(_) => Found::SomebodyElses,
        })
    }

    /// The run of this attempt; `None` if the cluster does not have it.
    pub(crate) async fn ours(&self, run: &Run) -> Result<Option<JobDetails>, RayError> {
        Ok(match self.find(run).await? {
            Found::Ours(details) => Some(*details),
            Found::Tombstone(_) | Found::SomebodyElses | Found::Nothing => None,
        })
    }

    /// The last `keep` bytes of the log of this attempt; `None` if the cluster does not have the
    /// attempt.
    pub(crate) async fn logs(&self, run: &Run, keep: usize) -> Result<Option<Logs>, RayError> {
        let logs = self.client.logs(id(run).as_str(), keep).await?;
        // Checked after the log was read: the head may be replaced before, but ours does not come
        // back afterwards.
        Ok(if self.ours(run).await?.is_some() { logs } else { None })
    }

    /// The last lines of the log file of this attempt; `None` if there is no such file. `details`
    /// must be those of the attempt: they name its node, which no later head has.
    pub(crate) async fn driver_log(
        &self,
        run: &Run,
        details: &JobDetails,
        lines: u32,
        keep: usize,
    ) -> Result<Option<Vec<u8>>, RayError> {
        let Some(node) = details.driver_node_id.as_deref().filter(|_| self.is(details, run)) else {
            return Ok(None);
        };
        self.client.driver_log(id(run).as_str(), node, lines, keep).await
    }

    /// Sends the whole log file of this attempt to `out`; false if there is no such file. `details`
    /// as above.
    pub(super) async fn whole_log(
        &self,
        run: &Run,
        details: &JobDetails,
        out: mpsc::Sender<Vec<u8>>,
    ) -> Result<bool, RayError> {
        let Some(node) = details.driver_node_id.as_deref().filter(|_| self.is(details, run)) else {
            return Ok(false);
        };
        self.client.whole_driver_log(id(run).as_str(), node, out).await
    }

    /// Follows the log of this attempt; `None` if the cluster does not have the attempt.
    pub(crate) async fn tail(&self, run: &Run) -> Result<Option<LogTail>, RayError> {
        let tail = self.client.tail(id(run).as_str()).await?;
        // Checked after the connection was made, which ends with its head.
        Ok(if self.ours(run).await?.is_some() { tail } else { None })
    }

    /// The attempt that this run is, if it is ours.
    pub(super) fn identify(&self, details: JobDetails) -> Option<(Run, JobDetails)> {
        let run = run_of(self.owner_of(&details)?);
        Some((run, details))
    }

    /// The attempt that this run keeps from running, if it is a tombstone of ours.
    pub(super) fn buried(&self, details: &JobDetails) -> Option<Run> {
        let owner = Ownership::parse_tombstone(&details.metadata)?;
        self.is_written_by_us(&owner, details).then(|| run_of(owner))
    }

    fn is(&self, details: &JobDetails, run: &Run) -> bool {
        self.owner_of(details).is_some_and(|owner| is_same(&run_of(owner), run))
    }

    /// The attempt that this run belongs to, if it is ours.
    fn owner_of(&self, details: &JobDetails) -> Option<Ownership> {
        Ownership::parse(&details.metadata).filter(|owner| self.is_written_by_us(owner, details))
    }

    /// The id is checked too: metadata can be copied to another run, but an id exists only once.
    fn is_written_by_us(&self, owner: &Ownership, details: &JobDetails) -> bool {
        *owner.plane == *self.plane
            && details.submission_id.as_deref() == Some(SubmissionId::of(&owner.job, owner.attempt).as_str())
    }
}

fn run_of(owner: Ownership) -> Run {
    Run { job: owner.job, attempt: owner.attempt, life: Some(owner.life) }
}

/// `run` may be one of which the life is not known.
fn is_same(there: &Run, run: &Run) -> bool {
    there.job == run.job
        && there.attempt == run.attempt
        && run.life.is_none_or(|life| there.life == Some(life))
}

fn id(run: &Run) -> SubmissionId {
    SubmissionId::of(&run.job, run.attempt)
}
