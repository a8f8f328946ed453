//! The events of a baseline: arrivals and ends. Placing work takes effect at once.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, HashMap},
};

use multicluster_types::{Attempt, Preference, Resources, Span, Tags, Timestamp, Work};

use crate::{
    Arrival, Nodes, Pool, Workload,
    engine::{Fate, StuckGroup, Trace, moment},
    fleet::{Fleet, Place},
    nodes::scarce,
};

/// Decides which work starts where, and when.
pub(super) trait Scheduler<'a> {
    /// This work arrived. Its shape may run somewhere.
    fn arrive(&mut self, job: usize, world: &World<'a>);
    /// This work ended there.
    fn ended(&mut self, _job: usize, _on: Place, _world: &World<'a>) {}
    /// Something changed: start what can start.
    fn go(&mut self, world: &mut World<'a>);
}

/// The clusters, and the work on them.
pub(super) struct World<'a> {
    workload: &'a Workload,
    fleet: Fleet,
    shapes: Vec<Shape<'a>>,
    shape_of: Vec<usize>,
    delay: Span,
    pub(super) now: Timestamp,
    ends: BinaryHeap<Reverse<(Timestamp, usize)>>,
    fates: Vec<Fate>,
}

/// Work that is interchangeable here.
pub(super) struct Shape<'a> {
    pub(super) work: &'a Work,
    /// The clusters that may run it and are large enough.
    pub(super) clusters: Vec<Place>,
}

impl<'a> World<'a> {
    pub(super) fn new(pool: &Pool, nodes: &Nodes, workload: &'a Workload) -> Self {
        let fleet = Fleet::new(pool, nodes);
        let mut shapes = Vec::new();
        let mut known: BTreeMap<(&Resources, &Resources, &Tags, &Option<Preference>), usize> =
            BTreeMap::new();
        // Most work is shared, and its address is compared faster than its contents.
        let mut by_address: HashMap<*const Work, usize> = HashMap::new();
        let shape_of = |arrival: &'a Arrival| {
            let work = &*arrival.work;
            *by_address.entry(std::ptr::from_ref(work)).or_insert_with(|| {
                let key = (&work.demand, work.on_one_node(), &work.tags, &work.preference);
                *known.entry(key).or_insert_with(|| {
                    shapes.push(Shape { work, clusters: eligible(work, pool, &fleet) });
                    shapes.len() - 1
                })
            })
        };
        Self {
            shape_of: workload.arrivals.iter().map(shape_of).collect(),
            shapes,
            fleet,
            delay: pool.timing.start,
            now: Timestamp::default(),
            ends: BinaryHeap::new(),
            fates: vec![Fate::Absent; workload.arrivals.len()],
            workload,
        }
    }

    /// Runs until all work that can run has ended.
    pub(super) fn run(&mut self, scheduler: &mut impl Scheduler<'a>) {
        let mut arrived = 0;
        loop {
            let end = self.ends.peek().map(|Reverse((at, _))| *at);
            let arrival = self.workload.arrivals.get(arrived).map(|arrival| moment(arrival.at));
            let Some(now) = end.into_iter().chain(arrival).min() else { break };
            self.now = now;
            while let Some(Reverse((at, job))) = self.ends.peek().copied()
                && at == now
            {
                self.ends.pop();
                if let Some(on) = self.end(job) {
                    scheduler.ended(job, on, self);
                }
            }
            while let Some(arrival) = self.workload.arrivals.get(arrived)
                && moment(arrival.at) == now
            {
                self.fates[arrived] = Fate::Waiting;
                if !self.shape(arrived).clusters.is_empty() {
                    scheduler.arrive(arrived, self);
                }
                arrived += 1;
            }
            scheduler.go(self);
        }
    }

    pub(super) fn job(&self, job: usize) -> &'a Arrival {
        &self.workload.arrivals[job]
    }

    pub(super) fn shape_number(&self, job: usize) -> usize {
        self.shape_of[job]
    }

    pub(super) fn shape(&self, job: usize) -> &Shape<'a> {
        &self.shapes[self.shape_of[job]]
    }

    pub(super) fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// When a job that is placed now will end.
    pub(super) fn end_of(&self, job: usize) -> Timestamp {
        self.now + self.delay + self.job(job).duration
    }

    /// The cluster with room and the least of it, so that large work finds room elsewhere.
    pub(super) fn best_fit(&self, job: usize) -> Option<Place> {
        self.best_fit_without(job, None)
    }

    /// The same, but not there.
    pub(super) fn best_fit_without(&self, job: usize, without: Option<Place>) -> Option<Place> {
        let Shape { work, clusters } = self.shape(job);
        let scarce = scarce(&work.demand);
        let fitting = clusters.iter().copied().filter(|on| Some(*on) != without);
        let mut fitting: Vec<_> =
            fitting.map(|on| (self.fleet[on].room().all_free().get(&scarce), on)).collect();
        fitting.sort_unstable();
        fitting.into_iter().map(|(_, on)| on).find(|on| self.fleet[*on].room().seats(work).is_some())
    }

    /// Starts a job if its cluster has room.
    pub(super) fn start(&mut self, job: usize, on: Place) -> bool {
        let arrival = &self.workload.arrivals[job];
        if !self.fleet[on].start(job, &arrival.work) {
            return false;
        }
        self.fates[job] = Fate::Running { on, attempt: Attempt(1), started: self.now + self.delay };
        self.ends.push(Reverse((self.end_of(job), job)));
        true
    }

    /// The jobs on a cluster with their ends, the earliest first.
    pub(super) fn running(&self, on: Place) -> Vec<(Timestamp, usize)> {
        let here = self.ends.iter().map(|Reverse(end)| *end);
        let mut here: Vec<_> = here.filter(|(_, job)| self.fleet[on].seats(*job).is_some()).collect();
        here.sort_unstable();
        here
    }

    /// A job ends. Returns its cluster.
    fn end(&mut self, job: usize) -> Option<Place> {
        let Fate::Running { on, started, .. } = self.fates[job] else { return None };
        let arrival = &self.workload.arrivals[job];
        self.fleet[on].end(job, &arrival.work, arrival.duration);
        self.fleet[on].forget(job);
        self.fates[job] = Fate::Done { started, ended: self.now };
        Some(on)
    }

    pub(super) fn finish(self) -> Trace {
        let mut stuck: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (job, _) in self.fates.iter().enumerate().filter(|(_, fate)| **fate == Fate::Waiting) {
            stuck.entry(self.shape_of[job]).or_default().push(job);
        }
        let stuck = stuck.into_values().map(|arrivals| StuckGroup { arrivals, why: None }).collect();
        let meters = self.fleet.into_meters().collect();
        Trace { fates: self.fates, meters, refused: BTreeMap::new(), stuck, lost: Span::ZERO }
    }
}

/// Clusters that carry the work's placement tags, are the one that it names if it names one, and could
/// hold it if they were empty.
fn eligible(work: &Work, pool: &Pool, fleet: &Fleet) -> Vec<Place> {
    let carried = |tag| pool.clusters.iter().any(|cluster| cluster.spec.tags.contains(tag));
    let wanted: Vec<_> = work.tags.iter().filter(|tag| carried(*tag)).collect();
    let may = |on: &Place| {
        let spec = &pool.clusters[*on].spec;
        wanted.iter().all(|tag| spec.tags.contains(*tag)) && fleet[*on].room().seats(work).is_some()
    };
    let all: Vec<_> = (0..pool.clusters.len()).filter(may).collect();
    let Some(Preference { cluster, required }) = &work.preference else { return all };
    let named: Vec<_> = all.iter().copied().filter(|on| pool.clusters[*on].spec.name == *cluster).collect();
    if named.is_empty() && !required { all } else { named }
}
