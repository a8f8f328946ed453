//! Clusters that can grow.
//!
//! The rest of the core sees such a cluster as large as it can get: its facts are *widened* by the
//! nodes that its autoscaler could add. So the threshold, promises, reservations and shares are
//! measured against that size and know nothing of growth. What is left to do is here: tell what is
//! there from what could be there, and find out whether it comes.

use std::collections::BTreeMap;

use multicluster_types::{
    Autoscaler, Dimension, Elastic, Kind, Message, NodeShape, Quantity, Reason, Resources, Settings, Share,
    Snapshot, Span, Timestamp, Work,
};

use crate::{
    jobs::JobKey,
    nodes,
    pool::{Cluster, infeasible},
    record::Live,
};

/// The pause before a cluster is asked to grow again doubles this often: up to 64 × `within`.
const DOUBLINGS: u32 = 6;

/// A job that waits for nodes in vain is recalled this often, until it has ended or begun.
const RECALL_AGAIN: Span = Span::seconds(60);

/// What is known about the growth of one elastic cluster.
#[derive(Debug, Clone)]
pub(crate) struct Growth {
    /// As far as its operator says it grows.
    pub(crate) elastic: Elastic,
    /// The latest facts, as they were reported.
    raw: Option<Snapshot>,
    /// How many nodes can be added, and what they would bring.
    can_add: u32,
    extra: Resources,
    /// What promised work leaves of the nodes that are there, if there is any such work.
    left: Vec<NodeShape>,
    /// Work that was sent there, needs nodes that were not there, and has not begun. Nobody reports when
    /// a task or an actor begins: it is taken to begin when the cluster grows.
    waiting: BTreeMap<JobKey, Waits>,
    /// Time counts from here at the earliest: the cluster grew, or was asked again.
    counts_from: Timestamp,
    stuck: Option<Stuck>,
    /// How often it did not grow since it last did.
    failures: u32,
}

/// Work that waits for nodes.
#[derive(Debug, Clone)]
struct Waits {
    kind: Kind,
    since: Timestamp,
    /// The part of its demand that new nodes will bring.
    brings: Resources,
    recalled: Option<Timestamp>,
}

/// The cluster was asked to grow in vain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stuck {
    /// Since when it was asked.
    pub(crate) since: Timestamp,
    /// When it may be asked again.
    pub(crate) until: Timestamp,
    /// What it had at most: it is as large as that, for now.
    reached: Resources,
    /// What its autoscaler said.
    pub(crate) error: Option<Message>,
}

impl Growth {
    fn new(elastic: Elastic, raw: Option<Snapshot>) -> Self {
        Self {
            elastic,
            raw,
            can_add: 0,
            extra: Resources::NONE,
            left: Vec::new(),
            waiting: BTreeMap::new(),
            counts_from: Timestamp::default(),
            stuck: None,
            failures: 0,
        }
    }

    /// How many nodes can be added.
    pub(crate) fn can_add(&self) -> u32 {
        self.can_add
    }

    /// What these nodes would bring.
    pub(crate) fn extra(&self) -> &Resources {
        &self.extra
    }

    /// The work that waits for nodes.
    pub(crate) fn waiting(&self) -> impl ExactSizeIterator<Item = JobKey> {
        self.waiting.keys().copied()
    }

    /// Since when it has been asked for nodes that have not come.
    fn asked(&self) -> Option<Timestamp> {
        Some(self.waiting.values().map(|waits| waits.since).min()?.max(self.counts_from))
    }

    /// Does this work wait for nodes?
    pub(crate) fn keeps_waiting(&self, job: JobKey) -> bool {
        self.waiting.contains_key(&job)
    }

    pub(crate) fn stuck(&self) -> Option<&Stuck> {
        self.stuck.as_ref()
    }

    /// The nodes that could be added.
    fn new_nodes(&self) -> impl Iterator<Item = NodeShape> {
        let (total, free) = (self.elastic.node.clone(), self.elastic.node.clone());
        let nodes = NodeShape { total, free, count: self.can_add, ..NodeShape::default() };
        Some(nodes).filter(|nodes| nodes.count > 0).into_iter()
    }

    /// What its autoscaler reports.
    pub(crate) fn autoscaler(&self) -> Option<&Autoscaler> {
        self.raw.as_ref()?.autoscaler.as_ref()
    }

    /// When it is found out whether the cluster grows, or when it may be asked again.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        self.stuck.as_ref().map(|stuck| stuck.until).or(self.asked().map(|asked| asked + self.elastic.within))
    }

    /// This work waits for nodes from now on.
    pub(crate) fn wait(&mut self, job: JobKey, work: &Work, live: &Live) {
        let new = self.elastic.node.times(live.grows);
        let mut brings = Resources::default();
        if work.kind == Kind::Job {
            let mut beyond = work.demand.clone();
            beyond.subtract(&new);
            brings = work.demand.clone();
            brings.subtract(&beyond);
        }
        self.waiting
            .insert(job, Waits { kind: work.kind, since: live.dispatched_at, brings, recalled: None });
    }

    /// May this work be recalled now? Each recall costs its cluster a process for seconds.
    pub(crate) fn may_recall(&mut self, job: JobKey, now: Timestamp) -> bool {
        let Some(waits) = self.waiting.get_mut(&job) else { return false };
        let may = waits.recalled.is_none_or(|at| at + RECALL_AGAIN <= now);
        if may {
            waits.recalled = Some(now);
        }
        may
    }

    /// When this work is recalled, if it waits in vain.
    pub(crate) fn recalled_at(&self, job: JobKey) -> Option<Timestamp> {
        let waits = self.waiting.get(&job).filter(|_| self.stuck.is_some())?;
        Some(waits.recalled.map_or(waits.since, |at| at + RECALL_AGAIN))
    }

    /// Nobody reports when tasks and actors begin.
    fn forget_placements(&mut self) {
        self.waiting.retain(|_, waits| waits.kind == Kind::Job);
    }

    /// Nobody could see whether it grew.
    pub(crate) fn forgive(&mut self, now: Timestamp) {
        self.counts_from = now;
    }

    /// The cluster has not grown in time. Returns the jobs that wait in vain.
    pub(crate) fn give_up(&mut self, now: Timestamp) -> Vec<JobKey> {
        let error = self.autoscaler().and_then(|autoscaler| autoscaler.failure.clone());
        let reached = self.raw.as_ref().map(|raw| raw.total.clone()).unwrap_or_default();
        let pause = self.elastic.within.times(1 << self.failures.min(DOUBLINGS));
        let since = self.asked().unwrap_or(now);
        self.stuck = Some(Stuck { since, until: now + pause, reached, error });
        self.failures += 1;
        self.forget_placements();
        self.waiting.keys().copied().collect()
    }

    /// The cluster may be asked to grow again. For work that still waits there, the time counts from now.
    pub(crate) fn try_again(&mut self, now: Timestamp) {
        (self.stuck, self.counts_from) = (None, now);
    }

    /// The cluster has more than before.
    fn has_grown(&mut self, at: Timestamp) {
        (self.failures, self.counts_from) = (0, at);
        self.forget_placements();
        let total = self.raw.as_ref().map(|raw| &raw.total);
        self.stuck.take_if(|stuck| total.is_some_and(|total| is_more(total, &stuck.reached)));
    }
}

impl Cluster {
    /// Its description may have changed: an operator who changes it knows more than we found out.
    pub(crate) fn redescribe(&mut self) {
        let raw = self.facts_as_reported().cloned();
        let elastic = self.record.spec.elastic.as_deref();
        if self.growth.as_ref().map(|growth| &growth.elastic) != elastic {
            let waiting = self.growth.take().map(|growth| growth.waiting).unwrap_or_default();
            if elastic.is_none() {
                let jobs = waiting.iter().filter(|(_, waits)| waits.kind == Kind::Job);
                self.starting.extend(jobs.map(|(job, _)| *job));
            }
            self.growth = elastic.map(|elastic| {
                let counts_from = raw.as_ref().map(|raw| raw.taken_at).unwrap_or_default();
                Box::new(Growth { waiting, counts_from, ..Growth::new(elastic.clone(), raw.clone()) })
            });
            self.widen_again(raw);
        }
    }

    /// Does our work need more than what is there? If not, growth is not what it waits for, but its
    /// runtime_env, say. `each`: the work that waits for nodes.
    pub(crate) fn needs_nodes<'a>(&self, mut each: impl Iterator<Item = &'a Work>) -> bool {
        let Some(raw) = self.facts_as_reported() else { return false };
        self.ledger().demanded().first_beyond_total(&raw.total).is_some()
            || each.any(|work| nodes::too_small(raw, work).is_some())
    }

    /// What could be added has changed.
    pub(crate) fn resize(&mut self, settings: &Settings) {
        let raw = self.facts_as_reported().cloned();
        self.widen_again(raw);
        self.assess(settings);
    }

    fn widen_again(&mut self, raw: Option<Snapshot>) {
        if let Some(raw) = raw {
            let widened = self.widen(raw);
            self.set_snapshot(widened);
        }
    }

    /// How many jobs wait for nodes, that were not there when they were sent.
    pub(crate) fn jobs_waiting(&self) -> usize {
        let waits =
            |(job, waits): &(&JobKey, &Waits)| waits.kind == Kind::Job && !self.starting.contains(job);
        self.growth.as_ref().map_or(0, |growth| growth.waiting.iter().filter(waits).count())
    }

    /// The latest facts, as they were reported.
    pub(crate) fn facts_as_reported(&self) -> Option<&Snapshot> {
        match &self.growth {
            Some(growth) => growth.raw.as_ref(),
            None => self.snapshot(),
        }
    }

    /// Takes over what the cluster reports, and returns it as large as it can get.
    pub(crate) fn widened(&mut self, raw: Snapshot) -> Snapshot {
        let Some(growth) = &mut self.growth else { return raw };
        let before = growth.raw.replace(raw.clone());
        if let Some(before) = before {
            if is_more(&raw.total, &before.total) {
                growth.has_grown(raw.taken_at);
            } else if is_more(&before.total, &raw.total) {
                // Its node may be gone: it was sent there by older facts.
                for job in self.starting.iter().copied() {
                    let (kind, since) = (Kind::Job, raw.taken_at);
                    let waits = Waits { kind, since, brings: Resources::NONE, recalled: None };
                    growth.waiting.entry(job).or_insert(waits);
                }
            }
        }
        self.widen(raw)
    }

    /// These facts, with the nodes that could be added.
    pub(crate) fn widen(&mut self, mut facts: Snapshot) -> Snapshot {
        let Some(growth) = &mut self.growth else { return facts };
        let mut capped = growth.elastic.clone();
        if let Some(stuck) = &growth.stuck {
            capped.max = stuck.reached.clone();
        }
        // A head without any node is not a cluster yet.
        growth.can_add = if facts.nodes == 0 { 0 } else { capped.can_add(&facts.total) };
        growth.extra = capped.node.times(growth.can_add);
        let there = facts.total.clone();
        facts.total.add(&growth.extra);
        facts.nodes = facts.nodes.saturating_add(growth.can_add);
        if !facts.shapes.is_empty() {
            facts.shapes.extend(growth.new_nodes());
        }
        let load = &mut facts.physical;
        load.cpu = load.cpu.map(|load| of_larger(load, there.cpu, facts.total.cpu));
        load.gpu = load.gpu.map(|load| of_larger(load, there.gpu, facts.total.gpu));
        load.memory = load.memory.map(|load| of_larger(load, there.memory, facts.total.memory));
        facts
    }

    /// What promised work leaves of the nodes: of those that are there, and then of those that could
    /// be added.
    pub(crate) fn left_with_growth(&mut self, snapshot: &Snapshot) -> Vec<NodeShape> {
        let promised = self.ledger().promised_on_nodes();
        let Some(growth) = &self.growth else { return nodes::left(snapshot.shapes.clone(), promised).0 };
        let there = growth.raw.as_ref().map(|raw| raw.shapes.clone()).unwrap_or_default();
        if there.is_empty() {
            return Vec::new(); // Its nodes are not known.
        }
        let (there, rest) = nodes::left(there, promised);
        let (more, _) = nodes::left(growth.new_nodes().collect(), rest.into_iter());
        let all = there.iter().cloned().chain(more).collect();
        if let Some(growth) = &mut self.growth {
            growth.left = there;
        }
        all
    }

    /// The same, if no promised work is on its nodes: the facts are enough.
    pub(crate) fn nothing_promised_on_nodes(&mut self) -> Vec<NodeShape> {
        if let Some(growth) = &mut self.growth {
            growth.left.clear();
        }
        Vec::new()
    }

    /// This work was seen running. True if it waited for nodes.
    pub(crate) fn note_begun(&mut self, job: JobKey) -> bool {
        let Some(growth) = &mut self.growth else { return false };
        let waited = growth.waiting.get(&job).is_some_and(|waits| waits.kind == Kind::Job);
        waited && growth.waiting.remove(&job).is_some()
    }

    /// This work is not there any more.
    pub(crate) fn note_gone(&mut self, job: JobKey) {
        if let Some(growth) = &mut self.growth {
            growth.waiting.remove(&job);
        }
    }

    /// By how many nodes it would have to grow for this work, which fits once it has grown.
    #[inline]
    pub(crate) fn grows_by(&self, snapshot: &Snapshot, work: &Work) -> u32 {
        match &self.growth {
            Some(growth) if growth.can_add > 0 => self.nodes_missing(growth, snapshot, work),
            _ => 0,
        }
    }

    fn nodes_missing(&self, growth: &Growth, snapshot: &Snapshot, work: &Work) -> u32 {
        let Some(raw) = &growth.raw else { return 0 };
        // Work that waits for nodes will be on those.
        let on_its_way = |dimension: &Dimension| {
            let brings = growth.waiting.values().map(|waits| waits.brings.get(dimension));
            brings.fold(Quantity::ZERO, Quantity::plus)
        };
        let missing = |(dimension, demand): (Dimension, Quantity)| {
            let grown = self.free(snapshot, work.origin, &dimension).plus(on_its_way(&dimension));
            let free = grown.minus(growth.extra.get(&dimension));
            (dimension, demand.minus(free))
        };
        let in_all = growth.elastic.nodes_for(work.demand.iter().map(missing)).unwrap_or(growth.can_add);
        let left = if growth.left.is_empty() || raw.nodes < 2 { &raw.shapes } else { &growth.left };
        in_all.max(u32::from(nodes::full(raw, left, work).is_some()))
    }

    /// Could this cluster hold the work if it were empty, as far as it has shown that it grows?
    #[inline]
    pub(crate) fn infeasible(&self, snapshot: &Snapshot, work: &Work) -> Option<Reason> {
        let reason = infeasible(snapshot, work)?;
        Some(self.not_grown(&reason, work).unwrap_or(reason))
    }

    /// Does the work only not fit because the cluster did not grow?
    #[cold]
    fn not_grown(&self, short: &Reason, work: &Work) -> Option<Reason> {
        let growth = self.growth.as_ref()?;
        let (elastic, raw, stuck) = (&growth.elastic, growth.raw.as_ref()?, growth.stuck.as_ref()?);
        let (resource, demand, reached) = match short {
            Reason::Infeasible { resource, demand, total } => (resource, demand, total),
            Reason::NodeTooSmall { resource, demand, largest } => (resource, demand, largest),
            _ => return None,
        };
        let fits_a_node = work.on_one_node().first_beyond_total(&elastic.node).is_none();
        let would_fit = work.demand.first_beyond_total(&elastic.grown(&raw.total)).is_none()
            && (fits_a_node || nodes::too_small(raw, work).is_none());
        would_fit.then(|| Reason::NotGrown {
            resource: resource.clone(),
            demand: *demand,
            reached: *reached,
            since: stuck.since,
            error: stuck.error.clone(),
        })
    }
}

/// Is there more of any resource?
fn is_more(now: &Resources, before: &Resources) -> bool {
    now.first_beyond_total(before).is_some()
}

/// The load of what is there, as a share of what could be there.
fn of_larger(load: Share, there: Quantity, all: Quantity) -> Share {
    if all.is_zero() { load } else { Share::of(there.part(load).parts(), all.parts()) }
}
