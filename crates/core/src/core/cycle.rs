//! The scheduling cycle: six phases, one function each, in order.
//!
//! A cycle runs when something changed, and never without a cause: where only time counts, a
//! timer is the cause. A full cycle looks at the head of every class. If only new work arrived,
//! the cycle looks at the heads of its classes alone: nothing else can have become placeable.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use multicluster_types::{
    Decision, Dimension, Kind, Origin, Quantity, Reason, ReasonKind, Resources, Transition, Verdict,
};

use crate::{
    Core, Effect, Output, Write,
    jobs::{Job, JobKey},
    look::{Look, View},
    pool::{ClusterKey, Reservation},
    queue::{ClassKey, Rank},
    record::{Live, Phase, Submitted},
};

/// The classes that must be looked at again.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    all: bool,
    classes: BTreeSet<ClassKey>,
}

impl Dirty {
    /// The pool changed: look at every head.
    pub(super) fn all(&mut self) {
        self.all = true;
    }

    pub(super) fn all_if(&mut self, changed: bool) {
        self.all |= changed;
    }

    /// This class has a new head.
    pub(super) fn class(&mut self, class: ClassKey) {
        self.classes.insert(class);
    }

    pub(super) fn is_any(&self) -> bool {
        self.all || !self.classes.is_empty()
    }
}

/// The order in which heads are looked at.
enum Agenda {
    All { cursor: Option<(Rank, ClassKey)> },
    Some(BTreeSet<(Rank, ClassKey)>),
}

/// Heads that the same clusters are open to, whatever their demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Tier {
    inside: bool,
    top_level: bool,
    job: bool,
    burdens_head: bool,
}

/// The most that a demand may ask for and still find room on some cluster: a quick check that
/// spares heads that every cluster would reject. It holds until something is placed.
#[derive(Debug, Clone, Copy, Default)]
struct Ceiling {
    open: bool,
    cpu: Quantity,
    gpu: Quantity,
    memory: Quantity,
}

impl Ceiling {
    fn admits(&self, demand: &Resources) -> bool {
        self.open && demand.cpu <= self.cpu && demand.gpu <= self.gpu && demand.memory <= self.memory
    }
}

impl Core {
    /// Places all work that can be placed.
    pub(super) fn cycle(&mut self, out: &mut Output) {
        self.note_oldest();
        let dirty = std::mem::take(&mut self.dirty);
        let mut agenda = self.heads(dirty);
        let mut verdicts = std::mem::take(&mut self.verdicts);
        let mut ceilings: BTreeMap<Tier, Ceiling> = BTreeMap::new();
        let mut rejections = [0; ReasonKind::ALL.len()];
        let (mut heads, mut looks, mut placed) = (0, 0, 0);
        let mut unreserved = self.pool.iter().filter(|(_, cluster)| cluster.reserved.is_none()).count();
        while let Some((rank, class)) = self.next_head(&mut agenda) {
            let tier = self.tier(class);
            let starving = unreserved > 0 && self.is_starving(class);
            heads += 1;
            let ceiling = tier.and_then(|tier| ceilings.get(&tier));
            if ceiling.is_some_and(|ceiling| !ceiling.admits(&self.queue[class].work.demand)) && !starving {
                continue;
            }
            looks += 1;
            match self.filter_and_score(class, &mut verdicts) {
                Some((job, cluster)) => {
                    if !self.assume(job, cluster, &verdicts, out) {
                        continue;
                    }
                    placed += 1;
                    ceilings.clear();
                    if let (Agenda::Some(heads), Some(next)) = (&mut agenda, self.queue.head_of(class)) {
                        heads.insert(next);
                    }
                }
                None => {
                    unreserved -= usize::from(starving && self.reserve(class, rank, &verdicts));
                    count_rejections(&verdicts, &mut rejections);
                    // A rejected head spares the next head of its tier a full look.
                    if let Some(tier) = tier {
                        ceilings.entry(tier).or_insert_with(|| self.ceiling(class, rank));
                    }
                }
            }
        }
        self.verdicts = verdicts;
        if heads > 0 {
            let stats = out.cycle.get_or_insert_default();
            stats.heads += heads;
            stats.looks += looks;
            stats.placed += placed;
            for (kind, count) in ReasonKind::ALL.iter().zip(rejections).filter(|(_, count)| *count > 0) {
                *stats.rejections.entry(*kind).or_default() += count;
            }
        }
    }

    /// Phase 1, heads: the first of each class, in the order of choice.
    fn heads(&mut self, dirty: Dirty) -> Agenda {
        if dirty.all {
            for (_, cluster) in self.pool.iter_mut() {
                cluster.last_reserved = cluster.reserved.take();
            }
            return Agenda::All { cursor: None };
        }
        Agenda::Some(dirty.classes.into_iter().filter_map(|class| self.queue.head_of(class)).collect())
    }

    fn next_head(&self, agenda: &mut Agenda) -> Option<(Rank, ClassKey)> {
        match agenda {
            Agenda::All { cursor } => {
                *cursor = Some(self.queue.head_after(*cursor)?);
                *cursor
            }
            Agenda::Some(heads) => heads.pop_first(),
        }
    }

    /// Phase 2, snapshot: the latest facts per cluster, plus the ledger.
    pub(super) fn view(&self) -> View<'_> {
        View {
            moment: self.moment(),
            settings: &self.settings,
            policies: self.policies.in_force(),
            pool: &self.pool,
            spaced: true,
        }
    }

    /// A look at the pool for one job, with all that is known of the job.
    pub(super) fn look_of<'a>(&'a self, job: &'a Job) -> Look<'a> {
        Look::new(self.view(), &job.record().work, job.rank(), job.avoid()).without(job.unsuited())
    }

    /// Phase 3, filter, and phase 4, score, ties broken by round robin.
    fn filter_and_score(&self, class: ClassKey, verdicts: &mut Vec<Verdict>) -> Option<(JobKey, ClusterKey)> {
        let (_, &job) = self.queue[class].ready().first_key_value()?;
        Some((job, self.look_of(&self.jobs[job]).choose(verdicts)?))
    }

    /// Phase 5, assume: reserve, note the submission, make the intent durable. False if the job
    /// cannot be dispatched from its present state.
    pub(super) fn assume(
        &mut self,
        key: JobKey,
        on: ClusterKey,
        verdicts: &[Verdict],
        out: &mut Output,
    ) -> bool {
        if !self.may(key, Transition::Dispatch, out) {
            return false;
        }
        self.pool.mark_picked(on);
        let cluster = &mut self.pool[on];
        cluster.breaker.sent(key);
        let (name, incarnation) = (cluster.name().clone(), cluster.incarnation().cloned());
        let job = &self.jobs[key];
        let (id, work) = (job.record().id.clone(), Arc::clone(&job.record().work));
        let attempt = job.next_attempt();
        // The rest of a batch shares the slot of its first job; it does not prolong the slot.
        if work.is_top_level() && cluster.spaced_until(self.now).is_none() {
            cluster.record.clock = Some(Submitted { at: self.now, group: work.group.clone() });
            out.writes.push(Write::Cluster(cluster.record.clone()));
            self.arm_spacing(on);
        }
        out.writes.push(Write::Decision(Box::new(Decision {
            job: id,
            attempt,
            at: self.now,
            cluster: name.clone(),
            roster: Arc::clone(self.pool.roster()),
            verdicts: verdicts.into(),
        })));
        let live = Phase::Live(Box::new(Live::new(attempt, name.clone(), incarnation, self.now)));
        let moved = self.move_to(key, Transition::Dispatch, live, out);
        // Tasks and actors are run by their callers, who learn of the placement from the event.
        if moved && work.kind == Kind::Job {
            out.effects.push(Effect::Submit { run: self.jobs[key].run(), cluster: name });
        }
        moved
    }

    /// Phase 6, requeue: work that was not placed stays where it is, in order. Later and smaller
    /// work may pass it until it starves: then the next cluster that could hold the starving head
    /// is kept free of later work. True if there is such a cluster.
    fn reserve(&mut self, class: ClassKey, rank: Rank, verdicts: &[Verdict]) -> bool {
        let Some((_, &job)) = self.queue[class].ready().first_key_value() else { return false };
        let id = self.jobs[job].record().id.clone();
        if self.pool.is_reserved_for(&id) {
            return false; // One reservation is enough.
        }
        let busy = |verdict: &Verdict| match verdict {
            Verdict::Rejected(reason) => is_passing(reason),
            Verdict::Chosen { .. } | Verdict::Eligible { .. } => false,
        };
        let look = Look::new(self.view(), &self.queue[class].work, rank, &[]);
        let best = self
            .pool
            .iter()
            .zip(verdicts)
            .filter(|((_, cluster), verdict)| busy(verdict) && cluster.reserved.is_none())
            // Keeping our work off would not help: it would stay closed for as long as the other runs.
            .filter(|((_, cluster), _)| cluster.blocked_by_foreign(&self.queue[class].work).is_none())
            .map(|((key, cluster), _)| {
                let kept_before = cluster.last_reserved.as_ref().is_some_and(|r| r.id == id);
                ((kept_before, look.free_share(cluster)), key)
            })
            .max_by(|(a, _), (b, _)| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
        let Some((_, key)) = best else { return false };
        let owner = self.queue[class].work.owner.clone();
        self.pool[key].reserved = Some(Reservation { id, owner, rank });
        true
    }

    /// A batch has no tier: it may share a slot that is closed to others.
    fn tier(&self, class: ClassKey) -> Option<Tier> {
        let work = &self.queue[class].work;
        work.group.is_none().then(|| Tier {
            inside: work.origin == Origin::Inside,
            top_level: work.is_top_level(),
            job: work.kind == Kind::Job,
            burdens_head: work.burdens_head(),
        })
    }

    /// The most room that any cluster open to this tier has.
    fn ceiling(&self, class: ClassKey, rank: Rank) -> Ceiling {
        let look = Look::new(self.view(), &self.queue[class].work, rank, &[]);
        let mut ceiling = Ceiling::default();
        for (_, cluster) in self.pool.iter().filter(|(_, cluster)| look.is_open(cluster)) {
            let Some(snapshot) = cluster.snapshot() else { continue };
            let free = |dimension| cluster.free(snapshot, look.origin(), &dimension);
            ceiling.open = true;
            ceiling.cpu = ceiling.cpu.max(free(Dimension::Cpu));
            ceiling.gpu = ceiling.gpu.max(free(Dimension::Gpu));
            ceiling.memory = ceiling.memory.max(free(Dimension::Memory));
        }
        ceiling
    }

    /// Has the head of this class waited longer than `starvation_after`?
    fn is_starving(&self, class: ClassKey) -> bool {
        let Some((_, &job)) = self.queue[class].ready().first_key_value() else { return false };
        match self.jobs[job].record().phase {
            Phase::Waiting { since, .. } => self.now.since(since) >= self.settings.starvation_after,
            _ => false,
        }
    }
}

/// Will this reason pass without intervention, as the cluster's work ends or time goes by? A full head
/// node does not count: work that keeps off the cluster meanwhile would leave no room for a driver.
fn is_passing(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::OverThreshold { .. }
            | Reason::TooSoon { .. }
            | Reason::AtLimit { .. }
            | Reason::Starting { .. }
            | Reason::NoRoom { .. }
            | Reason::NoRoomOnNode { .. }
    )
}

fn count_rejections(verdicts: &[Verdict], counts: &mut [u32; ReasonKind::ALL.len()]) {
    for verdict in verdicts {
        if let Verdict::Rejected(reason) = verdict {
            counts[reason.kind() as usize] += 1;
        }
    }
}
