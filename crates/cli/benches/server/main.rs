//! Throughput, memory and CPU cost of the control plane. Measures the real program over HTTP and
//! writes `target/bench/server.json`; of replicas, SQLite beside them, `target/bench/postgres.json`. Without `--bench`, which `cargo bench` passes and
//! `cargo test` does not, everything runs once with few jobs and nothing is written.
//!
//! `cargo bench -p multicluster-cli --bench server [-- PART…]`, parts: disk, single, batch, restart, fleet,
//! postgres.

mod load;
mod plane;
mod replicas;

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::Path,
    time::{Duration, Instant},
};

use multicluster_testkit::FakeFleet;
use plane::Plane;
use serde_json::{Value, json};

/// A cluster address without a server: everything stays queued.
const NOWHERE: &str = "http://127.0.0.1:1";
const PER_BATCH: usize = 2_000;

/// The sizes of the benchmarks.
struct Scale {
    singles: usize,
    batches: usize,
    queued: usize,
    clusters: usize,
    /// How long it runs with nothing but polls.
    idle: Duration,
}

const FULL: Scale =
    Scale { singles: 60_000, batches: 100, queued: 100_000, clusters: 100, idle: Duration::from_secs(30) };
const QUICK: Scale =
    Scale { singles: 400, batches: 2, queued: 2_000, clusters: 5, idle: Duration::from_secs(1) };

type Part = fn(&tokio::runtime::Runtime, &Scale) -> Value;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let scale = if is_bench { FULL } else { QUICK };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let parts: [(&str, Part); 6] = [
        ("disk", disk),
        ("single", single),
        ("batch", batch),
        ("restart", restart),
        ("fleet", fleet),
        ("postgres", replicas::measure),
    ];
    let mut results = BTreeMap::new();
    for (name, part) in parts {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            let result = part(&runtime, &scale);
            println!("{name}: {result:#}");
            results.insert(name, result);
        }
    }
    if !is_bench {
        return;
    }
    if let Some(figures) = results.remove("postgres") {
        keep("postgres", figures.as_object().cloned().unwrap_or_default());
    }
    keep("server", results.into_iter().map(|(name, result)| (name.to_owned(), result)));
}

fn keep(name: &str, results: impl IntoIterator<Item = (String, Value)>) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../target/bench/{name}.json"));
    fs::create_dir_all(file.parent().expect("a folder")).expect("target/bench");
    // Other parts of the file stay: they come from other runs.
    let mut all: BTreeMap<String, Value> =
        fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    all.extend(results);
    fs::write(&file, serde_json::to_string_pretty(&all).expect("plain data"))
        .expect("target/bench is writable");
    println!("written to {}", file.display());
}

/// The speed of the disk itself: one small append made durable at a time.
fn disk(_: &tokio::runtime::Runtime, scale: &Scale) -> Value {
    let folder = plane::folder("disk");
    let mut file = fs::File::create(folder.join("log")).expect("a file");
    let started = Instant::now();
    let mut syncs = 0u32;
    while started.elapsed() < scale.idle / 15 {
        file.write_all(&[7; 4096]).and_then(|()| file.sync_data()).expect("a disk");
        syncs += 1;
    }
    let each = started.elapsed().as_secs_f64() / f64::from(syncs);
    drop(fs::remove_dir_all(folder));
    json!({ "syncs_per_second": (1.0 / each).round(), "milliseconds_each": each * 1e3 })
}

/// One request per job, 64 clients at once, each answer durable.
fn single(runtime: &tokio::runtime::Runtime, scale: &Scale) -> Value {
    let mut results = BTreeMap::new();
    for (name, path, clients) in [
        ("native_64_clients", "/v1/jobs", 64),
        ("native_256_clients", "/v1/jobs", 256),
        ("ray_jobs_api_64_clients", "/api/jobs/", 64),
        ("native_1_client", "/v1/jobs", 1),
    ] {
        let plane = Plane::start(&[NOWHERE.into()], &plane::folder("single"));
        let requests = if clients == 1 { scale.singles / 20 } else { scale.singles };
        let body = |n: usize| format!(r#"{{"entrypoint":"python train.py --fold {n}"}}"#);
        let measured = runtime.block_on(load::run(plane.address, clients, requests, path, &body));
        let usage = plane.usage();
        results.insert(
            name,
            json!({
                "accepts_per_second": measured.per_second().round(), "p50_ms": measured.percentile(50.0),
                "p99_ms": measured.percentile(99.0), "requests": requests,
                "server_cpu_us_per_accept": (usage.cpu_seconds / requests as f64 * 1e6).round(),
            }),
        );
        plane.kill();
    }
    json!(results)
}

/// Many jobs per request.
fn batch(runtime: &tokio::runtime::Runtime, scale: &Scale) -> Value {
    let plane = Plane::start(&[NOWHERE.into()], &plane::folder("batch"));
    let body = |n: usize| {
        let jobs: Vec<_> = (0..PER_BATCH)
            .map(|i| format!(r#"{{"entrypoint":"python train.py --fold {}"}}"#, n * PER_BATCH + i))
            .collect();
        format!(r#"{{"jobs":[{}]}}"#, jobs.join(","))
    };
    let bodies: Vec<_> = (0..scale.batches).map(body).collect();
    let measured = runtime
        .block_on(load::run(plane.address, 4, scale.batches, "/v1/jobs/batch", &|n| bodies[n].clone()));
    let (jobs, usage) = ((scale.batches * PER_BATCH) as f64, plane.usage());
    let result = json!({
        "accepts_per_second": (measured.per_second() * PER_BATCH as f64).round(), "jobs": jobs,
        "p50_ms": measured.percentile(50.0), "server_rss_mb": usage.rss_mb,
        "server_cpu_us_per_accept": (usage.cpu_seconds / jobs * 1e6).round(),
    });
    plane.kill();
    result
}

/// A hundred thousand queued jobs, `kill -9`, and a restart.
fn restart(runtime: &tokio::runtime::Runtime, scale: &Scale) -> Value {
    let folder = plane::folder("restart");
    let plane = Plane::start(&[NOWHERE.into()], &folder);
    let body = |n: usize| {
        let jobs: Vec<_> = (0..1000)
            .map(|i| format!(r#"{{"entrypoint":"python train.py --fold {}"}}"#, n * 1000 + i))
            .collect();
        format!(r#"{{"jobs":[{}]}}"#, jobs.join(","))
    };
    runtime.block_on(load::run(plane.address, 2, scale.queued / 1000, "/v1/jobs/batch", &body));
    plane.kill_and_keep();
    let started = Instant::now();
    let plane = Plane::start(&[NOWHERE.into()], &folder);
    let ready = started.elapsed().as_secs_f64();
    assert!(plane.ready_line.contains(&format!("{} jobs", scale.queued)), "{}", plane.ready_line);
    let usage = plane.usage();
    plane.kill();
    json!({ "queued": scale.queued, "seconds_to_ready": ready, "server_rss_mb": usage.rss_mb })
}

/// A hundred clusters, polled every five seconds, nothing else to do.
fn fleet(runtime: &tokio::runtime::Runtime, scale: &Scale) -> Value {
    let fleet = runtime.block_on(FakeFleet::start(scale.clusters));
    let urls: Vec<_> = fleet.clusters().iter().map(multicluster_testkit::FakeRay::url).collect();
    let plane = Plane::start(&urls, &plane::folder("fleet"));
    std::thread::sleep(scale.idle / 4);
    let (before, asked) = (plane.usage(), polls(&fleet));
    std::thread::sleep(scale.idle);
    let after = plane.usage();
    let result = json!({
        "clusters": scale.clusters, "polls_per_second": (polls(&fleet) - asked) as f64 / scale.idle.as_secs_f64(),
        "cpu_percent_of_one_core": (after.cpu_seconds - before.cpu_seconds) / scale.idle.as_secs_f64() * 100.0,
        "rss_mb": after.rss_mb,
    });
    plane.kill();
    result
}

fn polls(fleet: &FakeFleet) -> u64 {
    fleet.clusters().iter().map(|fake| fake.request_count(multicluster_testkit::Endpoint::Nodes)).sum()
}
