//! Builds the request that one cluster is sent for one job.
//!
//! The cluster is chosen first. Only then is a new value built from that cluster's own description
//! and the job's own request. It shares nothing with another dispatch, and neither input is
//! changed. No file, clock or network is touched here.
//!
//! ```text
//! job's runtime_env ─ folders ─ paths translated ─┐
//! cluster's runtime_env ─ secrets ─ folders ──────┴─ merge ─ context ─ packages ─ SDK ─▶ runtime_env
//! entrypoint ─ paths translated ───────────────────────────────────────────────────────▶ entrypoint
//! metadata ─ ownership ────────────────────────────────────────────────────────────────▶ metadata
//! ```
//!
//! - `folders` the packages that stand for the submitter's folders
//! - `merge` the job's runtime_env laid on the cluster's
//! - `paths`, `shell` translate home directories and keep the quoting
//! - `packages` the names that our packages have on the cluster
//! - `ownership` how we recognize our runs on a cluster
//!
//! `RAY_API_SERVER_ADDRESS` is deliberately not set: it would send a job's own
//! `ray job` calls to the control plane instead of its cluster. A job that wants the
//! control plane finds it in `RAY_MULTICLUSTER_ADDRESS`.

mod folders;
mod merge;
mod ownership;
mod packages;
mod paths;
mod shell;

#[cfg(test)]
pub(crate) mod tests;

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use multicluster_types::{
    Attempt, ClusterSpec, EntrypointResources, JobId, Payload, RuntimeEnv, SubmissionId, Timestamp, env_vars,
};
use serde_json::{Map, Value};

pub use ownership::Ownership;
pub(crate) use ownership::{Brief, unmarked};
pub use packages::{PushedPackage, SdkPackage};

use packages::Pushed;
use paths::Homes;

/// Where OpenTelemetry's libraries and tools look for the span that started a process.
const TRACEPARENT: &str = "TRACEPARENT";

/// How many seconds Ray waits after it asked a job to stop, before it kills the job. Ray reads it
/// from the job's own environment.
const STOP_WAIT: &str = "RAY_JOB_STOP_WAIT_TIME_S";

/// What a job itself says about [`STOP_WAIT`].
pub(crate) fn own_stop_wait(runtime_env: &RuntimeEnv) -> Option<&Value> {
    runtime_env.get("env_vars")?.get(STOP_WAIT).filter(|value| !value.is_null())
}

/// Which dispatch this is.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The cluster that was chosen.
    pub cluster: &'a ClusterSpec,
    /// The home directories of all clusters of the pool; see [`ClusterSpec::home`].
    pub homes: &'a [Arc<str>],
    /// The job.
    pub job: &'a JobId,
    /// The number of the attempt.
    pub attempt: Attempt,
    /// The control plane that dispatches: several may share a cluster.
    pub plane_id: &'a str,
    /// When the job was accepted. An id may be used again once its job is forgotten; this time
    /// tells the two jobs apart.
    pub submitted_at: Timestamp,
    /// Our own SDK, for jobs that bring none.
    pub sdk: Option<&'a SdkPackage>,
    /// For the job's own spans.
    pub traceparent: Option<&'a str>,
}

/// A complete request for one cluster. The packages it needs may still have to be pushed.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// The run's id on the cluster.
    pub submission_id: SubmissionId,
    /// The shell command.
    pub entrypoint: String,
    /// As Ray accepts it.
    pub runtime_env: RuntimeEnv,
    /// The caller's metadata and our mark.
    pub metadata: BTreeMap<String, String>,
    /// The resources that the entrypoint itself reserves.
    pub reserve: EntrypointResources,
    /// Packages that must be on the cluster before the request; missing ones are pushed.
    pub packages: Vec<PushedPackage>,
}

/// Why no request can be built for a job. Neither a retry nor another cluster would help, so the
/// job fails with this text. Values are not repeated: they may be secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// Ray would refuse it too, less clearly and later.
    #[error("runtime_env.{field} is {found}, not {expected}\n  hint: {hint}")]
    WrongType {
        /// The name of the field, shortened.
        field: String,
        /// The type that was found.
        found: &'static str,
        /// The type that Ray expects.
        expected: &'static str,
        /// How to write it instead.
        hint: &'static str,
    },
    /// No name for the package on the cluster can be built.
    #[error("the package {uri} has a name that Ray cannot use\n  hint: {hint}")]
    BadPackage {
        /// The start of the URI.
        uri: String,
        /// Which names can be used.
        hint: &'static str,
    },
    /// The record of the job is damaged.
    #[error("the package {uri} was recorded without a SHA-256\n  hint: submit the job again")]
    BadDigest {
        /// The start of the URI.
        uri: String,
    },
}

/// The home directories of these clusters, for [`Context::homes`].
pub fn homes<'a>(clusters: impl Iterator<Item = &'a ClusterSpec>) -> Arc<[Arc<str>]> {
    clusters.filter_map(|cluster| cluster.home().map(Arc::from)).collect()
}

/// Builds the request of one attempt on one cluster.
///
/// # Errors
/// When the job's runtime_env or its packages cannot be turned into a request that Ray accepts.
pub fn resolve(context: &Context<'_>, payload: &Payload) -> Result<Resolved, ResolveError> {
    let homes = Homes::new(
        context.cluster.home(),
        context.homes.iter().map(AsRef::as_ref).chain(payload.home.as_deref()),
    );
    let job = homes.in_runtime_env(&folders::replace(&payload.runtime_env, &payload.folders));
    let base = context.cluster.base_env();
    let base = folders::replace(&base, &payload.folders);
    let mut runtime_env = merge::merge(&base, &job);
    let mut env_vars = variables(runtime_env.remove("env_vars"), context)?;
    if let Some(grace) = payload.stop_grace.filter(|_| own_stop_wait(&payload.runtime_env).is_none()) {
        env_vars.insert(STOP_WAIT.to_owned(), grace.0.div_ceil(1_000).to_string().into());
    }
    runtime_env.insert("env_vars".to_owned(), Value::Object(env_vars));

    let mut pushed = Pushed::default();
    pushed.rename(&mut runtime_env, &payload.packages)?;
    // Ray refuses any other field beside an image, and the image can contain the SDK itself.
    if let Some((uri, sha256)) = sdk(context, payload).filter(|_| !merge::has_image(&runtime_env)) {
        pushed.inject(&uri, sha256, &mut runtime_env)?;
    }
    Ok(Resolved {
        submission_id: SubmissionId::of(context.job, context.attempt),
        entrypoint: homes.in_command(&payload.entrypoint),
        runtime_env,
        metadata: Ownership::of(context).mark(&payload.metadata, &context.cluster.name),
        reserve: payload.reserve.clone(),
        packages: pushed.into_packages(),
    })
}

/// The SDK that the job finds on this cluster, as URI and SHA-256: the SDK that submitted the job,
/// else our own if the cluster's description asks for it.
fn sdk<'a>(context: &Context<'a>, payload: &'a Payload) -> Option<(Cow<'a, str>, &'a str)> {
    let asked = context.cluster.inject_sdk;
    let brought = || payload.packages.get_key_value(payload.sdk.as_deref()?);
    let own = || context.sdk.filter(|_| asked == Some(true));
    if asked == Some(false) {
        return None;
    }
    let brought = brought().map(|(uri, sha256)| (Cow::Borrowed(uri.as_str()), sha256.as_str()));
    brought.or_else(|| own().map(|sdk| (Cow::Owned(format!("gcs://{}", sdk.name)), sdk.sha256.as_str())))
}

/// `env_vars` as Ray requires them, text values only, plus the variables that tell a job where it
/// runs. These win over values of the same names that the job was given.
fn variables(merged: Option<Value>, context: &Context<'_>) -> Result<Map<String, Value>, ResolveError> {
    let mut variables = match merged {
        None => Map::new(),
        Some(Value::Object(variables)) => variables,
        Some(other) => {
            return Err(wrong_type("env_vars", &other, "a mapping", "write names and texts: {\"A\": \"x\"}"));
        }
    };
    // Nulls in a cluster's description; the merge already removed the job's.
    variables.retain(|_, value| !value.is_null());
    for (name, value) in &mut variables {
        match value {
            Value::String(_) => {}
            // Written as in YAML, Compose and Kubernetes, not as Python would.
            Value::Number(_) | Value::Bool(_) => *value = Value::String(value.to_string()),
            other => {
                let field = format!("env_vars.{}", excerpt(name));
                return Err(wrong_type(&field, other, "a text", "put the value in quotes"));
            }
        }
    }
    // A job that was given another one keeps it.
    if let Some(traceparent) = context.traceparent {
        variables.entry(TRACEPARENT).or_insert_with(|| traceparent.into());
    }
    let mut set =
        |name: &str, value: &str| variables.insert(name.to_owned(), Value::String(value.to_owned()));
    set(env_vars::CURRENT_CLUSTER, context.cluster.name.as_str());
    set(env_vars::JOB_ID, context.job.as_str());
    set(env_vars::ATTEMPT, &context.attempt.to_string());
    set(env_vars::VERSION, env!("CARGO_PKG_VERSION"));
    if let Some(address) = &context.cluster.plane_address {
        set(env_vars::ADDRESS, address);
    }
    Ok(variables)
}

fn wrong_type(field: &str, value: &Value, expected: &'static str, hint: &'static str) -> ResolveError {
    let found = match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    };
    ResolveError::WrongType { field: field.to_owned(), found, expected, hint }
}

/// The start of a caller's text, safe to print.
fn excerpt(text: &str) -> String {
    text.chars().take(80).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
