//! Jobs one by one and in pages.

use multicluster_core::record::JobRecord;
use multicluster_types::{Attempt, Payload};
use rusqlite::{Connection, OptionalExtension, params};

use super::{fail::Fail, int, reader::parse, uint};
use crate::{
    JobFilter, Page, Search, Seen, StoredJob, class,
    filter::{self, MAX_LOOKS, MAX_PAGE},
    seal::{Place, Seals},
};

/// One page, the latest accepted first.
pub(super) fn jobs(
    conn: &Connection,
    seals: &Seals,
    filter: &JobFilter,
    before: Option<u64>,
    limit: usize,
) -> Result<Page<StoredJob>, Fail> {
    // One consistent view for all statements.
    let _view = conn.unchecked_transaction()?;
    let limit = limit.clamp(1, MAX_PAGE);
    let stride = filter::stride(filter, limit);
    let mut items = Vec::new();
    let mut last = before.map_or(i64::MAX, int);
    let (mut looks, mut bytes) = (0, 0);
    loop {
        let candidates = candidates(conn, filter, last, stride)?;
        let more = candidates.len() == stride;
        for job in candidates {
            if items.len() == limit || looks == MAX_LOOKS || bytes >= StoredJob::PAGE {
                return Ok(Page { items, next: Some(uint(last)) });
            }
            looks += 1;
            last = job;
            let found = self::job(conn, seals, job, filter)?;
            bytes += found.as_ref().map_or(0, StoredJob::size);
            items.extend(found);
        }
        if !more {
            return Ok(Page { items, next: None });
        }
    }
}

/// The latest `count` jobs below a number that an index finds for the filter.
fn candidates(conn: &Connection, filter: &JobFilter, below: i64, count: usize) -> Result<Vec<i64>, Fail> {
    let mut found = Vec::new();
    let limit = int(count as u64);
    if let Some(cluster) = &filter.cluster {
        let sql = "SELECT job FROM job_clusters WHERE cluster = ?1 AND class = ?2 AND job < ?3
                   ORDER BY job DESC LIMIT ?4";
        let mut statement = conn.prepare_cached(sql)?;
        for class in class::codes(filter) {
            let rows = statement
                .query_map(params![cluster.as_str(), class, below, limit], |row| row.get::<_, i64>(0))?;
            extend(&mut found, rows)?;
        }
    } else if let Some(classes) = class::wanted(filter) {
        let sql = "SELECT job FROM jobs WHERE class = ?1 AND job < ?2 ORDER BY job DESC LIMIT ?3";
        let mut statement = conn.prepare_cached(sql)?;
        for class in classes {
            extend(&mut found, statement.query_map(params![class, below, limit], |row| row.get(0))?)?;
        }
    } else {
        let sql = "SELECT job FROM jobs WHERE job < ?1 ORDER BY job DESC LIMIT ?2";
        let mut statement = conn.prepare_cached(sql)?;
        extend(&mut found, statement.query_map(params![below, limit], |row| row.get(0))?)?;
        return Ok(found);
    }
    // Each class is sorted: the latest of all are among the latest of each.
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.truncate(count);
    Ok(found)
}

fn extend(found: &mut Vec<i64>, rows: impl Iterator<Item = rusqlite::Result<i64>>) -> Result<(), Fail> {
    rows.into_iter().try_for_each(|row| {
        found.push(row?);
        Ok(())
    })
}

/// One job by its number, if it exists and its record matches the rest of the filter.
pub(super) fn job(
    conn: &Connection,
    seals: &Seals,
    job: i64,
    filter: &JobFilter,
) -> Result<Option<StoredJob>, Fail> {
    let mut statement = conn.prepare_cached("SELECT id, record FROM jobs WHERE job = ?1")?;
    let mut rows = statement.query([job])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let id = row.get_ref(0)?.as_str()?;
    // Most jobs are ruled out by their text; only the others are parsed.
    let text = row.get_ref(1)?.as_str()?;
    if !filter::may_match(filter, id, text, |search| may_run(conn, seals, job, id, search))? {
        return Ok(None);
    }
    let record: JobRecord = parse(id, row, 1)?;
    let payload = payload(conn, seals, job, id)?;
    if !filter::matches(filter, &record, payload.as_ref()) {
        return Ok(None);
    }
    Ok(Some(StoredJob { record, payload, seen: seen(conn, job)? }))
}

fn seen(conn: &Connection, job: i64) -> Result<Option<(Attempt, Seen)>, Fail> {
    let mut statement = conn.prepare_cached("SELECT attempt, body FROM seen WHERE job = ?1")?;
    let found =
        statement.query_row([job], |row| Ok((row.get(0)?, parse("what was seen", row, 1)))).optional()?;
    found.map(|(attempt, seen)| Ok((Attempt(attempt), seen?))).transpose()
}

/// The payload of a job, by its number.
pub(super) fn payload(conn: &Connection, seals: &Seals, job: i64, id: &str) -> Result<Option<Payload>, Fail> {
    with_payload(conn, seals, job, id, |text| {
        serde_json::from_str(text).map_err(|error| Fail::bad("a payload", error))
    })
}

/// Could the payload of this job contain the text?
fn may_run(conn: &Connection, seals: &Seals, job: i64, id: &str, search: &Search) -> Result<bool, Fail> {
    Ok(with_payload(conn, seals, job, id, |text| Ok(search.may_be_in(text)))?.unwrap_or(false))
}

fn with_payload<T>(
    conn: &Connection,
    seals: &Seals,
    job: i64,
    id: &str,
    read: impl FnOnce(&str) -> Result<T, Fail>,
) -> Result<Option<T>, Fail> {
    let mut statement = conn.prepare_cached("SELECT body FROM payloads WHERE job = ?1")?;
    let mut rows = statement.query([job])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let text = seals
        .open(Place::Payload(id), row.get_ref(0)?.as_str()?)
        .map_err(|error| Fail::bad(format_args!("the payload of job {id}"), error))?;
    read(&text).map(Some)
}
