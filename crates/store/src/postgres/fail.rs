//! Errors of PostgreSQL in our words.

use std::{error::Error, path::PathBuf};

use tokio_postgres::error::{Severity, SqlState};

use crate::{
    StoreError,
    codec::{Malformed, Unwritable},
};

/// The fence: another replica leads.
pub(super) const FENCED: &str = "RM001";

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(db) if !is_lost(&error) => {
                Self::Postgres { what: db.message().to_owned(), code: db.code().code().to_owned() }
            }
            _ => Self::Unreachable { what: text(&error) },
        }
    }
}

impl From<Malformed> for StoreError {
    fn from(Malformed(what): Malformed) -> Self {
        Self::Damaged { path: PathBuf::from("PostgreSQL, schema multicluster"), what }
    }
}

impl From<Unwritable> for StoreError {
    fn from(Unwritable(error): Unwritable) -> Self {
        Self::Damaged { path: PathBuf::from("PostgreSQL, schema multicluster"), what: error.to_string() }
    }
}

/// Is the connection gone, so that nobody knows what became of the statements on their way?
pub(super) fn is_lost(error: &tokio_postgres::Error) -> bool {
    let Some(db) = error.as_db_error() else { return true };
    // Class 57P: shutdowns and crashes. Class 08: connections, from poolers.
    matches!(db.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
        || db.code().code().starts_with("57P")
        || db.code().code().starts_with("08")
        // The primary has become a standby: its successor is to be found.
        || *db.code() == SqlState::READ_ONLY_SQL_TRANSACTION
}

/// Is that worth the same again at once? Nothing was stored.
pub(super) fn is_passing(error: &tokio_postgres::Error) -> bool {
    let passing = [
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::TOO_MANY_CONNECTIONS,
    ];
    error.code().is_some_and(|code| passing.contains(code))
}

pub(super) fn is_fenced(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| code.code() == FENCED)
}

/// The error with its causes: its own text is only "error connecting to server".
pub(super) fn text(error: &tokio_postgres::Error) -> String {
    if let Some(db) = error.as_db_error() {
        return db.message().to_owned();
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
