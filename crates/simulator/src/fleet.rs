//! Virtual clusters: the work on them, their reports, and their usage over time.

use std::collections::HashMap;

use multicluster_types::{
    ClusterName, Dimension, Elastic, Load, Platform, Resources, Snapshot, Span, Timestamp, Work,
};

use crate::{
    Nodes, Pool,
    nodes::{Room, Seats},
};

/// A cluster's index in the fleet: the same as in the pool.
pub(crate) type Place = usize;

/// All virtual clusters.
#[derive(Debug)]
pub(crate) struct Fleet {
    clusters: Vec<Cluster>,
    poll_interval: Span,
}

/// One virtual cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) name: ClusterName,
    /// What it has now.
    total: Resources,
    elastic: Option<Elastic>,
    /// How many nodes its autoscaler has added, and whether another one is on its way.
    added: u32,
    pub(crate) grows: bool,
    /// What is really free.
    room: Room,
    /// What a poll shows as free.
    shown: Room,
    /// The nodes of each run that is here, or still shown.
    seats: HashMap<usize, Seats>,
    /// Sent, but without room to start: Ray keeps them pending.
    pub(crate) held: Vec<usize>,
    pub(crate) meter: Meter,
    polls: Polls,
}

/// When a cluster is polled. Polls without news are skipped, so that a quiet night costs nothing;
/// the others come at their regular times.
#[derive(Debug, Default)]
struct Polls {
    last: Option<Timestamp>,
    next: Option<Timestamp>,
    /// A poll after this moment shows everything.
    news_until: Timestamp,
}

/// The totals of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// CPU, GPU, memory in use × milliseconds, in 1/10,000 of a unit, of runs that ended.
    area: [u128; 3],
    /// The most that was in use at once, in 1/10,000 of a unit.
    peak: [u64; 3],
    pub(crate) started: u64,
    pub(crate) held_back: u64,
}

/// The metered resources.
pub(crate) const METERED: [Dimension; 3] = [Dimension::Cpu, Dimension::Gpu, Dimension::Memory];

impl Fleet {
    pub(crate) fn new(pool: &Pool, nodes: &Nodes) -> Self {
        let cluster = |c: &crate::VirtualCluster| {
            let room = nodes.room(&c.spec.name, &c.total);
            Cluster {
                name: c.spec.name.clone(),
                total: c.total.clone(),
                elastic: c.spec.elastic.as_deref().cloned(),
                added: 0,
                grows: false,
                shown: room.clone(),
                room,
                seats: HashMap::new(),
                held: Vec::new(),
                meter: Meter::default(),
                polls: Polls::default(),
            }
        };
        // A poll takes time too, and with zero, time would never pass.
        let poll_interval = pool.settings.poll_interval.max(Span(100));
        Self { clusters: pool.clusters.iter().map(cluster).collect(), poll_interval }
    }

    pub(crate) fn find(&self, name: &ClusterName) -> Option<Place> {
        self.clusters.iter().position(|cluster| cluster.name == *name)
    }

    pub(crate) fn into_meters(self) -> impl Iterator<Item = Meter> {
        self.clusters.into_iter().map(|cluster| cluster.meter)
    }

    /// Until this moment, polls of this cluster may have news. Returns the time of the next poll
    /// if none was planned.
    #[must_use]
    pub(crate) fn expect_news(&mut self, at: Place, now: Timestamp, until: Timestamp) -> Option<Timestamp> {
        let interval = self.poll_interval.0;
        let polls = &mut self.clusters[at].polls;
        polls.news_until = polls.news_until.max(until);
        if polls.next.is_some() {
            return None;
        }
        let aligned = Timestamp(now.0.div_ceil(interval).saturating_mul(interval));
        let next = if polls.last == Some(aligned) { aligned + self.poll_interval } else { aligned };
        polls.next = Some(next);
        Some(next)
    }

    /// Answers a poll, and returns the time of the next one, if it can have news.
    pub(crate) fn poll(&mut self, at: Place, now: Timestamp) -> (Snapshot, Option<Timestamp>) {
        let interval = self.poll_interval;
        let cluster = &mut self.clusters[at];
        let polls = &mut cluster.polls;
        polls.last = Some(now);
        polls.next = (now <= polls.news_until).then(|| now + interval);
        (cluster.snapshot(now), cluster.polls.next)
    }
}

impl std::ops::Index<Place> for Fleet {
    type Output = Cluster;
    fn index(&self, at: Place) -> &Cluster {
        &self.clusters[at]
    }
}

impl std::ops::IndexMut<Place> for Fleet {
    fn index_mut(&mut self, at: Place) -> &mut Cluster {
        &mut self.clusters[at]
    }
}

impl Cluster {
    pub(crate) fn total(&self) -> &Resources {
        &self.total
    }

    pub(crate) fn room(&self) -> &Room {
        &self.room
    }

    /// The nodes that a run uses.
    pub(crate) fn seats(&self, run: usize) -> Option<&Seats> {
        self.seats.get(&run)
    }

    /// Starts a run if there is room.
    pub(crate) fn start(&mut self, run: usize, work: &Work) -> bool {
        let Some(seats) = self.room.seats(work) else { return false };
        self.room.take(&seats, &work.demand);
        self.seats.insert(run, seats);
        self.meter.started += 1;
        self.meter.note_use(&self.total, self.room.all_free());
        true
    }

    /// Ends a run, which took this long.
    pub(crate) fn end(&mut self, run: usize, work: &Work, duration: Span) {
        self.meter.add(&work.demand, duration);
        if let Some(seats) = self.seats.get(&run) {
            self.room.give_back(seats, &work.demand);
        }
    }

    /// From now on polls show a run that started.
    pub(crate) fn show(&mut self, run: usize, work: &Work) {
        if let Some(seats) = self.seats.get(&run) {
            self.shown.take(seats, &work.demand);
        }
    }

    /// From now on polls no longer show a run that ended.
    pub(crate) fn hide(&mut self, run: usize, work: &Work) {
        if let Some(seats) = self.seats.remove(&run) {
            self.shown.give_back(&seats, &work.demand);
        }
    }

    /// Forgets a run that ended and was never shown.
    pub(crate) fn forget(&mut self, run: usize) {
        self.seats.remove(&run);
    }

    /// Can its autoscaler add a node?
    pub(crate) fn can_grow(&self) -> bool {
        self.elastic.as_ref().is_some_and(|elastic| elastic.can_add(&self.total) > 0)
    }

    /// Has its autoscaler added nodes?
    pub(crate) fn has_grown(&self) -> bool {
        self.added > 0
    }

    /// Another node is there.
    pub(crate) fn grow(&mut self) {
        self.grows = false;
        let Some(elastic) = self.elastic.as_ref().filter(|_| self.can_grow()) else { return };
        self.total.add(&elastic.node);
        self.room.add_node(&elastic.node);
        self.shown.add_node(&elastic.node);
        self.added += 1;
    }

    /// Added nodes that are idle go away.
    pub(crate) fn shrink(&mut self) {
        let Some(elastic) = &self.elastic else { return };
        while self.added > 0 && self.room.has_idle_node() && self.shown.has_idle_node() {
            self.room.remove_node();
            self.shown.remove_node();
            self.total.subtract(&elastic.node);
            self.added -= 1;
        }
    }

    fn snapshot(&self, now: Timestamp) -> Snapshot {
        let mut used = self.total.clone();
        used.subtract(self.shown.all_free());
        Snapshot {
            taken_at: now,
            total: self.total.clone(),
            used,
            physical: Load::default(),
            head: None,
            nodes: self.shown.nodes(),
            shapes: self.shown.shapes(),
            platform: Platform::default(),
            ray_version: "virtual".to_owned(),
            python_version: None,
            incarnation: None,
            autoscaler: None,
        }
    }
}

impl Meter {
    fn add(&mut self, used: &Resources, duration: Span) {
        for (area, dimension) in self.area.iter_mut().zip(&METERED) {
            *area = area.saturating_add(u128::from(used.get(dimension).parts()) * u128::from(duration.0));
        }
    }

    fn note_use(&mut self, total: &Resources, free: &Resources) {
        for (peak, dimension) in self.peak.iter_mut().zip(&METERED) {
            let used = total.get(dimension).parts().saturating_sub(free.get(dimension).parts());
            *peak = (*peak).max(used);
        }
    }

    /// The largest share of `total` that was in use at once; `None` for a resource that the cluster
    /// does not have.
    pub(crate) fn peak(&self, nth: usize, total: &Resources) -> Option<f64> {
        let total = total.get(&METERED[nth]);
        #[expect(clippy::cast_precision_loss, reason = "a share, for people")]
        (!total.is_zero()).then(|| self.peak[nth] as f64 / total.parts() as f64)
    }

    /// In use × milliseconds, in 1/10,000 of a unit.
    pub(crate) fn area(&self, nth: usize) -> u128 {
        self.area[nth]
    }

    /// The mean share of `total` in use over a window that holds all runs; `None` for a resource
    /// that the cluster does not have.
    pub(crate) fn utilization(&self, nth: usize, total: &Resources, window: Span) -> Option<f64> {
        let total = total.get(&METERED[nth]);
        let whole = u128::from(total.parts()) * u128::from(window.0.max(1));
        #[expect(clippy::cast_precision_loss, reason = "a share, for people")]
        (!total.is_zero()).then(|| self.area[nth] as f64 / whole as f64)
    }
}
