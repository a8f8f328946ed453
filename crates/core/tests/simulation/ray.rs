//! A fake Ray cluster that behaves like the real ones in the facts file: it refuses a second submission
//! of an id, ignores a stop while a job is pending, and forgets everything when its head restarts.

use std::collections::{BTreeMap, BTreeSet};

use multicluster_core::{LookupOutcome, Run, RunStatus};
use multicluster_types::{
    Attempt, HeadMemory, Incarnation, JobId, Labels, Load, NodeShape, Platform, Quantity, Resources, Share,
    Snapshot, Span, SubmissionId, Timestamp, Work,
};

/// A job that has not started by then never will.
const START_TIMEOUT: Span = Span::minutes(15);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Up,
    /// Connections are refused.
    Down,
    /// Connections are accepted, but never answered.
    Hung,
    /// Every request is refused for its token; jobs run on.
    Locked,
}

#[derive(Debug)]
pub struct FakeRay {
    pub total: Resources,
    /// The resources of each node; they add up to the total.
    nodes: Vec<Resources>,
    labels: Labels,
    platform: Platform,
    /// Memory of its head node in bytes, if it reports that.
    pub head: Option<f64>,
    /// Other people's work on the same cluster.
    pub foreign: Resources,
    pub mode: Mode,
    /// How long its dashboard takes for an answer while it is overloaded.
    pub takes: Span,
    pub session: u32,
    /// Does its head report its session? Older Ray versions do not.
    reports_session: bool,
    /// Its version does not know `entrypoint_memory`.
    pub is_old: bool,
    pub jobs: BTreeMap<String, FakeJob>,
    /// Ids of ours that somebody else's runs have.
    strangers: BTreeSet<String>,
    /// Ids under which a no-op was submitted.
    tombstones: BTreeSet<String>,
    /// The resources that placements of tasks and actors use.
    leases: BTreeMap<(JobId, Attempt), Piece>,
    /// Its autoscaler, if it has one.
    pub scaler: Option<Scaler>,
}

/// An autoscaler: it adds a node when work waits for one, and removes it when it is idle.
#[derive(Debug, Clone)]
pub struct Scaler {
    pub node: Resources,
    /// How many nodes it can add; the cluster may be described as one that can add more.
    pub most: usize,
    /// How long a new node takes, and how long an idle one stays.
    pub takes: Span,
    pub stays: Span,
    /// When the nodes will be there that have been requested.
    requested: Vec<Timestamp>,
    /// Since when each added node has been idle.
    idle: Vec<Option<Timestamp>>,
}

impl Scaler {
    pub fn new(node: Resources, most: usize, takes: Span, stays: Span) -> Self {
        Self { node, most, takes, stays, requested: Vec::new(), idle: Vec::new() }
    }

    /// It adds other nodes from now on.
    pub fn replace(&mut self, with: Scaler) {
        let Scaler { node, most, takes, stays, .. } = with;
        (self.node, self.most, self.takes, self.stays) = (node, most, takes, stays);
    }

    pub fn moments(&mut self) -> impl Iterator<Item = &mut Timestamp> {
        self.requested.iter_mut().chain(self.idle.iter_mut().flatten())
    }
}

/// Resources set aside on one node; not yet, if no node has room.
#[derive(Debug, Clone)]
struct Piece {
    node: Option<usize>,
    size: Resources,
}

/// The resources of a cluster.
#[derive(Debug)]
pub struct Shape {
    pub nodes: Vec<Resources>,
    pub labels: Labels,
    pub platform: Platform,
    /// Memory of its head node in bytes, if it reports that.
    pub head: Option<f64>,
    /// Does its head report its session?
    pub reports_session: bool,
    pub scaler: Option<Scaler>,
}

#[derive(Debug, Clone)]
pub struct FakeJob {
    pub run: Run,
    /// The node of its driver, and the driver's reservation.
    pub driver: Resources,
    pub node: Option<usize>,
    pub burdens_head: bool,
    /// The resources that its tasks use of its claim while it runs.
    pub inside: Resources,
    pub status: RunStatus,
    pub starts_at: Timestamp,
    pub ends_at: Timestamp,
    pub end: RunStatus,
    pub stop_asked: bool,
}

/// What happened to a job between two looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happened {
    Started(JobId, Attempt),
    Ended(JobId, Attempt, RunStatus),
}

impl FakeRay {
    pub fn new(shape: Shape) -> Self {
        let Shape { nodes, labels, platform, head, reports_session, scaler } = shape;
        Self {
            total: sum(&nodes),
            nodes,
            labels,
            platform,
            head,
            foreign: Resources::default(),
            mode: Mode::Up,
            takes: Span::ZERO,
            session: 1,
            reports_session,
            is_old: head.is_none(),
            jobs: BTreeMap::new(),
            strangers: BTreeSet::new(),
            tombstones: BTreeSet::new(),
            leases: BTreeMap::new(),
            scaler,
        }
    }

    pub fn incarnation(&self) -> Option<Incarnation> {
        self.reports_session.then(|| Incarnation::new(format!("session_{}", self.session)).unwrap())
    }

    /// A new head: everything from before is gone, and somebody else's runs have some of the ids.
    pub fn restart(&mut self) -> Vec<(JobId, Attempt)> {
        let is_reused = |id: &&String| id.bytes().map(u32::from).sum::<u32>() % 4 == 0;
        self.strangers = self.jobs.keys().filter(is_reused).cloned().collect();
        self.session += 1;
        self.mode = Mode::Up;
        let killed = self.jobs.values().filter(|job| job.status == RunStatus::Running);
        let killed = killed.map(|job| (job.run.job.clone(), job.run.attempt)).collect();
        self.jobs.clear();
        self.tombstones.clear();
        self.leases.clear();
        if let Some(scaler) = &mut self.scaler {
            self.nodes.truncate(self.nodes.len() - scaler.idle.len());
            (scaler.requested, scaler.idle) = (Vec::new(), Vec::new());
        }
        self.total = sum(&self.nodes);
        killed
    }

    /// False if the id is taken: Ray never runs it a second time.
    pub fn submit(&mut self, job: FakeJob) -> bool {
        let id = SubmissionId::of(&job.run.job, job.run.attempt).as_str().to_owned();
        if self.jobs.contains_key(&id) || self.tombstones.contains(&id) {
            return false;
        }
        self.jobs.insert(id, job);
        true
    }

    /// A no-op is submitted under the id of this attempt, which does nothing if the id is in use.
    pub fn bury(&mut self, run: &Run) {
        let id = SubmissionId::of(&run.job, run.attempt).as_str().to_owned();
        if !self.jobs.contains_key(&id) && !self.strangers.contains(&id) {
            self.tombstones.insert(id);
        }
    }

    pub fn is_buried(&self, run: &Run) -> bool {
        self.tombstones.contains(SubmissionId::of(&run.job, run.attempt).as_str())
    }

    /// What it has under the id of this attempt.
    pub fn look_up(&self, run: &Run) -> LookupOutcome {
        let incarnation = self.incarnation();
        match self.find(run) {
            _ if self.is_taken(run) => LookupOutcome::Taken { message: "in use".into(), incarnation },
            Some(found) => LookupOutcome::Found(found.status.clone()),
            None if self.is_buried(run) => LookupOutcome::Buried { incarnation },
            None => LookupOutcome::NotFound { incarnation },
        }
    }

    /// Does somebody else's run have the id of this attempt?
    pub fn is_taken(&self, run: &Run) -> bool {
        self.strangers.contains(SubmissionId::of(&run.job, run.attempt).as_str())
    }

    pub fn find(&self, run: &Run) -> Option<&FakeJob> {
        self.jobs.get(SubmissionId::of(&run.job, run.attempt).as_str())
    }

    /// A pending job only remembers that it should be stopped once it runs.
    pub fn stop(&mut self, run: &Run, now: Timestamp) {
        if let Some(job) = self.jobs.get_mut(SubmissionId::of(&run.job, run.attempt).as_str())
            && !job.stop_asked
        {
            job.stop_asked = true;
            if job.status == RunStatus::Running && job.ends_at > now {
                (job.ends_at, job.end) = (now + Span::seconds(1), RunStatus::Stopped);
            }
        }
    }

    /// Ends a job that is pending, so that it never starts.
    pub fn recall(&mut self, run: &Run) {
        let job = self.jobs.get_mut(SubmissionId::of(&run.job, run.attempt).as_str());
        if let Some(job) = job.filter(|job| job.status == RunStatus::Pending) {
            let message = "it never ran".into();
            job.status = RunStatus::Failed { message, never_started: true, exit_code: None };
        }
    }

    /// Nodes that were requested arrive, idle ones go, and one is requested if work waits.
    fn scale(&mut self, now: Timestamp) {
        let free = self.free();
        let Some(scaler) = &mut self.scaler else { return };
        let arrived = scaler.requested.extract_if(.., |at| *at <= now).count();
        self.nodes.extend(vec![scaler.node.clone(); arrived]);
        scaler.idle.extend(vec![None; arrived]);
        let base = self.nodes.len() - scaler.idle.len();
        let due = |job: &&FakeJob| job.status == RunStatus::Pending && job.starts_at <= now;
        let waiting = self.jobs.values().filter(due).map(|job| &job.driver);
        let leases = self.leases.values().filter(|piece| piece.node.is_none()).map(|piece| &piece.size);
        let wanted = waiting
            .chain(leases)
            .filter(|size| place(&free, size).is_none() && size.first_beyond_total(&scaler.node).is_none());
        let wanted = wanted.count().min(scaler.most.saturating_sub(scaler.idle.len()));
        while scaler.requested.len() < wanted {
            scaler.requested.push(now + scaler.takes);
        }
        for (nth, since) in scaler.idle.iter_mut().enumerate() {
            let is_idle = free.get(base + nth).is_some_and(|free| *free == self.nodes[base + nth]);
            *since = is_idle.then(|| since.unwrap_or(now));
        }
        while let Some(Some(since)) = scaler.idle.last()
            && *since + scaler.stays <= now
        {
            scaler.idle.pop();
            self.nodes.pop();
        }
        self.total = sum(&self.nodes);
    }

    /// Lets the jobs go on until `now`.
    pub fn advance(&mut self, now: Timestamp) -> Vec<Happened> {
        let mut happened = Vec::new();
        if self.mode == Mode::Hung {
            return happened;
        }
        self.scale(now);
        let mut free = self.free();
        for job in self.jobs.values_mut() {
            let is_due = job.status == RunStatus::Pending && job.starts_at <= now;
            if let Some(node) = place(&free, &job.driver).filter(|_| is_due) {
                let length = job.ends_at.since(job.starts_at);
                (job.status, job.starts_at) = (RunStatus::Running, now);
                job.ends_at = now + length;
                if job.stop_asked {
                    (job.ends_at, job.end) = (now + Span::seconds(2), RunStatus::Stopped);
                }
                job.node = Some(node);
                free[node].subtract(&job.driver);
                happened.push(Happened::Started(job.run.job.clone(), job.run.attempt));
            }
            if job.status == RunStatus::Pending && job.starts_at + START_TIMEOUT <= now {
                let message = "no room within 900 s".into();
                job.status = RunStatus::Failed { message, never_started: true, exit_code: None };
            }
            if job.status == RunStatus::Running && job.ends_at <= now {
                job.status = job.end.clone();
                happened.push(Happened::Ended(job.run.job.clone(), job.run.attempt, job.status.clone()));
            }
        }
        happened
    }

    /// The free resources of each node. Work that jobs start inside, and other people's work, is
    /// spread over the nodes as far as there is room.
    fn free(&self) -> Vec<Resources> {
        let mut free = self.nodes.clone();
        let running = || self.jobs.values().filter(|job| job.status == RunStatus::Running);
        let drivers = running().map(|job| (job.node, &job.driver));
        for (node, size) in drivers.chain(self.leases.values().map(|piece| (piece.node, &piece.size))) {
            if let Some(node) = node {
                free[node].subtract(size);
            }
        }
        for spread in running().map(|job| &job.inside).chain([&self.foreign]) {
            let mut left = spread.clone();
            for node in &mut free {
                let had = node.clone();
                node.subtract(&left);
                left.add(node);
                left.subtract(&had);
            }
        }
        free
    }

    /// A task or an actor runs there, or waits in Ray until a node has room.
    pub fn lease(&mut self, job: JobId, attempt: Attempt, work: &Work) {
        let free = self.free();
        let piece = self.leases.entry((job, attempt));
        let piece = piece.or_insert_with(|| Piece { node: None, size: work.on_one_node().clone() });
        piece.node = piece.node.or_else(|| place(&free, &piece.size));
    }

    pub fn end_lease(&mut self, job: &JobId, attempt: Attempt) {
        self.leases.remove(&(job.clone(), attempt));
    }

    /// The memory of the head node that Ray itself and all drivers leave free.
    fn head_memory(&self) -> Option<HeadMemory> {
        let is_driver = |job: &&FakeJob| job.status == RunStatus::Running && job.burdens_head;
        let drivers = u32::try_from(self.jobs.values().filter(is_driver).count()).unwrap();
        let bytes = |bytes: f64| Quantity::from_f64(bytes.max(0.0)).unwrap();
        self.head.map(|total| HeadMemory {
            total: bytes(total),
            free: bytes(total - 3e8 - 1.2e8 * f64::from(drivers)),
        })
    }

    pub fn snapshot(&self, taken_at: Timestamp) -> Snapshot {
        let free = self.free();
        let mut used = self.total.clone();
        free.iter().for_each(|node| used.subtract(node));
        let nodes = self.nodes.iter().zip(free).map(|(total, free)| NodeShape {
            total: total.clone(),
            free,
            labels: self.labels.clone(),
            count: 1,
        });
        let share = Share::of(used.cpu.parts(), self.total.cpu.parts());
        Snapshot {
            taken_at,
            total: self.total.clone(),
            used,
            physical: Load { cpu: Some(share), gpu: None, memory: None },
            head: self.head_memory(),
            nodes: u32::try_from(self.nodes.len()).unwrap(),
            shapes: NodeShape::group(nodes),
            platform: self.platform.clone(),
            ray_version: "2.60.0".into(),
            python_version: Some("3.11.7".into()),
            incarnation: self.incarnation(),
            autoscaler: None,
        }
    }
}

fn sum(nodes: &[Resources]) -> Resources {
    let mut total = Resources::default();
    nodes.iter().for_each(|node| total.add(node));
    total
}

/// The first node with room for all of it.
fn place(free: &[Resources], size: &Resources) -> Option<usize> {
    free.iter().position(|node| size.first_beyond_total(node).is_none())
}
