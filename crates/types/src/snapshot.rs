//! The facts that a Ray cluster reported at one moment.

use serde::{Deserialize, Serialize};

use crate::{
    Autoscaler, Incarnation, Labels, NODE_ID, Platform, Quantity, Resources, Timestamp, settings::Share,
};

/// The facts of one poll.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// When the poll was sent, on our clock: later events on the cluster may not be in it.
    pub taken_at: Timestamp,
    /// Ray's logical resources, all alive nodes together.
    pub total: Resources,
    /// The part of them in use.
    pub used: Resources,
    /// Load of the hosts themselves, if the cluster reports it.
    pub physical: Load,
    /// Memory of the head node, where the drivers of jobs run, if the cluster reports it.
    #[serde(default)]
    pub head: Option<HeadMemory>,
    /// Alive nodes. A head without any is not a cluster yet.
    pub nodes: u32,
    /// Shapes of the nodes. Empty: unknown, and demands on one node are not judged.
    #[serde(default)]
    pub shapes: Vec<NodeShape>,
    /// The platform of all nodes that report it.
    #[serde(default)]
    pub platform: Platform,
    /// E.g. `2.60.0`.
    pub ray_version: String,
    /// The head's Python, e.g. `3.11.7`; `None` if this Ray version does not report it.
    pub python_version: Option<String>,
    /// The incarnation of the head that answered; `None` if this Ray version does not report it.
    pub incarnation: Option<Incarnation>,
    /// What its autoscaler reports, if it was asked and has one.
    #[serde(default)]
    pub autoscaler: Option<Autoscaler>,
}

/// The resources of one node, and how much of them is free. Equal nodes are counted together.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeShape {
    /// The node's resources.
    pub total: Resources,
    /// The free part of them.
    pub free: Resources,
    /// Its labels, without the one that identifies the node.
    pub labels: Labels,
    /// How many nodes look like this.
    pub count: u32,
}

impl NodeShape {
    /// The most shapes kept of one cluster.
    pub const MAX: usize = 64;

    /// Counts equal nodes together. Shapes beyond [`NodeShape::MAX`] are merged into one with the most of
    /// each resource and the labels that they share: it may promise too much, never too little.
    #[must_use]
    pub fn group(nodes: impl IntoIterator<Item = NodeShape>) -> Vec<NodeShape> {
        let mut shapes: Vec<NodeShape> = nodes.into_iter().collect();
        shapes.iter_mut().for_each(|shape| drop(shape.labels.remove(NODE_ID)));
        // The largest first, so that the largest shapes are not merged.
        shapes.sort_by(|a, b| b.cmp(a));
        shapes.dedup_by(|next, kept| {
            let same = (&next.total, &next.free, &next.labels) == (&kept.total, &kept.free, &kept.labels);
            kept.count += if same { next.count } else { 0 };
            same
        });
        if shapes.len() > Self::MAX {
            let rest = shapes.split_off(Self::MAX - 1);
            shapes.extend(rest.into_iter().reduce(|mut all, shape| {
                all.total.raise_to(&shape.total);
                all.free.raise_to(&shape.free);
                all.labels.retain(|name, value| shape.labels.get(name) == Some(value));
                all.count += shape.count;
                all
            }));
        }
        shapes
    }
}

/// Memory of one node, in bytes. In a container, of the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadMemory {
    /// The total.
    pub total: Quantity,
    /// The free part.
    pub free: Quantity,
}

/// The utilization of a cluster, as shares of its resources.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names of the fields say it")]
pub struct Load {
    /// Processors.
    pub cpu: Option<Share>,
    pub gpu: Option<Share>,
    pub memory: Option<Share>,
}

impl Load {
    /// The allocated and promised share of logical resources. `None` for a resource that the
    /// cluster does not have.
    #[must_use]
    pub fn logical(total: &Resources, used: &Resources, assumed: &Resources) -> Self {
        let share = |total: Quantity, used: Quantity, assumed: Quantity| {
            (!total.is_zero()).then(|| Share::of(used.plus(assumed).parts(), total.parts()))
        };
        Self {
            cpu: share(total.cpu, used.cpu, assumed.cpu),
            gpu: share(total.gpu, used.gpu, assumed.gpu),
            memory: share(total.memory, used.memory, assumed.memory),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u32, cpus: f64, free: f64) -> NodeShape {
        let cpus_of = |cpus| Resources::from_amounts([("CPU", cpus)]).unwrap();
        let labels = [(NODE_ID.to_owned(), number.to_string()), ("zone".into(), "a".into())].into();
        NodeShape { total: cpus_of(cpus), free: cpus_of(free), labels, count: 1 }
    }

    #[test]
    fn equal_nodes_are_one_shape() {
        let shapes = NodeShape::group([node(1, 4.0, 4.0), node(2, 8.0, 8.0), node(3, 4.0, 4.0)]);
        let counts: Vec<_> = shapes.iter().map(|shape| (shape.total.cpu.as_f64(), shape.count)).collect();
        assert_eq!(counts, [(8.0, 1), (4.0, 2)]);
    }

    #[test]
    fn a_thousand_different_nodes_are_few_shapes_that_hide_no_room() {
        let nodes = (0..1000).map(|number| node(number, 16.0, f64::from(number) / 100.0));
        let shapes = NodeShape::group(nodes.chain([node(1000, 2.0, 2.0)]));
        assert_eq!(shapes.len(), NodeShape::MAX);
        assert_eq!(shapes.iter().map(|shape| shape.count).sum::<u32>(), 1001);
        assert!((shapes[0].free.cpu.as_f64() - 9.99).abs() < 1e-9);
        assert!(shapes.iter().all(|shape| shape.labels.get("zone").is_some_and(|zone| zone == "a")));
    }
}
