//! Answers from memory.

use std::collections::BTreeSet;

use multicluster_core::record::AttemptRecord;
use multicluster_types::{Attempt, Decision, JobId, Payload, Tag};

use super::{Job, Shared};
use crate::{JobFilter, LogCopy, Page, Reader, StoreError, StoredEvent, StoredJob};

/// The most a caller gets at once, as on disk.
const MAX_PAGE: usize = 10_000;

#[derive(Debug)]
pub(super) struct MemoryReader(Shared);

impl MemoryReader {
    pub(super) fn new(state: Shared) -> Self {
        Self(state)
    }
}

impl Reader for MemoryReader {
    fn job(&self, id: &JobId) -> Result<Option<StoredJob>, StoreError> {
        Ok(self.0.read().job(id).map(stored))
    }

    fn payload(&self, id: &JobId) -> Result<Option<Payload>, StoreError> {
        Ok(self.0.read().job(id).and_then(|job| job.payload.clone()))
    }

    fn jobs(
        &self,
        filter: &JobFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Page<StoredJob>, StoreError> {
        let state = self.0.read();
        let below = state.jobs.range(..before.unwrap_or(u64::MAX)).rev();
        let found = below.filter(|(_, job)| matches(filter, job));
        Ok(page(found.map(|(number, job)| (*number, job)), limit, stored, StoredJob::size))
    }

    fn attempts(&self, job: &JobId) -> Result<Vec<AttemptRecord>, StoreError> {
        Ok(self.0.read().job(job).map(|job| job.attempts.values().cloned().collect()).unwrap_or_default())
    }

    fn decisions(
        &self,
        job: Option<&JobId>,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Page<Decision>, StoreError> {
        let state = self.0.read();
        let below = state.decisions.range(..before.unwrap_or(u64::MAX)).rev();
        let found = below.filter(|(_, decision)| job.is_none_or(|id| decision.job == *id));
        Ok(page(found.map(|(number, decision)| (*number, decision)), limit, Decision::clone, |_| 0))
    }

    fn events(
        &self,
        jobs: Option<&BTreeSet<JobId>>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let state = self.0.read();
        let later = state.events.range(after.saturating_add(1)..).map(|(_, event)| event);
        let is_of = |event: &StoredEvent, jobs: &BTreeSet<JobId>| {
            event.job.as_ref().is_some_and(|id| jobs.contains(id))
        };
        let found = later.filter(|event| jobs.is_none_or(|jobs| is_of(event, jobs)));
        Ok(found.take(limit.min(MAX_PAGE)).cloned().collect())
    }

    fn logs(&self, job: &JobId, attempt: Option<Attempt>) -> Result<Option<LogCopy>, StoreError> {
        Ok(self.0.read().job(job).and_then(|job| match attempt {
            Some(attempt) => job.logs.get(&attempt).cloned(),
            None => job.logs.last_key_value().map(|(_, copy)| copy.clone()),
        }))
    }
}

fn stored(job: &Job) -> StoredJob {
    StoredJob { record: job.record.clone(), payload: job.payload.clone(), seen: job.seen.clone() }
}

fn matches(filter: &JobFilter, job: &Job) -> bool {
    let record = &job.record;
    (filter.states.is_empty() || filter.states.contains(&record.state()))
        && filter.kind.is_none_or(|kind| kind == record.work.kind)
        && filter.cluster.as_ref().is_none_or(|cluster| job.clusters.contains(cluster))
        && (filter.owner.is_none() || filter.owner == record.work.owner)
        && filter.tags.iter().all(|tag| record.work.tags.contains(tag))
        && filter.id_contains.as_ref().is_none_or(|part| record.id.as_str().contains(part))
        && filter.search.as_ref().is_none_or(|search| {
            let entrypoint = job.payload.as_ref().map(|payload| payload.entrypoint.as_str());
            search.finds(record.id.as_str(), entrypoint, record.work.tags.iter().map(Tag::as_str))
        })
}

fn page<'a, T: 'a, U>(
    found: impl Iterator<Item = (u64, &'a T)>,
    limit: usize,
    answer: impl Fn(&T) -> U,
    size: impl Fn(&U) -> usize,
) -> Page<U> {
    let limit = limit.clamp(1, MAX_PAGE);
    let mut page = Page { items: Vec::new(), next: None };
    let (mut last, mut bytes) = (0, 0);
    for (number, item) in found {
        if page.items.len() == limit || bytes >= StoredJob::PAGE {
            page.next = Some(last);
            break;
        }
        last = number;
        let item = answer(item);
        bytes += size(&item);
        page.items.push(item);
    }
    page
}
