//! A few connections that only read.

use std::path::{Path, PathBuf};

use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, OpenFlags};

/// A pool of connections, which are opened when they are first needed, and kept.
#[derive(Debug)]
pub(super) struct Pool {
    path: PathBuf,
    max: usize,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Connection>,
    lent: usize,
}

impl Pool {
    pub(super) fn new(path: PathBuf, max: usize) -> Self {
        Self { path, max: max.max(1), state: Mutex::default(), returned: Condvar::new() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs one query; waits while the maximum number of queries is running.
    pub(super) fn with<T, E: From<rusqlite::Error>>(
        &self,
        ask: impl FnOnce(&Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut lease = Lease { pool: self, conn: self.take() };
        let conn = match lease.conn.take() {
            Some(conn) => conn,
            None => self.connect()?,
        };
        ask(lease.conn.insert(conn))
    }

    /// An idle connection, or the right to open one.
    fn take(&self) -> Option<Connection> {
        let mut state = self.state.lock();
        while state.lent >= self.max {
            self.returned.wait(&mut state);
        }
        state.lent += 1;
        state.idle.pop()
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(&self.path, flags)?;
        conn.set_prepared_statement_cache_capacity(32);
        Ok(conn)
    }
}

/// Returns the connection, even if the query panicked or no connection was made.
struct Lease<'p> {
    pool: &'p Pool,
    conn: Option<Connection>,
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock();
        state.lent -= 1;
        state.idle.extend(self.conn.take());
        drop(state);
        self.pool.returned.notify_one();
    }
}
