//! The state machine: inputs in, outputs out, and the one way a job changes.

use std::collections::{BTreeMap, BTreeSet};

use multicluster_types::{
    Attempt, ClusterName, JobId, Kind, Message, PolicySpec, Settings, Span, State, Timestamp, Transition,
    Verdict, settings::Infeasible,
};

use crate::{
    Effect, Event, Input, Output, Refusal, Reply, Write,
    attempts::Watch,
    cycle::Dirty,
    jobs::{JobKey, Jobs},
    policy::Policies,
    pool::{ClusterKey, Pool},
    queue::{ClassKey, Queue},
    record::{Live, Orphan, Phase},
    timers::{Due, Timer, Timers},
};

/// The scheduler.
///
/// # Contract with the driver
/// - Feed every input to [`Core::handle`], with a `now` in milliseconds. Time that
///   goes back is taken as standing still.
/// - Commit all of [`Output::writes`] in one transaction **before** performing any
///   of [`Output::effects`]. Several outputs may share a transaction.
/// - Report how each effect came out, exactly once, as an input carrying the same
///   job and attempt. "Outcome unknown" is its own report.
/// - Call with [`Input::Tick`] when [`Core::next_wakeup`] has come.
/// - After a crash: [`Core::rebuild`](Core::rebuild) from what was committed, then
///   [`Core::recover`](Core::recover).
///
/// Nothing in here reads a clock, a file or the network, and nothing is random:
/// the same inputs give the same outputs.
#[derive(Debug)]
pub struct Core {
    pub(crate) now: Timestamp,
    /// How far the driver's clock is behind `now`, because it was set back.
    pub(crate) skew: Span,
    pub(crate) settings: Settings,
    /// Those of the settings and those that were registered, together.
    pub(crate) policies: Policies,
    /// Those that were registered beside the settings.
    pub(crate) registered: BTreeMap<Message, PolicySpec>,
    pub(crate) pool: Pool,
    pub(crate) queue: Queue,
    pub(crate) jobs: Jobs,
    pub(crate) orphans: BTreeSet<Orphan>,
    pub(crate) orphans_being_stopped: BTreeSet<Orphan>,
    pub(crate) timers: Timers,
    pub(crate) retention_due: Due,
    /// Policies that ask for the time look again then.
    pub(crate) policies_due: Due,
    /// Since when the head that has waited longest waits, if a policy asks for that.
    pub(crate) oldest: Option<Timestamp>,
    pub(crate) dirty: Dirty,
    /// Scratch space of the cycle.
    pub(crate) verdicts: Vec<Verdict>,
}

impl Core {
    /// A scheduler without clusters or jobs.
    ///
    /// # Errors
    /// When a policy of the settings cannot be used.
    pub fn new(settings: Settings) -> Result<Self, Refusal> {
        Ok(Self {
            now: Timestamp::default(),
            skew: Span::ZERO,
            policies: Policies::of_settings(&settings)?,
            registered: BTreeMap::new(),
            settings,
            pool: Pool::default(),
            queue: Queue::default(),
            jobs: Jobs::default(),
            orphans: BTreeSet::new(),
            orphans_being_stopped: BTreeSet::new(),
            timers: Timers::default(),
            retention_due: None,
            policies_due: None,
            oldest: None,
            dirty: Dirty::default(),
            verdicts: Vec::new(),
        })
    }

    /// Takes one input and says what must be written, done and told.
    pub fn handle(&mut self, now: Timestamp, input: Input) -> Output {
        let mut out = Output::default();
        self.now = self.now.max(now);
        self.skew = self.now.since(now);
        if matches!(input, Input::Awoke) {
            self.forgive_silence(&mut out);
        }
        self.fire_timers(&mut out);
        out.reply = self.apply(input, &mut out).transpose();
        // Placing a starving head ends its reservation, which calls for another look.
        while self.dirty.all || !self.dirty.classes.is_empty() {
            self.cycle(&mut out);
        }
        self.watch_the_time();
        out
    }

    /// When [`Input::Tick`] is wanted next.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        self.timers.next()
    }

    fn apply(&mut self, input: Input, out: &mut Output) -> Result<Option<Reply>, Refusal> {
        let done = |()| Some(Reply::Done);
        match input {
            Input::Submit(submission) => self.submit(submission, out).map(|a| Some(Reply::Accepted(a))),
            Input::SubmitBatch(batch) => {
                let each = batch.into_iter().map(|submission| self.submit(submission, out)).collect();
                Ok(Some(Reply::Batch(each)))
            }
            Input::Stop { job } => self.stop(&job, out).map(done),
            Input::Rerun { job } => self.rerun(&job, out).map(done),
            Input::Delete { job } => self.delete(&job, out).map(done),

            Input::Polled { cluster, snapshot, took } => {
                self.handle_polled(&cluster, *snapshot, took, out).map(|()| None)
            }
            Input::PollFailed { cluster, error } => {
                self.handle_poll_failed(&cluster, error, out).map(|()| None)
            }
            Input::Dispatched { job, attempt, outcome, took } => {
                self.handle_dispatched(&job, attempt, outcome, took, out);
                Ok(None)
            }
            Input::LookedUp { job, attempt, question, outcome } => {
                self.handle_looked_up(&job, attempt, question, outcome, out);
                Ok(None)
            }
            Input::StopSent { job, attempt, answered } => {
                self.handle_stop_sent(&job, attempt, answered, out);
                Ok(None)
            }
            Input::Observed { cluster, incarnation, complete_at, runs } => {
                let watch = Watch { incarnation, complete_at, runs };
                self.handle_observed(&cluster, &watch, out).map(|()| None)
            }
            Input::Waits { job } => self.handle_waits(&job).map(Some),
            Input::Withdraw { job } => self.withdraw(&job, out).map(done),
            Input::Heartbeat { job, attempt } => {
                self.handle_heartbeat(&job, attempt, out).map(|stopping| Some(Reply::Alive { stopping }))
            }
            Input::Released { job, attempt, outcome } => {
                self.handle_released(&job, attempt, outcome, out).map(done)
            }

            Input::Register { spec, replace } => self.register(*spec, replace, out).map(done),
            Input::Remove { cluster, force } => self.remove(&cluster, force, out).map(done),
            Input::Cordon { cluster, note, drain } => self.cordon(&cluster, note, drain, out).map(done),
            Input::Uncordon { cluster } => self.uncordon(&cluster, out).map(done),
            Input::CheckNow { cluster } => self.check_now(&cluster, out).map(done),
            Input::Reload { settings, clusters } => self.reload(*settings, clusters, out).map(done),
            Input::SetPolicy { spec, by } => self.set_policy(*spec, by, out).map(done),
            Input::RemovePolicy { name, by } => self.remove_policy(&name, by, out).map(done),
            Input::Together(inputs) => {
                let each = |input| Ok(self.apply(input, out)?.unwrap_or(Reply::Done));
                Ok(Some(Reply::Each(inputs.into_iter().map(each).collect())))
            }
            Input::Tick | Input::Awoke => Ok(None),
        }
    }

    fn fire_timers(&mut self, out: &mut Output) {
        while let Some(timer) = self.timers.pop(self.now) {
            match timer {
                Timer::Job(key) => {
                    self.jobs[key].due = None;
                    self.handle_job_due(key, out);
                }
                Timer::Starving(class) => {
                    if let Some(class) = self.queue.get_mut(class) {
                        class.starving_due = None;
                    }
                    self.watch_for_starvation(class);
                    self.dirty.all = true;
                }
                Timer::Spacing(cluster) => {
                    self.pool[cluster].spacing_due = None;
                    self.dirty.all = true;
                }
                Timer::Freshness(cluster) => {
                    self.pool[cluster].freshness_due = None;
                    self.handle_freshness_due(cluster, out);
                }
                Timer::Breaker(cluster) => {
                    self.pool[cluster].breaker_due = None;
                    self.handle_breaker_due(cluster, out);
                }
                Timer::Policies => {
                    self.policies_due = None;
                    self.dirty.all = true;
                }
                Timer::Retention => {
                    self.retention_due = None;
                    self.forget_old(out);
                }
            }
        }
    }

    /// Moves a job to another phase. Every change between waiting, live and ended
    /// goes through here, so the tables that depend on it cannot drift.
    ///
    /// A transition that is not on the state diagram is a bug in the caller; the
    /// job then stays as it is.
    pub(crate) fn move_to(&mut self, key: JobKey, transition: Transition, next: Phase, out: &mut Output) {
        let from = self.jobs[key].record.state();
        if from.after(transition) != Ok(next.state()) {
            debug_assert!(false, "{from} cannot {transition:?} to {}", next.state());
            return;
        }
        if (from, transition) == (State::Queued, Transition::Stop) {
            // The next of its class may be starving, and nobody has looked at it yet.
            self.dirty.classes.insert(self.jobs[key].class);
        }
        self.unlink(key, out);
        if transition == Transition::Rerun {
            // It joins the end of the queue, like anything else that is asked for now.
            self.jobs[key].record.seq = self.jobs.take_seq();
        }
        self.jobs[key].record.phase = next;
        self.link(key);
        self.tell(key, out);
        if matches!(self.jobs[key].record.phase, Phase::Ended(_)) {
            self.forget_old(out);
        }
    }

    /// Changes an attempt that stays where it is.
    pub(crate) fn update_live(
        &mut self,
        key: JobKey,
        transition: Transition,
        change: impl FnOnce(&mut Live),
        out: &mut Output,
    ) {
        let job = &mut self.jobs[key];
        let from = job.record.state();
        let Phase::Live(live) = &mut job.record.phase else {
            debug_assert!(false, "{} is not live", job.record.id);
            return;
        };
        change(live);
        debug_assert_eq!(from.after(transition), Ok(job.record.state()), "{from} {transition:?}");
        // News of any kind makes an open question moot.
        job.question = None;
        self.tell(key, out);
    }

    /// The job as it is now, for the store and the watchers.
    pub(crate) fn tell(&self, key: JobKey, out: &mut Output) {
        let record = &self.jobs[key].record;
        let latest = (record.attempts > 0).then_some(Attempt(record.attempts));
        let (cluster, attempt, message) = match &record.phase {
            Phase::Waiting { .. } => {
                (None, None, record.troubles.as_ref().and_then(|t| t.last_error.clone()))
            }
            Phase::Live(live) => (Some(live.cluster.clone()), Some(live.attempt), None),
            Phase::Ended(end) => (end.cluster.clone(), latest, end.message.clone()),
        };
        let (job, state) = (record.id.clone(), record.state());
        out.events.push(Event::Job { job, at: self.now, state, cluster, attempt, message });
        out.writes.push(Write::Job(record.clone()));
    }

    /// Enters a job into the tables its phase belongs in.
    pub(crate) fn link(&mut self, key: JobKey) {
        self.jobs.file(key);
        let job = &mut self.jobs[key];
        match &job.record.phase {
            Phase::Waiting { not_before, .. } => {
                self.queue.enter(job.class);
                job.touched_at = self.now;
                if not_before.is_none() {
                    self.make_ready(key);
                }
                self.arm(key);
            }
            Phase::Live(live) => {
                // `None` only while rebuilding a job whose cluster was removed by force.
                if let Some(on) = self.pool.find(&live.cluster) {
                    job.on = Some(on);
                    self.pool[on].enter(key, &job.record.work, live.running_at, &self.settings);
                }
                (job.touched_at, job.asks, job.question) = (self.now, 0, None);
                self.arm(key);
            }
            Phase::Ended(ended) => {
                if self.retention_due.is_none() {
                    let at = ended.at + self.settings.retain_for;
                    self.timers.set(&mut self.retention_due, Timer::Retention, at);
                }
            }
        }
    }

    /// Takes a job out of the tables its phase belongs in.
    fn unlink(&mut self, key: JobKey, out: &mut Output) {
        self.jobs.unfile(key);
        let job = &mut self.jobs[key];
        self.timers.clear(&mut job.due, Timer::Job(key));
        match &job.record.phase {
            Phase::Waiting { .. } => {
                let class = job.class;
                self.queue.leave(class, job.record.seq);
                self.dirty.all |= self.policies.uses().queued;
                self.watch_for_starvation(class);
                if self.pool.is_reserved_for(&self.jobs[key].record.id) {
                    self.dirty.all = true;
                }
            }
            Phase::Live(_) => {
                let Some(on) = job.on.take() else { return };
                let cluster = &mut self.pool[on];
                cluster.leave(key, &job.record.work, &self.settings);
                self.dirty.all = true;
                // Nobody will report on this probe any more.
                if cluster.breaker.is_probe(key) {
                    self.note_dispatch(on, false, out);
                }
                self.handle_cluster_emptier(on, out);
            }
            Phase::Ended(_) => {}
        }
    }

    /// May this waiting job be placed, or does it back off?
    pub(crate) fn is_ready(&self, key: JobKey) -> bool {
        let job = &self.jobs[key];
        self.queue[job.class].ready().contains_key(&job.record.seq)
    }

    /// A waiting job may be placed from now on.
    pub(crate) fn make_ready(&mut self, key: JobKey) {
        let job = &self.jobs[key];
        let class = job.class;
        self.dirty.all |= self.policies.uses().queued;
        if self.queue.make_ready(class, job.record.seq, key) {
            self.dirty.classes.insert(class);
            self.watch_for_starvation(class);
        }
    }

    /// Makes sure that somebody looks when the head of this class starves. One timer
    /// per class, for the earliest such moment: a later head is checked then.
    fn watch_for_starvation(&mut self, key: ClassKey) {
        let (now, after) = (self.now, self.settings.starvation_after);
        let Some(class) = self.queue.get_mut(key) else { return };
        let Some((_, job)) = class.ready().first_key_value() else { return };
        let Phase::Waiting { since, .. } = self.jobs[*job].record.phase else { return };
        let at = since + after;
        if class.starving_due.is_none_or(|due| at < due) && at > now {
            self.timers.set(&mut class.starving_due, Timer::Starving(key), at);
        }
    }

    pub(crate) fn watch_all_for_starvation(&mut self) {
        for key in self.queue.keys() {
            self.timers.clear(&mut self.queue[key].starving_due, Timer::Starving(key));
            self.watch_for_starvation(key);
        }
    }

    /// Forgets ended jobs beyond what the settings retain.
    pub(crate) fn forget_old(&mut self, out: &mut Output) {
        while let Some((at, key, count)) = self.jobs.oldest_ended() {
            let expires = at + self.settings.retain_for;
            if expires > self.now && count <= self.settings.retain_finished as usize {
                self.timers.set(&mut self.retention_due, Timer::Retention, expires);
                return;
            }
            self.forget(key, out);
        }
    }

    /// Forgets one ended job.
    pub(crate) fn forget(&mut self, key: JobKey, out: &mut Output) {
        self.unlink(key, out);
        let job = self.jobs.remove(key);
        if let Some(mut class) = self.queue.part(job.class) {
            self.timers.clear(&mut class.starving_due, Timer::Starving(job.class));
        }
        let record = job.record;
        if let (Phase::Ended(ended), Kind::Job) = (&record.phase, record.work.kind)
            && let Some(cluster) = &ended.cluster
        {
            out.effects.push(Effect::Forget {
                job: record.id.clone(),
                attempt: Attempt(record.attempts),
                cluster: cluster.clone(),
                submitted_at: record.submitted_at,
            });
        }
        out.writes.push(Write::DeleteJob(record.id));
    }

    pub(crate) fn find_job(&self, job: &JobId) -> Result<JobKey, Refusal> {
        self.jobs.find(job).ok_or_else(|| Refusal::UnknownJob { job: job.clone() })
    }

    pub(crate) fn find_cluster(&self, cluster: &ClusterName) -> Result<ClusterKey, Refusal> {
        self.pool
            .find(cluster)
            .ok_or_else(|| Refusal::UnknownCluster { cluster: cluster.clone(), known: self.pool.names() })
    }

    /// The attempt a completion belongs to, unless it is stale.
    pub(crate) fn find_live(&self, job: &JobId, attempt: Attempt) -> Option<JobKey> {
        let key = self.jobs.find(job)?;
        let live = self.jobs[key].record.live()?;
        (live.attempt == attempt).then_some(key)
    }

    /// Must work that no cluster could ever hold be refused?
    pub(crate) fn rejects_infeasible(&self) -> bool {
        self.settings.infeasible == Infeasible::Reject
    }
}

/// Waits that double, with a jitter that is the same in every replay.
pub(crate) fn backoff(first: Span, longest: Span, failures: u32, salt: u64) -> Span {
    let doubled = first.0.saturating_mul(1 << failures.saturating_sub(1).min(32)).min(longest.0);
    // SplitMix64's finaliser: spreads neighbouring salts over the whole range.
    let mut mixed = salt.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    // Between half and all of it, so that retries of a burst spread out.
    Span(doubled / 2 + mixed % (doubled / 2 + 1))
}
