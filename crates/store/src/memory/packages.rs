//! Packages in memory.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sha2::{Digest, Sha256};

use super::Shared;
use crate::{
    Content, Options, Package, Packages, Room, StoreError, Upload,
    packages::{self, Begun, Grace, UnderWay},
};

#[derive(Debug, Clone)]
pub(super) struct MemoryPackages {
    kept: Arc<Mutex<Kept>>,
    jobs: Shared,
    options: Arc<Options>,
    under_way: UnderWay,
}

#[derive(Debug, Default)]
struct Kept {
    names: BTreeMap<String, String>,
    contents: BTreeMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    bytes: Arc<[u8]>,
    used_at: u64,
}

impl Kept {
    /// Bytes of these.
    fn size(&self, of: impl Fn(&str) -> bool) -> u64 {
        let of = self.contents.iter().filter(|(sha256, _)| of(sha256));
        of.map(|(_, entry)| entry.bytes.len() as u64).sum()
    }
}

impl MemoryPackages {
    pub(super) fn new(jobs: Shared, options: Arc<Options>) -> Self {
        Self { kept: Arc::default(), jobs, options, under_way: UnderWay::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make_room(&self, kept: &mut Kept, size: u64, room: &Room) -> Result<(), StoreError> {
        if let Some((prefix, max)) = &room.own {
            let named = kept.names.iter().filter(|(name, _)| name.starts_with(prefix));
            let own: BTreeSet<_> = named.map(|(_, sha256)| sha256.clone()).collect();
            let (used, max) = (kept.size(|sha256| own.contains(sha256)), *max);
            self.remove_idle(kept, (used + size).saturating_sub(max), |sha256| own.contains(sha256))
                .ok_or(StoreError::ShareFull { used, max })?;
        }
        let (used, max) = (kept.size(|_| true), room.all.unwrap_or(self.options.max_packages));
        self.remove_idle(kept, (used + size).saturating_sub(max), |_| true)
            .ok_or(StoreError::Full { used, max })
    }

    fn remove_idle(&self, kept: &mut Kept, missing: u64, of: impl Fn(&str) -> bool) -> Option<()> {
        let needed = self.needed();
        let moment = Grace::of(&self.options).may_go_if_used_by(packages::now());
        let mut idle: Vec<_> = kept
            .contents
            .iter()
            .filter(|(sha256, entry)| entry.used_at <= moment && of(sha256) && !needed.contains(*sha256))
            .map(|(sha256, entry)| (entry.used_at, entry.bytes.len() as u64, sha256.clone()))
            .collect();
        idle.sort();
        let idle = idle.into_iter().map(|(_, size, sha256)| (size, sha256));
        for sha256 in packages::choose(idle, missing)? {
            kept.contents.remove(&sha256);
            kept.names.retain(|_, content| *content != sha256);
        }
        Some(())
    }

    fn needed(&self) -> HashSet<String> {
        let state = self.jobs.read();
        let payloads = state.jobs.values().filter_map(|job| job.payload.as_ref());
        payloads.flat_map(|payload| payload.packages.values().cloned()).collect()
    }
}

impl Packages for MemoryPackages {
    fn begin(&self, room: &Room) -> Result<Box<dyn Upload>, StoreError> {
        let begun = self.under_way.begin(room, &self.options);
        let (packages, room) = (self.clone(), room.clone());
        Ok(Box::new(MemoryUpload { packages, bytes: Vec::new(), begun, room, failed: false }))
    }

    fn find(&self, name: &str) -> Result<Option<Package>, StoreError> {
        packages::check_name(name)?;
        let mut kept = self.kept();
        let Some(sha256) = kept.names.get(name).cloned() else { return Ok(None) };
        Ok(kept.contents.get_mut(&sha256).map(|entry| {
            entry.used_at = packages::now();
            Package { name: name.to_owned(), sha256, size: entry.bytes.len() as u64 }
        }))
    }

    fn content(&self, sha256: &str) -> Result<Option<Content>, StoreError> {
        Ok(self.kept().contents.get_mut(sha256).map(|entry| {
            entry.used_at = packages::now();
            Content::Memory(entry.bytes.clone())
        }))
    }
}

#[derive(Debug)]
struct MemoryUpload {
    packages: MemoryPackages,
    bytes: Vec<u8>,
    begun: Begun,
    room: Room,
    failed: bool,
}

impl Upload for MemoryUpload {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let max = self.packages.options.max_package;
        if self.failed || (self.bytes.len() + bytes.len()) as u64 > max {
            self.failed = true;
            return Err(StoreError::TooLarge { max });
        }
        self.begun.grow(bytes.len() as u64)?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self: Box<Self>, name: &str) -> Result<Package, StoreError> {
        packages::check_name(name)?;
        if self.failed {
            return Err(StoreError::TooLarge { max: self.packages.options.max_package });
        }
        let sha256 = packages::to_hex(&Sha256::digest(&self.bytes));
        let package = Package { name: name.to_owned(), sha256, size: self.bytes.len() as u64 };
        let mut kept = self.packages.kept();
        if !kept.contents.contains_key(&package.sha256) {
            self.packages.make_room(&mut kept, package.size, &self.room)?;
        }
        let entry = Entry { bytes: self.bytes.into(), used_at: packages::now() };
        kept.contents.insert(package.sha256.clone(), entry);
        kept.names.insert(name.to_owned(), package.sha256.clone());
        Ok(package)
    }
}
