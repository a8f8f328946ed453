//! Where and in which order work should run, as callers say it.

use std::collections::BTreeMap;

use multicluster_api::codes;
use multicluster_core::Parent;
use multicluster_types::{
    ClusterName, ExitCodes, IdError, JobId, LabelSelector, OnClusterLoss, Platform, PlatformName, Preference,
    Priority, Retry, RetryCodes, Tags, Versions, Work,
};

use crate::problem::Problem;

/// More is a loop, not a retry.
const MAX_RETRIES: u32 = 1000;

/// What jobs, tasks and actors have in common, before it is checked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wishes {
    pub(crate) preferred_cluster: Option<String>,
    pub(crate) required: bool,
    pub(crate) tags: Vec<String>,
    pub(crate) os: Option<String>,
    pub(crate) arch: Option<String>,
    /// Of Ray and Python, of callers who connect themselves.
    pub(crate) versions: Option<(String, String)>,
    pub(crate) priority: Option<i32>,
    pub(crate) max_retries: Option<u32>,
    pub(crate) retry_on: Vec<i64>,
    pub(crate) never_retry_on: Vec<i64>,
    pub(crate) on_cluster_loss: Option<OnClusterLoss>,
    /// The job it is submitted from, and the cluster that runs there.
    pub(crate) parent: Option<(String, String)>,
}

/// The two names of a parent belong together; one without the other is refused later, as
/// a name that is empty.
pub(crate) fn parent_names(job: Option<String>, cluster: Option<String>) -> Option<(String, String)> {
    (job.is_some() || cluster.is_some()).then(|| (job.unwrap_or_default(), cluster.unwrap_or_default()))
}

impl Wishes {
    /// Adds them to work that says what it asks for.
    pub(crate) fn check(self, work: Work) -> Result<(Work, Option<Parent>), Problem> {
        if self.required && self.preferred_cluster.is_none() {
            let problem = Problem::new(codes::BAD_JOB, "required is set, but no preferred_cluster");
            return Err(problem.hint("name the cluster it must run on as preferred_cluster"));
        }
        let required = self.required;
        let preference = self
            .preferred_cluster
            .map(|cluster| {
                let cluster =
                    ClusterName::new(cluster).map_err(|error| named("preferred_cluster", &error))?;
                Ok::<_, Problem>(Preference { cluster, required })
            })
            .transpose()?;
        let tags =
            Tags::new(self.tags).map_err(|error| Problem::told(codes::BAD_JOB, &error).about("tags"))?;
        let platform = platform(self.os.as_deref(), self.arch.as_deref())?;
        let versions = self.versions.map(|(ray, python)| versions(&ray, &python)).transpose()?;
        let max_retries = self.max_retries.unwrap_or_default();
        if max_retries > MAX_RETRIES {
            let message = format!("max_retries is {max_retries}, at most {MAX_RETRIES} are allowed");
            return Err(Problem::new(codes::BAD_JOB, message).hint("0 to 3 is usual"));
        }
        let codes = retry_codes(max_retries, self.retry_on, self.never_retry_on)?;
        let parent = self.parent.map(parent).transpose()?;
        let on_cluster_loss = self.on_cluster_loss.unwrap_or_default();
        let retry = Retry { max_retries, on_cluster_loss, codes };
        let priority = Priority(self.priority.unwrap_or_default());
        Ok((Work { tags, preference, platform, versions, priority, retry, ..work }, parent))
    }
}

fn retry_codes(
    max_retries: u32,
    retry_on: Vec<i64>,
    never_retry_on: Vec<i64>,
) -> Result<Option<Box<RetryCodes>>, Problem> {
    let list = |field: &str, given: Vec<i64>| {
        if !given.is_empty() && max_retries == 0 {
            let message = format!("{field} is set, but max_retries is 0, so the job is never retried");
            let hint = format!("set max_retries, or leave {field} out");
            return Err(Problem::new(codes::BAD_JOB, message).hint(hint));
        }
        ExitCodes::new(given).map_err(|error| Problem::told(codes::BAD_JOB, &error).about(field))
    };
    let (only, never) = (list("retry_on", retry_on)?, list("never_retry_on", never_retry_on)?);
    let codes = RetryCodes::new(only, never).map_err(|error| Problem::told(codes::BAD_JOB, &error))?;
    Ok((!codes.is_empty()).then(|| Box::new(codes)))
}

fn parent((job, cluster): (String, String)) -> Result<Parent, Problem> {
    let job = JobId::new(job).map_err(|error| named("parent_job", &error))?;
    let cluster = ClusterName::new(cluster).map_err(|error| named("parent_cluster", &error))?;
    Ok(Parent { job, cluster })
}

fn platform(os: Option<&str>, arch: Option<&str>) -> Result<Option<Box<Platform>>, Problem> {
    let name = |field, text: Option<&str>| {
        text.map(PlatformName::new)
            .transpose()
            .map_err(|error| Problem::told(codes::BAD_JOB, &error).about(field))
    };
    let platform = Platform { os: name("os", os)?, arch: name("arch", arch)? };
    Ok((!platform.is_empty()).then(|| Box::new(platform)))
}

/// What the labels of a node must say.
pub(crate) fn selector(
    field: &str,
    labels: BTreeMap<String, String>,
) -> Result<Option<Box<LabelSelector>>, Problem> {
    let selector = LabelSelector::try_from(labels)
        .map_err(|error| Problem::told(codes::BAD_JOB, &error).about(field))?;
    Ok((!selector.is_empty()).then(|| Box::new(selector)))
}

fn versions(ray: &str, python: &str) -> Result<Box<Versions>, Problem> {
    Versions::new(ray, python).map(Box::new).ok_or_else(|| {
        let problem = Problem::new(codes::BAD_JOB, "ray_version and python_version are not both versions");
        problem.hint("give both or neither, such as 2.60.0 and 3.11.7")
    })
}

fn named(field: &str, error: &IdError) -> Problem {
    Problem::told(codes::BAD_JOB, error).about(field)
}
