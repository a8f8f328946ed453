//! One directory on a local disk:
//!
//! ```text
//! lock           held while a control plane uses the directory
//! state.db       jobs and history, with state.db-wal and state.db-shm beside it
//! packages.db    names of packages and when they were last used
//! packages/…     their contents, by SHA-256
//! uploads/…      what is on its way; removed at open
//! ```
//!
//! SQLite in WAL mode: one connection writes, a few others read the committed state without
//! waiting for it.

mod catalog;
mod checkpoint;
pub(crate) mod copy;
pub(crate) mod disk;
mod fail;
mod files;
mod index;
mod list;
mod load;
mod logs;
mod pool;
mod reader;
mod reseal;
mod runs;
mod schema;
mod statements;
#[cfg(test)]
mod tests;
mod writer;

use std::{path::Path, sync::Arc};

use crate::{Opened, Options, StoreError};

/// Opens the state in this directory. A new directory is readable for its owner only, because
/// payloads hold secrets. With keys in the options, values that are plain or sealed with an older key
/// are sealed first.
///
/// # Errors
/// [`StoreError::InUse`] if another control plane has it, [`StoreError::TooNew`] and
/// [`StoreError::Damaged`] if it cannot be read, [`StoreError::Locked`] without the keys that it is
/// sealed with, [`StoreError::Io`].
pub fn open(dir: &Path, options: Options) -> Result<Opened, StoreError> {
    open_home(disk::Home::take(dir)?, options)
}

/// An empty state for a test, in a directory that is removed when the last part of the returned
/// value is dropped.
///
/// # Errors
/// [`StoreError::Io`].
pub fn open_temporary() -> Result<Opened, StoreError> {
    open_home(disk::Home::temporary()?, Options { sync: false, ..Options::default() })
}

fn open_home(home: disk::Home, options: Options) -> Result<Opened, StoreError> {
    let home = Arc::new(home);
    let index = Arc::new(index::Index::default());
    let options = Arc::new(options);
    let (store, sealing) = writer::Writer::open(home.clone(), index.clone(), options.clone())?;
    let seals = store.seals();
    let reader = || {
        let (home, index, options, seals) = (home.clone(), index.clone(), options.clone(), seals.clone());
        Arc::new(reader::SqliteReader::open(home, index, options, seals))
    };
    let (reader, own_reader) = (reader(), reader());
    let packages = files::FilePackages::open(home, own_reader.clone(), options)?;
    Ok(Opened { store: Box::new(store), reader, own_reader, packages: Arc::new(packages), sealing })
}

/// A number for SQLite. No number of ours comes near 2⁶³; from a caller, such a number means
/// "beyond the end".
fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number from SQLite: we store no negative numbers.
fn uint(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
