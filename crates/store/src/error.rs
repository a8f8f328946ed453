//! Errors of the store.

use std::{io, path::PathBuf};

/// An error of the store.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names of the fields say it")]
pub enum StoreError {
    /// Another control plane uses this directory.
    #[error("{path} is in use by another control plane\n  hint: stop it, or choose another --state-dir")]
    InUse { path: PathBuf },
    /// The state is from a newer version.
    #[error("the state is of version {found}, this program knows {known}\n  hint: run the newer program")]
    TooNew { found: u32, known: u32 },
    /// The state is malformed.
    #[error("the state in {path} is damaged: {what}")]
    Damaged { path: PathBuf, what: String },
    /// A package is larger than allowed.
    #[error("a package may have {max} bytes\n  hint: exclude what the job does not need")]
    TooLarge {
        /// The largest allowed size.
        max: u64,
    },
    /// A name that no package may have.
    #[error(
        "{name:?} cannot be the name of a package\n  hint: use 1 to {max} letters, digits, '_', '.' and '-', not starting with a dot"
    )]
    BadName {
        /// The first characters of the input.
        name: String,
        /// The longest allowed name.
        max: usize,
    },
    /// No room for packages.
    #[error(
        "no room for another package: {used} of {max} bytes are needed by jobs\n  hint: delete ended jobs"
    )]
    Full { used: u64, max: u64 },
    /// No room for packages of this owner.
    #[error(
        "no room for another package of yours: {used} of the {max} bytes that one owner may have are needed by jobs\n  \
         hint: delete ended jobs"
    )]
    ShareFull { used: u64, max: u64 },
    /// Uploads under way leave no room for more of this one.
    #[error(
        "uploads under way have {used} bytes, of {max} that there is room for\n  hint: try again in a moment"
    )]
    Crowded {
        /// Including the bytes that just arrived.
        used: u64,
        /// The limit: of one owner, or of all.
        max: u64,
    },
    /// A file could not be read or written.
    #[error("{path}: {error}")]
    Io {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    /// An error of the database. Not a source: its message is in the text, and would be shown twice.
    #[error("database: {0}")]
    Sqlite(rusqlite::Error),
}
