//! The nodes of virtual clusters: their sizes, and which node has how much free.
//!
//! Work is put where it leaves the least behind (best fit). Work that must be on one node waits for a
//! node with room; other work may use several nodes, as few and as empty ones as possible.

use std::collections::BTreeMap;

use multicluster_types::{ClusterName, Dimension, NodeShape, Quantity, Resources, Work};

/// The most nodes of one cluster.
pub(crate) const MAX_NODES: u32 = 10_000;

/// The nodes of each cluster that has more than one. A cluster that is not in here counts as one node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Nodes(pub(crate) BTreeMap<ClusterName, Vec<NodeGroup>>);

/// Equal nodes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NodeGroup {
    pub(crate) count: u32,
    pub(crate) each: Resources,
}

impl Nodes {
    /// Does every cluster count as one node?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many nodes a cluster has.
    #[must_use]
    pub fn count(&self, cluster: &ClusterName) -> u32 {
        self.0.get(cluster).map_or(1, |groups| groups.iter().map(|group| group.count).sum())
    }

    /// Notes the nodes of a cluster, as it reports them, if they are all that it has: a cluster shows
    /// only so many kinds of nodes.
    pub fn note(&mut self, cluster: &ClusterName, shapes: &[NodeShape], total: &Resources) {
        let mut sum = Resources::default();
        let mut groups: Vec<NodeGroup> = Vec::new();
        for shape in shapes {
            for _ in 0..shape.count.min(MAX_NODES) {
                sum.add(&shape.total);
            }
            // Nodes of one size are reported apart if different parts of them are free.
            match groups.iter_mut().find(|group| group.each == shape.total) {
                Some(group) => group.count += shape.count,
                None => groups.push(NodeGroup { count: shape.count, each: shape.total.clone() }),
            }
        }
        if sum == *total && groups.iter().map(|group| group.count).sum::<u32>() <= MAX_NODES {
            self.set(cluster, groups);
        }
    }

    /// Sets the nodes of a cluster; a single node is as good as none.
    pub(crate) fn set(&mut self, cluster: &ClusterName, groups: Vec<NodeGroup>) {
        if groups.iter().map(|group| group.count).sum::<u32>() > 1 {
            self.0.insert(cluster.clone(), groups);
        } else {
            self.0.remove(cluster);
        }
    }

    pub(crate) fn room(&self, cluster: &ClusterName, total: &Resources) -> Room {
        let one = || vec![NodeGroup { count: 1, each: total.clone() }];
        Room::new(&self.0.get(cluster).cloned().unwrap_or_else(one))
    }
}

/// How much each node of a cluster has free.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    totals: Vec<Resources>,
    free: Vec<Resources>,
    all_free: Resources,
}

/// The nodes that one run uses.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Seats {
    /// All of it on one node.
    One(usize),
    /// A part on each of several nodes.
    Several(Vec<(usize, Resources)>),
}

impl Room {
    fn new(groups: &[NodeGroup]) -> Self {
        let nodes = groups.iter().flat_map(|group| std::iter::repeat_n(&group.each, group.count as usize));
        let totals: Vec<_> = nodes.cloned().collect();
        let mut all_free = Resources::default();
        totals.iter().for_each(|node| all_free.add(node));
        Self { free: totals.clone(), totals, all_free }
    }

    /// One more node.
    pub(crate) fn add_node(&mut self, node: &Resources) {
        self.totals.push(node.clone());
        self.free.push(node.clone());
        self.all_free.add(node);
    }

    /// One node less: the last, with nothing on it.
    pub(crate) fn remove_node(&mut self) {
        self.totals.pop();
        if let Some(node) = self.free.pop() {
            self.all_free.subtract(&node);
        }
    }

    /// Is nothing on the last node?
    pub(crate) fn has_idle_node(&self) -> bool {
        self.totals.last() == self.free.last()
    }

    /// What is free on all nodes together.
    pub(crate) fn all_free(&self) -> &Resources {
        &self.all_free
    }

    pub(crate) fn nodes(&self) -> u32 {
        u32::try_from(self.totals.len()).unwrap_or(u32::MAX)
    }

    /// Where the work would go; `None` if there is no room.
    pub(crate) fn seats(&self, work: &Work) -> Option<Seats> {
        if work.demand.first_beyond_total(&self.all_free).is_some() {
            return None;
        }
        if let Some(node) = self.best_fit(&work.demand) {
            return Some(Seats::One(node));
        }
        let reserved = work.on_one_node();
        if *reserved == work.demand {
            return None;
        }
        let mut parts = Vec::new();
        let mut free = self.free.clone();
        let mut rest = work.demand.clone();
        if !reserved.is_empty() {
            let driver = self.best_fit(reserved)?;
            take(&mut free, &mut rest, driver, reserved, &mut parts);
        }
        while !rest.is_empty() {
            let (node, part) = next_part(&free, &rest)?;
            take(&mut free, &mut rest, node, &part, &mut parts);
        }
        Some(Seats::Several(parts))
    }

    /// The node that has room and the least of it.
    fn best_fit(&self, demand: &Resources) -> Option<usize> {
        fit(&self.free, demand)
    }

    pub(crate) fn take(&mut self, seats: &Seats, demand: &Resources) {
        self.all_free.subtract(demand);
        match seats {
            Seats::One(node) => self.free[*node].subtract(demand),
            Seats::Several(parts) => parts.iter().for_each(|(node, part)| self.free[*node].subtract(part)),
        }
    }

    pub(crate) fn give_back(&mut self, seats: &Seats, demand: &Resources) {
        self.all_free.add(demand);
        match seats {
            Seats::One(node) => self.free[*node].add(demand),
            Seats::Several(parts) => parts.iter().for_each(|(node, part)| self.free[*node].add(part)),
        }
    }

    /// The shapes that a poll shows; none for one node, as its sums say everything.
    pub(crate) fn shapes(&self) -> Vec<NodeShape> {
        if self.totals.len() == 1 {
            return Vec::new();
        }
        let shape = |(total, free): (&Resources, &Resources)| NodeShape {
            total: total.clone(),
            free: free.clone(),
            count: 1,
            ..NodeShape::default()
        };
        NodeShape::group(self.totals.iter().zip(&self.free).map(shape))
    }
}

/// The resource by which nodes are compared: work that needs GPUs should leave whole GPU nodes free.
pub(crate) fn scarce(demand: &Resources) -> Dimension {
    if !demand.gpu.is_zero() {
        Dimension::Gpu
    } else if !demand.cpu.is_zero() {
        Dimension::Cpu
    } else {
        demand.iter().next().map_or(Dimension::Cpu, |(dimension, _)| dimension)
    }
}

fn fit(free: &[Resources], demand: &Resources) -> Option<usize> {
    let scarce = scarce(demand);
    let fitting = free.iter().enumerate().filter(|(_, node)| demand.first_beyond_total(node).is_none());
    fitting.min_by_key(|(at, node)| (node.get(&scarce), *at)).map(|(at, _)| at)
}

/// The next node of work that is spread: the best fit for all that is left, or the node that is
/// free the most, and what of it is used.
fn next_part(free: &[Resources], rest: &Resources) -> Option<(usize, Resources)> {
    if let Some(node) = fit(free, rest) {
        return Some((node, rest.clone()));
    }
    let scarce = scarce(rest);
    let (node, most) =
        free.iter().enumerate().max_by_key(|(at, node)| (node.get(&scarce), std::cmp::Reverse(*at)))?;
    // What the node lacks of the demand is left for the next node.
    let mut lacking = rest.clone();
    lacking.subtract(most);
    let mut part = rest.clone();
    part.subtract(&lacking);
    (part.get(&scarce) > Quantity::ZERO).then_some((node, part))
}

fn take(
    free: &mut [Resources],
    rest: &mut Resources,
    node: usize,
    part: &Resources,
    parts: &mut Vec<(usize, Resources)>,
) {
    free[node].subtract(part);
    rest.subtract(part);
    parts.push((node, part.clone()));
}

#[cfg(test)]
mod tests {
    use multicluster_types::Kind;

    use super::*;

    fn gpus(gpus: f64) -> Resources {
        Resources::from_amounts([("GPU", gpus)]).unwrap()
    }

    fn spread(gpu: f64) -> Work {
        Work { demand: gpus(gpu), reserves: Some(Box::default()), ..Work::new(Kind::Job) }
    }

    fn room(nodes: u32) -> Room {
        Room::new(&[NodeGroup { count: nodes, each: gpus(8.0) }])
    }

    fn start(room: &mut Room, work: &Work) -> Option<Seats> {
        let seats = room.seats(work)?;
        room.take(&seats, &work.demand);
        Some(seats)
    }

    #[test]
    fn work_goes_to_the_fullest_node_that_has_room() {
        let mut room = room(3);
        assert_eq!(start(&mut room, &spread(6.0)), Some(Seats::One(0)));
        assert_eq!(start(&mut room, &spread(4.0)), Some(Seats::One(1)));
        assert_eq!(start(&mut room, &spread(2.0)), Some(Seats::One(0)), "2 free, not 4 or 8");
        assert_eq!(start(&mut room, &spread(2.0)), Some(Seats::One(1)));
    }

    #[test]
    fn work_that_is_larger_than_a_node_takes_whole_nodes_first() {
        let mut room = room(4);
        start(&mut room, &spread(1.0));
        let seats = start(&mut room, &spread(20.0)).unwrap();
        assert_eq!(seats, Seats::Several(vec![(1, gpus(8.0)), (2, gpus(8.0)), (0, gpus(4.0))]));
        room.give_back(&seats, &gpus(20.0));
        assert_eq!((room.all_free.clone(), room.free[3].clone()), (gpus(31.0), gpus(8.0)));
    }

    #[test]
    fn work_that_must_be_on_one_node_waits_for_one() {
        let mut room = room(2);
        start(&mut room, &spread(5.0));
        start(&mut room, &spread(5.0));
        let one_node = Work { reserves: None, ..spread(4.0) };
        assert_eq!(room.seats(&one_node), None, "3 free on each node");
        assert!(matches!(room.seats(&spread(4.0)), Some(Seats::Several(_))));
        assert_eq!(room.seats(&spread(7.0)), None, "6 free in total");
    }

    #[test]
    fn a_driver_is_on_one_node_and_its_actors_are_anywhere() {
        let mut room = room(2);
        start(&mut room, &spread(5.0));
        start(&mut room, &spread(6.0));
        let work = Work { reserves: Some(Box::new(gpus(3.0))), ..spread(5.0) };
        assert_eq!(room.seats(&work), Some(Seats::Several(vec![(0, gpus(3.0)), (1, gpus(2.0))])));
    }
}
