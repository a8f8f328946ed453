//! What people would use instead, on the same clusters and with the same measures.
//!
//! These models know every cluster's room at every moment, have no threshold and no spacing, and
//! start a run as long after its placement as our clusters do. So they are better off than the real
//! things: what they lack is only the policy. A cluster that has several jobs waiting starts
//! whatever fits, as Ray does, unless it says strict.

mod at_submit;
mod easy;
mod one_queue;
mod world;

use std::fmt;

use crate::{Nodes, Pool, Workload, engine::Trace};
use at_submit::{AtSubmit, Choice};
use easy::Easy;
use one_queue::{OneQueue, Order, Skip};
use world::World;

/// A policy that is not ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Baseline {
    /// Each job goes to the next cluster at submission, and waits there.
    RoundRobin,
    /// Each job goes to a random cluster at submission, and waits there.
    Random,
    /// Each job goes to the cluster with the least outstanding demand for its size, and waits there.
    LeastLoaded,
    /// The same, if each cluster starts its jobs strictly in order.
    LeastLoadedFifo,
    /// Each team uses its own cluster only.
    OwnCluster,
    /// One queue for all clusters; the first job blocks all others.
    StrictFifo,
    /// One queue for all clusters; any job that fits starts.
    Fifo,
    /// One queue with a reservation for the first job, and backfilling with known run times.
    Easy,
    /// One queue, shortest job first with known run times; any job that fits starts.
    Shortest,
}

impl Baseline {
    /// All of them, in the order of the table.
    pub const ALL: [Baseline; 9] = [
        Baseline::RoundRobin,
        Baseline::Random,
        Baseline::LeastLoaded,
        Baseline::LeastLoadedFifo,
        Baseline::OwnCluster,
        Baseline::StrictFifo,
        Baseline::Fifo,
        Baseline::Easy,
        Baseline::Shortest,
    ];

    /// A short name, for command lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Baseline::RoundRobin => "round-robin",
            Baseline::Random => "random",
            Baseline::LeastLoaded => "least-loaded",
            Baseline::LeastLoadedFifo => "least-loaded-fifo",
            Baseline::OwnCluster => "own-cluster",
            Baseline::StrictFifo => "strict-fifo",
            Baseline::Fifo => "fifo",
            Baseline::Easy => "easy",
            Baseline::Shortest => "shortest",
        }
    }

    /// What it does, for tables.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Baseline::RoundRobin => "round robin at submission",
            Baseline::Random => "random cluster at submission",
            Baseline::LeastLoaded => "least loaded cluster at submission",
            Baseline::LeastLoadedFifo => "the same, each cluster strict FIFO",
            Baseline::OwnCluster => "each team its own cluster",
            Baseline::StrictFifo => "one queue, strict FIFO",
            Baseline::Fifo => "one queue, FIFO with skipping",
            Baseline::Easy => "one queue, EASY backfill (true run times)",
            Baseline::Shortest => "one queue, shortest first (true run times)",
        }
    }
}

impl fmt::Display for Baseline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.title())
    }
}

/// Runs the workload to the end.
pub(crate) fn run(baseline: Baseline, pool: &Pool, nodes: &Nodes, workload: &Workload) -> Trace {
    let mut world = World::new(pool, nodes, workload);
    let at_submit = |choice| AtSubmit::new(choice, Skip::Blocked, pool, workload);
    match baseline {
        Baseline::RoundRobin => world.run(&mut at_submit(Choice::RoundRobin)),
        Baseline::Random => world.run(&mut at_submit(Choice::Random)),
        Baseline::LeastLoaded => world.run(&mut at_submit(Choice::LeastLoaded)),
        Baseline::LeastLoadedFifo => {
            world.run(&mut AtSubmit::new(Choice::LeastLoaded, Skip::Never, pool, workload));
        }
        Baseline::OwnCluster => world.run(&mut at_submit(Choice::OwnCluster)),
        Baseline::StrictFifo => world.run(&mut OneQueue::new(Order::Arrival, Skip::Never)),
        Baseline::Fifo => world.run(&mut OneQueue::new(Order::Arrival, Skip::Blocked)),
        Baseline::Easy => world.run(&mut Easy::default()),
        Baseline::Shortest => world.run(&mut OneQueue::new(Order::Duration, Skip::Blocked)),
    }
    world.finish()
}
