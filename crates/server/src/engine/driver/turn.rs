//! The thread that owns the core.

use std::{collections::BTreeMap, sync::Arc, thread, time::Duration};

use multicluster_core::{Accepted, Core, Impossible, Input, Listed, Output, Refusal, Reply, Run, Write};
use multicluster_store::{Change, Sample, SampleStep, Seen, StoreError};
use multicluster_types::{ClusterName, ClusterSpec, GroupId, Kind, Payload, Span, Timestamp};
use tokio::{sync::mpsc, time::Instant};

use super::{Command, Disk, Inbox, Look, NewJob, Outbox, writer::Writer};
use crate::{
    clock::{Clock, span},
    clusters::{
        lanes::{LaneChange, Lanes, Means, Word},
        resolve,
    },
    engine::events::{self, Events},
    metrics::{Metrics, Shed},
};

/// Inputs that are fed before what came out is handed on.
const INPUTS: usize = 1024;
/// Outboxes on their way to the disk: enough to keep it busy.
const ON_THE_WAY: usize = 4;
/// A send that began this long before the core gives up on it may still be reported.
const REPORT_MARGIN: Duration = Duration::from_secs(5);

/// What the driver needs to run.
pub(crate) struct Parts {
    pub(crate) core: Core,
    pub(crate) store: Box<dyn multicluster_store::Store>,
    pub(crate) disk: Disk,
    pub(crate) clock: Clock,
    pub(crate) next_event: u64,
    pub(crate) lanes: Lanes,
    pub(crate) events: Events,
    pub(crate) metrics: Metrics,
    /// May the store lack changes that were committed before?
    pub(crate) rewound: bool,
}

/// A running driver: join it to learn how it ended.
pub(crate) struct Running {
    driver: thread::JoinHandle<()>,
    writer: thread::JoinHandle<Result<(), StoreError>>,
}

impl Running {
    /// Has it ended by itself? Only a store that fails for good does that.
    pub(crate) fn has_ended(&self) -> bool {
        self.writer.is_finished()
    }

    /// Waits for the last commit. A panic goes on here: the process must not end well.
    pub(crate) fn join(self) -> Result<(), StoreError> {
        let (driver, written) = (self.driver.join(), self.writer.join());
        driver.and(written).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Starts both threads. `inputs` are fed before anything else: the configuration.
pub(crate) fn start(parts: Parts, inbox: Inbox, inputs: Vec<Input>) -> std::io::Result<Running> {
    let (mut turn, writer, outboxes) = parts.assemble();
    let runtime = tokio::runtime::Handle::current();
    let writer = thread::Builder::new().name("writer".into()).spawn(move || writer.run(outboxes))?;
    let driver = thread::Builder::new().name("driver".into()).spawn(move || {
        turn.begin(inputs);
        runtime.block_on(turn.run(inbox));
    })?;
    Ok(Running { driver, writer })
}

/// The same on the thread of the runtime: virtual time must not pass while they work.
#[cfg(test)]
#[cfg(target_os = "linux")]
pub(crate) fn start_here(parts: Parts, inbox: Inbox, inputs: Vec<Input>) {
    let (mut turn, mut writer, mut outboxes) = parts.assemble();
    tokio::spawn(async move {
        while let Some(first) = outboxes.recv().await {
            writer.write(first, &mut outboxes).expect("the store takes it");
        }
    });
    turn.begin(inputs);
    tokio::spawn(turn.run(inbox));
}

impl Parts {
    /// The two halves, and the way from one to the other.
    fn assemble(self) -> (Turn, Writer, mpsc::Receiver<Outbox>) {
        let (to_writer, outboxes) = mpsc::channel(ON_THE_WAY);
        let disk = self.disk;
        let writer = Writer {
            store: self.store,
            disk: disk.clone(),
            lanes: self.lanes,
            events: self.events,
            metrics: self.metrics.clone(),
            runtime: tokio::runtime::Handle::current(),
        };
        let turn = Turn {
            core: self.core,
            clock: self.clock,
            next_event: self.next_event,
            clusters: BTreeMap::new(),
            homes: Arc::new([]),
            generation: 0,
            rewound: self.rewound,
            found: BTreeMap::new(),
            disk,
            outbox: Outbox::default(),
            metrics: self.metrics,
            to_writer,
        };
        (turn, writer, outboxes)
    }
}

/// The driver between two waits.
pub(crate) struct Turn {
    core: Core,
    clock: Clock,
    next_event: u64,
    /// The lanes there are, as the core's writes will have it.
    clusters: BTreeMap<ClusterName, (Arc<ClusterSpec>, u64)>,
    homes: Arc<[Arc<str>]>,
    generation: u64,
    rewound: bool,
    /// Payloads of runs of which the jobs may not be known.
    found: BTreeMap<Run, Arc<Payload>>,
    disk: Disk,
    outbox: Outbox,
    metrics: Metrics,
    to_writer: mpsc::Sender<Outbox>,
}

impl Turn {
    /// Takes up where the last life ended: lanes for all clusters, live attempts looked
    /// up, then the configuration as it is now.
    fn begin(&mut self, inputs: Vec<Input>) {
        let specs: Vec<_> = self.core.clusters().map(|cluster| cluster.spec).collect();
        specs.into_iter().for_each(|spec| self.open_lane(spec));
        let recovered = self.core.recover(self.rewound);
        self.absorb(recovered);
        self.outbox.must_sync = true;
        self.outbox.adopts = self.rewound;
        for input in inputs {
            if let Some(Err(refusal)) = self.feed(input) {
                tracing::error!(%refusal, "the configuration was refused");
            }
        }
    }

    async fn run(mut self, inbox: Inbox) {
        let Inbox { mut commands, mut looks } = inbox;
        let (mut to_do, mut to_see) = (Vec::with_capacity(INPUTS), Vec::<Look>::with_capacity(INPUTS));
        loop {
            // Here and not where the wait ends: those who only look must not keep time from
            // passing.
            if self.until_wakeup().is_zero() {
                self.feed(Input::Tick);
            }
            let expected = self.clock.now();
            if !self.outbox.is_empty() && self.hand_on(&mut looks).await.is_err() {
                return;
            }
            // At least as often as it takes to tell a pause that somebody's lease did not outlast.
            let wakeup = self.until_wakeup().min(Duration::from_millis(self.patience().0 / 2));
            let expected = expected + span(wakeup);
            // In random order if both have something: neither keeps the other out.
            tokio::select! {
                // The writer has ended: nothing can be made durable any more.
                () = self.to_writer.closed() => return,
                received = commands.recv_many(&mut to_do, INPUTS) => if received == 0 { return },
                _ = looks.recv_many(&mut to_see, INPUTS) => {}
                () = tokio::time::sleep(wakeup) => {}
            }
            self.notice_stall(expected);
            to_see.drain(..).for_each(|look| look(&self.core));
            for command in to_do.drain(..) {
                if matches!(command, Command::Stop) {
                    let last = std::mem::take(&mut self.outbox);
                    drop(self.to_writer.send(last).await);
                    return;
                }
                self.obey(command);
            }
        }
    }

    /// Gives what came out to the writer, as soon as that can take it. While it waits for a disk
    /// that is slow or full, those who only look are answered, and the others wait in their order.
    async fn hand_on(&mut self, looks: &mut mpsc::Receiver<Look>) -> Result<(), mpsc::error::SendError<()>> {
        let permit = loop {
            tokio::select! {
                biased;
                permit = self.to_writer.reserve() => break permit?,
                Some(look) = looks.recv() => look(&self.core),
            }
        };
        permit.send(std::mem::take(&mut self.outbox));
        Ok(())
    }

    /// The machine slept, or the disk stood still: heartbeats came in vain, or not at all.
    fn notice_stall(&mut self, expected: Timestamp) {
        let late = self.clock.now().since(expected);
        if late > self.patience() {
            tracing::warn!(%late, "paused; all leases extended");
            self.feed(Input::Awoke);
        }
    }

    /// Who is to be heard of within `lease_ttl` speaks three times in it.
    fn patience(&self) -> Span {
        Span(self.core.settings().lease_ttl.0 / 3)
    }

    fn until_wakeup(&mut self) -> Duration {
        let now = self.clock.now();
        let wakeup = self.core.next_wakeup();
        wakeup.map_or(Duration::from_secs(3600), |at| Duration::from_millis(at.since(now).0))
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Do(act) => {
                let answer = act(self);
                self.outbox.answers.push(answer);
            }
            Command::Lane(Word::Report { cluster, generation, input, seen }) => {
                // A lane that was replaced asked somebody else: its word is void.
                if self.clusters.get(&cluster).is_some_and(|(_, current)| *current == generation) {
                    self.take_report(*input, seen);
                }
            }
            Command::Lane(Word::Listed { cluster, generation, runs }) => {
                if self.clusters.get(&cluster).is_some_and(|(_, current)| *current == generation) {
                    self.take_list(cluster, runs);
                }
            }
            Command::Lane(Word::Logs { run, pieces, stored }) => {
                // The job may be forgotten, and its id may be that of another job by now. The last
                // of the disk is not for logs.
                if self.core.job(&run.job).is_some_and(|job| run.is_of(job)) && self.disk.check().is_ok() {
                    self.outbox.changes.extend(pieces.into_iter().map(Change::Logs));
                    self.outbox.must_sync = true;
                    self.outbox.answers.push(Box::new(move || {
                        let _gone = stored.send(());
                    }));
                }
            }
            Command::Lane(Word::Look(look)) => look(&self.core),
            Command::Stop => {}
        }
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    pub(crate) fn submit(&mut self, job: NewJob) -> Result<Accepted, Refusal> {
        let NewJob { submission, payload } = job;
        let reply = self.feed(Input::Submit(submission));
        self.accepted(reply, payload)
    }

    pub(crate) fn submit_batch(&mut self, mut jobs: Vec<NewJob>) -> Vec<Result<Accepted, Refusal>> {
        // A batch of tasks counts as one submission; each job counts by itself.
        let group = GroupId::new(uuid::Uuid::now_v7().simple().to_string()).ok();
        for work in jobs.iter_mut().map(|job| &mut job.submission.work).filter(|work| work.kind == Kind::Task)
        {
            work.group.clone_from(&group);
        }
        let (submissions, payloads): (Vec<_>, Vec<_>) =
            jobs.into_iter().map(|job| (Input::Submit(job.submission), job.payload)).unzip();
        let Some(Ok(Reply::Each(replies))) = self.feed(Input::Together(submissions)) else {
            return Vec::new();
        };
        let each = replies.into_iter().zip(payloads);
        each.map(|(reply, payload)| self.accepted(Some(reply), payload)).collect()
    }

    /// What became of a submission. Its payload is kept with it.
    fn accepted(
        &mut self,
        reply: Option<Result<Reply, Refusal>>,
        payload: Option<Arc<Payload>>,
    ) -> Result<Accepted, Refusal> {
        let accepted = match reply {
            Some(Ok(Reply::Accepted(accepted))) => accepted,
            Some(Err(refusal)) => {
                if matches!(refusal, Refusal::QueueFull { .. } | Refusal::OwnerQueueFull { .. }) {
                    self.metrics.shed(Shed::QueueFull);
                }
                return Err(refusal);
            }
            _ => unreachable!("a submission is accepted or refused"),
        };
        if let (None, Some(payload)) = (accepted.duplicate, payload) {
            self.outbox.changes.push(Change::Payload { job: accepted.job.clone(), payload });
        }
        Ok(accepted)
    }

    /// What a lane saw is kept in the same transaction as what the core makes of it: once a job
    /// has ended, its exit code is there too.
    fn take_report(&mut self, input: Input, seen: Vec<(Run, Seen)>) {
        for (run, seen) in seen.into_iter().filter(|(run, _)| self.core.is_latest(run)) {
            self.outbox.changes.push(Change::Seen { job: run.job, attempt: run.attempt, seen });
        }
        // A cluster that has just been removed is unknown: nothing is lost with it.
        if let Some(Err(refusal)) = self.feed(input) {
            tracing::debug!(%refusal, "a report came too late");
        }
    }

    /// A cluster listed its runs. The payloads of unknown ones wait until their jobs have records.
    fn take_list(&mut self, cluster: ClusterName, runs: Option<Vec<(Listed, Option<Payload>)>>) {
        let mut keep = |(listed, payload): (Listed, Option<Payload>)| {
            if let Some(payload) = payload {
                self.found.insert(listed.run.clone(), Arc::new(payload));
            }
            listed
        };
        let runs = runs.map(|runs| runs.into_iter().map(&mut keep).collect());
        self.take_report(Input::Listed { cluster, runs }, Vec::new());
        if !self.core.is_rewound() {
            self.found.clear();
        }
    }

    /// How the pool stood: stored with the next commit, which need not wait for the disk because of it. The
    /// last of the disk is not for charts.
    pub(crate) fn keep_samples(&mut self, samples: Vec<(SampleStep, Box<Sample>)>) {
        if self.disk.check().is_ok() {
            let changes = samples.into_iter().map(|(step, sample)| Change::Sample { step, sample });
            self.outbox.changes.extend(changes);
        }
    }

    /// Gives the core an order.
    pub(crate) fn act(&mut self, input: Input) -> Result<Reply, Refusal> {
        // What lanes report has no answer.
        self.feed(input).unwrap_or(Ok(Reply::Done))
    }

    fn feed(&mut self, input: Input) -> Option<Result<Reply, Refusal>> {
        let now = self.clock.now();
        let output = self.core.handle(now, input);
        self.absorb(output)
    }

    fn absorb(&mut self, output: Output) -> Option<Result<Reply, Refusal>> {
        let Output { writes, must_sync, effects, events, reply, cycle, found, impossible } = output;
        self.outbox.must_sync |= must_sync;
        for write in writes {
            match &write {
                Write::Cluster(record) => self.open_lane(Arc::clone(&record.spec)),
                Write::DeleteCluster(name) => self.close_lane(name),
                Write::Decision(decision) => self.metrics.decided(decision),
                Write::Attempt(attempt) => self.metrics.attempted(attempt, &self.core),
                _ => {}
            }
            self.outbox.changes.push(Change::Core(write));
        }
        for run in found {
            if let Some(payload) = self.found.remove(&run) {
                self.outbox.changes.push(Change::Payload { job: run.job, payload });
            }
        }
        if !effects.is_empty() {
            let means = self.means();
            self.outbox.effects.extend(effects.into_iter().map(|effect| (effect, means.clone())));
        }
        for event in &events {
            self.metrics.happened(event, &self.core);
            self.outbox.changes.push(Change::Event(events::stored(event, self.next_event)));
            self.next_event += 1;
        }
        if let Some(cycle) = cycle {
            self.metrics.cycled(&cycle);
        }
        for Impossible { job, what } in impossible {
            self.metrics.impossible();
            tracing::error!(job_id = %job, %what, "a bug in the scheduler: nothing was changed");
        }
        reply
    }

    fn means(&self) -> Means {
        let timeout = Duration::from_millis(self.core.settings().dispatch_timeout.0);
        let time_to_send = timeout.saturating_sub(REPORT_MARGIN.min(timeout / 2));
        Means { homes: Arc::clone(&self.homes), leave_by: Instant::now() + time_to_send, time_to_send }
    }

    /// A lane for this cluster; a new one if it is to be reached in another way.
    fn open_lane(&mut self, spec: Arc<ClusterSpec>) {
        let known = self.clusters.get(&spec.name);
        if known.is_some_and(|(known, _)| Arc::ptr_eq(known, &spec) || **known == *spec) {
            return;
        }
        // A lane knows the secrets of its cluster, to keep them out of what it reports.
        let reached_alike = |known: &ClusterSpec| {
            known.dashboard == spec.dashboard
                && known.connection == spec.connection
                && known.secret_vars == spec.secret_vars
        };
        let generation = match known {
            Some((known, generation)) if reached_alike(known) => *generation,
            _ => {
                self.generation += 1;
                self.generation
            }
        };
        self.clusters.insert(spec.name.clone(), (Arc::clone(&spec), generation));
        self.refresh_homes();
        self.outbox.lanes.push(LaneChange::Open { spec, generation });
    }

    fn close_lane(&mut self, cluster: &ClusterName) {
        self.clusters.remove(cluster);
        self.refresh_homes();
        self.outbox.lanes.push(LaneChange::Close { cluster: cluster.clone() });
    }

    fn refresh_homes(&mut self) {
        self.homes = resolve::homes(self.clusters.values().map(|(spec, _)| &**spec));
    }
}
