//! The driver of the core on virtual time: one loop that always jumps to the next event.
//!
//! It keeps the same contract as the real driver (see [`Core`]), except that there is no store to
//! commit writes to.

use std::collections::{BTreeMap, HashMap};

use multicluster_core::{
    Core, DispatchOutcome, Effect, Event, Explanation, Identity, Input, LookupOutcome, Observation, Refusal,
    ReleaseOutcome, Run, RunStatus, Submission,
};
use multicluster_types::{Attempt, ClusterName, JobId, Kind, Settings, Span, State, Timestamp, Work};

use crate::{
    Nodes, Pool, Workload,
    fleet::{Fleet, Meter, Place},
};

/// Why the simulation could not run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SimulationError {
    /// The core refuses the pool.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// The outcome of all arrivals.
#[derive(Debug)]
pub(crate) struct Trace {
    /// One for each arrival, in the same order.
    pub(crate) fates: Vec<Fate>,
    /// One for each cluster of the pool, in the same order.
    pub(crate) meters: Vec<Meter>,
    /// Refused arrivals, by the code of the refusal.
    pub(crate) refused: BTreeMap<&'static str, RefusedGroup>,
    /// Work that was still queued when nothing could happen any more, by its demand.
    pub(crate) stuck: Vec<StuckGroup>,
    /// Run time of work that was stopped for other work, and starts from the beginning again.
    pub(crate) lost: Span,
}

/// The state of one arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It has not arrived yet, or was refused.
    Absent,
    /// It is queued.
    Waiting,
    /// A cluster has it.
    Sent { on: Place, attempt: Attempt },
    /// It runs.
    Running { on: Place, attempt: Attempt, started: Timestamp },
    /// It is done.
    Done { started: Timestamp, ended: Timestamp },
}

/// Arrivals that were refused with the same code.
#[derive(Debug)]
pub(crate) struct RefusedGroup {
    pub(crate) count: u64,
    pub(crate) first: JobId,
    pub(crate) why: Refusal,
}

/// Arrivals with the same demand that were never placed.
#[derive(Debug)]
pub(crate) struct StuckGroup {
    /// Indices into the arrivals.
    pub(crate) arrivals: Vec<usize>,
    /// Why the first of them waits, if the core had it.
    pub(crate) why: Option<Explanation>,
}

/// Runs the workload until all work is done or nothing can happen any more.
pub(crate) fn run(pool: &Pool, nodes: &Nodes, workload: &Workload) -> Result<Trace, SimulationError> {
    let mut engine = Engine::new(pool, nodes, workload)?;
    while let Some(step) = engine.next_step() {
        engine.take(step);
    }
    engine.finish()
}

/// The same, as long as it may go on; `None` if it was ended early.
pub(crate) fn run_while(
    pool: &Pool,
    nodes: &Nodes,
    workload: &Workload,
    may_go_on: &dyn Fn() -> bool,
) -> Result<Option<Trace>, SimulationError> {
    /// Between two questions: well below a tenth of a second.
    const STEPS: u32 = 1_000;
    let mut engine = Engine::new(pool, nodes, workload)?;
    let mut steps = 0u32;
    while let Some(step) = engine.next_step() {
        engine.take(step);
        steps = steps.wrapping_add(1);
        if steps.is_multiple_of(STEPS) && !may_go_on() {
            return Ok(None);
        }
    }
    engine.finish().map(Some)
}

/// The next step of the simulation.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A timer of the core.
    Wake(Timestamp),
    /// An event on or around a cluster.
    Happen(Timestamp, Happening),
    /// This arrival is submitted.
    Arrive(usize),
}

/// An event on or around a cluster. Numbers are indices into the arrivals.
#[derive(Debug, Clone, Copy)]
enum Happening {
    Poll(Place),
    Accept(usize, Attempt),
    Find { job: usize, attempt: Attempt, question: u32 },
    ConfirmStop(usize, Attempt),
    Start(usize),
    Show(usize, Place),
    End(usize, Attempt),
    Stopped(usize, Attempt),
    Hide(usize, Place),
    Grow(Place),
    Shrink(Place),
}

/// The order of events. At one moment, polls come last and in the order of the pool: so it makes
/// no difference which polls were skipped before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    at: Timestamp,
    poll: Option<Place>,
    seq: u64,
}

struct Engine<'a> {
    pool: &'a Pool,
    workload: &'a Workload,
    core: Core,
    fleet: Fleet,
    fates: Vec<Fate>,
    by_id: HashMap<&'a JobId, usize>,
    refused: BTreeMap<&'static str, RefusedGroup>,
    agenda: BTreeMap<Turn, Happening>,
    planned: u64,
    arrived: usize,
    waiting: usize,
    lost: Span,
    now: Timestamp,
    /// When a cluster or a caller last did anything.
    last_happening: Timestamp,
    /// No timer that could lead to a placement is longer than this.
    patience: Span,
}

impl<'a> Engine<'a> {
    fn new(pool: &'a Pool, nodes: &Nodes, workload: &'a Workload) -> Result<Self, SimulationError> {
        let settings = without_failure(&pool.settings);
        let mut engine = Self {
            core: Core::new(settings.clone())?,
            fleet: Fleet::new(pool, nodes),
            fates: vec![Fate::Absent; workload.arrivals.len()],
            by_id: workload.arrivals.iter().enumerate().map(|(n, arrival)| (&arrival.id, n)).collect(),
            refused: BTreeMap::new(),
            agenda: BTreeMap::new(),
            planned: 0,
            arrived: 0,
            waiting: 0,
            lost: Span::ZERO,
            now: Timestamp::default(),
            last_happening: Timestamp::default(),
            patience: patience(pool),
            pool,
            workload,
        };
        let clusters = pool.clusters.iter().map(|cluster| cluster.spec.clone()).collect();
        engine.feed(Input::Reload { settings: Box::new(settings), clusters })?;
        Ok(engine)
    }

    /// The next step; at the same moment the core's timers, then clusters, then arrivals. `None`
    /// when all work is done, or the queued work would wait forever.
    fn next_step(&mut self) -> Option<Step> {
        let happening = self.agenda.first_key_value().map(|(turn, _)| turn.at);
        let arrival = self.workload.arrivals.get(self.arrived).map(|arrival| moment(arrival.at));
        let next = happening.into_iter().chain(arrival).min();
        let wakeup = self.core.next_wakeup();
        let is_due = |wakeup: &Timestamp| match next {
            Some(next) => *wakeup <= next,
            None => self.waiting > 0 && *wakeup <= self.last_happening + self.patience,
        };
        if let Some(wakeup) = wakeup.filter(is_due) {
            return Some(Step::Wake(wakeup));
        }
        if happening.is_some() && happening == next {
            let (turn, happening) = self.agenda.pop_first()?;
            return Some(Step::Happen(turn.at, happening));
        }
        arrival.map(|_| Step::Arrive(self.arrived))
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Wake(at) => {
                self.now = self.now.max(at);
                self.tell(Input::Tick);
            }
            Step::Happen(at, happening) => {
                self.now = self.now.max(at);
                self.last_happening = self.now;
                self.happen(happening);
            }
            Step::Arrive(nth) => {
                self.arrived += 1;
                self.now = self.now.max(moment(self.workload.arrivals[nth].at));
                self.last_happening = self.now;
                self.submit(nth);
            }
        }
    }

    fn submit(&mut self, nth: usize) {
        let arrival = &self.workload.arrivals[nth];
        // Updated first: the core may place it at once.
        self.fates[nth] = Fate::Waiting;
        self.waiting += 1;
        let submission = Submission {
            id: Identity::Given(arrival.id.clone()),
            work: Work::clone(&arrival.work),
            content: None,
            bytes: 0,
            parent: None,
        };
        if let Err(why) = self.feed(Input::Submit(submission)) {
            self.fates[nth] = Fate::Absent;
            self.waiting -= 1;
            let first = || RefusedGroup { count: 0, first: arrival.id.clone(), why: why.clone() };
            self.refused.entry(why.code()).or_insert_with(first).count += 1;
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Poll(on) => {
                let (snapshot, next) = self.fleet.poll(on, self.now);
                if let Some(next) = next {
                    self.plan(next, Happening::Poll(on));
                }
                let cluster = self.fleet[on].name.clone();
                self.tell(Input::Polled { cluster, snapshot: Box::new(snapshot), took: Span::ZERO });
            }
            Happening::Accept(nth, attempt) => {
                let outcome = DispatchOutcome::Accepted;
                self.tell(Input::Dispatched { run: self.run(nth, attempt), outcome, took: Span::ZERO });
            }
            Happening::Find { job, attempt, question } => {
                let outcome = LookupOutcome::Found(match self.fates[job] {
                    Fate::Running { .. } => RunStatus::Running,
                    Fate::Done { .. } => RunStatus::Succeeded,
                    Fate::Absent | Fate::Waiting | Fate::Sent { .. } => RunStatus::Pending,
                });
                self.tell(Input::LookedUp { run: self.run(job, attempt), question, outcome });
            }
            Happening::ConfirmStop(nth, attempt) => {
                self.tell(Input::StopSent { run: self.run(nth, attempt), answered: true });
            }
            Happening::Start(nth) => self.start(nth),
            Happening::End(nth, attempt) => self.end(nth, attempt),
            Happening::Stopped(nth, attempt) => self.stopped(nth, attempt),
            Happening::Show(nth, on) => self.fleet[on].show(nth, &self.workload.arrivals[nth].work),
            Happening::Hide(nth, on) => {
                self.fleet[on].hide(nth, &self.workload.arrivals[nth].work);
                if self.fleet[on].has_grown() {
                    self.plan(self.now + self.pool.timing.idle, Happening::Shrink(on));
                }
            }
            Happening::Grow(on) => {
                self.fleet[on].grow();
                self.expect_news(on, self.now);
                self.start_held(on);
            }
            Happening::Shrink(on) => {
                self.fleet[on].shrink();
                self.expect_news(on, self.now);
            }
        }
    }

    /// Work waits on this cluster: its autoscaler adds a node, if it has one.
    fn ask_to_grow(&mut self, on: Place) {
        let cluster = &mut self.fleet[on];
        if cluster.can_grow() && !cluster.grows {
            cluster.grows = true;
            self.plan(self.now + self.pool.timing.grow, Happening::Grow(on));
        }
    }

    /// A run starts, or waits until its cluster has room.
    fn start(&mut self, nth: usize) {
        let Fate::Sent { on, attempt } = self.fates[nth] else { return };
        let arrival = &self.workload.arrivals[nth];
        let cluster = &mut self.fleet[on];
        if !cluster.start(nth, &arrival.work) {
            cluster.meter.held_back += 1;
            cluster.held.push(nth);
            return self.ask_to_grow(on);
        }
        self.fates[nth] = Fate::Running { on, attempt, started: self.now };
        self.plan(self.now + arrival.duration, Happening::End(nth, attempt));
        let shown = self.now + self.pool.timing.usage;
        self.plan(shown, Happening::Show(nth, on));
        // The core trusts a poll only some time after it saw the start.
        self.expect_news(on, shown.max(self.now + self.pool.settings.settle_margin));
        self.tell(match arrival.work.kind {
            Kind::Job => self.observation(nth, on, attempt, RunStatus::Running),
            Kind::Task | Kind::Actor => Input::Heartbeat { job: self.id(nth), attempt },
        });
    }

    /// A run has ended, and runs that waited for room may start.
    fn end(&mut self, nth: usize, of: Attempt) {
        let Fate::Running { on, attempt, started } = self.fates[nth] else { return };
        // It was stopped, and runs again by now.
        if attempt != of {
            return;
        }
        let arrival = &self.workload.arrivals[nth];
        self.fleet[on].end(nth, &arrival.work, arrival.duration);
        self.fates[nth] = Fate::Done { started, ended: self.now };
        let hidden = self.now + self.pool.timing.usage;
        self.plan(hidden, Happening::Hide(nth, on));
        self.expect_news(on, hidden);
        self.tell(match arrival.work.kind {
            Kind::Job => self.observation(nth, on, attempt, RunStatus::Succeeded),
            Kind::Task | Kind::Actor => {
                Input::Released { job: self.id(nth), attempt, outcome: ReleaseOutcome::Succeeded }
            }
        });
        self.start_held(on);
    }

    /// A run was stopped for other work: all that it did is lost.
    fn stopped(&mut self, nth: usize, of: Attempt) {
        let Fate::Running { on, attempt, started } = self.fates[nth] else { return };
        if attempt != of {
            return;
        }
        let (work, ran) = (&self.workload.arrivals[nth].work, self.now.since(started));
        self.fleet[on].end(nth, work, ran);
        self.fleet[on].hide(nth, work);
        self.lost = Span(self.lost.0 + ran.0);
        self.fates[nth] = Fate::Waiting;
        self.waiting += 1;
        self.expect_news(on, self.now);
        self.tell(self.observation(nth, on, attempt, RunStatus::Stopped));
        self.start_held(on);
    }

    fn start_held(&mut self, on: Place) {
        for held in std::mem::take(&mut self.fleet[on].held) {
            self.start(held);
        }
    }

    fn observation(&self, nth: usize, on: Place, attempt: Attempt, status: RunStatus) -> Input {
        Input::Observed {
            cluster: self.fleet[on].name.clone(),
            incarnation: None,
            complete_at: None,
            runs: vec![Observation { run: self.run(nth, attempt), status, ran: None }],
        }
    }

    /// An input without an answer.
    fn tell(&mut self, input: Input) {
        let answer = self.feed(input);
        debug_assert!(answer.is_ok(), "the simulator told the core something it cannot know: {answer:?}");
    }

    fn feed(&mut self, input: Input) -> Result<(), Refusal> {
        let output = self.core.handle(self.now, input);
        for effect in output.effects {
            self.perform(effect);
        }
        for event in output.events {
            self.hear(&event);
        }
        output.reply.transpose().map(drop)
    }

    fn perform(&mut self, effect: Effect) {
        let answered = self.now + self.pool.timing.answer;
        let nth = |run: &Run| self.by_id.get(&run.job).copied();
        match effect {
            // No id is reused in the simulation, and no request is lost.
            Effect::Forget { .. } | Effect::Bury { .. } | Effect::Recall { .. } | Effect::List { .. } => {}
            Effect::Poll { cluster } => {
                let Some(on) = self.fleet.find(&cluster) else { return };
                self.expect_news(on, self.now);
            }
            Effect::Submit { run, cluster } => {
                let Some(nth) = nth(&run) else { return };
                self.send(nth, run.attempt, &cluster);
                self.plan(answered, Happening::Accept(nth, run.attempt));
            }
            Effect::Lookup { run, question, .. } => {
                let Some(job) = nth(&run) else { return };
                self.plan(answered, Happening::Find { job, attempt: run.attempt, question });
            }
            Effect::Stop { run, .. } => {
                let Some(nth) = nth(&run) else { return };
                self.plan(answered, Happening::ConfirmStop(nth, run.attempt));
                // Not before polls show the run.
                self.plan(answered + self.pool.timing.usage, Happening::Stopped(nth, run.attempt));
            }
        }
    }

    /// The caller of a task or an actor learns where it may run, and starts it there.
    fn hear(&mut self, event: &Event) {
        let Event::Job { job, state: State::Dispatching, cluster: Some(cluster), attempt, .. } = event else {
            return;
        };
        let (Some(nth), Some(attempt)) = (self.by_id.get(job).copied(), *attempt) else { return };
        if self.workload.arrivals[nth].work.kind != Kind::Job {
            self.send(nth, attempt, cluster);
        }
    }

    /// A cluster receives a run. Sent twice, it is the same run: Ray refuses the second.
    fn send(&mut self, nth: usize, attempt: Attempt, cluster: &ClusterName) {
        let (Fate::Waiting, Some(on)) = (self.fates[nth], self.fleet.find(cluster)) else { return };
        self.fates[nth] = Fate::Sent { on, attempt };
        self.waiting -= 1;
        self.plan(self.now + self.pool.timing.start, Happening::Start(nth));
    }

    fn expect_news(&mut self, on: Place, until: Timestamp) {
        if let Some(at) = self.fleet.expect_news(on, self.now, until) {
            self.plan(at, Happening::Poll(on));
        }
    }

    fn plan(&mut self, at: Timestamp, happening: Happening) {
        self.planned += 1;
        let poll = if let Happening::Poll(on) = happening { Some(on) } else { None };
        self.agenda.insert(Turn { at, poll, seq: self.planned }, happening);
    }

    fn run(&self, nth: usize, attempt: Attempt) -> Run {
        Run { job: self.id(nth), attempt, life: None }
    }

    fn id(&self, nth: usize) -> JobId {
        self.workload.arrivals[nth].id.clone()
    }

    fn finish(self) -> Result<Trace, SimulationError> {
        let mut groups: BTreeMap<&Work, Vec<usize>> = BTreeMap::new();
        for (nth, _) in self.fates.iter().enumerate().filter(|(_, fate)| **fate == Fate::Waiting) {
            groups.entry(&self.workload.arrivals[nth].work).or_default().push(nth);
        }
        let explain = |arrivals: Vec<usize>| {
            let why = self.core.explain(&self.workload.arrivals[arrivals[0]].id)?;
            Ok(StuckGroup { arrivals, why: Some(why) })
        };
        let stuck = groups.into_values().map(explain).collect::<Result<_, Refusal>>()?;
        let meters = self.fleet.into_meters().collect();
        Ok(Trace { fates: self.fates, meters, refused: self.refused, stuck, lost: self.lost })
    }
}

/// Arrival times count from the start of virtual time.
pub(crate) fn moment(arrival: Span) -> Timestamp {
    Timestamp::default() + arrival
}

/// Virtual clusters always answer and holders of placements never fall silent, so no polls or
/// heartbeats are needed for years of virtual time only to prove it.
fn without_failure(settings: &Settings) -> Settings {
    Settings { snapshot_max_age: Span(u64::MAX), lease_ttl: Span(u64::MAX), ..settings.clone() }
}

/// The longest that the core may sleep and then still place work without another event.
fn patience(pool: &Pool) -> Span {
    let intervals = pool.clusters.iter().map(|cluster| cluster.spec.limits.interval(&pool.settings));
    intervals.chain([pool.settings.starvation_after]).max().unwrap_or_default()
}

#[cfg(test)]
mod tests;
