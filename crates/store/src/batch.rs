//! The net effect of a list of changes. A record that is written several times in one batch is
//! stored once. Data of a job that is deleted later in the batch is not stored at all.

use std::collections::{BTreeMap, HashMap};

use multicluster_core::{
    Write,
    record::{AttemptRecord, ClusterRecord, JobRecord, Orphan, UsageRecord},
};
use multicluster_types::{
    Attempt, ClusterName, Decision, JobId, Kind, Message, Owner, Payload, PolicySpec, Timestamp,
};

use crate::{Change, LogPiece, Sample, SampleStep, Seen, StoredEvent};

/// The net effect of one batch.
pub(crate) struct Batch<'a> {
    /// In the order in which they were first touched.
    pub(crate) jobs: Vec<JobChange<'a>>,
    /// The last record of each; `None`: deleted.
    pub(crate) clusters: BTreeMap<&'a ClusterName, Option<&'a ClusterRecord>>,
    /// Present or not.
    pub(crate) orphans: BTreeMap<&'a Orphan, bool>,
    /// The last version of each; `None`: deleted.
    pub(crate) policies: BTreeMap<&'a Message, Option<&'a PolicySpec>>,
    /// The last record of each; `None`: deleted.
    pub(crate) usage: BTreeMap<&'a Owner, Option<&'a UsageRecord>>,
    /// In the order of their numbers.
    pub(crate) events: Vec<&'a StoredEvent>,
    /// The last of each step.
    pub(crate) samples: BTreeMap<(SampleStep, Timestamp), &'a Sample>,
    attempts: Vec<Owned<&'a AttemptRecord>>,
    ends: Vec<Owned<&'a JobRecord>>,
    decisions: Vec<Owned<&'a Decision>>,
    logs: Vec<Owned<&'a LogPiece>>,
    seen: Vec<Owned<(Attempt, &'a Seen)>>,
}

/// The changes to one job.
pub(crate) struct JobChange<'a> {
    pub(crate) id: &'a JobId,
    /// Its last record, if one was written since the last deletion.
    pub(crate) record: Option<&'a JobRecord>,
    /// Its payload, likewise.
    pub(crate) payload: Option<&'a Payload>,
    deletions: u32,
}

/// A record that belongs to a job, unless that job was deleted since.
struct Owned<T> {
    job: usize,
    deletions: u32,
    what: T,
}

impl JobChange<'_> {
    /// Must everything stored of this job before be deleted first?
    pub(crate) fn deleted(&self) -> bool {
        self.deletions > 0
    }
}

impl<'a> Batch<'a> {
    /// Computes the net effect.
    pub(crate) fn of(changes: &'a [Change]) -> Self {
        let mut batch = Self {
            jobs: Vec::with_capacity(changes.len() / 2),
            clusters: BTreeMap::new(),
            orphans: BTreeMap::new(),
            policies: BTreeMap::new(),
            usage: BTreeMap::new(),
            events: Vec::with_capacity(changes.len() / 2),
            samples: BTreeMap::new(),
            attempts: Vec::new(),
            ends: Vec::new(),
            decisions: Vec::new(),
            logs: Vec::new(),
            seen: Vec::new(),
        };
        let mut by_id = HashMap::with_capacity(changes.len() / 2);
        for change in changes {
            batch.take(change, &mut by_id);
        }
        if !batch.events.is_sorted_by_key(|event| event.seq) {
            batch.events.sort_by_key(|event| event.seq);
        }
        batch
    }

    /// Attempts to store, with the place of their job in `jobs`.
    pub(crate) fn attempts(&self) -> impl Iterator<Item = (usize, &'a AttemptRecord)> {
        self.still(&self.attempts)
    }

    /// Jobs that ended, kept or not, with their place in `jobs`, and whether that is the life of the
    /// job that was stored before. A job that had ended before may be among them.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (usize, bool, &'a JobRecord)> {
        self.ends.iter().map(|end| (end.job, end.deletions == 0, end.what))
    }

    /// The attempts that ended in this batch, by the place of their job in `jobs`.
    pub(crate) fn attempts_by_job(&self) -> HashMap<usize, Vec<&'a AttemptRecord>> {
        let mut by_job: HashMap<_, Vec<_>> = HashMap::new();
        for own in &self.attempts {
            by_job.entry(own.job).or_default().push(own.what);
        }
        by_job
    }

    /// Decisions to store, with the place of their job in `jobs`.
    pub(crate) fn decisions(&self) -> impl Iterator<Item = (usize, &'a Decision)> {
        self.still(&self.decisions)
    }

    /// Pieces of logs to store in this order, with the place of their job in `jobs`.
    pub(crate) fn logs(&self) -> impl Iterator<Item = (usize, &'a LogPiece)> {
        self.still(&self.logs)
    }

    /// Sightings of attempts to store, with the place of their job in `jobs`.
    pub(crate) fn seen(&self) -> impl Iterator<Item = (usize, (Attempt, &'a Seen))> {
        self.still(&self.seen)
    }

    fn still<T: Copy>(&self, owned: &[Owned<T>]) -> impl Iterator<Item = (usize, T)> {
        owned
            .iter()
            .filter(|own| self.jobs[own.job].deletions == own.deletions)
            .map(|own| (own.job, own.what))
    }

    fn take(&mut self, change: &'a Change, by_id: &mut HashMap<&'a JobId, usize>) {
        match change {
            Change::Core(write) => self.take_write(write, by_id),
            Change::Payload { job, payload } => {
                let job = self.job(job, by_id);
                self.jobs[job].payload = Some(payload);
            }
            Change::Logs(piece) => {
                let owned = self.owned(&piece.job, piece, by_id);
                self.logs.push(owned);
            }
            Change::Seen { job, attempt, seen } => {
                let owned = self.owned(job, (*attempt, seen), by_id);
                self.seen.push(owned);
            }
            Change::Event(event) => self.events.push(event),
            Change::Sample { step, sample } => drop(self.samples.insert((*step, sample.begun), sample)),
        }
    }

    fn take_write(&mut self, write: &'a Write, by_id: &mut HashMap<&'a JobId, usize>) {
        match write {
            Write::Job(record) => {
                let job = self.job(&record.id, by_id);
                let had_ended = self.jobs[job].record.is_some_and(|record| record.state().is_terminal());
                // Of tasks and actors, no history of runs is kept.
                if record.work.kind == Kind::Job && record.state().is_terminal() && !had_ended {
                    let deletions = self.jobs[job].deletions;
                    self.ends.push(Owned { job, deletions, what: record });
                }
                self.jobs[job].record = Some(record);
            }
            Write::DeleteJob(id) => {
                let job = self.job(id, by_id);
                let job = &mut self.jobs[job];
                (job.record, job.payload) = (None, None);
                job.deletions += 1;
            }
            Write::Attempt(attempt) => {
                let owned = self.owned(&attempt.job, &**attempt, by_id);
                self.attempts.push(owned);
            }
            Write::Decision(decision) => {
                let owned = self.owned(&decision.job, &**decision, by_id);
                self.decisions.push(owned);
            }
            Write::Cluster(record) => {
                self.clusters.insert(&record.spec.name, Some(record));
            }
            Write::DeleteCluster(name) => {
                self.clusters.insert(name, None);
            }
            Write::Orphan(orphan) => {
                self.orphans.insert(orphan, true);
            }
            Write::DeleteOrphan(orphan) => {
                self.orphans.insert(orphan, false);
            }
            Write::Policy(spec) => {
                self.policies.insert(&spec.name, Some(spec));
            }
            Write::DeletePolicy(name) => {
                self.policies.insert(name, None);
            }
            Write::Usage(record) => {
                self.usage.insert(&record.owner, Some(record));
            }
            Write::DeleteUsage(owner) => {
                self.usage.insert(owner, None);
            }
        }
    }

    fn owned<T>(&mut self, id: &'a JobId, what: T, by_id: &mut HashMap<&'a JobId, usize>) -> Owned<T> {
        let job = self.job(id, by_id);
        Owned { job, deletions: self.jobs[job].deletions, what }
    }

    fn job(&mut self, id: &'a JobId, by_id: &mut HashMap<&'a JobId, usize>) -> usize {
        // Changes of one job mostly follow each other, which saves a lookup.
        if let Some(last) = self.jobs.last()
            && last.id == id
        {
            return self.jobs.len() - 1;
        }
        *by_id.entry(id).or_insert_with(|| {
            self.jobs.push(JobChange { id, record: None, payload: None, deletions: 0 });
            self.jobs.len() - 1
        })
    }
}
