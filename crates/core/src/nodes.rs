//! What must be on one node: a driver's reservation, a task, an actor. What a job needs beyond
//! that is summed over the nodes of its cluster, and not looked at here.

use multicluster_types::{Dimension, NodeShape, Quantity, Reason, Resources, Snapshot, Work};

/// Could no node of this cluster ever take the work, even if all were empty?
#[inline]
pub(crate) fn too_small(snapshot: &Snapshot, work: &Work) -> Option<Reason> {
    let short = |resource, demand, largest| Reason::NodeTooSmall { resource, demand, largest };
    judge(snapshot, work, |node| &node.total, short)
}

/// Has no node room for the work at the moment?
#[inline]
pub(crate) fn full(snapshot: &Snapshot, work: &Work) -> Option<Reason> {
    let short = |resource, demand, free| Reason::NoRoomOnNode { resource, demand, free };
    judge(snapshot, work, |node| &node.free, short)
}

/// Most work asks for no node in particular, and the sums of a cluster of one node say all there
/// is to say.
#[inline]
fn judge(
    snapshot: &Snapshot,
    work: &Work,
    has: fn(&NodeShape) -> &Resources,
    short: fn(Dimension, Quantity, Quantity) -> Reason,
) -> Option<Reason> {
    let asks = work.labels.is_some() || snapshot.nodes > 1 && !work.on_one_node().is_empty();
    if !asks || snapshot.shapes.is_empty() {
        return None;
    }
    let labels = work.labels.as_deref();
    let matches = |node: &&NodeShape| labels.is_none_or(|labels| labels.matches(&node.labels));
    let nodes: Vec<_> = snapshot.shapes.iter().filter(matches).map(has).collect();
    let demand = work.on_one_node();
    let mut last = None;
    for node in &nodes {
        last = Some(demand.first_beyond_total(node)?);
    }
    let most = |resource: &Dimension| nodes.iter().map(|node| node.get(resource)).max().unwrap_or_default();
    // What is short everywhere says more than what is short only where the rest is not.
    let everywhere = demand.iter().map(|(resource, _)| resource).find(|r| most(r) < demand.get(r));
    // Without a node that matches nothing is short: there is none.
    Some(match last.map(|last| everywhere.unwrap_or(last)) {
        Some(resource) => {
            let (asked, most) = (demand.get(&resource), most(&resource));
            short(resource, asked, most)
        }
        None => Reason::NoSuchNode { labels: labels.map(ToString::to_string).unwrap_or_default().into() },
    })
}
