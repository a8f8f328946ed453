//! The expected answers of a store, from a plain model: lists in memory that are searched from
//! end to end. It shares no code with the store, neither for batches nor for filters.

use std::collections::{BTreeMap, BTreeSet};

use multicluster_core::{
    Write,
    record::{AttemptRecord, JobRecord, Phase},
};
use multicluster_store::{Change, JobFilter, LogCopy, LogPiece, Options, StoredEvent, StoredJob};
use multicluster_types::{Attempt, ClusterName, Decision, JobId, Tag};

use crate::support::id;

pub(crate) struct Model {
    options: Options,
    /// In the order in which they were accepted.
    jobs: Vec<Job>,
    decisions: Vec<Decision>,
    events: Vec<StoredEvent>,
}

struct Job {
    stored: StoredJob,
    /// The clusters where it is or was.
    clusters: BTreeSet<ClusterName>,
    attempts: BTreeMap<Attempt, AttemptRecord>,
    logs: BTreeMap<Attempt, (LogCopy, String)>,
}

impl Model {
    pub(crate) fn new(options: Options) -> Self {
        Self { options, jobs: Vec::new(), decisions: Vec::new(), events: Vec::new() }
    }

    pub(crate) fn commit(&mut self, changes: &[Change]) {
        // New jobs are numbered in the order in which a batch first mentions them.
        let mut seen = BTreeSet::new();
        for id in changes.iter().filter_map(about).filter(|id| seen.insert(*id)) {
            let mut counted: Vec<_> = changes.iter().filter(|change| about(change) == Some(id)).collect();
            if let Some(last) = counted.iter().rposition(|change| is_deletion(change)) {
                counted.drain(..=last);
                self.jobs.retain(|job| job.stored.record.id != *id);
                self.decisions.retain(|decision| decision.job != *id);
            }
            let record = counted.iter().rev().find_map(|change| match change {
                Change::Core(Write::Job(record)) => Some(record),
                _ => None,
            });
            if let Some(record) = record {
                self.put(record);
            }
            if let Some(job) = self.jobs.iter_mut().find(|job| job.stored.record.id == *id) {
                counted.into_iter().for_each(|change| job.add(change));
            }
        }
        for (at, change) in changes.iter().enumerate() {
            let is_deleted =
                || changes[at..].iter().any(|later| is_deletion(later) && about(later) == about(change));
            match change {
                Change::Event(event) => self.events.push(event.clone()),
                Change::Core(Write::Decision(decision))
                    if !is_deleted() && self.job(&decision.job).is_some() =>
                {
                    self.decisions.push((**decision).clone());
                }
                _ => {}
            }
        }
        let gone = self.events.len().saturating_sub(usize::try_from(self.options.events).unwrap());
        self.events.drain(..gone);
        let mut newer = BTreeMap::<JobId, usize>::new();
        let mut kept = self.decisions.split_off(0);
        kept.reverse();
        kept.retain(|decision| {
            let newer = newer.entry(decision.job.clone()).or_default();
            *newer += 1;
            *newer <= self.options.decisions_per_job
        });
        kept.reverse();
        self.decisions = kept;
    }

    fn put(&mut self, record: &JobRecord) {
        let known = self.jobs.iter().position(|job| job.stored.record.id == record.id);
        let at = known.unwrap_or_else(|| {
            self.jobs.push(Job {
                stored: StoredJob { record: record.clone(), payload: None, seen: None },
                clusters: BTreeSet::new(),
                attempts: BTreeMap::new(),
                logs: BTreeMap::new(),
            });
            self.jobs.len() - 1
        });
        let job = &mut self.jobs[at];
        job.stored.record = record.clone();
        job.clusters.extend(match &record.phase {
            Phase::Waiting { .. } => None,
            Phase::Live(live) => Some(live.cluster.clone()),
            Phase::Ended(ended) => ended.cluster.clone(),
        });
    }

    fn job(&self, id: &JobId) -> Option<&Job> {
        self.jobs.iter().find(|job| job.stored.record.id == *id)
    }

    /// The answers to all queries.
    pub(crate) fn answers(&self, ids: &[&str], filters: &[JobFilter], limit: usize) -> Vec<String> {
        let mut answers = Vec::new();
        for id in ids.iter().map(id) {
            let job = self.job(&id);
            answers.push(format!("{:?}", job.map(|job| &job.stored)));
            answers.push(format!("{:?}", job.and_then(|job| job.stored.payload.as_ref())));
            let attempts: Vec<_> = job.iter().flat_map(|job| job.attempts.values()).collect();
            answers.push(format!("{attempts:?}"));
            let decisions: Vec<_> =
                self.decisions.iter().rev().filter(|decision| decision.job == id).collect();
            answers.push(format!("{decisions:?}"));
            let events = self.events.iter().filter(|event| event.seq > 3 && event.job.as_ref() == Some(&id));
            answers.push(format!("{:?}", events.take(limit).collect::<Vec<_>>()));
            answers.push(format!("{:?}", job.and_then(|job| job.logs.values().last())));
            for attempt in [1, 2].map(Attempt) {
                answers.push(format!("{:?}", job.and_then(|job| job.logs.get(&attempt))));
            }
        }
        answers.push(format!("{:?}", self.decisions.iter().rev().collect::<Vec<_>>()));
        answers.push(format!("{:?}", self.events));
        for filter in filters {
            let found = self.jobs.iter().rev().filter(|job| job.matches(filter));
            let ids: Vec<_> = found.map(|job| job.stored.record.id.to_string()).collect();
            answers.push(format!("{filter:?}: {ids:?}"));
        }
        answers
    }
}

impl Job {
    fn add(&mut self, change: &Change) {
        match change {
            Change::Payload { payload, .. } => self.stored.payload = Some((**payload).clone()),
            Change::Logs(piece) => drop(self.logs.insert(piece.attempt, only(piece))),
            Change::Seen { attempt, seen, .. } => self.stored.seen = Some((*attempt, seen.clone())),
            Change::Core(Write::Attempt(attempt)) => {
                self.clusters.insert(attempt.live.cluster.clone());
                self.attempts.insert(attempt.live.attempt, (**attempt).clone());
            }
            _ => {}
        }
    }

    fn matches(&self, filter: &JobFilter) -> bool {
        let record = &self.stored.record;
        (filter.states.is_empty() || filter.states.contains(&record.state()))
            && filter.kind.is_none_or(|kind| kind == record.work.kind)
            && filter.cluster.as_ref().is_none_or(|cluster| self.clusters.contains(cluster))
            && (filter.owner.is_none() || filter.owner == record.work.owner)
            && filter.tags.iter().all(|tag| record.work.tags.contains(tag))
            && filter.id_contains.as_ref().is_none_or(|part| record.id.as_str().contains(part))
            && filter.search.as_ref().is_none_or(|search| {
                let entrypoint = self.stored.payload.as_ref().map(|payload| payload.entrypoint.as_str());
                search.finds(record.id.as_str(), entrypoint, record.work.tags.iter().map(Tag::as_str))
            })
    }
}

/// The copy after this piece, which replaces all of the copy. `history.rs` has longer copies.
fn only(piece: &LogPiece) -> (LogCopy, String) {
    let text = String::from_utf8(piece.body.unpack()).unwrap();
    let LogPiece { attempt, truncated, .. } = *piece;
    let (cluster, taken_at) = (piece.cluster.clone(), piece.taken_at.unwrap());
    let copy = LogCopy { attempt, cluster, taken_at, size: text.len() as u64, last: 0, truncated };
    (copy, text)
}

/// The job that this change is about.
fn about(change: &Change) -> Option<&JobId> {
    match change {
        Change::Core(Write::Job(record)) => Some(&record.id),
        Change::Core(Write::DeleteJob(id)) => Some(id),
        Change::Core(Write::Attempt(attempt)) => Some(&attempt.job),
        Change::Core(Write::Decision(decision)) => Some(&decision.job),
        Change::Payload { job, .. } | Change::Seen { job, .. } => Some(job),
        Change::Logs(piece) => Some(&piece.job),
        Change::Core(_) | Change::Event(_) | Change::Sample { .. } => None,
    }
}

fn is_deletion(change: &Change) -> bool {
    matches!(change, Change::Core(Write::DeleteJob(_)))
}
