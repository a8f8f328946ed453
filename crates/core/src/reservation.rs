//! Room that is kept on one cluster for a head that has waited too long.
//!
//! The head gets its room when earlier work there ends. Until then later work may still go there,
//! as long as what it has in total leaves enough of the cluster for the head.

use std::sync::Arc;

use multicluster_types::{JobId, Origin, Quantity, Resources, Snapshot, Work};

use crate::{jobs::Job, queue::Rank};

/// The room that one cluster keeps for one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reservation {
    pub(crate) id: JobId,
    pub(crate) rank: Rank,
    pub(crate) work: Arc<Work>,
    /// What later work may still have of each resource that the job demands.
    rest: Resources,
    /// The same in nodes, if the job needs room on one of several: how many more pieces of later
    /// work may go to other nodes. Nobody knows which node Ray will choose for them.
    nodes: Option<u32>,
    /// How much work is there that must end before the job has its room.
    waits_for: u32,
}

impl Reservation {
    /// Keeps room for this job on a cluster with these facts and our `live` work. `foreign` is used
    /// by work that is not ours.
    pub(crate) fn new<'a>(
        job: &Job,
        snapshot: &Snapshot,
        foreign: Option<&Resources>,
        live: impl Iterator<Item = &'a Job>,
    ) -> Self {
        let record = job.record();
        let work = Arc::clone(&record.work);
        let mut rest = snapshot.total.clone();
        rest.subtract(&work.demand);
        rest.subtract(foreign.unwrap_or(&Resources::NONE));
        let on_one_node = snapshot.nodes > 1 && !work.on_one_node().is_empty();
        let fits = |total: &Resources| work.on_one_node().first_beyond_total(total).is_none();
        let nodes = on_one_node.then(|| {
            let large = snapshot.shapes.iter().filter(|node| fits(&node.total));
            large.map(|node| node.count).sum::<u32>().saturating_sub(1)
        });
        let id = record.id.clone();
        let mut reservation = Self { id, rank: job.rank(), work, rest, nodes, waits_for: 0 };
        live.for_each(|other| reservation.note(other.rank(), &other.record().work));
        reservation
    }

    /// This work is on the cluster, too.
    pub(crate) fn note(&mut self, rank: Rank, work: &Work) {
        if !self.is_later(rank, work) || work.demand.is_empty() {
            self.waits_for += 1;
        } else {
            self.rest.subtract(&work.demand);
            self.nodes = self.nodes.map(|left| left.saturating_sub(nodes_of(work)));
        }
    }

    /// Must this work keep off the cluster? Work that a running job starts never must: that job
    /// would not end. Work that does not say what it needs may use anything.
    pub(crate) fn keeps_off(&self, rank: Rank, work: &Work) -> bool {
        self.is_later(rank, work) && !self.leaves_room_for(work)
    }

    /// Is only work there that the job does not wait for?
    pub(crate) fn waits_for_nothing(&self) -> bool {
        self.waits_for == 0
    }

    fn is_later(&self, rank: Rank, work: &Work) -> bool {
        work.origin == Origin::Outside && rank > self.rank
    }

    fn leaves_room_for(&self, work: &Work) -> bool {
        let is_left = |(dimension, kept): (_, Quantity)| {
            kept.is_zero() || work.demand.get(&dimension) <= self.rest.get(&dimension)
        };
        !work.demand.is_empty()
            && self.work.demand.iter().all(is_left)
            && self.nodes.is_none_or(|left| nodes_of(work) <= left)
    }
}

/// How many nodes the work may take room on. The demand of a job beyond its reservation may be
/// anywhere.
fn nodes_of(work: &Work) -> u32 {
    if work.reserves.is_none() { 1 } else { u32::MAX }
}
