//! The clusters, and the current knowledge about each.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use multicluster_types::{
    ClusterName, ClusterSpec, Dimension, Incarnation, JobId, Kind, Message, NodeShape, Origin, Platform,
    Quantity, Reason, Resources, Settings, Share, Snapshot, Span, Spellings, Tag, Timestamp, Work,
    settings::{Claims, ThresholdCounts, Utilization},
};
use slab::Slab;

use crate::{
    breaker::Breaker,
    core::preempt::Clearing,
    drivers::Room,
    growth::Growth,
    jobs::JobKey,
    ledger::Ledger,
    nodes,
    pacer::Pacer,
    policy::{Facts, Moment},
    record::{ClusterRecord, Live},
    reservation::Reservation,
    timers::Due,
};

/// A cluster's place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClusterKey(pub(crate) u32);

/// One cluster: its durable record, and facts that are learnt again after a restart.
///
/// The fields that every decision reads are kept in one piece: with a thousand clusters, memory
/// access limits a look, not arithmetic.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) record: ClusterRecord,
    pub(crate) terms: Terms,
    /// The tags it carries.
    pub(crate) tags: TagBits,
    pub(crate) health: Health,
    /// Failed polls in a row.
    pub(crate) poll_failures: u32,
    snapshot: Option<Snapshot>,
    /// In a box, because no look needs it: its results are in `free` and `pressure`.
    ledger: Box<Ledger>,
    /// What work from outside may still use. Depends on the snapshot and the ledger alone.
    free: Resources,
    /// What promised work leaves of its nodes, if there is any such work on one of several nodes.
    left: Vec<NodeShape>,
    /// The first resource over the threshold. Depends on the snapshot, the ledger and the terms
    /// alone, and changes far less often than it is read.
    pressure: Option<(Dimension, Share)>,
    /// The platform, by the facts or else the tags.
    pub(crate) platform: Platform,
    /// Room for drivers on the head node; `None` if unknown. Depends on the snapshot and the terms alone.
    room: Option<Room>,
    /// Whether more nodes come, if it can grow.
    pub(crate) growth: Option<Box<Growth>>,
    pub(crate) breaker: Breaker,
    pub(crate) pacer: Pacer,
    /// Our live work on it.
    pub(crate) live: BTreeSet<JobKey>,
    /// It refused our token when a job was sent to it, and has accepted no job since.
    pub(crate) denied: bool,
    /// How many top-level jobs are on it.
    pub(crate) top_level_jobs: u32,
    /// How many jobs on it have their driver on the head node.
    pub(crate) drivers: u32,
    /// Jobs on it that have not been seen running yet.
    pub(crate) starting: BTreeSet<JobKey>,
    /// When it was last chosen, counted in choices: the least recent wins a tie.
    pub(crate) picked: u64,
    foreign: Foreign,
    /// Room that is kept for a starving head.
    pub(crate) reserved: Option<Reservation>,
    /// Preemptible jobs are being stopped on it.
    pub(crate) clearing: Option<Clearing>,
    /// Jobs that were asked to end for others, and did not in time.
    pub(crate) stubborn: BTreeSet<JobKey>,
    /// The reservation before this cycle, so that a starving head keeps its cluster.
    pub(crate) last_reserved: Option<Reservation>,
    pub(crate) spacing_due: Due,
    pub(crate) freshness_due: Due,
    pub(crate) breaker_due: Due,
    pub(crate) growth_due: Due,
}

/// The limits that follow from a cluster's description and the settings.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Terms {
    /// The utilization above which it accepts no top-level work.
    pub(crate) threshold: Share,
    /// The minimum interval between top-level submissions.
    pub(crate) interval: Span,
    /// How many top-level jobs may run at once.
    pub(crate) max_jobs: u32,
    pub(crate) max_starting: u32,
    /// How much memory of the head node one driver takes, and how much all drivers may take.
    driver: Quantity,
    head_share: Share,
    /// How much the operator wants it used, 0..1.
    pub(crate) desire: f64,
}

/// Does it answer?
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Health {
    NeverSeen,
    Healthy,
    Unhealthy { since: Timestamp, error: Message },
    Unauthorized { since: Timestamp, error: Message },
}

impl Cluster {
    pub(crate) fn new(record: ClusterRecord) -> Self {
        Self {
            record,
            terms: Terms::default(),
            tags: TagBits::default(),
            health: Health::NeverSeen,
            poll_failures: 0,
            snapshot: None,
            ledger: Box::default(),
            free: Resources::default(),
            left: Vec::new(),
            pressure: None,
            platform: Platform::default(),
            room: None,
            growth: None,
            breaker: Breaker::default(),
            pacer: Pacer::default(),
            live: BTreeSet::new(),
            denied: false,
            top_level_jobs: 0,
            drivers: 0,
            starting: BTreeSet::new(),
            picked: 0,
            foreign: Foreign::default(),
            reserved: None,
            clearing: None,
            stubborn: BTreeSet::new(),
            last_reserved: None,
            spacing_due: None,
            freshness_due: None,
            breaker_due: None,
            growth_due: None,
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

    /// When the next top-level submission is allowed, if not yet.
    pub(crate) fn spaced_until(&self, now: Timestamp) -> Option<Timestamp> {
        let until = self.record.clock.as_ref()?.at + self.terms.interval;
        (until > now).then_some(until)
    }

    /// The latest facts; of a cluster that can grow, with the nodes that could be added.
    pub(crate) fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    /// What our work has of it beyond the facts.
    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Takes over new facts, and removes the promises that they show. True if a decision could
    /// turn out differently now.
    pub(crate) fn learn(&mut self, mut snapshot: Snapshot, settings: &Settings) -> bool {
        // A head that has just started does not report its memory at once.
        snapshot.head = snapshot.head.or_else(|| self.snapshot.as_ref()?.head);
        let struck_out = self.ledger.strike_out(snapshot.taken_at, settings.settle_margin);
        let changed = self.facts_as_reported().is_none_or(|last| !says_the_same(last, &snapshot));
        let snapshot = self.widened(snapshot);
        let room = self.room;
        self.platform = snapshot.platform.or_tags(&self.record.spec.tags);
        let measured = self.foreign.learn(&snapshot, self.ours_to_subtract());
        self.snapshot = Some(snapshot);
        self.assess(settings);
        changed || struck_out || measured || self.room != room
    }

    /// What our work accounts for in the facts, if that can be told from the rest: none is there, or
    /// a reservation has outlasted all work that it waited for. The facts must show all that is left.
    fn ours_to_subtract(&self) -> Option<Resources> {
        let outlasted = || self.reserved.as_ref().is_some_and(Reservation::waits_for_nothing);
        let can_tell = self.live.is_empty() || outlasted() && self.ledger.promised().is_empty();
        can_tell.then(|| self.ledger.ours())
    }

    /// What work that is not ours uses of it, as far as that was measured.
    pub(crate) fn foreign(&self) -> Option<&Resources> {
        self.foreign.used.as_ref().map(|(_, used)| used)
    }

    /// The first resource of which the end of our own work could not free enough, and how much of
    /// it work that is not ours uses.
    pub(crate) fn blocked_by_foreign(&self, work: &Work) -> Option<(Dimension, Quantity)> {
        let (snapshot, (_, foreign)) = (self.snapshot.as_ref()?, self.foreign.used.as_ref()?);
        work.demand.iter().find_map(|(dimension, demand)| {
            let (total, foreign) =
                (snapshot.total.get(&dimension), foreign.get(&dimension).min(snapshot.used.get(&dimension)));
            (demand <= total && demand > total.minus(foreign)).then_some((dimension, foreign))
        })
    }

    /// A job is on it from now on.
    pub(crate) fn enter(&mut self, job: JobKey, work: &Arc<Work>, live: &Live, settings: &Settings) {
        let (running_at, waits) = (live.running_at(), live.grows > 0);
        self.live.insert(job);
        self.foreign.could_tell = false;
        self.top_level_jobs += u32::from(work.is_top_level_job());
        self.drivers += u32::from(work.burdens_head());
        self.ledger.reserve(job, work);
        match running_at {
            Some(at) => self.ledger.settle(job, at),
            // It does not start before there is a node for it.
            None if waits && let Some(growth) = &mut self.growth => growth.wait(job, work, live),
            None if work.kind == Kind::Job => drop(self.starting.insert(job)),
            None => {}
        }
        self.assess(settings);
    }

    /// A job on it was seen running. True if another may be started in its place.
    pub(crate) fn settle(&mut self, job: JobKey, at: Timestamp) -> bool {
        self.ledger.settle(job, at);
        let began = self.note_begun(job);
        let started = self.starting.remove(&job);
        if started {
            self.pacer.started(self.terms.max_starting);
        }
        started || began
    }

    /// The cluster is in trouble: fewer jobs may be starting on it at once. If none is starting,
    /// jobs are not the cause.
    pub(crate) fn slow_down(&mut self, now: Timestamp, why: Message) {
        if !self.starting.is_empty() {
            self.pacer.trouble(now, self.terms.max_starting, why);
        }
    }

    /// How many jobs it may be starting at once at present.
    pub(crate) fn starting_limit(&self) -> u32 {
        self.pacer.window(self.terms.max_starting)
    }

    /// How many drivers its head node has memory for, if that is known.
    pub(crate) fn driver_limit(&self) -> Option<u32> {
        Some(self.room?.limit(self.drivers, self.ledger.drivers()))
    }

    /// A job has left it.
    pub(crate) fn leave(&mut self, job: JobKey, work: &Work, settings: &Settings) {
        self.live.remove(&job);
        self.starting.remove(&job);
        self.note_gone(job);
        self.stubborn.remove(&job);
        self.top_level_jobs -= u32::from(work.is_top_level_job());
        self.drivers -= u32::from(work.burdens_head());
        self.ledger.release(job);
        self.assess(settings);
    }

    /// What policies may know about it. `tags` is how many of the work's placement
    /// tags it carries, and how many there are.
    #[inline]
    pub(crate) fn facts<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        tags: (u32, u32),
        grows: u32,
        moment: Moment,
    ) -> Facts<'a> {
        Facts {
            snapshot,
            platform: &self.platform,
            moment,
            unnamed: Quantity::ZERO,
            spec: self.spec(),
            total: &snapshot.total,
            used: &snapshot.used,
            assumed: self.ledger.promised(),
            free: &self.free,
            live: u32::try_from(self.live.len()).unwrap_or(u32::MAX),
            desire: self.terms.desire,
            tags_carried: tags.0,
            tags_wanted: tags.1,
            grows,
        }
    }

    /// Is it over its threshold?
    #[inline]
    pub(crate) fn over_threshold(&self) -> Option<Reason> {
        let (resource, used) = self.pressure.as_ref()?;
        Some(Reason::OverThreshold { resource: resource.clone(), used: *used, limit: self.terms.threshold })
    }

    /// Has its head node no memory for another driver?
    #[inline]
    pub(crate) fn head_full(&self) -> Option<Reason> {
        let limit = self.driver_limit().filter(|limit| self.drivers >= *limit)?;
        let free = self.snapshot.as_ref()?.head?.free;
        Some(Reason::HeadFull { drivers: self.drivers, limit, free })
    }

    /// Computes the free resources, the first of CPU, GPU and memory over the threshold, and how
    /// many drivers the head node can bear.
    pub(crate) fn assess(&mut self, settings: &Settings) {
        self.ledger.keep_claims(settings.claims == Claims::WhileRunning);
        let Some(snapshot) = self.snapshot.take() else { return };
        let Snapshot { total, used, physical, head, .. } = &snapshot;
        self.free = self.ledger.free(&snapshot);
        let has_nodes = snapshot.nodes > 1 && !snapshot.shapes.is_empty();
        let any = has_nodes && self.ledger.promised_on_nodes().next().is_some();
        self.left = if any { self.left_with_growth(&snapshot) } else { self.nothing_promised_on_nodes() };
        self.room = head.and_then(|head| Room::of(head, self.terms.driver, self.terms.head_share));
        let limit = self.terms.threshold;
        let over = |dimension, total, load: &Counted, physical| {
            let share = load.utilization(settings.utilization, total, physical);
            (share > limit).then_some((dimension, share))
        };
        let ours = (settings.threshold_counts == ThresholdCounts::Others).then(|| self.ledger.ours());
        let load = |get: fn(&Resources) -> Quantity| match &ours {
            None => Counted { used: get(used), promised: get(self.ledger.promised()), ours: Quantity::ZERO },
            Some(ours) => Counted { used: get(used), promised: Quantity::ZERO, ours: get(ours) },
        };
        self.pressure = over(Dimension::Cpu, total.cpu, &load(|r| r.cpu), physical.cpu)
            .or_else(|| over(Dimension::Gpu, total.gpu, &load(|r| r.gpu), physical.gpu))
            .or_else(|| over(Dimension::Memory, total.memory, &load(|r| r.memory), physical.memory));
        self.snapshot = Some(snapshot);
    }

    pub(crate) fn set_snapshot(&mut self, snapshot: Snapshot) {
        self.snapshot = Some(snapshot);
    }

    /// Do its tables agree? `here` returns whether a job is on it.
    pub(crate) fn check(&self, here: impl Fn(JobKey) -> bool, settings: &Settings) -> Result<(), String> {
        self.ledger.check(here)?;
        let mut fresh = Cluster {
            snapshot: self.snapshot.clone(),
            growth: self.growth.clone(),
            terms: self.terms,
            ..Cluster::new(self.record.clone())
        };
        fresh.ledger = self.ledger.clone();
        fresh.assess(settings);
        let is = (&fresh.pressure, fresh.room, &fresh.free, &fresh.left);
        let was = (&self.pressure, self.room, &self.free, &self.left);
        if is == was {
            Ok(())
        } else {
            Err(format!("pressure, room and what is free are {is:?}, were taken for {was:?}"))
        }
    }

    /// What work of this origin may still use of it.
    pub(crate) fn free(&self, snapshot: &Snapshot, origin: Origin, dimension: &Dimension) -> Quantity {
        match origin {
            Origin::Outside => self.free.get(dimension),
            Origin::Inside => self.ledger.free_inside(snapshot, &|set| set.get(dimension)),
        }
    }

    /// The first resource of which the work demands more than there is room for.
    #[inline]
    pub(crate) fn first_short(&self, snapshot: &Snapshot, work: &Work) -> Option<Dimension> {
        match work.origin {
            Origin::Outside => work.demand.first_beyond_total(&self.free),
            Origin::Inside => work.demand.first_short(|get| self.ledger.free_inside(snapshot, get)),
        }
    }

    /// The nodes with what promised work leaves of them.
    #[inline]
    pub(crate) fn nodes_left<'a>(&'a self, snapshot: &'a Snapshot) -> &'a [NodeShape] {
        if self.left.is_empty() { &snapshot.shapes } else { &self.left }
    }

    /// What work from outside may still use of what is there; empty while its facts are not known.
    pub(crate) fn free_now(&self) -> Resources {
        let mut free = self.free.clone();
        if let Some(growth) = &self.growth {
            free.subtract(growth.extra());
        }
        free
    }
}

/// What work that is not ours uses of a cluster. Ray does not say whose work uses what, so this is
/// measured when ours can be told from the rest.
#[derive(Debug, Default)]
struct Foreign {
    used: Option<(Timestamp, Resources)>,
    /// It could be told at the last poll. Ray reports usage late: the next poll can be trusted.
    could_tell: bool,
}

/// After this an old measurement is not trusted: that work may have ended since.
const FOREIGN_AGE: Span = Span::minutes(60);

impl Foreign {
    /// Measures, if it is known what `ours` is in the facts; forgets what was measured long ago.
    /// True if a reservation could be decided differently now.
    fn learn(&mut self, snapshot: &Snapshot, ours: Option<Resources>) -> bool {
        if std::mem::replace(&mut self.could_tell, ours.is_some())
            && let Some(ours) = ours
        {
            let mut foreign = snapshot.used.clone();
            foreign.subtract(&ours);
            let before = self.used.replace((snapshot.taken_at, foreign.clone()));
            return before.is_none_or(|(_, used)| used != foreign);
        }
        self.used.take_if(|(at, _)| snapshot.taken_at.since(*at) >= FOREIGN_AGE).is_some()
    }
}

/// All clusters.
#[derive(Debug)]
pub(crate) struct Pool {
    table: Slab<Cluster>,
    by_name: BTreeMap<ClusterName, ClusterKey>,
    /// Every tag that some cluster carries, with its number: the placement tags.
    tags: BTreeMap<Tag, usize>,
    spellings: Spellings,
    roster: Arc<[ClusterName]>,
    picks: u64,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            table: Slab::new(),
            by_name: BTreeMap::new(),
            tags: BTreeMap::new(),
            spellings: Spellings::default(),
            roster: Arc::new([]),
            picks: 0,
        }
    }
}

impl Pool {
    pub(crate) fn add(&mut self, record: ClusterRecord, settings: &Settings) -> ClusterKey {
        let name = record.spec.name.clone();
        let key = self.table.insert(Cluster::new(record));
        let key = ClusterKey(u32::try_from(key).expect("fewer than 2^32 clusters fit in memory"));
        self.by_name.insert(name, key);
        self.refresh(settings);
        key
    }

    pub(crate) fn remove(&mut self, key: ClusterKey, settings: &Settings) -> Cluster {
        let cluster = self.table.remove(key.0 as usize);
        self.by_name.remove(cluster.name());
        self.refresh(settings);
        cluster
    }

    /// Derives again everything that depends on the settings and on all clusters' descriptions.
    pub(crate) fn refresh(&mut self, settings: &Settings) {
        let carried: BTreeSet<Tag> =
            self.table.iter().flat_map(|(_, c)| c.spec().tags.iter().cloned()).collect();
        self.spellings = Spellings::of(carried.iter().cloned());
        self.tags = carried.into_iter().zip(0..).collect();
        let weights = self.table.iter().map(|(_, c)| c.spec().weight.get());
        let max_weight = weights.fold(f64::MIN_POSITIVE, f64::max);
        for (_, cluster) in &mut self.table {
            cluster.redescribe();
            let spec = &cluster.record.spec;
            cluster.tags = TagBits::of(&spec.tags, &self.tags);
            let told = cluster.snapshot.as_ref().map_or_else(Platform::default, |s| s.platform.clone());
            cluster.platform = told.or_tags(&spec.tags);
            cluster.terms = Terms {
                threshold: spec.limits.threshold(settings),
                interval: spec.limits.interval(settings),
                max_jobs: spec.limits.concurrency(settings).get(),
                max_starting: settings.max_starting.get(),
                driver: spec.limits.driver(settings),
                head_share: spec.limits.head_share(settings),
                desire: (spec.weight.get() / max_weight + f64::from(u8::from(spec.prefer))) / 2.0,
            };
            cluster.assess(settings);
        }
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

    /// Every tag that some registered cluster carries, in order.
    pub(crate) fn tags(&self) -> impl Iterator<Item = &Tag> {
        self.tags.keys()
    }

    /// The tag that this one, which no cluster carries, was probably meant to be.
    pub(crate) fn near_miss(&self, tag: &Tag) -> Option<&Tag> {
        self.spellings.near_miss(tag)
    }

    /// Does some registered cluster carry it?
    pub(crate) fn carries(&self, tag: &Tag) -> bool {
        self.tags.contains_key(tag)
    }

    /// Is any cluster kept free for this job?
    pub(crate) fn is_reserved_for(&self, job: &JobId) -> bool {
        self.table.iter().any(|(_, c)| c.reserved.as_ref().is_some_and(|r| r.id == *job))
    }

    /// Remembers that this cluster was chosen, for round robin.
    pub(crate) fn mark_picked(&mut self, key: ClusterKey) {
        self.picks += 1;
        self.table[key.0 as usize].picked = self.picks;
    }
}

/// A set of placement tags by their numbers in the pool: comparing two is a few
/// machine words, whatever the tags are called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TagBits {
    /// The first 64 tags, which is enough for most pools.
    first: u64,
    rest: Vec<u64>,
}

impl TagBits {
    fn of(tags: &[Tag], numbers: &BTreeMap<Tag, usize>) -> Self {
        let mut bits = TagBits::default();
        for number in tags.iter().filter_map(|tag| numbers.get(tag)) {
            let (word, bit) = (number / 64, 1 << (number % 64));
            if word == 0 {
                bits.first |= bit;
                continue;
            }
            if bits.rest.len() < word {
                bits.rest.resize(word, 0);
            }
            bits.rest[word - 1] |= bit;
        }
        bits
    }

    pub(crate) fn count(&self) -> u32 {
        self.missing_in(&TagBits::default())
    }

    /// How many of these tags the other set lacks.
    #[inline]
    pub(crate) fn missing_in(&self, other: &TagBits) -> u32 {
        let first = self.first & !other.first;
        // Nearly always the case, and counting bits is expensive on old machines.
        if first == 0 && self.rest.is_empty() {
            return 0;
        }
        let word = |at: usize| other.rest.get(at).copied().unwrap_or(0);
        let rest = self.rest.iter().enumerate().map(|(at, bits)| (bits & !word(at)).count_ones());
        first.count_ones() + rest.sum::<u32>()
    }
}

/// The load of one resource of a cluster, as far as it counts against the threshold.
struct Counted {
    used: Quantity,
    /// Not in the facts yet.
    promised: Quantity,
    /// The part of the use that does not count.
    ours: Quantity,
}

impl Counted {
    fn utilization(&self, measured_on: Utilization, total: Quantity, physical: Option<Share>) -> Share {
        let share = |part: Quantity| Share::of(part.parts(), total.parts());
        let logical = || share(self.used.minus(self.ours).plus(self.promised));
        // Hosts do not show a promise yet: it is added.
        let physical = || physical.map(|load| load.minus(share(self.ours)).plus(share(self.promised)));
        match measured_on {
            Utilization::Logical => logical(),
            Utilization::Physical => physical().unwrap_or_else(logical),
            Utilization::Max => logical().max(physical().unwrap_or_default()),
        }
    }
}

/// Are two snapshots equal in everything a decision depends on? Memory of the head node is
/// compared by the room for drivers it makes.
fn says_the_same(a: &Snapshot, b: &Snapshot) -> bool {
    let Snapshot {
        taken_at: _,
        head: _,
        total,
        used,
        physical,
        nodes,
        shapes,
        platform,
        ray_version,
        python_version,
        incarnation: _,
        autoscaler: _,
    } = a;
    (total, used, physical, nodes) == (&b.total, &b.used, &b.physical, &b.nodes)
        && (shapes, platform) == (&b.shapes, &b.platform)
        && (ray_version, python_version) == (&b.ray_version, &b.python_version)
}

/// Could this cluster hold the work if it were empty?
#[inline(always)]
pub(crate) fn infeasible(snapshot: &Snapshot, work: &Work) -> Option<Reason> {
    if let Some(resource) = work.demand.first_beyond_total(&snapshot.total) {
        let (demand, total) = (work.demand.get(&resource), snapshot.total.get(&resource));
        return Some(Reason::Infeasible { resource, demand, total });
    }
    nodes::too_small(snapshot, work)
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
