//! Who shares the pool, and how: `shares:`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Owner, Priority, Resources, Span};

/// How owners share the pool. An owner that is not named has a weight of 1 and no limits.
#[derive(Debug, Clone, PartialEq)]
pub struct Shares {
    half_life: Span,
    sharers: BTreeMap<Owner, ShareTerms>,
    /// The group of each member.
    group_of: BTreeMap<Owner, Owner>,
    any_preempts: bool,
}

/// What one owner, or one group of owners together, may have of the pool.
#[derive(Debug, Clone, PartialEq)]
pub struct ShareTerms {
    /// Its part of the pool, beside the weights of the others that want some.
    pub weight: ShareWeight,
    /// The owners that share it. Empty: an owner of this name alone.
    pub members: Vec<Owner>,
    /// The most that it may have at once, in all.
    pub limit: Resources,
    /// How many of its jobs, tasks and actors may be queued.
    pub max_queued: Option<u32>,
    /// The highest priority that it may ask for.
    pub max_priority: Option<Priority>,
    /// May its work stop preemptible work of others that have more than their share?
    pub preempts: bool,
}

impl Default for ShareTerms {
    fn default() -> Self {
        Self {
            weight: ShareWeight::ONE,
            members: Vec::new(),
            limit: Resources::NONE,
            max_queued: None,
            max_priority: None,
            preempts: false,
        }
    }
}

/// Why `shares:` was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SharesError {
    /// No time to forget in.
    #[error(
        "half_life must be longer than 0\n  hint: write how long it takes until use counts half, such as 7d"
    )]
    NoHalfLife,
    /// An owner can belong to one group only.
    #[error("{owner} is in two groups, {first} and {second}\n  hint: an owner belongs to one group")]
    TwoGroups {
        /// The owner.
        owner: Owner,
        /// One of the groups.
        first: Owner,
        /// The other one.
        second: Owner,
    },
}

impl Shares {
    /// The default half-life.
    pub const HALF_LIFE: Span = Span::minutes(7 * 24 * 60);
    /// The most owners and groups that can be named.
    pub const MAX: usize = 10_000;

    /// Checks and keeps.
    ///
    /// # Errors
    /// If an owner is in two groups, or nothing is ever forgotten.
    pub fn new(half_life: Span, sharers: BTreeMap<Owner, ShareTerms>) -> Result<Self, SharesError> {
        if half_life == Span::ZERO {
            return Err(SharesError::NoHalfLife);
        }
        let mut group_of = BTreeMap::<Owner, Owner>::new();
        for (name, terms) in &sharers {
            for owner in &terms.members {
                let alone = sharers.get(owner).filter(|_| owner != name).map(|_| owner.clone());
                if let Some(first) = alone.or_else(|| group_of.get(owner).cloned()) {
                    return Err(SharesError::TwoGroups { owner: owner.clone(), first, second: name.clone() });
                }
                group_of.insert(owner.clone(), name.clone());
            }
        }
        let any_preempts = sharers.values().any(|terms| terms.preempts);
        Ok(Self { half_life, sharers, group_of, any_preempts })
    }

    /// How long it takes until what was used counts half.
    #[must_use]
    pub fn half_life(&self) -> Span {
        self.half_life
    }

    /// May work of any of them stop preemptible work of others?
    #[must_use]
    pub fn any_preempts(&self) -> bool {
        self.any_preempts
    }

    /// The owners and groups that are named, with their terms.
    pub fn named(&self) -> impl Iterator<Item = (&Owner, &ShareTerms)> {
        self.sharers.iter()
    }

    /// The terms of this owner or group, if it is named.
    #[must_use]
    pub fn terms(&self, sharer: &Owner) -> Option<&ShareTerms> {
        self.sharers.get(sharer)
    }

    /// The group of an owner, or else the owner.
    #[must_use]
    pub fn sharer_of<'a>(&'a self, owner: &'a Owner) -> &'a Owner {
        self.group_of.get(owner).unwrap_or(owner)
    }
}

impl Default for Shares {
    fn default() -> Self {
        Self {
            half_life: Self::HALF_LIFE,
            sharers: BTreeMap::new(),
            group_of: BTreeMap::new(),
            any_preempts: false,
        }
    }
}

/// A weight above 0, in 1/1,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "f64", try_from = "f64")]
pub struct ShareWeight(u32);

/// Not a weight.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("weight {0} is not usable\n  hint: give a number above 0, up to 1000000; 1 is the default")]
pub struct BadShareWeight(pub f64);

impl ShareWeight {
    /// The default.
    pub const ONE: ShareWeight = ShareWeight(1_000);

    /// Checks the number.
    ///
    /// # Errors
    /// For NaN, values that are not above 0, and absurdly large ones.
    pub fn new(value: f64) -> Result<Self, BadShareWeight> {
        if !(value > 0.0 && value <= 1e6) {
            return Err(BadShareWeight(value));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "range checked")]
        let parts = (value * 1_000.0).round().max(1.0) as u32;
        Ok(Self(parts))
    }

    /// In 1/1,000.
    #[must_use]
    pub fn parts(self) -> u32 {
        self.0
    }
}

impl From<ShareWeight> for f64 {
    fn from(weight: ShareWeight) -> f64 {
        f64::from(weight.0) / 1_000.0
    }
}

impl TryFrom<f64> for ShareWeight {
    type Error = BadShareWeight;
    fn try_from(value: f64) -> Result<Self, BadShareWeight> {
        Self::new(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> Owner {
        Owner::new(name).unwrap()
    }

    fn group(members: &[&str]) -> ShareTerms {
        ShareTerms { members: members.iter().map(|name| owner(name)).collect(), ..ShareTerms::default() }
    }

    #[test]
    fn an_owner_shares_with_its_group_or_alone() {
        let named = [(owner("research"), group(&["ann", "bob"])), (owner("trading"), group(&[]))];
        let shares = Shares::new(Shares::HALF_LIFE, named.into()).unwrap();
        let of = |name| shares.sharer_of(&owner(name)).as_str().to_owned();
        assert_eq!(
            (of("ann"), of("trading"), of("eve")),
            ("research".into(), "trading".into(), "eve".into())
        );
    }

    #[test]
    fn an_owner_in_two_groups_is_an_error() {
        for named in [
            [(owner("a"), group(&["ann"])), (owner("b"), group(&["ann"]))],
            [(owner("ann"), group(&[])), (owner("b"), group(&["ann"]))],
        ] {
            let error = Shares::new(Shares::HALF_LIFE, named.into()).unwrap_err().to_string();
            assert!(error.starts_with("ann is in two groups"), "{error}");
        }
        assert_eq!(Shares::new(Span::ZERO, BTreeMap::new()), Err(SharesError::NoHalfLife));
    }

    #[test]
    fn a_weight_is_above_zero() {
        assert_eq!(ShareWeight::new(3.0).unwrap().parts(), 3_000);
        assert_eq!(ShareWeight::new(1e-9).unwrap().parts(), 1, "small is not nothing");
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(ShareWeight::new(bad).is_err(), "{bad}");
        }
    }
}
