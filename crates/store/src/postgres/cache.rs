//! Local copies of packages, on one replica. Bounded; everything in it can be fetched again.

use std::{
    collections::HashMap,
    env,
    fs::{self, File, OpenOptions},
    hash::{BuildHasher, Hasher, RandomState},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant, SystemTime},
};

use multicluster_types::hex;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::{
    Options, StoreError,
    sqlite::disk::{self, at},
};

/// A copy that was asked for this recently is still being read.
const IN_USE: Duration = Duration::from_secs(60);
/// What an earlier process left behind is removed then: another replica may use the same directory.
const LEFT_BEHIND: Duration = Duration::from_secs(24 * 3600);

/// A directory with copies, named by their SHA-256.
#[derive(Debug)]
pub(super) struct Cache {
    dir: PathBuf,
    is_temporary: bool,
    max: u64,
    /// Those that were verified by this process.
    known: Mutex<HashMap<String, Copy>>,
    next: AtomicU64,
}

#[derive(Debug, Clone, Copy)]
struct Copy {
    size: u64,
    used: Instant,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Cache {
    pub(super) fn open(options: &Options) -> Result<Self, StoreError> {
        let temporary = || {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            env::temp_dir().join(format!("multicluster-packages-{}-{number}", process::id()))
        };
        let dir = options.cache.clone().unwrap_or_else(temporary);
        disk::make_dir(&dir.join("uploads"))?;
        let cache = Self {
            dir,
            is_temporary: options.cache.is_none(),
            max: options.max_cache,
            known: Mutex::default(),
            next: AtomicU64::new(0),
        };
        cache.remove_old(&cache.dir.join("uploads"), LEFT_BEHIND)?;
        Ok(cache)
    }

    /// A new file for an upload.
    pub(super) fn upload(&self, number: u64) -> PathBuf {
        // In a container, every process has the same number.
        let random = RandomState::new().build_hasher().finish();
        self.dir.join("uploads").join(format!("{random:016x}-{number}"))
    }

    /// The copy of this content. Fetched if it is not there; `None` if it cannot be fetched any more.
    pub(super) fn get(
        &self,
        sha256: &str,
        size: u64,
        fetch: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<(), StoreError>) -> Result<bool, StoreError>,
    ) -> Result<Option<PathBuf>, StoreError> {
        let path = self.dir.join(sha256);
        if self.is_there(sha256, size, &path)? {
            return Ok(Some(path));
        }
        let part = self.upload(self.next.fetch_add(1, Ordering::Relaxed));
        let done = Self::write(&part, sha256, fetch).and_then(|there| {
            if there {
                self.make_room(size)?;
                fs::rename(&part, &path).map_err(at(&path))?;
                self.known.lock().insert(sha256.to_owned(), Copy { size, used: Instant::now() });
            }
            Ok(there)
        });
        let _ = fs::remove_file(&part);
        Ok(done?.then_some(path))
    }

    /// Takes a file over whose content has this sum. Not necessary: it can be fetched.
    pub(super) fn adopt(&self, sha256: &str, file: &Path, size: u64) {
        if self.make_room(size).is_ok() && fs::rename(file, self.dir.join(sha256)).is_ok() {
            self.known.lock().insert(sha256.to_owned(), Copy { size, used: Instant::now() });
        }
    }

    /// Is there a copy that is whole? One of an earlier process is read once.
    fn is_there(&self, sha256: &str, size: u64, path: &Path) -> Result<bool, StoreError> {
        let is_whole = fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() == size);
        let known = self.known.lock().contains_key(sha256);
        if !is_whole || (!known && sum(path)? != sha256) {
            self.known.lock().remove(sha256);
            return Ok(false);
        }
        self.known.lock().insert(sha256.to_owned(), Copy { size, used: Instant::now() });
        Ok(true)
    }

    fn write(
        part: &Path,
        sha256: &str,
        fetch: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<(), StoreError>) -> Result<bool, StoreError>,
    ) -> Result<bool, StoreError> {
        let mut file =
            disk::private(OpenOptions::new().create_new(true).write(true)).open(part).map_err(at(part))?;
        let mut hash = Sha256::new();
        let there = fetch(&mut |bytes| {
            hash.update(bytes);
            file.write_all(bytes).map_err(at(part))
        })?;
        if there && hex(&hash.finalize()) != sha256 {
            let what = format!("the package {sha256} has another content");
            return Err(StoreError::Damaged { path: part.to_owned(), what });
        }
        Ok(there)
    }

    /// Removes the longest unused copies until there is room for this many more bytes.
    fn make_room(&self, more: u64) -> Result<(), StoreError> {
        // Those of earlier processes, which nobody has asked for yet, first.
        let mut known = self.known.lock();
        let mut unknown = 0;
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(at(&self.dir))? {
            let entry = entry.map_err(at(&self.dir))?;
            let (Ok(meta), Ok(name)) = (entry.metadata(), entry.file_name().into_string()) else { continue };
            if meta.is_file() && !known.contains_key(&name) {
                unknown += meta.len();
                files.push((None, name, meta.len()));
            }
        }
        let mut used = unknown + known.values().map(|copy| copy.size).sum::<u64>();
        files.extend(known.iter().map(|(name, copy)| (Some(copy.used), name.clone(), copy.size)));
        files.sort();
        for (last, name, size) in files {
            if used + more <= self.max || last.is_some_and(|last| last.elapsed() < IN_USE) {
                break;
            }
            disk::remove(&self.dir.join(&name))?;
            known.remove(&name);
            used -= size;
        }
        Ok(())
    }

    fn remove_old(&self, dir: &Path, age: Duration) -> Result<(), StoreError> {
        for entry in fs::read_dir(dir).map_err(at(dir))? {
            let entry = entry.map_err(at(dir))?;
            let modified =
                entry.metadata().and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
            if self.is_temporary || modified.elapsed().is_ok_and(|since| since > age) {
                disk::remove(&entry.path())?;
            }
        }
        Ok(())
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        if self.is_temporary {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

fn sum(path: &Path) -> Result<String, StoreError> {
    let mut file = File::open(path).map_err(at(path))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hex(&hash.finalize())),
            Ok(size) => hash.update(&buffer[..size]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(at(path)(error)),
        }
    }
}
