//! What a caller should know at once about accepted work.

use multicluster_types::{
    ClusterName, Lang, Quantity, Reason, Tag, Timestamp, Work, say, settings::UnknownTags,
};
use serde::Serialize;

use crate::{Core, Refusal};

/// So many labels of one job are compared with the tags that exist.
const COMPARED: usize = 16;

/// Something that the caller may not have meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "notice", rename_all = "snake_case")]
pub enum Notice {
    /// No cluster could ever accept the work, as they are now.
    Never {
        /// Why, for each cluster.
        clusters: Vec<(ClusterName, Reason)>,
        /// When they were asked.
        at: Timestamp,
    },
    /// No cluster carries the tag, so it filters nothing; but it looks like one that some cluster
    /// carries.
    UnknownTag {
        /// The tag of the work.
        tag: Tag,
        /// What it was probably meant to be.
        similar: Tag,
    },
}

impl Notice {
    /// The notice as text.
    #[must_use]
    pub fn describe(&self, lang: Lang) -> String {
        match self {
            Notice::Never { clusters, at } => why_never(clusters, *at, lang),
            Notice::UnknownTag { tag, similar } => say!(
                lang,
                "no cluster carries {tag}: it is kept as a label; did you mean {similar}?",
                "没有集群带有标签 {tag}：它只作为标记保留；是否想写 {similar}？"
            ),
        }
    }
}

impl Core {
    pub(super) fn notices(&self, work: &Work) -> Vec<Notice> {
        let never = self.never_anywhere(work).map(|clusters| Notice::Never {
            clusters: clusters.into_iter().map(|(name, why)| (name.clone(), why)).collect(),
            at: self.now,
        });
        let unknown =
            work.tags.iter().filter(|tag| !self.pool.carries(tag)).take(COMPARED).filter_map(|tag| {
                let similar = self.pool.near_miss(tag)?.clone();
                Some(Notice::UnknownTag { tag: tag.clone(), similar })
            });
        never.into_iter().chain(unknown).collect()
    }

    /// Refuses tags that no cluster carries, if the settings say so.
    pub(super) fn check_tags(&self, work: &Work) -> Result<(), Refusal> {
        if self.settings.unknown_tags == UnknownTags::Allow {
            return Ok(());
        }
        let Some(tag) = work.tags.iter().find(|tag| !self.pool.carries(tag)) else { return Ok(()) };
        let similar = self.pool.near_miss(tag).cloned();
        Err(Refusal::UnknownTag { tag: tag.clone(), similar, known: self.pool.tags().cloned().collect() })
    }
}

fn why_never(never: &[(ClusterName, Reason)], now: Timestamp, lang: Lang) -> String {
    let (mut resource, mut demand, mut most, mut nodes) = (None, Quantity::ZERO, Quantity::ZERO, 0);
    for (_, reason) in never {
        let (what, asked, has) = match reason {
            Reason::Infeasible { resource, demand, total } => (resource, *demand, *total),
            Reason::NodeTooSmall { resource, demand, largest } => {
                nodes += 1;
                (resource, *demand, *largest)
            }
            _ => {
                let each = per_cluster(never.iter().map(|(name, why)| (name, why)), now, lang);
                return say!(
                    lang,
                    "no cluster can run it as configured: {each}",
                    "按目前的配置，没有集群可以运行它：{each}"
                );
            }
        };
        resource = Some(what);
        (demand, most) = (asked, most.max(has));
    }
    let Some(resource) = resource else {
        return lang.pick("no cluster is registered", "尚未注册集群").to_owned();
    };
    let (demand, most) = (resource.show(demand), resource.show(most));
    match nodes {
        0 => say!(
            lang,
            "needs {resource} {demand}, but the largest cluster has {most}; queued until a cluster grows",
            "需要 {resource} {demand}，但最大的集群只有 {most}；在集群扩容之前一直排队"
        ),
        _ => say!(
            lang,
            "needs {resource} {demand} on one node, but the largest node has {most}; queued until a node grows",
            "单个节点上需要 {resource} {demand}，但最大的节点只有 {most}；在节点扩容之前一直排队"
        ),
    }
}

/// `mac: too small: …; centos: …`.
pub(super) fn per_cluster<'a>(
    reasons: impl Iterator<Item = (&'a ClusterName, &'a Reason)>,
    now: Timestamp,
    lang: Lang,
) -> String {
    let line = |(name, why): (&ClusterName, &Reason)| {
        let why = why.describe(now, lang);
        say!(lang, "{name}: {why}", "{name}：{why}")
    };
    reasons.map(line).collect::<Vec<_>>().join(lang.pick("; ", "；"))
}
