//! The sizes of clusters, as written on a command line: `centos=64cpu,4gpu,256GiB`, or
//! `*=16cpu,64GiB` for all that are not named.

use std::{collections::BTreeMap, str::FromStr};

use multicluster_types::{
    ClusterName, ClusterSpec, IdError, Quantity, QuantityError, Resources, settings::closest,
};

use crate::{VirtualCluster, excerpt};

/// The sizes of the clusters of a pool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Capacities {
    named: BTreeMap<ClusterName, Resources>,
    others: Option<Resources>,
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
        let size = size.parse::<Capacity>()?.0;
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
        let given = |name: &ClusterName| self.named.get(name).or(self.others.as_ref()).cloned();
        let assumed = names.into_iter().filter(|name| given(name).is_none()).collect();
        let sized = |spec: ClusterSpec| {
            let total = given(&spec.name).unwrap_or_else(Self::assumed);
            VirtualCluster { spec, total }
        };
        Ok((clusters.into_iter().map(sized).collect(), assumed))
    }
}

/// One size: `64cpu,4gpu,256GiB`.
pub(crate) struct Capacity(pub(crate) Resources);

impl FromStr for Capacity {
    type Err = CapacityError;

    fn from_str(text: &str) -> Result<Self, CapacityError> {
        let mut total = Resources::default();
        for item in text.split(',').map(str::trim) {
            let (what, amount) = read_item(item)?;
            let slot = match what {
                "CPU" => &mut total.cpu,
                "GPU" => &mut total.gpu,
                _ => &mut total.memory,
            };
            if !slot.is_zero() {
                return Err(CapacityError::Twice { what: what.to_owned() });
            }
            *slot = amount;
        }
        Ok(Self(total))
    }
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
        ] {
            assert_eq!(text.parse::<Capacity>().unwrap().0.to_string(), shown);
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
        ] {
            let error = Capacities::default().add(text).unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains("hint: "), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}|[*a-z]{0,3}=[0-9.a-zA-Z, -]{0,30}") {
            let _ = Capacities::default().add(&text);
        }
    }
}
