//! What the tools take. The comments are the descriptions that an assistant reads.

use std::collections::BTreeMap;

use multicluster_api::JobRequest;
use multicluster_types::{Resources, RuntimeEnv};
use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::exit::{Exit, Failure};

/// Reads them; an error names the argument and says what to do.
pub(super) fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, Failure> {
    serde_json::from_value(arguments).map_err(|error| {
        Failure::new(Exit::BadInput, format!("wrong arguments: {error}"))
            .hint("see the input schema of the tool")
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OneCluster {
    /// The name of a cluster, for everything about it; without it, all clusters in short.
    pub(super) name: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OneJob {
    /// The id of the job.
    pub(super) id: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Stop {
    /// The id of the job.
    pub(super) id: String,
    /// The same id again, once the user has agreed. Without it, the tool only says what would be stopped.
    pub(super) confirm: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Jobs {
    /// Only jobs in these states: queued, dispatching, pending, running, unknown, succeeded, failed, stopped.
    #[serde(default)]
    pub(super) states: Vec<String>,
    /// Only jobs on this cluster.
    pub(super) cluster: Option<String>,
    /// Only jobs with this tag.
    pub(super) tag: Option<String>,
    /// Only jobs whose id, command, tags or message contain this text.
    pub(super) search: Option<String>,
    /// How many of the latest, 1 to 100; 20 if not given.
    pub(super) limit: Option<u32>,
    /// `next_cursor` of the answer before, for the next page.
    pub(super) cursor: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Log {
    /// The id of the job.
    pub(super) id: String,
    /// How many of the last lines, 1 to 1000; 100 if not given.
    pub(super) lines: Option<u32>,
    /// The attempt, from 1; the latest if not given.
    pub(super) attempt: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Past {
    /// Only events of this job; of everything if not given.
    pub(super) job: Option<String>,
    /// How many of the latest, 1 to 200; 50 if not given.
    pub(super) limit: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewJob {
    /// The shell command to run on the chosen cluster, such as `python train.py --epochs 3`.
    pub(super) entrypoint: String,
    /// The id of the job, letters, digits, `.`, `_` and `-`. Submitting the same id and content again is
    /// the same job, so give one. Generated if not given.
    pub(super) id: Option<String>,
    /// Ray's runtime_env: `env_vars`, `pip`, `conda`, `working_dir`, `py_modules`. Local folders are packed
    /// and uploaded.
    #[serde(default)]
    pub(super) runtime_env: RuntimeEnv,
    /// A folder of this machine to pack and upload; the command runs in it. Short for
    /// `runtime_env.working_dir`.
    pub(super) working_dir: Option<String>,
    /// What must be free on the cluster for the tasks and actors that the job starts: `cpu=16,memory=32GiB`,
    /// `gpu=1`.
    pub(super) needs: Option<String>,
    /// CPUs that Ray reserves for the command itself, on one node.
    pub(super) entrypoint_num_cpus: Option<f64>,
    /// GPUs that Ray reserves for the command itself, on one node.
    pub(super) entrypoint_num_gpus: Option<f64>,
    /// The cluster to prefer. The job waits for it while it is busy, and goes elsewhere if it is down.
    pub(super) cluster: Option<String>,
    /// True: the job may run on `cluster` only, even if it is down.
    #[serde(default)]
    pub(super) required: bool,
    /// Tags that the cluster must carry. Tags that no cluster carries are labels.
    #[serde(default)]
    pub(super) tags: Vec<String>,
    /// The operating system of the cluster: linux, macos.
    pub(super) os: Option<String>,
    /// The processor architecture of the cluster: x86_64, arm64.
    pub(super) arch: Option<String>,
    /// A higher priority goes first; 0 if not given.
    pub(super) priority: Option<i32>,
    /// How many times to run it again after it ran and failed; 0 if not given.
    pub(super) max_retries: Option<u32>,
    /// Retry only if the exit code is one of these; any exit code if not given. Needs max_retries.
    #[serde(default)]
    pub(super) retry_on: Vec<i64>,
    /// Do not retry if the exit code is one of these. Needs max_retries.
    #[serde(default)]
    pub(super) never_retry_on: Vec<i64>,
    /// The job may be stopped to make room for other work, and runs again later under its id.
    #[serde(default)]
    pub(super) preemptible: bool,
    /// Texts to keep with the job. No secrets.
    #[serde(default)]
    pub(super) metadata: BTreeMap<String, String>,
}

impl NewJob {
    /// The request, before anything is packed.
    pub(super) fn request(self) -> Result<JobRequest, Failure> {
        let needs = self.needs.as_deref().map(Resources::parse).transpose().map_err(Failure::bad_input)?;
        if self.required && self.cluster.is_none() {
            return Err(Failure::new(Exit::BadInput, "required is true, and no cluster is given")
                .hint("name the cluster, or leave required out"));
        }
        let mut runtime_env = self.runtime_env;
        if let Some(folder) = self.working_dir {
            runtime_env.insert("working_dir".to_owned(), folder.into());
        }
        Ok(JobRequest {
            id: self.id,
            entrypoint: self.entrypoint,
            runtime_env,
            metadata: self.metadata,
            needs: needs.unwrap_or_default(),
            entrypoint_num_cpus: self.entrypoint_num_cpus,
            entrypoint_num_gpus: self.entrypoint_num_gpus,
            home: std::env::var("HOME").ok().filter(|home| home.starts_with('/')),
            preferred_cluster: self.cluster,
            required: self.required,
            tags: self.tags,
            os: self.os,
            arch: self.arch,
            priority: self.priority,
            max_retries: self.max_retries,
            retry_on: self.retry_on,
            never_retry_on: self.never_retry_on,
            preemptible: self.preemptible,
            ..JobRequest::default()
        })
    }
}
