//! Changes of who has what: another cluster, other weights.

use multicluster_types::{ClusterName, Owner, ShareTerms, ShareWeight, Shares, settings::closest};

use super::{Change, VariantError};
use crate::{Nodes, Pool};

impl Change {
    /// `one_more=mac`: another cluster with the size, tags and limits of this one.
    pub(super) fn add_cluster(&self, pool: &mut Pool, nodes: &mut Nodes) -> Result<(), VariantError> {
        let model = pool.clusters.iter().find(|cluster| cluster.spec.name.as_str() == self.value);
        let Some(model) = model else {
            let names = pool.clusters.iter().map(|cluster| cluster.spec.name.as_str());
            return Err(VariantError::UnknownCluster {
                name: self.name.clone(),
                value: self.value.clone(),
                cluster: self.value.clone(),
                similar: closest(&self.value, names),
            });
        };
        let mut added = model.clone();
        let is_taken = |name: &ClusterName| pool.clusters.iter().any(|cluster| cluster.spec.name == *name);
        let mut names = (2..).filter_map(|nth: u32| ClusterName::new(format!("{}-{nth}", self.value)).ok());
        // A name may be too long for a number at its end.
        let free = names.by_ref().take(pool.clusters.len() + 1).find(|name| !is_taken(name));
        added.spec.name = free.ok_or_else(|| self.bad("a cluster with a shorter name"))?;
        if let Some(groups) = nodes.0.get(&model.spec.name).cloned() {
            nodes.set(&added.spec.name, groups);
        }
        pool.clusters.push(added);
        Ok(())
    }

    /// `share.research=3`: the weight of an owner or a group.
    pub(super) fn weigh(&self, sharer: &str, pool: &mut Pool) -> Result<(), VariantError> {
        let sharer = Owner::new(sharer).map_err(|_| self.bad("the name of an owner or a group"))?;
        let weight = ShareWeight::new(self.number(&self.value)?).map_err(|_| self.bad("a number above 0"))?;
        let shares = &pool.settings.shares;
        let mut named: std::collections::BTreeMap<Owner, ShareTerms> =
            shares.named().map(|(name, terms)| (name.clone(), terms.clone())).collect();
        named.entry(sharer).or_default().weight = weight;
        let not_alone = |_| self.bad("a group, or an owner that is in no group");
        pool.settings.shares = Shares::new(shares.half_life(), named).map_err(not_alone)?;
        Ok(())
    }
}
