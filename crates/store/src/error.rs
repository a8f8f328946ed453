//! Errors of the store.

use std::{
    io,
    path::{Path, PathBuf},
};

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
    /// Secrets are sealed with a key that was not given.
    #[error("{}", locked(path, key, *without))]
    Locked {
        path: PathBuf,
        key: String,
        /// Was no key given at all?
        without: bool,
    },
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
    /// Another replica leads, or may lead. Whatever was to be stored is not stored, or another replica
    /// decides about it: nothing of it may be released or answered.
    #[error("this replica does not lead any more (epoch {epoch}): {why}")]
    NotLeader { epoch: u64, why: String },
    /// The database cannot be used as it is.
    #[error("{what}\n  hint: {hint}")]
    Unusable { what: String, hint: String },
    /// The database cannot be reached, or does not answer. May be tried again.
    #[error("the database cannot be reached: {what}")]
    Unreachable { what: String },
    /// PostgreSQL refuses a statement.
    #[error("database: {what} (SQLSTATE {code})")]
    Postgres { what: String, code: String },
    /// An error of the database. Not a source: its message is in the text, and would be shown twice.
    #[error("database: {0}")]
    Sqlite(rusqlite::Error),
}

fn locked(path: &Path, key: &str, without: bool) -> String {
    let path = path.display();
    match without {
        true => format!(
            "the secrets in {path} are sealed with key {key}, and there is no key file\n  \
             hint: name the file that has this key, with --key-file FILE or RAY_MULTICLUSTER_KEY_FILE"
        ),
        false => format!(
            "the secrets in {path} are sealed with key {key}, which the key file does not have\n  \
             hint: add the line of this key from your copy of the file; without it they cannot be read"
        ),
    }
}
