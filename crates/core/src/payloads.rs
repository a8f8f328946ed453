//! How many bytes of payload are stored for work that has not ended. Bounded, so that neither one
//! owner nor all together fill the disk with queued jobs.

use std::collections::BTreeMap;

use multicluster_types::{Owner, settings::Bytes};

/// The bytes, in total and by owner.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Payloads {
    total: u64,
    owners: BTreeMap<Owner, u64>,
}

/// There is no room for another payload.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoRoom {
    pub(crate) held: u64,
    pub(crate) most: u64,
    /// The owner's own part is used up, not all of it.
    pub(crate) of_owner: bool,
}

impl Payloads {
    pub(crate) fn add(&mut self, owner: Option<&Owner>, bytes: u32) {
        if bytes == 0 {
            return;
        }
        self.total += u64::from(bytes);
        if let Some(owner) = owner {
            *self.owners.entry(owner.clone()).or_default() += u64::from(bytes);
        }
    }

    /// Undoes [`Payloads::add`].
    pub(crate) fn remove(&mut self, owner: Option<&Owner>, bytes: u32) {
        if bytes == 0 {
            return;
        }
        self.total -= u64::from(bytes);
        if let Some(owner) = owner
            && let Some(held) = self.owners.get_mut(owner)
        {
            *held -= u64::from(bytes);
            if *held == 0 {
                self.owners.remove(owner);
            }
        }
    }

    /// Is there room for this payload? One owner may use half of `most`.
    pub(crate) fn check(&self, owner: Option<&Owner>, bytes: u32, most: Bytes) -> Result<(), NoRoom> {
        let no_room = |held: u64, most: u64, of_owner| {
            (bytes > 0 && held + u64::from(bytes) > most).then_some(NoRoom { held, most, of_owner })
        };
        let own = owner.map_or(0, |owner| self.owners.get(owner).copied().unwrap_or_default());
        let of_owner = owner.and_then(|_| no_room(own, most.0 / 2, true));
        of_owner.or_else(|| no_room(self.total, most.0, false)).map_or(Ok(()), Err)
    }
}
