//! Measures memory and disk over time, and whether they grow.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use multicluster_core::Core;
use rusqlite::{Connection, OpenFlags};
use serde_json::json;

use super::{people::Answers, world::World};

/// The gauges, and how much more each may be in the last quarter than in the second: a share of
/// itself, plus a constant.
const GAUGES: [(&str, f64, f64); 9] = [
    ("memory MiB", 0.05, 4.0),
    ("open files", 0.10, 10.0),
    ("threads", 0.5, 8.0),
    ("state.db MiB", 0.05, 2.0),
    // The file keeps its largest size; beyond 64 MiB the writer checkpoints it itself.
    ("wal MiB", 0.0, 72.0),
    ("rows", 0.05, 200.0),
    ("jobs", 0.05, 50.0),
    ("queued", 0.10, 50.0),
    ("on clusters", 0.10, 50.0),
];

type Sample = [f64; GAUGES.len()];

pub(super) struct Gauges {
    seconds: Vec<u64>,
    samples: Vec<Sample>,
    /// Rows by table in the last sample.
    tables: BTreeMap<String, u32>,
    database: Connection,
    started: Instant,
}

impl Gauges {
    pub(super) fn new(world: &World) -> Self {
        let path = world.state.join("state.db");
        let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let names: Vec<_> = GAUGES.iter().map(|(name, ..)| format!("{name:>12}")).collect();
        println!("{:>8} {}", "hour", names.join(" "));
        let (seconds, samples, tables) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self { seconds, samples, tables, database, started: Instant::now() }
    }

    pub(super) async fn sample(&mut self, world: &World, second: u64) {
        world.fakes.iter().for_each(multicluster_testkit::FakeRay::forget_the_past);
        self.tables = self.rows();
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let number = |key: &str| -> f64 {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            line.split_whitespace().next().unwrap().parse().unwrap()
        };
        let look = |core: &Core| {
            let queued: u32 = core.queues().map(|(_, length)| length).sum();
            (core.job_count(), queued, core.clusters().map(|cluster| cluster.live).sum::<usize>())
        };
        let (jobs, queued, live) = world.plane.driver.read(look).await.unwrap();
        let sample = [
            number("RssAnon:") / 1024.0,
            fs::read_dir("/proc/self/fd").unwrap().count() as f64,
            number("Threads:"),
            mebibytes(&world.state.join("state.db")),
            mebibytes(&world.state.join("state.db-wal")),
            self.tables.values().copied().map(f64::from).sum(),
            jobs as f64,
            f64::from(queued),
            live as f64,
        ];
        self.seconds.push(second);
        self.samples.push(sample);
        if self.samples.len().is_multiple_of(4) {
            let shown: Vec<_> = sample.iter().map(|value| format!("{value:>12.1}")).collect();
            println!("{:>8.2} {}", second as f64 / 3600.0, shown.join(" "));
        }
    }

    fn rows(&self) -> BTreeMap<String, u32> {
        let mut tables =
            self.database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").unwrap();
        let names = tables.query_map([], |row| row.get::<_, String>(0)).unwrap();
        // Kept for a month, by age: the store's conformance suite has their bounds.
        let names = names.filter(|name| name.as_ref().is_ok_and(|name| name != "samples" && name != "runs"));
        let count = |name: String| {
            let rows =
                self.database.query_row(&format!("SELECT count(*) FROM \"{name}\""), [], |row| row.get(0));
            (name, rows.unwrap())
        };
        names.map(|name| count(name.unwrap())).collect()
    }

    /// Prints the result, and writes it to `target/bench/soak.json`.
    pub(super) fn report(&self, seconds: u64, answers: Answers) {
        let (hours, took) = (seconds as f64 / 3600.0, self.started.elapsed().as_secs_f64());
        println!("\n{hours} simulated hours in {took:.0} s");
        println!("\n{:>14} {:>12} {:>12}", "mean", "2nd quarter", "last quarter");
        for ((name, ..), (before, after)) in GAUGES.iter().zip(quarters(&self.samples)) {
            println!("{name:>14} {before:>12.1} {after:>12.1}");
        }
        println!("\nrows at the end: {:?}", self.tables);
        println!("answers: {answers:?}");
        let named = |sample: &Sample| -> BTreeMap<&str, f64> {
            GAUGES.iter().map(|(name, ..)| *name).zip(sample.iter().copied()).collect()
        };
        let answers = answers.into_iter().map(|((what, status), count)| json!([what, status, count]));
        let told = json!({
            "hours": hours,
            "took_seconds": took,
            "rows": self.tables,
            "answers": answers.collect::<Vec<_>>(),
            "seconds": self.seconds,
            "samples": self.samples.iter().map(named).collect::<Vec<_>>(),
        });
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("soak.json"), format!("{told:#}\n")).unwrap();
    }

    pub(super) fn check(&self) {
        let grown = grown(&self.samples);
        assert!(grown.is_empty(), "what grows: {grown:#?}");
    }
}

/// The gauges that grew more than they may.
fn grown(samples: &[Sample]) -> Vec<String> {
    let each = GAUGES.iter().zip(quarters(samples));
    each.filter(|((_, share, some), (before, after))| *after > before * (1.0 + share) + some)
        .map(|((name, ..), (before, after))| format!("{name}: {before:.1} became {after:.1}"))
        .collect()
}

/// The mean of each gauge in the second and in the last quarter.
fn quarters(samples: &[Sample]) -> [(f64, f64); GAUGES.len()] {
    let quarter = samples.len() / 4;
    let mean = |from: usize, gauge: usize| {
        samples[from..from + quarter].iter().map(|sample| sample[gauge]).sum::<f64>() / quarter as f64
    };
    std::array::from_fn(|gauge| (mean(quarter, gauge), mean(3 * quarter, gauge)))
}

fn mebibytes(file: &Path) -> f64 {
    fs::metadata(file).map_or(0.0, |metadata| metadata.len() as f64 / f64::from(1 << 20))
}

#[test]
fn what_wobbles_does_not_grow_and_what_grows_is_named() {
    let wobbles = |n: u32| f64::from(1000 + n % 7);
    let flat: Vec<Sample> = (0..96).map(|n| [wobbles(n); GAUGES.len()]).collect();
    assert_eq!(grown(&flat), [""; 0]);
    for (gauge, (name, ..)) in GAUGES.iter().enumerate() {
        let mut leaks = flat.clone();
        leaks.iter_mut().zip(0..96).for_each(|(sample, n)| sample[gauge] += f64::from(n * n));
        let found = grown(&leaks);
        assert!(found.len() == 1 && found[0].starts_with(name), "{name}: {found:?}");
    }
}
