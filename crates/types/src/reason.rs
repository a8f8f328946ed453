//! Why a cluster did not take a piece of work. One value per cluster and look;
//! `explain`, the API, metric labels and log lines all render this same value.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ClusterName, Dimension, JobId, Message, Platform, Quantity, Share, Tags, Timestamp};

/// Why not this cluster, with the numbers that say so. In the order in which the
/// filters are asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Reason {
    /// An operator keeps new work away.
    Cordoned {
        /// What the operator said.
        note: Message,
    },
    /// Being emptied, by an operator or because it left the configuration.
    Draining {
        /// What the operator said.
        note: Message,
    },
    /// It has not answered a poll yet.
    NeverSeen,
    /// It does not answer.
    Unhealthy {
        /// Since when.
        since: Timestamp,
        /// What the last poll said.
        error: Message,
    },
    /// The head answers but no node is alive.
    NoNodes,
    /// Too many dispatches in a row failed.
    BreakerOpen {
        /// When one probe will be let through.
        until: Timestamp,
    },
    /// One probe is on its way; the rest waits for its outcome.
    BreakerProbing,
    /// The caller named another cluster.
    OtherCluster {
        /// The one it named.
        wanted: ClusterName,
    },
    /// It lacks placement tags of the work.
    MissingTags {
        /// The ones it lacks.
        tags: Tags,
    },
    /// It runs another Ray or Python than the caller, who would connect to it.
    OtherVersions {
        /// Its Ray.
        ray: Message,
        /// Its Python.
        python: Message,
        /// The caller's Ray.
        wanted_ray: Message,
        /// The caller's Python.
        wanted_python: Message,
    },
    /// It runs on another system or architecture than the work asks for.
    OtherPlatform {
        /// What it runs on, as far as it says.
        platform: Platform,
        /// What the work asks for.
        wanted: Platform,
    },
    /// No node carries the labels that the work asks for.
    NoSuchNode {
        /// What was asked for.
        labels: Message,
    },
    /// Even empty it would be too small.
    Infeasible {
        /// Of what.
        resource: Dimension,
        /// What the work needs.
        demand: Quantity,
        /// What the cluster has in all.
        total: Quantity,
    },
    /// The work must be on one node, and even an empty one would be too small.
    NodeTooSmall {
        /// Of what.
        resource: Dimension,
        /// What the work asks for on one node.
        demand: Quantity,
        /// The most that any node has.
        largest: Quantity,
    },
    /// A policy of the operator's says no.
    Policy {
        /// The policy's name.
        name: Message,
    },
    /// A policy of the operator's could not be evaluated.
    PolicyFailed {
        /// The policy's name.
        name: Message,
        /// What went wrong.
        error: Message,
    },
    /// It is busier than its threshold allows.
    OverThreshold {
        /// In what.
        resource: Dimension,
        /// How much is in use.
        used: Share,
        /// How much may be.
        limit: Share,
    },
    /// The last top-level submission was too recent.
    TooSoon {
        /// When the next is allowed.
        until: Timestamp,
    },
    /// It runs as many top-level jobs as it may.
    AtLimit {
        /// How many it runs.
        running: u32,
        /// How many it may.
        limit: u32,
    },
    /// Its head node has no memory for another driver.
    HeadFull {
        /// How many drivers of ours are on it.
        drivers: u32,
        /// How many it has memory for.
        limit: u32,
        /// What is free of it.
        free: Quantity,
    },
    /// It is starting as many jobs as it may at once.
    Starting {
        /// How many it is starting.
        jobs: u32,
        /// How many it may.
        limit: u32,
        /// What lowered the limit, if it is not the usual one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lowered: Option<Message>,
    },
    /// Not enough is free at the moment.
    NoRoom {
        /// Of what.
        resource: Dimension,
        /// What the work needs.
        demand: Quantity,
        /// What is free, after what has been promised already.
        free: Quantity,
        /// What our jobs there have, used or not.
        #[serde(default, skip_serializing_if = "Quantity::is_nothing")]
        claimed: Quantity,
    },
    /// The work must be on one node, and no node has enough free at the moment.
    NoRoomOnNode {
        /// Of what.
        resource: Dimension,
        /// What the work asks for on one node.
        demand: Quantity,
        /// The most that any node has free.
        free: Quantity,
    },
    /// Kept free for work that has waited too long.
    Reserved {
        /// For which job; `None`: one that is not there for the owner of this work.
        job: Option<JobId>,
    },
}

macro_rules! kinds {
    ($($variant:ident => $word:literal),+ $(,)?) => {
        /// A [`Reason`] without its numbers: a metric label.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "each is documented at the Reason of the same name")]
        pub enum ReasonKind { $($variant),+ }

        impl ReasonKind {
            /// Every kind, in the order of the filters.
            pub const ALL: &[ReasonKind] = &[$(ReasonKind::$variant),+];

            /// A stable word.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(ReasonKind::$variant => $word),+ }
            }
        }

        impl Reason {
            /// Which kind of reason it is.
            #[must_use]
            pub fn kind(&self) -> ReasonKind {
                match self { $(Reason::$variant { .. } => ReasonKind::$variant),+ }
            }
        }
    };
}

kinds! {
    Cordoned => "cordoned",
    Draining => "draining",
    NeverSeen => "never_seen",
    Unhealthy => "unhealthy",
    NoNodes => "no_nodes",
    BreakerOpen => "breaker_open",
    BreakerProbing => "breaker_probing",
    OtherCluster => "other_cluster",
    MissingTags => "missing_tags",
    OtherVersions => "other_versions",
    OtherPlatform => "other_platform",
    NoSuchNode => "no_such_node",
    Infeasible => "infeasible",
    NodeTooSmall => "node_too_small",
    Policy => "policy",
    PolicyFailed => "policy_failed",
    OverThreshold => "over_threshold",
    TooSoon => "too_soon",
    AtLimit => "at_limit",
    HeadFull => "head_full",
    Starting => "starting",
    NoRoom => "no_room",
    NoRoomOnNode => "no_room_on_node",
    Reserved => "reserved",
}

impl Reason {
    /// The reason in words. `now` turns moments into "in 12 s".
    #[must_use]
    pub fn describe(&self, now: Timestamp) -> String {
        let left = |until: &Timestamp| format!("{:.0} s", until.since(now).as_seconds().ceil());
        let ago = |since: &Timestamp| format!("{:.0} s", now.since(*since).as_seconds());
        match self {
            Reason::Cordoned { note } => format!("cordoned: {note}"),
            Reason::Draining { note } => format!("draining: {note}"),
            Reason::NeverSeen => "has not answered a poll yet".to_owned(),
            Reason::Unhealthy { since, error } => format!("unhealthy for {}: {error}", ago(since)),
            Reason::NoNodes => "its head answers but no node is alive".to_owned(),
            Reason::BreakerOpen { until } => {
                format!("circuit open after repeated failures, probe in {}", left(until))
            }
            Reason::BreakerProbing => "circuit half open, waiting for a probe's outcome".to_owned(),
            Reason::OtherCluster { wanted } => format!("the work asks for cluster {wanted}"),
            Reason::MissingTags { tags } => {
                let tags: Vec<_> = tags.iter().map(crate::Tag::as_str).collect();
                format!("does not carry {}", tags.join(", "))
            }
            Reason::OtherVersions { ray, python, wanted_ray, wanted_python } => {
                format!(
                    "has Ray {ray} with Python {python}, the caller Ray {wanted_ray} with Python {wanted_python}"
                )
            }
            Reason::Infeasible { resource, demand, total } => {
                format!(
                    "too small: {resource} {} asked, {} in all",
                    resource.show(*demand),
                    resource.show(*total)
                )
            }
            Reason::OtherPlatform { platform, wanted } => {
                format!("runs on {platform}, the work asks for {wanted}")
            }
            Reason::NoSuchNode { labels } => format!("no node carries {labels}"),
            Reason::NodeTooSmall { resource, demand, largest } => format!(
                "largest node has {resource} {}, {} asked on one node",
                resource.show(*largest),
                resource.show(*demand)
            ),
            Reason::Policy { name } => format!("policy {name} says no"),
            Reason::PolicyFailed { name, error } => format!("policy {name} failed: {error}"),
            Reason::OverThreshold { resource, used, limit } => {
                format!("busy: {resource} {used} in use, limit {limit}")
            }
            Reason::TooSoon { until } => format!("next top-level submission allowed in {}", left(until)),
            Reason::AtLimit { running, limit } => format!("runs {running} of at most {limit} top-level jobs"),
            Reason::HeadFull { drivers, limit, free } => format!(
                "runs {drivers} of at most {limit} drivers on its head node, {} free",
                Dimension::Memory.show(*free)
            ),
            Reason::Starting { jobs, limit, lowered } => {
                let why = lowered.as_ref().map_or(String::new(), |why| format!(", lowered because {why}"));
                format!("is starting {jobs} jobs, at most {limit} at once{why}")
            }
            Reason::NoRoom { resource, demand, free, claimed } => {
                let ours = match claimed.is_zero() {
                    true => String::new(),
                    false => format!(", running jobs need {}", resource.show(*claimed)),
                };
                let (demand, free) = (resource.show(*demand), resource.show(*free));
                format!("no room: {resource} {demand} asked, {free} free{ours}")
            }
            Reason::NoRoomOnNode { resource, demand, free } => format!(
                "no node has room: {resource} {} asked on one node, at most {} free",
                resource.show(*demand),
                resource.show(*free)
            ),
            Reason::Reserved { job } => {
                let whose = job.as_ref().map_or("another owner's job".to_owned(), ToString::to_string);
                format!("kept free for {whose}, which has waited too long")
            }
        }
    }
}

impl fmt::Display for ReasonKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_of_a_reason_is_the_same_in_json_and_in_metrics() {
        let reason = Reason::TooSoon { until: Timestamp(40_000) };
        let json = serde_json::to_value(&reason).unwrap();
        assert_eq!(json["reason"], reason.kind().as_str());
        assert_eq!(serde_json::from_value::<Reason>(json).unwrap(), reason);
    }

    #[test]
    fn reasons_read_like_sentences() {
        let now = Timestamp(100_000);
        assert_eq!(
            Reason::TooSoon { until: Timestamp(112_400) }.describe(now),
            "next top-level submission allowed in 13 s"
        );
        let over = Reason::OverThreshold {
            resource: Dimension::Cpu,
            used: Share::percent(82),
            limit: Share::percent(70),
        };
        assert_eq!(over.describe(now), "busy: CPU 82 % in use, limit 70 %");
        let small = Reason::Infeasible {
            resource: Dimension::Memory,
            demand: Quantity::whole(16 << 30).unwrap(),
            total: Quantity::whole(8 << 30).unwrap(),
        };
        assert_eq!(small.describe(now), "too small: memory 16 GiB asked, 8 GiB in all");
    }
}
