//! Errors on their way to the caller.

use std::{io, path::Path};

use rusqlite::ErrorCode;

use super::disk;
use crate::StoreError;

/// What went wrong, before it is known in which file.
#[derive(Debug)]
pub(super) enum Fail {
    /// SQLite says so.
    Sql(rusqlite::Error),
    /// What was read makes no sense.
    Bad(String),
    /// Cannot be used here.
    Unsupported(&'static str),
    /// No thread could be started.
    Thread(io::Error),
    /// Written by a newer program.
    TooNew { found: u32, known: u32 },
}

impl Fail {
    /// Something was read that we would never have written.
    pub(super) fn bad(what: impl std::fmt::Display, error: impl std::fmt::Display) -> Self {
        Self::Bad(format!("{what}: {error}"))
    }

    /// Now it is known.
    pub(super) fn at(self, path: &Path) -> StoreError {
        let damaged = |what| StoreError::Damaged { path: path.to_owned(), what };
        match self {
            Fail::Bad(what) => damaged(what),
            Fail::Unsupported(what) => disk::at(path)(io::Error::new(io::ErrorKind::Unsupported, what)),
            Fail::Thread(error) => disk::at(path)(error),
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
