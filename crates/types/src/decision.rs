//! The record of one placement: which cluster, and why not the others.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Attempt, ClusterName, JobId, Lang, Reason, Timestamp, VerdictKind, say};

/// The scheduler's verdict on one cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// The cluster got the work.
    Chosen {
        /// 0..1, higher is better.
        score: f32,
        /// By how many nodes the cluster had to grow for the work.
        #[serde(default, skip_serializing_if = "is_zero")]
        grows: u32,
    },
    /// The cluster could have run the work, but another one was better.
    Eligible {
        /// 0..1, higher is better.
        score: f32,
        /// By how many nodes the cluster would have to grow.
        #[serde(default, skip_serializing_if = "is_zero")]
        grows: u32,
    },
    /// The cluster could not accept the work.
    Rejected(Reason),
}

impl Verdict {
    /// The stable word for this verdict.
    #[must_use]
    pub fn kind(&self) -> VerdictKind {
        match self {
            Verdict::Chosen { .. } => VerdictKind::Chosen,
            Verdict::Eligible { .. } => VerdictKind::Eligible,
            Verdict::Rejected(_) => VerdictKind::Rejected,
        }
    }

    /// By how many nodes the cluster had to grow, if it was chosen.
    #[must_use]
    pub fn chosen_growth(&self) -> Option<u32> {
        match self {
            Verdict::Chosen { grows, .. } => Some(*grows),
            Verdict::Eligible { .. } | Verdict::Rejected(_) => None,
        }
    }

    /// The verdict as text, as of `now`.
    #[must_use]
    pub fn describe(&self, now: Timestamp, lang: Lang) -> String {
        match self {
            Verdict::Chosen { score, grows } => {
                let grows = growth(*grows, lang);
                say!(lang, "chosen, score {score:.3}{grows}", "选中，得分 {score:.3}{grows}")
            }
            Verdict::Eligible { score, grows } => {
                let grows = growth(*grows, lang);
                say!(lang, "could take it, score {score:.3}{grows}", "可以接收，得分 {score:.3}{grows}")
            }
            Verdict::Rejected(reason) => reason.describe(now, lang),
        }
    }
}

fn growth(nodes: u32, lang: Lang) -> String {
    match nodes {
        0 => String::new(),
        1 => lang.pick(", would have to grow by 1 node", "，需要扩容 1 个节点").to_owned(),
        _ => say!(lang, ", would have to grow by {nodes} nodes", "，需要扩容 {nodes} 个节点"),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Why one job was placed where it was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names of the fields say it")]
pub struct Decision {
    pub job: JobId,
    pub attempt: Attempt,
    pub at: Timestamp,
    /// The chosen cluster.
    pub cluster: ClusterName,
    /// The clusters considered. Shared by all decisions until the pool changes.
    pub roster: Arc<[ClusterName]>,
    /// One verdict for each cluster of the roster, in its order.
    pub verdicts: Box<[Verdict]>,
}

impl Decision {
    /// Each cluster with its verdict.
    pub fn per_cluster(&self) -> impl Iterator<Item = (&ClusterName, &Verdict)> {
        self.roster.iter().zip(&self.verdicts)
    }
}
