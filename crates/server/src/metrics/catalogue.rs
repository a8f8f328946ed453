//! Every metric there is. The page and `docs/metrics.md` are made of this.

use prometheus_client::{metrics::MetricType, registry::Unit};

/// One metric.
#[derive(Debug)]
pub(super) struct Metric {
    /// Without what the type and the unit add to it.
    pub(super) name: &'static str,
    pub(super) kind: MetricType,
    pub(super) unit: Option<Unit>,
    pub(super) labels: &'static [&'static str],
    pub(super) help: &'static str,
}

impl Metric {
    /// The name to ask Prometheus for.
    #[cfg(test)]
    pub(super) fn shown(&self) -> String {
        let unit = self.unit.as_ref().map_or(String::new(), |unit| format!("_{}", unit.as_str()));
        let end = match self.kind {
            MetricType::Counter => "_total",
            MetricType::Info => "_info",
            _ => "",
        };
        format!("{}{unit}{end}", self.name)
    }
}

macro_rules! metrics {
    ($($id:ident = $kind:ident $name:literal $([$unit:ident])? {$($label:literal),*} $help:literal;)+) => {
        $(pub(super) static $id: Metric = Metric {
            name: $name,
            kind: MetricType::$kind,
            unit: metrics!(@unit $($unit)?),
            labels: &[$($label),*],
            help: $help,
        };)+

        /// In the order of the page.
        #[cfg(test)]
        pub(super) static ALL: &[&Metric] = &[$(&$id),+];
    };
    (@unit) => { None };
    (@unit $unit:ident) => { Some(Unit::$unit) };
}

metrics! {
    BUILD = Info "multicluster_build" {"version"} "The program.";
    KNOWN = Gauge "multicluster_jobs_known" {} "Jobs, tasks and actors that are remembered, ended ones included.";
    ACCEPTED = Counter "multicluster_accepted" {"kind"} "Submissions accepted.";
    ENTERED = Counter "multicluster_state_changes" {"state"} "How often anything entered a state.";
    STARTED = Counter "multicluster_started" {"kind"} "Attempts that were seen running.";
    ENDED = Counter "multicluster_ended" {"kind", "cluster", "state"} "How jobs, tasks and actors ended. No cluster: stopped before one was chosen.";
    RUNS = Histogram "multicluster_run" [Seconds] {"kind", "cluster"} "From first seen running to the end, by attempt.";

    QUEUE = Gauge "multicluster_queue_length" {"queue", "cluster"} "How many wait: jobs, or tasks and actors. No cluster: the queue of those who ask for none.";
    WAITS = Histogram "multicluster_wait" [Seconds] {"kind", "cluster"} "From acceptance to the first dispatch, by the cluster that was chosen.";

    CYCLES = Counter "multicluster_cycles" {} "Scheduling cycles.";
    HEADS = Counter "multicluster_cycle_heads" {} "Equivalence classes with something to place, summed over cycles.";
    LOOKS = Counter "multicluster_cycle_looks" {} "How many of those got a full look; the others ask for more than anybody has.";
    DECISIONS = Counter "multicluster_decisions" {"outcome", "reason"} "Placements (placed), and clusters passed over (passed_over) for a head that was not placed, by reason.";
    PLACED = Counter "multicluster_placements" {"cluster"} "Placements by cluster.";
    DISPATCHES = Histogram "multicluster_dispatch" [Seconds] {"cluster", "outcome"} "Submit requests to clusters: how long, and what became of them.";

    CLUSTER = Info "multicluster_cluster" {"cluster", "ray_version", "source"} "The clusters of the pool.";
    HEALTHY = Gauge "multicluster_cluster_healthy" {"cluster"} "1 if it answers.";
    BREAKER = Gauge "multicluster_cluster_breaker_state" {"cluster", "state"} "1 for the state its circuit breaker is in: closed, open or half_open.";
    CORDONED = Gauge "multicluster_cluster_cordoned" {"cluster"} "1 if it takes nothing new: cordoned, draining or leaving.";
    NODES = Gauge "multicluster_cluster_nodes" {"cluster"} "Alive nodes.";
    AGE = Gauge "multicluster_cluster_facts_age" [Seconds] {"cluster"} "How old the latest facts are.";
    UTILIZATION = Gauge "multicluster_cluster_utilization_ratio" {"cluster", "resource", "measure"} "How much is in use, 0 to 1: logical is what Ray has promised to tasks and actors, physical is the load of the hosts.";
    CAPACITY = Gauge "multicluster_cluster_capacity" {"cluster", "resource"} "Ray's logical resources in all. CPU and GPU in units, memory in bytes.";
    USED = Gauge "multicluster_cluster_used" {"cluster", "resource"} "How much of them is in use, as Ray says.";
    PROMISED = Gauge "multicluster_cluster_promised" {"cluster", "resource"} "Promised by us, and not yet in what Ray says.";
    CLAIMED = Gauge "multicluster_cluster_claimed" {"cluster", "resource"} "What our running work needs, whatever it uses at the moment.";
    LIVE = Gauge "multicluster_cluster_live" {"cluster"} "Jobs, tasks and actors of ours on it.";
    TOP_LEVEL = Gauge "multicluster_cluster_top_level_jobs" {"cluster"} "How many of those are top-level jobs.";
    DRIVERS = Gauge "multicluster_cluster_drivers" {"cluster"} "How many have their driver on its head node.";
    MOST_DRIVERS = Gauge "multicluster_cluster_drivers_limit" {"cluster"} "How many drivers its head node has memory for. Absent: it does not tell.";
    STARTING = Gauge "multicluster_cluster_starting" {"cluster"} "Jobs on it that were not seen running yet.";
    MOST_STARTING = Gauge "multicluster_cluster_starting_limit" {"cluster"} "How many it may be starting at once: max_starting, or less while it does not cope.";
    CHANGES = Counter "multicluster_cluster_changes" {"cluster", "change"} "What happened to a cluster.";
    POLLS = Histogram "multicluster_poll" [Seconds] {"cluster", "outcome"} "Polls of clusters: how long, and whether they were answered or failed.";

    WRITABLE = Gauge "multicluster_store_writable" {} "1 if the state can be written. 0: new work is turned away (cannot_write), and after 30 s the process ends.";
    COMMITS = Histogram "multicluster_store_commit" [Seconds] {} "How long it took to make one transaction durable.";
    COMMIT_CHANGES = Histogram "multicluster_store_commit_changes" {} "Changes in one transaction.";

    API = Histogram "multicluster_api" [Seconds] {"route", "method", "status"} "Requests to us, until the answer began, by route, method and status class.";
    SHED = Counter "multicluster_shed" {"reason"} "Requests that were turned away, or connections closed, so that there is room for others.";
    TAILS = Gauge "multicluster_log_followers" {} "Logs being followed.";

    RESIDENT = Gauge "process_resident_memory" [Bytes] {} "Memory in use by the control plane.";
    CPU = Counter "process_cpu" [Seconds] {} "Processor time used by the control plane.";
    FDS = Gauge "process_open_fds" {} "Open files and connections.";
    THREADS = Gauge "process_threads" {} "Threads.";
}
