//! The state machine: inputs in, outputs out.
//!
//! Only the modules below this one see the fields of [`Core`]. Each field keeps its own
//! invariants; changes that concern several fields are in one of these:
//! - `cycle` the scheduling cycle, six phases in order
//! - `moves` the only way a job changes · `due` what the timer of a job is for
//! - `submit`, `attempts`, `contact`, `outcomes`, `orphans`, `leases` the life of a job and its attempts
//! - `polls`, `operate`, `registry`, `retention` changes made by clusters, operators and time
//! - `sharing` who shares the pool, and whose turn it is · `preempt` who is stopped for whom
//! - `explain`, `heads`, `notices`, `view` queries · `rebuild` after a crash · `rewind` after the store lost changes

mod attempts;
mod contact;
mod cycle;
mod due;
pub(crate) mod elastic;
pub(crate) mod explain;
pub(crate) mod heads;
mod leases;
mod moves;
pub(crate) mod notices;
mod operate;
mod orphans;
mod outcomes;
mod polls;
pub(crate) mod preempt;
pub(crate) mod rebuild;
pub(crate) mod registry;
mod retention;
mod rewind;
pub(crate) mod sharing;
mod submit;
#[cfg(test)]
mod tests;
pub(crate) mod view;

use multicluster_types::{
    ClusterName, JobId, Message, Owner, Settings, Span, Timestamp, Verdict, settings::Infeasible,
};

use self::{
    cycle::Dirty, orphans::Orphans, preempt::Preemption, registry::Registry, retention::Retention,
    rewind::Rewind,
};
use crate::{
    ConfigChange, Input, Output, Refusal, Reply, Run, Write,
    jobs::{JobKey, Jobs},
    pool::{ClusterKey, Pool},
    queue::Queue,
    runs::Runs,
    shares::Sharers,
    timers::{Timer, Timers},
};

/// The scheduler.
///
/// # Contract with the driver
/// - Feed every input to [`Core::handle`], with a `now` in milliseconds. If time goes back, the
///   core treats it as standing still.
/// - Commit all of [`Output::writes`] in one transaction **before** performing any of
///   [`Output::effects`], and before sending any answer or event. Several outputs may share a
///   transaction, which must survive a power cut if one of them [must](Output::must_sync).
/// - Report the outcome of each effect as an input with the same [`Run`]. "Outcome unknown" is
///   its own report. The core drops reports that come twice or too late.
///   [`Effect::Forget`](crate::Effect::Forget) has no report.
/// - Callers learn the fate of their placements from [`Output::events`], and from the answers to
///   [`Input::Waits`] and [`Input::Heartbeat`]: there is no effect for that.
/// - Count and log [`Output::impossible`].
/// - Call with [`Input::Tick`] when [`Core::next_wakeup`] has come.
/// - After a crash: [`Core::rebuild`](Core::rebuild) from the committed state, then
///   [`Core::recover`](Core::recover), which wants to know whether that state may lack changes
///   that were committed before.
///
/// The core reads no clock, no file and no network, and nothing is random: the same inputs give
/// the same outputs.
#[derive(Debug)]
pub struct Core {
    now: Timestamp,
    /// How far the driver's clock is behind `now`, because it was set back.
    skew: Span,
    settings: Settings,
    policies: Registry,
    pool: Pool,
    queue: Queue,
    jobs: Jobs,
    orphans: Orphans,
    timers: Timers,
    retention: Retention,
    rewind: Rewind,
    runs: Runs,
    sharers: Sharers,
    preemption: Preemption,
    dirty: Dirty,
    /// Who asked for the input that is being applied.
    by: Option<Owner>,
    /// How long the attempt whose end is being applied ran, as its cluster says.
    reported_run: Option<Span>,
    /// Since when, and why, the configuration file cannot be used.
    refused_config: Option<(Timestamp, Message)>,
    /// Records that [`Core::rebuild`] corrected; [`Core::recover`] writes them.
    corrected: Vec<Write>,
    /// Scratch space of the cycle.
    verdicts: Vec<Verdict>,
}

impl Core {
    /// A scheduler without clusters or jobs.
    ///
    /// # Errors
    /// If a policy of the settings cannot be used.
    pub fn new(settings: Settings) -> Result<Self, Refusal> {
        Ok(Self {
            now: Timestamp::default(),
            skew: Span::ZERO,
            policies: Registry::of_settings(&settings)?,
            settings,
            pool: Pool::default(),
            queue: Queue::default(),
            jobs: Jobs::default(),
            orphans: Orphans::default(),
            timers: Timers::default(),
            retention: Retention::default(),
            rewind: Rewind::default(),
            runs: Runs::default(),
            sharers: Sharers::default(),
            preemption: Preemption::default(),
            dirty: Dirty::default(),
            by: None,
            reported_run: None,
            refused_config: None,
            corrected: Vec::new(),
            verdicts: Vec::new(),
        })
    }

    /// Handles one input and returns the writes, effects and events that follow from it.
    pub fn handle(&mut self, now: Timestamp, input: Input) -> Output {
        let mut out = Output { must_sync: input.is_order(), ..Output::default() };
        self.now = self.now.max(now);
        self.skew = self.now.since(now);
        if matches!(input, Input::Awoke) {
            self.forgive_silence(&mut out);
        }
        self.fire_timers(&mut out);
        out.reply = self.apply(input, &mut out).transpose();
        // Placing a starving head ends its reservation, so the heads must be looked at again.
        while self.dirty.is_any() {
            self.cycle(&mut out);
        }
        self.watch_the_time();
        self.write_usage(&mut out);
        out.must_sync |= out.writes.iter().any(Write::must_sync);
        out
    }

    /// When the next [`Input::Tick`] is due.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        self.timers.next()
    }

    fn apply(&mut self, input: Input, out: &mut Output) -> Result<Option<Reply>, Refusal> {
        let done = |()| Some(Reply::Done);
        match input {
            Input::Submit(submission) => self.submit(submission, out).map(|a| Some(Reply::Accepted(a))),
            Input::Stop { job } => self.stop(&job, out).map(done),
            Input::Rerun { job } => self.rerun(&job, out).map(done),
            Input::Delete { job } => self.delete(&job, out).map(done),

            Input::Polled { cluster, snapshot, took } => {
                self.handle_polled(&cluster, *snapshot, took, out).map(|()| None)
            }
            Input::PollFailed { cluster, error } => {
                self.handle_poll_failed(&cluster, error, out).map(|()| None)
            }
            Input::Unauthorized { cluster, error } => {
                self.handle_unauthorized(&cluster, error, out).map(|()| None)
            }
            Input::Pushing { run, pushed, of } => {
                self.handle_pushing(&run, pushed, of);
                Ok(None)
            }
            Input::Dispatched { run, outcome, took } => {
                self.handle_dispatched(&run, outcome, took, out);
                Ok(None)
            }
            Input::LookedUp { run, question, outcome } => {
                self.handle_looked_up(&run, question, outcome, out);
                Ok(None)
            }
            Input::StopSent { run, answered } => {
                self.handle_stop_sent(&run, answered, out);
                Ok(None)
            }
            Input::Observed { cluster, incarnation, complete_at, runs } => {
                let runs = self.current(runs);
                self.handle_observed(&cluster, incarnation.as_ref(), complete_at, &runs, out).map(|()| None)
            }
            Input::Listed { cluster, runs } => self.handle_listed(&cluster, runs, out).map(|()| None),
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
            Input::Reload { settings, clusters } => self.reload(*settings, clusters, None, out).map(done),
            Input::ReloadInPart { settings, clusters, refused } => {
                self.reload(*settings, clusters, Some(refused), out).map(done)
            }
            Input::SetPolicy { spec, by } => self.set_policy(*spec, by, out).map(done),
            Input::RemovePolicy { name, by } => self.remove_policy(&name, by, out).map(done),
            Input::RefusedConfig { why } => {
                self.refused_config = Some((self.now, why.clone()));
                self.note_config(ConfigChange::Refused(why), out);
                Ok(None)
            }
            Input::By { owner, input } => {
                let before = self.by.replace(owner);
                let reply = self.apply(*input, out);
                self.by = before;
                reply
            }
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
                    self.dirty.all();
                }
                Timer::Spacing(cluster) => {
                    self.pool[cluster].spacing_due = None;
                    self.dirty.all();
                }
                Timer::Freshness(cluster) => {
                    self.pool[cluster].freshness_due = None;
                    self.handle_freshness_due(cluster, out);
                }
                Timer::Breaker(cluster) => {
                    self.pool[cluster].breaker_due = None;
                    self.handle_breaker_due(cluster, out);
                }
                Timer::Growth(cluster) => {
                    self.pool[cluster].growth_due = None;
                    self.handle_growth_due(cluster, out);
                }
                Timer::Policies => {
                    self.policies.time_came();
                    self.dirty.all();
                }
                Timer::Preemption => {
                    self.preemption.time_came();
                    self.dirty.all();
                }
                Timer::Retention => {
                    self.retention.time_came();
                    self.forget_old(out);
                }
            }
        }
    }

    fn find_job(&self, job: &JobId) -> Result<JobKey, Refusal> {
        self.jobs.find(job).ok_or_else(|| Refusal::UnknownJob { job: job.clone() })
    }

    fn find_cluster(&self, cluster: &ClusterName) -> Result<ClusterKey, Refusal> {
        self.pool
            .find(cluster)
            .ok_or_else(|| Refusal::UnknownCluster { cluster: cluster.clone(), known: self.pool.names() })
    }

    /// The live attempt that a completion belongs to, unless the completion is stale.
    fn find_live(&self, run: &Run) -> Option<JobKey> {
        let key = self.jobs.find(&run.job)?;
        let job = &self.jobs[key];
        let is_current = job.live()?.attempt == run.attempt && run.is_of(job.record());
        is_current.then_some(key)
    }

    /// Must the core refuse work that no cluster could ever hold?
    fn rejects_infeasible(&self) -> bool {
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
    // Between half and all of the wait, so that the retries of a burst spread out.
    Span(doubled / 2 + mixed % (doubled / 2 + 1))
}
