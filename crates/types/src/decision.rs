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
    },
    /// The cluster could have run the work, but another one was better.
    Eligible {
        /// 0..1, higher is better.
        score: f32,
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

    /// The verdict as text, as of `now`.
    #[must_use]
    pub fn describe(&self, now: Timestamp, lang: Lang) -> String {
        match self {
            Verdict::Chosen { score } => say!(lang, "chosen, score {score:.3}", "选中，得分 {score:.3}"),
            Verdict::Eligible { score } => {
                say!(lang, "could take it, score {score:.3}", "可以接收，得分 {score:.3}")
            }
            Verdict::Rejected(reason) => reason.describe(now, lang),
        }
    }
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
