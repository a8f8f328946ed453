//! Small pools and workloads for tests.

#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "only tests call these")]

use multicluster_simulator::{Capacities, Pool, Report, Timing, Variant, Workload, simulate};
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
