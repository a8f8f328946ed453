//! Tests that need access to internals.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use multicluster_core::{
    Write,
    record::{JobRecord, Phase},
};
use multicluster_types::{JobId, Kind, Payload, Timestamp, Work};

use super::{disk::Home, index::Index, reader::SqliteReader, writer::Writer};
use crate::{Change, JobFilter, Options, Reader, Store, StoreError, StoredEvent};

struct Parts {
    writer: Writer,
    reader: SqliteReader,
    dir: PathBuf,
}

impl Parts {
    fn open() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("store-unit-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(name);
        let (home, index) = (Arc::new(Home::take(&dir).unwrap()), Arc::new(Index::default()));
        let options = Arc::new(Options::default());
        let (writer, _) = Writer::open(home.clone(), index.clone(), options.clone()).unwrap();
        let seals = writer.seals();
        Self { writer, reader: SqliteReader::open(home, index, options, seals), dir }
    }

    /// Limits the file to this many pages, like a full disk.
    fn limit_pages(&self, pages: u32) {
        let conn = self.writer.conn();
        conn.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();
    }

    fn count(&self) -> usize {
        self.reader.jobs(&JobFilter::default(), None, 10_000).unwrap().items.len()
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn id(n: u64) -> JobId {
    JobId::new(format!("job-{n}")).unwrap()
}

/// A job with a payload of ten kilobytes, and its event.
fn accepted(n: u64) -> [Change; 3] {
    let record = JobRecord {
        id: id(n),
        seq: n,
        work: Arc::new(Work::new(Kind::Job)),
        content: None,
        bytes: 0,
        parent: None,
        submitted_at: Timestamp(n),
        attempts: 0,
        troubles: None,
        phase: Phase::Waiting { since: Timestamp(n), not_before: None },
    };
    let payload = Arc::new(Payload { entrypoint: "x".repeat(10_000), ..Payload::default() });
    [
        Change::Core(Write::Job(record)),
        Change::Payload { job: id(n), payload },
        Change::Event(StoredEvent { seq: n + 1, at: Timestamp(n), job: Some(id(n)), body: "{}".into() }),
    ]
}

#[test]
fn a_full_disk_is_an_error_leaves_nothing_half_written_and_passes() {
    let mut parts = Parts::open();
    parts.writer.commit(&(0..10).flat_map(accepted).collect::<Vec<_>>()).unwrap();
    let before = parts.writer.load().unwrap();
    parts.limit_pages(100);
    let many: Vec<_> =
        [Change::Core(Write::DeleteJob(id(3)))].into_iter().chain((10..200).flat_map(accepted)).collect();
    for _ in 0..3 {
        let error = parts.writer.commit(&many).unwrap_err();
        assert!(matches!(error, StoreError::Sqlite(_)) && error.to_string().contains("full"), "{error}");
        let after = parts.writer.load().unwrap();
        assert_eq!(after.durable, before.durable);
        assert_eq!(after.next_event, before.next_event);
        assert_eq!(parts.count(), 10);
        assert!(parts.reader.job(&id(3)).unwrap().is_some() && parts.reader.job(&id(10)).unwrap().is_none());
    }
    // A change that fits is still accepted.
    parts.writer.commit(&[Change::Core(Write::DeleteJob(id(4)))]).unwrap();
    assert_eq!(parts.count(), 9);
    // With room again, the very same batch is committed.
    parts.limit_pages(1_000_000);
    parts.writer.commit(&many).unwrap();
    assert_eq!(parts.count(), 198);
    assert_eq!(parts.writer.load().unwrap().next_event, 201);
    assert!(parts.reader.job(&id(3)).unwrap().is_none());
    assert_eq!(parts.reader.payload(&id(150)).unwrap().unwrap().entrypoint.len(), 10_000);
}

/// No test can cut the power; these are the settings that SQLite needs to survive it.
#[test]
fn a_commit_waits_for_the_disk() {
    let parts = Parts::open();
    let pragma = |name| parts.writer.conn().pragma_query_value(None, name, |row| row.get(0));
    assert_eq!(pragma("synchronous"), Ok(2), "FULL");
    assert_eq!(pragma("fullfsync"), Ok(1));
    assert_eq!(pragma("page_size"), Ok(8192));
    let mode: String =
        parts.writer.conn().pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
}

/// Lists use an index and never read all jobs.
#[test]
fn lists_use_the_indexes() {
    let parts = Parts::open();
    let plan = |sql: &str| {
        let conn = rusqlite::Connection::open(parts.dir.join("state.db")).unwrap();
        let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let rows = statement.query_map([], |row| row.get::<_, String>(3)).unwrap();
        rows.map(Result::unwrap).collect::<Vec<_>>().join("; ")
    };
    for (sql, wanted) in [
        (
            "SELECT job FROM jobs WHERE class = 1 AND job < 5 ORDER BY job DESC LIMIT 5",
            "SEARCH jobs USING COVERING INDEX jobs_of_class (class=? AND rowid<?)",
        ),
        (
            "SELECT job FROM job_clusters WHERE cluster = 'x' AND class = 1 AND job < 5 ORDER BY job DESC LIMIT 5",
            "SEARCH job_clusters USING COVERING INDEX jobs_of_cluster (cluster=? AND class=? AND job<?)",
        ),
        (
            "SELECT number, body FROM decisions WHERE number < 5 AND job = 1 ORDER BY number DESC LIMIT 5",
            "SEARCH decisions USING INDEX decisions_of_job (job=? AND rowid<?)",
        ),
        (
            "SELECT body FROM events WHERE last > 5 ORDER BY last",
            "SEARCH events USING INTEGER PRIMARY KEY (rowid>?)",
        ),
    ] {
        assert_eq!(plan(sql), wanted, "{sql}");
    }
}

/// A light commit does not wait for the disk, the next one does. Both are visible at once.
#[test]
fn only_what_must_survive_a_power_cut_is_synced() {
    let mut parts = Parts::open();
    let level = |parts: &Parts| -> u32 {
        parts.writer.conn().pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap()
    };
    let (normal, full) = (1, 2);
    assert_eq!(level(&parts), full, "from the start");
    parts.writer.commit_lightly(&accepted(1)).unwrap();
    assert_eq!((level(&parts), parts.count()), (normal, 1));
    parts.writer.commit(&accepted(2)).unwrap();
    assert_eq!((level(&parts), parts.count()), (full, 2));
    parts.writer.commit_lightly(&accepted(3)).unwrap();
    parts.writer.commit_lightly(&accepted(4)).unwrap();
    assert_eq!((level(&parts), parts.count()), (normal, 4));
}
