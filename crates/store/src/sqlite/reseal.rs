//! Which keys the state needs, and sealing again what was stored plain or with an older key.
//!
//! Done at the open, before anything is read: in small transactions, which can be interrupted and
//! continued, and then the file is written once more without its free pages, which may contain old
//! values. Only then the old keys are struck off the list in `sealed_by`.

use std::{fs::File, sync::Arc};

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior, params};

use super::{
    disk::{self, Home},
    fail::Fail,
};
use crate::{
    Options, Sealing, StoreError,
    seal::{self, Keys, Place, Seals},
};

/// One transaction ends after this many values,
const STEP: usize = 500;
/// or after this many bytes.
const STEP_BYTES: usize = 4 << 20;

/// Opens the state with a function that migrates it, and seals what is to be sealed.
pub(super) fn open(
    home: &Home,
    options: &Options,
    connect: impl Fn() -> Result<Connection, Fail>,
) -> Result<(Connection, Seals, Sealing), Fail> {
    let mut conn = connect()?;
    let plane: String = conn.query_row("SELECT id FROM plane", [], |row| row.get(0))?;
    let seals = Seals::new(options.keys.clone(), plane);
    let Some(keys) = &options.keys else { return Ok((conn, seals, Sealing::default())) };
    let first = keys.first();
    // Before the first value that is sealed with it.
    conn.execute("INSERT OR IGNORE INTO sealed_by VALUES (?1)", [first.as_str()])?;
    let mut sealing = Sealing { key: Some(first.clone()), ..Sealing::default() };
    if needed(&conn)?.len() > 1 {
        sealing.resealed = Some(seal_again(&mut conn, &seals)?);
        let compacted = compact(conn, home, first.as_str());
        // The values are sealed, whatever became of the copy: the next start tries again.
        sealing.leftovers = compacted.err().map(|error| error.to_string());
        conn = connect()?;
    }
    let needed = needed(&conn)?;
    sealing.unneeded =
        keys.ids().filter(|id| !needed.iter().any(|key| key == id.as_str())).cloned().collect();
    Ok((conn, seals, sealing))
}

/// Refuses a state whose values these keys do not open. Changes nothing.
pub(super) fn check(conn: &Connection, keys: Option<&Arc<Keys>>) -> Result<(), Fail> {
    if !conn.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'sealed_by'")?.exists([])? {
        return Ok(());
    }
    match seal::missing(needed(conn)?, keys) {
        Some(key) => Err(Fail::Locked { key, without: keys.is_none() }),
        None => Ok(()),
    }
}

fn needed(conn: &Connection) -> rusqlite::Result<Vec<String>> {
    conn.prepare("SELECT key FROM sealed_by")?.query_map([], |row| row.get(0))?.collect()
}

/// Seals all values that are not sealed with the first key. Returns how many there were.
fn seal_again(conn: &mut Connection, seals: &Seals) -> Result<u64, Fail> {
    let mut sealed = 0;
    let mut after = -1;
    while let Some((last, count)) = payloads(conn, seals, after)? {
        after = last;
        sealed += count;
    }
    Ok(sealed + clusters(conn, seals)?)
}

/// One step: the payloads of jobs after this one. Returns the last one of the step, and how many were
/// sealed.
fn payloads(conn: &mut Connection, seals: &Seals, after: i64) -> Result<Option<(i64, u64)>, Fail> {
    let tx = Transaction::new(conn, TransactionBehavior::Immediate)?;
    let (mut last, mut count, mut bytes, mut changed) = (None, 0, 0, Vec::new());
    {
        let sql = "SELECT payloads.job, id, body FROM payloads JOIN jobs USING (job)
                   WHERE payloads.job > ?1 ORDER BY payloads.job";
        let mut statement = tx.prepare_cached(sql)?;
        let mut rows = statement.query([after])?;
        while count < STEP
            && bytes < STEP_BYTES
            && let Some(row) = rows.next()?
        {
            let job: i64 = row.get(0)?;
            let (id, stored) = (row.get_ref(1)?.as_str()?, row.get_ref(2)?.as_str()?);
            (last, count, bytes) = (Some(job), count + 1, bytes + stored.len());
            if !seals.is_current(stored) {
                let what = || format!("the payload of job {id}");
                changed.push((job, again(seals, Place::Payload(id), stored, what)?));
            }
        }
    }
    for (job, stored) in &changed {
        tx.prepare_cached("UPDATE payloads SET body = ?2 WHERE job = ?1")?.execute(params![job, stored])?;
    }
    tx.commit()?;
    Ok(last.map(|last| (last, changed.len() as u64)))
}

fn clusters(conn: &mut Connection, seals: &Seals) -> Result<u64, Fail> {
    let tx = Transaction::new(conn, TransactionBehavior::Immediate)?;
    let all: Vec<(String, String)> = tx
        .prepare("SELECT name, record FROM clusters")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut count = 0;
    for (name, stored) in all.iter().filter(|(_, stored)| !seals.is_current(stored)) {
        let stored = again(seals, Place::Cluster(name), stored, || format!("cluster {name}"))?;
        tx.execute("UPDATE clusters SET record = ?2 WHERE name = ?1", params![name, stored])?;
        count += 1;
    }
    tx.commit()?;
    Ok(count)
}

fn again(seals: &Seals, place: Place<'_>, stored: &str, what: impl Fn() -> String) -> Result<String, Fail> {
    let sealed = seals.open(place, stored).and_then(|text| Ok(seals.seal(place, &text)?.into_owned()));
    sealed.map_err(|error| Fail::bad(what(), error))
}

/// Puts a copy without free pages in the place of the file, and strikes the old keys off its list.
/// A crash leaves the one file or the other.
fn compact(conn: Connection, home: &Home, key: &str) -> Result<(), StoreError> {
    let (path, copy) = (home.state(), home.state().with_extension("db.new"));
    // Everything into the file, and no log beside it: it would be taken for the log of the copy.
    let alone = || -> Result<(), Fail> {
        let mode: String = conn.pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get(0))?;
        if mode == "delete" { Ok(()) } else { Err(Fail::Unsupported("its write-ahead log is in use")) }
    };
    alone().map_err(|fail| fail.at(&path))?;
    disk::remove(&copy)?;
    disk::make_file(&copy)?;
    let write = || -> Result<(), Fail> {
        conn.execute("VACUUM INTO ?1", [copy.to_string_lossy()])?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let copied = Connection::open_with_flags(&copy, flags)?;
        copied.execute("DELETE FROM sealed_by WHERE key <> ?1", [key])?;
        copied.close().map_err(|(_, error)| error.into())
    };
    let written = write().map_err(|fail| fail.at(&copy)).and_then(|()| {
        File::open(&copy).and_then(|file| file.sync_all()).map_err(disk::at(&copy))?;
        drop(conn);
        std::fs::rename(&copy, &path).map_err(disk::at(&path))?;
        disk::sync_dir(path.parent().unwrap_or(&path))
    });
    if written.is_err() {
        disk::remove(&copy)?;
    }
    written
}
