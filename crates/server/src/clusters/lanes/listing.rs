//! What a cluster ran for us, asked after the store lost changes.

use futures_util::future::join_all;
use multicluster_core::{Listed, Run};
use multicluster_ray::{JobDetails, RayError};
use multicluster_types::{Payload, SubmissionId};

use super::{Word, lane::Lane, status};
use crate::clusters::resolve::{Brief, unmarked};

/// Questions at a time about runs that are not known.
const FEW: usize = 6;
/// What each run finds in its environment, written by us.
const OURS: &str = "RAY_MULTICLUSTER_";

impl Lane {
    /// Lists our runs, and reports them or that there was no complete answer.
    pub(super) async fn list_all_runs(&self) {
        let runs = self.all_runs().await.unwrap_or_else(|error| {
            tracing::warn!(cluster = %self.cluster, %error, "cannot list what it ran; will retry");
            None
        });
        let (cluster, generation) = (self.cluster.clone(), self.generation);
        let _stopped = self.shared.engine.tell(Word::Listed { cluster, generation, runs }).await;
    }

    async fn all_runs(&self) -> Result<Option<Vec<(Listed, Option<Payload>)>>, RayError> {
        let all = self.client.jobs().await?;
        if !all.is_complete() {
            tracing::warn!(cluster = %self.cluster, "its list of runs is not complete; will retry");
            return Ok(None);
        }
        let ours: Vec<_> = all.jobs.into_iter().filter_map(|job| self.runs.identify(job)).collect();
        let runs: Vec<Run> = ours.iter().map(|(run, _)| run.clone()).collect();
        let look = self.shared.see(move |core| {
            let is_known = |run: &Run| core.job(&run.job).is_some_and(|job| run.is_of(job));
            runs.iter().map(is_known).collect::<Vec<_>>()
        });
        let Some(known) = look.await else { return Ok(None) };
        let mut listed = Vec::with_capacity(ours.len());
        let mut ours = ours.into_iter().zip(known).peekable();
        while ours.peek().is_some() {
            let few: Vec<_> = ours.by_ref().take(FEW).collect();
            listed.extend(join_all(few.into_iter().map(|(run, known)| self.describe(run, known))).await);
        }
        Ok(Some(listed))
    }

    async fn describe(&self, (run, details): (Run, JobDetails), known: bool) -> (Listed, Option<Payload>) {
        let Brief { work, content, bytes } = Brief::read(&details.metadata);
        let (status, sent_at) = (status::of(&details), details.start_time);
        let payload = if known { None } else { Some(self.payload_of(&run, details).await) };
        (Listed { run, status, work, content, bytes, sent_at }, payload)
    }

    /// As the run was submitted, without what we and the cluster's description added as far as that
    /// can be told. Packages are those of the cluster: the job can be shown, and run again there.
    async fn payload_of(&self, run: &Run, details: JobDetails) -> Payload {
        let id = SubmissionId::of(&run.job, run.attempt);
        let mut runtime_env = self.client.runtime_env(id.as_str()).await.unwrap_or_default();
        let spec = self.spec.borrow().clone();
        if let Some(vars) = runtime_env.get_mut("env_vars").and_then(serde_json::Value::as_object_mut) {
            vars.retain(|name, _| !name.starts_with(OURS) && !spec.secret_vars.contains_key(name));
        }
        Payload {
            entrypoint: details.entrypoint,
            runtime_env,
            metadata: unmarked(details.metadata),
            ..Payload::default()
        }
    }
}
