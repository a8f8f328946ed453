//! A scheduler on virtual time, with builders and a recording driver. After every input, all
//! tables are checked, and the writes are folded into a store that must equal the live state.

#![allow(clippy::unwrap_used, reason = "tests may")]

use std::collections::BTreeMap;

use multicluster_core::{
    Accepted, ClusterChange, ClusterView, Core, DispatchOutcome, Durable, Effect, Event, Identity, Input,
    LookupOutcome, Observation, Output, Parent, Refusal, ReleaseOutcome, Reply, Run, RunStatus, Submission,
    Write,
    record::{AttemptOutcome, AttemptRecord, JobRecord},
};
use multicluster_types::{
    Attempt, Autoscaler, ClusterName, ClusterSpec, ContentHash, Decision, Elastic, ExitCodes, GroupId,
    HeadMemory, Incarnation, JobId, Kind, LabelSelector, Labels, Lang, Limits, Load, NodeShape,
    OnClusterLoss, Owner, Platform, PlatformName, Preference, Priority, Quantity, Reason, Resources,
    RetryCodes, Settings, Snapshot, Span, State, Tags, Timestamp, Verdict, Versions, Weight, Work,
};

pub fn job_id(text: &str) -> JobId {
    JobId::new(text).unwrap()
}

pub fn cluster_name(text: &str) -> ClusterName {
    ClusterName::new(text).unwrap()
}

pub fn amounts(amounts: &[(&str, f64)]) -> Resources {
    Resources::from_amounts(amounts.iter().copied()).unwrap()
}

/// A cluster to register.
#[derive(Debug, Clone)]
pub struct ClusterBuilder {
    pub spec: ClusterSpec,
    pub total: Vec<(&'static str, f64)>,
    pub used: Vec<(&'static str, f64)>,
    pub nodes: Vec<NodeShape>,
}

pub fn a_cluster(name: &str) -> ClusterBuilder {
    ClusterBuilder {
        spec: ClusterSpec::new(
            cluster_name(name),
            "127.0.0.1:10001",
            format!("http://127.0.0.1:8265/{name}"),
        ),
        total: vec![("CPU", 8.0), ("memory", 64e9)],
        used: Vec::new(),
        nodes: Vec::new(),
    }
}

impl ClusterBuilder {
    pub fn total(mut self, total: &[(&'static str, f64)]) -> Self {
        self.total = total.to_vec();
        self
    }

    pub fn cpus(self, cpus: f64) -> Self {
        self.total(&[("CPU", cpus), ("memory", 64e9)])
    }

    /// The resources in use from the first poll on.
    pub fn used(mut self, used: &[(&'static str, f64)]) -> Self {
        self.used = used.to_vec();
        self
    }

    /// Nodes with these CPUs each, all free.
    pub fn nodes(self, cpus: &[f64]) -> Self {
        let node = |cpus: &f64| NodeShape {
            total: amounts(&[("CPU", *cpus), ("memory", 8e9)]),
            free: amounts(&[("CPU", *cpus), ("memory", 8e9)]),
            labels: Labels::new(),
            count: 1,
        };
        let nodes: Vec<_> = cpus.iter().map(node).collect();
        let memory = 8e9 * cpus.iter().map(|_| 1.0).sum::<f64>();
        let builder = self.total(&[("CPU", cpus.iter().sum()), ("memory", memory)]);
        Self { nodes, ..builder }
    }

    /// It can grow, by nodes with these CPUs, up to so many of them in all.
    pub fn elastic(mut self, max: f64, node: f64) -> Self {
        let (max, node) = (amounts(&[("CPU", max)]), amounts(&[("CPU", node)]));
        self.spec.elastic = Some(Box::new(Elastic { max, node, within: Elastic::WITHIN }));
        self
    }

    pub fn tags(mut self, tags: &[&str]) -> Self {
        self.spec.tags = Tags::new(tags).unwrap();
        self
    }

    pub fn weight(mut self, weight: f64) -> Self {
        self.spec.weight = Weight::new(weight).unwrap();
        self
    }

    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.spec.limits);
        self
    }
}

/// Work to submit.
#[derive(Debug, Clone)]
pub struct WorkBuilder(pub Submission);

pub fn a_job() -> WorkBuilder {
    work(Kind::Job)
}

pub fn a_task() -> WorkBuilder {
    work(Kind::Task)
}

pub fn an_actor() -> WorkBuilder {
    work(Kind::Actor)
}

fn work(kind: Kind) -> WorkBuilder {
    let placeholder = Identity::Fresh(job_id("placeholder"));
    WorkBuilder(Submission { id: placeholder, work: Work::new(kind), content: None, bytes: 0, parent: None })
}

impl WorkBuilder {
    pub fn id(mut self, id: &str) -> Self {
        self.0.id = Identity::Given(job_id(id));
        self
    }

    pub fn demand(mut self, demand: &[(&str, f64)]) -> Self {
        self.0.work.demand = amounts(demand);
        self
    }

    pub fn cpus(self, cpus: f64) -> Self {
        self.demand(&[("CPU", cpus)])
    }

    /// A job that needs these resources of its cluster. Its driver reserves the earlier `demand`.
    pub fn needs(mut self, needs: &[(&str, f64)]) -> Self {
        let job = Work::job(&amounts(needs), self.0.work.demand.clone());
        (self.0.work.demand, self.0.work.reserves) = (job.demand, job.reserves);
        self
    }

    pub fn labels(mut self, name: &str, rule: &str) -> Self {
        let selector = Labels::from([(name.to_owned(), rule.to_owned())]);
        self.0.work.labels = Some(Box::new(LabelSelector::try_from(selector).unwrap()));
        self
    }

    pub fn arch(mut self, arch: &str) -> Self {
        let arch = Some(PlatformName::new(arch).unwrap());
        self.0.work.platform = Some(Box::new(Platform { os: None, arch }));
        self
    }

    pub fn tags(mut self, tags: &[&str]) -> Self {
        self.0.work.tags = Tags::new(tags).unwrap();
        self
    }

    pub fn needs_versions(mut self, ray: &str, python: &str) -> Self {
        self.0.work.versions = Some(Box::new(Versions::new(ray, python).unwrap()));
        self
    }

    pub fn prefers(mut self, cluster: &str) -> Self {
        self.0.work.preference = Some(Preference { cluster: cluster_name(cluster), required: false });
        self
    }

    pub fn requires(mut self, cluster: &str) -> Self {
        self.0.work.preference = Some(Preference { cluster: cluster_name(cluster), required: true });
        self
    }

    pub fn priority(mut self, priority: i32) -> Self {
        self.0.work.priority = Priority(priority);
        self
    }

    pub fn retries(mut self, retries: u32) -> Self {
        self.0.work.retry.max_retries = retries;
        self
    }

    /// The exit codes to retry on, and those never to retry on.
    pub fn codes(mut self, retry_on: &[i64], never_retry_on: &[i64]) -> Self {
        let [only, never] =
            [retry_on, never_retry_on].map(|codes| ExitCodes::new(codes.iter().copied()).unwrap());
        self.0.work.retry.codes = Some(Box::new(RetryCodes::new(only, never).unwrap()));
        self
    }

    pub fn idempotent(mut self) -> Self {
        self.0.work.retry.on_cluster_loss = OnClusterLoss::Requeue;
        self
    }

    pub fn batch(mut self, group: &str) -> Self {
        self.0.work.group = Some(GroupId::new(group).unwrap());
        self
    }

    pub fn owner(mut self, owner: &str) -> Self {
        self.0.work.owner = Some(Owner::new(owner).unwrap());
        self
    }

    pub fn content(mut self, content: &str) -> Self {
        self.0.content = Some(ContentHash::of([content]));
        self
    }

    pub fn inside(mut self, parent: &JobId, cluster: &str) -> Self {
        self.0.parent = Some(Parent { job: parent.clone(), cluster: cluster_name(cluster) });
        self
    }
}

/// The answers of a fake cluster to a poll.
#[derive(Debug, Clone)]
pub struct Fake {
    pub total: Resources,
    pub used: Resources,
    pub physical: Load,
    pub head: Option<HeadMemory>,
    /// How long its dashboard takes for each answer.
    pub takes: Span,
    /// What its head reports as its session; older Ray versions report none.
    pub session: Option<String>,
    pub ray_version: String,
    /// Its nodes, if the test sets them; otherwise their shapes are unknown.
    pub nodes: Vec<NodeShape>,
    pub platform: Platform,
    pub autoscaler: Option<Autoscaler>,
    pub answers: bool,
}

impl Fake {
    pub fn incarnation(&self) -> Option<Incarnation> {
        self.session.as_ref().map(|session| Incarnation::new(session).unwrap())
    }
}

/// The scheduler and everything around it.
pub struct TestEnv {
    pub core: Core,
    pub now: Timestamp,
    pub store: Durable,
    pub fakes: BTreeMap<ClusterName, Fake>,
    pub effects: Vec<Effect>,
    /// Placements that callers were notified of.
    pub grants: Vec<(Run, ClusterName)>,
    pub events: Vec<Event>,
    pub decisions: Vec<Decision>,
    pub attempts: Vec<AttemptRecord>,
    /// Callers of queued placements do not ask any more.
    pub callers_gone: bool,
    made: u32,
    next_poll: Timestamp,
}

impl TestEnv {
    /// The default settings.
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        Self {
            core: Core::new(settings).unwrap(),
            now: Timestamp(1_000_000),
            store: Durable::default(),
            fakes: BTreeMap::new(),
            effects: Vec::new(),
            grants: Vec::new(),
            events: Vec::new(),
            decisions: Vec::new(),
            attempts: Vec::new(),
            made: 0,
            callers_gone: false,
            next_poll: Timestamp(1_005_000),
        }
    }

    /// The default settings, but without the 40-second rule.
    pub fn unspaced() -> Self {
        Self::with(|s| s.submission_interval = Span::ZERO)
    }

    /// One cluster of 8 CPUs, "only", without the 40-second rule.
    pub fn only() -> Self {
        let mut env = Self::unspaced();
        env.cluster(a_cluster("only"));
        env
    }

    /// Two clusters of 8 CPUs, "centos" and "mac", without the 40-second rule.
    pub fn pair() -> Self {
        let mut env = Self::unspaced();
        env.cluster(a_cluster("centos")).cluster(a_cluster("mac"));
        env
    }

    pub fn set(&mut self, name: &str, value: &str) {
        let mut settings = self.core.settings().clone();
        settings.set(name, value).unwrap();
        let clusters = self.core.clusters().map(|c| (*c.spec).clone()).collect();
        self.send(Input::Reload { settings: Box::new(settings), clusters }).unwrap().unwrap();
    }

    /// Registers a cluster and lets it answer its first poll.
    pub fn cluster(&mut self, builder: ClusterBuilder) -> &mut Self {
        let name = builder.spec.name.clone();
        let fake = Fake {
            total: amounts(&builder.total),
            used: amounts(&builder.used),
            physical: Load::default(),
            head: None,
            takes: Span::ZERO,
            session: Some("session_1".into()),
            ray_version: "2.60.0".into(),
            nodes: builder.nodes,
            platform: Platform::default(),
            autoscaler: None,
            answers: true,
        };
        self.fakes.insert(name.clone(), fake);
        self.send(Input::Register { spec: Box::new(builder.spec), replace: false }).unwrap().unwrap();
        self.poll(name.as_str());
        self
    }

    /// Feeds one input, does the driver's work, checks everything.
    pub fn send(&mut self, input: Input) -> Option<Result<Reply, Refusal>> {
        let out = self.core.handle(self.now, input);
        self.commit(out)
    }

    /// Feeds one input that has an answer.
    pub fn ask(&mut self, input: Input) -> Result<Reply, Refusal> {
        self.send(input).expect("this input has an answer")
    }

    pub fn commit(&mut self, out: Output) -> Option<Result<Reply, Refusal>> {
        for write in out.writes {
            self.store.apply(&write);
            match write {
                Write::Decision(decision) => self.decisions.push(*decision),
                Write::Attempt(attempt) => self.attempts.push(*attempt),
                _ => {}
            }
        }
        self.core.check().unwrap();
        assert_eq!(self.store, self.core.durable(), "the writes add up to the live state");
        assert_eq!(out.impossible, [], "nothing is tried that the state diagram does not have");
        let granted: Vec<_> = out.events.iter().filter_map(|event| self.granted(event)).collect();
        self.grants.extend(granted);
        self.effects.extend(
            out.effects.into_iter().filter(|e| !matches!(e, Effect::Poll { .. } | Effect::Forget { .. })),
        );
        self.events.extend(out.events);
        out.reply
    }

    /// The placement that an event announces to its caller.
    fn granted(&self, event: &Event) -> Option<(Run, ClusterName)> {
        let Event::Job { job, state: State::Dispatching, cluster, attempt, .. } = event else { return None };
        let record = self.core.job(job).filter(|record| record.work.kind != Kind::Job)?;
        let run = Run { job: job.clone(), attempt: (*attempt)?, life: Some(record.submitted_at) };
        Some((run, cluster.clone()?))
    }

    /// A crash after the commit and before any effect: the core is rebuilt from the store.
    pub fn crash(&mut self) {
        self.restart(false);
    }

    /// The same, and the store may have lost commits.
    pub fn crash_rewound(&mut self) {
        self.restart(true);
    }

    fn restart(&mut self, rewound: bool) {
        let settings = self.core.settings().clone();
        self.core = Core::rebuild(self.now, settings, through_json(&self.store)).unwrap();
        (self.effects, self.grants) = (Vec::new(), Vec::new());
        let out = self.core.recover(rewound);
        self.commit(out);
    }

    /// Submits work, and expects it to be accepted.
    pub fn submit(&mut self, builder: WorkBuilder) -> JobId {
        self.try_submit(builder).unwrap().job
    }

    pub fn try_submit(&mut self, mut builder: WorkBuilder) -> Result<Accepted, Refusal> {
        if builder.0.id == Identity::Fresh(job_id("placeholder")) {
            self.made += 1;
            builder.0.id = Identity::Fresh(job_id(&format!("job-{}", self.made)));
        }
        match self.send(Input::Submit(builder.0)).unwrap()? {
            Reply::Accepted(accepted) => Ok(accepted),
            other => panic!("{other:?}"),
        }
    }

    /// Sets the clock. Polls go on from there.
    pub fn set_clock(&mut self, now: Timestamp) {
        (self.now, self.next_poll) = (now, now + Span::seconds(5));
    }

    /// Lets time pass. Clusters that answer are polled every 5 s.
    pub fn advance(&mut self, span: Span) {
        let end = self.now + span;
        while self.now < end {
            let wakeup = self.core.next_wakeup().filter(|at| *at > self.now).unwrap_or(end);
            self.now = wakeup.min(self.next_poll).min(end);
            self.send(Input::Tick);
            if self.now == self.next_poll {
                self.ask_on();
                self.poll_all();
                self.next_poll = self.next_poll + Span::seconds(5);
            }
        }
    }

    pub fn advance_s(&mut self, seconds: u64) {
        self.advance(Span::seconds(seconds));
    }

    /// Callers of queued placements keep asking, unless they are gone.
    fn ask_on(&mut self) {
        let waits = |record: &&JobRecord| record.work.kind != Kind::Job && record.state() == State::Queued;
        let waiting: Vec<_> = self.core.jobs().filter(waits).map(|record| record.id.clone()).collect();
        if !self.callers_gone {
            self.send(Input::Together(waiting.into_iter().map(|job| Input::Waits { job }).collect()));
        }
    }

    pub fn poll_all(&mut self) {
        let names: Vec<_> = self.core.clusters().map(|c| c.spec.name.clone()).collect();
        names.iter().for_each(|name| self.poll(name.as_str()));
    }

    /// One poll, answered or not.
    pub fn poll(&mut self, cluster: &str) {
        let input = self.poll_input(cluster);
        self.send(input);
    }

    /// The input that a poll of this cluster produces.
    pub fn poll_input(&self, cluster: &str) -> Input {
        let cluster = cluster_name(cluster);
        let fake = &self.fakes[&cluster];
        if !fake.answers {
            return Input::PollFailed { cluster, error: "connection refused".into() };
        }
        let snapshot = Snapshot {
            taken_at: self.now,
            total: fake.total.clone(),
            used: fake.used.clone(),
            physical: fake.physical,
            head: fake.head,
            nodes: u32::try_from(fake.nodes.len().max(1)).unwrap(),
            shapes: NodeShape::group(fake.nodes.iter().cloned()),
            platform: fake.platform.clone(),
            ray_version: fake.ray_version.clone(),
            python_version: Some("3.11.7".into()),
            incarnation: fake.incarnation(),
            autoscaler: fake.autoscaler.clone(),
        };
        Input::Polled { cluster, snapshot: Box::new(snapshot), took: fake.takes }
    }

    pub fn fake(&mut self, cluster: &str) -> &mut Fake {
        self.fakes.get_mut(&cluster_name(cluster)).unwrap()
    }

    /// The cluster has these nodes from now on, all free.
    pub fn has_nodes(&mut self, cluster: &str, cpus: &[f64]) {
        let ClusterBuilder { nodes, total, .. } = a_cluster(cluster).nodes(cpus);
        let fake = self.fake(cluster);
        (fake.nodes, fake.total) = (nodes, amounts(&total));
        self.poll(cluster);
    }

    /// Sets the resources that a cluster reports as used, and polls it.
    pub fn uses(&mut self, cluster: &str, used: &[(&str, f64)]) {
        self.fake(cluster).used = amounts(used);
        self.poll(cluster);
    }

    /// A job of ours runs on a cluster and uses these CPUs.
    pub fn crowd(&mut self, cluster: &str, cpus: f64) {
        let ours = self.submit(a_job().id(&format!("on-{cluster}")).cpus(cpus).requires(cluster));
        self.run(&ours);
        self.fake(cluster).used = amounts(&[("CPU", cpus)]);
        self.advance_s(60);
    }

    /// The job of [`TestEnv::crowd`] has ended.
    pub fn empty(&mut self, cluster: &str) {
        self.succeed(&job_id(&format!("on-{cluster}")));
        self.uses(cluster, &[]);
    }

    /// Sets how much memory its head node has, and polls it.
    pub fn head_memory(&mut self, cluster: &str, total: f64, free: f64) {
        let bytes = |bytes| Quantity::from_f64(bytes).unwrap();
        self.fake(cluster).head = Some(HeadMemory { total: bytes(total), free: bytes(free) });
        self.poll(cluster);
    }

    /// Polls fail until the cluster is unhealthy.
    pub fn lose(&mut self, cluster: &str) {
        self.fake(cluster).answers = false;
        (0..3).for_each(|_| self.poll(cluster));
    }

    pub fn bring_back(&mut self, cluster: &str) {
        self.fake(cluster).answers = true;
        self.poll(cluster);
    }

    pub fn attempt(&self, job: &JobId) -> Attempt {
        Attempt(self.core.job(job).unwrap().attempts)
    }

    /// One attempt of this job, as the core issues it.
    pub fn run_of(&self, job: &JobId, attempt: u32) -> Run {
        let life = self.core.job(job).map(|record| record.submitted_at);
        Run { job: job.clone(), attempt: Attempt(attempt), life }
    }

    /// The latest attempt of this job.
    pub fn latest(&self, job: &JobId) -> Run {
        self.run_of(job, self.attempt(job).0)
    }

    pub fn dispatched(&mut self, job: &JobId, outcome: DispatchOutcome) {
        let live = self.core.job(job).and_then(JobRecord::live);
        let took = live.map_or(Span::ZERO, |live| self.fakes[&live.cluster].takes);
        self.send(Input::Dispatched { run: self.latest(job), outcome, took });
    }

    pub fn accept(&mut self, job: &JobId) {
        self.dispatched(job, DispatchOutcome::Accepted);
    }

    pub fn observe(&mut self, job: &JobId, status: RunStatus) {
        let run = Observation { run: self.latest(job), status, ran: None };
        let Some(live) = self.core.job(job).and_then(|record| record.live()) else { return };
        let cluster = live.cluster.clone();
        let incarnation = self.fakes[&cluster].incarnation();
        self.send(Input::Observed { cluster, incarnation, complete_at: None, runs: vec![run] });
    }

    /// A watch of a cluster's present head saw one attempt there.
    pub fn seen(&self, cluster: &str, job: &JobId, attempt: u32, status: RunStatus) -> Input {
        let run = Observation { run: self.run_of(job, attempt), status, ran: None };
        self.watched(cluster, None, vec![run])
    }

    /// A watch of a cluster's present head, complete as of a moment or not.
    pub fn watched(&self, cluster: &str, complete_at: Option<Timestamp>, runs: Vec<Observation>) -> Input {
        let cluster = cluster_name(cluster);
        let incarnation = self.fakes[&cluster].incarnation();
        Input::Observed { cluster, incarnation, complete_at, runs }
    }

    /// The job is accepted and seen running.
    pub fn run(&mut self, job: &JobId) {
        self.accept(job);
        self.observe(job, RunStatus::Running);
    }

    pub fn succeed(&mut self, job: &JobId) {
        self.observe(job, RunStatus::Succeeded);
    }

    pub fn fail(&mut self, job: &JobId) {
        self.fail_with(job, Some(1), "exit code 1");
    }

    pub fn fail_with(&mut self, job: &JobId, exit_code: Option<i64>, message: &str) {
        self.observe(job, RunStatus::Failed { message: message.into(), never_started: false, exit_code });
    }

    pub fn stop(&mut self, job: &JobId) -> Result<Reply, Refusal> {
        self.ask(Input::Stop { job: job.clone() })
    }

    pub fn cordon(&mut self, cluster: &str) {
        let note = Some("kernel update".into());
        self.ask(Input::Cordon { cluster: cluster_name(cluster), note, drain: false }).unwrap();
    }

    pub fn uncordon(&mut self, cluster: &str) {
        self.ask(Input::Uncordon { cluster: cluster_name(cluster) }).unwrap();
    }

    pub fn heartbeat(&mut self, task: &JobId) -> Result<Reply, Refusal> {
        self.ask(Input::Heartbeat { job: task.clone(), attempt: self.attempt(task) })
    }

    pub fn release(&mut self, task: &JobId, outcome: ReleaseOutcome) -> Result<Reply, Refusal> {
        self.ask(Input::Released { job: task.clone(), attempt: self.attempt(task), outcome })
    }

    /// Performs all effects as clusters would that start every job at once and without errors. A
    /// lookup of a job that was never sent finds nothing.
    pub fn obey(&mut self) {
        while !self.effects.is_empty() || !self.grants.is_empty() {
            for (run, _) in std::mem::take(&mut self.grants) {
                self.heartbeat(&run.job).unwrap();
                self.release(&run.job, ReleaseOutcome::Succeeded).unwrap();
            }
            for effect in std::mem::take(&mut self.effects) {
                match effect {
                    Effect::Submit { run, .. } => {
                        self.run(&run.job);
                        self.succeed(&run.job);
                    }
                    Effect::Lookup { run, cluster, question } => {
                        let outcome = self.not_found(cluster.as_str());
                        self.send(Input::LookedUp { run, question, outcome });
                    }
                    Effect::Bury { run, cluster, question } => {
                        let outcome = self.buried(cluster.as_str());
                        self.send(Input::LookedUp { run, question, outcome });
                    }
                    Effect::Recall { .. }
                    | Effect::Stop { .. }
                    | Effect::Poll { .. }
                    | Effect::Forget { .. }
                    | Effect::List { .. } => {}
                }
            }
        }
    }

    /// Answers the open lookup of a job, or its burial.
    pub fn answer(&mut self, job: &JobId, outcome: LookupOutcome) {
        let is_mine = |e: &Effect| matches!(e, Effect::Lookup { run, .. } | Effect::Bury { run, .. } if run.job == *job);
        let at = self.effects.iter().rposition(is_mine).expect("a look-up is open");
        let (Effect::Lookup { run, question, .. } | Effect::Bury { run, question, .. }) =
            self.effects.remove(at)
        else {
            unreachable!()
        };
        self.send(Input::LookedUp { run, question, outcome });
    }

    /// The tombstone of the attempt is there.
    pub fn buried(&self, cluster: &str) -> LookupOutcome {
        LookupOutcome::Buried { incarnation: self.fakes[&cluster_name(cluster)].incarnation() }
    }

    /// The latest attempt is being buried: its cluster takes the tombstone.
    pub fn bury(&mut self, job: &JobId) {
        let Some(Effect::Bury { cluster, .. }) = self.effects.last() else { panic!("{:?}", self.effects) };
        let outcome = self.buried(&cluster.to_string());
        self.answer(job, outcome);
    }

    pub fn not_found(&self, cluster: &str) -> LookupOutcome {
        LookupOutcome::NotFound { incarnation: self.fakes[&cluster_name(cluster)].incarnation() }
    }

    /// Somebody else's run has the id of the attempt.
    pub fn taken(&self, cluster: &str) -> LookupOutcome {
        let incarnation = self.fakes[&cluster_name(cluster)].incarnation();
        LookupOutcome::Taken { message: "in use".into(), incarnation }
    }

    pub fn state(&self, job: &JobId) -> State {
        self.core.job(job).unwrap_or_else(|| panic!("{job} is forgotten")).state()
    }

    pub fn summary(&self, job: &JobId) -> String {
        self.core.explain(job).unwrap().summary(Lang::En)
    }

    pub fn view(&self, cluster: &str) -> ClusterView {
        self.core.cluster(&cluster_name(cluster)).unwrap()
    }

    /// All reported changes of a cluster.
    pub fn changes(&self, cluster: &str) -> Vec<&ClusterChange> {
        let mut changes = Vec::new();
        for event in &self.events {
            match event {
                Event::Cluster { cluster: name, change, .. } if name.as_str() == cluster => {
                    changes.push(change)
                }
                _ => {}
            }
        }
        changes
    }

    /// The cluster of the job; empty if it is queued.
    pub fn place(&self, job: &JobId) -> &str {
        self.core.job(job).unwrap().live().map_or("", |live| live.cluster.as_str())
    }

    /// Why this cluster does not accept this queued job.
    pub fn reason(&self, job: &JobId, cluster: &str) -> Reason {
        let explanation = self.core.explain(job).unwrap();
        let verdict = explanation.clusters.iter().find(|c| c.cluster.as_str() == cluster).unwrap();
        match &verdict.verdict {
            Verdict::Rejected(reason) => reason.clone(),
            other => panic!("{cluster} could take {job}: {other:?}"),
        }
    }

    pub fn take_effects(&mut self, count: usize) -> Vec<Effect> {
        let effects = std::mem::take(&mut self.effects);
        assert_eq!(effects.len(), count, "{effects:?}");
        effects
    }

    pub fn assert_quiet(&mut self) {
        self.take_effects(0);
    }

    pub fn history(&self, job: &JobId) -> Vec<(u32, &str, AttemptOutcome)> {
        let of_job = self.attempts.iter().filter(|a| a.job == *job);
        of_job.map(|a| (a.live.attempt.0, a.live.cluster.as_str(), a.outcome)).collect()
    }
}

/// Many submissions at once.
pub fn a_batch(submissions: impl IntoIterator<Item = WorkBuilder>) -> Input {
    Input::Together(submissions.into_iter().map(|builder| Input::Submit(builder.0)).collect())
}

/// Every record as a store returns it, after being written as text.
fn through_json(store: &Durable) -> Durable {
    fn text<T: serde::Serialize + serde::de::DeserializeOwned>(record: &T) -> T {
        serde_json::from_str(&serde_json::to_string(record).unwrap()).unwrap()
    }
    Durable {
        clusters: store.clusters.iter().map(|(name, record)| (name.clone(), text(record))).collect(),
        jobs: store.jobs.iter().map(|(id, record)| (id.clone(), text(record))).collect(),
        orphans: store.orphans.iter().map(text).collect(),
        policies: store.policies.iter().map(|(name, spec)| (name.clone(), text(spec))).collect(),
        usage: store.usage.iter().map(|(owner, record)| (owner.clone(), text(record))).collect(),
    }
}
