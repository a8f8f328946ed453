//! Replicas on PostgreSQL, and SQLite beside them in the same run.

use std::{
    io::Write,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    NOWHERE, PER_BATCH, Scale, load,
    plane::{Plane, folder},
};

/// A server of our own, with durable commits.
struct Postgres {
    dir: PathBuf,
    port: u16,
}

impl Postgres {
    fn start() -> Self {
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
        // Where another user can reach it: PostgreSQL does not run as root.
        let dir = std::env::temp_dir().join(format!("bench-postgres-{}", std::process::id()));
        let server = Self { dir, port };
        server.script("start", &[&port.to_string()]);
        server
    }

    fn script(&self, verb: &str, more: &[&str]) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/postgres");
        let status = Command::new(script).arg(verb).arg(&self.dir).args(more).status();
        assert!(status.is_ok_and(|status| status.success()), "scripts/postgres {verb}");
    }

    /// The URL of a new database.
    fn database(&self, name: &str) -> String {
        let bin = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/postgres"))
            .arg("bin")
            .output();
        let bin = String::from_utf8(bin.expect("scripts/postgres").stdout).expect("a path");
        let port = self.port.to_string();
        let arguments = ["-h", "127.0.0.1", "-p", &port, "-U", "postgres", name];
        let status = Command::new(Path::new(bin.trim()).join("createdb")).args(arguments).status();
        assert!(status.is_ok_and(|status| status.success()), "a database");
        format!("postgres://postgres@127.0.0.1:{}/{name}", self.port)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.script("stop", &[]);
        drop(std::fs::remove_dir_all(&self.dir));
    }
}

fn replica(url: &str) -> Plane {
    Plane::start_with(&[NOWHERE.into()], &folder("replica"), &["--store", url])
}

pub(crate) fn measure(runtime: &tokio::runtime::Runtime, scale: &Scale) -> Value {
    let server = Postgres::start();
    let mut figures = serde_json::Map::new();
    for store in ["sqlite", "postgres"] {
        let url = (store == "postgres").then(|| server.database("accepts"));
        let start = || match &url {
            Some(url) => replica(url),
            None => Plane::start(&[NOWHERE.into()], &folder("sqlite")),
        };
        let plane = start();
        let (single, batch) = (singles(runtime, scale, &plane), batches(runtime, scale, &plane));
        plane.kill();
        figures.insert(store.to_owned(), json!({ "single": single, "batch": batch }));
    }
    figures.insert("takeover".to_owned(), takeover(runtime, scale, &server.database("takeover")));
    Value::Object(figures)
}

fn singles(runtime: &tokio::runtime::Runtime, scale: &Scale, plane: &Plane) -> Value {
    let body = |n: usize| format!(r#"{{"entrypoint":"python train.py --fold {n}"}}"#);
    let measured = runtime.block_on(load::run(plane.address, 64, scale.singles, "/v1/jobs", &body));
    json!({
        "accepts_per_second": measured.per_second().round(), "p50_ms": measured.percentile(50.0),
        "p99_ms": measured.percentile(99.0), "requests": scale.singles,
    })
}

fn batches(runtime: &tokio::runtime::Runtime, scale: &Scale, plane: &Plane) -> Value {
    let bodies: Vec<_> = (0..scale.batches).map(|n| a_batch(n + scale.singles, PER_BATCH)).collect();
    let measured = runtime
        .block_on(load::run(plane.address, 4, scale.batches, "/v1/jobs/batch", &|n| bodies[n].clone()));
    json!({ "accepts_per_second": (measured.per_second() * PER_BATCH as f64).round(), "jobs": scale.batches * PER_BATCH })
}

fn a_batch(number: usize, size: usize) -> String {
    let job = |n: usize| format!(r#"{{"entrypoint":"python train.py --fold {}"}}"#, number * size + n);
    format!(r#"{{"jobs":[{}]}}"#, (0..size).map(job).collect::<Vec<_>>().join(","))
}

/// A hundred thousand queued jobs: how long nobody accepts when their leader is killed, and when it
/// hands over. And what a replica costs that stands by.
fn takeover(runtime: &tokio::runtime::Runtime, scale: &Scale, url: &str) -> Value {
    let first = replica(url);
    let body = |n: usize| a_batch(n, 1000);
    runtime.block_on(load::run(first.address, 2, scale.queued / 1000, "/v1/jobs/batch", &body));
    let second = replica(url);
    let before = second.usage();
    sleep(scale.idle);
    let idle = (second.usage().cpu_seconds - before.cpu_seconds) / scale.idle.as_secs_f64() * 100.0;
    first.kill();
    let after_kill = until_accepted(runtime, &second);
    let third = replica(url);
    second.tell_to_end();
    let after_hand_over = until_accepted(runtime, &third);
    second.kill();
    third.kill();
    json!({
        "queued": scale.queued, "seconds_after_kill": after_kill, "seconds_after_hand_over": after_hand_over,
        "follower_percent_of_one_core": idle,
    })
}

fn until_accepted(runtime: &tokio::runtime::Runtime, plane: &Plane) -> f64 {
    let started = Instant::now();
    let body = |_: usize| r#"{"entrypoint":"python next.py"}"#.to_owned();
    // It is held until there is a leader.
    runtime.block_on(load::run(plane.address, 1, 1, "/v1/jobs", &body));
    drop(std::io::stdout().flush());
    started.elapsed().max(Duration::from_micros(1)).as_secs_f64()
}
