//! Packages in files. A content is a file named by its SHA-256; `packages.db` has the names that
//! point to it and when it was last used.
//!
//! A file is complete and durable before it enters the catalog, and leaves the catalog before it
//! is removed. So a crash can only leave behind files that are not in the catalog; the next open
//! removes them.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

use super::{
    catalog::{Catalog, Entry},
    disk::{self, Home, at},
    reader::SqliteReader,
};
use crate::{
    Options, Package, Packages, Room, StoreError, Upload,
    packages::{self, UnderWay},
    spool::Spool,
};

/// The packages of one directory.
#[derive(Debug, Clone)]
pub(super) struct FilePackages(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    home: Arc<Home>,
    jobs: Arc<SqliteReader>,
    options: Arc<Options>,
    /// Changes only in transactions, so it is consistent even after a panic.
    catalog: Mutex<Catalog>,
    under_way: UnderWay,
    uploads: AtomicU64,
}

impl FilePackages {
    pub(super) fn open(
        home: Arc<Home>,
        jobs: Arc<SqliteReader>,
        options: Arc<Options>,
    ) -> Result<Self, StoreError> {
        disk::make_dir(&home.packages())?;
        disk::make_dir(&home.uploads())?;
        let catalog = Catalog::open(home.catalog(), &options)?;
        clean(&home, &catalog)?;
        Ok(Self(Arc::new(Shared {
            home,
            jobs,
            options,
            catalog: Mutex::new(catalog),
            under_way: UnderWay::default(),
            uploads: AtomicU64::new(0),
        })))
    }
}

/// Removes unfinished uploads of an earlier process, and forgets contents whose file is missing.
fn clean(home: &Home, catalog: &Catalog) -> Result<(), StoreError> {
    for path in entries(&home.uploads())? {
        disk::remove(&path)?;
    }
    let mut known = HashSet::new();
    for entry in catalog.all()? {
        let path = home.packages().join(&entry.sha256);
        match fs::metadata(&path) {
            Ok(meta) if meta.is_file() && meta.len() == entry.size => {
                known.insert(path);
            }
            _ => catalog.forget(&[entry.sha256])?,
        }
    }
    for path in entries(&home.packages())?.into_iter().filter(|path| !known.contains(path)) {
        disk::remove(&path)?;
    }
    Ok(())
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    fs::read_dir(dir)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect())
        .map_err(at(dir))
}

impl Packages for FilePackages {
    fn begin(&self, room: &Room) -> Result<Box<dyn Upload>, StoreError> {
        let number = self.0.uploads.fetch_add(1, Ordering::Relaxed);
        let path = self.0.home.uploads().join(number.to_string());
        let begun = self.0.under_way.begin(room, &self.0.options);
        let spool = Spool::create(path, begun, self.0.options.max_package)?;
        Ok(Box::new(FileUpload { shared: self.0.clone(), spool, room: room.clone() }))
    }

    fn find(&self, name: &str) -> Result<Option<Package>, StoreError> {
        packages::check_name(name)?;
        let found = self.0.catalog.lock().find(name, packages::now())?;
        Ok(found.map(|entry| Package { name: name.to_owned(), sha256: entry.sha256, size: entry.size }))
    }

    fn content(&self, sha256: &str) -> Result<Option<PathBuf>, StoreError> {
        if packages::from_hex(sha256).is_none() || !self.0.catalog.lock().touch(sha256, packages::now())? {
            return Ok(None);
        }
        Ok(Some(self.0.home.packages().join(sha256)))
    }
}

impl Shared {
    /// Makes room for this many more bytes: from the owner's own packages if the owner has too much.
    fn make_room(&self, catalog: &Catalog, size: u64, room: &Room) -> Result<(), StoreError> {
        if let Some((prefix, max)) = &room.own {
            let own = catalog.of(prefix)?;
            let (used, max) = (own.values().sum::<u64>(), *max);
            let missing = (used + size).saturating_sub(max);
            self.remove_idle(catalog, missing, |entry| own.contains_key(&entry.sha256))?
                .ok_or(StoreError::ShareFull { used, max })?;
        }
        let (used, max) = (catalog.total()?, room.all.unwrap_or(self.options.max_packages));
        self.remove_idle(catalog, (used + size).saturating_sub(max), |_| true)?
            .ok_or(StoreError::Full { used, max })
    }

    /// Removes packages of these that no job needs, until this many bytes are free. `None`,
    /// without removing any, if that is not possible.
    fn remove_idle(
        &self,
        catalog: &Catalog,
        missing: u64,
        of: impl Fn(&Entry) -> bool,
    ) -> Result<Option<()>, StoreError> {
        if missing == 0 {
            return Ok(Some(()));
        }
        let needed = self.jobs.needed_packages()?;
        let is_needed =
            |entry: &Entry| packages::from_hex(&entry.sha256).is_some_and(|sha256| needed.contains(&sha256));
        let idle = catalog.idle(packages::now())?.into_iter().filter(|entry| of(entry) && !is_needed(entry));
        let Some(chosen) = packages::choose(idle.map(|entry| (entry.size, entry.sha256)), missing) else {
            return Ok(None);
        };
        catalog.forget(&chosen)?;
        chosen.iter().try_for_each(|sha256| disk::remove(&self.home.packages().join(sha256)))?;
        Ok(Some(()))
    }
}

/// One upload into a file of its own.
#[derive(Debug)]
struct FileUpload {
    shared: Arc<Shared>,
    spool: Spool,
    room: Room,
}

impl Upload for FileUpload {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.spool.write(bytes)
    }

    fn finish(self: Box<Self>, name: &str) -> Result<Package, StoreError> {
        let package = self.spool.finish(name, self.shared.options.sync)?;
        let dir = self.shared.home.packages();
        let target = dir.join(&package.sha256);
        let catalog = self.shared.catalog.lock();
        if !catalog.touch(&package.sha256, packages::now())? {
            self.shared.make_room(&catalog, package.size, &self.room)?;
            fs::rename(self.spool.path(), &target).map_err(at(&target))?;
            if self.shared.options.sync {
                disk::sync_dir(&dir)?;
            }
        }
        catalog.add(&package, packages::now())?;
        Ok(package)
    }
}
