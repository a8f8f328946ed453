//! An upload on its way, in a file of its own.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use multicluster_types::hex;
use sha2::{Digest, Sha256};

use crate::{
    Package, StoreError,
    packages::{self, Begun},
    sqlite::disk::{self, at},
};

/// The file of one upload. Removed when this is dropped, unless it was moved away.
#[derive(Debug)]
pub(crate) struct Spool {
    file: File,
    path: PathBuf,
    hash: Sha256,
    begun: Begun,
    max: u64,
    failed: Option<Failed>,
}

/// Why an upload cannot be finished any more.
#[derive(Debug, Clone, Copy)]
enum Failed {
    TooLarge,
    Lost,
}

impl Spool {
    /// A new file of at most `max` bytes.
    pub(crate) fn create(path: PathBuf, begun: Begun, max: u64) -> Result<Self, StoreError> {
        let file =
            disk::private(OpenOptions::new().create_new(true).write(true)).open(&path).map_err(at(&path))?;
        Ok(Self { file, path, hash: Sha256::new(), begun, max, failed: None })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let more = bytes.len() as u64;
        if self.begun.size + more > self.max {
            self.failed = Some(Failed::TooLarge);
        }
        self.check()?;
        // Until the bytes are in the file.
        self.failed = Some(Failed::Lost);
        self.begun.grow(more)?;
        self.hash.update(bytes);
        self.file.write_all(bytes).map_err(at(&self.path))?;
        self.failed = None;
        Ok(())
    }

    /// What the file has, under this name. Synced if wanted.
    pub(crate) fn finish(&self, name: &str, sync: bool) -> Result<Package, StoreError> {
        packages::check_name(name)?;
        self.check()?;
        if sync {
            self.file.sync_all().map_err(at(&self.path))?;
        }
        let sha256 = hex(&self.hash.clone().finalize());
        Ok(Package { name: name.to_owned(), sha256, size: self.begun.size })
    }

    fn check(&self) -> Result<(), StoreError> {
        match self.failed {
            None => Ok(()),
            Some(Failed::TooLarge) => Err(StoreError::TooLarge { max: self.max }),
            Some(Failed::Lost) => Err(at(&self.path)(io::Error::other("a part of it could not be written"))),
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // The file is gone already if the upload was finished. If it cannot be removed now, the
        // next open removes it.
        let _ = fs::remove_file(&self.path);
    }
}
