//! Versions of the files and the migrations between them.

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::fail::Fail;
use crate::Options;

/// The migrations to the present form of `state.db`. Step *n* makes version *n*; a released step
/// never changes.
pub(super) const STATE: &[&str] = &[
    include_str!("../../migrations/state/0001_initial.sql"),
    include_str!("../../migrations/state/0002_seen_and_policies.sql"),
    include_str!("../../migrations/state/0003_orphan_life.sql"),
    include_str!("../../migrations/state/0004_log_pieces.sql"),
    include_str!("../../migrations/state/0005_usage.sql"),
    include_str!("../../migrations/state/0006_runs.sql"),
    include_str!("../../migrations/state/0007_sealed_by.sql"),
    include_str!("../../migrations/state/0008_samples.sql"),
];

/// The migrations to the present form of `packages.db`.
pub(super) const PACKAGES: &[&str] = &[include_str!("../../migrations/packages/0001_initial.sql")];

/// Lets readers and the writer work at the same time, and makes a commit durable before it
/// returns: no effect of it happens earlier.
pub(super) fn make_durable(conn: &Connection, options: &Options) -> Result<(), Fail> {
    let mode: String = conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        return Err(Fail::Unsupported(
            "SQLite's write-ahead log does not work on this file system\n  hint: choose a --state-dir on a local disk",
        ));
    }
    conn.pragma_update(None, "synchronous", if options.sync { "FULL" } else { "OFF" })?;
    // On macOS, a plain fsync leaves data in the cache of the drive.
    conn.pragma_update(None, "fullfsync", true)?;
    conn.pragma_update(None, "checkpoint_fullfsync", true)?;
    Ok(())
}

/// Brings a file to the present version, one whole step at a time: a crash in between leaves a
/// known version.
pub(super) fn migrate(conn: &mut Connection, steps: &[&str]) -> Result<(), Fail> {
    loop {
        let tx = Transaction::new(conn, TransactionBehavior::Immediate)?;
        let found: u32 = tx.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let known = u32::try_from(steps.len()).unwrap_or(u32::MAX);
        if found > known {
            return Err(Fail::TooNew { found, known });
        }
        let Some(step) = steps.get(found as usize) else { return Ok(()) };
        if found == 0 && tx.prepare("SELECT 1 FROM sqlite_schema")?.exists([])? {
            return Err(Fail::Bad("this is the database of another program".into()));
        }
        tx.execute_batch(step)?;
        tx.pragma_update(None, "user_version", found + 1)?;
        tx.commit()?;
    }
}
