//! Takes runs back that wait on their cluster for nodes which do not come.

use std::{sync::Arc, time::Duration};

use multicluster_core::Run;
use multicluster_types::SubmissionId;
use tokio::time::sleep;

use super::{
    lane::{DELETE_AFTER, Lane},
    runs::Found,
};

/// The most runs at a time.
const MOST: usize = 100;
/// How long the cluster may take for the small job that does it.
const PATIENCE: Duration = Duration::from_secs(60);

impl Lane {
    /// This run is to be taken back. True if nobody is about to do that.
    pub(super) fn note_recall(&self, run: Run) -> bool {
        let mut waiting = self.recalls.lock();
        waiting.insert(run);
        waiting.len() == 1
    }

    /// Takes back all that were noted. One at a time, because each costs the head a process for seconds;
    /// what is noted meanwhile goes with the next. The watch sees what became of them.
    pub(super) async fn recall(self: Arc<Self>) {
        let _turn = self.recalling.lock().await;
        let runs: Vec<Run> = {
            let mut waiting = self.recalls.lock();
            let all: Vec<_> = waiting.drain().collect();
            let (now, later) = all.split_at(all.len().min(MOST));
            waiting.extend(later.iter().cloned());
            now.to_vec()
        };
        let mut ids = Vec::new();
        for run in &runs {
            if let Ok(Found::Ours(_)) = self.runs.find(run).await {
                ids.push(SubmissionId::of(&run.job, run.attempt));
            }
        }
        // Whoever leads by now repeats it.
        if ids.is_empty() || !self.shared.trust.wait().await {
            return;
        }
        let recaller = format!("recall-{}-{}", self.shared.plane, self.shared.clock.now().0);
        let ids: Vec<&str> = ids.iter().map(SubmissionId::as_str).collect();
        match self.client.recall(&ids, &recaller, PATIENCE).await {
            Ok(found) => tracing::info!(cluster = %self.cluster, ?ids, ?found, "took jobs back"),
            Err(error) => {
                tracing::warn!(cluster = %self.cluster, ?ids, %error, "cannot take jobs back; will retry");
            }
        }
        self.look.notify_one();
        sleep(DELETE_AFTER).await;
        if let Err(error) = self.client.delete(&recaller).await {
            tracing::debug!(cluster = %self.cluster, %recaller, %error, "left on its cluster");
        }
    }
}
