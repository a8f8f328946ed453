//! A fake Ray cluster, as the facts file describes the real ones: it refuses a
//! second submission of an id, ignores a stop while a job is pending, and forgets
//! everything when its head is started anew.

use std::collections::BTreeMap;

use multicluster_core::RunStatus;
use multicluster_types::{
    Attempt, HeadMemory, Incarnation, JobId, Load, Quantity, Resources, Share, Snapshot, Span, SubmissionId,
    Timestamp,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Up,
    /// Connections are refused.
    Down,
    /// Connections are accepted; nothing happens.
    Hung,
}

#[derive(Debug)]
pub struct FakeRay {
    pub total: Resources,
    /// Memory of its head node in bytes, if it tells.
    pub head: Option<f64>,
    /// Somebody else's work on the same cluster.
    pub foreign: Resources,
    pub mode: Mode,
    /// How long its dashboard takes for an answer, while it has too much to do.
    pub takes: Span,
    pub session: u32,
    pub jobs: BTreeMap<String, FakeJob>,
    /// What the placements of tasks and actors use.
    pub leases: BTreeMap<(JobId, Attempt), Resources>,
}

#[derive(Debug, Clone)]
pub struct FakeJob {
    pub job: JobId,
    pub attempt: Attempt,
    pub demand: Resources,
    pub status: RunStatus,
    pub starts_at: Timestamp,
    pub ends_at: Timestamp,
    pub end: RunStatus,
    pub stop_asked: bool,
}

/// What became of a job between two looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happened {
    Started(JobId, Attempt),
    Ended(JobId, Attempt, bool),
}

impl FakeRay {
    pub fn new(total: Resources, head: Option<f64>) -> Self {
        Self {
            total,
            head,
            foreign: Resources::default(),
            mode: Mode::Up,
            takes: Span::ZERO,
            session: 1,
            jobs: BTreeMap::new(),
            leases: BTreeMap::new(),
        }
    }

    pub fn incarnation(&self) -> Option<Incarnation> {
        Some(Incarnation::new(format!("session_{}", self.session)).unwrap())
    }

    /// A new head: everything that was there is gone.
    pub fn restart(&mut self) -> Vec<(JobId, Attempt)> {
        self.session += 1;
        self.mode = Mode::Up;
        let killed = self.jobs.values().filter(|job| job.status == RunStatus::Running);
        let killed = killed.map(|job| (job.job.clone(), job.attempt)).collect();
        self.jobs.clear();
        self.leases.clear();
        killed
    }

    /// False if the id is taken: Ray never runs it a second time.
    pub fn submit(&mut self, job: FakeJob) -> bool {
        let id = SubmissionId::of(&job.job, job.attempt).as_str().to_owned();
        if self.jobs.contains_key(&id) {
            return false;
        }
        self.jobs.insert(id, job);
        true
    }

    pub fn find(&self, job: &JobId, attempt: Attempt) -> Option<&FakeJob> {
        self.jobs.get(SubmissionId::of(job, attempt).as_str())
    }

    /// A pending job only remembers that it should be stopped once it runs.
    pub fn stop(&mut self, job: &JobId, attempt: Attempt, now: Timestamp) {
        if let Some(job) = self.jobs.get_mut(SubmissionId::of(job, attempt).as_str())
            && !job.stop_asked
        {
            job.stop_asked = true;
            if job.status == RunStatus::Running && job.ends_at > now {
                (job.ends_at, job.end) = (now + Span::seconds(1), RunStatus::Stopped);
            }
        }
    }

    /// Lets the jobs go on until `now`.
    pub fn advance(&mut self, now: Timestamp) -> Vec<Happened> {
        let mut happened = Vec::new();
        if self.mode == Mode::Hung {
            return happened;
        }
        let mut used = self.used_by_jobs();
        for job in self.jobs.values_mut() {
            let fits = job.demand.first_beyond(&self.total, &used, &self.foreign).is_none();
            if job.status == RunStatus::Pending && job.starts_at <= now && fits {
                let length = job.ends_at.since(job.starts_at);
                (job.status, job.starts_at) = (RunStatus::Running, now);
                job.ends_at = now + length;
                if job.stop_asked {
                    (job.ends_at, job.end) = (now + Span::seconds(2), RunStatus::Stopped);
                }
                used.add(&job.demand);
                happened.push(Happened::Started(job.job.clone(), job.attempt));
            }
            if job.status == RunStatus::Running && job.ends_at <= now {
                job.status = job.end.clone();
                let well = job.status == RunStatus::Succeeded;
                happened.push(Happened::Ended(job.job.clone(), job.attempt, well));
            }
        }
        happened
    }

    fn used_by_jobs(&self) -> Resources {
        let mut used = Resources::default();
        self.jobs.values().filter(|j| j.status == RunStatus::Running).for_each(|j| used.add(&j.demand));
        self.leases.values().for_each(|demand| used.add(demand));
        used
    }

    /// What Ray itself and all drivers leave of the head node's memory.
    fn head_memory(&self) -> Option<HeadMemory> {
        let is_driver = |job: &&FakeJob| job.status == RunStatus::Running && job.demand.is_empty();
        let drivers = u32::try_from(self.jobs.values().filter(is_driver).count()).unwrap();
        let bytes = |bytes: f64| Quantity::from_f64(bytes.max(0.0)).unwrap();
        self.head.map(|total| HeadMemory {
            total: bytes(total),
            free: bytes(total - 3e8 - 1.2e8 * f64::from(drivers)),
        })
    }

    pub fn snapshot(&self, taken_at: Timestamp) -> Snapshot {
        let mut used = self.used_by_jobs();
        used.add(&self.foreign);
        let share = Share::of(used.cpu.parts(), self.total.cpu.parts());
        Snapshot {
            taken_at,
            total: self.total.clone(),
            used,
            physical: Load { cpu: Some(share), gpu: None, memory: None },
            head: self.head_memory(),
            nodes: 1,
            ray_version: "2.60.0".into(),
            python_version: Some("3.11.7".into()),
            incarnation: self.incarnation(),
        }
    }
}
