//! The sizes of clusters, as written on a command line: `centos=64cpu,4gpu,256GiB`, or
//! `*=16cpu,64GiB` for all that are not named. `gpu=16*8gpu,64cpu` is a cluster of 16 nodes that
//! have 8 GPUs and 64 CPUs each; `16*8gpu + 4*2gpu` has nodes of two sizes.

use std::{collections::BTreeMap, str::FromStr};

use multicluster_types::{
    ClusterName, ClusterSpec, IdError, Quantity, QuantityError, Resources, settings::closest,
};

use crate::{
    VirtualCluster, excerpt,
    nodes::{MAX_NODES, NodeGroup, Nodes},
};

/// The sizes of the clusters of a pool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Capacities {
    named: BTreeMap<ClusterName, Capacity>,
    others: Option<Capacity>,
}

/// Why a capacity was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CapacityError {
    /// No name, or no size.
    #[error("{text:?} is not a capacity\n  hint: {HINT}")]
    NotACapacity {
        /// The first characters of the input.
        text: String,
    },
    /// A number without a unit, or with an unknown unit.
    #[error("{text:?} does not say of what\n  hint: {HINT}")]
    NoUnit {
        /// The first characters of the input.
        text: String,
    },
    /// An invalid amount.
    #[error("{text:?}: {source}")]
    Amount {
        /// The first characters of the input.
        text: String,
        /// The error.
        source: QuantityError,
    },
    /// No number of nodes, or too many.
    #[error(
        "{text:?} is not a number of nodes\n  hint: write NAME=16*8gpu,64cpu for 16 nodes; at most {MAX_NODES}"
    )]
    Nodes {
        /// The first characters of the input.
        text: String,
    },
    /// The same resource or the same cluster twice.
    #[error("{what} is given twice\n  hint: give it once")]
    Twice {
        /// The repeated name.
        what: String,
    },
    /// An invalid cluster name.
    #[error(transparent)]
    Name(#[from] IdError),
    /// A cluster that the pool does not have.
    #[error("capacity of {cluster}, which is not in the pool\n  hint: {}", known_clusters(.similar.as_deref(), .known))]
    UnknownCluster {
        /// The given name.
        cluster: ClusterName,
        /// The closest known name.
        similar: Option<String>,
        /// All known names.
        known: String,
    },
}

const HINT: &str = "write NAME=64cpu,4gpu,256GiB; leave out what the cluster has none of";

fn known_clusters(similar: Option<&str>, known: &str) -> String {
    similar.map_or_else(|| format!("there are {known}"), |name| format!("did you mean {name}?"))
}

impl Capacities {
    /// The default size of a cluster: 16 CPUs and 64 GiB.
    #[must_use]
    pub fn assumed() -> Resources {
        let gib = f64::from(1 << 30);
        Resources::from_amounts([("CPU", 16.0), ("memory", 64.0 * gib)]).expect("legal names and amounts")
    }

    /// Adds `NAME=64cpu,4gpu,256GiB` or `*=…`.
    ///
    /// # Errors
    /// For anything else, and for a name given before.
    pub fn add(&mut self, text: &str) -> Result<(), CapacityError> {
        let not_one = || CapacityError::NotACapacity { text: excerpt(text) };
        let (name, size) = text.split_once('=').ok_or_else(not_one)?;
        let size = size.parse::<Capacity>()?;
        let before = match name.trim() {
            "*" => self.others.replace(size),
            name => self.named.insert(ClusterName::new(name)?, size),
        };
        match before {
            Some(_) => Err(CapacityError::Twice { what: format!("the capacity of {}", name.trim()) }),
            None => Ok(()),
        }
    }

    /// Gives each cluster its size. Also returns the clusters whose size was assumed.
    ///
    /// # Errors
    /// If a size was given for an unknown cluster.
    pub fn apply(
        &self,
        clusters: Vec<ClusterSpec>,
    ) -> Result<(Vec<VirtualCluster>, Vec<ClusterName>), CapacityError> {
        let names: Vec<_> = clusters.iter().map(|spec| spec.name.clone()).collect();
        if let Some(cluster) = self.named.keys().find(|name| !names.contains(name)) {
            return Err(CapacityError::UnknownCluster {
                cluster: cluster.clone(),
                similar: closest(cluster.as_str(), names.iter().map(ClusterName::as_str)),
                known: names.iter().map(ClusterName::as_str).collect::<Vec<_>>().join(", "),
            });
        }
        let given = |name: &ClusterName| self.given(name).map(Capacity::total);
        let assumed = names.into_iter().filter(|name| given(name).is_none()).collect();
        let sized = |spec: ClusterSpec| {
            let total = given(&spec.name).unwrap_or_else(Self::assumed);
            VirtualCluster { spec, total }
        };
        Ok((clusters.into_iter().map(sized).collect(), assumed))
    }

    /// The nodes of these clusters.
    #[must_use]
    pub fn nodes(&self, clusters: &[VirtualCluster]) -> Nodes {
        let mut nodes = Nodes::default();
        for VirtualCluster { spec, .. } in clusters {
            if let Some(capacity) = self.given(&spec.name) {
                nodes.set(&spec.name, capacity.0.clone());
            }
        }
        nodes
    }

    fn given(&self, name: &ClusterName) -> Option<&Capacity> {
        self.named.get(name).or(self.others.as_ref())
    }
}

/// One size: `64cpu,4gpu,256GiB`, or `16*8gpu,64cpu`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Capacity(pub(crate) Vec<NodeGroup>);

impl Capacity {
    pub(crate) fn total(&self) -> Resources {
        let mut total = Resources::default();
        for NodeGroup { count, each } in &self.0 {
            for _ in 0..*count {
                total.add(each);
            }
        }
        total
    }
}

impl FromStr for Capacity {
    type Err = CapacityError;

    fn from_str(text: &str) -> Result<Self, CapacityError> {
        let groups = text.split('+').map(read_group).collect::<Result<Vec<_>, _>>()?;
        let nodes = groups.iter().try_fold(0u32, |sum, group| sum.checked_add(group.count));
        match nodes {
            Some(0..=MAX_NODES) => Ok(Self(groups)),
            _ => Err(CapacityError::Nodes { text: excerpt(text) }),
        }
    }
}

/// `16*8gpu,64cpu`: the number in front is for all that follows.
fn read_group(text: &str) -> Result<NodeGroup, CapacityError> {
    let (count, size) = match text.split_once('*') {
        None => (1, text),
        Some((count, size)) => match count.trim().parse() {
            Ok(count @ 1..=MAX_NODES) => (count, size),
            _ => return Err(CapacityError::Nodes { text: excerpt(text.trim()) }),
        },
    };
    Ok(NodeGroup { count, each: read_size(size)? })
}

/// `64cpu,4gpu,256GiB`.
pub(crate) fn read_size(text: &str) -> Result<Resources, CapacityError> {
    let mut size = Resources::default();
    for item in text.split(',').map(str::trim) {
        let (what, amount) = read_item(item)?;
        let slot = match what {
            "CPU" => &mut size.cpu,
            "GPU" => &mut size.gpu,
            _ => &mut size.memory,
        };
        if !slot.is_zero() {
            return Err(CapacityError::Twice { what: what.to_owned() });
        }
        *slot = amount;
    }
    Ok(size)
}

fn read_item(item: &str) -> Result<(&'static str, Quantity), CapacityError> {
    let lower = item.to_ascii_lowercase();
    let count = |number: &str| {
        let bad = || CapacityError::NotACapacity { text: excerpt(item) };
        let number = number.trim().parse().map_err(|_| bad())?;
        Quantity::from_f64(number).map_err(|source| CapacityError::Amount { text: excerpt(item), source })
    };
    if let Some(number) = lower.strip_suffix("cpus").or(lower.strip_suffix("cpu")) {
        return Ok(("CPU", count(number)?));
    }
    if let Some(number) = lower.strip_suffix("gpus").or(lower.strip_suffix("gpu")) {
        return Ok(("GPU", count(number)?));
    }
    // `centos=64cpu,256` never means 256 bytes of memory.
    if !lower.ends_with(['b', 'i', 'k', 'm', 'g', 't']) {
        return Err(CapacityError::NoUnit { text: excerpt(item) });
    }
    let memory =
        Quantity::parse(item).map_err(|source| CapacityError::Amount { text: excerpt(item), source })?;
    Ok(("memory", memory))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, shown) in [
            ("64cpu,4gpu,256GiB", "CPU 64, GPU 4, memory 256 GiB"),
            ("10 CPUs, 32 GiB", "CPU 10, memory 32 GiB"),
            ("0.5cpu", "CPU 0.5"),
            ("8GPU", "GPU 8"),
            ("16*8gpu", "GPU 128"),
            ("2 * 8gpu, 64cpu + 4gpu", "CPU 128, GPU 20"),
        ] {
            assert_eq!(text.parse::<Capacity>().unwrap().total().to_string(), shown);
        }
    }

    #[test]
    fn what_cannot_be_a_size_says_what_can() {
        for (text, problem) in [
            ("centos", "is not a capacity"),
            ("centos=", "does not say of what"),
            ("centos=64", "does not say of what"),
            ("centos=xcpu", "is not a capacity"),
            ("centos=-1cpu", "is negative"),
            ("centos=NaNcpu", "is not an amount"),
            ("centos=infcpu", "is too large"),
            ("centos=4cpu,4cpu", "CPU is given twice"),
            ("cent os=4cpu", "contains ' '"),
            ("centos=0*4cpu", "is not a number of nodes"),
            ("centos=many*4cpu", "is not a number of nodes"),
            ("centos=9999*4cpu+9999*4cpu", "is not a number of nodes"),
            ("centos=2*4cpu+", "does not say of what"),
        ] {
            let error = Capacities::default().add(text).unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains("hint: "), "{text}: {error}");
        }
    }

    #[test]
    fn nodes_are_counted_by_cluster() {
        let spec = |name: &str| {
            let name = ClusterName::new(name).unwrap();
            ClusterSpec::new(name, "127.0.0.1:10001", "http://127.0.0.1:8265")
        };
        let mut capacities = Capacities::default();
        capacities.add("a=16*8gpu+2*4gpu").unwrap();
        capacities.add("*=128gpu").unwrap();
        let (clusters, _) = capacities.apply(vec![spec("a"), spec("b")]).unwrap();
        let nodes = capacities.nodes(&clusters);
        assert_eq!(clusters.iter().map(|c| nodes.count(&c.spec.name)).collect::<Vec<_>>(), [18, 1]);
        assert_eq!(clusters[0].total.to_string(), "GPU 136");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}|[*a-z]{0,3}=[0-9.a-zA-Z, *+-]{0,30}") {
            let _ = Capacities::default().add(&text);
        }
    }
}
