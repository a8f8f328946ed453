//! Where the numbers are kept.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, OnceLock},
};

use http::Method;
use multicluster_core::ClusterChange;
use multicluster_types::{ClusterChangeKind, ClusterName, Kind, ReasonKind, State};
use parking_lot::{Mutex, RwLock};
use prometheus_client::metrics::{counter::Counter, gauge::Gauge, histogram::Histogram};

use super::{
    lead::{Forwarded, Led},
    shed::Shed,
};

/// More routes than our router has. If paths were passed instead of templates, the excess would be
/// counted together.
const MAX_ROUTES: usize = 256;

/// Buckets in seconds, from a millisecond to a minute: requests.
const REQUEST: [f64; 13] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];
/// Buckets in seconds, from a twentieth of a millisecond to half a minute: disks.
const DISK: [f64; 13] =
    [0.00005, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.0, 30.0];
/// Buckets of changes in one transaction.
const CHANGES: [f64; 9] = [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 5000.0, 20_000.0];
/// Buckets in seconds, from a tenth of a second to a day: waiting and running.
const LIFE: [f64; 14] =
    [0.1, 0.5, 1.0, 5.0, 15.0, 40.0, 120.0, 300.0, 900.0, 1800.0, 3600.0, 14_400.0, 43_200.0, 86_400.0];

/// The final states of work.
pub(super) const ENDS: [State; 3] = [State::Succeeded, State::Failed, State::Stopped];
/// Methods with a label of their own.
pub(super) const METHODS: [&str; 6] = ["GET", "POST", "PUT", "DELETE", "PATCH", "other"];
/// Status classes; the first is for all other statuses.
pub(super) const CLASSES: [&str; 6] = ["other", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// All counters, gauges and histograms.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) accepted: [Counter; Kind::ALL.len()],
    pub(super) entered: [Counter; State::ALL.len()],
    pub(super) started: [Counter; Kind::ALL.len()],
    pub(super) impossible: Counter,
    pub(super) cycles: Counter,
    pub(super) heads: Counter,
    pub(super) looks: Counter,
    pub(super) placed: Counter,
    pub(super) passed_over: [Counter; ReasonKind::ALL.len()],
    pub(super) commit: Histogram,
    pub(super) commit_changes: Histogram,
    pub(super) shed: [Counter; Shed::ALL.len()],
    pub(super) led: [Counter; Led::ALL.len()],
    pub(super) forwarded: [Counter; Forwarded::ALL.len()],
    pub(super) held: Gauge,
    pub(super) traces_sent: Counter,
    pub(super) traces_dropped: Counter,
    pub(super) tails: Gauge,
    /// For work that ended before a cluster was chosen.
    pub(super) nowhere: Cluster,
    clusters: RwLock<HashMap<ClusterName, Arc<Cluster>>>,
    routes: RwLock<HashMap<Arc<str>, Arc<Route>>>,
}

impl Default for Series {
    fn default() -> Self {
        Self {
            accepted: Default::default(),
            entered: Default::default(),
            started: Default::default(),
            impossible: Counter::default(),
            cycles: Counter::default(),
            heads: Counter::default(),
            looks: Counter::default(),
            placed: Counter::default(),
            passed_over: Default::default(),
            commit: Histogram::new(DISK),
            commit_changes: Histogram::new(CHANGES),
            shed: Default::default(),
            led: Default::default(),
            forwarded: Default::default(),
            held: Gauge::default(),
            traces_sent: Counter::default(),
            traces_dropped: Counter::default(),
            tails: Gauge::default(),
            nowhere: Cluster::default(),
            clusters: RwLock::default(),
            routes: RwLock::default(),
        }
    }
}

impl Series {
    /// Counts something about one cluster.
    pub(super) fn cluster<T>(&self, name: &ClusterName, count: impl FnOnce(&Cluster) -> T) {
        let known = self.clusters.read().get(name).cloned();
        let cluster = known.unwrap_or_else(|| {
            let mut clusters = self.clusters.write();
            Arc::clone(clusters.entry(name.clone()).or_default())
        });
        count(&cluster);
    }

    /// The state of a cluster changed. The counters of a removed cluster are removed with it:
    /// otherwise a pool whose clusters come and go would grow forever.
    pub(super) fn changed(&self, name: &ClusterName, change: &ClusterChange) {
        if *change == ClusterChange::Removed {
            self.clusters.write().remove(name);
        } else {
            self.cluster(name, |cluster| cluster.changes[change.kind() as usize].inc());
        }
    }

    /// A request was answered.
    pub(super) fn api(&self, template: &str, method: &Method, status: u16, seconds: f64) {
        let known = self.routes.read().get(template).cloned();
        let route = known.unwrap_or_else(|| {
            let mut routes = self.routes.write();
            let name = if routes.len() < MAX_ROUTES { template } else { "more" };
            Arc::clone(routes.entry(name.into()).or_default())
        });
        let method = METHODS.iter().position(|m| *m == method.as_str()).unwrap_or(METHODS.len() - 1);
        let class = usize::from(status / 100);
        let class = if class < CLASSES.len() { class } else { 0 };
        route.0[method][class].get_or_init(|| Histogram::new(REQUEST)).observe(seconds);
    }

    /// Every cluster with counters, by name.
    pub(super) fn clusters(&self) -> BTreeMap<ClusterName, Arc<Cluster>> {
        let clusters = self.clusters.read();
        clusters.iter().map(|(name, cluster)| (name.clone(), Arc::clone(cluster))).collect()
    }

    /// Every route that was used, by name.
    pub(super) fn routes(&self) -> BTreeMap<Arc<str>, Arc<Route>> {
        let routes = self.routes.read();
        routes.iter().map(|(name, route)| (Arc::clone(name), Arc::clone(route))).collect()
    }
}

/// The counters of one cluster. Histograms are created when they are first needed.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    pub(super) placed: Counter,
    pub(super) waits: [OnceLock<Histogram>; Kind::ALL.len()],
    pub(super) runs: [OnceLock<Histogram>; Kind::ALL.len()],
    pub(super) ends: [[Counter; ENDS.len()]; Kind::ALL.len()],
    pub(super) polls: [OnceLock<Histogram>; 2],
    pub(super) changes: [Counter; ClusterChangeKind::ALL.len()],
    dispatches: Mutex<BTreeMap<&'static str, Histogram>>,
}

impl Cluster {
    pub(super) fn waited(&self, kind: Kind, seconds: f64) {
        self.waits[kind as usize].get_or_init(|| Histogram::new(LIFE)).observe(seconds);
    }

    pub(super) fn ran(&self, kind: Kind, seconds: f64) {
        self.runs[kind as usize].get_or_init(|| Histogram::new(LIFE)).observe(seconds);
    }

    pub(super) fn ended(&self, kind: Kind, state: State) {
        if let Some(end) = ENDS.iter().position(|end| *end == state) {
            self.ends[kind as usize][end].inc();
        }
    }

    pub(super) fn dispatched(&self, outcome: &'static str, seconds: f64) {
        let mut dispatches = self.dispatches.lock();
        dispatches.entry(outcome).or_insert_with(|| Histogram::new(REQUEST)).observe(seconds);
    }

    pub(super) fn polled(&self, answered: bool, seconds: f64) {
        self.polls[usize::from(answered)].get_or_init(|| Histogram::new(REQUEST)).observe(seconds);
    }

    pub(super) fn dispatches(&self) -> BTreeMap<&'static str, Histogram> {
        self.dispatches.lock().clone()
    }
}

/// The histograms of one route: by method, then by status class.
#[derive(Debug, Default)]
pub(super) struct Route(pub(super) [[OnceLock<Histogram>; CLASSES.len()]; METHODS.len()]);
