//! Errors before the file is known.

use std::{io, path::Path};

use rusqlite::ErrorCode;

use super::disk;
use crate::{
    StoreError,
    codec::{Malformed, Unwritable},
};

/// An error, before it is known in which file.
#[derive(Debug)]
pub(super) enum Fail {
    /// An error of SQLite.
    Sql(rusqlite::Error),
    /// The data is malformed.
    Bad(String),
    /// The file system does not support the write-ahead log.
    Unsupported(&'static str),
    /// No thread could be started.
    Thread(io::Error),
    /// Sealed with a key that was not given.
    Locked { key: String, without: bool },
    /// Written by a newer program.
    TooNew { found: u32, known: u32 },
}

impl Fail {
    /// The data is not of a form that we would ever have written.
    pub(super) fn bad(what: impl std::fmt::Display, error: impl std::fmt::Display) -> Self {
        Self::Bad(format!("{what}: {error}"))
    }

    /// Adds the file.
    pub(super) fn at(self, path: &Path) -> StoreError {
        let damaged = |what| StoreError::Damaged { path: path.to_owned(), what };
        match self {
            Fail::Bad(what) => damaged(what),
            Fail::Unsupported(what) => disk::at(path)(io::Error::new(io::ErrorKind::Unsupported, what)),
            Fail::Thread(error) => disk::at(path)(error),
            Fail::Locked { key, without } => StoreError::Locked { path: path.to_owned(), key, without },
            Fail::TooNew { found, known } => StoreError::TooNew { found, known },
            Fail::Sql(error) => match error.sqlite_error_code() {
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => damaged(error.to_string()),
                _ if matches!(
                    error,
                    rusqlite::Error::InvalidColumnType(..) | rusqlite::Error::FromSqlConversionFailure(..)
                ) =>
                {
                    damaged(error.to_string())
                }
                _ => StoreError::Sqlite(error),
            },
        }
    }
}

impl From<rusqlite::Error> for Fail {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<rusqlite::types::FromSqlError> for Fail {
    fn from(error: rusqlite::types::FromSqlError) -> Self {
        Self::Bad(error.to_string())
    }
}

impl From<Malformed> for Fail {
    fn from(Malformed(what): Malformed) -> Self {
        Self::Bad(what)
    }
}

impl From<Unwritable> for rusqlite::Error {
    fn from(Unwritable(error): Unwritable) -> Self {
        Self::ToSqlConversionFailure(error)
    }
}
