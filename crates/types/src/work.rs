//! Work that a caller submits, as far as placement is concerned. The payload (entrypoint,
//! runtime_env, function) is not part of it: the core never sees the payload.

use std::{fmt, ops};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{
    ClusterName, GroupId, IdError, LabelSelector, Owner, Platform, Resources, RetryCodes, Snapshot, Tag, hex,
    words::words,
};

/// Everything that decides where and in which order work is placed. Two pieces of work that are
/// equal here are interchangeable to the scheduler: they form one equivalence class.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Work {
    /// Job, task or actor.
    pub kind: Kind,
    /// The resources that must be free on its cluster, and count as taken while it is there.
    #[serde(default)]
    pub demand: Resources,
    /// The part of the demand that Ray sets aside, on one node, if a job needs more than its
    /// driver reserves. `None`: all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserves: Option<Box<Resources>>,
    /// The nodes that may hold its reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Box<LabelSelector>>,
    /// Placement tags and labels.
    #[serde(default)]
    pub tags: Tags,
    /// The cluster that the caller named.
    #[serde(default)]
    pub preference: Option<Preference>,
    /// The versions that its cluster must run, if that matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<Box<Versions>>,
    /// The platform that its cluster must have, if that matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Box<Platform>>,
    /// Submitted from outside, or from inside a scheduled job.
    #[serde(default)]
    pub origin: Origin,
    /// The owner, if tokens are in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// The group, if it was submitted in one call together with others.
    #[serde(default)]
    pub group: Option<GroupId>,
    /// Higher goes first.
    #[serde(default)]
    pub priority: Priority,
    /// What to do when it fails or its cluster is lost.
    #[serde(default)]
    pub retry: Retry,
    /// May it be stopped for other work, and be run again later? Jobs only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preemptible: bool,
}

impl Work {
    /// Work of this kind without any demands.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            demand: Resources::default(),
            reserves: None,
            labels: None,
            tags: Tags::default(),
            preference: None,
            versions: None,
            platform: None,
            origin: Origin::Outside,
            owner: None,
            group: None,
            priority: Priority::default(),
            retry: Retry::default(),
            preemptible: false,
        }
    }

    /// A job with these needs, whose driver has this reservation.
    #[must_use]
    pub fn job(needs: &Resources, reserves: Resources) -> Self {
        let mut demand = reserves.clone();
        demand.raise_to(needs);
        let reserves = (reserves != demand).then(|| Box::new(reserves));
        Self { demand, reserves, ..Self::new(Kind::Job) }
    }

    /// The demand that must fit on one node: a driver's reservation, or all of a task or an actor.
    #[must_use]
    pub fn on_one_node(&self) -> &Resources {
        self.reserves.as_deref().unwrap_or(&self.demand)
    }

    /// Does the 40-second rule apply? It applies to jobs, and to tasks submitted from outside any job.
    #[must_use]
    pub fn is_top_level(&self) -> bool {
        self.origin == Origin::Outside && self.kind != Kind::Actor
    }

    /// Does it count against `max_running_jobs`?
    #[must_use]
    pub fn is_top_level_job(&self) -> bool {
        self.origin == Origin::Outside && self.kind == Kind::Job
    }

    /// Does it put a driver on the head node? Ray runs an entrypoint that reserves resources or
    /// selects its node on any node, and all others on the head node.
    #[must_use]
    pub fn burdens_head(&self) -> bool {
        self.kind == Kind::Job && self.on_one_node().is_empty() && self.labels.is_none()
    }
}

words! {
    /// The kind of work.
    pub enum Kind {
        /// A Ray job: an entrypoint that the control plane submits and watches.
        Job = "job",
        /// A Ray task: the control plane grants a placement, the caller runs the task there.
        Task = "task",
        /// A Ray actor: like a task, but it stays.
        Actor = "actor",
    }
}

/// Where the work was submitted from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A laptop, Airflow, a console.
    #[default]
    Outside,
    /// A scheduled job: exempt from threshold, spacing and job limits.
    Inside,
}

/// The cluster that the caller named.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names of the fields say it")]
pub struct Preference {
    pub cluster: ClusterName,
    /// Use no other cluster, even if this one is down.
    #[serde(default)]
    pub required: bool,
}

/// The versions of a caller that connects to a cluster itself: Ray Client works only between
/// equal versions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Versions {
    /// The Ray version, e.g. `2.60.0`.
    pub ray: String,
    /// The Python version, of which the first two numbers count: `3.11`.
    pub python: String,
}

impl Versions {
    /// The longest version, in bytes.
    pub const MAX: usize = 64;

    /// These versions, if they are valid.
    #[must_use]
    pub fn new(ray: &str, python: &str) -> Option<Self> {
        let legal = |text: &str| {
            (1..=Self::MAX).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".+-_".contains(&byte))
        };
        (legal(ray) && legal(python)).then(|| Self { ray: ray.to_owned(), python: minor(python).to_owned() })
    }

    /// Does a cluster with this snapshot run the same versions? A version that it does not report
    /// counts as the same.
    #[must_use]
    pub fn are_those_of(&self, snapshot: &Snapshot) -> bool {
        self.ray == snapshot.ray_version
            && snapshot.python_version.as_deref().is_none_or(|python| minor(python) == self.python)
    }
}

/// The first two numbers of a version.
fn minor(version: &str) -> &str {
    let end = version.match_indices('.').nth(1).map_or(version.len(), |(at, _)| at);
    &version[..end]
}

/// Higher goes first; 0 by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Priority(pub i32);

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which failed work may be run again, and when.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Retry {
    /// How many times work that ran and failed is run again.
    #[serde(default)]
    pub max_retries: u32,
    /// What happens if its cluster is lost.
    #[serde(default)]
    pub on_cluster_loss: OnClusterLoss,
    /// The exit codes that are worth a retry. `None`: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codes: Option<Box<RetryCodes>>,
}

/// What happens to work whose cluster is lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnClusterLoss {
    /// The work may still be running there: wait and ask. Never run it twice.
    #[default]
    Wait,
    /// The work is idempotent: run it elsewhere.
    Requeue,
}

/// A sorted set of tags, of bounded size.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<Tag>")]
pub struct Tags(Vec<Tag>);

/// Why a set of tags was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TagsError {
    /// One of them is not a valid tag.
    #[error(transparent)]
    Tag(#[from] IdError),
    /// Too many.
    #[error("{count} tags, at most {max} are allowed")]
    TooMany {
        /// How many were given.
        count: usize,
        /// How many are allowed.
        max: usize,
    },
}

impl Tags {
    /// The most tags one piece of work or one cluster may have.
    pub const MAX: usize = 64;

    /// Checks, sorts and removes repeats.
    ///
    /// # Errors
    /// For a text that cannot be a tag, or too many.
    pub fn new<T: AsRef<str>>(tags: impl IntoIterator<Item = T>) -> Result<Self, TagsError> {
        let mut kept = Vec::new();
        for (count, tag) in (1..).zip(tags) {
            if count > Self::MAX {
                return Err(TagsError::TooMany { count, max: Self::MAX });
            }
            kept.push(Tag::new(tag)?);
        }
        kept.sort();
        kept.dedup();
        Ok(Self(kept))
    }
}

impl ops::Deref for Tags {
    type Target = [Tag];
    fn deref(&self) -> &[Tag] {
        &self.0
    }
}

impl TryFrom<Vec<String>> for Tags {
    type Error = TagsError;
    fn try_from(tags: Vec<String>) -> Result<Self, TagsError> {
        Self::new(tags)
    }
}

impl From<Tags> for Vec<Tag> {
    fn from(tags: Tags) -> Self {
        tags.0
    }
}

/// A fingerprint of everything that the caller sent besides the id, to find duplicates by
/// content. It cannot be forged, so no caller can make another caller's job look like their own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ContentHash([u8; 16]);

impl ContentHash {
    /// The fingerprint of these parts, in this order. Lengths are hashed too, so
    /// `["ab", "c"]` and `["a", "bc"]` differ.
    #[must_use]
    pub fn of<T: AsRef<[u8]>>(parts: impl IntoIterator<Item = T>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            let part = part.as_ref();
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let full: [u8; 32] = hash.finalize().into();
        let mut kept = [0; 16];
        kept.copy_from_slice(&full[..16]);
        Self(kept)
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn top_level_is_jobs_and_tasks_from_outside() {
        for (kind, origin, top_level) in [
            (Kind::Job, Origin::Outside, true),
            (Kind::Task, Origin::Outside, true),
            (Kind::Actor, Origin::Outside, false),
            (Kind::Job, Origin::Inside, false),
            (Kind::Task, Origin::Inside, false),
            (Kind::Actor, Origin::Inside, false),
        ] {
            let work = Work { origin, ..Work::new(kind) };
            assert_eq!(work.is_top_level(), top_level, "{kind} {origin:?}");
        }
    }

    #[test]
    fn a_job_that_needs_much_and_reserves_nothing_burdens_the_head() {
        let cpus = |cpus| Resources::from_amounts([("CPU", cpus)]).unwrap();
        let users = Work::job(&cpus(16.0), Resources::default());
        assert!(users.burdens_head() && users.on_one_node().is_empty());
        assert_eq!(users.demand, cpus(16.0));
        let both = Work::job(&cpus(16.0), cpus(2.0));
        assert!(!both.burdens_head());
        assert_eq!((both.demand.clone(), both.on_one_node().clone()), (cpus(16.0), cpus(2.0)));
        let rays = Work { demand: cpus(2.0), ..Work::new(Kind::Job) };
        assert_eq!(Work::job(&cpus(1.0), cpus(2.0)), rays, "what it reserves it needs anyway");
    }

    #[test]
    fn tags_are_a_set() {
        assert_eq!(Tags::new(["b", "a", "b"]).unwrap(), Tags::new(["a", "b"]).unwrap());
        assert!(Tags::new(["has space"]).is_err());
        assert!(matches!(Tags::new((0..1000).map(|i| i.to_string())), Err(TagsError::TooMany { .. })));
    }

    #[test]
    fn content_hashes_tell_where_a_part_ends() {
        assert_ne!(ContentHash::of(["ab", "c"]), ContentHash::of(["a", "bc"]));
        assert_eq!(ContentHash::of(["ab", "c"]), ContentHash::of(["ab", "c"]));
    }
}
