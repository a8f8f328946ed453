//! Preemption: work that is allowed to gets its room from preemptible jobs, which are stopped and
//! queued again.
//!
//! Loops cannot happen: a job that was stopped for others stops nobody, work of a higher priority
//! stops only work of a lower one, and a group that is below its share after it got the room stops
//! only work of one that is still at its share after it gave the room.

use std::collections::{BTreeSet, VecDeque};

use multicluster_types::{
    Dimension, JobId, Kind, Quantity, Reason, Resources, Span, Timestamp, Verdict, Work,
    settings::{ThresholdCounts, Utilization},
};

use crate::{
    Core, Output,
    jobs::{Job, JobKey},
    pool::{Cluster, ClusterKey},
    queue::ClassKey,
    record::{Live, Phase, Step},
    timers::{Due, Timer, Timers},
};

/// How long a job waits for its room on one cluster. After that it may try another one: a job that
/// will not die holds up nobody.
const PATIENCE: Span = Span::minutes(15);
/// How long after the last of them has ended its room may not be in the facts.
const SETTLES: Span = Span::seconds(60);
const HOUR: Span = Span::minutes(60);
/// How many waiting jobs may look for room in one cycle.
const TRIES: u32 = 8;

/// Jobs are being stopped on a cluster for this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Clearing {
    pub(crate) job: JobId,
    /// The jobs that are being stopped.
    pub(crate) victims: BTreeSet<JobKey>,
    /// When the waiting job may look elsewhere.
    until: Timestamp,
}

/// How often work was stopped lately, and when to look again.
#[derive(Debug, Default)]
pub(super) struct Preemption {
    recent: VecDeque<Timestamp>,
    due: Due,
    /// Waiting jobs that may still look for room in this cycle.
    tries: u32,
}

impl Preemption {
    pub(super) fn begin_cycle(&mut self) {
        self.tries = TRIES;
    }

    /// The timer went off.
    pub(super) fn time_came(&mut self) {
        self.due = None;
    }

    fn watch(&mut self, at: Timestamp, timers: &mut Timers) {
        if self.due.is_none_or(|due| at < due) {
            timers.set(&mut self.due, Timer::Preemption, at);
        }
    }

    /// How many more jobs may be stopped now, and when that changes.
    fn budget(&mut self, now: Timestamp, per_hour: u32) -> (usize, Option<Timestamp>) {
        while self.recent.front().is_some_and(|at| *at + HOUR <= now) {
            self.recent.pop_front();
        }
        let left = (per_hour as usize).saturating_sub(self.recent.len());
        (left, self.recent.front().map(|at| *at + HOUR))
    }
}

/// A way to make room on one cluster.
struct Plan {
    on: ClusterKey,
    victims: Vec<JobKey>,
}

impl Core {
    /// May any work at all stop other work?
    pub(super) fn can_preempt(&self) -> bool {
        self.settings.preempt_from.0.is_some() || self.settings.shares.any_preempts()
    }

    /// May work like this of any owner, or of one of these classes, stop other work?
    pub(super) fn family_may_preempt<'a>(
        &self,
        work: &Work,
        mut classes: impl Iterator<Item = &'a ClassKey>,
    ) -> bool {
        let by_priority = self.settings.preempt_from.0.is_some_and(|from| work.priority >= from);
        by_priority || classes.any(|class| self.sharers[self.queue[*class].sharer].terms.preempts)
    }

    /// May the head of this class stop other work?
    pub(super) fn may_preempt(&self, class: ClassKey) -> bool {
        self.can_preempt() && self.family_may_preempt(&self.queue[class].work, [&class].into_iter())
    }

    /// Keeps the room that is being made on each cluster for the job it is made for.
    pub(super) fn keep_cleared_room(&mut self) {
        let clearing = self.pool.iter().filter_map(|(key, cluster)| Some((key, cluster.clearing.clone()?)));
        let clearing: Vec<_> = clearing.collect();
        for (on, Clearing { job, until, victims }) in clearing {
            let waits = self.jobs.find(&job).filter(|key| {
                matches!(self.jobs[*key].record().phase, Phase::Waiting { .. }) && self.is_ready(*key)
            });
            let Some(job) = waits.filter(|_| self.now < until) else {
                self.pool[on].clearing = None;
                if self.now >= until {
                    self.pool[on].stubborn.extend(victims);
                }
                continue;
            };
            self.keep_room(job, on);
            self.preemption.watch(until, &mut self.timers);
        }
    }

    /// A job has left this cluster. When the last one that was stopped has, the facts soon show it.
    pub(super) fn note_victim_gone(&mut self, key: JobKey, on: ClusterKey) {
        if let Some(clearing) = &mut self.pool[on].clearing
            && clearing.victims.remove(&key)
            && clearing.victims.is_empty()
        {
            clearing.until = clearing.until.min(self.now + SETTLES);
        }
    }

    /// Tries to make room for the head of this class, which no cluster has accepted.
    pub(super) fn preempt(&mut self, class: ClassKey, verdicts: &[Verdict], out: &mut Output) {
        let Some((_, &head)) = self.queue[class].ready().first_key_value() else { return };
        let was_stopped = self.jobs[head].record().troubles.as_ref().is_some_and(|t| t.preemptions > 0);
        let id = &self.jobs[head].record().id;
        let is_helped = self.pool.iter().any(|(_, c)| c.clearing.as_ref().is_some_and(|c| c.job == *id));
        if was_stopped || is_helped || self.preemption.tries == 0 {
            return;
        }
        self.preemption.tries -= 1;
        let (budget, next) = self.preemption.budget(self.now, self.settings.preempt_per_hour);
        let candidates: Vec<_> = self
            .pool
            .iter()
            .zip(verdicts)
            .filter(|(_, verdict)| room_would_help(verdict))
            .map(|((key, _), _)| key)
            .collect();
        let plans = candidates.into_iter().filter_map(|on| self.plan(head, on));
        let best = plans.min_by_key(|plan| (plan.victims.len(), plan.on));
        let Some(plan) = best else { return self.watch_for_victims(head) };
        if plan.victims.len() > budget {
            if let Some(at) = next {
                self.preemption.watch(at, &mut self.timers);
            }
            return;
        }
        self.carry_out(head, &plan, out);
    }

    fn carry_out(&mut self, head: JobKey, plan: &Plan, out: &mut Output) {
        let until = self.now + PATIENCE;
        for victim in &plan.victims {
            if self.step(*victim, Step::Preempt, out) {
                self.preemption.recent.push_back(self.now);
                self.send_stop(*victim, out);
            }
        }
        let cluster = &self.pool[plan.on];
        let dying = cluster.live.iter().filter(|key| self.is_dying(cluster, **key)).copied();
        let job = self.jobs[head].record().id.clone();
        let clearing = Clearing { job, victims: dying.collect(), until };
        self.pool[plan.on].clearing = Some(clearing);
        self.keep_room(head, plan.on);
        self.preemption.watch(until, &mut self.timers);
    }

    /// The fewest jobs on this cluster whose end would make room for the head.
    fn plan(&self, head: JobKey, on: ClusterKey) -> Option<Plan> {
        let (cluster, work) = (&self.pool[on], &*self.jobs[head].record().work);
        if cluster.clearing.is_some()
            || cluster.reserved.as_ref().is_some_and(|r| r.rank != self.jobs[head].rank())
        {
            return None;
        }
        let work_of = |key: &JobKey| &*self.jobs[*key].record().work;
        let dying = cluster.live.iter().filter(|key| self.is_dying(cluster, **key));
        // The work that will be gone: first that of jobs that are being stopped already.
        let mut gone: Vec<&Work> = dying.map(work_of).collect();
        let (before, mut chosen, mut given) = (gone.len(), Vec::new(), Given::default());
        for victim in self.victims(head, cluster) {
            if !self.lacks(work, cluster, &gone) {
                break;
            }
            let theirs = work_of(&victim);
            if !theirs.demand.is_empty() && self.is_entitled(head, victim, &mut given) {
                gone.push(theirs);
                chosen.push(victim);
            }
        }
        if gone.is_empty() || self.lacks(work, cluster, &gone) {
            return None;
        }
        // Those that were chosen first may not be needed beside a larger one.
        for at in (0..chosen.len()).rev() {
            let spared = gone.remove(before + at);
            if self.lacks(work, cluster, &gone) {
                gone.insert(before + at, spared);
            } else {
                chosen.remove(at);
            }
        }
        Some(Plan { on, victims: chosen })
    }

    /// Is its room about to be free? Not if it was asked long ago.
    fn is_dying(&self, cluster: &Cluster, key: JobKey) -> bool {
        self.jobs[key].is_preempted() && !cluster.stubborn.contains(&key)
    }

    /// The jobs there that may be stopped, in the order in which they would be.
    fn victims(&self, head: JobKey, cluster: &Cluster) -> Vec<JobKey> {
        let old_enough =
            |live: &Live| live.running_at().is_some_and(|at| at + self.settings.preempt_after <= self.now);
        let may_be = |key: &JobKey| {
            let job = &self.jobs[*key];
            *key != head && is_victim(job) && job.live().is_some_and(old_enough)
        };
        let mut victims: Vec<_> = cluster.live.iter().copied().filter(may_be).collect();
        victims.sort_by_cached_key(|key| {
            let job = &self.jobs[*key];
            let over = self.sharers.over_share(self.queue[job.class].sharer);
            let since = job.live().and_then(Live::running_at);
            (job.record().work.priority, std::cmp::Reverse(over), std::cmp::Reverse(since))
        });
        victims
    }

    /// May the head have the room of this job? If the jobs in `given` were stopped for it, too.
    fn is_entitled<'a>(&'a self, head: JobKey, victim: JobKey, given: &mut Given<'a>) -> bool {
        let (head, victim) = (&self.jobs[head], &self.jobs[victim]);
        let (work, theirs) = (&*head.record().work, &*victim.record().work);
        if self
            .settings
            .preempt_from
            .0
            .is_some_and(|from| work.priority >= from && theirs.priority < work.priority)
        {
            return true;
        }
        let (mine, other) = (self.queue[head.class].sharer, self.queue[victim.class].sharer);
        let allowed = self.sharers[mine].terms.preempts
            && mine != other
            && theirs.priority <= work.priority
            && self.sharers.stays_below(mine, work)
            && self
                .sharers
                .stays_at(other, given.0.get(&other).into_iter().flatten().copied().chain([theirs]));
        if allowed {
            given.0.entry(other).or_default().push(victim.record().work.as_ref());
        }
        allowed
    }

    /// Would the head still find no room if this work were gone?
    fn lacks(&self, work: &Work, cluster: &Cluster, gone: &[&Work]) -> bool {
        let Some(snapshot) = cluster.snapshot() else { return true };
        let mut freed = Resources::default();
        gone.iter().for_each(|theirs| freed.add(&theirs.demand));
        let short = |(dimension, demand): (Dimension, Quantity)| {
            cluster
                .free(snapshot, multicluster_types::Origin::Outside, &dimension)
                .plus(freed.get(&dimension))
                < demand
        };
        let node = work.on_one_node();
        let frees_a_node = |theirs: &&Work| node.first_beyond_total(theirs.on_one_node()).is_none();
        let no_node = crate::nodes::full(snapshot, cluster.nodes_left(snapshot), work).is_some()
            && snapshot.nodes > 1
            && !gone.iter().any(frees_a_node);
        work.demand.iter().any(short) || no_node || self.stays_busy(cluster, &freed)
    }

    /// Would the cluster still be over its threshold? What hosts measure cannot be foretold.
    fn stays_busy(&self, cluster: &Cluster, freed: &Resources) -> bool {
        if cluster.over_threshold().is_none() {
            return false;
        }
        let Some(snapshot) = cluster.snapshot() else { return true };
        let is_known = self.settings.utilization == Utilization::Logical
            && self.settings.threshold_counts == ThresholdCounts::All;
        let limit = cluster.terms.threshold;
        let busy = |dimension: &Dimension| {
            let load = snapshot.used.get(dimension).plus(cluster.ledger().promised().get(dimension));
            let total = snapshot.total.get(dimension);
            multicluster_types::Share::of(load.minus(freed.get(dimension)).parts(), total.parts()) > limit
        };
        !is_known || [Dimension::Cpu, Dimension::Gpu, Dimension::Memory].iter().any(busy)
    }

    /// Looks again when the next job is old enough to be stopped.
    fn watch_for_victims(&mut self, head: JobKey) {
        let after = self.settings.preempt_after;
        let next = self
            .jobs
            .iter()
            .filter(|(key, job)| *key != head && is_victim(job))
            .filter_map(|(_, job)| Some(job.live()?.running_at()? + after));
        if let Some(at) = next.filter(|at| *at > self.now).min() {
            self.preemption.watch(at, &mut self.timers);
        }
    }
}

/// The work that each sharer would give, in one plan.
#[derive(Default)]
struct Given<'a>(std::collections::BTreeMap<crate::shares::SharerKey, Vec<&'a Work>>);

/// Is it running, may it be stopped for others, and is it not being stopped already?
fn is_victim(job: &Job) -> bool {
    let work = &job.record().work;
    let runs = job
        .live()
        .is_some_and(|live| live.running_at().is_some() && live.lost_since().is_none() && !live.stopping());
    work.kind == Kind::Job && work.preemptible && runs
}

/// Is it only room that is missing?
fn room_would_help(verdict: &Verdict) -> bool {
    matches!(
        verdict,
        Verdict::Rejected(Reason::NoRoom { .. } | Reason::NoRoomOnNode { .. } | Reason::OverThreshold { .. })
    )
}
