//! Every metric. The page and `docs/metrics.md` are generated from this.

use prometheus_client::{metrics::MetricType, registry::Unit};

/// One metric.
#[derive(Debug)]
pub(super) struct Metric {
    /// Without the suffixes for type and unit.
    pub(super) name: &'static str,
    pub(super) kind: MetricType,
    pub(super) unit: Option<Unit>,
    pub(super) labels: &'static [&'static str],
    pub(super) help: &'static str,
}

impl Metric {
    /// The full name, as Prometheus shows it.
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
    BUILD = Info "multicluster_build" {"version"} "The version of the program.";
    KNOWN = Gauge "multicluster_jobs_known" {} "Jobs, tasks and actors that are remembered, ended ones included.";
    ACCEPTED = Counter "multicluster_accepted" {"kind"} "Submissions accepted.";
    ENTERED = Counter "multicluster_state_changes" {"state"} "Jobs, tasks and actors that entered a state.";
    STARTED = Counter "multicluster_started" {"kind"} "Attempts that were seen running.";
    ENDED = Counter "multicluster_ended" {"kind", "cluster", "state"} "How jobs, tasks and actors ended. No cluster: stopped before one was chosen.";
    RUNS = Histogram "multicluster_run" [Seconds] {"kind", "cluster"} "From first seen running to the end, by attempt.";

    QUEUE = Gauge "multicluster_queue_length" {"queue", "cluster"} "Queued jobs, or queued tasks and actors. No cluster: those that name none.";
    WAITS = Histogram "multicluster_wait" [Seconds] {"kind", "cluster"} "From acceptance to the first dispatch, by the cluster that was chosen.";

    OWNER_SHARE = Gauge "multicluster_owner_share_ratio" {"owner", "measure"} "The share of the pool of an owner or group, 0 to 1: entitled by its weight, had on average over the half-life, holds now. The 50 owners that hold, queue and had the most; the rest summed as (other). No owner: work without one. Only for callers that may see all work.";
    OWNER_QUEUED = Gauge "multicluster_owner_queued" {"owner"} "Queued jobs, tasks and actors of an owner or group; for the same owners.";

    IMPOSSIBLE = Counter "multicluster_impossible_transitions" {} "Changes of a job that the scheduler tried and did not make, because its state has no such transition. Each is a bug; please report it.";
    CYCLES = Counter "multicluster_cycles" {} "Scheduling cycles.";
    HEADS = Counter "multicluster_cycle_heads" {} "Equivalence classes with something to place, summed over cycles.";
    LOOKS = Counter "multicluster_cycle_looks" {} "How many of those got a full look; the others ask for more than any cluster has.";
    DECISIONS = Counter "multicluster_decisions" {"outcome", "reason"} "Placements (placed), and clusters passed over (passed_over) for a head that was not placed, by reason.";
    PLACED = Counter "multicluster_placements" {"cluster"} "Placements by cluster.";
    DISPATCHES = Histogram "multicluster_dispatch" [Seconds] {"cluster", "outcome"} "Submit requests to clusters: how long they took, and their outcome.";

    CLUSTER = Info "multicluster_cluster" {"cluster", "ray_version", "source"} "The clusters of the pool.";
    HEALTHY = Gauge "multicluster_cluster_healthy" {"cluster"} "1 if the cluster answers.";
    BREAKER = Gauge "multicluster_cluster_breaker_state" {"cluster", "state"} "1 for the state its circuit breaker is in: closed, open or half_open.";
    CORDONED = Gauge "multicluster_cluster_cordoned" {"cluster"} "1 if the cluster accepts no new work: cordoned, draining or leaving.";
    NODES = Gauge "multicluster_cluster_nodes" {"cluster"} "Alive nodes.";
    CAN_ADD = Gauge "multicluster_cluster_can_add_nodes" {"cluster"} "How many nodes an elastic cluster can still add; none beyond what it had, while it does not grow.";
    COMING = Gauge "multicluster_cluster_nodes_pending" {"cluster"} "Nodes that the autoscaler of an elastic cluster has requested and that are not there yet.";
    WAIT_FOR_NODES = Gauge "multicluster_cluster_waiting_for_nodes" {"cluster"} "Jobs, tasks and actors that were sent to an elastic cluster and wait for nodes.";
    STUCK = Gauge "multicluster_cluster_stuck" {"cluster"} "1 if an elastic cluster was asked to grow and did not.";
    AGE = Gauge "multicluster_cluster_facts_age" [Seconds] {"cluster"} "How old the latest facts are.";
    UTILIZATION = Gauge "multicluster_cluster_utilization_ratio" {"cluster", "resource", "measure"} "How much is in use, 0 to 1: logical is what Ray has promised to tasks and actors, physical is the load of the hosts.";
    CAPACITY = Gauge "multicluster_cluster_capacity" {"cluster", "resource"} "Ray's logical resources in all. CPU and GPU in units, memory in bytes.";
    USED = Gauge "multicluster_cluster_used" {"cluster", "resource"} "How much of them is in use, as Ray reports it.";
    PROMISED = Gauge "multicluster_cluster_promised" {"cluster", "resource"} "Promised by the scheduler, and not yet reported by Ray.";
    CLAIMED = Gauge "multicluster_cluster_claimed" {"cluster", "resource"} "What the scheduler's running work needs, whatever it uses now.";
    LIVE = Gauge "multicluster_cluster_live" {"cluster"} "Jobs, tasks and actors that the scheduler has on the cluster.";
    TOP_LEVEL = Gauge "multicluster_cluster_top_level_jobs" {"cluster"} "How many of those are top-level jobs.";
    DRIVERS = Gauge "multicluster_cluster_drivers" {"cluster"} "How many jobs have their driver on the head node.";
    MOST_DRIVERS = Gauge "multicluster_cluster_drivers_limit" {"cluster"} "How many drivers the head node has memory for. Absent if unknown.";
    STARTING = Gauge "multicluster_cluster_starting" {"cluster"} "Jobs on the cluster that were not seen running yet.";
    MOST_STARTING = Gauge "multicluster_cluster_starting_limit" {"cluster"} "How many jobs the cluster may be starting at once: max_starting, or fewer while it is slow or fails.";
    CHANGES = Counter "multicluster_cluster_changes" {"cluster", "change"} "What happened to a cluster.";
    POLLS = Histogram "multicluster_poll" [Seconds] {"cluster", "outcome"} "Polls of clusters: how long they took, and whether they were answered or failed.";

    WRITABLE = Gauge "multicluster_store_writable" {} "1 if new work can be stored. 0: it is refused (cannot_write); if commits fail for 30 s, the process exits, or the replica stops to lead.";
    COMMITS = Histogram "multicluster_store_commit" [Seconds] {} "How long it took to make one transaction durable.";
    COMMIT_CHANGES = Histogram "multicluster_store_commit_changes" {} "Changes in one transaction.";

    LEADER = Gauge "multicluster_leader" {} "1 if this process decides: it is the leader, or the only one.";
    EPOCH = Gauge "multicluster_leader_epoch" {} "The number of the present leadership, as this replica sees it. Absent with SQLite, and while no replica leads.";
    LED = Counter "multicluster_leadership_changes" {"change"} "How often this replica took the lead (taken), gave it up (resigned) and lost it (lost).";
    BEHIND = Gauge "multicluster_store_behind" [Seconds] {} "How long ago this replica last read the database. 0 if that is as it should be.";
    FORWARDED = Counter "multicluster_forwarded_requests" {"result"} "Requests to this replica while another one led: answered from the database (stored) or by the leader (answered); repeated, or refused, because it did not lead (no_leader) or went away (leader_lost).";
    HELD = Gauge "multicluster_held_requests" {} "Requests that wait for a leader.";

    API = Histogram "multicluster_api" [Seconds] {"route", "method", "status"} "Requests to the control plane, until the answer began, by route, method and status class.";
    SHED = Counter "multicluster_shed" {"reason"} "Requests refused, and connections closed, to leave room for others.";
    TRACES = Counter "multicluster_traces" {"outcome"} "Traces of jobs that were sent, and dropped: refused by the collector, or not accepted by it before the job or its events were forgotten (each event counts).";
    TAILS = Gauge "multicluster_log_followers" {} "Logs being followed.";

    RESIDENT = Gauge "process_resident_memory" [Bytes] {} "Memory in use by the control plane.";
    CPU = Counter "process_cpu" [Seconds] {} "Processor time used by the control plane.";
    FDS = Gauge "process_open_fds" {} "Open files and connections.";
    THREADS = Gauge "process_threads" {} "Threads.";
}
