//! Room that is kept for one job, and room on nodes, restated.

use std::sync::Arc;

use multicluster_core::{Durable, record::JobRecord};
use multicluster_types::{ClusterName, JobId, NodeShape, Origin, Resources, Snapshot, Work};

/// Does the room that a cluster keeps for one job leave no room for this later work?
pub fn keeps_off(
    store: &Durable,
    (name, facts): (&ClusterName, &Snapshot),
    (kept_for, foreign): (&JobId, &Resources),
    record: &JobRecord,
) -> bool {
    let Some(head) = store.jobs.get(kept_for) else { return false };
    let later = |other: &JobRecord| {
        let (a, b) = (&other.work, &head.work);
        a.origin == Origin::Outside
            && (a.priority < b.priority || a.priority == b.priority && other.seq > head.seq)
    };
    if !later(record) {
        return false;
    }
    let on = |other: &&JobRecord| other.live().is_some_and(|live| live.cluster == *name);
    let there: Vec<_> = store.jobs.values().filter(on).filter(|other| later(other)).collect();
    let work = &record.work;
    let crowded = head.work.demand.iter().any(|(dimension, kept)| {
        let of = |work: &Work| u128::from(work.demand.get(&dimension).parts());
        let have: u128 = there.iter().map(|other| of(&other.work)).sum();
        let others = u128::from(foreign.get(&dimension).parts());
        let wanted = have + of(work) + u128::from(kept.parts()) + others;
        of(work) > 0 && wanted > u128::from(facts.total.get(&dimension).parts())
    });
    let one = head.work.on_one_node();
    let large = |node: &&NodeShape| one.iter().all(|(dimension, n)| node.total.get(&dimension) >= n);
    let nodes: u64 = facts.shapes.iter().filter(large).map(|node| u64::from(node.count)).sum();
    let touched = |work: &Work| if work.reserves.is_none() { 1 } else { u64::from(u32::MAX) };
    let with_demand = there.iter().filter(|other| !other.work.demand.is_empty());
    let taken: u64 = with_demand.map(|other| touched(&other.work)).sum();
    let scattered = facts.nodes > 1 && !one.is_empty() && taken + touched(work) > nodes.saturating_sub(1);
    work.demand.is_empty() || crowded || scattered
}

pub fn is_labelled(work: &Work, node: &NodeShape) -> bool {
    work.labels.is_none() || node.labels.get("zone").is_some_and(|zone| zone == "a")
}

/// The nodes, one by one, when promised work has its room where most is free: the largest first, and
/// nodes that are there before those that could be added.
pub fn nodes_left(there: &Snapshot, facts: &Snapshot, promised: &[Arc<Work>]) -> Vec<NodeShape> {
    let each = |shape: &NodeShape| vec![shape.clone(); shape.count as usize];
    let mut nodes: Vec<_> = facts.shapes.iter().flat_map(each).collect();
    if facts.nodes < 2 {
        return nodes;
    }
    let added = nodes.len().min(there.nodes as usize);
    let mut promised: Vec<_> = promised.iter().filter(|work| !work.on_one_node().is_empty()).collect();
    promised.sort_by_key(|work| std::cmp::Reverse((work.on_one_node().clone(), work.labels.clone())));
    for work in promised.into_iter().take(64) {
        let one = work.on_one_node();
        let fits = |node: &&mut NodeShape| {
            is_labelled(work, node) && one.iter().all(|(dimension, asked)| node.free.get(&dimension) >= asked)
        };
        let most = |node: &&mut NodeShape| (node.free.gpu, node.free.cpu, node.free.memory);
        let (there, new) = nodes.split_at_mut(added);
        let node = there.iter_mut().filter(fits).max_by_key(most);
        if let Some(node) = node.or_else(|| new.iter_mut().filter(fits).max_by_key(most)) {
            node.free.subtract(one);
        }
    }
    nodes
}
