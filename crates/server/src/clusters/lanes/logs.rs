//! Our own copy of the last lines of a job's log, for when its cluster is gone.

use std::time::Duration;

use multicluster_core::{Core, Run};
use multicluster_ray::{JobDetails, RayError};
use multicluster_store::LogCopy;
use tokio::time::timeout;

use super::{Word, lane::Lane};

/// How much of the end of a log is kept.
const KEEP: usize = 64 << 10;
const LINES: u32 = 1000;
const TOO_LONG: Duration = Duration::from_secs(15);

impl Lane {
    /// Takes the copy that was requested of this run. True if another is needed: the run may have
    /// ended since.
    pub(super) async fn renew_copy(&self, run: &Run) -> bool {
        let Ok(_turn) = self.copies.acquire().await else { return false };
        let Some(details) = self.logs.begin(run) else { return false };
        self.take_copy(run, &details).await;
        self.logs.finish(run)
    }

    /// Takes a copy. If that fails, the previous copy stays.
    pub(super) async fn copy_log(&self, run: &Run, details: &JobDetails) {
        let Ok(_turn) = self.copies.acquire().await else { return };
        self.take_copy(run, details).await;
    }

    async fn take_copy(&self, run: &Run, details: &JobDetails) {
        // The time is read before the log, and after the engine received our report of the run. So
        // a copy that is not older than the run's end contains the last lines.
        let now = self.shared.see(Core::now).await;
        let taken_at = now.unwrap_or_else(|| self.shared.clock.now());
        let (text, truncated) = match timeout(TOO_LONG, self.end_of_log(run, details)).await {
            Ok(Ok(Some(end))) => end,
            // The run was deleted in the meantime, or the head was replaced.
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
        let _stopped = self.shared.engine.tell(Word::Logs { run: run.clone(), copy: Box::new(copy) }).await;
    }

    /// The log file itself, if Ray reports its node: cheap however long it is, and whatever bytes
    /// it holds. `None` if there is no such run.
    async fn end_of_log(&self, run: &Run, details: &JobDetails) -> Result<Option<(String, bool)>, RayError> {
        if let Ok(Some(bytes)) = self.runs.driver_log(run, details, LINES, KEEP).await {
            let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
            let truncated = bytes.len() >= KEEP || lines >= LINES as usize;
            return Ok(Some((String::from_utf8_lossy(&bytes).into_owned(), truncated)));
        }
        let logs = self.runs.logs(run, KEEP).await?;
        Ok(logs.map(|logs| (logs.text, logs.skipped > 0)))
    }
}
