//! SQLite and PostgreSQL side by side, both durable, on the same disk.
//!
//! The server is started with `scripts/postgres` and ended afterwards; `STORE_BENCH_POSTGRES` names another
//! one by its URL, whose database must be empty.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use multicluster_store::{
    Change, Opened, Options,
    postgres::{Database, Replica},
    sqlite,
};

use crate::{Report, accept, accepted, dispatched, per_s, say};

/// Both backends.
enum Side {
    Sqlite(PathBuf),
    Postgres(String),
}

impl Side {
    fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "SQLite",
            Self::Postgres(_) => "PostgreSQL",
        }
    }

    fn empty(&self) -> Opened {
        match self {
            Self::Sqlite(dir) => drop(fs::remove_dir_all(dir)),
            Self::Postgres(url) => run(url, "DROP SCHEMA IF EXISTS multicluster CASCADE"),
        }
        self.open()
    }

    fn open(&self) -> Opened {
        match self {
            Self::Sqlite(dir) => sqlite::open(dir, Options::default()).unwrap(),
            Self::Postgres(url) => wait(async {
                let me = Replica {
                    name: "bench".into(),
                    address: "http://127.0.0.1:1".into(),
                    version: "0".into(),
                    plane: None,
                };
                let database = Database::open(url, Options::default(), me).await.unwrap();
                let lead = loop {
                    let seat = database.seat().await.unwrap();
                    if let Some(lead) = database.take(&seat).await.unwrap() {
                        break lead;
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                };
                let (reader, own_reader) = database.readers();
                Opened {
                    store: lead.store,
                    reader,
                    own_reader,
                    packages: database.packages(),
                    sealing: Default::default(),
                }
            }),
        }
    }
}

/// Runs the same on both.
pub(crate) fn compare(root: &Path, report: &mut Report) {
    let server = Server::start(root);
    let sides = [Side::Sqlite(root.join("store-side")), Side::Postgres(server.url.clone())];
    for side in &sides {
        clients(side, 64, 30_000, report);
    }
    for batch in [1, 64, 1_000, 4_000, 10_000] {
        for side in &sides {
            let mut opened = side.empty();
            opened.store.load().unwrap();
            let total = (batch * 100).clamp(1_000, 100_000);
            let accepted = accept(&mut opened, 0, total, batch);
            let name = |what: &str| format!("{}: accept in batches of {batch}, {what}", side.name());
            say(report, &name("jobs/s"), accepted.rate);
            // Record, payload, package; events are packed.
            say(report, &name("rows/s"), accepted.rate * 3.0);
            say(report, &name("slowest commit, ms"), accepted.slowest_ms);
            opened.store.resign().unwrap();
        }
    }
    for side in &sides {
        full(side, 100_000, report);
    }
    let _ = fs::remove_dir_all(root.join("store-side"));
}

/// Clients that each submit one job and wait until it is durable. One thread commits whatever waits.
fn clients(side: &Side, count: usize, total: usize, report: &mut Report) {
    let mut opened = side.empty();
    opened.store.load().unwrap();
    let (submit, submitted) = mpsc::channel::<(usize, mpsc::SyncSender<()>)>();
    let started = Instant::now();
    let commits = thread::scope(|scope| {
        for client in 0..count {
            let submit = submit.clone();
            scope.spawn(move || {
                let (done, is_done) = mpsc::sync_channel(1);
                for n in (client..total).step_by(count) {
                    submit.send((n, done.clone())).unwrap();
                    is_done.recv().unwrap();
                }
            });
        }
        drop(submit);
        let mut commits = 0;
        while let Ok(first) = submitted.recv() {
            let waiting: Vec<_> = std::iter::once(first).chain(submitted.try_iter()).collect();
            let changes: Vec<Change> = waiting.iter().flat_map(|(n, _)| accepted(*n)).collect();
            opened.store.commit(&in_order(changes)).unwrap();
            commits += 1;
            waiting.iter().for_each(|(_, done)| done.send(()).unwrap());
        }
        commits
    });
    let name = |what: &str| format!("{}: {count} clients, one job each, {what}", side.name());
    say(report, &name("durable accepts/s"), per_s(total, started.elapsed()));
    say(report, &name("commits/s"), per_s(commits, started.elapsed()));
    opened.store.resign().unwrap();
}

/// Events are numbered as they are committed.
fn in_order(mut changes: Vec<Change>) -> Vec<Change> {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    for change in &mut changes {
        if let Change::Event(event) = change {
            event.seq = NEXT.fetch_add(1, Ordering::Relaxed);
        }
    }
    changes
}

/// With many queued jobs: dispatching some, taking over.
fn full(side: &Side, jobs: usize, report: &mut Report) {
    let mut opened = side.empty();
    opened.store.load().unwrap();
    accept(&mut opened, 0, jobs, 10_000);
    let name = |what: &str| format!("{}: {jobs} jobs: {what}", side.name());
    let started = Instant::now();
    for first in (0..20_000).step_by(1_000) {
        let changes: Vec<_> = (first..first + 1_000).flat_map(dispatched).collect();
        opened.store.commit(&changes).unwrap();
    }
    say(report, &name("dispatch in batches of 1000, jobs/s"), per_s(20_000, started.elapsed()));
    opened.store.resign().unwrap();
    drop(opened);
    let started = Instant::now();
    let mut opened = side.open();
    say(report, &name("open and take, ms"), started.elapsed().as_secs_f64() * 1e3);
    let loaded = opened.store.load().unwrap();
    say(report, &name("open, take and load, ms"), started.elapsed().as_secs_f64() * 1e3);
    assert_eq!(loaded.durable.jobs.len(), jobs);
    let started = Instant::now();
    for n in 0..200 {
        assert!(opened.reader.job(&crate::id(n * 311 % jobs)).unwrap().is_some());
    }
    say(report, &name("one job by id, µs"), started.elapsed().as_secs_f64() * 1e6 / 200.0);
    let started = Instant::now();
    for _ in 0..50 {
        assert_eq!(opened.reader.jobs(&Default::default(), None, 100).unwrap().items.len(), 100);
    }
    say(report, &name("a page of 100, µs"), started.elapsed().as_secs_f64() * 1e6 / 50.0);
    opened.store.resign().unwrap();
}

/// A server of this run.
struct Server {
    url: String,
    dir: Option<PathBuf>,
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/postgres")
}

impl Server {
    fn start(root: &Path) -> Self {
        if let Ok(url) = std::env::var("STORE_BENCH_POSTGRES") {
            return Self { url, dir: None };
        }
        let dir = root.join("store-postgres");
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let start =
            Command::new(script()).arg("start").arg(&dir).arg(port.to_string()).stdin(Stdio::null()).status();
        assert!(start.unwrap().success(), "scripts/postgres could not start a server");
        Self { url: format!("postgres://postgres@127.0.0.1:{port}/postgres?sslmode=disable"), dir: Some(dir) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(dir) = &self.dir {
            let _ = Command::new(script()).arg("stop").arg(dir).status();
            let _ = fs::remove_dir_all(dir);
        }
    }
}

fn run(url: &str, sql: &str) {
    wait(async {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        client.batch_execute(sql).await.unwrap();
        connection.abort();
    });
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}
