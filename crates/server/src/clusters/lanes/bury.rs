//! Tombstones: a no-op under the id of an attempt that will be given up.
//!
//! Ray takes an id once, atomically. So a request for the attempt that is still on its way, from
//! us or from a control plane that led before, is refused from then on; or it was faster, and the
//! attempt is there.

use multicluster_core::{LookupOutcome, Run};
use multicluster_ray::{JobDetails, RayError, SubmitRequest};
use multicluster_store::Seen;
use multicluster_types::{Span, SubmissionId, Timestamp};

use super::{lane::Lane, status};
use crate::clusters::resolve::Ownership;

/// What a tombstone runs. It needs no environment and no resources.
const ENTRYPOINT: &str = "true";
/// A tombstone may be deleted when it is this old: no request is on its way for so long.
const KEPT: Span = Span::minutes(10);

impl Lane {
    /// Buries an attempt. True if it must be buried once more.
    pub(super) async fn bury(&self, run: &Run) -> bool {
        let Ok(_turn) = self.questions.acquire().await else { return false };
        let Some(question) = self.burials.begin(run) else { return false };
        // Whoever leads by now buries it.
        if !self.shared.trust.wait().await {
            return false;
        }
        let found = self.put_tombstone(run).await;
        if let Err(error) = &found {
            tracing::warn!(cluster = %self.cluster, job = %run.job, %error, "cannot bury the attempt; will retry");
        }
        self.report_found(run, question, found).await;
        self.burials.finish(run)
    }

    async fn put_tombstone(&self, run: &Run) -> Result<(LookupOutcome, Option<Seen>), RayError> {
        let mark = Ownership {
            job: run.job.clone(),
            attempt: run.attempt,
            plane: self.shared.plane.to_string(),
            life: run.life.unwrap_or_default(),
        };
        let id = SubmissionId::of(&run.job, run.attempt);
        let metadata = mark.tombstone(&self.cluster);
        let request = SubmitRequest { metadata, ..SubmitRequest::new(id.as_str(), ENTRYPOINT) };
        match self.client.submit(&request).await {
            // The incarnation is read after the answer, as for a look-up.
            Ok(_) => Ok((LookupOutcome::Buried { incarnation: self.client.incarnation().await? }, None)),
            Err(error) if error.is_already_exists() => self.ask(run).await,
            Err(error) => Err(error),
        }
    }
}

/// Did this tombstone end so long ago that it is not needed any more?
pub(super) fn is_spent(details: &JobDetails, now: Timestamp) -> bool {
    status::is_over(details) && details.end_time.is_some_and(|end| end + KEPT <= now)
}
