//! Demands that must fit on one node: a driver's reservation, a task, an actor. The rest of a
//! job's demand is summed over the nodes of its cluster, and is not judged here.

use multicluster_types::{Dimension, NodeShape, Quantity, Reason, Resources, Snapshot, Work};

/// Could no node of this cluster ever hold the work, even if all were empty?
#[inline]
pub(crate) fn too_small(snapshot: &Snapshot, work: &Work) -> Option<Reason> {
    let short = |resource, demand, largest| Reason::NodeTooSmall { resource, demand, largest };
    judge(snapshot, &snapshot.shapes, work, |node| &node.total, short)
}

/// Has no node room for the work at the moment? `left` is what promised work leaves of the nodes.
#[inline]
pub(crate) fn full(snapshot: &Snapshot, left: &[NodeShape], work: &Work) -> Option<Reason> {
    let short = |resource, demand, free| Reason::NoRoomOnNode { resource, demand, free };
    judge(snapshot, left, work, |node| &node.free, short)
}

/// So much promised work is counted on the nodes: more cannot settle in the meantime.
const MOST: usize = 64;

/// What is left of these nodes when work that they do not show yet has its room on one of them, and
/// the work that fits on none. Nobody knows which node Ray will choose. At worst it is the one with the
/// most room.
pub(crate) fn left<'a>(
    mut nodes: Vec<NodeShape>,
    promised: impl Iterator<Item = &'a Work>,
) -> (Vec<NodeShape>, Vec<&'a Work>) {
    let mut rest = Vec::new();
    for work in promised.take(MOST) {
        let demand = work.on_one_node();
        let can = |node: &&mut NodeShape| {
            let labelled = work.labels.as_deref().is_none_or(|labels| labels.matches(&node.labels));
            labelled && node.count > 0 && demand.first_beyond_total(&node.free).is_none()
        };
        let most = |node: &&mut NodeShape| (node.free.gpu, node.free.cpu, node.free.memory);
        let Some(node) = nodes.iter_mut().filter(can).max_by_key(most) else {
            rest.push(work);
            continue;
        };
        node.count -= 1;
        let mut taken = NodeShape { count: 1, ..node.clone() };
        taken.free.subtract(demand);
        nodes.push(taken);
    }
    nodes.retain(|node| node.count > 0);
    (nodes, rest)
}

/// Most work has no demand on a single node, and for a cluster of one node the sums are enough.
#[inline]
fn judge(
    snapshot: &Snapshot,
    shapes: &[NodeShape],
    work: &Work,
    has: fn(&NodeShape) -> &Resources,
    short: fn(Dimension, Quantity, Quantity) -> Reason,
) -> Option<Reason> {
    let asks = work.labels.is_some() || snapshot.nodes > 1 && !work.on_one_node().is_empty();
    if !asks || shapes.is_empty() {
        return None;
    }
    let labels = work.labels.as_deref();
    let matches = |node: &&NodeShape| labels.is_none_or(|labels| labels.matches(&node.labels));
    let nodes: Vec<_> = shapes.iter().filter(matches).map(has).collect();
    let demand = work.on_one_node();
    let mut last = None;
    for node in &nodes {
        last = Some(demand.first_beyond_total(node)?);
    }
    let most = |resource: &Dimension| nodes.iter().map(|node| node.get(resource)).max().unwrap_or_default();
    // A resource that is short on every node says more than one that is short on some.
    let everywhere = demand.iter().map(|(resource, _)| resource).find(|r| most(r) < demand.get(r));
    // If no node matches, no resource is short: there is no node at all.
    Some(match last.map(|last| everywhere.unwrap_or(last)) {
        Some(resource) => {
            let (asked, most) = (demand.get(&resource), most(&resource));
            short(resource, asked, most)
        }
        None => Reason::NoSuchNode { labels: labels.map(ToString::to_string).unwrap_or_default().into() },
    })
}
