//! A job as given on the command line. The same for `submit` and `what-if`.

use std::{collections::BTreeMap, path::PathBuf};

use multicluster_api::JobRequest;
use multicluster_types::{OnClusterLoss, Quantity, Resources, RuntimeEnv, Span, SpanError, env_vars};
use serde::de::DeserializeOwned;

use super::runtime_env;
use crate::exit::{Exit, Failure};

#[derive(clap::Args)]
pub(crate) struct JobArgs {
    /// The id of the job [default: generated].
    #[arg(long, value_name = "ID", visible_alias = "id")]
    submission_id: Option<String>,
    /// A YAML file with the runtime_env.
    #[arg(long, value_name = "FILE", conflicts_with = "runtime_env_json")]
    runtime_env: Option<PathBuf>,
    /// The runtime_env as JSON.
    #[arg(long, value_name = "JSON")]
    runtime_env_json: Option<String>,
    /// The working directory: a folder to pack and upload, a .zip, or a URI.
    #[arg(long, value_name = "PATH")]
    working_dir: Option<String>,
    /// Metadata to keep with the job, as a JSON object of texts.
    #[arg(long, value_name = "JSON")]
    metadata_json: Option<String>,
    /// What must be free on the cluster for the tasks and actors that the job starts: cpu=16,memory=32GiB.
    #[arg(long, value_name = "RESOURCES", value_parser = resources)]
    needs: Option<Resources>,
    /// CPUs that Ray reserves for the entrypoint itself, on one node.
    #[arg(long, value_name = "N")]
    entrypoint_num_cpus: Option<f64>,
    /// GPUs that Ray reserves for the entrypoint.
    #[arg(long, value_name = "N")]
    entrypoint_num_gpus: Option<f64>,
    /// Memory that Ray reserves for the entrypoint: 16GiB, or a number of bytes.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    entrypoint_memory: Option<u64>,
    /// Custom resources that Ray reserves for the entrypoint, as a JSON object.
    #[arg(long, value_name = "JSON")]
    entrypoint_resources: Option<String>,
    /// A label selector for the node of the entrypoint, as a JSON object.
    #[arg(long, value_name = "JSON")]
    entrypoint_label_selector: Option<String>,
    /// The cluster to prefer, if it is available.
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// The only cluster the job may run on, even if it is down.
    #[arg(long, value_name = "NAME", conflicts_with = "cluster")]
    require_cluster: Option<String>,
    /// A tag that the cluster must have, or a label; repeat for more.
    #[arg(long, value_name = "TAG", value_delimiter = ',')]
    tag: Vec<String>,
    /// The operating system of the cluster: linux, macos.
    #[arg(long, value_name = "NAME")]
    os: Option<String>,
    /// The processor architecture of the cluster: x86_64, arm64.
    #[arg(long, value_name = "NAME")]
    arch: Option<String>,
    /// A higher priority goes first [default: 0].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// How many times to retry after the job ran and failed [default: 0].
    #[arg(long, value_name = "N")]
    max_retries: Option<u32>,
    /// Retry only if the exit code is one of these, separated by commas [default: any].
    #[arg(long, value_name = "CODES", value_delimiter = ',', allow_hyphen_values = true)]
    retry_on: Vec<i64>,
    /// Do not retry if the exit code is one of these, separated by commas.
    #[arg(long, value_name = "CODES", value_delimiter = ',', allow_hyphen_values = true)]
    never_retry_on: Vec<i64>,
    /// The job may be stopped to make room for other work, and runs again later.
    #[arg(long)]
    preemptible: bool,
    /// How long the job may take to end when it is stopped: 10m, or a number of seconds
    /// [default: 30s with --preemptible, else as Ray does, 3s].
    #[arg(long, value_name = "TIME", value_parser = span)]
    stop_grace: Option<Span>,
    /// What to do if the cluster is lost: wait, or requeue if the job may run twice.
    #[arg(long, value_name = "WHAT", value_parser = on_cluster_loss)]
    on_cluster_loss: Option<OnClusterLoss>,
    /// The shell command, best after `--`. All flags after its first word belong to the command.
    #[arg(value_name = "ENTRYPOINT", trailing_var_arg = true)]
    entrypoint: Vec<String>,
}

impl JobArgs {
    /// The request, before anything is packed.
    pub(crate) fn request(&self) -> Result<JobRequest, Failure> {
        let mut env = match (&self.runtime_env, &self.runtime_env_json) {
            (Some(file), _) => runtime_env::load(file)?,
            (None, Some(text)) => json::<RuntimeEnv>("--runtime-env-json", text)?,
            (None, None) => RuntimeEnv::new(),
        };
        if let Some(folder) = &self.working_dir {
            runtime_env::must_be_here(folder)?;
            env.insert("working_dir".to_owned(), folder.as_str().into());
        }
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        // Work of a job stays on that job's cluster by default.
        let inside = variable(env_vars::JOB_ID).zip(variable(env_vars::CURRENT_CLUSTER));
        let (parent_job, parent_cluster) = inside.unzip();
        Ok(JobRequest {
            id: self.submission_id.clone(),
            entrypoint: command(&self.entrypoint),
            runtime_env: env,
            metadata: object("--metadata-json", self.metadata_json.as_deref())?,
            needs: self.needs.clone().unwrap_or_default(),
            entrypoint_num_cpus: self.entrypoint_num_cpus,
            entrypoint_num_gpus: self.entrypoint_num_gpus,
            entrypoint_memory: self.entrypoint_memory,
            entrypoint_resources: object("--entrypoint-resources", self.entrypoint_resources.as_deref())?,
            entrypoint_label_selector: object(
                "--entrypoint-label-selector",
                self.entrypoint_label_selector.as_deref(),
            )?,
            home: variable("HOME").filter(|home| home.starts_with('/')),
            preferred_cluster: self.require_cluster.clone().or_else(|| self.cluster.clone()),
            required: self.require_cluster.is_some(),
            tags: self.tag.clone(),
            os: self.os.clone(),
            arch: self.arch.clone(),
            priority: self.priority,
            max_retries: self.max_retries,
            retry_on: self.retry_on.clone(),
            never_retry_on: self.never_retry_on.clone(),
            preemptible: self.preemptible,
            stop_grace: self.stop_grace,
            on_cluster_loss: self.on_cluster_loss,
            parent_job,
            parent_cluster,
            ..JobRequest::default()
        })
    }
}

/// A single argument is a shell command as it is; each of several arguments stays one word.
fn command(words: &[String]) -> String {
    match words {
        [whole] => whole.clone(),
        words => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
    }
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn object<T: DeserializeOwned>(flag: &str, text: Option<&str>) -> Result<BTreeMap<String, T>, Failure> {
    text.map_or(Ok(BTreeMap::new()), |text| json(flag, text))
}

fn json<T: DeserializeOwned>(flag: &str, text: &str) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(|error| {
        Failure::new(Exit::BadInput, format!("{flag} cannot be read: {error}"))
            .hint("write a JSON object in single quotes: '{\"name\": \"value\"}'")
    })
}

fn bytes(text: &str) -> Result<u64, String> {
    let amount = Quantity::parse(text).map_err(|error| error.to_string())?;
    Ok(amount.parts() / 10_000)
}

fn resources(text: &str) -> Result<Resources, String> {
    Resources::parse(text).map_err(|error| error.to_string())
}

fn span(text: &str) -> Result<Span, String> {
    text.parse().map_err(|error: SpanError| error.to_string())
}

fn on_cluster_loss(text: &str) -> Result<OnClusterLoss, String> {
    serde_json::from_value(text.into()).map_err(|_| "write wait or requeue".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_words_and_a_command_stays_a_command() {
        let words =
            |words: &[&str]| command(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            words(&["python", "train.py", "--name", "it's me"]),
            r"python train.py --name 'it'\''s me'"
        );
        assert_eq!(words(&["cd x && python train.py"]), "cd x && python train.py");
        assert_eq!(words(&["echo", "$HOME", ""]), "echo '$HOME' ''");
    }

    #[test]
    fn memory_is_written_as_people_do() {
        assert_eq!(bytes("16GiB"), Ok(16 << 30));
        assert_eq!(bytes("1000"), Ok(1000));
        assert!(bytes("much").unwrap_err().contains("hint:"));
    }
}
