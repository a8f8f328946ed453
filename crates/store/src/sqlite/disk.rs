//! The state directory: made for its owner only, used by one process at a time.

use std::{
    env,
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

use crate::StoreError;

/// A state directory that is locked until this is dropped, or until the process dies in any way:
/// the kernel then releases the lock.
#[derive(Debug)]
pub(super) struct Home {
    dir: PathBuf,
    temporary: bool,
    _lock: File,
}

impl Home {
    /// Creates the directory if necessary, and locks it.
    pub(super) fn take(dir: &Path) -> Result<Self, StoreError> {
        Self::open(dir, false)
    }

    /// A new directory, removed when this is dropped.
    pub(super) fn temporary() -> Result<Self, StoreError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("multicluster-state-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Self::open(&env::temp_dir().join(name), true)
    }

    fn open(dir: &Path, temporary: bool) -> Result<Self, StoreError> {
        make_dir(dir)?;
        let path = dir.join("lock");
        let lock = private(OpenOptions::new().create(true).truncate(false).write(true))
            .open(&path)
            .map_err(at(&path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { dir: dir.to_owned(), temporary, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(StoreError::InUse { path: dir.to_owned() }),
            Err(TryLockError::Error(error)) => Err(StoreError::Io { path, error }),
        }
    }

    /// Jobs and history.
    pub(super) fn state(&self) -> PathBuf {
        self.dir.join("state.db")
    }

    /// Names of packages.
    pub(super) fn catalog(&self) -> PathBuf {
        self.dir.join("packages.db")
    }

    /// Contents of packages.
    pub(super) fn packages(&self) -> PathBuf {
        self.dir.join("packages")
    }

    /// The tokens of who has access, if there are any.
    pub(super) fn tokens(&self) -> PathBuf {
        self.dir.join("tokens.json")
    }

    /// Uploads under way.
    pub(super) fn uploads(&self) -> PathBuf {
        self.dir.join("uploads")
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if self.temporary {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// Creates a directory that only its owner can read; an existing one stays as it is.
pub(crate) fn make_dir(path: &Path) -> Result<(), StoreError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(at(path))
}

/// Creates a file that only its owner can read, if there is none. SQLite gives the files beside a
/// database the mode of the database.
pub(super) fn make_file(path: &Path) -> Result<(), StoreError> {
    private(OpenOptions::new().create(true).truncate(false).write(true)).open(path).map_err(at(path))?;
    Ok(())
}

/// Readable for the owner only.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Makes creations, renames and removals in a directory survive a power cut.
pub(crate) fn sync_dir(path: &Path) -> Result<(), StoreError> {
    // Windows has no such call, and needs none.
    #[cfg(unix)]
    File::open(path).and_then(|dir| dir.sync_all()).map_err(at(path))?;
    Ok(())
}

/// Removes a file that may not exist any more.
pub(crate) fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(path)(error)),
        _ => Ok(()),
    }
}

/// Adds the file name to an error.
pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    move |error| StoreError::Io { path: path.to_owned(), error }
}
