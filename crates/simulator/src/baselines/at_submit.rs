//! The cluster is chosen at submission, and each cluster has a queue of its own.

use std::{cmp::Reverse, collections::BTreeMap};

use multicluster_types::{Owner, Quantity, Resources};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{
    one_queue::{Queue, Skip},
    world::{Scheduler, World},
};
use crate::{Pool, Workload, fleet::Place, nodes::scarce};

/// How a cluster is chosen, among those that could hold the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    RoundRobin,
    Random,
    /// What is queued and running there, for the size of the cluster: people see that.
    LeastLoaded,
    /// The team's own; the least loaded for work that is too large for it, and without an owner.
    OwnCluster,
}

pub(super) struct AtSubmit {
    choice: Choice,
    /// Ray starts whatever fits: [`Skip::Blocked`].
    skip: Skip,
    queues: Vec<Queue>,
    /// Clusters where something changed.
    changed: Vec<bool>,
    /// The demand of the work that was sent to each cluster and has not ended.
    outstanding: Vec<Resources>,
    next: Place,
    random: ChaCha8Rng,
    own: BTreeMap<Owner, Place>,
}

impl AtSubmit {
    pub(super) fn new(choice: Choice, skip: Skip, pool: &Pool, workload: &Workload) -> Self {
        let clusters = pool.clusters.len();
        Self {
            choice,
            skip,
            queues: (0..clusters).map(|_| Queue::default()).collect(),
            changed: vec![false; clusters],
            outstanding: vec![Resources::default(); clusters],
            next: 0,
            random: ChaCha8Rng::seed_from_u64(1),
            own: if choice == Choice::OwnCluster { own_clusters(pool, workload) } else { BTreeMap::new() },
        }
    }

    fn choose(&mut self, job: usize, world: &World<'_>) -> Place {
        let clusters = &world.shape(job).clusters;
        match self.choice {
            Choice::RoundRobin => {
                let next = clusters.iter().copied().find(|on| *on >= self.next).unwrap_or(clusters[0]);
                self.next = next + 1;
                next
            }
            Choice::Random => clusters[self.random.random_range(0..clusters.len())],
            Choice::LeastLoaded => self.least_loaded(job, world),
            Choice::OwnCluster => {
                let own = world.job(job).work.owner.as_ref().and_then(|owner| self.own.get(owner));
                match own.filter(|own| clusters.contains(own)) {
                    Some(own) => *own,
                    None => self.least_loaded(job, world),
                }
            }
        }
    }

    /// By the load after the work has been added; among equals the larger one.
    fn least_loaded(&self, job: usize, world: &World<'_>) -> Place {
        let shape = world.shape(job);
        let demand = &shape.work.demand;
        let load = |on: &Place| {
            let total = world.fleet()[*on].total();
            let share = |(dimension, asked): (_, Quantity)| {
                asked.plus(self.outstanding[*on].get(&dimension)).share_of(total.get(&dimension))
            };
            demand.iter().map(share).fold(0.0, f64::max)
        };
        let size = |on: &Place| world.fleet()[*on].total().get(&scarce(demand));
        let by_load = |a: &&Place, b: &&Place| load(a).total_cmp(&load(b)).then(size(b).cmp(&size(a)));
        *shape.clusters.iter().min_by(by_load).expect("work that may run nowhere does not arrive")
    }
}

impl<'a> Scheduler<'a> for AtSubmit {
    fn arrive(&mut self, job: usize, world: &World<'a>) {
        let on = self.choose(job, world);
        self.outstanding[on].add(&world.job(job).work.demand);
        self.queues[on].add((Reverse(world.job(job).work.priority), 0, job), world.shape_number(job));
        self.changed[on] = true;
    }

    fn ended(&mut self, job: usize, on: Place, world: &World<'a>) {
        self.outstanding[on].subtract(&world.job(job).work.demand);
        self.changed[on] = true;
    }

    fn go(&mut self, world: &mut World<'a>) {
        for (on, changed) in self.changed.iter_mut().enumerate() {
            if std::mem::take(changed) {
                self.queues[on].start(self.skip, world, |job, world| world.start(job, on));
            }
        }
    }
}

/// The cluster of each owner: the one that shares a part of its name (`team-6214e9`, `vc-6214e9`), else
/// the largest that is left for the owner with the most work. If there are more owners than clusters,
/// the others share, the largest cluster first again.
fn own_clusters(pool: &Pool, workload: &Workload) -> BTreeMap<Owner, Place> {
    let mut owners: BTreeMap<&Owner, f64> = BTreeMap::new();
    let mut totals = Resources::default();
    pool.clusters.iter().for_each(|cluster| totals.add(&cluster.total));
    let weight = |demand: &Resources| {
        let share = |(dimension, amount): (_, Quantity)| match totals.get(&dimension) {
            Quantity::ZERO => 0.0,
            total => amount.share_of(total),
        };
        demand.iter().map(share).fold(0.0, f64::max)
    };
    for arrival in &workload.arrivals {
        if let Some(owner) = &arrival.work.owner {
            *owners.entry(owner).or_default() += weight(&arrival.work.demand) * arrival.duration.as_seconds();
        }
    }
    let names: Vec<_> = pool.clusters.iter().map(|cluster| parts(cluster.spec.name.as_str())).collect();
    let mut own = BTreeMap::new();
    for owner in owners.keys() {
        let shares = |name: &Vec<String>| parts(owner.as_str()).iter().any(|part| name.contains(part));
        let mut sharing = names.iter().enumerate().filter(|(_, name)| shares(name)).map(|(on, _)| on);
        // A part that several clusters have says nothing.
        if let (Some(on), None) = (sharing.next(), sharing.next()) {
            own.insert((*owner).clone(), on);
        }
    }
    let mut clusters: Vec<_> = (0..pool.clusters.len()).collect();
    clusters.sort_by(|a, b| weight(&pool.clusters[*b].total).total_cmp(&weight(&pool.clusters[*a].total)));
    let taken: Vec<Place> = own.values().copied().collect();
    let free: Vec<_> = clusters.iter().copied().filter(|on| !taken.contains(on)).collect();
    let mut left: Vec<_> = owners.into_iter().filter(|(owner, _)| !own.contains_key(*owner)).collect();
    left.sort_by(|a, b| b.1.total_cmp(&a.1));
    let places = free.into_iter().chain(clusters.iter().copied().cycle());
    own.extend(left.into_iter().zip(places).map(|((owner, _), on)| (owner.clone(), on)));
    own
}

/// `team-6214e9` has the parts `team` and `6214e9`.
fn parts(name: &str) -> Vec<String> {
    let parts = name.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty());
    parts.map(str::to_ascii_lowercase).collect()
}
