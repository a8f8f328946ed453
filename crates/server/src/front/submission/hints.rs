//! Placement hints in a job's metadata: how the stock Ray clients, which know nothing
//! of a pool, can say all that the native API can.

use std::{ops::Bound, str::FromStr};

use multicluster_api::{JobRequest, codes};
use multicluster_types::{OnClusterLoss, Resources, settings};

use super::Dedup;
use crate::problem::Problem;

const PREFIX: &str = "multicluster.";

/// What may follow `multicluster.`
pub(super) const KNOWN: [&str; 17] = [
    "needs",
    "preferred_cluster",
    "required",
    "tags",
    "os",
    "arch",
    "priority",
    "max_retries",
    "retry_on",
    "never_retry_on",
    "preemptible",
    "stop_grace",
    "on_cluster_loss",
    "home",
    "dedup",
    "parent_job",
    "parent_cluster",
];

/// Fills what the request leaves out from its metadata, which stays as it is.
pub(super) fn fill(job: &mut JobRequest) -> Result<Option<Dedup>, Problem> {
    let (mut parent_job, mut parent_cluster, mut dedup) = (None, None, None);
    let from_here = (Bound::Included(PREFIX), Bound::Unbounded);
    let hints = job.metadata.range::<str, _>(from_here).map_while(|(key, value)| {
        let name = key.strip_prefix(PREFIX)?;
        Some((name, value.trim()))
    });
    for (name, value) in hints {
        match name {
            "needs" => {
                let needs = Resources::parse(value).map_err(|error| {
                    Problem::told(codes::BAD_HINT, &error).about("metadata multicluster.needs")
                })?;
                if job.needs.is_empty() {
                    job.needs = needs;
                }
            }
            "os" => drop(job.os.get_or_insert_with(|| value.to_owned())),
            "arch" => drop(job.arch.get_or_insert_with(|| value.to_owned())),
            "preferred_cluster" => {
                job.preferred_cluster.get_or_insert_with(|| value.to_owned());
            }
            "required" => job.required |= flag(name, value)?,
            "tags" if job.tags.is_empty() => {
                job.tags =
                    value.split(',').map(str::trim).filter(|t| !t.is_empty()).map(str::to_owned).collect();
            }
            "tags" => {}
            "priority" => {
                let priority = number(name, value, "a whole number; higher goes first")?;
                job.priority.get_or_insert(priority);
            }
            "max_retries" => {
                let retries = number(name, value, "a whole number from 0")?;
                job.max_retries.get_or_insert(retries);
            }
            "retry_on" => fill_codes(&mut job.retry_on, name, value)?,
            "never_retry_on" => fill_codes(&mut job.never_retry_on, name, value)?,
            "preemptible" => job.preemptible |= flag(name, value)?,
            "stop_grace" => {
                let grace = number(name, value, "a length of time such as 10m, or a number of seconds")?;
                job.stop_grace.get_or_insert(grace);
            }
            "on_cluster_loss" => {
                let loss = on_cluster_loss(value).ok_or_else(|| bad(name, value, "wait or requeue"))?;
                job.on_cluster_loss.get_or_insert(loss);
            }
            "home" => {
                job.home.get_or_insert_with(|| value.to_owned());
            }
            "dedup" if value == "content" => dedup = Some(Dedup::ByContent),
            "dedup" => return Err(bad(name, value, "content")),
            "parent_job" => parent_job = Some(value.to_owned()),
            "parent_cluster" => parent_cluster = Some(value.to_owned()),
            _ => return Err(unknown(name)),
        }
    }
    match (&parent_job, &parent_cluster) {
        (Some(_), Some(_)) if job.parent_job.is_none() && job.parent_cluster.is_none() => {
            (job.parent_job, job.parent_cluster) = (parent_job, parent_cluster);
        }
        (Some(_), Some(_)) | (None, None) => {}
        _ => {
            let message = "multicluster.parent_job and multicluster.parent_cluster belong together";
            let problem = Problem::new(codes::BAD_HINT, message);
            return Err(problem.hint("give both, or neither when submitting from outside a job"));
        }
    }
    Ok(dedup)
}

fn fill_codes(given: &mut Vec<i64>, name: &str, value: &str) -> Result<(), Problem> {
    let codes = value.split(',').map(str::trim).filter(|code| !code.is_empty());
    let codes = codes.map(str::parse).collect::<Result<Vec<i64>, _>>();
    let codes = codes.map_err(|_| bad(name, value, "exit codes separated by commas, such as 3,4"))?;
    if given.is_empty() {
        *given = codes;
    }
    Ok(())
}

fn on_cluster_loss(word: &str) -> Option<OnClusterLoss> {
    match word {
        "wait" => Some(OnClusterLoss::Wait),
        "requeue" => Some(OnClusterLoss::Requeue),
        _ => None,
    }
}

fn flag(name: &str, value: &str) -> Result<bool, Problem> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(bad(name, value, "true or false")),
    }
}

fn number<T: FromStr>(name: &str, value: &str, expected: &str) -> Result<T, Problem> {
    value.parse().map_err(|_| bad(name, value, expected))
}

fn bad(name: &str, value: &str, expected: &str) -> Problem {
    let value: String = value.chars().take(40).collect();
    let message = format!("metadata {PREFIX}{name}: {value:?} cannot be used");
    Problem::new(codes::BAD_HINT, message).hint(format!("expected {expected}"))
}

fn unknown(name: &str) -> Problem {
    let shown: String = name.chars().take(40).collect();
    let known: Vec<_> = KNOWN.iter().map(|name| format!("{PREFIX}{name}")).collect();
    let meant = settings::closest(name, KNOWN);
    let meant = meant.map_or(String::new(), |name| format!("did you mean {PREFIX}{name}? "));
    let message = format!("metadata {PREFIX}{shown}: there is no such hint");
    Problem::new(codes::BAD_HINT, message).hint(format!("{meant}known names: {}", known.join(", ")))
}
