//! Preemption by the million: every job that was stopped for others is queued again, and nothing
//! goes round in circles. `SIM_PREEMPTIONS=1000000` for as many.

use std::collections::{BTreeMap, VecDeque};

use multicluster_core::{
    Core, DispatchOutcome, Effect, Identity, Input, Observation, Output, Run, RunStatus, Submission, Write,
    record::{AttemptOutcome, Phase},
};
use multicluster_types::{
    ClusterName, ClusterSpec, Incarnation, JobId, Kind, Load, Owner, Platform, Priority, Resources, Settings,
    Share, ShareTerms, Shares, Snapshot, Span, State, Timestamp, Work,
    settings::{Count, PreemptFrom},
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::plan::{chance, pick};

const CPUS: f64 = 16.0;
const OWNERS: [&str; 3] = ["ann", "bob", "eve"];

/// A world without faults: clusters do at once what is asked of them.
struct Calm {
    core: Core,
    rng: ChaCha8Rng,
    now: Timestamp,
    /// Effects that are not carried out yet.
    todo: VecDeque<Effect>,
    preempted: u64,
    submitted: u64,
    /// When each running job is done.
    ends: BTreeMap<(Timestamp, JobId), (Run, ClusterName)>,
}

impl Calm {
    fn new(seed: u64) -> Self {
        let owner = |name| Owner::new(name).unwrap();
        let terms = |name| ShareTerms { preempts: name != "eve", ..ShareTerms::default() };
        let named = OWNERS.map(|name| (owner(name), terms(name)));
        let settings = Settings {
            submission_interval: Span::ZERO,
            resource_threshold: Share::percent(100),
            preempt_from: PreemptFrom(Some(Priority(5))),
            preempt_after: Span::seconds(1),
            preempt_per_hour: u32::MAX,
            retain_finished: 10,
            max_starting: Count::new(1000).unwrap(),
            shares: Shares::new(Span::minutes(60), named.into()).unwrap(),
            ..Settings::default()
        };
        let mut calm = Self {
            core: Core::new(settings.clone()).unwrap(),
            rng: ChaCha8Rng::seed_from_u64(seed),
            now: Timestamp(1_700_000_000_000),
            todo: VecDeque::new(),
            preempted: 0,
            submitted: 0,
            ends: BTreeMap::new(),
        };
        let specs = ["c0", "c1"].map(|name| {
            ClusterSpec::new(ClusterName::new(name).unwrap(), "127.0.0.1:1", "http://127.0.0.1:2")
        });
        calm.tell(Input::Reload { settings: Box::new(settings), clusters: specs.into() });
        calm
    }

    fn tell(&mut self, input: Input) {
        let out = self.core.handle(self.now, input);
        self.check(&out);
        self.todo.extend(out.effects);
        while let Some(effect) = self.todo.pop_front() {
            let (input, then) = self.obey(effect);
            for input in [Some(input), then].into_iter().flatten() {
                let out = self.core.handle(self.now, input);
                self.check(&out);
                self.todo.extend(out.effects);
            }
        }
    }

    /// A job that was stopped for others is queued again in the same step.
    fn check(&mut self, out: &Output) {
        for (nth, write) in out.writes.iter().enumerate() {
            let Write::Attempt(over) = write else { continue };
            if over.outcome != AttemptOutcome::Preempted {
                continue;
            }
            self.preempted += 1;
            let next = out.writes[nth..].iter().find_map(|write| match write {
                Write::Job(record) if record.id == over.job => Some(record),
                _ => None,
            });
            let waits = next.is_some_and(|record| matches!(record.phase, Phase::Waiting { .. }));
            assert!(waits, "{} was stopped for others and is not queued: {next:?}", over.job);
        }
    }

    fn obey(&mut self, effect: Effect) -> (Input, Option<Input>) {
        match effect {
            Effect::Submit { run, cluster } => {
                let length = Span::seconds(self.rng.random_range(5..2_000));
                self.ends.insert((self.now + length, run.job.clone()), (run.clone(), cluster.clone()));
                let accepted = DispatchOutcome::Accepted;
                let accepted = Input::Dispatched { run: run.clone(), outcome: accepted, took: Span::ZERO };
                (accepted, Some(seen(run, cluster, RunStatus::Running)))
            }
            Effect::Stop { run, cluster } => {
                self.ends.retain(|(_, job), _| *job != run.job);
                (seen(run, cluster, RunStatus::Stopped), None)
            }
            Effect::Poll { cluster } => (self.polled(&cluster), None),
            Effect::Lookup { run, question, .. } => {
                let outcome = multicluster_core::LookupOutcome::Found(RunStatus::Running);
                (Input::LookedUp { run, question, outcome }, None)
            }
            Effect::Forget { .. } | Effect::Bury { .. } | Effect::Recall { .. } | Effect::List { .. } => {
                (Input::Tick, None)
            }
        }
    }

    /// The facts show exactly what our work needs there.
    fn polled(&self, cluster: &ClusterName) -> Input {
        let mut used = Resources::default();
        let here = self.core.jobs().filter(|job| job.live().is_some_and(|live| live.cluster == *cluster));
        here.for_each(|job| used.add(&job.work.demand));
        let snapshot = Snapshot {
            taken_at: self.now,
            total: Resources::from_amounts([("CPU", CPUS)]).unwrap(),
            used,
            physical: Load::default(),
            head: None,
            nodes: 1,
            shapes: Vec::new(),
            platform: Platform::default(),
            ray_version: "2.60.0".into(),
            python_version: None,
            incarnation: Some(Incarnation::new("session").unwrap()),
            autoscaler: None,
        };
        Input::Polled { cluster: cluster.clone(), snapshot: Box::new(snapshot), took: Span::ZERO }
    }

    fn submit(&mut self) {
        self.submitted += 1;
        let cpus = *pick(&mut self.rng, &[1.0, 2.0, 4.0, 12.0]);
        let work = Work {
            demand: Resources::from_amounts([("CPU", cpus)]).unwrap(),
            owner: Owner::new(pick(&mut self.rng, &OWNERS)).ok(),
            priority: Priority(*pick(&mut self.rng, &[0, 0, 0, 5, 9])),
            preemptible: chance(&mut self.rng, 90),
            ..Work::new(Kind::Job)
        };
        let id = Identity::Given(JobId::new(format!("j{}", self.submitted)).unwrap());
        self.tell(Input::Submit(Submission { id, work, content: None, bytes: 0, parent: None }));
    }

    fn pass(&mut self, span: Span) {
        let until = self.now + span;
        while let Some(entry) = self.ends.first_entry().filter(|entry| entry.key().0 <= until) {
            let ((at, _), (run, cluster)) = entry.remove_entry();
            self.now = self.now.max(at);
            self.tell(seen(run, cluster, RunStatus::Succeeded));
        }
        self.now = until;
        for name in ["c0", "c1"] {
            let polled = self.polled(&ClusterName::new(name).unwrap());
            self.tell(polled);
        }
    }

    fn queued(&self) -> usize {
        self.core.jobs().filter(|job| job.state() == State::Queued).count()
    }
}

fn seen(run: Run, cluster: ClusterName, status: RunStatus) -> Input {
    let incarnation = Some(Incarnation::new("session").unwrap());
    Input::Observed {
        cluster,
        incarnation,
        complete_at: None,
        runs: vec![Observation { run, status, ran: None }],
    }
}

/// Returns how many jobs were stopped for others.
fn run(seed: u64, wanted: u64) -> u64 {
    let mut calm = Calm::new(seed);
    while calm.preempted < wanted {
        if calm.queued() < 60 {
            calm.submit();
        }
        let pause = *pick(&mut calm.rng, &[1, 3, 10]);
        calm.pass(Span::seconds(pause));
    }
    // No new work comes, and none ends: what is stopped now is stopped for what waits, once.
    calm.ends.clear();
    let (before, waiting) = (calm.preempted, calm.queued() as u64);
    for _ in 0..200 {
        calm.pass(Span::seconds(30));
    }
    let after = calm.preempted;
    assert!(after - before <= 2 * waiting, "{} stops for {waiting} queued jobs", after - before);
    calm.ends.clear();
    for _ in 0..50 {
        calm.pass(Span::seconds(30));
    }
    assert_eq!(calm.preempted, after, "it goes round in circles");
    after
}

#[test]
fn every_job_that_is_stopped_for_others_is_queued_again_and_nothing_goes_round_in_circles() {
    let wanted = crate::number("SIM_PREEMPTIONS").unwrap_or(4_000);
    let each = (wanted / 4).max(1);
    let stopped: u64 = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..4).map(|seed| scope.spawn(move || run(seed, each))).collect();
        runs.into_iter().map(|run| run.join().unwrap()).sum()
    });
    println!("{stopped} jobs were stopped for others");
    assert!(stopped >= wanted, "{stopped}");
}
