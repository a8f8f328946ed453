//! The catalog of the packages: `packages.db`.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};

use super::{disk, fail::Fail, int, schema, uint};
use crate::{Options, Package, StoreError, packages::Grace};

/// One stored content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) sha256: String,
    pub(super) size: u64,
    used_at: u64,
}

/// The catalog. Used under a lock.
#[derive(Debug)]
pub(super) struct Catalog {
    conn: Connection,
    path: PathBuf,
    grace: Grace,
}

impl Catalog {
    pub(super) fn open(path: PathBuf, options: &Options) -> Result<Self, StoreError> {
        disk::make_file(&path)?;
        let conn = connect(&path, options).map_err(|fail| fail.at(&path))?;
        Ok(Self { conn, path, grace: Grace::of(options) })
    }

    /// The content behind a name; records the use.
    pub(super) fn find(&self, name: &str, now: u64) -> Result<Option<Entry>, StoreError> {
        let sql = "SELECT sha256, size, used_at FROM names JOIN contents USING (sha256) WHERE name = ?1";
        self.used(sql, name, now)
    }

    /// Is this content stored? Records the use.
    pub(super) fn touch(&self, sha256: &str, now: u64) -> Result<bool, StoreError> {
        let sql = "SELECT sha256, size, used_at FROM contents WHERE sha256 = ?1";
        Ok(self.used(sql, sha256, now)?.is_some())
    }

    /// Adds a content, if it is new, and points the name to it.
    pub(super) fn add(&self, package: &Package, now: u64) -> Result<(), StoreError> {
        self.run(|conn| {
            let tx = conn.unchecked_transaction()?;
            tx.prepare_cached("INSERT OR IGNORE INTO contents (sha256, size, used_at) VALUES (?1, ?2, ?3)")?
                .execute(params![package.sha256, int(package.size), int(now)])?;
            tx.prepare_cached("INSERT OR REPLACE INTO names (name, sha256) VALUES (?1, ?2)")?
                .execute(params![package.name, package.sha256])?;
            Ok(tx.commit()?)
        })
    }

    /// Forgets contents and the names that point to them.
    pub(super) fn forget(&self, contents: &[String]) -> Result<(), StoreError> {
        self.run(|conn| {
            let tx = conn.unchecked_transaction()?;
            for sha256 in contents {
                tx.prepare_cached("DELETE FROM contents WHERE sha256 = ?1")?.execute([sha256])?;
            }
            Ok(tx.commit()?)
        })
    }

    /// Bytes in total.
    pub(super) fn total(&self) -> Result<u64, StoreError> {
        self.run(|conn| {
            let sql = "SELECT coalesce(sum(size), 0) FROM contents";
            Ok(uint(conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?))
        })
    }

    /// The contents behind names with this prefix: each content once, with its size.
    pub(super) fn of(&self, prefix: &str) -> Result<HashMap<String, u64>, StoreError> {
        self.run(|conn| {
            let sql = "SELECT DISTINCT sha256, size FROM names JOIN contents USING (sha256) \
                       WHERE substr(name, 1, length(?1)) = ?1";
            let mut statement = conn.prepare_cached(sql)?;
            let rows = statement.query_map([prefix], |row| Ok((row.get(0)?, uint(row.get(1)?))))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// All contents.
    pub(super) fn all(&self) -> Result<Vec<Entry>, StoreError> {
        self.used_by(u64::MAX)
    }

    /// Contents that were not requested lately, the longest unused first.
    pub(super) fn idle(&self, now: u64) -> Result<Vec<Entry>, StoreError> {
        self.used_by(self.grace.may_go_if_used_by(now))
    }

    fn used_by(&self, moment: u64) -> Result<Vec<Entry>, StoreError> {
        self.run(|conn| {
            let sql = "SELECT sha256, size, used_at FROM contents WHERE used_at <= ?1 ORDER BY used_at";
            let mut statement = conn.prepare_cached(sql)?;
            let rows = statement.query_map([int(moment)], entry)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    fn used(&self, sql: &str, key: &str, now: u64) -> Result<Option<Entry>, StoreError> {
        self.run(|conn| {
            let found = conn.prepare_cached(sql)?.query_row([key], entry).optional()?;
            if let Some(entry) = found.as_ref().filter(|entry| self.grace.is_new_use(entry.used_at, now)) {
                conn.prepare_cached("UPDATE contents SET used_at = ?2 WHERE sha256 = ?1")?
                    .execute(params![entry.sha256, int(now)])?;
            }
            Ok(found)
        })
    }

    fn run<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Fail>) -> Result<T, StoreError> {
        work(&self.conn).map_err(|fail| fail.at(&self.path))
    }
}

pub(super) fn connect(path: &Path, options: &Options) -> Result<Connection, Fail> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut conn = Connection::open_with_flags(path, flags)?;
    schema::make_durable(&conn, options)?;
    conn.pragma_update(None, "foreign_keys", true)?;
    schema::migrate(&mut conn, schema::PACKAGES)?;
    Ok(conn)
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    Ok(Entry { sha256: row.get(0)?, size: uint(row.get(1)?), used_at: uint(row.get(2)?) })
}
