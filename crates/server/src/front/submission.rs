//! What a caller asked for, checked: whatever Ray would accept and then fail is refused
//! here, with a reason.
//!
//! Both APIs end up here. [`check`] is for one job; [`check_all`] for many
//! looks at all of them without waiting, and asks for all their packages at once.

mod folders;
mod hints;
mod keys;
mod runtime_env;
mod wishes;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use multicluster_api::{self as api, codes};
use multicluster_core::Parent;
use multicluster_types::{
    EntrypointResources, JobId, MAX_HOME, Payload, Quantity, Resources, RuntimeEnv, Span, Work,
};

pub(crate) use keys::unknown as unknown_keys;
pub(crate) use wishes::{Wishes, parent_names, selector};

use crate::{
    clusters::resolve,
    engine::{driver::NewJob, off_thread::off_thread},
    front::{access::Caller, plane::Plane},
    problem::Problem,
};

/// The longest entrypoint.
const MAX_ENTRYPOINT: usize = 64 << 10;
/// The largest job, as JSON.
const MAX_PAYLOAD: usize = 1 << 20;
/// The most keys in the metadata, and in the label selector.
const MAX_METADATA: usize = 128;
const MAX_METADATA_KEY: usize = 256;
const MAX_METADATA_VALUE: usize = 16 << 10;

/// Without an id of the caller's (`multicluster.dedup` may say otherwise): is a job the same as an identical one that is still queued?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dedup {
    ById,
    ByContent,
}

/// Right in itself; its packages are not looked up yet.
#[derive(Debug)]
pub(crate) struct Checked {
    id: Option<JobId>,
    work: Work,
    parent: Option<Parent>,
    payload: Payload,
    /// The `gcs://` URIs of its runtime_env, and those that stand for folders.
    uris: Vec<String>,
    dedup: Dedup,
    /// Keys of its runtime_env that Ray does not know.
    unknown_keys: Vec<String>,
}

/// Which API a job came by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    Native,
    /// As Ray does it: without an id it is a new job, and unknown keys are ignored.
    Ray,
}

/// Package URI → SHA-256 of what is stored under it.
type FoundPackages = BTreeMap<String, String>;

/// Checks all of a job, its packages included.
pub(crate) async fn check(
    sent: api::JobRequest,
    door: Door,
    plane: &Plane,
    caller: &Caller,
) -> Result<NewJob, Problem> {
    let checked = match door {
        Door::Native => check_alone(sent, Dedup::ByContent)?.with_known_keys(plane).await?,
        Door::Ray => check_alone(sent, Dedup::ById)?,
    };
    let found = find(plane, caller, checked.uris.iter().cloned().collect()).await?;
    caller.own(checked.finish(&found)?)
}

/// Checks what can be checked without looking at the store.
pub(crate) fn check_alone(mut sent: api::JobRequest, dedup: Dedup) -> Result<Checked, Problem> {
    let dedup = hints::fill(&mut sent)?.unwrap_or(dedup);
    let id = sent.id.map(JobId::new).transpose().map_err(|error| Problem::told(codes::BAD_JOB, &error))?;
    let reserve = EntrypointResources {
        num_cpus: sent.entrypoint_num_cpus,
        num_gpus: sent.entrypoint_num_gpus,
        memory: sent.entrypoint_memory,
        resources: sent.entrypoint_resources,
        label_selector: sent.entrypoint_label_selector,
    };
    check_entrypoint(&sent.entrypoint)?;
    check_texts("metadata", &sent.metadata)?;
    check_texts("entrypoint_label_selector", &reserve.label_selector)?;
    check_home(sent.home.as_deref())?;
    let folders = folders::check(sent.packages)?;
    let size = runtime_env::check(&sent.runtime_env, &folders)?;
    let unknown_keys = unknown_keys(&sent.runtime_env).map(str::to_owned).collect();
    let mut uris = runtime_env::packages(&sent.runtime_env)?;
    uris.extend(folders.values().cloned());
    if let Some(uri) = &sent.sdk {
        check_sdk(uri)?;
        uris.push(uri.clone());
    }
    let wishes = Wishes {
        preferred_cluster: sent.preferred_cluster,
        required: sent.required,
        tags: sent.tags,
        os: sent.os,
        arch: sent.arch,
        versions: None,
        priority: sent.priority,
        max_retries: sent.max_retries,
        retry_on: sent.retry_on,
        never_retry_on: sent.never_retry_on,
        on_cluster_loss: sent.on_cluster_loss,
        parent: parent_names(sent.parent_job, sent.parent_cluster),
    };
    let labels = selector("entrypoint_label_selector", reserve.label_selector.clone())?;
    let preemptible = sent.preemptible;
    let stop_grace = stop_grace(sent.stop_grace, preemptible, &sent.runtime_env)?;
    let work = Work { labels, preemptible, ..Work::job(&sent.needs, reserved(&reserve)?) };
    let (work, parent) = wishes.check(work)?;
    let payload = Payload {
        entrypoint: sent.entrypoint,
        runtime_env: sent.runtime_env,
        metadata: sent.metadata,
        reserve,
        stop_grace,
        home: sent.home,
        folders,
        packages: BTreeMap::new(),
        sdk: sent.sdk,
        traceparent: None,
    };
    check_size(size, &payload)?;
    Ok(Checked { id, work, parent, payload, uris, dedup, unknown_keys })
}

impl Checked {
    /// The same, unless its runtime_env has a key that neither Ray nor a cluster knows.
    pub(crate) async fn with_known_keys(self, plane: &Plane) -> Result<Self, Problem> {
        if !self.unknown_keys.is_empty() {
            keys::check(&self.unknown_keys, &keys::of_plugins(plane).await?)?;
        }
        Ok(self)
    }

    /// What it needs, and the job it comes from: enough to ask what would become of it.
    pub(crate) fn into_work(self) -> (Work, Option<Parent>) {
        (self.work, self.parent)
    }

    fn finish(self, found: &FoundPackages) -> Result<NewJob, Problem> {
        let Checked { id, work, parent, mut payload, uris, dedup, unknown_keys: _ } = self;
        for uri in uris {
            let Some(sha256) = found.get(&uri) else { return Err(missing_package(&uri)) };
            payload.packages.insert(uri, sha256.clone());
        }
        let job = NewJob::job(id, work, payload, parent);
        Ok(if dedup == Dedup::ById { job.always_new() } else { job })
    }
}

/// Many at once, each on its own, in order. Nothing is waited for unless one of them
/// names a package.
pub(crate) async fn check_all(
    plane: &Plane,
    caller: &Caller,
    checked: Vec<Result<Checked, Problem>>,
) -> Result<Vec<Result<NewJob, Problem>>, Problem> {
    let is_strange =
        |job: &Result<Checked, Problem>| job.as_ref().is_ok_and(|job| !job.unknown_keys.is_empty());
    let plugins =
        if checked.iter().any(is_strange) { keys::of_plugins(plane).await? } else { BTreeSet::new() };
    let known = |job: Checked| keys::check(&job.unknown_keys, &plugins).map(|()| job);
    let checked: Vec<_> = checked.into_iter().map(|job| job.and_then(known)).collect();
    let uris: BTreeSet<_> = checked.iter().flatten().flat_map(|job| job.uris.iter().cloned()).collect();
    let found = find(plane, caller, uris).await?;
    let finish = |job: Checked| caller.own(job.finish(&found)?);
    Ok(checked.into_iter().map(|job| job.and_then(finish)).collect())
}

/// Those of these packages that we have of this caller.
async fn find(plane: &Plane, caller: &Caller, uris: BTreeSet<String>) -> Result<FoundPackages, Problem> {
    if uris.is_empty() {
        return Ok(FoundPackages::new());
    }
    let (packages, caller) = (Arc::clone(&plane.packages), caller.clone());
    let looked = off_thread(move || {
        let mut found = FoundPackages::new();
        for uri in uris {
            if let Some(package) = packages.find(&caller.package(runtime_env::package_name(&uri)))? {
                found.insert(uri, package.sha256);
            }
        }
        Ok::<_, Problem>(found)
    });
    looked.await?
}

fn missing_package(uri: &str) -> Problem {
    let hint = format!(
        "upload it first: PUT /api/packages/gcs/{} (`ray job submit --working-dir` does it by itself)",
        runtime_env::package_name(uri)
    );
    Problem::new(codes::MISSING_PACKAGE, format!("package {uri} was not uploaded")).hint(hint)
}

fn check_entrypoint(entrypoint: &str) -> Result<(), Problem> {
    if entrypoint.trim().is_empty() {
        let problem = Problem::new(codes::BAD_JOB, "entrypoint is empty");
        return Err(problem.hint("give the shell command to run, such as \"python train.py\""));
    }
    if entrypoint.contains('\0') {
        let problem = Problem::new(codes::BAD_JOB, "entrypoint contains a NUL character");
        return Err(problem.hint("shells do not accept it"));
    }
    if entrypoint.len() > MAX_ENTRYPOINT {
        let message =
            format!("entrypoint has {} bytes, at most {MAX_ENTRYPOINT} are allowed", entrypoint.len());
        return Err(Problem::new(codes::BAD_JOB, message).hint("put long scripts into working_dir"));
    }
    Ok(())
}

fn check_sdk(uri: &str) -> Result<(), Problem> {
    if !uri.starts_with(runtime_env::PACKAGE) || !uri.ends_with(".zip") {
        let start: String = uri.chars().take(80).collect();
        let problem = Problem::new(codes::BAD_JOB, format!("sdk {start:?} is not a package"));
        return Err(
            problem.hint("upload the folder of the Python package as a zip, and write gcs://NAME.zip")
        );
    }
    runtime_env::check_package_name(uri)
}

fn check_texts(what: &str, texts: &BTreeMap<String, String>) -> Result<(), Problem> {
    if texts.len() > MAX_METADATA {
        let message = format!("{what} has {} keys, at most {MAX_METADATA} are allowed", texts.len());
        return Err(Problem::new(codes::BAD_JOB, message).hint("put larger data into working_dir"));
    }
    for (key, value) in texts {
        if key.len() > MAX_METADATA_KEY || value.len() > MAX_METADATA_VALUE {
            let key: String = key.chars().take(40).collect();
            let message = format!("{what} {key:?} is too long");
            let hint = format!("keys have up to {MAX_METADATA_KEY} bytes, values up to {MAX_METADATA_VALUE}");
            return Err(Problem::new(codes::BAD_JOB, message).hint(hint));
        }
    }
    Ok(())
}

fn check_home(home: Option<&str>) -> Result<(), Problem> {
    let Some(home) = home else { return Ok(()) };
    if !home.starts_with('/') || home.len() > MAX_HOME || home.contains(char::is_control) {
        let start: String = home.chars().take(40).collect();
        let problem = Problem::new(
            codes::BAD_JOB,
            format!("home {start:?} is not an absolute path of up to {MAX_HOME} bytes"),
        );
        return Err(problem.hint("give the submitter's home directory, such as /home/zorro, or leave it out"));
    }
    Ok(())
}

/// How long it may take to end when it is stopped. Ray's 3 s are too short to save anything, so a
/// preemptible job has more unless it says something else, by our field or by Ray's variable.
fn stop_grace(
    given: Option<Span>,
    preemptible: bool,
    runtime_env: &RuntimeEnv,
) -> Result<Option<Span>, Problem> {
    let Some(grace) = given else {
        let says_nothing = preemptible && resolve::own_stop_wait(runtime_env).is_none();
        return Ok(says_nothing.then_some(Payload::PREEMPTIBLE_GRACE));
    };
    if grace == Span::ZERO || grace > Payload::MAX_STOP_GRACE {
        let message = format!("stop_grace is {grace}, not above 0 and up to 24h");
        return Err(Problem::new(codes::BAD_JOB, message).hint("write 30s, 10m or 1h, or leave it out"));
    }
    Ok(Some(grace))
}

/// What Ray sets aside for the entrypoint.
fn reserved(reserve: &EntrypointResources) -> Result<Resources, Problem> {
    let amount = |name: &str, value: Result<Quantity, _>| {
        value.map_err(|error| Problem::told(codes::BAD_JOB, &error).about(name))
    };
    let mut reserved = Resources::default();
    if let Some(cpus) = reserve.num_cpus {
        reserved.cpu = amount("entrypoint_num_cpus", Quantity::from_f64(cpus))?;
    }
    if let Some(gpus) = reserve.num_gpus {
        reserved.gpu = amount("entrypoint_num_gpus", Quantity::from_f64(gpus))?;
    }
    if let Some(memory) = reserve.memory {
        reserved.memory = amount("entrypoint_memory", Quantity::whole(memory))?;
    }
    for (name, value) in &reserve.resources {
        if let Some(field) = own_field(name) {
            let problem = Problem::new(codes::BAD_JOB, format!("entrypoint_resources contains {name}"));
            return Err(problem.hint(format!("use {field} for it: Ray fails such a job after accepting it")));
        }
        let shown: String = name.chars().take(40).collect();
        let value = amount(&format!("entrypoint_resources {shown:?}"), Quantity::from_f64(*value))?;
        reserved
            .set(name, value)
            .map_err(|error| Problem::told(codes::BAD_JOB, &error).about("entrypoint_resources"))?;
    }
    Ok(reserved)
}

fn own_field(name: &str) -> Option<&'static str> {
    match name {
        "CPU" => Some("entrypoint_num_cpus"),
        "GPU" => Some("entrypoint_num_gpus"),
        "memory" => Some("entrypoint_memory"),
        _ => None,
    }
}

/// Writing it out only to measure it would cost more than all other checks together, so
/// that is done where a cheap estimate says that it might be too large.
fn check_size(estimate: usize, payload: &Payload) -> Result<(), Problem> {
    let texts =
        |texts: &BTreeMap<String, String>| texts.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>();
    let estimate = estimate + payload.entrypoint.len() + texts(&payload.metadata) + texts(&payload.folders);
    // One byte may become six: \u0000.
    if estimate < MAX_PAYLOAD / 8 {
        return Ok(());
    }
    let size = serde_json::to_vec(payload).map_or(usize::MAX, |json| json.len());
    if size > MAX_PAYLOAD {
        let message = format!("the job has {size} bytes as JSON, at most {MAX_PAYLOAD} are allowed");
        return Err(Problem::new(codes::TOO_LARGE, message).hint("put large data into working_dir"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
