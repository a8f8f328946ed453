//! The invariants, restated without the core's code. The oracle knows only the events of the
//! world and the writes.

mod takes;

use std::{
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
    Attempt, ClusterName, Decision, ExitCodes, GroupId, JobId, Kind, OnClusterLoss, Resources, Settings,
    Snapshot, Span, State, Timestamp, Verdict, Work,
    settings::{Order, TagAffinity},
};

use crate::{growth::Growth, preemption::Preemption, room::keeps_off, sharing::Sharing};

/// How long ended work is known at least.
const KEPT: Span = Span::minutes(5);

#[derive(Debug, Default)]
pub struct Oracle {
    thorough: bool,
    loads: RefCell<BTreeMap<(ClusterName, Timestamp), Rc<takes::OnCluster>>>,
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
