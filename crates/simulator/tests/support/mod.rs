//! Small pools and workloads for tests.

#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "only tests call these")]

use multicluster_simulator::{
    Capacities, Lab, Policy, Pool, Reading, Report, Spread, Study, Timing, Variant, Workload, simulate,
};
use multicluster_types::{ClusterName, ClusterSpec, Settings, Tags};

/// A pool of clusters given as `name=size`, or `name[tag]=size`. Everything reacts at once.
pub(crate) fn pool(clusters: &[&str]) -> Pool {
    let mut capacities = Capacities::default();
    let mut specs = Vec::new();
    for text in clusters {
        let (name, size) = text.split_once('=').unwrap();
        let (name, tags) = name.split_once('[').unwrap_or((name, ""));
        capacities.add(&format!("{name}={size}")).unwrap();
        specs.push(spec(name, tags.strip_suffix(']').unwrap_or_default()));
    }
    let (clusters, assumed) = capacities.apply(specs).unwrap();
    assert!(assumed.is_empty());
    Pool { settings: Settings::default(), clusters, timing: Timing::INSTANT }
}

fn spec(name: &str, tags: &str) -> ClusterSpec {
    let name = ClusterName::new(name).unwrap();
    let tags = Tags::new(tags.split_whitespace()).unwrap();
    ClusterSpec { tags, ..ClusterSpec::new(name, "127.0.0.1:10001", "http://127.0.0.1:8265") }
}

/// Changes as on the command line.
pub(crate) fn with(mut pool: Pool, changes: &str) -> Pool {
    changes.parse::<Variant>().unwrap().apply(&mut pool).unwrap();
    pool
}

pub(crate) fn workload(csv: &str) -> Workload {
    Workload::read(csv.as_bytes(), "test.csv").unwrap()
}

pub(crate) fn run(pool: &Pool, csv: &str) -> Report {
    simulate(pool, &workload(csv)).unwrap()
}

/// A lab of clusters given as `name=size`, where sizes may be nodes: `a=2*8gpu`. Everything reacts at
/// once, and nothing is spaced or held back by a threshold.
pub(crate) fn lab(clusters: &[&str]) -> Lab {
    let mut pool = pool(clusters);
    let mut capacities = Capacities::default();
    for text in clusters {
        capacities.add(text).unwrap();
    }
    let nodes = capacities.nodes(&pool.clusters);
    pool = with(pool, "resource_threshold=1.0 submission_interval=0s");
    Lab { pool, nodes }
}

/// Reads CSV; jobs may use several nodes unless they say otherwise.
pub(crate) fn spread(csv: &str) -> Workload {
    let reading = Reading { spread: Some(Spread::default()), ..Reading::default() };
    reading.read(std::io::Cursor::new(csv.to_owned()), "test.csv").unwrap().workload
}

/// One run under a policy: `ours`, or as `--compare` takes it.
pub(crate) fn study(lab: &Lab, policy: &str, csv: &str) -> Study {
    let policy = if policy == "ours" { Policy::AsConfigured } else { policy.parse().unwrap() };
    lab.run(&policy, &spread(csv)).unwrap()
}

/// The mean wait of each owner: tests give each job an owner of its own to see its wait.
pub(crate) fn waits(study: &Study) -> Vec<(String, f64)> {
    study.quality.owners.iter().map(|owner| (owner.owner.to_string(), owner.wait_s.mean)).collect()
}
