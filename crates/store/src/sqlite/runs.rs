//! The history of jobs that ran: about 35 bytes each, because what runs have in common (work and
//! cluster, a *shape*) is stored once.
//!
//! Shapes are found again through a map in memory that has at most `WINDOW` of the latest ones. So a
//! run never refers to a shape that is more than `WINDOW` older than the newest, and shapes that far
//! before the shape of the oldest run are not needed by any run.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use multicluster_core::record::AttemptRecord;
use multicluster_types::{Span, Timestamp, Work};
use rusqlite::{Connection, OptionalExtension, Result, params};

use super::{fail::Fail, int, reader, uint};
use crate::{
    FinishedRun, Options, Page,
    filter::MAX_PAGE,
    history::{self, STEP, Shape, WINDOW, code, state},
    samples::{Waiting, Waits},
};

/// The shapes that are found again, and the numbers issued so far.
#[derive(Debug, Clone)]
pub(super) struct Runs {
    shapes: HashMap<String, i64>,
    numbers: Numbers,
}

#[derive(Debug, Clone, Copy)]
struct Numbers {
    next_run: i64,
    /// Runs before this one are forgotten.
    first_run: i64,
    next_shape: i64,
    /// The size of all shapes.
    bytes: i64,
}

/// One commit's changes, to be kept if the commit is.
#[derive(Debug)]
pub(super) struct Added {
    shapes: HashMap<String, i64>,
    numbers: Numbers,
}

impl Runs {
    pub(super) fn load(conn: &Connection) -> Result<Self> {
        let (first_run, next_run) =
            conn.query_row("SELECT coalesce(min(run), 1), coalesce(max(run), 0) + 1 FROM runs", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        let (next_shape, bytes) = conn.query_row(
            "SELECT coalesce(max(shape), 0) + 1, coalesce(sum(length(CAST(body AS BLOB))), 0) FROM shapes",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let mut statement =
            conn.prepare("SELECT body, shape FROM shapes WHERE shape >= ?1 ORDER BY shape")?;
        let rows = statement.query_map([next_shape - WINDOW], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let shapes = rows.collect::<Result<_>>()?;
        Ok(Self { shapes, numbers: Numbers { next_run, first_run, next_shape, bytes } })
    }

    /// Begins a commit.
    pub(super) fn begin(&self) -> Added {
        Added { shapes: HashMap::new(), numbers: self.numbers }
    }

    /// The commit was made.
    pub(super) fn keep(&mut self, added: Added) {
        self.numbers = added.numbers;
        self.shapes.extend(added.shapes);
        // Not with every commit: it looks at all of them.
        if self.shapes.len() > 2 * usize::try_from(WINDOW).unwrap_or(0) {
            let oldest = self.numbers.next_shape - WINDOW;
            self.shapes.retain(|_, number| *number > oldest);
        }
    }
}

impl Added {
    /// Writes one run, of the job that is stored under this number.
    pub(super) fn add(
        &mut self,
        conn: &Connection,
        known: &Runs,
        run: &FinishedRun,
        job: Option<i64>,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        let shape = self.shape(conn, known, run, buffer)?;
        let lasted = run.ended_at.since(run.submitted_at);
        let waited = run.started_at.since(run.submitted_at);
        conn.prepare_cached(
            "INSERT INTO runs (run, shape, ended, lasted, waited, ran, state, job)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            self.numbers.next_run,
            shape,
            int(run.ended_at.0),
            int(lasted.0),
            int(waited.0),
            int(run.ran.0),
            code(run.state),
            job
        ])?;
        self.numbers.next_run += 1;
        Ok(())
    }

    fn shape(
        &mut self,
        conn: &Connection,
        known: &Runs,
        run: &FinishedRun,
        buffer: &mut Vec<u8>,
    ) -> Result<i64> {
        let text = history::shape(buffer, run)?;
        let number = self.shapes.get(text).or_else(|| known.shapes.get(text)).copied();
        if let Some(number) = number.filter(|number| *number > self.numbers.next_shape - WINDOW) {
            return Ok(number);
        }
        let number = self.numbers.next_shape;
        conn.prepare_cached("INSERT INTO shapes (shape, body) VALUES (?1, ?2)")?
            .execute(params![number, text])?;
        self.numbers.next_shape += 1;
        self.numbers.bytes += int(text.len() as u64);
        self.shapes.insert(text.to_owned(), number);
        Ok(number)
    }

    /// Forgets the oldest runs if there are too many or they are too old: not many more than were
    /// added, so that no commit takes long.
    pub(super) fn prune(&mut self, conn: &Connection, before: &Runs, options: &Options) -> Result<()> {
        let added = self.numbers.next_run - before.numbers.next_run;
        if added == 0 {
            return Ok(());
        }
        let Numbers { next_run, first_run, bytes, .. } = self.numbers;
        let up_to = (first_run + 2 * added + STEP).min(next_run - 1);
        let newest: i64 = conn
            .prepare_cached("SELECT max(ended) FROM runs WHERE run >= ?1")?
            .query_row([before.numbers.next_run], |row| row.get(0))?;
        let cutoff =
            newest.saturating_sub(int(u64::try_from(options.runs_for.as_millis()).unwrap_or(u64::MAX)));
        let too_large = history::is_too_large(bytes, options);
        let keep_from = if too_large { up_to } else { next_run.saturating_sub(int(options.runs.max(1))) };
        conn.prepare_cached("DELETE FROM runs WHERE run < ?1 AND (run < ?2 OR ended < ?3)")?
            .execute(params![up_to, keep_from, cutoff])?;
        let oldest: Option<(i64, i64)> = conn
            .prepare_cached("SELECT run, shape FROM runs ORDER BY run LIMIT 1")?
            .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((first, shape)) = oldest.filter(|(first, _)| *first > first_run) else { return Ok(()) };
        self.numbers.first_run = first;
        let mut forget =
            conn.prepare_cached("DELETE FROM shapes WHERE shape <= ?1 RETURNING length(CAST(body AS BLOB))")?;
        let sizes = forget.query_map([shape - WINDOW], |row| row.get::<_, i64>(0))?;
        for size in sizes {
            self.numbers.bytes -= size?;
        }
        Ok(())
    }
}

/// The stored attempts of a job.
pub(super) fn attempts(conn: &Connection, job: i64) -> Result<Vec<AttemptRecord>> {
    let mut statement = conn.prepare_cached("SELECT record FROM attempts WHERE job = ?1")?;
    let mut rows = statement.query([job])?;
    let mut attempts = Vec::new();
    while let Some(row) = rows.next()? {
        // A commit does not fail because of a record that cannot be read.
        attempts.extend(reader::parse::<AttemptRecord>("an attempt", row, 0).ok());
    }
    Ok(attempts)
}

/// Runs that ended at `from` or later and ran before `until`, the latest first.
pub(super) fn page(
    conn: &Connection,
    from: Timestamp,
    until: Timestamp,
    before: Option<u64>,
    limit: usize,
) -> std::result::Result<Page<FinishedRun>, Fail> {
    let limit = limit.clamp(1, MAX_PAGE);
    let mut statement = conn.prepare_cached(
        "SELECT r.run, r.shape, r.ended, r.lasted, r.waited, r.ran, r.state, j.id, j.record
         FROM runs r LEFT JOIN jobs j ON j.job = r.job WHERE r.run < ?1 AND r.ended - r.ran < ?2 ORDER BY r.run DESC",
    )?;
    let mut rows = statement.query([before.map_or(i64::MAX, int), int(until.0)])?;
    let mut shapes: HashMap<i64, Option<Shape<Arc<Work>>>> = HashMap::new();
    let mut page = Page { items: Vec::new(), next: None };
    let mut last = 0;
    while let Some(row) = rows.next()? {
        let ended_at = Timestamp(uint(row.get(2)?));
        if ended_at < from {
            break;
        }
        if page.items.len() == limit {
            page.next = Some(uint(last));
            break;
        }
        last = row.get(0)?;
        let number = row.get(1)?;
        let shape = match shapes.entry(number) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(shape(conn, number)?),
        };
        let Some(Shape { cluster, work }) = shape else { continue };
        let submitted_at = Timestamp(ended_at.0.saturating_sub(uint(row.get(3)?)));
        let stored = row.get_ref(7)?.as_str_or_null()?.zip(row.get_ref(8)?.as_str_or_null()?);
        page.items.push(FinishedRun {
            job: stored.and_then(|(id, record)| history::job(id, record, submitted_at, ended_at)),
            submitted_at,
            started_at: submitted_at + Span(uint(row.get(4)?)),
            ended_at,
            ran: Span(uint(row.get(5)?)),
            state: state(row.get(6)?),
            cluster: cluster.clone(),
            work: Arc::clone(work),
        });
    }
    Ok(page)
}

/// How long the jobs waited that started between these two.
pub(super) fn waits(
    conn: &Connection,
    from: Timestamp,
    until: Timestamp,
    step: Span,
) -> std::result::Result<Vec<Waits>, Fail> {
    let step = step.0.max(1);
    let mut statement = conn.prepare_cached("SELECT ended, lasted, waited FROM runs ORDER BY run DESC")?;
    let mut rows = statement.query([])?;
    let mut waiting = Waiting::default();
    while let Some(row) = rows.next()? {
        let (ended, lasted, waited) = (uint(row.get(0)?), uint(row.get(1)?), uint(row.get(2)?));
        if ended < from.0 {
            break;
        }
        let started = Timestamp(ended.saturating_sub(lasted) + waited);
        if (from..until).contains(&started) {
            waiting.add(Timestamp(started.0 - started.0 % step), Span(waited));
        }
    }
    Ok(waiting.finish())
}

fn shape(conn: &Connection, number: i64) -> std::result::Result<Option<Shape<Arc<Work>>>, Fail> {
    let mut statement = conn.prepare_cached("SELECT body FROM shapes WHERE shape = ?1")?;
    let mut rows = statement.query([number])?;
    rows.next()?.map(|row| reader::parse("a shape of runs", row, 0)).transpose()
}
