//! Versions of the files and the way from one to the next.

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::fail::Fail;

/// The steps to the present form of `state.db`. Step *n* makes version *n*; a step that was
/// released is never changed.
pub(super) const STATE: &[&str] = &[include_str!("../../migrations/state/0001_initial.sql")];

/// The steps to the present form of `packages.db`.
pub(super) const PACKAGES: &[&str] = &[include_str!("../../migrations/packages/0001_initial.sql")];

/// Brings a file to the present version, whole steps at a time: a crash in between leaves
/// a version that is known.
pub(super) fn migrate(conn: &mut Connection, steps: &[&str]) -> Result<(), Fail> {
    loop {
        let tx = Transaction::new(conn, TransactionBehavior::Immediate)?;
        let found: u32 = tx.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let known = u32::try_from(steps.len()).unwrap_or(u32::MAX);
        if found > known {
            return Err(Fail::TooNew { found, known });
        }
        let Some(step) = steps.get(found as usize) else { return Ok(()) };
        tx.execute_batch(step).map_err(|error| match error.sqlite_error_code() {
            // Tables of that name are there, but no version: not ours.
            Some(rusqlite::ErrorCode::Unknown) => Fail::bad("cannot be brought to this version", error),
            _ => Fail::Sql(error),
        })?;
        tx.pragma_update(None, "user_version", found + 1)?;
        tx.commit()?;
    }
}
