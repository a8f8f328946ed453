//! Moving committed data from the write-ahead log into the database file.
//!
//! This is not needed for durability, only to keep the log short, and it may take tens of
//! milliseconds. So it happens beside the writer, on a thread and a connection of its own. While
//! it runs, the writer continues to add to the log; under constant load a checkpoint would never
//! complete and the log would never start over. So beyond a limit the writer runs the checkpoint
//! itself: only little is left to move then, and with its next commit the log starts over.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread::{self, JoinHandle},
};

use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, OpenFlags};

use super::{fail::Fail, schema};
use crate::Options;

/// Pages in the log that make a checkpoint worthwhile: 8 MiB.
const ENOUGH: u32 = 1_000;
/// Pages in the log from which on the writer helps: 64 MiB.
const TOO_MANY: u32 = 8_000;

/// Keeps the log of one file short until it is dropped.
pub(super) struct Checkpointer {
    shared: Arc<Signals>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Signals {
    /// Pages in the log after the latest commit.
    pages: AtomicU32,
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

#[derive(Default)]
struct Wanted {
    checkpoint: bool,
    stop: bool,
}

impl Checkpointer {
    /// Replaces SQLite's automatic checkpoint, which would run within a commit.
    pub(super) fn start(writer: &mut Connection, path: PathBuf, options: &Options) -> Result<Self, Fail> {
        let shared = Arc::new(Signals::default());
        let count = shared.clone();
        writer.wal_hook(Some(move |_: &mut _, pages: std::ffi::c_int| {
            count.pages.store(u32::try_from(pages).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))?;
        let conn = Connection::open_with_flags(
            path,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        schema::make_durable(&conn, options)?;
        let work = shared.clone();
        let thread = thread::Builder::new()
            .name("store-checkpoint".into())
            .spawn(move || work.run(&conn))
            .map_err(Fail::Thread)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// To be called after each commit.
    pub(super) fn committed(&self, writer: &Connection) {
        let pages = self.shared.pages.load(Ordering::Relaxed);
        if pages >= ENOUGH {
            self.shared.wanted.lock().checkpoint = true;
            self.shared.changed.notify_one();
        }
        if pages >= TOO_MANY {
            checkpoint(writer);
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.shared.wanted.lock().stop = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // The thread only ends by returning.
            let _ = thread.join();
        }
    }
}

impl Signals {
    fn run(&self, conn: &Connection) {
        let mut wanted = self.wanted.lock();
        while !wanted.stop {
            if !wanted.checkpoint {
                self.changed.wait(&mut wanted);
                continue;
            }
            wanted.checkpoint = false;
            drop(wanted);
            checkpoint(conn);
            wanted = self.wanted.lock();
        }
    }
}

/// Moves as much as is possible without waiting for other connections. An error here will occur
/// again, and be reported, when the next commit needs the disk; nothing is lost meanwhile.
fn checkpoint(conn: &Connection) {
    let _ = conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
}
