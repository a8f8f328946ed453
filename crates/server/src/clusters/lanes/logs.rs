//! Our own copy of a job's last lines, for when its cluster is gone.

use std::time::Duration;

use multicluster_core::{Core, Run};
use multicluster_ray::{JobDetails, RayError};
use multicluster_store::LogCopy;
use multicluster_types::SubmissionId;
use tokio::time::timeout;

use super::{Word, lane::Lane};

/// How much of the end of a log is kept.
const KEEP: usize = 64 << 10;
const LINES: u32 = 1000;
const TOO_LONG: Duration = Duration::from_secs(15);

impl Lane {
    /// Takes a copy. If that fails, the one before stays.
    pub(super) async fn copy_log(&self, run: &Run, details: &JobDetails) {
        let Ok(_turn) = self.copies.acquire().await else { return };
        // Before it is read, and after the driver has heard what we know of it: a copy that is
        // not older than the run's end has its last lines.
        let now = self.shared.see(Core::now).await;
        let taken_at = now.unwrap_or_else(|| self.shared.clock.now());
        let id = SubmissionId::of(&run.job, run.attempt);
        let (text, truncated) = match timeout(TOO_LONG, self.end_of_log(id.as_str(), details)).await {
            Ok(Ok(Some(end))) => end,
            // Deleted meanwhile.
            Ok(Ok(None)) => return,
            Ok(Err(error)) => {
                tracing::debug!(cluster = %self.cluster, job = %run.job, %error, "no copy of its log");
                return;
            }
            Err(_) => return,
        };
        let copy = LogCopy {
            job: run.job.clone(),
            attempt: run.attempt,
            cluster: self.cluster.clone(),
            taken_at,
            text,
            truncated,
        };
        let _stopped = self.shared.engine.tell(Word::Logs(Box::new(copy))).await;
    }

    /// The file itself, where Ray says on which node it is: cheap however long it is,
    /// and whatever bytes it holds. `None` if there is no such run.
    async fn end_of_log(&self, id: &str, details: &JobDetails) -> Result<Option<(String, bool)>, RayError> {
        if let Some(node) = &details.driver_node_id
            && let Ok(Some(bytes)) = self.client.driver_log(id, node, LINES, KEEP).await
        {
            let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
            let truncated = bytes.len() >= KEEP || lines >= LINES as usize;
            return Ok(Some((String::from_utf8_lossy(&bytes).into_owned(), truncated)));
        }
        let logs = self.client.logs(id, KEEP).await?;
        Ok(logs.map(|logs| (logs.text, logs.skipped > 0)))
    }
}
