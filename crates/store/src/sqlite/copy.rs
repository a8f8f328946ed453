//! A state directory as the source or the target of a copy.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use rusqlite::{
    Connection, OpenFlags, params_from_iter,
    types::{ToSqlOutput, ValueRef},
};

use super::{
    catalog,
    disk::{self, Home, at},
    fail::Fail,
    reseal, schema, writer,
};
use crate::{
    Keys, Options, Packed, StoreError,
    copy::{
        CopyError, Each, Row, Side, Value,
        tables::{self, CONTENTS, Kind, PIECE, Table},
    },
    packages,
};

/// A directory, locked.
struct Dir {
    state: Connection,
    catalog: Connection,
    /// Where the files of the databases are.
    home: Home,
    target: Option<Target>,
}

/// A directory beside the one that it will be.
struct Target {
    /// Removed unless it was moved.
    work: PathBuf,
    dir: PathBuf,
    /// The package that is being written.
    file: Option<(String, File)>,
    is_done: bool,
}

/// The directory of a control plane that was stopped. Nothing in it is changed.
pub(crate) fn source(dir: &Path, keys: Option<&Arc<Keys>>) -> Result<impl Side + use<>, CopyError> {
    if !dir.join("state.db").is_file() || !dir.join("packages.db").is_file() {
        let what = format!("there is no control plane in {}", dir.display());
        return Err(CopyError::refused(
            what,
            "name its state directory: the one that has state.db and packages.db",
        ));
    }
    let home = Home::take(dir)?;
    let state = existing(&home.state(), schema::STATE)?;
    reseal::check(&state, keys).map_err(|fail| fail.at(&home.state()))?;
    let catalog = existing(&home.catalog(), schema::PACKAGES)?;
    Ok(Dir { state, catalog, home, target: None })
}

/// A directory that does not exist, or is empty.
pub(crate) fn target(dir: &Path) -> Result<impl Side + use<>, CopyError> {
    // A link stays a link.
    let dir = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let is_there = dir.symlink_metadata().is_ok();
    if is_there && !fs::read_dir(&dir).is_ok_and(|mut entries| entries.next().is_none()) {
        let what = format!("{} is not an empty directory", dir.display());
        return Err(CopyError::refused(what, "name a new directory: nothing is overwritten"));
    }
    let name = dir.file_name().ok_or_else(|| {
        CopyError::refused(format!("{} has no name", dir.display()), "name a directory to be created")
    })?;
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if is_there && is_mounted(&dir, parent) {
        let what = format!("{} is where a file system is mounted, and cannot be replaced", dir.display());
        return Err(CopyError::refused(what, "name a new directory in it"));
    }
    let mut work = name.to_owned();
    work.push(".copying");
    let work = parent.join(work);
    let home = Home::take(&work)?;
    // From now on, it is removed if anything fails.
    let target = Target { work: work.clone(), dir, file: None, is_done: false };
    empty(&work)?;
    disk::make_dir(&home.packages())?;
    // Synced at the end.
    let options = Options { sync: false, ..Options::default() };
    disk::make_file(&home.state())?;
    let state = writer::connect(&home, &options).map_err(|fail| fail.at(&home.state()))?;
    disk::make_file(&home.catalog())?;
    let catalog = catalog::connect(&home.catalog(), &options).map_err(|fail| fail.at(&home.catalog()))?;
    state.execute("DELETE FROM sealed_by", []).map_err(|error| Fail::from(error).at(&home.state()))?;
    Ok(Dir { state, catalog, home, target: Some(target) })
}

/// Opens a database of the present version.
fn existing(path: &Path, steps: &[&str]) -> Result<Connection, CopyError> {
    let open = || -> Result<(Connection, u32), Fail> {
        // Not for reading only: what a crash left in the log belongs to it.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags)?;
        conn.pragma_update(None, "query_only", true)?;
        let found = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
        Ok((conn, found))
    };
    let (conn, found) = open().map_err(|fail| fail.at(path))?;
    let known = u32::try_from(steps.len()).unwrap_or(u32::MAX);
    if found > known {
        return Err(StoreError::TooNew { found, known }.into());
    }
    if found < known {
        let what = format!("{} is of version {found}, a copy needs version {known}", path.display());
        let hint = "start the control plane once with this version of the program, stop it, and copy then";
        return Err(CopyError::refused(what, hint));
    }
    Ok(conn)
}

fn is_mounted(dir: &Path, parent: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
    device(dir) != device(parent)
}

/// Removes what an interrupted copy left, except for the lock.
fn empty(dir: &Path) -> Result<(), StoreError> {
    for entry in fs::read_dir(dir).map_err(at(dir))? {
        let path = entry.map_err(at(dir))?.path();
        if path.is_dir() {
            fs::remove_dir_all(&path).map_err(at(&path))?;
        } else if !path.ends_with("lock") {
            disk::remove(&path)?;
        }
    }
    Ok(())
}

impl Side for Dir {
    fn read(&mut self, table: &Table, each: Each<'_>) -> Result<(), CopyError> {
        match table.home {
            tables::Home::State => rows(&self.state, &self.home.state(), table, each),
            tables::Home::Catalog => rows(&self.catalog, &self.home.catalog(), table, each),
            tables::Home::Tokens => self.tokens(each),
            tables::Home::Files => self.pieces(each),
        }
    }

    fn write(&mut self, table: &Table, rows: Vec<Row>) -> Result<(), CopyError> {
        let (conn, path) = match table.home {
            tables::Home::State => (&self.state, self.home.state()),
            tables::Home::Catalog => (&self.catalog, self.home.catalog()),
            tables::Home::Tokens => return self.write_tokens(&rows),
            tables::Home::Files => return rows.iter().try_for_each(|row| self.write_piece(row)),
        };
        Ok(insert(conn, table, &rows).map_err(|error| Fail::from(error).at(&path))?)
    }

    fn seals_tokens(&self) -> bool {
        false
    }

    fn confirm(&mut self) -> Result<(), CopyError> {
        // The lock is held until the end.
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), CopyError> {
        let Some(mut target) = self.target.take() else { return Ok(()) };
        end_file(target.file.take(), &self.home)?;
        let Self { state, catalog, home, .. } = *self;
        for (conn, path) in [(state, home.state()), (catalog, home.catalog())] {
            // The log is moved into the file, and removed when it is closed.
            let whole = conn
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
                .and_then(|()| conn.close().map_err(|(_, error)| error));
            whole.map_err(|error| Fail::from(error).at(&path))?;
            sync(&path)?;
        }
        disk::sync_dir(&home.packages())?;
        disk::sync_dir(&target.work)?;
        // Fails if somebody has put something there meanwhile.
        fs::rename(&target.work, &target.dir).map_err(at(&target.dir))?;
        target.is_done = true;
        let parent = target.dir.parent().filter(|parent| !parent.as_os_str().is_empty());
        Ok(disk::sync_dir(parent.unwrap_or(Path::new(".")))?)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if !self.is_done {
            // If it stays, it has another name, and the next copy removes it.
            let _ = fs::remove_dir_all(&self.work);
        }
    }
}

impl Dir {
    fn tokens(&self, each: Each<'_>) -> Result<(), CopyError> {
        let path = self.home.tokens();
        if !path.exists() {
            return Ok(());
        }
        let text = fs::read_to_string(&path).map_err(at(&path))?;
        if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(&text) {
            return Err(StoreError::Damaged { path, what: error.to_string() }.into());
        }
        each(vec![Value::Text(text)])
    }

    fn write_tokens(&self, rows: &[Row]) -> Result<(), CopyError> {
        let Some(text) = rows.first().and_then(|row| row.first()).and_then(Value::text) else {
            return Ok(());
        };
        let path = self.home.tokens();
        disk::make_file(&path)?;
        fs::write(&path, text).map_err(at(&path))?;
        Ok(sync(&path)?)
    }

    /// The contents of all packages, in pieces.
    fn pieces(&mut self, each: Each<'_>) -> Result<(), CopyError> {
        // The target, which is read before it is complete.
        end_file(self.target.as_mut().and_then(|target| target.file.take()), &self.home)?;
        let mut all = Vec::new();
        rows(&self.catalog, &self.home.catalog(), &CONTENTS, &mut |row| {
            all.extend(row.first().and_then(Value::text).map(str::to_owned));
            Ok(())
        })?;
        for sha256 in all {
            let path = self.home.packages().join(&sha256);
            let mut file = File::open(&path).map_err(|error| {
                CopyError::Damaged(format!("the package {} cannot be read: {error}", path.display()))
            })?;
            for piece in 0.. {
                let mut body = Vec::with_capacity(PIECE);
                (&mut file).take(PIECE as u64).read_to_end(&mut body).map_err(at(&path))?;
                let is_last = body.len() < PIECE;
                each(vec![Value::Text(sha256.clone()), Value::Int(piece), Value::Blob(body)])?;
                if is_last {
                    break;
                }
            }
        }
        Ok(())
    }

    fn write_piece(&mut self, row: &Row) -> Result<(), CopyError> {
        let [Value::Text(sha256), Value::Int(_), Value::Blob(body)] = row.as_slice() else {
            return Err(CopyError::Damaged("a package".into()));
        };
        let Some(target) = &mut self.target else { return Ok(()) };
        if target.file.as_ref().is_none_or(|(current, _)| current != sha256) {
            end_file(target.file.take(), &self.home)?;
            if packages::from_hex(sha256).is_none() {
                return Err(CopyError::Damaged(format!("{sha256:?} is no SHA-256 of a package")));
            }
            let path = self.home.packages().join(sha256);
            let file = disk::private(OpenOptions::new().create_new(true).write(true)).open(&path);
            target.file = Some((sha256.clone(), file.map_err(at(&path))?));
        }
        match &mut target.file {
            Some((sha256, file)) => {
                Ok(file.write_all(body).map_err(at(&self.home.packages().join(sha256)))?)
            }
            None => Ok(()),
        }
    }
}

fn end_file(file: Option<(String, File)>, home: &Home) -> Result<(), StoreError> {
    let Some((sha256, file)) = file else { return Ok(()) };
    file.sync_all().map_err(at(&home.packages().join(sha256)))
}

fn sync(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(at(path))
}

fn rows(conn: &Connection, path: &Path, table: &Table, each: Each<'_>) -> Result<(), CopyError> {
    let failed = |error: rusqlite::Error| CopyError::from(Fail::from(error).at(path));
    let mut statement = conn.prepare_cached(&select(table)).map_err(failed)?;
    let mut rows = statement.query([]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let values = table.columns.iter().enumerate().map(|(at, (name, kind))| {
            let bad = |what: &str| {
                let what = format!("{}.{name} has {what}", table.sqlite_name);
                CopyError::from(StoreError::Damaged { path: path.to_owned(), what })
            };
            Ok(match (kind, row.get_ref(at).map_err(failed)?) {
                (Kind::Maybe, ValueRef::Null) => Value::Null,
                (Kind::Int | Kind::Maybe, ValueRef::Integer(number)) => Value::Int(number),
                (Kind::Bool, ValueRef::Integer(number)) => Value::Bool(number != 0),
                (Kind::Text | Kind::Hash, ValueRef::Text(text)) => {
                    Value::Text(str::from_utf8(text).map_err(|_| bad("no UTF-8"))?.to_owned())
                }
                (Kind::Blob, ValueRef::Blob(bytes)) => Value::Blob(bytes.to_vec()),
                // The log of an earlier version.
                (Kind::Blob, ValueRef::Text(text)) => Value::Blob(Packed::new(text).zlib),
                (_, found) => return Err(bad(&format!("a value of type {}", found.data_type()))),
            })
        });
        each(values.collect::<Result<_, CopyError>>()?)?;
    }
    Ok(())
}

fn select(table: &Table) -> String {
    if let Some(select) = table.sqlite.select {
        return select.to_owned();
    }
    let columns = tables::list(table.columns, |_, name, kind| match kind {
        Kind::Hash => format!("lower(hex({name}))"),
        _ => name.to_owned(),
    });
    let key = tables::list(&table.columns[..table.key], |_, name, _| name.to_owned());
    format!("SELECT {columns} FROM {} ORDER BY {key}", table.sqlite_name)
}

fn insert(conn: &Connection, table: &Table, rows: &[Row]) -> rusqlite::Result<()> {
    let sql = table.sqlite.insert.map_or_else(
        || {
            let columns = tables::list(table.columns, |_, name, _| name.to_owned());
            let values = tables::list(table.columns, |at, _, kind| match kind {
                Kind::Hash => format!("unhex(?{at})"),
                _ => format!("?{at}"),
            });
            format!("INSERT INTO {} ({columns}) VALUES ({values})", table.sqlite_name)
        },
        str::to_owned,
    );
    let tx = conn.unchecked_transaction()?;
    {
        let mut statement = tx.prepare_cached(&sql)?;
        for row in rows {
            statement.execute(params_from_iter(row.iter().map(bound)))?;
        }
    }
    tx.commit()
}

fn bound(value: &Value) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(match value {
        Value::Null => ValueRef::Null,
        Value::Int(number) => ValueRef::Integer(*number),
        Value::Bool(is) => ValueRef::Integer(i64::from(*is)),
        Value::Text(text) => ValueRef::Text(text.as_bytes()),
        Value::Blob(bytes) => ValueRef::Blob(bytes),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::copy::tables::TABLES;

    #[test]
    fn covers_the_schema() {
        let mut there = BTreeSet::new();
        for steps in [schema::STATE, schema::PACKAGES] {
            let mut conn = Connection::open_in_memory().unwrap();
            schema::migrate(&mut conn, steps).unwrap();
            let sql = "SELECT m.name || '.' || c.name FROM sqlite_schema m, pragma_table_info(m.name) c
                       WHERE m.type = 'table'";
            let mut statement = conn.prepare(sql).unwrap();
            there.extend(statement.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap));
        }
        // What only earlier versions wrote: passed on as pieces.
        assert!(there.remove("logs.text"));
        let in_files = |table: &&Table| matches!(table.home, tables::Home::State | tables::Home::Catalog);
        let copied = TABLES.iter().filter(in_files);
        let copied: BTreeSet<_> = copied
            .flat_map(|table| table.columns.iter().map(|(name, _)| format!("{}.{name}", table.sqlite_name)))
            .collect();
        assert_eq!(there, copied, "a new table or column belongs into copy/tables.rs");
    }
}
