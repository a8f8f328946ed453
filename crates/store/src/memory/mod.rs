//! Everything in memory, for tests: the same answers, nothing survives.

mod packages;
mod reader;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::{BuildHasher, RandomState},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use multicluster_core::{
    Durable,
    record::{AttemptRecord, ClusterRecord, JobRecord, Orphan, Phase},
};
use multicluster_types::{Attempt, ClusterName, Decision, JobId, Message, Payload, PolicySpec};

use crate::{Change, Loaded, LogCopy, Opened, Options, Seen, Store, StoreError, StoredEvent, batch::Batch};

/// An empty store.
#[must_use]
pub fn open(options: Options) -> Opened {
    let state = Shared(Arc::new(RwLock::default()));
    let options = Arc::new(options);
    let random = RandomState::new();
    let plane = format!("plane-{:016x}{:016x}", random.hash_one(0), random.hash_one(1));
    Opened {
        reader: Arc::new(reader::MemoryReader::new(state.clone())),
        own_reader: Arc::new(reader::MemoryReader::new(state.clone())),
        packages: Arc::new(packages::MemoryPackages::new(state.clone(), options.clone())),
        store: Box::new(MemoryStore { state, options, plane }),
    }
}

#[derive(Debug, Clone)]
struct Shared(Arc<RwLock<State>>);

impl Shared {
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is "committed".
#[derive(Debug, Default)]
struct State {
    /// In the order in which they were accepted.
    jobs: BTreeMap<u64, Job>,
    numbers: HashMap<JobId, u64>,
    decisions: BTreeMap<u64, Decision>,
    next_decision: u64,
    events: BTreeMap<u64, StoredEvent>,
    clusters: BTreeMap<ClusterName, ClusterRecord>,
    orphans: BTreeSet<Orphan>,
    policies: BTreeMap<Message, PolicySpec>,
}

#[derive(Debug)]
struct Job {
    record: JobRecord,
    payload: Option<Payload>,
    /// Where it is or was.
    clusters: BTreeSet<ClusterName>,
    attempts: BTreeMap<Attempt, AttemptRecord>,
    logs: BTreeMap<Attempt, LogCopy>,
    seen: Option<(Attempt, Seen)>,
}

struct MemoryStore {
    state: Shared,
    options: Arc<Options>,
    plane: String,
}

impl Store for MemoryStore {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        let state = self.state.read();
        let jobs = state.jobs.values().map(|job| (job.record.id.clone(), job.record.clone())).collect();
        let durable = Durable {
            clusters: state.clusters.clone(),
            jobs,
            orphans: state.orphans.clone(),
            policies: state.policies.clone(),
        };
        let next_event = state.events.last_key_value().map_or(1, |(seq, _)| seq + 1);
        Ok(Loaded { durable, plane: self.plane.clone(), next_event })
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        self.state.write().apply(&Batch::of(changes), &self.options);
        Ok(())
    }
}

impl State {
    fn apply(&mut self, batch: &Batch<'_>, options: &Options) {
        for change in &batch.jobs {
            if change.deleted() {
                self.forget(change.id);
            }
            if let Some(record) = change.record {
                self.put(record);
            }
            if let (Some(payload), Some(job)) = (change.payload, self.job_mut(change.id)) {
                job.payload = Some(payload.clone());
            }
        }
        self.add_history(batch, options);
        for (name, record) in &batch.clusters {
            match record {
                Some(record) => self.clusters.insert((*name).clone(), (*record).clone()),
                None => self.clusters.remove(*name),
            };
        }
        for (orphan, there) in &batch.orphans {
            if *there {
                self.orphans.insert((*orphan).clone());
            } else {
                self.orphans.remove(*orphan);
            }
        }
        for (name, spec) in &batch.policies {
            match spec {
                Some(spec) => self.policies.insert((*name).clone(), (*spec).clone()),
                None => self.policies.remove(*name),
            };
        }
        self.events.extend(batch.events.iter().map(|event| (event.seq, (*event).clone())));
        if let Some(newest) = batch.events.last() {
            let gone = newest.seq.saturating_sub(options.events.max(1));
            self.events = self.events.split_off(&(gone + 1));
        }
    }

    fn add_history(&mut self, batch: &Batch<'_>, options: &Options) {
        for (_, attempt) in batch.attempts() {
            if let Some(job) = self.job_mut(&attempt.job) {
                job.clusters.insert(attempt.live.cluster.clone());
                job.attempts.insert(attempt.live.attempt, attempt.clone());
            }
        }
        for (_, decision) in batch.decisions() {
            if self.numbers.contains_key(&decision.job) {
                self.next_decision += 1;
                self.decisions.insert(self.next_decision, decision.clone());
                let of_job: Vec<_> = self.decisions_of(&decision.job).map(|(number, _)| number).collect();
                for number in of_job.into_iter().rev().skip(options.decisions_per_job) {
                    self.decisions.remove(&number);
                }
            }
        }
        let gone = self.next_decision.saturating_sub(options.decisions);
        self.decisions = self.decisions.split_off(&(gone + 1));
        for (_, copy) in batch.logs() {
            if let Some(job) = self.job_mut(&copy.job) {
                job.logs.insert(copy.attempt, copy.clone());
            }
        }
        for (job, (attempt, seen)) in batch.seen() {
            if let Some(job) = self.job_mut(batch.jobs[job].id) {
                job.seen = Some((attempt, seen.clone()));
            }
        }
    }

    fn put(&mut self, record: &JobRecord) {
        let number = self.numbers.get(&record.id).copied().unwrap_or_else(|| {
            let next = self.jobs.last_key_value().map_or(0, |(number, _)| number + 1);
            next.max(record.seq.min(u64::MAX / 4))
        });
        self.numbers.insert(record.id.clone(), number);
        let job = self.jobs.entry(number).or_insert_with(|| Job {
            record: record.clone(),
            payload: None,
            clusters: BTreeSet::new(),
            attempts: BTreeMap::new(),
            logs: BTreeMap::new(),
            seen: None,
        });
        job.record = record.clone();
        job.clusters.extend(match &record.phase {
            Phase::Waiting { .. } => None,
            Phase::Live(live) => Some(live.cluster.clone()),
            Phase::Ended(ended) => ended.cluster.clone(),
        });
    }

    fn forget(&mut self, id: &JobId) {
        if let Some(number) = self.numbers.remove(id) {
            self.jobs.remove(&number);
            self.decisions.retain(|_, decision| decision.job != *id);
        }
    }

    fn job(&self, id: &JobId) -> Option<&Job> {
        self.jobs.get(self.numbers.get(id)?)
    }

    fn job_mut(&mut self, id: &JobId) -> Option<&mut Job> {
        self.jobs.get_mut(self.numbers.get(id)?)
    }

    fn decisions_of(&self, id: &JobId) -> impl DoubleEndedIterator<Item = (u64, &Decision)> {
        self.decisions
            .iter()
            .filter(move |(_, decision)| decision.job == *id)
            .map(|(number, decision)| (*number, decision))
    }
}
