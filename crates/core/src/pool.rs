//! The clusters, and what is known about each right now.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use multicluster_types::{
    ClusterName, ClusterSpec, Dimension, Incarnation, JobId, Message, Quantity, Reason, Resources, Settings,
    Share, Snapshot, Tag, Timestamp, Work,
    settings::{JobLimit, Utilization},
};
use slab::Slab;

use crate::{
    breaker::Breaker, jobs::JobKey, ledger::Ledger, policy::Facts, queue::Rank, record::ClusterRecord,
    timers::Due,
};

/// A cluster's place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClusterKey(pub(crate) u32);

/// One cluster: its durable record, and what is learnt anew after a restart.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) record: ClusterRecord,
    pub(crate) health: Health,
    /// Polls that failed in a row.
    pub(crate) poll_failures: u32,
    pub(crate) snapshot: Option<Box<Snapshot>>,
    /// The tags it carries.
    pub(crate) tags: TagBits,
    pub(crate) ledger: Ledger,
    pub(crate) breaker: Breaker,
    /// Our work on it.
    pub(crate) live: BTreeSet<JobKey>,
    /// How many of those are top-level jobs.
    pub(crate) top_level_jobs: u32,
    /// When it was last chosen, in choices: the least recent wins a tie.
    pub(crate) picked: u64,
    /// Kept free for a starving head.
    pub(crate) reserved: Option<Reservation>,
    /// The same before this cycle, so that a starving head keeps its cluster.
    pub(crate) last_reserved: Option<Reservation>,
    pub(crate) spacing_due: Due,
    pub(crate) freshness_due: Due,
    pub(crate) breaker_due: Due,
}

/// Does it answer?
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Health {
    NeverSeen,
    Healthy,
    Unhealthy { since: Timestamp, error: Message },
}

/// Who a cluster is kept free for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reservation {
    pub(crate) id: JobId,
    pub(crate) rank: Rank,
}

impl Cluster {
    pub(crate) fn new(record: ClusterRecord) -> Self {
        Self {
            record,
            health: Health::NeverSeen,
            poll_failures: 0,
            snapshot: None,
            tags: TagBits::default(),
            ledger: Ledger::default(),
            breaker: Breaker::default(),
            live: BTreeSet::new(),
            top_level_jobs: 0,
            picked: 0,
            reserved: None,
            last_reserved: None,
            spacing_due: None,
            freshness_due: None,
            breaker_due: None,
        }
    }

    pub(crate) fn name(&self) -> &ClusterName {
        &self.record.spec.name
    }

    pub(crate) fn spec(&self) -> &ClusterSpec {
        &self.record.spec
    }

    pub(crate) fn is_healthy(&self) -> bool {
        self.health == Health::Healthy
    }

    pub(crate) fn incarnation(&self) -> Option<&Incarnation> {
        self.snapshot.as_ref()?.incarnation.as_ref()
    }

    pub(crate) fn limit(&self, settings: &Settings) -> JobLimit {
        self.record.spec.limits.concurrency(settings)
    }

    /// When the next top-level submission is allowed, if not yet.
    pub(crate) fn spaced_until(&self, now: Timestamp, settings: &Settings) -> Option<Timestamp> {
        let until = self.record.clock.as_ref()?.at + self.record.spec.limits.interval(settings);
        (until > now).then_some(until)
    }

    /// The first of CPU, GPU and memory that is over the threshold.
    pub(crate) fn pressure(&self, snapshot: &Snapshot, settings: &Settings) -> Option<Reason> {
        let limit = self.record.spec.limits.threshold(settings);
        let over = |dimension: Dimension, of: fn(&Resources) -> Quantity, physical: Option<Share>| {
            let total = of(&snapshot.total).parts();
            let promised = of(self.ledger.assumed());
            let used = of(&snapshot.used).plus(promised).parts();
            // Hosts do not feel a promise yet: it counts on top.
            let physical = || physical.map(|load| load.plus(Share::of(promised.parts(), total)));
            let used = match settings.utilization {
                // By far the most common: no division unless it is over.
                Utilization::Logical if !limit.is_exceeded_by(used, total) => return None,
                Utilization::Logical => Share::of(used, total),
                Utilization::Physical => physical().unwrap_or_else(|| Share::of(used, total)),
                Utilization::Max => Share::of(used, total).max(physical().unwrap_or_default()),
            };
            (used > limit).then_some(Reason::OverThreshold { resource: dimension, used, limit })
        };
        let load = &snapshot.physical;
        over(Dimension::Cpu, |r| r.cpu, load.cpu)
            .or_else(|| over(Dimension::Gpu, |r| r.gpu, load.gpu))
            .or_else(|| over(Dimension::Memory, |r| r.memory, load.memory))
    }

    /// What is free after promises.
    pub(crate) fn free(&self, snapshot: &Snapshot, dimension: &Dimension) -> Quantity {
        snapshot
            .total
            .get(dimension)
            .minus(snapshot.used.get(dimension))
            .minus(self.ledger.assumed().get(dimension))
    }
}

/// All clusters.
#[derive(Debug)]
pub(crate) struct Pool {
    table: Slab<Cluster>,
    by_name: BTreeMap<ClusterName, ClusterKey>,
    /// Every tag that some cluster carries, with its number: the placement tags.
    tags: BTreeMap<Tag, usize>,
    max_weight: f64,
    roster: Arc<[ClusterName]>,
    picks: u64,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            table: Slab::new(),
            by_name: BTreeMap::new(),
            tags: BTreeMap::new(),
            max_weight: f64::MIN_POSITIVE,
            roster: Arc::new([]),
            picks: 0,
        }
    }
}

impl Pool {
    pub(crate) fn add(&mut self, record: ClusterRecord) -> ClusterKey {
        let name = record.spec.name.clone();
        let key = self.table.insert(Cluster::new(record));
        let key = ClusterKey(u32::try_from(key).expect("fewer than 2^32 clusters fit in memory"));
        self.by_name.insert(name, key);
        self.refresh();
        key
    }

    pub(crate) fn remove(&mut self, key: ClusterKey) -> Cluster {
        let cluster = self.table.remove(key.0 as usize);
        self.by_name.remove(cluster.name());
        self.refresh();
        cluster
    }

    /// Derives anew what depends on all clusters' descriptions.
    pub(crate) fn refresh(&mut self) {
        let carried: BTreeSet<Tag> = self.table.iter().flat_map(|(_, c)| c.spec().tags.iter().cloned()).collect();
        self.tags = carried.into_iter().zip(0..).collect();
        for (_, cluster) in &mut self.table {
            cluster.tags = TagBits::of(&cluster.record.spec.tags, &self.tags);
        }
        let weights = self.table.iter().map(|(_, c)| c.spec().weight.get());
        self.max_weight = weights.fold(f64::MIN_POSITIVE, f64::max);
        self.roster = self.table.iter().map(|(_, c)| c.name().clone()).collect();
    }

    pub(crate) fn find(&self, name: &ClusterName) -> Option<ClusterKey> {
        self.by_name.get(name).copied()
    }

    /// By name, in order.
    pub(crate) fn names(&self) -> Vec<ClusterName> {
        self.by_name.keys().cloned().collect()
    }

    pub(crate) fn roster(&self) -> &Arc<[ClusterName]> {
        &self.roster
    }

    /// In the order of the roster.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ClusterKey, &Cluster)> {
        #[expect(clippy::cast_possible_truncation, reason = "keys are handed out as u32")]
        self.table.iter().map(|(key, cluster)| (ClusterKey(key as u32), cluster))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (ClusterKey, &mut Cluster)> {
        #[expect(clippy::cast_possible_truncation, reason = "keys are handed out as u32")]
        self.table.iter_mut().map(|(key, cluster)| (ClusterKey(key as u32), cluster))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The placement tags among these: those that some registered cluster carries.
    /// The others are labels.
    pub(crate) fn placement_tags(&self, tags: &[Tag]) -> TagBits {
        TagBits::of(tags, &self.tags)
    }

    /// Remembers that this cluster was chosen, for round robin.
    pub(crate) fn mark_picked(&mut self, key: ClusterKey) {
        self.picks += 1;
        self.table[key.0 as usize].picked = self.picks;
    }

    pub(crate) fn facts<'a>(&self, cluster: &'a Cluster, snapshot: &'a Snapshot, wanted: &TagBits) -> Facts<'a> {
        let tags_wanted = wanted.count();
        Facts {
            spec: cluster.spec(),
            total: &snapshot.total,
            used: &snapshot.used,
            assumed: cluster.ledger.assumed(),
            nodes: snapshot.nodes,
            live: u32::try_from(cluster.live.len()).unwrap_or(u32::MAX),
            max_weight: self.max_weight,
            tags_carried: tags_wanted - wanted.missing_in(&cluster.tags),
            tags_wanted,
        }
    }
}

/// A set of placement tags by their numbers in the pool: comparing two is a few
/// machine words, whatever the tags are called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TagBits(Vec<u64>);

impl TagBits {
    fn of(tags: &[Tag], numbers: &BTreeMap<Tag, usize>) -> Self {
        let mut bits = Vec::new();
        for number in tags.iter().filter_map(|tag| numbers.get(tag)) {
            let word = number / 64;
            if bits.len() <= word {
                bits.resize(word + 1, 0);
            }
            bits[word] |= 1 << (number % 64);
        }
        Self(bits)
    }

    fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// How many of these the other set lacks.
    #[inline]
    pub(crate) fn missing_in(&self, other: &TagBits) -> u32 {
        let word = |at: usize| other.0.get(at).copied().unwrap_or(0);
        self.0.iter().enumerate().map(|(at, bits)| (bits & !word(at)).count_ones()).sum()
    }
}

/// Could this cluster hold the work if it were empty?
pub(crate) fn infeasible(snapshot: &Snapshot, work: &Work) -> Option<Reason> {
    let nothing = Resources::default();
    let resource = work.demand.first_beyond(&snapshot.total, &nothing, &nothing)?;
    let (demand, total) = (work.demand.get(&resource), snapshot.total.get(&resource));
    Some(Reason::Infeasible { resource, demand, total })
}

impl std::ops::Index<ClusterKey> for Pool {
    type Output = Cluster;
    fn index(&self, key: ClusterKey) -> &Cluster {
        &self.table[key.0 as usize]
    }
}

impl std::ops::IndexMut<ClusterKey> for Pool {
    fn index_mut(&mut self, key: ClusterKey) -> &mut Cluster {
        &mut self.table[key.0 as usize]
    }
}
