//! The scheduling cycle: six phases, one function each, in order.
//!
//! A cycle runs when something changed, and never without a cause: where only time counts, a
//! timer is the cause. A full cycle looks at the head of every class. If only new work arrived,
//! the cycle looks at the heads of its classes alone: nothing else can have become placeable.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use multicluster_types::{
    Decision, Dimension, Kind, Origin, Priority, Quantity, Reason, ReasonKind, Resources, Span, Transition,
    Verdict, Work, settings::Order,
};

use crate::{
    Core, Effect, Output, Write,
    jobs::{Job, JobKey},
    look::{Look, View},
    pool::ClusterKey,
    queue::{ClassKey, Rank},
    record::{Live, Phase, Submitted},
    reservation::Reservation,
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

/// The order of choice. Unlike a [`Rank`] it may change while a job waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    priority: Reverse<Priority>,
    /// How long the job is expected to run, if that counts. Not if it has waited too long: `None`
    /// comes first.
    expected: Option<Span>,
    /// What its owner will have had for its weight.
    claim: u64,
    seq: u64,
}

/// The heads that a cycle looks at, in the order of choice.
type Agenda = BTreeSet<(Turn, ClassKey)>;

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
        let compete = self.sharers.compete();
        self.preemption.begin_cycle();
        let mut ceilings: BTreeMap<Tier, Ceiling> = BTreeMap::new();
        let mut agenda = Agenda::new();
        let mut heads = self.heads(&dirty, compete, &mut agenda, &mut ceilings);
        let mut verdicts = std::mem::take(&mut self.verdicts);
        let mut rejections = [0; ReasonKind::ALL.len()];
        let (mut looked_at, mut looks, mut placed) = (BTreeSet::new(), 0, 0);
        let mut unreserved = self.pool.iter().filter(|(_, cluster)| cluster.reserved.is_none()).count();
        while let Some((turn, class)) = agenda.pop_first() {
            // A placement since then may have put others before it.
            if compete && let Some(now) = self.turn(class, compete).filter(|now| *now > turn) {
                agenda.insert((now, class));
                continue;
            }
            let tier = tier(&self.queue[class].work);
            let starving = unreserved > 0 && self.queue.starving().contains(&class);
            // One head of each tier gets a full look, whatever the ceiling: it tells the reasons.
            let is_first = tier.is_some_and(|tier| looked_at.insert(tier));
            let ceiling = tier.and_then(|tier| ceilings.get(&tier));
            let must_look = is_first || starving || self.may_preempt(class);
            if ceiling.is_some_and(|ceiling| !ceiling.admits(&self.queue[class].work.demand)) && !must_look {
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
                    if let Some(turn) = self.turn(class, compete) {
                        agenda.insert((turn, class));
                        heads += 1;
                    }
                }
                None => {
                    unreserved -= usize::from(starving && self.reserve(class, &verdicts));
                    if self.may_preempt(class) {
                        self.preempt(class, &verdicts, out);
                    }
                    count_rejections(&verdicts, &mut rejections);
                    // A rejected head spares the next head of its tier a full look.
                    if let Some(tier) = tier {
                        ceilings.entry(tier).or_insert_with(|| self.ceiling(&self.queue[class].work));
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

    /// Phase 1, heads: the first of each class, in the order of choice. Families that ask for more
    /// than any cluster has free are left out, except for one that tells why. Returns how many
    /// heads there are.
    fn heads(
        &mut self,
        dirty: &Dirty,
        compete: bool,
        agenda: &mut Agenda,
        ceilings: &mut BTreeMap<Tier, Ceiling>,
    ) -> u32 {
        let entry = |class: &ClassKey| Some((self.turn(*class, compete)?, *class));
        if !dirty.all {
            agenda.extend(dirty.classes.iter().filter_map(entry));
            return u32::try_from(agenda.len()).unwrap_or(u32::MAX);
        }
        let (mut count, can_preempt) = (0, self.can_preempt());
        for (_, family) in self.queue.open_families() {
            let heads = family.heads();
            count += heads.len();
            let Some(tier) = tier(&family.work) else {
                agenda.extend(heads.iter().filter_map(entry));
                continue;
            };
            let mut is_first = false;
            let ceiling = ceilings.entry(tier).or_insert_with(|| {
                is_first = true;
                self.ceiling(&family.work)
            });
            let may_preempt = can_preempt && self.family_may_preempt(&family.work, heads.iter());
            if may_preempt || ceiling.admits(&family.work.demand) {
                agenda.extend(heads.iter().filter_map(entry));
            } else if is_first {
                agenda.extend(heads.first().and_then(entry));
            }
        }
        agenda.extend(self.queue.starving().iter().filter_map(entry));
        for (_, cluster) in self.pool.iter_mut() {
            cluster.last_reserved = cluster.reserved.take();
        }
        self.keep_cleared_room();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Whose turn it is, by the head of this class. Shares count if several owners `compete`.
    pub(super) fn turn(&self, class: ClassKey, compete: bool) -> Option<Turn> {
        let rank = self.queue.head_of(class)?;
        let (sharer, work) = (self.queue[class].sharer, &self.queue[class].work);
        let by_length = self.settings.order == Order::Shortest && !self.queue.starving().contains(&class);
        let half_life = self.settings.shares.half_life();
        Some(Turn {
            priority: Reverse(rank.priority()),
            expected: by_length.then(|| self.runs.expected(work)),
            claim: if compete { self.sharers.claim(sharer, work, self.now, half_life) } else { 0 },
            seq: rank.seq(),
        })
    }

    /// Phase 2, snapshot: the latest facts per cluster, plus the ledger.
    pub(super) fn view(&self) -> View<'_> {
        View {
            moment: self.moment(),
            settings: &self.settings,
            policies: self.policies.in_force(),
            pool: &self.pool,
            spaced: true,
            rewound: self.rewind.waits_for(),
        }
    }

    /// A look at the pool for one job, with all that is known of the job.
    pub(super) fn look_of<'a>(&'a self, job: &'a Job) -> Look<'a> {
        let sharer = &self.sharers[self.queue[job.class].sharer];
        Look::new(self.view(), &job.record().work, job.rank(), job.avoid())
            .without(job.unsuited())
            .limited_by(sharer.beyond_limit(&job.record().work))
    }

    /// The same for work that is submitted now.
    pub(super) fn look_at_new<'a>(&'a self, work: &'a Work) -> Look<'a> {
        Look::new(self.view(), work, Rank::new(work.priority, u64::MAX), &[])
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
        let (attempt, rank) = (job.next_attempt(), job.rank());
        if let Some(reservation) = &mut cluster.reserved {
            reservation.note(rank, &work);
        }
        // The rest of a batch shares the slot of its first job; it does not prolong the slot.
        if work.is_top_level() && cluster.spaced_until(self.now).is_none() {
            cluster.record.clock = Some(Submitted { at: self.now, group: work.group.clone() });
            out.writes.push(Write::Cluster(cluster.record.clone()));
            self.arm_spacing(on);
        }
        let grows = verdicts.iter().find_map(Verdict::chosen_growth).unwrap_or(0);
        out.writes.push(Write::Decision(Box::new(Decision {
            job: id,
            attempt,
            at: self.now,
            cluster: name.clone(),
            roster: Arc::clone(self.pool.roster()),
            verdicts: verdicts.into(),
        })));
        let mut live = Live::new(attempt, name.clone(), incarnation, self.now);
        live.grows = grows;
        let live = Phase::Live(Box::new(live));
        let moved = self.move_to(key, Transition::Dispatch, live, out);
        // Tasks and actors are run by their callers, who learn of the placement from the event.
        if moved && work.kind == Kind::Job {
            out.effects.push(Effect::Submit { run: self.jobs[key].run(), cluster: name });
        }
        moved
    }

    /// Phase 6, requeue: work that was not placed stays where it is, in order. Later and smaller
    /// work may pass it until it starves: then room is kept for it on the next cluster that could
    /// hold it. True if there is such a cluster.
    fn reserve(&mut self, class: ClassKey, verdicts: &[Verdict]) -> bool {
        let Some((_, &head)) = self.queue[class].ready().first_key_value() else { return false };
        let job = &self.jobs[head];
        let id = &job.record().id;
        if self.pool.is_reserved_for(id) {
            return false; // One reservation is enough.
        }
        let busy = |verdict: &Verdict| match verdict {
            Verdict::Rejected(reason) => is_passing(reason),
            Verdict::Chosen { .. } | Verdict::Eligible { .. } => false,
        };
        let look = Look::new(self.view(), &self.queue[class].work, job.rank(), &[]);
        let best = self
            .pool
            .iter()
            .zip(verdicts)
            .filter(|((_, cluster), verdict)| busy(verdict) && cluster.reserved.is_none())
            // Keeping our work off would not help: it would stay closed for as long as the other runs.
            .filter(|((_, cluster), _)| cluster.blocked_by_foreign(&self.queue[class].work).is_none())
            .map(|((key, cluster), _)| {
                let kept_before = cluster.last_reserved.as_ref().is_some_and(|r| r.id == *id);
                ((kept_before, look.free_share(cluster) + look.spare_share(cluster)), key)
            })
            .max_by(|(a, _), (b, _)| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
        let Some((_, key)) = best else { return false };
        self.keep_room(head, key);
        true
    }

    /// Keeps room on this cluster for a job.
    pub(super) fn keep_room(&mut self, job: JobKey, on: ClusterKey) {
        let cluster = &self.pool[on];
        let Some(snapshot) = cluster.snapshot() else { return };
        let live = cluster.live.iter().map(|other| &self.jobs[*other]);
        let reservation = Reservation::new(&self.jobs[job], snapshot, cluster.foreign(), live);
        self.pool[on].reserved = Some(reservation);
    }

    /// The most room that any cluster open to this tier has.
    fn ceiling(&self, work: &Work) -> Ceiling {
        let look = Look::new(self.view(), work, Rank::new(work.priority, 0), &[]);
        let mut ceiling = Ceiling::default();
        for (_, cluster) in self.pool.iter().filter(|(_, cluster)| look.closed(cluster).is_none()) {
            let Some(snapshot) = cluster.snapshot() else { continue };
            let free = |dimension| cluster.free(snapshot, look.origin(), &dimension);
            ceiling.open = true;
            ceiling.cpu = ceiling.cpu.max(free(Dimension::Cpu));
            ceiling.gpu = ceiling.gpu.max(free(Dimension::Gpu));
            ceiling.memory = ceiling.memory.max(free(Dimension::Memory));
        }
        ceiling
    }
}

/// A batch has no tier: it may share a slot that is closed to others.
fn tier(work: &Work) -> Option<Tier> {
    work.group.is_none().then(|| Tier {
        inside: work.origin == Origin::Inside,
        top_level: work.is_top_level(),
        job: work.kind == Kind::Job,
        burdens_head: work.burdens_head(),
    })
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
