//! How fast the core is, and how many jobs it can hold: `make bench`.
//!
//! Wall clock on one thread, the best of several rounds (this machine is noisy).
//! Prints a table and writes `target/bench/core.json`. Without `--bench`, which `cargo bench`
//! passes and `cargo test` does not, everything runs once with few jobs and nothing is written.

#![allow(unsafe_code, reason = "counting allocations needs a global allocator")]
#![allow(
    missing_docs,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a program around the core"
)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    collections::BTreeMap,
    hint::black_box,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use multicluster_core::{
    Core, DispatchOutcome, Effect, Identity, Input, Observation, Output, RunStatus, Submission,
};
use multicluster_types::{
    ClusterName, ClusterSpec, ContentHash, Incarnation, JobId, Kind, Load, Owner, Platform, Resources,
    Settings, Snapshot, Span, Tags, Timestamp, Weight, Work, settings::Count,
};

/// The system's allocator, with a count of the bytes in use.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: forwards every call to `System` unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const START: Timestamp = Timestamp(1_700_000_000_000);

/// The sizes of the benchmarks.
struct Scale {
    /// Queued at once, and run through their whole life.
    jobs: usize,
    /// Placed in one cycle.
    placed: usize,
    rounds: u32,
    round: Duration,
}

const FULL: Scale = Scale { jobs: 1_000_000, placed: 100_000, rounds: 9, round: Duration::from_millis(200) };
const QUICK: Scale = Scale { jobs: 20_000, placed: 2_000, rounds: 1, round: Duration::from_millis(5) };

fn main() {
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let scale = if is_bench { FULL } else { QUICK };
    // `cargo bench -- decisions`, `-- owners` and `-- lives` run only that part, for profiling.
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    match only.as_deref() {
        Some("decisions") => {
            return [10, 1000]
                .into_iter()
                .for_each(|n| println!("{n} clusters: {:.0} decisions/s", decisions_per_s(&scale, n)));
        }
        Some("owners") => {
            cycles_by_owners(&scale);
            return;
        }
        Some("lives") => return println!("{:.0} lives/s", lifecycle_jobs_per_s(&scale)),
        _ => {}
    }
    let mut report = BTreeMap::new();

    println!("{:<58} {:>14}", "one decision: filter, score, pick, a verdict per cluster", "decisions/s");
    let mut decisions = BTreeMap::new();
    let mut placements = BTreeMap::new();
    for clusters in [2, 10, 100, 1000] {
        let rate = decisions_per_s(&scale, clusters);
        println!("  {:<56} {:>14.0}", format!("{clusters} clusters"), rate);
        decisions.insert(clusters.to_string(), rate);
    }
    println!("{:<58} {:>14}", "one placement: decision, reservation, writes, effect", "placements/s");
    for clusters in [2, 10, 100, 1000] {
        let rate = placements_per_s(&scale, clusters);
        println!("  {:<56} {:>14.0}", format!("{clusters} clusters"), rate);
        placements.insert(clusters.to_string(), rate);
    }

    println!("{:<58} {:>14}", format!("one full cycle, {} queued jobs, 10 clusters", scale.jobs), "ms");
    let mut cycles = BTreeMap::new();
    let mut bytes_per_job = 0.0;
    for classes in [1, 100, 10_000] {
        let (cycle, bytes) = cycle_with_a_full_queue(&scale, classes, 1);
        let ms = cycle.as_secs_f64() * 1000.0;
        println!("  {:<56} {:>14.3}", format!("{classes} classes wait"), ms);
        cycles.insert(classes.to_string(), ms);
        if classes == 100 {
            bytes_per_job = bytes;
        }
    }
    let by_owners = cycles_by_owners(&scale);
    println!("{:<58} {:>14.0}", "bytes per queued job (100 classes)", bytes_per_job);

    let lifecycle = lifecycle_jobs_per_s(&scale);
    let what = format!("submit, dispatch, run and finish {} jobs: jobs/s", scale.jobs);
    println!("{what:<58} {lifecycle:>14.0}");
    if !is_bench {
        return;
    }

    report.insert("decisions_per_s", serde_json::json!(decisions));
    report.insert("placements_per_s", serde_json::json!(placements));
    report.insert("cycle_ms", serde_json::json!(cycles));
    report.insert("cycle_ms_by_owners", serde_json::json!(by_owners));
    report.insert("lifecycle_jobs_per_s", serde_json::json!(lifecycle));
    report.insert("bytes_per_queued_job", serde_json::json!(bytes_per_job));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench/core.json");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, serde_json::to_string_pretty(&report).unwrap() + "\n").unwrap();
    println!("written to target/bench/core.json");
}

/// The best of some rounds of `work`.
fn best_rate(scale: &Scale, mut work: impl FnMut()) -> f64 {
    let mut best: f64 = 0.0;
    for _ in 0..scale.rounds {
        let (started, mut count) = (Instant::now(), 0);
        while started.elapsed() < scale.round {
            (0..64).for_each(|_| work());
            count += 64;
        }
        best = best.max(f64::from(count) / started.elapsed().as_secs_f64());
    }
    best
}

/// A mixed pool: a third is busy, a third is too small, a third can run the job.
fn decisions_per_s(scale: &Scale, clusters: u32) -> f64 {
    let core =
        pool(clusters, |n| if n % 3 == 2 { 0.9 } else { 0.2 }, |n| if n % 3 == 1 { 2.0 } else { 64.0 });
    let work = a_job(4.0, &["linux"]);
    let mut verdicts = Vec::new();
    assert!(core.decide(&work, &mut verdicts).is_some(), "one can take it");
    best_rate(scale, || {
        black_box(core.decide(black_box(&work), black_box(&mut verdicts)));
    })
}

/// A batch of jobs that all find a cluster in one cycle.
fn placements_per_s(scale: &Scale, clusters: u32) -> f64 {
    let count = if clusters >= 1000 { scale.placed / 10 } else { scale.placed };
    let mut best: f64 = 0.0;
    for round in 0..scale.rounds.min(3) {
        let mut core = pool(clusters, |_| 0.0, |_| 1e9);
        let batch =
            (0..count).map(|n| submission(&format!("p{round}-{n}"), a_job(0.5, &["linux"]))).collect();
        let started = Instant::now();
        let out = black_box(core.handle(START, Input::Together(batch)));
        best = best.max(count as f64 / started.elapsed().as_secs_f64());
        assert_eq!(out.effects.len(), count, "all are placed");
    }
    best
}

/// A pool without room, a long queue, and one changed fact: the cycle looks at every head.
fn cycle_with_a_full_queue(scale: &Scale, classes: u32, owners: u32) -> (Duration, f64) {
    let mut core = pool(10, |_| 0.5, |_| 64.0);
    let before = IN_USE.load(Ordering::Relaxed);
    for start in (0..scale.jobs).step_by(10_000) {
        let batch = (start..start + 10_000)
            .map(|n| {
                let n = u32::try_from(n).unwrap();
                let class = n % classes;
                // None fits: each asks for 33 CPUs or more, 32 are free.
                let mut work = a_job(33.0 + f64::from(class) / 1000.0, &["linux"]);
                if owners > 1 {
                    work.owner = Owner::new(format!("owner-{}", n / classes % owners)).ok();
                }
                submission(&format!("job-{n:07}"), work)
            })
            .collect();
        let _ = core.handle(START, Input::Together(batch));
    }
    let bytes = (IN_USE.load(Ordering::Relaxed) - before) as f64 / scale.jobs as f64;
    assert_eq!(core.queues().map(|(_, len)| len as usize).sum::<usize>(), scale.jobs);
    let mut best = Duration::MAX;
    for round in 1..=20 {
        let now = START + Span(round);
        let poll = polled(now, 0, if round % 2 == 0 { 0.5 } else { 0.51 }, 64.0);
        let started = Instant::now();
        let out = black_box(core.handle(now, poll));
        best = best.min(started.elapsed());
        let cycle = out.cycle.expect("a fact changed: a cycle ran");
        let heads = (classes * owners).min(u32::try_from(scale.jobs).unwrap());
        assert_eq!((cycle.heads, cycle.placed), (heads, 0), "every head was looked at");
    }
    (best, bytes)
}

/// One full cycle over jobs of 100 shapes, of one owner and of a thousand.
fn cycles_by_owners(scale: &Scale) -> BTreeMap<String, f64> {
    let one = |owners: u32| {
        let ms = cycle_with_a_full_queue(scale, 100, owners).0.as_secs_f64() * 1000.0;
        println!("  {:<56} {:>14.4}", format!("100 shapes of {owners} owners wait"), ms);
        (owners.to_string(), ms)
    };
    BTreeMap::from([1, 1_000].map(one))
}

/// Many jobs through their whole life, in waves that fill the pool.
fn lifecycle_jobs_per_s(scale: &Scale) -> f64 {
    let mut core = pool(10, |_| 0.0, |_| 1000.0);
    let mut finished = 0;
    let started = Instant::now();
    for (wave, start) in (1..).zip((0..scale.jobs).step_by(5_000)) {
        // Long enough after the last wave for its jobs to be forgotten.
        let now = START + Span(Span::minutes(6).0 * wave);
        for n in 0..10 {
            let _ = core.handle(now, polled(now, n, 0.0, 1000.0));
        }
        let batch = (start..start + 5_000)
            .map(|n| submission(&format!("job-{n:07}"), a_job(1.0, &["linux"])))
            .collect();
        let mut out = core.handle(now, Input::Together(batch));
        while !out.effects.is_empty() {
            finished += out.effects.iter().filter(|effect| matches!(effect, Effect::Submit { .. })).count();
            out = live_through(&mut core, now, out.effects);
        }
    }
    let elapsed = started.elapsed();
    assert_eq!(finished, scale.jobs, "every job ran");
    scale.jobs as f64 / elapsed.as_secs_f64()
}

/// Accepted, seen running, seen succeeded. Returns what was dispatched meanwhile.
fn live_through(core: &mut Core, now: Timestamp, effects: Vec<Effect>) -> Output {
    let mut next = Output::default();
    let mut by_cluster: BTreeMap<ClusterName, Vec<Observation>> = BTreeMap::new();
    for effect in effects {
        let (run, cluster) = match effect {
            Effect::Submit { run, cluster } => (run, cluster),
            // For a job that ended long ago.
            Effect::Forget { .. } => continue,
            other => panic!("{other:?}"),
        };
        let outcome = DispatchOutcome::Accepted;
        let accepted = Input::Dispatched { run: run.clone(), outcome, took: Span::ZERO };
        next.effects.extend(core.handle(now, accepted).effects);
        by_cluster.entry(cluster).or_default().push(Observation {
            run,
            status: RunStatus::Running,
            ran: None,
        });
    }
    for status in [RunStatus::Running, RunStatus::Succeeded] {
        for (cluster, runs) in &by_cluster {
            let runs = runs.iter().map(|run| Observation { status: status.clone(), ..run.clone() }).collect();
            let incarnation = Some(Incarnation::new("session_1").unwrap());
            let seen = Input::Observed { cluster: cluster.clone(), incarnation, complete_at: None, runs };
            next.effects.extend(core.handle(now, seen).effects);
        }
    }
    next
}

fn pool(clusters: u32, used: impl Fn(u32) -> f64, cpus: impl Fn(u32) -> f64) -> Core {
    let mut settings = Settings { submission_interval: Span::ZERO, ..Settings::default() };
    (settings.max_queue, settings.retain_finished) = (u32::MAX, 10_000);
    // The limit on starting jobs is not measured here.
    settings.max_starting = Count::new(u32::MAX).unwrap();
    let mut core = Core::new(settings.clone()).unwrap();
    let specs = (0..clusters).map(cluster).collect();
    let _ = core.handle(START, Input::Reload { settings: Box::new(settings), clusters: specs });
    for n in 0..clusters {
        let _ = core.handle(START, polled(START, n, used(n), cpus(n)));
    }
    core
}

fn cluster(n: u32) -> ClusterSpec {
    let name = ClusterName::new(format!("cluster-{n}")).unwrap();
    ClusterSpec {
        prefer: n.is_multiple_of(7),
        weight: Weight::new(1.0 + f64::from(n % 3)).unwrap(),
        tags: Tags::new(["linux", "x86_64"]).unwrap(),
        ..ClusterSpec::new(name, "127.0.0.1:10001", "http://127.0.0.1:8265")
    }
}

fn polled(now: Timestamp, n: u32, used: f64, cpus: f64) -> Input {
    let amounts =
        |share: f64| Resources::from_amounts([("CPU", cpus * share), ("memory", 64e9 * share)]).unwrap();
    let snapshot = Snapshot {
        taken_at: now,
        total: amounts(1.0),
        used: amounts(used),
        physical: Load::default(),
        head: None,
        nodes: 4,
        shapes: Vec::new(),
        platform: Platform::default(),
        ray_version: "2.60.0".into(),
        python_version: Some("3.11.7".into()),
        incarnation: Some(Incarnation::new("session_1").unwrap()),
        autoscaler: None,
    };
    Input::Polled {
        cluster: ClusterName::new(format!("cluster-{n}")).unwrap(),
        snapshot: Box::new(snapshot),
        took: Span::ZERO,
    }
}

fn a_job(cpus: f64, tags: &[&str]) -> Work {
    let demand = Resources::from_amounts([("CPU", cpus)]).unwrap();
    Work { demand, tags: Tags::new(tags).unwrap(), ..Work::new(Kind::Job) }
}

fn submission(id: &str, work: Work) -> Input {
    let content = Some(ContentHash::of([id]));
    let id = Identity::Given(JobId::new(id).unwrap());
    Input::Submit(Submission { id, work, content, bytes: 0, parent: None })
}
