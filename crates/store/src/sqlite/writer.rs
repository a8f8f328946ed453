//! The only connection that writes.

use std::{cell::LazyCell, sync::Arc};

use multicluster_core::record::JobRecord;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::{
    checkpoint::Checkpointer,
    disk,
    disk::Home,
    fail::Fail,
    index::Index,
    int, load, reseal,
    runs::{self, Runs},
    schema::{self, STATE},
    statements::Statements,
};
use crate::{
    Change, FinishedRun, Loaded, Options, Sealing, Store, StoreError,
    batch::Batch,
    class,
    codec::{Works, json},
    events, history, packages,
    seal::{Place, SealError, Seals},
};

/// Writes the state of one directory.
pub(super) struct Writer {
    /// Declared before the connection, which must be closed last.
    checkpointer: Checkpointer,
    conn: Connection,
    home: Arc<Home>,
    index: Arc<Index>,
    options: Arc<Options>,
    seals: Seals,
    counters: Counters,
    runs: Runs,
    buffer: Vec<u8>,
    syncs: bool,
}

/// The numbers issued so far.
#[derive(Debug, Clone, Copy)]
struct Counters {
    next_job: i64,
    next_decision: i64,
}

impl Writer {
    pub(super) fn open(
        home: Arc<Home>,
        index: Arc<Index>,
        options: Arc<Options>,
    ) -> Result<(Self, Sealing), StoreError> {
        let path = home.state();
        disk::make_file(&path)?;
        let (mut conn, seals, sealing) =
            reseal::open(&home, &options, || connect(&home, &options)).map_err(|fail| fail.at(&path))?;
        let counters = Counters::of(&conn).map_err(|error| Fail::from(error).at(&path))?;
        load::fill(&conn, &index).map_err(|fail| fail.at(&path))?;
        let checkpointer =
            Checkpointer::start(&mut conn, path.clone(), &options).map_err(|fail| fail.at(&path))?;
        let runs = Runs::load(&conn).map_err(|error| Fail::from(error).at(&path))?;
        let buffer = Vec::new();
        let writer =
            Self { checkpointer, conn, home, index, options, seals, counters, runs, buffer, syncs: true };
        Ok((writer, sealing))
    }

    /// For readers of the same state.
    pub(super) fn seals(&self) -> Seals {
        self.seals.clone()
    }

    /// For tests of internals.
    #[cfg(test)]
    pub(super) fn conn(&self) -> &Connection {
        &self.conn
    }
}

/// Opens and migrates the file. A file that cannot be read without other keys is not changed.
pub(super) fn connect(home: &Home, options: &Options) -> Result<Connection, Fail> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut conn = Connection::open_with_flags(home.state(), flags)?;
    reseal::check(&conn, options.keys.as_ref())?;
    conn.set_prepared_statement_cache_capacity(64);
    // Only for a new file. Twice the default: half as many pages to write when many jobs come at
    // once, and still few bytes when one does.
    conn.pragma_update(None, "page_size", 8192)?;
    schema::make_durable(&conn, options)?;
    // Overwrites deleted data where that costs no extra write: payloads hold secrets.
    conn.pragma_update(None, "secure_delete", "FAST")?;
    conn.pragma_update(None, "cache_size", -64 * 1024)?;
    schema::migrate(&mut conn, STATE)?;
    Ok(conn)
}

impl Counters {
    fn of(conn: &Connection) -> rusqlite::Result<Self> {
        let next = |sql| conn.query_row(sql, [], |row| row.get::<_, i64>(0));
        Ok(Self {
            next_job: next("SELECT coalesce(max(job), -1) + 1 FROM jobs")?,
            next_decision: next("SELECT coalesce(max(number), 0) + 1 FROM decisions")?,
        })
    }
}

impl Store for Writer {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        load::everything(&self.conn, &self.seals).map_err(|fail| fail.at(&self.home.state()))
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        self.add(changes, true)
    }

    /// Data that the kernel has received survives our exit; a later sync of the log includes it.
    fn commit_lightly(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        self.add(changes, false)
    }
}

impl Writer {
    fn add(&mut self, changes: &[Change], sync: bool) -> Result<(), StoreError> {
        if changes.is_empty() {
            return Ok(());
        }
        let batch = Batch::of(changes);
        let written = self.sync_commits(sync).and_then(|()| self.write(&batch));
        written.map_err(|error| Fail::Sql(error).at(&self.home.state()))
    }

    fn sync_commits(&mut self, sync: bool) -> rusqlite::Result<()> {
        if self.options.sync && self.syncs != sync {
            self.conn.pragma_update(None, "synchronous", if sync { "FULL" } else { "NORMAL" })?;
            self.syncs = sync;
        }
        Ok(())
    }

    fn write(&mut self, batch: &Batch<'_>) -> rusqlite::Result<()> {
        let before = self.index.find_all(batch.jobs.iter().map(|job| job.id));
        let tx = Transaction::new(&mut self.conn, TransactionBehavior::Immediate)?;
        let mut writing = Writing {
            sql: Statements::new(&tx)?,
            options: &self.options,
            seals: &self.seals,
            counters: self.counters,
            buffer: &mut self.buffer,
            works: Works::default(),
        };
        // First: what is forgotten in this commit may have run.
        let ended = ended(&tx, batch, &before)?;
        let after = writing.jobs(batch, &before)?;
        let mut added = self.runs.begin();
        for (job, run) in ended {
            added.add(&tx, &self.runs, &run, after[job], writing.buffer)?;
        }
        added.prune(&tx, &self.runs, &self.options)?;
        writing.history(batch, &after)?;
        writing.pool(batch)?;
        writing.events(batch)?;
        writing.samples(batch)?;
        let counters = writing.counters;
        drop(writing);
        tx.commit()?;
        self.checkpointer.committed(&self.conn);
        // Only now: if the commit had failed, nothing would have changed.
        self.counters = counters;
        self.runs.keep(added);
        let moved = batch.jobs.iter().zip(before.into_iter().zip(after));
        self.index.update(moved.filter(|(_, (was, is))| was != is).map(|(job, (_, is))| (job.id, is)));
        Ok(())
    }
}

/// The jobs that ran and that end with this batch, with their place in it.
fn ended(
    conn: &Connection,
    batch: &Batch<'_>,
    before: &[Option<i64>],
) -> rusqlite::Result<Vec<(usize, FinishedRun)>> {
    let mut ended = Vec::new();
    let by_job = LazyCell::new(|| batch.attempts_by_job());
    for (at, is_same_life, record) in batch.ends() {
        let stored = before[at].filter(|_| is_same_life);
        if let Some(job) = stored
            && class::has_ended(
                conn.prepare_cached("SELECT class FROM jobs WHERE job = ?1")?
                    .query_row([job], |row| row.get(0))?,
            )
        {
            continue;
        }
        let attempts = || {
            let mut attempts = stored.map_or(Ok(Vec::new()), |job| runs::attempts(conn, job))?;
            attempts.extend(by_job.get(&at).into_iter().flatten().copied().cloned());
            Ok::<_, rusqlite::Error>(attempts)
        };
        ended.extend(history::of(record, attempts)?.map(|run| (at, run)));
    }
    Ok(ended)
}

/// One commit under way.
struct Writing<'w, 'b> {
    sql: Statements<'w>,
    options: &'w Options,
    seals: &'w Seals,
    counters: Counters,
    buffer: &'w mut Vec<u8>,
    works: Works<'b>,
}

impl<'b> Writing<'_, 'b> {
    /// Jobs and their payloads. Returns the number of each afterwards.
    fn jobs(&mut self, batch: &Batch<'b>, before: &[Option<i64>]) -> rusqlite::Result<Vec<Option<i64>>> {
        let mut after = Vec::with_capacity(before.len());
        for (change, &was) in batch.jobs.iter().zip(before) {
            let mut number = was;
            if let Some(job) = was.filter(|_| change.deleted()) {
                self.sql.forget_job(job)?;
                number = None;
            }
            if let Some(record) = change.record {
                number = Some(self.job(number, record)?);
            }
            if let (Some(job), Some(payload)) = (number, change.payload) {
                let place = Place::Payload(change.id.as_str());
                let stored = self.seals.seal(place, json(self.buffer, payload)?).map_err(failed)?;
                self.sql.payload(job, &stored)?;
                if was.is_some() {
                    self.sql.forget_packages(job)?;
                }
                for sha256 in payload.packages.values().filter_map(|hex| packages::from_hex(hex)) {
                    self.sql.package(job, &sha256)?;
                }
            }
            after.push(number);
        }
        Ok(after)
    }

    fn job(&mut self, number: Option<i64>, record: &'b JobRecord) -> rusqlite::Result<i64> {
        let class = class::of(record);
        let text = self.works.job(self.buffer, record)?;
        let job = match number {
            Some(job) => {
                self.sql.update_job(job, class, text)?;
                job
            }
            None => {
                // The core's own number, as long as that keeps the order of acceptance.
                let job = self.counters.next_job.max(int(record.seq).min(i64::MAX / 2));
                self.counters.next_job = job + 1;
                self.sql.insert_job(job, class, record.id.as_str(), text)?;
                job
            }
        };
        if let Some(cluster) = class::cluster(record) {
            self.sql.cluster_of(job, cluster.as_str(), class)?;
        }
        Ok(job)
    }

    /// Attempts, decisions, logs and sightings of jobs that exist.
    fn history(&mut self, batch: &Batch<'_>, numbers: &[Option<i64>]) -> rusqlite::Result<()> {
        for (job, attempt) in batch.attempts() {
            let Some(job) = numbers[job] else { continue };
            self.sql.attempt(job, attempt.live.attempt.0, json(self.buffer, attempt)?)?;
            self.sql.former_cluster_of(job, attempt.live.cluster.as_str())?;
        }
        let keep = i64::try_from(self.options.decisions_per_job).unwrap_or(i64::MAX);
        for (job, decision) in batch.decisions() {
            let Some(job) = numbers[job] else { continue };
            self.sql.decision(self.counters.next_decision, job, json(self.buffer, decision)?, keep)?;
            self.counters.next_decision += 1;
        }
        for (job, piece) in batch.logs() {
            let Some(job) = numbers[job] else { continue };
            self.sql.log(job, piece)?;
        }
        for (job, (attempt, seen)) in batch.seen() {
            let Some(job) = numbers[job] else { continue };
            self.sql.seen(job, attempt.0, json(self.buffer, seen)?)?;
        }
        Ok(())
    }

    /// Clusters, orphans, policies and the usage of owners, of which there are few.
    fn pool(&mut self, batch: &Batch<'_>) -> rusqlite::Result<()> {
        for (name, record) in &batch.clusters {
            let record = record.map(|record| json(self.buffer, record)).transpose()?;
            let sealed = record.map(|text| self.seals.seal(Place::Cluster(name.as_str()), text));
            self.sql.cluster(name.as_str(), sealed.transpose().map_err(failed)?.as_deref())?;
        }
        for (orphan, there) in &batch.orphans {
            self.sql.orphan(orphan, *there)?;
        }
        for (name, spec) in &batch.policies {
            let spec = spec.map(|spec| json(self.buffer, spec)).transpose()?;
            self.sql.policy(name.as_str(), spec)?;
        }
        for (owner, record) in &batch.usage {
            let record = record.map(|record| json(self.buffer, record)).transpose()?;
            self.sql.usage(owner.as_str(), record)?;
        }
        Ok(())
    }

    fn events(&mut self, batch: &Batch<'_>) -> rusqlite::Result<()> {
        let sql = &mut self.sql;
        events::pack(&batch.events, self.buffer, |last, row| sql.events(int(last), row))?;
        if let Some(newest) = batch.events.last() {
            // At least the newest event stays: the numbers continue from it after a restart.
            self.sql.prune_events(int(newest.seq.saturating_sub(self.options.events.max(1))))?;
        }
        Ok(())
    }

    fn samples(&mut self, batch: &Batch<'_>) -> rusqlite::Result<()> {
        for ((step, begun), sample) in &batch.samples {
            let (seconds, begun) = (int(step.span().0 / 1000), int(begun.0));
            self.sql.sample(seconds, begun, json(self.buffer, sample)?, begun - int(step.kept_for().0))?;
        }
        Ok(())
    }
}

fn failed(error: SealError) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(error))
}
