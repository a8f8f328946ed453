//! Queries of the committed state, on any replica.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use futures_util::{FutureExt, future::BoxFuture};
use multicluster_core::record::AttemptRecord;
use multicluster_types::{Attempt, ClusterName, Decision, JobId, Payload, Span, Timestamp, Work};
use tokio_postgres::{Client, Row, types::Type};

use super::{
    Database, int, list,
    pool::{Param, Pool, rows},
    uint,
};
use crate::{
    FinishedRun, JobFilter, LogCopy, Page, Reader, Sample, SampleStep, StoreError, StoredEvent, StoredJob,
    Waits,
    codec::{Malformed, parse},
    events,
    filter::MAX_PAGE,
    history::{self, Shape},
    packed::unpack,
};

/// Rows of events that are fetched at a time.
const EVENT_ROWS: i64 = 16;

/// Reads the state of one database.
#[derive(Debug)]
pub(super) struct PgReader {
    pool: Pool,
    /// Keeps the connections alive while this reader exists.
    database: Database,
}

impl PgReader {
    pub(super) fn new(pool: Pool, database: Database) -> Self {
        Self { pool, database }
    }

    /// Asks in one consistent view.
    fn ask<T: Send + 'static>(
        &self,
        question: impl for<'c> Fn(&'c Client) -> BoxFuture<'c, Result<T, StoreError>> + Send + Sync + 'static,
    ) -> Result<T, StoreError> {
        let pool = self.pool.clone();
        self.pool.block(async move { pool.view(question).await })
    }
}

impl Reader for PgReader {
    fn job(&self, id: &JobId) -> Result<Option<StoredJob>, StoreError> {
        let id = id.as_str().to_owned();
        let seals = self.database.0.seals.clone();
        self.ask(move |client| list::job(client, seals.clone(), id.clone()).boxed())
    }

    fn payload(&self, job: &JobId) -> Result<Option<Payload>, StoreError> {
        let id = job.as_str().to_owned();
        let sql = "SELECT body FROM multicluster.payloads
                   WHERE job = (SELECT job FROM multicluster.jobs WHERE id = $1)";
        let found = self.ask(move |client| {
            let id = id.clone();
            async move { rows(client, sql, &[(&id, Type::TEXT)]).await }.boxed()
        })?;
        found
            .first()
            .map(|row| list::payload(&self.database.0.seals, job.as_str(), row.try_get(0)?))
            .transpose()
    }

    fn jobs(
        &self,
        filter: &JobFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Page<StoredJob>, StoreError> {
        let filter = Arc::new(filter.clone());
        let seals = self.database.0.seals.clone();
        self.ask(move |client| list::jobs(client, seals.clone(), filter.clone(), before, limit).boxed())
    }

    fn attempts(&self, job: &JobId) -> Result<Vec<AttemptRecord>, StoreError> {
        let id = job.as_str().to_owned();
        let sql = "SELECT record FROM multicluster.attempts
                   WHERE job = (SELECT job FROM multicluster.jobs WHERE id = $1) ORDER BY attempt";
        let found = self.ask(move |client| {
            let id = id.clone();
            async move { rows(client, sql, &[(&id, Type::TEXT)]).await }.boxed()
        })?;
        found.iter().map(|row| Ok(parse("an attempt", row.try_get(0)?)?)).collect()
    }

    fn decisions(
        &self,
        job: Option<&JobId>,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Page<Decision>, StoreError> {
        let limit = limit.clamp(1, MAX_PAGE);
        let (before, count) = (before.map_or(i64::MAX, int), int(limit as u64 + 1));
        let id = job.map(|id| id.as_str().to_owned());
        // One more than requested, to know whether there is a next page.
        let found = self.ask(move |client| {
            let id = id.clone();
            async move {
                let mut params: Vec<Param<'_>> = vec![(&before, Type::INT8), (&count, Type::INT8)];
                let sql = if id.is_some() {
                    params.push((&id, Type::TEXT));
                    "SELECT number, body FROM multicluster.decisions WHERE number < $1
                         AND job = (SELECT job FROM multicluster.jobs WHERE id = $3)
                     ORDER BY number DESC LIMIT $2"
                } else {
                    "SELECT number, body FROM multicluster.decisions WHERE number < $1 ORDER BY number DESC LIMIT $2"
                };
                rows(client, sql, &params).await
            }
            .boxed()
        })?;
        let next = match found.get(limit) {
            Some(_) => Some(uint(found[limit - 1].try_get(0)?)),
            None => None,
        };
        let items = found.iter().take(limit).map(|row| Ok(parse("a decision", row.try_get(1)?)?));
        Ok(Page { items: items.collect::<Result<_, StoreError>>()?, next })
    }

    fn events(
        &self,
        jobs: Option<&BTreeSet<JobId>>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let limit = limit.min(MAX_PAGE);
        let jobs = jobs.cloned().map(Arc::new);
        let kept = int(self.database.0.options.events);
        self.ask(move |client| events_after(client, jobs.clone(), int(after), limit, kept).boxed())
    }

    fn runs(
        &self,
        from: Timestamp,
        until: Timestamp,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Page<FinishedRun>, StoreError> {
        self.ask(move |client| runs(client, (from, until), before, limit).boxed())
    }

    fn waits(&self, from: Timestamp, until: Timestamp, step: Span) -> Result<Vec<Waits>, StoreError> {
        let (from, until, step) = (int(from.0), int(until.0), int(step.0.max(1)));
        let sql = "SELECT started - started % $3, count(*),
                       percentile_disc(ARRAY[0.5, 0.9, 0.99]) WITHIN GROUP (ORDER BY waited)
                   FROM (SELECT ended - lasted + waited AS started, waited / 10 * 10 AS waited
                         FROM multicluster.runs WHERE ended >= $1) AS runs
                   WHERE started >= $1 AND started < $2 GROUP BY 1 ORDER BY 1";
        let found = self.ask(move |client| {
            async move {
                let params: [Param<'_>; 3] = [(&from, Type::INT8), (&until, Type::INT8), (&step, Type::INT8)];
                rows(client, sql, &params).await
            }
            .boxed()
        })?;
        let waits = |row: &Row| {
            let each: Vec<i64> = row.try_get(2)?;
            let at = |nth: usize| Span(each.get(nth).map_or(0, |wait| uint(*wait)));
            let (begun, jobs) = (Timestamp(uint(row.try_get(0)?)), uint(row.try_get(1)?));
            Ok(Waits { begun, jobs, p50: at(0), p90: at(1), p99: at(2) })
        };
        found.iter().map(waits).collect()
    }

    fn samples(
        &self,
        step: SampleStep,
        from: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<Sample>, StoreError> {
        let (step, from, until) = (int(step.span().0 / 1000), int(from.0), int(until.0));
        let sql = "SELECT begun, body FROM multicluster.samples
                   WHERE step = $1 AND begun >= $2 AND begun < $3 ORDER BY begun";
        let found = self.ask(move |client| {
            async move {
                let params: [Param<'_>; 3] = [(&step, Type::INT8), (&from, Type::INT8), (&until, Type::INT8)];
                rows(client, sql, &params).await
            }
            .boxed()
        })?;
        let sample = |row: &Row| {
            let begun = Timestamp(uint(row.try_get(0)?));
            Ok(Sample { begun, ..parse("a sample", row.try_get(1)?)? })
        };
        found.iter().map(sample).collect()
    }

    fn log_copy(&self, job: &JobId, attempt: Option<Attempt>) -> Result<Option<LogCopy>, StoreError> {
        let sql = "SELECT attempt, cluster, taken_at, truncated, size,
                       (SELECT coalesce(max(p.start), 0) FROM multicluster.log_pieces p
                        WHERE p.job = l.job AND p.attempt = l.attempt)
                   FROM multicluster.logs l
                   WHERE job = (SELECT job FROM multicluster.jobs WHERE id = $1) AND ($2::bigint IS NULL OR attempt = $2)
                   ORDER BY attempt DESC LIMIT 1";
        let (id, attempt) = (job.as_str().to_owned(), attempt.map(|attempt| i64::from(attempt.0)));
        let found = self.ask(move |client| {
            let id = id.clone();
            async move { rows(client, sql, &[(&id, Type::TEXT), (&attempt, Type::INT8)]).await }.boxed()
        })?;
        found.first().map(log_copy).transpose()
    }

    fn log_piece(
        &self,
        job: &JobId,
        attempt: Attempt,
        at: u64,
    ) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        let sql = "SELECT start, body FROM multicluster.log_pieces
                   WHERE job = (SELECT job FROM multicluster.jobs WHERE id = $1) AND attempt = $2 AND start <= $3
                   ORDER BY start DESC LIMIT 1";
        let (id, attempt, position) = (job.as_str().to_owned(), i64::from(attempt.0), int(at));
        let found = self.ask(move |client| {
            let id = id.clone();
            async move {
                let params: [Param<'_>; 3] =
                    [(&id, Type::TEXT), (&attempt, Type::INT8), (&position, Type::INT8)];
                rows(client, sql, &params).await
            }
            .boxed()
        })?;
        let Some(row) = found.first() else { return Ok(None) };
        let from = uint(row.try_get(0)?);
        let body = unpack(row.try_get(1)?).map_err(|error| Malformed::new("a log", error))?;
        Ok(Some((from, body)).filter(|(from, body)| at - from < body.len() as u64))
    }
}

fn log_copy(row: &Row) -> Result<LogCopy, StoreError> {
    let number = u32::try_from(row.try_get::<_, i64>(0)?).map_err(|error| Malformed::new("a log", error))?;
    let cluster =
        ClusterName::new(row.try_get::<_, &str>(1)?).map_err(|error| Malformed::new("a log", error))?;
    Ok(LogCopy {
        attempt: Attempt(number),
        cluster,
        taken_at: Timestamp(uint(row.try_get(2)?)),
        truncated: row.try_get(3)?,
        size: uint(row.try_get(4)?),
        last: uint(row.try_get(5)?),
    })
}

/// Events of these jobs or of all. For a few jobs, the server leaves out rows that name none of them.
async fn events_after(
    client: &Client,
    jobs: Option<Arc<BTreeSet<JobId>>>,
    after: i64,
    limit: usize,
    kept: i64,
) -> Result<Vec<StoredEvent>, StoreError> {
    let newest = "SELECT coalesce(max(last), 0) FROM multicluster.events";
    let newest: i64 = client.query_typed_one(newest, &[]).await?.try_get(0)?;
    // Rows are deleted as a whole; a row may begin with events that are beyond the limit.
    let after = after.max(newest.saturating_sub(kept));
    let ids: Option<Vec<Vec<u8>>> = jobs
        .as_ref()
        .filter(|jobs| jobs.len() <= 8)
        .map(|jobs| jobs.iter().map(|id| id.as_str().as_bytes().to_vec()).collect());
    let sql = "SELECT last, body FROM multicluster.events
               WHERE last > $1 AND ($2::bytea[] IS NULL
                   OR EXISTS (SELECT FROM unnest($2::bytea[]) AS id WHERE position(id IN body) > 0))
               ORDER BY last LIMIT $3";
    let (mut found, mut last, mut count) = (Vec::new(), after, EVENT_ROWS);
    while found.len() < limit {
        let params: [Param<'_>; 3] = [(&last, Type::INT8), (&ids, Type::BYTEA_ARRAY), (&count, Type::INT8)];
        let rows = rows(client, sql, &params).await?;
        for row in &rows {
            last = row.try_get(0)?;
            let mut rest: &[u8] = row.try_get(1)?;
            while found.len() < limit && !rest.is_empty() {
                let event = events::next(&mut rest)?;
                let is_of =
                    |jobs: &Arc<BTreeSet<JobId>>| str::from_utf8(event.job).is_ok_and(|id| jobs.contains(id));
                if event.seq > uint(after) && jobs.as_ref().is_none_or(is_of) {
                    found.push(event.event()?);
                }
            }
        }
        if int(rows.len() as u64) < count {
            break;
        }
        count = 64;
    }
    Ok(found)
}

/// Runs that ended at `from` or later and ran before `until`, the latest first.
async fn runs(
    client: &Client,
    (from, until): (Timestamp, Timestamp),
    before: Option<u64>,
    limit: usize,
) -> Result<Page<FinishedRun>, StoreError> {
    let limit = limit.clamp(1, MAX_PAGE);
    let (before, count) = (before.map_or(i64::MAX, int), int(limit as u64 + 1));
    let until = int(until.0);
    let sql = "SELECT r.run, r.shape, r.ended, r.lasted, r.waited, r.ran, r.state::bigint, j.id, j.record
               FROM multicluster.runs r LEFT JOIN multicluster.jobs j ON j.job = r.job
               WHERE r.run < $1 AND r.ended - r.ran < $3 ORDER BY r.run DESC LIMIT $2";
    let mut page = Page { items: Vec::new(), next: None };
    let found =
        rows(client, sql, &[(&before, Type::INT8), (&count, Type::INT8), (&until, Type::INT8)]).await?;
    let numbers: BTreeSet<i64> = found.iter().map(|row| row.try_get(1)).collect::<Result<_, _>>()?;
    let shapes = shapes(client, numbers.into_iter().collect()).await?;
    let mut last = 0;
    for row in &found {
        let ended_at = Timestamp(uint(row.try_get(2)?));
        if ended_at < from {
            break;
        }
        if page.items.len() == limit {
            page.next = Some(last);
            break;
        }
        last = uint(row.try_get(0)?);
        let Some(Shape { cluster, work }) = shapes.get(&row.try_get(1)?) else { continue };
        let submitted_at = Timestamp(ended_at.0.saturating_sub(uint(row.try_get(3)?)));
        let stored = row.try_get::<_, Option<&str>>(7)?.zip(row.try_get::<_, Option<&str>>(8)?);
        page.items.push(FinishedRun {
            job: stored.and_then(|(id, record)| history::job(id, record, submitted_at, ended_at)),
            submitted_at,
            started_at: submitted_at + Span(uint(row.try_get(4)?)),
            ended_at,
            ran: Span(uint(row.try_get(5)?)),
            state: history::state(row.try_get(6)?),
            cluster: cluster.clone(),
            work: Arc::clone(work),
        });
    }
    // A run without its shape is left out: there may be more all the same.
    if page.next.is_none() && page.items.len() < limit && found.len() > limit {
        let last_row = found.last().map(|row| row.try_get::<_, i64>(2)).transpose()?;
        page.next = last_row.filter(|ended| uint(*ended) >= from.0).map(|_| last);
    }
    Ok(page)
}

async fn shapes(client: &Client, numbers: Vec<i64>) -> Result<HashMap<i64, Shape<Arc<Work>>>, StoreError> {
    let sql = "SELECT shape, body FROM multicluster.shapes WHERE shape = ANY($1)";
    let found = rows(client, sql, &[(&numbers, Type::INT8_ARRAY)]).await?;
    found.iter().map(|row| Ok((row.try_get(0)?, parse("a shape of runs", row.try_get(1)?)?))).collect()
}
