//! Queries of the committed state.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
    thread,
    time::Duration,
};

use multicluster_core::record::AttemptRecord;
use multicluster_types::{Attempt, Decision, JobId, Payload, Span, Timestamp};
use rusqlite::{Connection, Row, params};
use serde::de::DeserializeOwned;

use super::{disk::Home, fail::Fail, index::Index, int, list, logs, pool::Pool, runs, uint};
use crate::{
    FinishedRun, JobFilter, LogCopy, Options, Page, Reader, Sample, SampleStep, StoreError, StoredEvent,
    StoredJob, Waits, codec, events, filter::MAX_PAGE, seal::Seals,
};

/// Reads the state of one directory.
#[derive(Debug)]
pub(super) struct SqliteReader {
    pool: Pool,
    index: Arc<Index>,
    options: Arc<Options>,
    seals: Seals,
    /// Keeps the directory locked while this reader exists.
    _home: Arc<Home>,
}

impl SqliteReader {
    pub(super) fn open(home: Arc<Home>, index: Arc<Index>, options: Arc<Options>, seals: Seals) -> Self {
        Self { pool: Pool::new(home.state(), options.readers), index, options, seals, _home: home }
    }

    /// The packages that stored jobs need.
    pub(super) fn needed_packages(&self) -> Result<HashSet<[u8; 32]>, StoreError> {
        self.ask(|conn| {
            let mut statement = conn.prepare_cached("SELECT DISTINCT sha256 FROM job_packages")?;
            let rows = statement.query_map([], |row| row.get(0))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    fn ask<T>(&self, question: impl FnOnce(&Connection) -> Result<T, Fail>) -> Result<T, StoreError> {
        self.pool.with(question).map_err(|fail: Fail| fail.at(self.pool.path()))
    }

    /// Queries one job by its number; `None` if there is no such job.
    fn ask_job<T>(
        &self,
        id: &JobId,
        question: impl Fn(&Connection, i64) -> Result<Option<T>, Fail>,
    ) -> Result<Option<T>, StoreError> {
        // Between a commit and the update of the index, the index has an old number for a job
        // that was deleted and submitted again. That lasts microseconds.
        for _ in 0..100 {
            let Some(job) = self.index.find(id) else { return Ok(None) };
            let answer = self.ask(|conn| {
                let answer = question(conn, job)?;
                let there = answer.is_some() || exists(conn, job)?;
                Ok((answer, there))
            })?;
            match answer {
                (answer, true) => return Ok(answer),
                (_, false) => thread::sleep(Duration::from_micros(100)),
            }
        }
        Ok(None)
    }
}

impl Reader for SqliteReader {
    fn job(&self, id: &JobId) -> Result<Option<StoredJob>, StoreError> {
        self.ask_job(id, |conn, job| list::job(conn, &self.seals, job, &JobFilter::default()))
    }

    fn payload(&self, id: &JobId) -> Result<Option<Payload>, StoreError> {
        self.ask_job(id, |conn, job| list::payload(conn, &self.seals, job, id.as_str()))
    }

    fn jobs(
        &self,
        filter: &JobFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Page<StoredJob>, StoreError> {
        self.ask(|conn| list::jobs(conn, &self.seals, filter, before, limit))
    }

    fn attempts(&self, job: &JobId) -> Result<Vec<AttemptRecord>, StoreError> {
        let found = self.ask_job(job, |conn, job| {
            let mut statement =
                conn.prepare_cached("SELECT record FROM attempts WHERE job = ?1 ORDER BY attempt")?;
            let mut rows = statement.query([job])?;
            let mut attempts = Vec::new();
            while let Some(row) = rows.next()? {
                attempts.push(parse("an attempt", row, 0)?);
            }
            Ok(Some(attempts).filter(|attempts| !attempts.is_empty()))
        })?;
        Ok(found.unwrap_or_default())
    }

    fn decisions(
        &self,
        job: Option<&JobId>,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Page<Decision>, StoreError> {
        let limit = limit.clamp(1, MAX_PAGE);
        let before = before.map_or(i64::MAX, int);
        match job {
            None => self.ask(|conn| {
                let sql = "SELECT number, body FROM decisions WHERE number < ?1 AND ?2 IS NULL
                           ORDER BY number DESC LIMIT ?3";
                decisions(conn, sql, None, before, limit)
            }),
            Some(id) => {
                let page = self.ask_job(id, |conn, job| {
                    let sql = "SELECT number, body FROM decisions WHERE number < ?1 AND job = ?2
                               ORDER BY number DESC LIMIT ?3";
                    decisions(conn, sql, Some(job), before, limit)
                        .map(|page| Some(page).filter(|page| !page.items.is_empty()))
                })?;
                Ok(page.unwrap_or(Page { items: Vec::new(), next: None }))
            }
        }
    }

    fn events(
        &self,
        jobs: Option<&BTreeSet<JobId>>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let limit = limit.min(MAX_PAGE);
        self.ask(|conn| {
            let newest: i64 = conn
                .prepare_cached("SELECT coalesce(max(last), 0) FROM events")?
                .query_row([], |row| row.get(0))?;
            // Rows are deleted as a whole; a row may begin with events that are beyond the limit.
            let after = after.max(uint(newest).saturating_sub(self.options.events));
            let mut statement =
                conn.prepare_cached("SELECT body FROM events WHERE last > ?1 ORDER BY last")?;
            let mut rows = statement.query([int(after)])?;
            let mut found = Vec::new();
            while found.len() < limit
                && let Some(row) = rows.next()?
            {
                let mut rest = row.get_ref(0)?.as_blob()?;
                while found.len() < limit && !rest.is_empty() {
                    let event = events::next(&mut rest)?;
                    let is_of =
                        |jobs: &BTreeSet<JobId>| str::from_utf8(event.job).is_ok_and(|id| jobs.contains(id));
                    if event.seq > after && jobs.is_none_or(is_of) {
                        found.push(event.event()?);
                    }
                }
            }
            Ok(found)
        })
    }

    fn runs(
        &self,
        from: Timestamp,
        until: Timestamp,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Page<FinishedRun>, StoreError> {
        self.ask(|conn| runs::page(conn, from, until, before, limit))
    }

    fn waits(&self, from: Timestamp, until: Timestamp, step: Span) -> Result<Vec<Waits>, StoreError> {
        self.ask(|conn| runs::waits(conn, from, until, step))
    }

    fn samples(
        &self,
        step: SampleStep,
        from: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<Sample>, StoreError> {
        self.ask(|conn| {
            let mut statement = conn.prepare_cached(
                "SELECT begun, body FROM samples WHERE step = ?1 AND begun >= ?2 AND begun < ?3 ORDER BY begun",
            )?;
            let mut rows = statement.query([int(step.span().0 / 1000), int(from.0), int(until.0)])?;
            let mut samples = Vec::new();
            while let Some(row) = rows.next()? {
                let begun = Timestamp(uint(row.get(0)?));
                samples.push(Sample { begun, ..parse("a sample", row, 1)? });
            }
            Ok(samples)
        })
    }

    fn log_copy(&self, job: &JobId, attempt: Option<Attempt>) -> Result<Option<LogCopy>, StoreError> {
        self.ask_job(job, |conn, number| logs::copy(conn, number, attempt))
    }

    fn log_piece(
        &self,
        job: &JobId,
        attempt: Attempt,
        at: u64,
    ) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        self.ask_job(job, |conn, number| logs::piece(conn, number, attempt, at))
    }
}

fn exists(conn: &Connection, job: i64) -> Result<bool, Fail> {
    Ok(conn.prepare_cached("SELECT 1 FROM jobs WHERE job = ?1")?.exists([job])?)
}

fn decisions(
    conn: &Connection,
    sql: &str,
    job: Option<i64>,
    before: i64,
    limit: usize,
) -> Result<Page<Decision>, Fail> {
    let mut statement = conn.prepare_cached(sql)?;
    // One more than requested, to know whether there is a next page.
    let mut rows = statement.query(params![before, job, int(limit as u64 + 1)])?;
    let mut page = Page { items: Vec::new(), next: None };
    let mut last = 0;
    while let Some(row) = rows.next()? {
        if page.items.len() == limit {
            page.next = Some(uint(last));
            break;
        }
        last = row.get(0)?;
        page.items.push(parse("a decision", row, 1)?);
    }
    Ok(page)
}

/// Parses a record that was stored as JSON.
pub(super) fn parse<T: DeserializeOwned>(what: &str, row: &Row<'_>, column: usize) -> Result<T, Fail> {
    Ok(codec::parse(what, row.get_ref(column)?.as_str()?)?)
}
