//! Clusters whose autoscaler adds nodes when work waits for them.

use serde::{Deserialize, Serialize};

use crate::{Dimension, Message, Quantity, Resources, Span};

/// How far a cluster can grow, as its operator describes it: Ray does not report that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elastic {
    /// What the whole cluster has at most, its head included.
    pub max: Resources,
    /// What one more node brings.
    pub node: Resources,
    /// How long work waits there for the cluster to grow.
    pub within: Span,
}

impl Elastic {
    /// How long work waits for a cluster to grow, unless it is said.
    pub const WITHIN: Span = Span::minutes(10);

    /// How many more nodes fit into `max` beside what is there.
    #[must_use]
    pub fn can_add(&self, total: &Resources) -> u32 {
        let more = |(dimension, each): (_, Quantity)| {
            self.max.get(&dimension).minus(total.get(&dimension)).parts() / each.parts()
        };
        let nodes = self.node.iter().map(more).min().unwrap_or(0);
        u32::try_from(nodes).unwrap_or(u32::MAX)
    }

    /// What the cluster has once it has grown as far as it can.
    #[must_use]
    pub fn grown(&self, total: &Resources) -> Resources {
        let mut grown = total.clone();
        grown.add(&self.node.times(self.can_add(total)));
        grown
    }

    /// How many nodes bring this much. `None`: no number of them does.
    #[must_use]
    pub fn nodes_for(&self, missing: impl IntoIterator<Item = (Dimension, Quantity)>) -> Option<u32> {
        let mut most = 0;
        for (dimension, amount) in missing.into_iter().filter(|(_, amount)| !amount.is_zero()) {
            let each = self.node.get(&dimension);
            if each.is_zero() {
                return None;
            }
            most = most.max(amount.parts().div_ceil(each.parts()));
        }
        Some(u32::try_from(most).unwrap_or(u32::MAX))
    }
}

/// What the autoscaler of a cluster reports about its nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Autoscaler {
    /// Nodes that have been requested and are not there yet.
    pub pending: u32,
    /// Nodes that could not be launched, or ended, lately.
    pub failed: u32,
    /// What it says of the latest of them.
    pub failure: Option<Message>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(cpus: f64, gpus: f64) -> Resources {
        Resources::from_amounts([("CPU", cpus), ("GPU", gpus)]).unwrap()
    }

    fn elastic() -> Elastic {
        Elastic { max: of(64.0, 8.0), node: of(16.0, 1.0), within: Elastic::WITHIN }
    }

    #[test]
    fn it_grows_by_whole_nodes_up_to_its_maximum() {
        let elastic = elastic();
        assert_eq!(elastic.can_add(&of(0.0, 0.0)), 4);
        assert_eq!(elastic.grown(&of(0.0, 0.0)), of(64.0, 4.0));
        assert_eq!(elastic.can_add(&of(4.0, 0.0)), 3, "a part of a node is none");
        assert_eq!(elastic.grown(&of(4.0, 0.0)), of(52.0, 3.0));
        assert_eq!(elastic.can_add(&of(96.0, 0.0)), 0, "larger than described");
        assert_eq!(elastic.grown(&of(96.0, 0.0)), of(96.0, 0.0));
        let nothing = Elastic { node: Resources::default(), ..elastic };
        assert_eq!(nothing.can_add(&of(0.0, 0.0)), 0);
    }

    #[test]
    fn the_scarcest_resource_says_how_many_nodes_it_takes() {
        let elastic = elastic();
        assert_eq!(elastic.nodes_for(of(0.0, 0.0).iter()), Some(0));
        assert_eq!(elastic.nodes_for(of(17.0, 0.0).iter()), Some(2));
        assert_eq!(elastic.nodes_for(of(16.0, 3.0).iter()), Some(3));
        assert_eq!(elastic.nodes_for(Resources::from_amounts([("TPU", 1.0)]).unwrap().iter()), None);
    }
}
