//! The driver and the network between the core and the fake clusters: time,
//! latency, loss, duplication, crashes.

use std::{collections::BTreeMap, sync::Arc};

use multicluster_core::{
    ClusterVerdict, Core, DispatchOutcome, Effect, Event as CoreEvent, Explanation, Input, LookupOutcome,
    Observation, Output, ReleaseOutcome, Reply, Run, RunStatus, record::JobRecord,
};
use multicluster_types::{
    Attempt, ClusterName, JobId, Kind, Lang, Quantity, Reason, ReasonKind, Resources, Settings, Snapshot,
    Span, State, Timestamp, Verdict,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{
    oracle::Oracle,
    plan::{self, Faults, chance, pick},
    ray::{FakeJob, FakeRay, Happened, Mode, Scaler},
};

const TIMEOUT: Span = Span::seconds(20);

pub struct World {
    pub rng: ChaCha8Rng,
    pub core: Core,
    pub oracle: Oracle,
    pub now: Timestamp,
    pub rays: BTreeMap<ClusterName, FakeRay>,
    pub faults: Faults,
    agenda: BTreeMap<(Timestamp, u64), Event>,
    order: u64,
    /// Counts the lives of the control plane: answers to an earlier life are lost.
    life: u32,
    /// Counts the lanes that each cluster had: reports of an earlier lane are lost.
    lanes: BTreeMap<ClusterName, u32>,
    trace: bool,
    pub submitted: u32,
    pub steps: u64,
}

/// Something that will happen.
#[derive(Debug, Clone)]
enum Event {
    /// Reaches the core, unless the control plane has restarted since, or has another lane for
    /// the cluster that reports.
    ToCore { life: u32, lane: Option<Lane>, input: Box<Input> },
    /// Reaches a cluster, unless its head has restarted since.
    ToRay { session: u32, lane: Lane, request: Request },
    /// The packages of a job are being pushed, in this many more steps: then its request is sent.
    Push { life: u32, cluster: ClusterName, run: Run, steps: u32 },
    /// The driver polls, and lists the runs.
    Poll { cluster: ClusterName },
    /// The caller of a placement asks whether it is granted.
    Caller { job: JobId },
    /// The holder of a placement does something.
    Holder { cluster: ClusterName, job: JobId, attempt: Attempt, ends_at: Timestamp },
}

/// The number of a cluster's lane.
type Lane = (ClusterName, u32);

#[derive(Debug, Clone)]
enum Request {
    Submit { cluster: ClusterName, run: Run, answer: Answer },
    Lookup { cluster: ClusterName, run: Run, question: u32 },
    Bury { cluster: ClusterName, run: Run, question: u32 },
    Recall { cluster: ClusterName, run: Run },
    Stop { cluster: ClusterName, run: Run },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Arrives,
    IsLost,
}

/// Runs one seed; returns the number of steps. Panics on a broken invariant.
pub fn run(seed: u64, trace: bool) -> u64 {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let plan = plan::plan(&mut rng);
    let mut world = World {
        rng,
        core: Core::new(Settings::default()).unwrap(),
        oracle: Oracle::new(trace || seed.is_multiple_of(16)),
        now: Timestamp(1_700_000_000_000),
        rays: BTreeMap::new(),
        faults: plan.faults,
        agenda: BTreeMap::new(),
        order: 0,
        life: 0,
        lanes: BTreeMap::new(),
        trace,
        submitted: 0,
        steps: 0,
    };
    let mut specs = Vec::new();
    for (spec, shape) in plan.clusters {
        world.rays.insert(spec.name.clone(), FakeRay::new(shape));
        specs.push(spec);
    }
    world.tell(Input::Reload { settings: Box::new(plan.settings), clusters: specs });
    for _ in 0..plan.steps {
        world.act_as_client();
        let pause = *pick(&mut world.rng, &[0, 10, 500, 2_000, 9_000]);
        world.pass(Span(pause));
        if chance(&mut world.rng, world.faults.stall) {
            let slept = *pick(&mut world.rng, &[15, 40, 600]);
            world.stall(Span::seconds(slept));
        }
        world.cause_outages();
    }
    world.heal();
    world.steps
}

impl World {
    /// Gives the core an input and carries out its output.
    pub fn tell(&mut self, input: Input) -> Option<Result<Reply, multicluster_core::Refusal>> {
        self.steps += 1;
        if self.trace {
            println!("{} {input:?}", self.now.0 % 100_000_000);
        }
        match &input {
            Input::Polled { cluster, snapshot, took } => {
                self.oracle.told_facts(cluster, snapshot, self.now, self.core.settings());
                self.oracle.told_answer(cluster, *took, self.core.settings());
            }
            Input::PollFailed { cluster, .. } => {
                self.oracle.told_poll_failed(cluster);
                self.oracle.told_trouble(cluster);
            }
            Input::Unauthorized { cluster, .. } => self.oracle.told_poll_failed(cluster),
            Input::Dispatched { run, outcome, took } => {
                self.oracle.told_submission(run, outcome, *took, self.core.settings());
            }
            _ => {}
        }
        let heard = match &input {
            Input::Waits { job } => Some(job.clone()),
            Input::Submit(submission) => Some(submission.id.id().clone()),
            _ => None,
        };
        let out = self.core.handle(self.now, input);
        let asked_for = |job: &JobRecord| job.work.kind != Kind::Job && !job.state().is_terminal();
        let heard = heard.filter(|_| matches!(out.reply, Some(Ok(_))));
        if let Some(job) = heard.filter(|job| self.core.job(job).is_some_and(asked_for)) {
            self.oracle.told_heard(&job, self.now);
        }
        self.perform(out)
    }

    fn perform(&mut self, out: Output) -> Option<Result<Reply, multicluster_core::Refusal>> {
        if self.trace {
            out.events.iter().for_each(|event| println!("    {event:?}"));
            out.effects.iter().for_each(|effect| println!("    → {effect:?}"));
        }
        self.oracle.check(&self.core, &out);
        assert_eq!(out.impossible, [], "nothing is tried that the state diagram does not have");
        let granted: Vec<_> = out.events.iter().filter_map(|event| self.granted(event)).collect();
        let is_quiet = out.effects.is_empty() && granted.is_empty();
        if !is_quiet && chance(&mut self.rng, self.faults.crash) {
            self.crash();
        } else {
            out.effects.into_iter().for_each(|effect| self.send(effect));
            granted.into_iter().for_each(|job| self.grant(&job));
        }
        out.reply
    }

    /// The control plane dies after the commit, before the effects.
    pub fn crash(&mut self) {
        if self.trace {
            println!("{} CRASH", self.now.0 % 100_000_000);
        }
        self.life += 1;
        self.oracle.told_crash(self.now);
        self.oracle.told_restart(self.now);
        let settings = self.core.settings().clone();
        self.core = Core::rebuild(self.now, settings, self.oracle.store.clone()).unwrap();
        self.agenda.retain(|_, event| !matches!(event, Event::Poll { .. }));
        let (out, life) = (self.core.recover(false), self.life);
        self.perform(out);
        if self.life != life {
            return;
        }
        // Callers that were not notified ask again.
        let untold = |job: &&JobRecord| job.work.kind != Kind::Job && job.state() == State::Dispatching;
        let untold: Vec<_> = self.core.jobs().filter(untold).map(|job| job.id.clone()).collect();
        untold.iter().for_each(|job| self.grant(job));
    }

    /// The clock was ahead by this much, and is right from now on. Only the store still has moments
    /// of the wrong time.
    pub fn correct_clock(&mut self, ahead: Span) {
        let right = |at: Timestamp| Timestamp(at.0 - ahead.0);
        self.now = right(self.now);
        let agenda = std::mem::take(&mut self.agenda);
        self.agenda = agenda.into_iter().map(|((at, order), event)| ((right(at), order), event)).collect();
        for event in self.agenda.values_mut() {
            if let Event::Holder { ends_at, .. } = event {
                *ends_at = right(*ends_at);
            }
        }
        for job in self.rays.values_mut().flat_map(|ray| ray.jobs.values_mut()) {
            (job.starts_at, job.ends_at) = (right(job.starts_at), right(job.ends_at));
        }
        for scaler in self.rays.values_mut().filter_map(|ray| ray.scaler.as_mut()) {
            scaler.moments().for_each(|at| *at = right(*at));
        }
        self.oracle.told_clock(self.now);
    }

    /// The task or actor whose caller learns from this event where it may run.
    fn granted(&self, event: &CoreEvent) -> Option<JobId> {
        match event {
            CoreEvent::Job { job, state: State::Dispatching, .. } if self.is_task(job) => Some(job.clone()),
            _ => None,
        }
    }

    /// Time passes, and the control plane does not notice until afterwards.
    fn stall(&mut self, span: Span) {
        self.now = self.now + span;
        self.let_rays_run();
        self.oracle.told_deaf(self.now);
        self.tell(Input::Awoke);
    }

    /// Lets time pass.
    pub fn pass(&mut self, span: Span) {
        let end = self.now + span;
        loop {
            let event = self.agenda.first_key_value().map(|(&(at, _), _)| at);
            let wakeup = self.core.next_wakeup();
            let next = event.into_iter().chain(wakeup).min().filter(|at| *at <= end);
            let Some(next) = next else { break };
            self.now = self.now.max(next);
            self.let_rays_run();
            if wakeup.is_some_and(|at| at <= self.now) {
                self.tell(Input::Tick);
            } else if let Some((_, event)) = self.agenda.pop_first() {
                self.happen(event);
            }
        }
        self.now = end;
        self.let_rays_run();
    }

    fn let_rays_run(&mut self) {
        for ray in self.rays.values_mut() {
            for happened in ray.advance(self.now) {
                match happened {
                    Happened::Started(job, _) => self.oracle.told_started(&job),
                    Happened::Ended(job, attempt, end) => self.oracle.told_ended(&job, attempt, &end),
                }
            }
        }
    }

    fn later(&mut self, after: Span, event: Event) {
        self.order += 1;
        self.agenda.insert((self.now + after, self.order), event);
    }

    /// What a caller says to the core, which may be slow or come twice.
    fn answer(&mut self, after: Span, input: &Input) {
        self.deliver(after, None, input);
    }

    /// The report of a lane, which may be slow or come twice.
    fn report(&mut self, after: Span, lane: Lane, input: &Input) {
        self.deliver(after, Some(lane), input);
    }

    fn deliver(&mut self, after: Span, lane: Option<Lane>, input: &Input) {
        let slow = if chance(&mut self.rng, self.faults.slow) { Span::seconds(45) } else { Span::ZERO };
        let after = Span(after.0 + slow.0 + self.rng.random_range(0..200));
        let event = Event::ToCore { life: self.life, lane, input: Box::new(input.clone()) };
        if chance(&mut self.rng, self.faults.duplicate) {
            let again = Span(after.0 + self.rng.random_range(0..60_000));
            self.later(again, event.clone());
        }
        self.later(after, event);
    }

    /// The present lane of a cluster.
    fn lane(&self, cluster: &ClusterName) -> Lane {
        (cluster.clone(), self.lanes.get(cluster).copied().unwrap_or_default())
    }

    /// The driver reaches a cluster in another way: reports of the old lane are lost.
    pub fn replace_lane(&mut self, cluster: &ClusterName) {
        *self.lanes.entry(cluster.clone()).or_default() += 1;
    }

    fn send(&mut self, effect: Effect) {
        match effect {
            Effect::Poll { cluster } => self.later(Span(5), Event::Poll { cluster }),
            Effect::List { .. } => {} // The store of this world never loses anything: see planes.rs.
            Effect::Forget { .. } => {} // Ray may keep it: ids are not used again here.
            Effect::Submit { run, cluster } => self.send_submit(&cluster, &run),
            Effect::Lookup { run, cluster, question } => {
                let outcome = LookupOutcome::NoAnswer;
                let no_answer = Input::LookedUp { run: run.clone(), question, outcome };
                let request = Request::Lookup { cluster: cluster.clone(), run, question };
                self.send_request(&cluster, request, &no_answer);
            }
            Effect::Bury { run, cluster, question } => {
                let outcome = LookupOutcome::NoAnswer;
                let no_answer = Input::LookedUp { run: run.clone(), question, outcome };
                let request = Request::Bury { cluster: cluster.clone(), run, question };
                self.send_request(&cluster, request, &no_answer);
            }
            Effect::Recall { run, cluster } => {
                let request = Request::Recall { cluster: cluster.clone(), run };
                self.send_request(&cluster, request, &Input::Tick);
            }
            Effect::Stop { run, cluster } => {
                let no_answer = Input::StopSent { run: run.clone(), answered: false };
                let request = Request::Stop { cluster: cluster.clone(), run };
                self.send_request(&cluster, request, &no_answer);
            }
        }
    }

    /// A lookup or a stop: it arrives and is answered, or is lost.
    fn send_request(&mut self, cluster: &ClusterName, request: Request, no_answer: &Input) {
        let up = self.rays.get(cluster).filter(|ray| ray.mode == Mode::Up).map(|ray| ray.session);
        match up {
            Some(session) if !chance(&mut self.rng, self.faults.lost) => {
                let (after, lane) = (Span(self.rng.random_range(1..50)), self.lane(cluster));
                self.later(after, Event::ToRay { session, lane, request });
            }
            _ => self.report(TIMEOUT, self.lane(cluster), no_answer),
        }
    }

    fn send_submit(&mut self, cluster: &ClusterName, run: &Run) {
        let took = self.rays.get(cluster).map_or(Span::ZERO, |ray| ray.takes);
        let report = |outcome| Input::Dispatched { run: run.clone(), outcome, took };
        let unknown = report(DispatchOutcome::Unknown("timeout".into()));
        let Some((mode, session)) = self.rays.get(cluster).map(|ray| (ray.mode, ray.session)) else {
            return;
        };
        let lane = self.lane(cluster);
        let submit = |answer| Event::ToRay {
            session,
            lane: lane.clone(),
            request: Request::Submit { cluster: cluster.clone(), run: run.clone(), answer },
        };
        match mode {
            Mode::Down => {
                self.report(Span(10), lane, &report(DispatchOutcome::Failed("connection refused".into())))
            }
            Mode::Locked => {
                self.report(Span(10), lane, &report(DispatchOutcome::Denied("403: bad token".into())))
            }
            // The request sits in the socket's buffer, and may be read much later.
            Mode::Hung => {
                self.report(TIMEOUT, lane.clone(), &unknown);
                let after = Span(self.rng.random_range(1_000..120_000));
                self.later(after, submit(Answer::IsLost));
            }
            Mode::Up if chance(&mut self.rng, self.faults.error) => {
                self.report(
                    Span(30),
                    lane,
                    &report(DispatchOutcome::Failed("500: no available agent".into())),
                );
            }
            Mode::Up if chance(&mut self.rng, self.faults.error / 4) => {
                self.report(Span(30), lane, &report(DispatchOutcome::Refused("400: bad runtime_env".into())));
            }
            Mode::Up if chance(&mut self.rng, self.faults.lost) => {
                self.report(TIMEOUT, lane.clone(), &unknown);
                if chance(&mut self.rng, 60) {
                    let after = Span(self.rng.random_range(0..60_000));
                    self.later(after, submit(Answer::IsLost));
                }
            }
            // Up to six minutes: longer than any `dispatch_timeout`.
            Mode::Up if chance(&mut self.rng, 5) => {
                let (steps, life) = (self.rng.random_range(0..70), self.life);
                let (cluster, run) = (cluster.clone(), run.clone());
                self.later(Span::seconds(1), Event::Push { life, cluster, run, steps });
            }
            Mode::Up => {
                let after = Span(self.rng.random_range(1..50));
                self.later(after, submit(Answer::Arrives));
            }
        }
    }

    /// Pushes for five seconds. Nothing is sent that the core does not expect any more.
    fn push(&mut self, cluster: ClusterName, run: Run, steps: u32) {
        self.tell(Input::Pushing { run: run.clone(), pushed: 1, of: 2 });
        let live = self.core.job(&run.job).filter(|_| self.core.is_latest(&run)).and_then(JobRecord::live);
        let wanted = live.is_some_and(|live| live.state() == State::Dispatching && !live.stopping());
        if !wanted {
            let outcome = DispatchOutcome::NotSent("not wanted any more".into());
            self.answer(Span(1), &Input::Dispatched { run, outcome, took: Span::ZERO });
        } else if steps == 0 {
            self.send_submit(&cluster, &run);
        } else {
            let life = self.life;
            self.later(Span::seconds(5), Event::Push { life, cluster, run, steps: steps - 1 });
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::ToCore { life, lane, input } => {
                if life == self.life && lane.is_none_or(|lane| lane == self.lane(&lane.0)) {
                    self.tell(*input);
                }
            }
            Event::ToRay { session, lane, request } => self.reach(session, lane, request),
            Event::Push { life, .. } if life != self.life => {}
            Event::Push { cluster, run, steps, .. } => self.push(cluster, run, steps),
            Event::Poll { cluster } => self.poll(cluster),
            Event::Caller { job } => self.wait_for(&job),
            Event::Holder { cluster, job, attempt, ends_at } => self.hold(cluster, job, attempt, ends_at),
        }
    }

    /// A request reaches a cluster, unless its head has restarted since.
    fn reach(&mut self, session: u32, lane: Lane, request: Request) {
        let (Request::Submit { cluster, .. }
        | Request::Lookup { cluster, .. }
        | Request::Bury { cluster, .. }
        | Request::Recall { cluster, .. }
        | Request::Stop { cluster, .. }) = &request;
        let Some(ray) = self.rays.get_mut(cluster).filter(|ray| ray.session == session) else { return };
        if ray.mode == Mode::Hung {
            // The request is still in the buffer.
            return self.later(Span::seconds(10), Event::ToRay { session, lane, request });
        }
        match request {
            Request::Submit { cluster, run, answer } => {
                let Some(record) = self.oracle.store.jobs.get(&run.job) else { return };
                let work = Arc::clone(&record.work);
                if ray.is_old && !work.on_one_node().memory.is_zero() {
                    let outcome = DispatchOutcome::Unsupported("unexpected 'entrypoint_memory'".into());
                    if answer == Answer::Arrives {
                        self.answer(Span(20), &Input::Dispatched { run, outcome, took: Span(20) });
                    }
                    return;
                }
                if ray.is_taken(&run) {
                    let outcome = DispatchOutcome::Taken("in use".into());
                    if answer == Answer::Arrives {
                        self.answer(Span(20), &Input::Dispatched { run, outcome, took: Span(20) });
                    }
                    return;
                }
                // The job starts all it needs inside, nothing, or some of each kind.
                let mut inside = work.demand.clone();
                inside.subtract(work.on_one_node());
                match self.rng.random_range(0..3) {
                    0 => inside = Resources::default(),
                    1 => inside.cpu = Quantity::from_f64(inside.cpu.as_f64() / 4.0).unwrap(),
                    _ => {}
                }
                let new = FakeJob {
                    run: run.clone(),
                    driver: work.on_one_node().clone(),
                    node: None,
                    burdens_head: work.burdens_head(),
                    inside,
                    status: RunStatus::Pending,
                    starts_at: self.now + Span(self.rng.random_range(800..2_500)),
                    ends_at: self.now + Span(self.rng.random_range(3_000..200_000)),
                    end: self.rng_end(),
                    stop_asked: false,
                };
                let ray = self.rays.get_mut(&cluster).expect("found above");
                let is_buried = ray.is_buried(&run);
                ray.submit(new);
                if answer == Answer::Arrives {
                    let (mut outcome, took) = (DispatchOutcome::Accepted, ray.takes);
                    if is_buried {
                        outcome = DispatchOutcome::Unknown("exists already".into());
                    }
                    let accepted = Input::Dispatched { run, outcome, took };
                    self.report(Span(20 + took.0), lane, &accepted);
                }
            }
            Request::Lookup { run, question, .. } => {
                let outcome = ray.look_up(&run);
                self.report(Span(5), lane, &Input::LookedUp { run, question, outcome });
            }
            Request::Bury { run, question, .. } => {
                ray.bury(&run);
                let outcome = ray.look_up(&run);
                self.report(Span(5), lane, &Input::LookedUp { run, question, outcome });
            }
            // The watch tells.
            Request::Recall { run, .. } => ray.recall(&run),
            Request::Stop { run, .. } => {
                ray.stop(&run, self.now);
                self.report(Span(5), lane, &Input::StopSent { run, answered: true });
            }
        }
    }

    fn rng_end(&mut self) -> RunStatus {
        match self.rng.random_range(0..10) {
            0 => RunStatus::Failed {
                message: "it failed".into(),
                never_started: false,
                exit_code: *pick(&mut self.rng, &[Some(1), Some(1), Some(2), Some(-9), None]),
            },
            _ => RunStatus::Succeeded,
        }
    }

    /// A poll and a list of the runs, every five seconds.
    fn poll(&mut self, cluster: ClusterName) {
        let polled_again =
            self.agenda.values().any(|e| matches!(e, Event::Poll { cluster: c } if *c == cluster));
        if !polled_again && self.core.cluster(&cluster).is_some() {
            self.later(Span::seconds(5), Event::Poll { cluster: cluster.clone() });
        }
        let lane = self.lane(&cluster);
        let Some(ray) = self.rays.get(&cluster) else { return };
        match ray.mode {
            Mode::Down => self.report(
                Span(10),
                lane,
                &Input::PollFailed { cluster, error: "connection refused".into() },
            ),
            Mode::Locked => self.report(
                Span(10),
                lane,
                &Input::Unauthorized { cluster, error: "the token was refused".into() },
            ),
            Mode::Hung => {
                self.report(Span::seconds(10), lane, &Input::PollFailed { cluster, error: "timeout".into() })
            }
            Mode::Up => {
                let (mut snapshot, took) = (ray.snapshot(self.now), ray.takes);
                let runs = ray.jobs.values().map(|job| Observation {
                    run: job.run.clone(),
                    status: job.status.clone(),
                    ran: None,
                });
                let runs: Vec<_> = runs.collect();
                if chance(&mut self.rng, self.faults.lie) {
                    self.lie(&mut snapshot);
                }
                let incarnation = snapshot.incarnation.clone();
                let complete_at = Some(self.now);
                let polled = Input::Polled { cluster: cluster.clone(), snapshot: Box::new(snapshot), took };
                self.report(Span(10 + took.0), lane.clone(), &polled);
                self.report(Span(10), lane, &Input::Observed { cluster, incarnation, complete_at, runs });
            }
        }
    }

    /// Shows an idle cluster, an old one, or nonsense.
    fn lie(&mut self, snapshot: &mut Snapshot) {
        match self.rng.random_range(0..4) {
            0 => {
                snapshot.used = Resources::default();
                snapshot.shapes.iter_mut().for_each(|node| node.free = node.total.clone());
            }
            1 => snapshot.taken_at = Timestamp(snapshot.taken_at.0 - self.rng.random_range(0..20_000)),
            2 => snapshot.used.add(&snapshot.total.clone()),
            _ => snapshot.taken_at = snapshot.taken_at + Span::minutes(10),
        }
    }

    /// The caller of a placement keeps asking, unless it dies or the placement has ended.
    pub fn wait_for(&mut self, job: &JobId) {
        let Some(record) = self.oracle.store.jobs.get(job).filter(|job| !job.state().is_terminal()) else {
            return;
        };
        if record.work.kind == Kind::Job || chance(&mut self.rng, self.faults.lost / 4) {
            return;
        }
        if record.state() == State::Queued {
            self.answer(Span(5), &Input::Waits { job: job.clone() });
        }
        self.later(Span::seconds(8), Event::Caller { job: job.clone() });
    }

    /// A caller learns where its task or actor may run.
    fn grant(&mut self, job: &JobId) {
        let live = self.core.job(job).and_then(JobRecord::live);
        let Some((cluster, attempt)) = live.map(|live| (live.cluster.clone(), live.attempt)) else { return };
        if !chance(&mut self.rng, self.faults.lost) {
            let ends_at = self.now + Span(self.rng.random_range(1_000..90_000));
            self.later(Span(50), Event::Holder { cluster, job: job.clone(), attempt, ends_at });
        }
    }

    /// The holder of a placement runs it, sends heartbeats, and releases it in the end.
    fn hold(&mut self, cluster: ClusterName, job: JobId, attempt: Attempt, ends_at: Timestamp) {
        let work = self.oracle.store.jobs.get(&job).map(|record| Arc::clone(&record.work));
        let up = self.rays.get(&cluster).is_some_and(|ray| ray.mode == Mode::Up);
        let over = self.now >= ends_at || work.is_none();
        if !up || over || chance(&mut self.rng, self.faults.lost / 4) {
            if let Some(ray) = self.rays.get_mut(&cluster) {
                ray.end_lease(&job, attempt);
            }
            let outcome = match (up, over) {
                (false, _) => ReleaseOutcome::Unreachable("no route".into()),
                (true, true) => ReleaseOutcome::Succeeded,
                (true, false) => return, // The holder dies without a word.
            };
            return self.answer(Span(5), &Input::Released { job, attempt, outcome });
        }
        let running = self.core.job(&job).and_then(|r| r.live()).is_some_and(|live| live.attempt == attempt);
        let ray = self.rays.get_mut(&cluster).expect("up");
        let Some(work) = work.filter(|_| running) else { return ray.end_lease(&job, attempt) };
        ray.lease(job.clone(), attempt, &work);
        self.answer(Span(5), &Input::Heartbeat { job: job.clone(), attempt });
        self.later(Span::seconds(8), Event::Holder { cluster, job, attempt, ends_at });
    }

    /// Clusters go down, hang, refuse our token, restart, come back, become slow; other people use them.
    fn cause_outages(&mut self) {
        let names: Vec<_> = self.rays.keys().cloned().collect();
        for name in names {
            let roll = self.rng.random_range(0..1000);
            let foreign = self.rng.random_range(0..4);
            let ray = self.rays.get_mut(&name).expect("listed");
            let outage = self.faults.outage;
            match ray.mode {
                Mode::Up if roll < outage => {
                    ray.mode = if foreign == 0 { Mode::Locked } else { Mode::Down };
                }
                Mode::Up if roll < 2 * outage => ray.mode = Mode::Hung,
                Mode::Up if roll < 3 * outage => self.restart(&name),
                Mode::Up if roll < 3 * outage + self.faults.sluggish => {
                    ray.takes = if ray.takes == Span::ZERO { Span::seconds(4) } else { Span::ZERO };
                }
                Mode::Up if roll > 980 => {
                    let cpus = ray.total.cpu.as_f64() * f64::from(foreign) / 4.0;
                    ray.foreign = Resources::from_amounts([("CPU", cpus)]).unwrap();
                }
                Mode::Up => {}
                // A head that was down may come back with or without its jobs.
                Mode::Down if roll < 30 => self.restart(&name),
                Mode::Down | Mode::Hung | Mode::Locked if roll < 100 => ray.mode = Mode::Up,
                Mode::Down | Mode::Hung | Mode::Locked => {}
            }
        }
    }

    fn restart(&mut self, name: &ClusterName) {
        if self.trace {
            println!("{} RESTART {name}", self.now.0 % 100_000_000);
        }
        let killed = self.rays.get_mut(name).expect("listed").restart();
        killed.iter().for_each(|(job, _)| self.oracle.told_killed(job));
    }

    /// All faults stop: from here on, everything that can end must end.
    fn heal(&mut self) {
        self.faults = Faults::NONE;
        let specs = self.oracle.store.clusters.iter().map(|(name, c)| (name.clone(), Arc::clone(&c.spec)));
        let specs: BTreeMap<_, _> = specs.collect();
        for (name, ray) in &mut self.rays {
            ray.mode = Mode::Up;
            ray.foreign = Resources::default();
            ray.takes = Span::ZERO;
            let elastic = specs.get(name).and_then(|spec| spec.elastic.as_ref());
            if let Some(elastic) = elastic {
                let (most, node) = (elastic.can_add(&Resources::default()) as usize, elastic.node.clone());
                let scaler = Scaler::new(node, most, Span::seconds(5), Span::minutes(1));
                ray.scaler.get_or_insert_with(|| scaler.clone()).replace(scaler);
            }
        }
        let clusters: Vec<_> = self.core.clusters().map(|c| c.spec.name.clone()).collect();
        for cluster in clusters {
            self.tell(Input::Uncordon { cluster });
        }
        for _ in 0..120 {
            self.pass(Span::minutes(2));
            if self.unfinished().is_none() && self.core.durable().orphans.is_empty() {
                return;
            }
        }
        let orphans = self.core.durable().orphans;
        assert!(orphans.is_empty(), "four hours after all faults ended, these are not stopped: {orphans:?}");
        if let Some((job, why)) = self.unfinished() {
            panic!(
                "four hours after all faults ended, {job} is still not done: {why}\n{:?}",
                self.core.settings()
            );
        }
    }

    /// A job that could go on, and has not ended.
    fn unfinished(&self) -> Option<(JobId, String)> {
        use ReasonKind::{
            Infeasible, MissingTags, NoSuchNode, NodeTooSmall, NotSupported, OtherCluster, OtherPlatform,
            OtherVersions,
        };
        let never = |c: &ClusterVerdict| match &c.verdict {
            Verdict::Rejected(Reason::OwnerLimit { demand, limit, .. }) => demand > limit,
            Verdict::Rejected(reason) => matches!(
                reason.kind(),
                Infeasible
                    | MissingTags
                    | OtherCluster
                    | OtherVersions
                    | OtherPlatform
                    | NotSupported
                    | NoSuchNode
                    | NodeTooSmall
            ),
            _ => false,
        };
        let waits_for_good = |record: &JobRecord, why: &Explanation| {
            record.state() == State::Queued
                && why.backing_off_until.is_none()
                && why.clusters.iter().all(never)
        };
        self.core
            .jobs()
            .filter(|record| !record.state().is_terminal())
            .map(|record| (record, self.core.explain(&record.id).unwrap()))
            .find(|(record, why)| !waits_for_good(record, why))
            .map(|(record, why)| (record.id.clone(), why.summary(Lang::En)))
    }

    pub fn is_task(&self, job: &JobId) -> bool {
        self.core.job(job).is_some_and(|record| record.work.kind != Kind::Job)
    }
}
