//! Several control planes over one log: a leader is paused anywhere, another takes over, the old
//! one wakes and goes on, and the log may lose its last commits. Whatever happens, each job runs
//! once, nothing is lost, two leaders never act, and what was final stays final.
//!
//! `PLANES_SEED=17` replays one seed with a trace; `PLANES_SEEDS` and `SIM_SECONDS` as in `main.rs`.
//!
//! What is left out, because no control plane can know it: a request that reaches a cluster after
//! that cluster was listed, of a dispatch that the log has lost.

mod wire;

use std::collections::{BTreeMap, BTreeSet};

use multicluster_core::{
    Core, Durable, Effect, Identity, Input, Output, Reply, RunStatus, Submission, Write, record::JobRecord,
};
use multicluster_types::{
    ClusterName, ContentHash, JobId, Kind, OnClusterLoss, Resources, Settings, Span, State, Timestamp, Work,
    settings::Count,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{
    plan::{self, chance, pick},
    ray::{FakeRay, Mode},
};

/// How long a leader leads without a commit, and how much of that it dares to use.
const LEASE: Span = Span(2_000);
const WINDOW: Span = Span(1_600);
const RENEWS_EVERY: Span = Span(500);
const LOOKS_EVERY: Span = Span(300);

/// The log that all share. Its clock is the world's.
struct Log {
    /// The fence: a commit must name all three.
    epoch: u64,
    seq: u64,
    holder: Option<usize>,
    expires_at: Timestamp,
    store: Durable,
    /// The latest commits, oldest first, if it may lose some.
    history: Option<Vec<(u64, u64, Durable)>>,
    /// Lost commits since a leader has noticed.
    rewound_at: Option<Timestamp>,
}

/// One replica.
#[derive(Default)]
struct Plane {
    /// `None`: it follows.
    core: Option<Core>,
    epoch: u64,
    seq: u64,
    /// Ahead of, or behind, the log's clock, as read when it took the lead.
    behind: Span,
    /// On a clock that goes on while it is paused.
    trusts_until: Timestamp,
    paused_until: Timestamp,
    /// It was paused before it could go on with this.
    unfinished: Option<Unfinished>,
}

enum Unfinished {
    Commit(Box<Output>),
    /// With the sessions of the heads when they were decided on.
    Send(Vec<(Effect, u32)>),
}

enum Event {
    /// An answer, or a timer of its own, of one leadership.
    ToPlane {
        plane: usize,
        epoch: u64,
        input: Box<Input>,
    },
    ToRay {
        session: u32,
        from: (usize, u64),
        effect: Effect,
        answered: bool,
    },
    Poll {
        plane: usize,
        epoch: u64,
        cluster: ClusterName,
    },
    Wake {
        plane: usize,
    },
    /// A leader renews its lease, a follower looks whether there is a leader.
    Look {
        plane: usize,
    },
}

/// What must hold, from what the world and the log show.
#[derive(Default)]
struct Oracle {
    accepted: BTreeSet<JobId>,
    finals: BTreeMap<JobId, State>,
    started: BTreeMap<JobId, u32>,
    running: BTreeMap<JobId, u32>,
    succeeded: BTreeSet<JobId>,
    /// A head restarted, and knows nothing of what it ran.
    has_restarted: bool,
}

struct World {
    rng: ChaCha8Rng,
    now: Timestamp,
    log: Log,
    planes: Vec<Plane>,
    rays: BTreeMap<ClusterName, FakeRay>,
    settings: Settings,
    specs: Vec<multicluster_types::ClusterSpec>,
    works: BTreeMap<JobId, Work>,
    /// Submissions without an answer: their callers ask again.
    unanswered: BTreeSet<JobId>,
    agenda: BTreeMap<(Timestamp, u64), Event>,
    order: u64,
    oracle: Oracle,
    /// Faults happen.
    unkind: bool,
    trace: bool,
    steps: u64,
    made: u32,
    /// What happened, so that the test can tell that it happens.
    pub seen: Seen,
}

/// How often something happened.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    pub steps: u64,
    pub takeovers: u64,
    pub fenced: u64,
    pub late_sends: u64,
    pub rewinds: u64,
    pub buried: u64,
    pub adopted: u64,
}

impl Seen {
    pub fn add(&mut self, other: Seen) {
        self.steps += other.steps;
        self.takeovers += other.takeovers;
        self.fenced += other.fenced;
        self.late_sends += other.late_sends;
        self.rewinds += other.rewinds;
        self.buried += other.buried;
        self.adopted += other.adopted;
    }

    /// Did each happen?
    pub fn is_complete(self) -> bool {
        let Seen { steps, takeovers, fenced, late_sends, rewinds, buried, adopted } = self;
        [steps, takeovers, fenced, late_sends, rewinds, buried, adopted].iter().all(|count| *count > 0)
    }
}

/// Runs one seed. Panics on a broken invariant.
pub fn run(seed: u64, trace: bool) -> Seen {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x706c_616e_6573);
    let rewinds = chance(&mut rng, 30);
    let settings = Settings {
        submission_interval: *pick(&mut rng, &[Span::ZERO, Span::seconds(5)]),
        dispatch_attempts: Count::new(*pick(&mut rng, &[10, 2])).unwrap(),
        max_starting: Count::new(100).unwrap(),
        dispatch_timeout: *pick(&mut rng, &[Span::seconds(60), Span::seconds(5)]),
        ..Settings::default()
    };
    let mut clusters: Vec<_> = (0..rng.random_range(1..=3)).map(|n| plan::cluster(&mut rng, n)).collect();
    for (spec, shape) in &mut clusters {
        // Of a fixed size, also those that are a head without CPUs elsewhere.
        if spec.elastic.take().is_some() && shape.scaler.take().is_some() {
            shape.nodes = vec![Resources::from_amounts([("CPU", 8.0), ("memory", 32e9)]).expect("legal")];
        }
    }
    let planes = rng.random_range(2..=3);
    let now = Timestamp(1_700_000_000_000);
    let log = Log {
        epoch: 0,
        seq: 0,
        holder: None,
        expires_at: now,
        store: Durable::default(),
        history: rewinds.then(Vec::new),
        rewound_at: None,
    };
    let mut world = World {
        rng,
        now,
        log,
        planes: (0..planes).map(|_| Plane::default()).collect(),
        rays: BTreeMap::new(),
        settings,
        specs: clusters.iter().map(|(spec, _)| spec.clone()).collect(),
        works: BTreeMap::new(),
        unanswered: BTreeSet::new(),
        agenda: BTreeMap::new(),
        order: 0,
        oracle: Oracle::default(),
        unkind: true,
        trace,
        steps: 0,
        made: 0,
        seen: Seen::default(),
    };
    for (spec, shape) in clusters {
        world.rays.insert(spec.name, FakeRay::new(shape));
    }
    for plane in 0..planes {
        world.later(Span(0), Event::Look { plane });
    }
    for _ in 0..*pick(&mut world.rng, &[30, 60, 120]) {
        world.act();
        let pause = *pick(&mut world.rng, &[0, 50, 400, 2_000, 8_000]);
        world.pass(Span(pause));
    }
    world.heal();
    world.seen.steps = world.steps;
    world.seen
}

impl World {
    fn say(&self, what: impl FnOnce() -> String) {
        if self.trace {
            println!("{} {}", self.now.0 % 100_000_000, what());
        }
    }

    fn later(&mut self, after: Span, event: Event) {
        self.order += 1;
        self.agenda.insert((self.now + after, self.order), event);
    }

    fn is_paused(&self, plane: usize) -> bool {
        self.planes[plane].paused_until > self.now
    }

    fn leads(&self, plane: usize, epoch: u64) -> bool {
        self.planes[plane].core.is_some() && self.planes[plane].epoch == epoch
    }

    // ---- callers and faults

    fn act(&mut self) {
        match self.rng.random_range(0..100) {
            0..45 => {
                self.made += 1;
                let job = JobId::new(format!("j{}", self.made)).unwrap();
                let work = self.work();
                self.works.insert(job.clone(), work);
                self.submit(&job);
            }
            45..55 => {
                let jobs: Vec<_> = self.works.keys().cloned().collect();
                if !jobs.is_empty() {
                    let job = pick(&mut self.rng, &jobs).clone();
                    self.tell_leader(Input::Stop { job });
                }
            }
            55..75 => {
                let plane = self.rng.random_range(0..self.planes.len());
                self.pause(plane);
            }
            75..80 => self.fail_a_cluster(),
            80..83 if self.log.history.is_some() => self.rewind(),
            83..86 => {
                // A process dies: nothing of it goes on.
                let plane = self.rng.random_range(0..self.planes.len());
                self.say(|| format!("KILL {plane}"));
                self.planes[plane].core = None;
                self.planes[plane].unfinished = None;
            }
            _ => {}
        }
        for job in self.unanswered.clone() {
            self.submit(&job);
        }
    }

    fn work(&mut self) -> Work {
        let mut work = Work::new(Kind::Job);
        work.demand = Resources::from_amounts([("CPU", *pick(&mut self.rng, &[0.0, 0.5, 1.0]))]).unwrap();
        work.retry.max_retries = *pick(&mut self.rng, &[0, 0, 2]);
        let losses = [OnClusterLoss::Wait, OnClusterLoss::Wait, OnClusterLoss::Requeue];
        work.retry.on_cluster_loss = *pick(&mut self.rng, &losses);
        work
    }

    fn submit(&mut self, job: &JobId) {
        self.unanswered.insert(job.clone());
        let submission = Submission {
            id: Identity::Given(job.clone()),
            work: self.works[job].clone(),
            content: Some(ContentHash::of([job.as_str()])),
            bytes: 10,
            parent: None,
        };
        self.tell_leader(Input::Submit(submission));
    }

    /// Any replica hands a request to the leader that it knows.
    fn tell_leader(&mut self, input: Input) {
        let leaders = (0..self.planes.len()).filter(|plane| self.planes[*plane].core.is_some());
        let leaders: Vec<_> = leaders.filter(|plane| !self.is_paused(*plane)).collect();
        if !leaders.is_empty() {
            let leader = *pick(&mut self.rng, &leaders);
            self.tell(leader, input);
        }
    }

    /// Less than the window, less than the lease, or much more.
    fn pause(&mut self, plane: usize) {
        let pause = Span(*pick(&mut self.rng, &[300, 1_700, 2_500, 20_000, 90_000]));
        if self.unkind && !self.is_paused(plane) {
            self.say(|| format!("PAUSE {plane} for {pause}"));
            self.planes[plane].paused_until = self.now + pause;
            self.later(pause, Event::Wake { plane });
        }
    }

    fn fail_a_cluster(&mut self) {
        let names: Vec<_> = self.rays.keys().cloned().collect();
        let name = pick(&mut self.rng, &names).clone();
        let restarts = self.log.history.is_none() && chance(&mut self.rng, 20);
        let mode = *pick(&mut self.rng, &[Mode::Down, Mode::Hung, Mode::Up, Mode::Up]);
        let ray = self.rays.get_mut(&name).expect("listed");
        ray.mode = mode;
        if restarts {
            self.oracle.has_restarted = true;
            for (job, _) in ray.restart() {
                *self.oracle.running.entry(job).or_default() -= 1;
            }
        }
        self.say(|| format!("{name} is {mode:?}, restarted: {restarts}"));
    }

    /// A standby is promoted that has not received the last commits.
    fn rewind(&mut self) {
        let Some(history) = self.log.history.as_mut().filter(|history| !history.is_empty()) else { return };
        let keep = self.rng.random_range(0..history.len());
        let (epoch, seq, store) = history[keep].clone();
        history.truncate(keep);
        self.say(|| format!("REWIND from {} to {epoch}/{seq}", self.log.seq));
        (self.log.epoch, self.log.seq, self.log.store) = (epoch, seq, store);
        // A hung cluster would take them after its list.
        let hung: BTreeSet<_> = self
            .rays
            .iter()
            .filter(|(_, ray)| ray.mode == Mode::Hung)
            .map(|(name, _)| name.clone())
            .collect();
        self.log.holder = None;
        self.log.rewound_at = Some(self.now);
        self.seen.rewinds += 1;
        // Requests of lost commits: they arrive before the lists, or never (see above).
        let agenda = std::mem::take(&mut self.agenda);
        for (at, event) in agenda {
            match event {
                Event::ToRay { session, from, effect: Effect::Submit { run, cluster }, answered } => {
                    let effect = Effect::Submit { run: run.clone(), cluster };
                    let known = self.log.store.jobs.get(&run.job);
                    let is_known = known.is_some_and(|job| run.is_of(job) && job.attempts >= run.attempt.0);
                    if is_known {
                        self.agenda.insert(at, Event::ToRay { session, from, effect, answered });
                    } else if chance(&mut self.rng, 50) && !hung.contains(effect.cluster()) {
                        self.reach(session, from, effect, answered);
                    }
                }
                event => drop(self.agenda.insert(at, event)),
            }
        }
        let store = &self.log.store;
        self.oracle.finals.retain(|job, state| store.jobs.get(job).is_some_and(|job| job.state() == *state));
        // What was accepted and not dispatched is lost with the log.
        let (rays, unanswered) = (&self.rays, &self.unanswered);
        let has_run =
            |job: &JobId| rays.values().any(|ray| ray.jobs.values().any(|there| there.run.job == *job));
        self.oracle
            .accepted
            .retain(|job| store.jobs.contains_key(job) || has_run(job) || unanswered.contains(job));
    }

    // ---- replicas

    fn tell(&mut self, plane: usize, input: Input) {
        self.steps += 1;
        self.say(|| format!("[{plane}] {input:?}"));
        let now = self.clock_of(plane);
        let Some(core) = &mut self.planes[plane].core else { return };
        let asked = match &input {
            Input::Submit(submission) => Some(submission.id.id().clone()),
            _ => None,
        };
        let out = core.handle(now, input);
        assert_eq!(out.impossible, [], "nothing is tried that the state diagram does not have");
        self.finish(plane, out, asked);
    }

    /// A leader sets its clock by the log's when it takes the lead; the answer takes time.
    fn clock_of(&self, plane: usize) -> Timestamp {
        Timestamp(self.now.0 - self.planes[plane].behind.0)
    }

    fn finish(&mut self, plane: usize, out: Output, asked: Option<JobId>) {
        if self.unkind && chance(&mut self.rng, 2) {
            self.pause(plane);
            // Its caller got no answer, and asks again.
            self.planes[plane].unfinished = Some(Unfinished::Commit(Box::new(out)));
        } else {
            self.commit(plane, out, asked);
        }
    }

    /// False if another leads.
    fn fenced_commit(&mut self, plane: usize, writes: &[Write]) -> bool {
        let (me, log) = (&mut self.planes[plane], &mut self.log);
        if (log.epoch, log.seq, log.holder) != (me.epoch, me.seq, Some(plane)) {
            me.core = None;
            me.unfinished = None;
            self.seen.fenced += 1;
            return false;
        }
        if let Some(history) = &mut log.history {
            history.push((log.epoch, log.seq, log.store.clone()));
            if history.len() > 6 {
                history.remove(0);
            }
        }
        log.seq += 1;
        me.seq = log.seq;
        log.expires_at = self.now + LEASE;
        me.trusts_until = self.now + WINDOW;
        for write in writes {
            self.oracle.check(write);
            log.store.apply(write);
        }
        true
    }

    fn commit(&mut self, plane: usize, out: Output, asked: Option<JobId>) {
        if !self.fenced_commit(plane, &out.writes) {
            return;
        }
        self.log.rewound_at = None;
        self.seen.adopted += out.found.len() as u64;
        let core = self.planes[plane].core.as_ref().expect("it leads");
        if self.steps.is_multiple_of(16) {
            core.check().unwrap();
            assert!(self.log.store == core.durable(), "the log is not what the leader believes");
        }
        if let (Some(job), Some(Ok(Reply::Accepted(_)))) = (asked, &out.reply) {
            self.unanswered.remove(&job);
            self.oracle.accepted.insert(job);
        }
        for job in &self.oracle.accepted {
            let is_known = self.log.store.jobs.contains_key(job);
            assert!(is_known || self.log.history.is_some(), "{job} was accepted and is lost");
        }
        let session = |effect: &Effect| self.rays[effect.cluster()].session;
        let effects: Vec<_> = out.effects.into_iter().map(|effect| (session(&effect), effect)).collect();
        let effects: Vec<_> = effects.into_iter().map(|(session, effect)| (effect, session)).collect();
        if self.unkind && !effects.is_empty() && chance(&mut self.rng, 5) {
            self.pause(plane);
            self.planes[plane].unfinished = Some(Unfinished::Send(effects));
        } else {
            self.send_all(plane, effects);
        }
    }

    fn take_the_lead(&mut self, plane: usize) {
        let rewound = self.log.rewound_at;
        // The row of a promoted standby may say that its lease is over while the leader of the old
        // one still trusts its own: the time of a lease passes first.
        let waits = rewound.is_some_and(|at| self.now < at + LEASE);
        if waits || self.log.expires_at > self.now {
            return;
        }
        self.log.epoch += 1;
        self.log.seq += 1;
        self.log.holder = Some(plane);
        self.log.expires_at = self.now + LEASE;
        self.say(|| format!("[{plane}] LEADS in {}, rewound: {}", self.log.epoch, rewound.is_some()));
        self.seen.takeovers += 1;
        let behind = Span(self.rng.random_range(0..300));
        let (epoch, seq) = (self.log.epoch, self.log.seq);
        let trusts_until = self.now + WINDOW;
        let paused_until = self.planes[plane].paused_until;
        self.planes[plane] =
            Plane { epoch, seq, behind, trusts_until, paused_until, core: None, unfinished: None };
        let now = self.clock_of(plane);
        let mut core = Core::rebuild(now, self.settings.clone(), self.log.store.clone()).unwrap();
        let recovered = core.recover(rewound.is_some());
        self.planes[plane].core = Some(core);
        self.commit(plane, recovered, None);
        if self.leads(plane, epoch) && self.planes[plane].unfinished.is_none() {
            let (settings, clusters) = (Box::new(self.settings.clone()), self.specs.clone());
            self.tell(plane, Input::Reload { settings, clusters });
        }
    }

    // ---- what happens

    fn pass(&mut self, span: Span) {
        let end = self.now + span;
        loop {
            let event = self.agenda.first_key_value().map(|(&(at, _), _)| at);
            let wakeup = self.wakeup();
            let next = event.into_iter().chain(wakeup.map(|(at, _)| at)).min().filter(|at| *at <= end);
            let Some(next) = next else { break };
            self.now = self.now.max(next);
            self.let_rays_run();
            match wakeup.filter(|(at, _)| *at <= self.now) {
                Some((_, plane)) => self.tell(plane, Input::Tick),
                None => {
                    if let Some((_, event)) = self.agenda.pop_first() {
                        self.happen(event);
                    }
                }
            }
        }
        self.now = end;
        self.let_rays_run();
    }

    /// The first leader that wants to be woken, on the world's clock.
    fn wakeup(&self) -> Option<(Timestamp, usize)> {
        let awake = (0..self.planes.len()).filter(|plane| !self.is_paused(*plane));
        let awake = awake.filter(|plane| self.planes[*plane].unfinished.is_none());
        let wants = awake.filter_map(|plane| {
            let at = self.planes[plane].core.as_ref()?.next_wakeup()?;
            Some((at + self.planes[plane].behind, plane))
        });
        wants.min()
    }

    fn happen(&mut self, event: Event) {
        let plane = match &event {
            Event::ToPlane { plane, .. } | Event::Poll { plane, .. } | Event::Look { plane } => Some(*plane),
            Event::ToRay { .. } | Event::Wake { .. } => None,
        };
        if let Some(until) = plane.map(|plane| self.planes[plane].paused_until).filter(|at| *at > self.now) {
            return self.later(until.since(self.now), event);
        }
        match event {
            Event::ToPlane { plane, epoch, input } => {
                if self.leads(plane, epoch) {
                    self.tell(plane, *input);
                }
            }
            Event::ToRay { session, from, effect, answered } => self.reach(session, from, effect, answered),
            Event::Poll { plane, epoch, cluster } => self.poll(plane, epoch, cluster),
            Event::Wake { plane } => self.wake(plane),
            Event::Look { plane } => {
                let leads = self.planes[plane].core.is_some();
                if !leads {
                    self.take_the_lead(plane);
                } else if self.planes[plane].unfinished.is_none() {
                    self.fenced_commit(plane, &[]);
                }
                let every = if leads { RENEWS_EVERY } else { LOOKS_EVERY };
                self.later(every, Event::Look { plane });
            }
        }
    }

    fn wake(&mut self, plane: usize) {
        if self.is_paused(plane) {
            return;
        }
        match self.planes[plane].unfinished.take() {
            None => {}
            Some(Unfinished::Commit(out)) => self.commit(plane, *out, None),
            Some(Unfinished::Send(effects)) => self.send_all(plane, effects),
        }
    }

    // ---- the end

    /// All faults stop: what can end must end, and nothing may be lost.
    fn heal(&mut self) {
        self.unkind = false;
        for ray in self.rays.values_mut() {
            ray.mode = Mode::Up;
        }
        for _ in 0..120 {
            for job in self.unanswered.clone() {
                self.submit(&job);
            }
            self.pass(Span::seconds(60));
            let rested = self.log.store.jobs.values().all(|job| job.state().is_terminal());
            if rested && self.unanswered.is_empty() && self.log.store.orphans.is_empty() {
                return self.check_end();
            }
        }
        let open: Vec<&JobRecord> =
            self.log.store.jobs.values().filter(|job| !job.state().is_terminal()).collect();
        panic!(
            "two hours after all faults ended: {open:#?}, {:?}, {:?}",
            self.unanswered, self.log.store.orphans
        );
    }

    fn check_end(&self) {
        for job in &self.oracle.accepted {
            assert!(self.log.store.jobs.contains_key(job), "{job} was accepted and is lost");
        }
        for (job, record) in &self.log.store.jobs {
            if self.oracle.succeeded.contains(job)
                && self.works[job].retry.on_cluster_loss == OnClusterLoss::Wait
            {
                // A head that restarted may have forgotten it. A log that was rewound may have shown it as
                // queued, so that a caller could stop it.
                let may_differ = self.oracle.has_restarted || self.log.history.is_some();
                assert!(
                    record.state() == State::Succeeded || may_differ,
                    "{job} succeeded and is shown as {}",
                    record.state()
                );
            }
            if record.state() == State::Succeeded {
                assert!(self.oracle.succeeded.contains(job), "{job} is shown as succeeded and did not");
            }
        }
        for there in self.rays.values().flat_map(|ray| ray.jobs.values()) {
            assert!(self.log.store.jobs.contains_key(&there.run.job), "{:?} is not known", there.run);
        }
    }
}

impl Oracle {
    fn started(&mut self, job: &JobId, allowed: Option<u32>) {
        *self.started.entry(job.clone()).or_default() += 1;
        *self.running.entry(job.clone()).or_default() += 1;
        if let Some(allowed) = allowed {
            assert!(self.started[job] <= allowed, "{job} was started {} times", self.started[job]);
            assert_eq!(self.running[job], 1, "{job} runs twice at once");
        }
    }

    fn ended(&mut self, job: JobId, end: &RunStatus) {
        *self.running.entry(job.clone()).or_default() -= 1;
        if *end == RunStatus::Succeeded {
            self.succeeded.insert(job);
        }
    }

    /// What was final stays final.
    fn check(&mut self, write: &Write) {
        let Write::Job(record) = write else { return };
        if let Some(known) = self.finals.get(&record.id) {
            assert_eq!(record.state(), *known, "{} had ended", record.id);
        }
        if record.state().is_terminal() {
            self.finals.insert(record.id.clone(), record.state());
        }
    }
}
