//! The built-in scores. Each gives 0..1 for one cluster, independent of the other candidates, so
//! that a decision needs one pass.

use multicluster_types::{Message, NodeShape, Quantity, Resources, Work, settings};

use super::{Facts, PolicyError, built_ins};

/// A score that needs no expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BuiltIn {
    /// The share that would be free after placement.
    Score,
    /// How many of the placement tags the cluster carries.
    TagAffinity,
    /// The operator's static weight and `prefer`.
    WeightedPreference,
    /// Where the least of our work is.
    Spread,
    /// Fullest after placement, to keep other clusters empty for large work.
    Pack,
    /// Where the least of a free node is broken up.
    WholeNodes,
}

impl BuiltIn {
    /// Each score with its name and what it prefers.
    pub(super) const ALL: &[(BuiltIn, &'static str, &'static str)] = &[
        (BuiltIn::Score, "score", "the most CPU, GPU and memory free after placement"),
        (BuiltIn::TagAffinity, "tag_affinity", "the most of the work's placement tags carried"),
        (BuiltIn::WeightedPreference, "weighted_preference", "the highest `weight`, and `prefer`"),
        (BuiltIn::Spread, "spread", "the least work of ours"),
        (BuiltIn::Pack, "pack", "the fullest that still fits"),
        (BuiltIn::WholeNodes, "whole_nodes", "the rest of a node in use rather than a part of a free one"),
    ];

    pub(super) fn named(name: &Message) -> Result<Self, PolicyError> {
        let known = Self::ALL.iter().find(|(_, known, _)| *known == name.as_str());
        known.map(|(policy, _, _)| *policy).ok_or_else(|| {
            let similar = settings::closest(name.as_str(), built_ins().map(|(name, _)| name));
            PolicyError::Unknown { name: name.clone(), similar }
        })
    }

    #[inline]
    pub(super) fn score(self, work: &Work, facts: &Facts<'_>) -> f64 {
        match self {
            BuiltIn::Score => free_share_after(work, facts),
            BuiltIn::Pack => 1.0 - free_share_after(work, facts),
            BuiltIn::TagAffinity => match facts.tags_wanted {
                0 => 1.0,
                wanted => f64::from(facts.tags_carried) / f64::from(wanted),
            },
            BuiltIn::WeightedPreference => facts.desire,
            BuiltIn::WholeNodes => 0.5 - broken_up(work, facts) / 2.0,
            BuiltIn::Spread => 1.0 / (1.0 + f64::from(facts.live)),
        }
    }
}

/// How much free room on nodes in use this work adds, -1..1 of a node: room there is of no use to
/// work that needs a whole node. Ray is taken to choose the node where the work fits best.
fn broken_up(work: &Work, facts: &Facts<'_>) -> f64 {
    let demand = work.on_one_node();
    let of = |set: &Resources| if demand.gpu.is_zero() { set.cpu } else { set.gpu };
    let fits = |node: &&NodeShape| demand.first_beyond_total(&node.free).is_none();
    let best = facts.snapshot.shapes.iter().filter(fits).min_by_key(|node| of(&node.free));
    let Some(node) = best.filter(|node| !of(demand).is_zero() && !of(&node.total).is_zero()) else {
        return 0.0;
    };
    let room = |free: Quantity| if free == of(&node.total) { 0.0 } else { free.share_of(of(&node.total)) };
    room(of(&node.free).minus(of(demand))) - room(of(&node.free))
}

/// The mean share of CPU and memory that would be free after placement. GPUs
/// count only for work that asks for some: otherwise idle GPUs would draw CPU
/// work to the very clusters that should be kept for GPU work.
#[inline]
fn free_share_after(work: &Work, facts: &Facts<'_>) -> f64 {
    let (mut sum, mut count) = (0.0, 0);
    let mut take = |of: fn(&Resources) -> Quantity| {
        let total = of(facts.total);
        if !total.is_zero() {
            sum += of(facts.free).minus(of(&work.demand)).share_of(total);
            count += 1;
        }
    };
    take(|set| set.cpu);
    take(|set| set.memory);
    if !work.demand.gpu.is_zero() {
        take(|set| set.gpu);
    }
    // The mean over `count` resources, without a division.
    sum * [0.0, 1.0, 0.5, 1.0 / 3.0][count]
}
