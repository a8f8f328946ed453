//! How fast the store is: `cargo bench -p multicluster-store`.
//!
//! One writer thread on the disk that holds `target` (`STORE_BENCH_DIR` for another). This
//! machine is noisy: the best of several rounds counts, and the slowest commit is reported too.
//! Prints a table and writes `target/bench/store.json`. Without `--bench`, which `cargo bench`
//! passes and `cargo test` does not, everything runs once with few jobs and nothing is written.
//!
//! `cargo bench -p multicluster-store -- postgres` compares SQLite and PostgreSQL instead, see `sides`.

#![allow(missing_docs, clippy::unwrap_used, reason = "a program around the store")]

mod sides;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use multicluster_core::{
    Write,
    record::{JobRecord, Live, Phase, Stage, Step},
};
use multicluster_store::{Change, JobFilter, Keys, Opened, Options, Search, StoredEvent, sqlite};
use multicluster_types::{
    Attempt, ClusterName, ContentHash, Decision, JobId, Kind, Payload, Resources, State, Tag, Tags,
    Timestamp, Verdict, Work,
};

type Report = BTreeMap<String, f64>;

fn main() {
    let root = std::env::var_os("STORE_BENCH_DIR").map_or_else(|| target().join("bench"), PathBuf::from);
    let dir = root.join("store-state");
    fs::create_dir_all(&root).unwrap();
    // `cargo bench -- 10000` accepts only in batches of this size, for a profiler.
    let only: Option<usize> = std::env::args().skip(1).find_map(|arg| arg.parse().ok());
    let mut report = Report::new();

    if std::env::args().any(|arg| arg == "postgres") {
        sides::compare(&root, &mut report);
        write(&report, "store-postgres.json");
        return;
    }
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    if !is_bench {
        sync_cost(&root, &mut report);
        accept_into_empty(&dir, 64, 1, &mut report);
        sealed(&dir, 64, 1, &mut report);
        life(&dir, 2_000, &mut report);
        full(&dir, 10_000, &mut report);
        let _ = fs::remove_dir_all(&dir);
        return;
    }

    sync_cost(&root, &mut report);
    for batch in [1, 64, 1_000, 10_000] {
        if only.is_none_or(|only| only == batch) {
            accept_into_empty(&dir, batch, 3, &mut report);
            sealed(&dir, batch, 3, &mut report);
        }
    }
    // `cargo bench -- 0` skips the acceptance benchmarks.
    if only.is_none_or(|only| only == 0) {
        life(&dir, 50_000, &mut report);
        full(&dir, 100_000, &mut report);
        full(&dir, 1_000_000, &mut report);
    }
    let _ = fs::remove_dir_all(&dir);
    write(&report, "store.json");
}

fn write(report: &Report, name: &str) {
    let path = target().join("bench").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, serde_json::to_vec_pretty(report).unwrap()).unwrap();
    println!("written to {}", path.display());
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"), PathBuf::from)
}

/// The time that this disk takes for the smallest durable write.
fn sync_cost(root: &Path, report: &mut Report) {
    let path = root.join("sync");
    let mut file = File::create(&path).unwrap();
    let mut times: Vec<_> = (0..300)
        .map(|_| {
            let started = Instant::now();
            file.write_all(&[7; 4096]).unwrap();
            file.sync_data().unwrap();
            started.elapsed()
        })
        .collect();
    fs::remove_file(path).unwrap();
    times.sort();
    say(report, "fdatasync of 4 KiB, median, µs", times[150].as_secs_f64() * 1e6);
    say(report, "fdatasync of 4 KiB, 99th percentile, µs", times[297].as_secs_f64() * 1e6);
}

/// Accepting jobs: record, payload and event of each.
fn accept_into_empty(dir: &Path, batch: usize, rounds: usize, report: &mut Report) {
    let total = (batch * 200).clamp(500, 200_000);
    let rounds = (0..rounds).map(|_| {
        let mut opened = fresh(dir);
        accept(&mut opened, 0, total, batch)
    });
    let best = rounds.max_by(|a, b| a.rate.total_cmp(&b.rate)).unwrap();
    say(report, &format!("accept in batches of {batch}, jobs/s"), best.rate);
    say(report, &format!("accept in batches of {batch}, slowest commit, ms"), best.slowest_ms);
    if let Some(cpu) = best.cpu_us {
        say(report, &format!("accept in batches of {batch}, processor time per job, µs"), cpu);
    }
}

/// The same with a key, and what a search and a key change cost then.
fn sealed(dir: &Path, batch: usize, rounds: usize, report: &mut Report) {
    let file = dir.with_extension("key");
    let _ = fs::remove_file(&file);
    Keys::create(&file).unwrap();
    let options = || Options { keys: Some(Arc::new(Keys::read(&file).unwrap())), ..Options::default() };
    let total = (batch * 200).clamp(500, 200_000);
    let rounds = (0..rounds).map(|_| {
        let _ = fs::remove_dir_all(dir);
        accept(&mut sqlite::open(dir, options()).unwrap(), 0, total, batch)
    });
    let best = rounds.max_by(|a, b| a.rate.total_cmp(&b.rate)).unwrap();
    say(report, &format!("accept in batches of {batch}, sealed, jobs/s"), best.rate);
    if let Some(cpu) = best.cpu_us {
        say(report, &format!("accept in batches of {batch}, sealed, processor time per job, µs"), cpu);
    }
    let jobs = total.div_ceil(batch) * batch;
    let name = |what: &str| format!("{jobs} sealed jobs: {what}");
    let opened = sqlite::open(dir, options()).unwrap();
    let search = JobFilter { search: Some(Search::new("nowhere")), ..Default::default() };
    let started = Instant::now();
    assert!(opened.reader.jobs(&search, None, 100).unwrap().items.is_empty());
    say(
        report,
        &name("a search for a text that is nowhere, one step, µs"),
        started.elapsed().as_secs_f64() * 1e6,
    );
    drop(opened);
    Keys::add(&file, true).unwrap();
    let started = Instant::now();
    let opened = sqlite::open(dir, options()).unwrap();
    assert_eq!(opened.sealing.resealed, Some(jobs as u64));
    say(report, &name("open with a new key, ms"), started.elapsed().as_secs_f64() * 1e3);
    drop(opened);
    let _ = fs::remove_file(&file);
}

struct Accepted {
    rate: f64,
    slowest_ms: f64,
    /// The time on an otherwise idle machine with an infinitely fast disk.
    cpu_us: Option<f64>,
}

fn accept(opened: &mut Opened, first: usize, total: usize, batch: usize) -> Accepted {
    let mut times = Vec::new();
    let mut cpu = Some(Duration::ZERO);
    for start in (first..first + total).step_by(batch) {
        let changes: Vec<_> = (start..start + batch).flat_map(accepted).collect();
        let before = cpu_time();
        times.push(commit(opened, &changes));
        cpu = cpu.zip(before).zip(cpu_time()).map(|((sum, before), after)| sum + (after - before));
    }
    let all: Duration = times.iter().sum();
    let slowest = times.iter().max().unwrap();
    let jobs = times.len() * batch;
    Accepted {
        rate: per_s(jobs, all),
        slowest_ms: slowest.as_secs_f64() * 1e3,
        cpu_us: cpu.map(|cpu| 1e6 / per_s(jobs, cpu)),
    }
}

/// Processor time of this thread, on Linux.
fn cpu_time() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(stat.split(' ').next()?.parse().ok()?))
}

/// From queued to running: three records and a decision, as the core writes them.
fn life(dir: &Path, jobs: usize, report: &mut Report) {
    let mut opened = fresh(dir);
    accept(&mut opened, 0, jobs, 1_000);
    let (mut dispatch, mut start) = (Duration::ZERO, Duration::ZERO);
    for first in (0..jobs).step_by(1_000) {
        let changes: Vec<_> = (first..first + 1_000).flat_map(dispatched).collect();
        dispatch += commit(&mut opened, &changes);
    }
    for first in (0..jobs).step_by(1_000) {
        let on = |n| Change::Core(Write::Job(on_cluster(n, Stage::Running)));
        let changes: Vec<_> = (first..first + 1_000).map(on).collect();
        start += commit(&mut opened, &changes);
    }
    say(report, "dispatch in batches of 1000, jobs/s", per_s(jobs, dispatch));
    say(report, "start in batches of 1000, jobs/s", per_s(jobs, start));
    let mut delete = Duration::ZERO;
    for first in (0..jobs).step_by(1_000) {
        let changes: Vec<_> = (first..first + 1_000).map(|n| Change::Core(Write::DeleteJob(id(n)))).collect();
        delete += commit(&mut opened, &changes);
    }
    say(report, "delete in batches of 1000, jobs/s", per_s(jobs, delete));
}

/// With many jobs: accepting more, restarting, reading.
fn full(dir: &Path, jobs: usize, report: &mut Report) {
    let mut opened = fresh(dir);
    let name = |what: &str| format!("{jobs} jobs: {what}");
    let filling = accept(&mut opened, 0, jobs, 10_000);
    say(report, &name("filling, jobs/s"), filling.rate);
    say(report, &name("filling, slowest commit, ms"), filling.slowest_ms);
    if let Some(cpu) = filling.cpu_us {
        say(report, &name("filling, processor time per job, µs"), cpu);
    }
    for batch in [64, 1_000, 10_000] {
        let first = jobs + batch * 1_000_000;
        let more = accept(&mut opened, first, (batch * 50).min(50_000), batch);
        say(report, &name(&format!("accept more in batches of {batch}, jobs/s")), more.rate);
    }
    drop(opened);
    let started = Instant::now();
    let mut opened = sqlite::open(dir, Options::default()).unwrap();
    say(report, &name("open, ms"), started.elapsed().as_secs_f64() * 1e3);
    let (started, before) = (Instant::now(), cpu_time());
    let loaded = opened.store.load().unwrap();
    say(report, &name("load, ms"), started.elapsed().as_secs_f64() * 1e3);
    if let Some((before, after)) = before.zip(cpu_time()) {
        say(report, &name("load, processor time, ms"), (after - before).as_secs_f64() * 1e3);
    }
    assert!(loaded.durable.jobs.len() >= jobs);
    ask(&opened, jobs, report, &name);
    let bytes = fs::metadata(dir.join("state.db")).unwrap().len();
    #[expect(clippy::cast_precision_loss, reason = "a figure to read")]
    say(report, &name("bytes of state.db per job"), bytes as f64 / loaded.durable.jobs.len() as f64);
}

fn ask(opened: &Opened, jobs: usize, report: &mut Report, name: &dyn Fn(&str) -> String) {
    let reader = &opened.reader;
    let mut n = 0;
    let mut time = |what: &str, question: &dyn Fn(usize)| {
        let rounds = 200;
        let started = Instant::now();
        for _ in 0..rounds {
            n = (n + 7919) % jobs;
            question(n);
        }
        say(report, &name(what), started.elapsed().as_secs_f64() * 1e6 / f64::from(rounds));
    };
    time("one job by id, µs", &|n| assert!(reader.job(&id(n)).unwrap().is_some()));
    let page = |filter: &JobFilter, count| {
        assert_eq!(reader.jobs(filter, None, 100).unwrap().items.len(), count);
    };
    time("a page of 100, µs", &|_| page(&JobFilter::default(), 100));
    let queued = JobFilter { states: vec![State::Queued], kind: Some(Kind::Job), ..Default::default() };
    time("a page of 100 queued jobs, µs", &|_| page(&queued, 100));
    let failed = JobFilter { states: vec![State::Failed], ..Default::default() };
    time("a page of failed jobs, of which there are none, µs", &|_| page(&failed, 0));
    let cluster = JobFilter { cluster: Some(ClusterName::new("none").unwrap()), ..Default::default() };
    time("a page of jobs of a cluster that has none, µs", &|_| page(&cluster, 0));
    let text = JobFilter { id_contains: Some("nowhere".into()), ..Default::default() };
    time("a search for part of an id that finds nothing, one step, µs", &|_| page(&text, 0));
    let tag = JobFilter { tags: vec![Tag::new("nowhere").unwrap()], ..Default::default() };
    let text = JobFilter { search: Some(Search::new("nowhere")), ..Default::default() };
    time("a search for a text that is nowhere, one step, µs", &|_| page(&text, 0));
    time("a search for a tag that finds nothing, one step, µs", &|_| page(&tag, 0));
    time("100 events, µs", &|_| assert_eq!(reader.events(None, 0, 100).unwrap().len(), 100));
    time("the events of one job of 100000 events, µs", &|n| {
        reader.events(Some(&BTreeSet::from([id(n)])), 0, 100).unwrap();
    });
}

fn fresh(dir: &Path) -> Opened {
    let _ = fs::remove_dir_all(dir);
    sqlite::open(dir, Options::default()).unwrap()
}

fn commit(opened: &mut Opened, changes: &[Change]) -> Duration {
    let started = Instant::now();
    opened.store.commit(changes).unwrap();
    started.elapsed()
}

/// Random, as Ray's clients make them.
fn id(n: usize) -> JobId {
    let mixed = (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    JobId::new(format!("raysubmit_{mixed:016x}")).unwrap()
}

/// The core keeps one value for all jobs of a class.
static WORK: LazyLock<Arc<Work>> = LazyLock::new(|| {
    let tags = Tags::new(["linux", "fund"]).unwrap();
    Arc::new(Work { demand: Resources::default(), tags, ..Work::new(Kind::Job) })
});

fn record(n: usize) -> JobRecord {
    let at = Timestamp(1_700_000_000_000 + n as u64);
    JobRecord {
        id: id(n),
        seq: n as u64,
        work: WORK.clone(),
        content: Some(ContentHash::of([n.to_le_bytes()])),
        bytes: 0,
        parent: None,
        submitted_at: at,
        attempts: 0,
        troubles: None,
        phase: Phase::Waiting { since: at, not_before: None },
    }
}

fn event(n: usize) -> Change {
    let body = format!(
        r#"{{"type":"job","job":"{}","state":"queued","cluster":null,"attempt":null,"message":null}}"#,
        id(n)
    );
    Change::Event(StoredEvent { seq: n as u64 + 1, at: Timestamp(1_700_000_000_000), job: Some(id(n)), body })
}

fn accepted(n: usize) -> [Change; 3] {
    let runtime_env = serde_json::json!({
        "working_dir": "gcs://_ray_pkg_0123456789abcdef.zip",
        "env_vars": {"FUND": "alpha", "DATE": "2026-11-16", "HOME_DIR": "/home/zorro/"},
    });
    let serde_json::Value::Object(runtime_env) = runtime_env else { unreachable!() };
    let payload = Payload {
        entrypoint: format!("python -m predict --symbol {n} --window 250 --model /home/zorro/models/latest"),
        runtime_env,
        home: Some("/home/zorro".into()),
        packages: [("gcs://_ray_pkg_0123456789abcdef.zip".to_owned(), "ab".repeat(32))].into(),
        ..Payload::default()
    };
    [
        Change::Core(Write::Job(record(n))),
        Change::Payload { job: id(n), payload: Arc::new(payload) },
        event(n),
    ]
}

fn on_cluster(n: usize, stage: Stage) -> JobRecord {
    let at = Timestamp(1_700_000_000_000);
    let cluster = ClusterName::new(["centos", "mac"][n % 2]).unwrap();
    let mut live = Live::new(Attempt::FIRST, cluster, None, at);
    if stage == Stage::Running {
        live.apply(Step::Start, at).unwrap();
    }
    JobRecord { attempts: 1, phase: Phase::Live(Box::new(live)), ..record(n) }
}

fn dispatched(n: usize) -> [Change; 3] {
    let roster: Arc<[ClusterName]> =
        ["centos", "mac"].into_iter().map(|name| ClusterName::new(name).unwrap()).collect();
    let decision = Decision {
        job: id(n),
        attempt: Attempt::FIRST,
        at: Timestamp(1_700_000_000_000),
        cluster: roster[n % 2].clone(),
        roster,
        verdicts: [Verdict::Chosen { score: 0.75, grows: 0 }, Verdict::Eligible { score: 0.5, grows: 2 }]
            .into(),
    };
    [
        Change::Core(Write::Job(on_cluster(n, Stage::Sending))),
        Change::Core(Write::Decision(Box::new(decision))),
        event(n + 10_000_000),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "a rate")]
fn per_s(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

fn say(report: &mut Report, what: &str, value: f64) {
    let shown = if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") };
    println!("{what:<76} {shown:>12}");
    report.insert(what.to_owned(), value);
}
