//! The invariants, restated without the core's code. The oracle knows only the events of the
//! world and the writes.

use std::{
    borrow::Cow,
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
};

use multicluster_core::{
    ClusterChange, Core, DispatchOutcome, Durable, Event, Output, Run, RunStatus, Write,
    record::{AttemptOutcome, AttemptRecord, JobRecord, Phase, Sent, Standing},
};
use multicluster_types::{
    Attempt, ClusterName, Decision, ExitCodes, GroupId, JobId, Kind, NodeShape, OnClusterLoss, Origin,
    Quantity, Resources, Settings, Snapshot, Span, State, Timestamp, Verdict, Work,
    settings::{Claims, Order, TagAffinity, ThresholdCounts, Utilization},
};

use crate::{
    growth::Growth,
    preemption::Preemption,
    room::{is_labelled, keeps_off, nodes_left},
    sharing::Sharing,
};

/// How long ended work is known at least.
const KEPT: Span = Span::minutes(5);

#[derive(Debug, Default)]
pub struct Oracle {
    thorough: bool,
    loads: RefCell<BTreeMap<(ClusterName, Timestamp), Rc<OnCluster>>>,
    steps: u64,
    /// The fold of the writes.
    pub store: Durable,
    /// The latest facts per cluster that the core received; gone after a crash.
    facts: BTreeMap<ClusterName, Snapshot>,
    poll_failures: BTreeMap<ClusterName, u32>,
    /// Clusters that refused the token of a job, and have not answered a poll since.
    locked: BTreeSet<ClusterName>,
    open: BTreeSet<ClusterName>,
    /// Clusters with a probe under way, and the probe.
    probing: BTreeMap<ClusterName, JobId>,
    half_open: BTreeSet<ClusterName>,
    /// The latest top-level submission per cluster, never forgotten.
    clock: BTreeMap<ClusterName, (Timestamp, Option<GroupId>)>,
    accepted: BTreeSet<JobId>,
    /// Jobs that a caller wants forgotten.
    deleted: BTreeSet<JobId>,
    reruns: BTreeMap<JobId, u32>,
    /// The real runs: per job, attempts started and still running.
    started: BTreeMap<JobId, u32>,
    running: BTreeMap<JobId, u32>,
    succeeded: BTreeSet<JobId>,
    /// The runs that failed, and their exit codes.
    failed: BTreeMap<(JobId, Attempt), Option<i64>>,
    /// How many failures of each job are known since it was accepted or run again.
    failures: BTreeMap<JobId, u32>,
    /// When the caller of a queued placement was last heard of.
    heard: BTreeMap<JobId, Timestamp>,
    /// How many jobs each cluster might be starting at once, after the last step.
    windows: BTreeMap<ClusterName, u32>,
    /// Clusters that showed in this step that they do not cope.
    troubled: BTreeSet<ClusterName>,
    sharing: Sharing,
    preemption: Preemption,
    growth: Growth,
    /// Clusters on which room was kept for a job after the last step.
    reserved: BTreeSet<ClusterName>,
}

/// The work on a cluster.
#[derive(Debug, Default)]
struct OnCluster {
    /// Promised and not in its facts; the part that jobs there started; the part that Ray sets
    /// aside at once.
    assumed: Resources,
    inside: Resources,
    held: Resources,
    /// In its facts, and still needed.
    claimed: Resources,
    /// In its facts: what work from outside needs, and what Ray set aside for all our work.
    shown: Resources,
    set_aside: Resources,
    /// Work that will need room on one node, and is not in its facts.
    on_one_node: Vec<Arc<Work>>,
    /// Top-level jobs.
    jobs: u32,
    /// Jobs that have not been seen running yet; those that wait for nodes are counted apart.
    starting: u32,
    waiting: u32,
    /// The part of their demand that new nodes will bring.
    on_new_nodes: Resources,
    /// Jobs whose driver is on the head node, and how many of these drivers its facts do not show.
    drivers: u32,
    unseen_drivers: u32,
}

impl Oracle {
    /// `thorough`: compare all state at every step.
    pub fn new(thorough: bool) -> Self {
        Self { thorough, ..Self::default() }
    }

    // ---- what the world tells it

    pub fn told_facts(
        &mut self,
        cluster: &ClusterName,
        snapshot: &Snapshot,
        now: Timestamp,
        settings: &Settings,
    ) {
        // A snapshot cannot be from the future.
        let snapshot = Snapshot { taken_at: snapshot.taken_at.min(now), ..snapshot.clone() };
        let overtaken = self.facts.get(cluster).is_some_and(|last| last.taken_at > snapshot.taken_at);
        let known = self.store.clusters.contains_key(cluster);
        if known && !overtaken && snapshot.taken_at + settings.snapshot_max_age > now {
            self.growth.told_facts(cluster, self.facts.get(cluster), &snapshot);
            self.facts.insert(cluster.clone(), snapshot);
            self.poll_failures.insert(cluster.clone(), 0);
            self.locked.remove(cluster);
        }
    }

    pub fn told_poll_failed(&mut self, cluster: &ClusterName) {
        if self.store.clusters.contains_key(cluster) {
            *self.poll_failures.entry(cluster.clone()).or_default() += 1;
        }
    }

    pub fn told_answer(&mut self, cluster: &ClusterName, took: Span, settings: &Settings) {
        if took > settings.dashboard_slow {
            self.told_trouble(cluster);
        }
    }

    pub fn told_trouble(&mut self, cluster: &ClusterName) {
        self.troubled.insert(cluster.clone());
    }

    pub fn told_submission(&mut self, run: &Run, outcome: &DispatchOutcome, took: Span, settings: &Settings) {
        let live = self.store.jobs.get(&run.job).and_then(JobRecord::live);
        let live = live.filter(|live| live.attempt == run.attempt);
        let Some(cluster) = live.map(|live| live.cluster.clone()) else { return };
        // An earlier send, whose outcome is unknown, is what counts then.
        let is_first = live.is_some_and(|live| match live.standing() {
            Standing::Sending { sends } => *sends == 1,
            Standing::Unheard { sent, .. } => *sent == Sent::UnderWay,
            Standing::Pending { .. } | Standing::Running { .. } => false,
        });
        match outcome {
            DispatchOutcome::Failed(_) | DispatchOutcome::Unknown(_) => self.told_trouble(&cluster),
            DispatchOutcome::Denied(_) if is_first => {
                // A probe that was not let in says nothing: the next one is the probe.
                if self.probing.get(&cluster) == Some(&run.job) {
                    self.probing.remove(&cluster);
                }
                self.locked.insert(cluster);
            }
            _ => self.told_answer(&cluster, took, settings),
        }
    }

    pub fn told_accepted(&mut self, job: &JobId) {
        self.accepted.insert(job.clone());
    }

    pub fn told_delete(&mut self, job: &JobId) {
        self.deleted.insert(job.clone());
    }

    pub fn told_rerun(&mut self, job: &JobId) {
        *self.reruns.entry(job.clone()).or_default() += 1;
    }

    pub fn told_heard(&mut self, job: &JobId, now: Timestamp) {
        self.heard.insert(job.clone(), now);
    }

    /// The control plane could hear no caller until now.
    pub fn told_deaf(&mut self, now: Timestamp) {
        self.heard.values_mut().for_each(|heard| *heard = now);
    }

    /// Callers cannot be heard while the control plane is down.
    pub fn told_crash(&mut self, now: Timestamp) {
        self.told_deaf(now);
        self.facts.clear();
        self.poll_failures.clear();
        self.locked.clear();
        self.open.clear();
        self.half_open.clear();
        self.probing.clear();
        self.windows.clear();
        self.troubled.clear();
        self.reserved.clear();
        self.preemption.told_crash();
        self.growth = Growth::default();
    }

    /// The control plane is back, with what it has stored.
    pub fn told_restart(&mut self, now: Timestamp) {
        self.sharing.told_restart(&self.store, now);
    }

    /// A submission cannot have been in the future: one that was counts from now.
    pub fn told_clock(&mut self, now: Timestamp) {
        self.clock.values_mut().for_each(|(at, _)| *at = now.min(*at));
    }

    pub fn told_started(&mut self, job: &JobId) {
        *self.started.entry(job.clone()).or_default() += 1;
        *self.running.entry(job.clone()).or_default() += 1;
        let Some(record) = self.store.jobs.get(job) else { return };
        let retry = &record.work.retry;
        if retry.on_cluster_loss == OnClusterLoss::Requeue {
            return;
        }
        let reruns = self.reruns.get(job).copied().unwrap_or(0);
        let allowed = (1 + retry.max_retries) * (1 + reruns) + self.preemption.times(job);
        assert!(
            self.started[job] <= allowed,
            "{job} was started {} times, {allowed} allowed",
            self.started[job]
        );
        // An operator may run a job again whose cluster was removed by force.
        let rerun = self.reruns.contains_key(job);
        assert!(rerun || self.running[job] == 1, "{job} runs {} times at once", self.running[job]);
    }

    pub fn told_ended(&mut self, job: &JobId, attempt: Attempt, end: &RunStatus) {
        *self.running.entry(job.clone()).or_default() -= 1;
        match end {
            RunStatus::Succeeded => drop(self.succeeded.insert(job.clone())),
            RunStatus::Failed { exit_code, .. } => {
                self.failed.insert((job.clone(), attempt), *exit_code);
            }
            _ => {}
        }
    }

    pub fn told_killed(&mut self, job: &JobId) {
        *self.running.entry(job.clone()).or_default() -= 1;
    }

    // ---- what it checks

    /// Everything, after one step.
    pub fn check(&mut self, core: &Core, out: &Output) {
        let (now, settings) = (core.now(), core.settings());
        self.check_windows(core, settings);
        self.sharing.regroup(&self.store, settings, now);
        for event in &out.events {
            if let Event::Cluster { cluster, change, .. } = event {
                self.note_breaker(cluster, change);
                if matches!(change, ClusterChange::NotGrown(_)) {
                    let (spec, facts) = (&self.store.clusters[cluster].spec, &self.facts[cluster]);
                    self.growth.note_not_grown(spec, facts, &self.store, now);
                }
            }
        }
        let reserved = core.clusters().filter(|cluster| cluster.reserved_for.is_some());
        let reserved: BTreeSet<_> = reserved.map(|cluster| cluster.spec.name.clone()).collect();
        for (nth, write) in out.writes.iter().enumerate() {
            if let Write::Job(record) = write {
                self.preemption.check(record, &self.store, settings, now);
                let was_live = self.store.jobs.get(&record.id).is_some_and(|was| was.live().is_some());
                if was_live && record.live().is_none() {
                    self.sharing.note_left(&record.work, now);
                }
            }
            match write {
                Write::Job(record) if record.work.kind != Kind::Job => {
                    self.check_heard(record, now, settings)
                }
                Write::Job(record) if record.state().is_terminal() => {
                    self.failures.remove(&record.id);
                }
                Write::Attempt(over) => self.check_retry(over, &out.writes[nth..]),
                Write::Decision(decision) => self.check_dispatch(decision, &reserved, now, settings),
                Write::DeleteJob(job) => {
                    self.check_forgotten(job, now, settings);
                    self.accepted.remove(job);
                }
                Write::Cluster(record) => {
                    let name = &record.spec.name;
                    let before = self.store.clusters.get(name).map(|before| &before.spec.elastic);
                    if before.is_some_and(|before| *before != record.spec.elastic) {
                        self.growth.forget(name);
                    }
                }
                Write::DeleteCluster(cluster) => {
                    self.facts.remove(cluster);
                    self.growth.forget(cluster);
                    self.poll_failures.remove(cluster);
                    self.locked.remove(cluster);
                    self.open.remove(cluster);
                    self.half_open.remove(cluster);
                    self.probing.remove(cluster);
                    // A cluster that is registered again under an old name starts without a clock.
                    self.clock.remove(cluster);
                }
                _ => {}
            }
            self.store.apply(write);
            self.loads.borrow_mut().clear();
        }
        self.steps += 1;
        if self.looks_closely() {
            self.check_durable(core);
        }
        self.sharing.check(&self.store, now);
        self.reserved = reserved;
        self.check_retention(now, settings);
        self.check_nothing_lost(core);
        self.check_waiting(core);
        self.check_nobody_waits_for_the_dead(now, settings);
    }

    /// A job that ran and failed is run again if its owner allows one more, and its exit code is
    /// worth it; otherwise it has ended.
    fn check_retry(&mut self, over: &AttemptRecord, then: &[Write]) {
        let job = &over.job;
        let Some(exit_code) = self.failed.get(&(job.clone(), over.live.attempt)) else { return };
        if over.outcome != AttemptOutcome::Failed {
            return;
        }
        let mut records = then.iter().filter_map(|write| match write {
            Write::Job(record) if record.id == *job => Some(record),
            _ => None,
        });
        let record = records.next().expect("the end of an attempt changes its job");
        let failures = self.failures.entry(job.clone()).or_default();
        *failures += 1;
        let retry = &record.work.retry;
        let is_in = |codes: &ExitCodes| codes.iter().any(|code| Some(code) == *exit_code);
        let worth_it = retry.codes.as_ref().is_none_or(|codes| {
            let (only, never) = (codes.retry_on(), codes.never_retry_on());
            (only.is_empty() || is_in(only)) && !is_in(never)
        });
        let again = *failures <= retry.max_retries && worth_it && !over.live.stopping();
        assert_eq!(
            record.state() == State::Queued,
            again,
            "{job} failed {failures} times, now with {exit_code:?}: {}, {retry:?}",
            record.state()
        );
    }

    /// Ended work is forgotten on request, after `retain_for`, or if its owner has more of its kind
    /// than `retain_finished`; within five minutes of its end only on request.
    fn check_forgotten(&mut self, job: &JobId, now: Timestamp, settings: &Settings) {
        let record = &self.store.jobs[job];
        let Phase::Ended(ended) = &record.phase else {
            panic!("{job} was forgotten while {}", record.state());
        };
        let age = now.since(ended.at);
        let there = self.store.jobs.values().filter(|other| is_on_shelf_of(record, other)).count();
        let many = there > settings.retain_finished as usize;
        let old = age >= KEPT && (many || age >= settings.retain_for);
        let asked = self.deleted.remove(job);
        assert!(asked || old, "{job} was forgotten after {age}, with {there} like it");
    }

    /// Nothing is kept for longer, or beyond the number.
    fn check_retention(&self, now: Timestamp, settings: &Settings) {
        if !self.looks_closely() {
            return;
        }
        for record in self.store.jobs.values() {
            let Phase::Ended(ended) = &record.phase else { continue };
            let age = now.since(ended.at);
            let there = self.store.jobs.values().filter(|other| is_on_shelf_of(record, other));
            let later = there.filter(|other| matches!(&other.phase, Phase::Ended(e) if e.at > ended.at));
            let too_old = age > settings.retain_for.max(KEPT);
            let pushed_out = age > KEPT && later.count() >= settings.retain_finished as usize;
            assert!(!too_old && !pushed_out, "{} ended {age} ago and is still known", record.id);
        }
    }

    /// A window is between one and the limit of the settings. It shrinks only after trouble, and
    /// then by half.
    fn check_windows(&mut self, core: &Core, settings: &Settings) {
        let most = settings.max_starting.get();
        let troubled = std::mem::take(&mut self.troubled);
        let before = std::mem::take(&mut self.windows);
        for cluster in core.clusters() {
            let (name, window) = (&cluster.spec.name, cluster.starting_limit);
            assert!((1..=most).contains(&window), "{name} may be starting {window} of {most}");
            let before = before.get(name).copied().unwrap_or(most).min(most);
            let halved = window == (before / 2).max(1) && troubled.contains(name);
            assert!(window >= before || halved, "{name}: from {before} to {window} without trouble");
            self.windows.insert(name.clone(), window);
        }
    }

    /// A queued placement is given up only if its caller was silent for long enough.
    fn check_heard(&mut self, record: &JobRecord, now: Timestamp, settings: &Settings) {
        match &record.phase {
            Phase::Waiting { .. } => {
                self.heard.insert(record.id.clone(), now);
            }
            Phase::Live(_) => {}
            Phase::Ended(ended) => {
                let given_up =
                    ended.message.as_ref().is_some_and(|message| message.as_str().contains("not heard of"));
                let waited = self.store.jobs.get(&record.id).is_some_and(|was| was.state() == State::Queued);
                let silent = self.heard.remove(&record.id).map(|heard| now.since(heard));
                if given_up && waited {
                    let silent = silent.unwrap_or_default();
                    assert!(silent >= settings.lease_ttl, "{} was given up after {silent}", record.id);
                }
            }
        }
    }

    /// A placement whose caller was silent for that long is given up.
    fn check_nobody_waits_for_the_dead(&self, now: Timestamp, settings: &Settings) {
        for (job, heard) in &self.heard {
            let waits = self.store.jobs.get(job).is_some_and(|record| record.state() == State::Queued);
            let silent = now.since(*heard);
            assert!(!waits || silent < settings.lease_ttl, "{job} waits, and nobody asked for {silent}");
        }
    }

    /// Comparing everything is expensive: at every step in some worlds, now and then in others.
    fn looks_closely(&self) -> bool {
        self.thorough || self.steps.is_multiple_of(32)
    }

    /// Every queued job has a reason for every cluster.
    fn check_explained(&self, core: &Core, record: &JobRecord) {
        let explanation = core.explain(&record.id).unwrap();
        assert_eq!(
            explanation.clusters.len(),
            self.store.clusters.len(),
            "{} has a verdict per cluster",
            record.id
        );
        for verdict in &explanation.clusters {
            let rejected = matches!(verdict.verdict, Verdict::Rejected(_));
            assert!(rejected, "{} waits although {} could take it", record.id, verdict.cluster);
        }
    }

    /// The tables agree, the writes add up to the live state, and so does a core rebuilt from them.
    fn check_durable(&self, core: &Core) {
        core.check().unwrap_or_else(|e| panic!("tables disagree: {e}"));
        let live = core.durable();
        assert_same(&self.store, &live, "the writes do not add up to the live state");
        let rebuilt = Core::rebuild(core.now(), core.settings().clone(), self.store.clone()).unwrap();
        rebuilt.check().unwrap_or_else(|e| panic!("rebuilt tables disagree: {e}"));
        assert_same(&rebuilt.durable(), &live, "what is rebuilt differs from the live state");
    }

    /// Events of one output are read before its writes: a probe that passed in this step is noted
    /// with its decision.
    fn note_breaker(&mut self, cluster: &ClusterName, change: &ClusterChange) {
        match change {
            ClusterChange::BreakerOpened => {
                self.open.insert(cluster.clone());
                self.half_open.remove(cluster);
                self.probing.remove(cluster);
            }
            ClusterChange::BreakerHalfOpen => {
                self.open.remove(cluster);
                self.half_open.insert(cluster.clone());
                self.probing.remove(cluster);
            }
            ClusterChange::BreakerClosed => {
                self.open.remove(cluster);
                self.half_open.remove(cluster);
                self.probing.remove(cluster);
            }
            _ => {}
        }
    }

    fn check_dispatch(
        &mut self,
        decision: &Decision,
        reserved: &BTreeSet<ClusterName>,
        now: Timestamp,
        settings: &Settings,
    ) {
        let (job, cluster) = (&decision.job, &decision.cluster);
        let record = &self.store.jobs[job];
        let work = &record.work;
        assert_eq!(decision.verdicts.len(), decision.roster.len());
        let chosen = decision.per_cluster().filter(|(_, v)| matches!(v, Verdict::Chosen { .. }));
        assert_eq!(
            chosen.map(|(name, _)| name).collect::<Vec<_>>(),
            [cluster],
            "one is chosen: the one it goes to"
        );
        assert!(!is_unsuited(record, cluster), "{job} was dispatched to {cluster}, which cannot accept it");
        if let Err(why) = self.may_take(work, cluster, now, settings) {
            panic!("{job} was dispatched to {cluster}, but {why}");
        }
        self.check_growth(decision, now, settings);
        self.check_order(record, cluster, now);
        assert!(!self.sharing.is_limited(work), "{job} was dispatched beyond the limit of its owner");
        let is_fifo = settings.order == Order::Fifo;
        if is_fifo && !reserved.contains(cluster) && !self.reserved.contains(cluster) {
            self.check_turn(record, cluster, now, settings);
        }
        let work = Arc::clone(work);
        self.sharing.note_placed(&work, now);
        // The rest of a batch shares the slot of its first job.
        let interval = self.store.clusters[cluster].spec.limits.interval(settings);
        let shared = self.clock.get(cluster).is_some_and(|(last, _)| now.since(*last) < interval);
        if work.is_top_level() && !shared {
            self.clock.insert(cluster.clone(), (now, work.group.clone()));
        }
        if self.half_open.contains(cluster) {
            let first = self.probing.insert(cluster.clone(), job.clone());
            assert_eq!(first, None, "a second probe to {cluster}");
        }
    }

    /// What a cluster reported, with the nodes that it could add.
    fn grown(&self, name: &ClusterName, now: Timestamp) -> Option<Cow<'_, Snapshot>> {
        let elastic = self.store.clusters.get(name)?.spec.elastic.as_deref();
        Some(self.growth.widen(name, self.facts.get(name)?, elastic, now))
    }

    /// The cluster has to grow exactly if it is said to, and then no other one has room now.
    fn check_growth(&self, decision: &Decision, now: Timestamp, settings: &Settings) {
        let record = &self.store.jobs[&decision.job];
        let work = &record.work;
        let grows = |name: &ClusterName| {
            let (facts, grown) = (&self.facts[name], self.grown(name, now).unwrap());
            let load = self.load(name, facts, settings);
            grown.nodes > facts.nodes && self.room_now(work, name, &load).is_err()
        };
        let avoids =
            |name: &ClusterName| record.troubles.iter().any(|troubles| troubles.avoid.contains(name));
        let chosen = &decision.cluster;
        for (name, verdict) in decision.per_cluster() {
            let (Verdict::Chosen { grows: said, .. } | Verdict::Eligible { grows: said, .. }) = verdict
            else {
                continue;
            };
            assert_eq!(*said > 0, grows(name), "{} on {name}: {verdict:?}", record.id);
            let tagged = settings.tag_affinity == TagAffinity::Required;
            if grows(chosen) && !grows(name) && tagged && !avoids(name) {
                panic!("{} makes {chosen} grow although {name} has room", record.id);
            }
        }
    }

    /// Priority, then first in, first out, among work that is equal otherwise.
    fn check_order(&self, record: &JobRecord, cluster: &ClusterName, now: Timestamp) {
        let could_go = |other: &&JobRecord| is_ready(other, now) && !is_unsuited(other, cluster);
        for other in self.store.jobs.values().filter(could_go) {
            let same = Work { priority: record.work.priority, ..(*other.work).clone() } == *record.work;
            let rank = |r: &JobRecord| (std::cmp::Reverse(r.work.priority), r.seq);
            assert!(
                !same || rank(other) >= rank(record),
                "{} overtook {}, which came first",
                record.id,
                other.id
            );
        }
    }

    /// At equal priority, no other owner had less of the pool for its weight, and work that could
    /// have gone there.
    fn check_turn(&self, record: &JobRecord, cluster: &ClusterName, now: Timestamp, settings: &Settings) {
        let mut total = Resources::default();
        self.facts.keys().filter_map(|name| self.grown(name, now)).for_each(|facts| total.add(&facts.total));
        let mine = self.sharing.claim(&record.work, &total, now);
        let others = self.store.jobs.values().filter(|other| {
            let prefers = other.work.preference.as_ref().is_none_or(|wanted| wanted.cluster == *cluster);
            is_ready(other, now)
                && prefers
                && other.work.priority == record.work.priority
                && !self.sharing.is_same(&other.work, &record.work)
                && !is_unsuited(other, cluster)
                && !self.sharing.is_limited(&other.work)
        });
        for other in others {
            let theirs = self.sharing.claim(&other.work, &total, now);
            // Next to nothing may be forgotten at a start.
            if theirs < mine * (1.0 - 1e-2) - 1e-2
                && self.may_take(&other.work, cluster, now, settings).is_ok()
            {
                panic!(
                    "{} went to {cluster} with {mine} for its weight, before {} with {theirs}",
                    record.id, other.id
                );
            }
        }
    }

    /// May this cluster accept this work now, by the rules? Ignores reservations and the
    /// operator's filters.
    fn may_take(
        &self,
        work: &Work,
        name: &ClusterName,
        now: Timestamp,
        settings: &Settings,
    ) -> Result<(), String> {
        let no = |why: &str| Err(why.to_owned());
        let Some(cluster) = self.store.clusters.get(name) else { return no("it is not registered") };
        let outside = work.origin == Origin::Outside;
        if outside && (cluster.cordon.is_some() || cluster.leaving) {
            return no("it is cordoned");
        }
        let Some(facts) = self.grown(name, now) else { return no("it never answered") };
        let facts = &*facts;
        if self.poll_failures.get(name).copied().unwrap_or(0) >= settings.unhealthy_after.get() {
            return no("it is unhealthy");
        }
        if self.locked.contains(name) {
            return no("it refused our token");
        }
        if facts.taken_at + settings.snapshot_max_age <= now {
            return no("its facts are stale");
        }
        if self.open.contains(name) || self.probing.contains_key(name) {
            return no("its circuit is open");
        }
        if let Some(wanted) = &work.preference
            && wanted.required
            && wanted.cluster != *name
        {
            return no("another is required");
        }
        let is_placement = |tag| self.store.clusters.values().any(|c| c.spec.tags.contains(tag));
        let lacks = work.tags.iter().any(|tag| is_placement(tag) && !cluster.spec.tags.contains(tag));
        if settings.tag_affinity == TagAffinity::Required && lacks {
            return no("it lacks a placement tag");
        }
        if let Some(wanted) = work.platform.as_deref()
            && wanted.arch.is_some()
            && facts.platform.arch != wanted.arch
        {
            return no("it has another architecture");
        }
        let load = &self.load(name, facts, settings);
        let assumed = &load.assumed;
        self.room(work, &self.facts[name], facts, load)?;
        let limit = cluster.spec.limits.threshold(settings).as_f64();
        let share = |of: fn(&Resources) -> Quantity, physical: Option<f64>| {
            let total = of(&facts.total).as_f64();
            if total == 0.0 {
                return physical.filter(|_| settings.utilization != Utilization::Logical).unwrap_or(0.0);
            }
            let all = settings.threshold_counts == ThresholdCounts::All;
            let promised = if all { of(assumed).as_f64() / total } else { 0.0 };
            let ours = if all { 0.0 } else { of(&load.shown).max(of(&load.set_aside)).as_f64() };
            let logical = (of(&facts.used).as_f64() - ours).max(0.0) / total + promised;
            let physical = physical.map(|load| (load - ours / total).max(0.0) + promised);
            match settings.utilization {
                Utilization::Logical => logical,
                Utilization::Physical => physical.unwrap_or(logical),
                Utilization::Max => logical.max(physical.unwrap_or(0.0)),
            }
        };
        let physical = &facts.physical;
        let shares = [
            share(|r| r.cpu, physical.cpu.map(f64::from)),
            share(|r| r.gpu, physical.gpu.map(f64::from)),
            share(|r| r.memory, physical.memory.map(f64::from)),
        ];
        if outside && shares.iter().any(|share| share.min(1.0) > limit + 1e-9) {
            return Err(format!("it is over its threshold: {shares:?} > {limit}"));
        }
        if let (true, Some((last, group))) = (work.is_top_level(), self.clock.get(name)) {
            let same_batch = work.group.is_some() && *group == work.group;
            if !same_batch && now.since(*last) < cluster.spec.limits.interval(settings) {
                return Err(format!("the last top-level submission was only {} ago", now.since(*last)));
            }
        }
        if work.is_top_level_job() && load.jobs >= cluster.spec.limits.concurrency(settings).get() {
            return Err(format!("it runs {} jobs already", load.jobs));
        }
        let driver = cluster.spec.limits.driver(settings).as_f64();
        if let Some(head) = facts.head.filter(|_| outside && work.burdens_head() && driver > 0.0) {
            let (total, free) = (head.total.as_f64(), head.free.as_f64());
            let share = cluster.spec.limits.head_share(settings).as_f64();
            let budget = (total * share).max(driver);
            if f64::from(load.drivers + 1) * driver > budget + 1.0 {
                return Err(format!("{} drivers take all of {budget} bytes already", load.drivers));
            }
            if f64::from(load.unseen_drivers + 1) * driver > free - total / 10.0 + 1.0 {
                return Err(format!(
                    "{} drivers are yet to be seen, {free} bytes are free",
                    load.unseen_drivers
                ));
            }
        }
        let window = self.windows.get(name).copied().filter(|_| outside);
        let grows = facts.nodes > self.facts[name].nodes && self.room_now(work, name, load).is_err();
        let starting = load.starting + if grows { load.waiting } else { 0 };
        if work.kind == Kind::Job && starting >= window.unwrap_or(settings.max_starting.get()) {
            return Err(format!("it is starting {starting} jobs already"));
        }
        Ok(())
    }

    /// The same without growth. Work that waits for nodes will be on those.
    fn room_now(&self, work: &Work, name: &ClusterName, load: &OnCluster) -> Result<(), String> {
        let there = &self.facts[name];
        let mut now = there.clone();
        now.total.add(&load.on_new_nodes);
        self.room(work, there, &now, load)
    }

    /// Is there room for the work, in all and on one node? `there` is what the cluster reported, `facts`
    /// what counts.
    fn room(&self, work: &Work, there: &Snapshot, facts: &Snapshot, load: &OnCluster) -> Result<(), String> {
        for (dimension, demand) in work.demand.iter() {
            let of = |r: &Resources| u128::from(r.get(&dimension).parts());
            let promised_outside = of(&load.assumed) - of(&load.inside);
            let taken = match work.origin {
                Origin::Outside => {
                    (of(&facts.used) + of(&load.inside)).max(of(&load.claimed)) + promised_outside
                }
                Origin::Inside => of(&facts.used) + of(&load.held),
            };
            if u128::from(demand.parts()) + taken > of(&facts.total) {
                return Err(format!(
                    "{dimension}: {demand} asked of {:?}, used {:?}, {load:?}",
                    facts.total, facts.used
                ));
            }
        }
        let one = work.on_one_node();
        let on_some_node = |nodes: &[NodeShape], has: fn(&NodeShape) -> &Resources| {
            nodes.iter().any(|node| {
                is_labelled(work, node)
                    && one.iter().all(|(dimension, asked)| has(node).get(&dimension) >= asked)
            })
        };
        let is_bound = work.labels.is_some() || facts.nodes > 1 && !one.is_empty();
        let left = nodes_left(there, facts, &load.on_one_node);
        if is_bound
            && !(on_some_node(&facts.shapes, |node| &node.total) && on_some_node(&left, |node| &node.free))
        {
            return Err(format!("no node has {one:?}: {left:?}"));
        }
        Ok(())
    }

    /// The work on a cluster by the records. Cached until the next write.
    fn load(&self, name: &ClusterName, facts: &Snapshot, settings: &Settings) -> Rc<OnCluster> {
        let mut loads = self.loads.borrow_mut();
        let key = (name.clone(), facts.taken_at);
        let load = loads.entry(key).or_insert_with(|| {
            let mut load = OnCluster::default();
            let elastic = self.store.clusters.get(name).and_then(|c| c.spec.elastic.as_deref());
            let unseen = |at: Option<Timestamp>, age: Span| {
                at.is_none_or(|at| at + settings.settle_margin.max(age) >= facts.taken_at)
            };
            for record in self.store.jobs.values() {
                let Some(live) = record.live().filter(|live| live.cluster == *name) else { continue };
                load.jobs += u32::from(record.work.is_top_level_job());
                let waits = live.grows > 0 && elastic.is_some();
                let begins = u32::from(record.work.kind == Kind::Job && live.running_at().is_none());
                if let (Some(elastic), true, 1) = (elastic, waits, begins) {
                    let new = elastic.node.times(live.grows);
                    for (dimension, amount) in record.work.demand.iter() {
                        let brings = amount.min(new.get(&dimension));
                        let mut more = Resources::default();
                        more.set(dimension.as_str(), brings).unwrap();
                        load.on_new_nodes.add(&more);
                    }
                }
                *(if waits { &mut load.waiting } else { &mut load.starting }) += begins;
                let driver = u32::from(record.work.burdens_head());
                load.drivers += driver;
                // Ray measures memory every 15 s.
                load.unseen_drivers += driver * u32::from(unseen(live.running_at(), Span::seconds(15)));
                let inside = record.work.origin == Origin::Inside;
                if unseen(live.running_at(), Span::default()) {
                    load.assumed.add(&record.work.demand);
                    load.held.add(record.work.on_one_node());
                    load.on_one_node.push(Arc::clone(&record.work));
                    if inside {
                        load.inside.add(&record.work.demand);
                    }
                } else {
                    load.set_aside.add(record.work.on_one_node());
                    if !inside {
                        load.shown.add(&record.work.demand);
                    }
                    if !inside && settings.claims == Claims::WhileRunning {
                        load.claimed.add(&record.work.demand);
                    }
                }
            }
            Rc::new(load)
        });
        Rc::clone(load)
    }

    /// An accepted job is known until it has ended and is forgotten.
    fn check_nothing_lost(&self, core: &Core) {
        for job in &self.accepted {
            let record = core.job(job).unwrap_or_else(|| panic!("{job} was accepted and is lost"));
            if record.state() == State::Succeeded && record.work.kind == Kind::Job {
                assert!(self.succeeded.contains(job), "{job} is shown as succeeded and did not");
            }
        }
    }

    /// No queued job could be placed, and every queued job can be explained.
    fn check_waiting(&self, core: &Core) {
        let (now, settings) = (core.now(), core.settings());
        let mut heads: BTreeMap<&Work, &JobRecord> = BTreeMap::new();
        for record in self.store.jobs.values().filter(|r| is_ready(r, now)) {
            let head = heads.entry(&record.work).or_insert(record);
            if record.seq < head.seq {
                *head = record;
            }
        }
        let reserved = core
            .clusters()
            .filter_map(|c| Some((c.spec.name.clone(), (c.reserved_for?, c.foreign.unwrap_or_default()))));
        let reserved: BTreeMap<_, _> = reserved.collect();
        for record in heads.values() {
            if self.looks_closely() {
                self.check_explained(core, record);
            }
            let wanted = record.work.preference.as_ref().map(|p| &p.cluster);
            for name in self.store.clusters.keys() {
                let preferred_away = wanted.is_some_and(|wanted| wanted != name);
                let reserved = reserved.get(name).is_some_and(|(kept_for, foreign)| {
                    self.grown(name, now).is_some_and(|facts| {
                        keeps_off(&self.store, (name, &facts), (kept_for, foreign), record)
                    })
                });
                let limited = self.sharing.is_limited(&record.work);
                let no_place = preferred_away || reserved || limited || is_unsuited(record, name);
                if !no_place && self.may_take(&record.work, name, now, settings).is_ok() {
                    panic!("{} waits although {name} is free for it", record.id);
                }
            }
        }
    }
}

/// Is the other one ended work that counts together with this one?
fn is_on_shelf_of(record: &JobRecord, other: &JobRecord) -> bool {
    let is_job = |record: &JobRecord| record.work.kind == Kind::Job;
    let ended = matches!(other.phase, Phase::Ended(_));
    ended && other.work.owner == record.work.owner && is_job(other) == is_job(record)
}

/// Has this cluster said that it cannot accept the job? Here, no cluster changes its version.
fn is_unsuited(record: &JobRecord, cluster: &ClusterName) -> bool {
    record.troubles.iter().flat_map(|troubles| &troubles.unsuited).any(|known| known.cluster == *cluster)
}

/// In a queue, and not backing off.
fn is_ready(record: &JobRecord, now: Timestamp) -> bool {
    matches!(&record.phase, Phase::Waiting { not_before, .. } if not_before.is_none_or(|at| at <= now))
}

fn assert_same(a: &Durable, b: &Durable, what: &str) {
    if a == b {
        return;
    }
    let keys = a.jobs.keys().chain(b.jobs.keys());
    let jobs: Vec<_> = keys
        .filter(|id| a.jobs.get(*id) != b.jobs.get(*id))
        .map(|id| (a.jobs.get(id), b.jobs.get(id)))
        .collect();
    panic!("{what}: {jobs:#?}\n{:?}\n{:?}\n{:?}\n{:?}", a.clusters, b.clusters, a.orphans, b.orphans);
}
