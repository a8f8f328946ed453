//! From a batch of changes to the statements that store it. Nothing is sent here, and nothing in memory
//! changes before it is known to be stored: so the same statements can be sent again.
//!
//! All records are turned into text here, and nowhere else.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
};

use multicluster_core::record::{AttemptRecord, JobRecord};
use multicluster_types::JobId;

use super::{
    int,
    pipe::{Cell, Param, Statement, Table},
    runs::{Kept, Runs},
};
use crate::{
    LogPiece, Options, StoreError,
    batch::Batch,
    class,
    codec::{Malformed, Works, json},
    events, history, packages,
    seal::{Place, SealError, Seals},
};

/// What the leader remembers of each stored job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) number: i64,
    pub(super) class: i64,
}

/// What the leader remembers of the database.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) jobs: HashMap<JobId, Stored>,
    pub(super) next_job: i64,
    pub(super) next_decision: i64,
    pub(super) runs: Runs,
}

/// What a batch does.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) statements: Vec<Statement>,
    moved: Vec<(JobId, Option<Stored>)>,
    next_job: i64,
    next_decision: i64,
    runs: Kept,
    /// The statement whose answer says what was forgotten of the history.
    pub(super) pruned: Option<usize>,
}

impl Memory {
    /// The plan was carried out.
    pub(super) fn keep(&mut self, plan: Plan, pruned: Option<&tokio_postgres::Row>) {
        self.next_job = plan.next_job;
        self.next_decision = plan.next_decision;
        self.runs.keep(plan.runs, pruned);
        for (id, stored) in plan.moved {
            match stored {
                Some(stored) => self.jobs.insert(id, stored),
                None => self.jobs.remove(&id),
            };
        }
    }
}

/// The stored jobs that end with this batch and whose run depends on their attempts, by their place in it.
pub(super) fn with_attempts(batch: &Batch<'_>, memory: &Memory) -> Vec<(usize, i64)> {
    let ends = batch.ends().filter(|(_, is_same_life, _)| *is_same_life);
    ends.filter_map(|(at, _, _)| {
        let stored = memory.jobs.get(batch.jobs[at].id)?;
        (!class::has_ended(stored.class)).then_some((at, stored.number))
    })
    .collect()
}

/// Plans what this batch does. `attempts`: those of the jobs of [`with_attempts`], by job.
pub(super) fn plan<'b>(
    batch: &Batch<'b>,
    memory: &Memory,
    attempts: &HashMap<i64, Vec<AttemptRecord>>,
    options: &Options,
    seals: &'b Seals,
) -> Result<Plan, StoreError> {
    let mut planning = Planning {
        seals,
        statements: Vec::new(),
        later: Vec::new(),
        buffer: Vec::new(),
        works: Works::default(),
        next_job: memory.next_job,
        next_decision: memory.next_decision,
        tables: Tables::new(),
    };
    let before: Vec<_> = batch.jobs.iter().map(|job| memory.jobs.get(job.id).copied()).collect();
    let mut ended = Vec::new();
    let by_job = batch.attempts_by_job();
    for (at, is_same_life, record) in batch.ends() {
        let stored = before[at].filter(|_| is_same_life);
        if stored.is_some_and(|stored| class::has_ended(stored.class)) {
            continue;
        }
        let all = || {
            let mut all = stored.and_then(|stored| attempts.get(&stored.number)).cloned().unwrap_or_default();
            all.extend(by_job.get(&at).into_iter().flatten().copied().cloned());
            Ok::<_, StoreError>(all)
        };
        ended.extend(history::of(record, all)?.map(|run| (at, run)));
    }
    let after = planning.jobs(batch, &before)?;
    let mut added = memory.runs.begin();
    for (at, run) in ended {
        let job = after[at].map(|stored| stored.number);
        added.add(&memory.runs, &run, job, &mut planning.buffer)?;
    }
    planning.history(batch, &after, options)?;
    planning.pool(batch)?;
    planning.events(batch, options)?;
    planning.samples(batch)?;
    let Planning { mut statements, later, next_job, next_decision, tables, .. } = planning;
    tables.into_statements(&mut statements);
    statements.extend(later);
    let (of_runs, answers, runs) = added.finish(options);
    statements.extend(of_runs);
    let moved = batch.jobs.iter().zip(before.into_iter().zip(after));
    let moved = moved.filter(|(_, (was, is))| was != is).map(|(job, (_, is))| (job.id.clone(), is)).collect();
    let pruned = answers.then(|| statements.len() - 1);
    Ok(Plan { statements, moved, next_job, next_decision, runs, pruned })
}

struct Planning<'b> {
    seals: &'b Seals,
    /// Those that come first.
    statements: Vec<Statement>,
    /// Those that come after the tables.
    later: Vec<Statement>,
    tables: Tables,
    buffer: Vec<u8>,
    works: Works<'b>,
    next_job: i64,
    next_decision: i64,
}

/// One statement each, in the order in which they run.
struct Tables {
    new_jobs: Table,
    jobs: Table,
    classes: Table,
    payloads: Table,
    packages: Table,
    clusters_of: Table,
    attempts: Table,
    decisions: Table,
    log_pieces: Table,
    logs: Table,
    seen: Table,
    events: Table,
}

/// Everything that belongs to one job.
const FORGET: [&str; 9] = [
    "DELETE FROM multicluster.jobs WHERE job = ANY($1)",
    "DELETE FROM multicluster.payloads WHERE job = ANY($1)",
    "DELETE FROM multicluster.job_packages WHERE job = ANY($1)",
    "DELETE FROM multicluster.job_clusters WHERE job = ANY($1)",
    "DELETE FROM multicluster.attempts WHERE job = ANY($1)",
    "DELETE FROM multicluster.decisions WHERE job = ANY($1)",
    "DELETE FROM multicluster.logs WHERE job = ANY($1)",
    "DELETE FROM multicluster.log_pieces WHERE job = ANY($1)",
    "DELETE FROM multicluster.seen WHERE job = ANY($1)",
];

impl Tables {
    fn new() -> Self {
        Self {
            new_jobs: Table::new(
                "INSERT INTO multicluster.jobs (job, class, id, record)
                 SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[])",
            ),
            jobs: Table::new(
                "UPDATE multicluster.jobs AS j SET class = n.class, record = n.record
                 FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS n (job, class, record) WHERE j.job = n.job",
            ),
            classes: Table::new(
                "UPDATE multicluster.job_clusters AS j SET class = n.class
                 FROM unnest($1::bigint[], $2::bigint[]) AS n (job, class)
                 WHERE j.job = n.job AND j.class <> n.class",
            ),
            payloads: Table::new(
                "INSERT INTO multicluster.payloads (job, body) SELECT * FROM unnest($1::bigint[], $2::text[])
                 ON CONFLICT (job) DO UPDATE SET body = excluded.body",
            ),
            packages: Table::new(
                "INSERT INTO multicluster.job_packages (job, sha256) SELECT * FROM unnest($1::bigint[], $2::text[])
                 ON CONFLICT DO NOTHING",
            ),
            clusters_of: Table::new(
                "INSERT INTO multicluster.job_clusters (job, cluster, class)
                 SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[]) ON CONFLICT DO NOTHING",
            ),
            attempts: Table::new(
                "INSERT INTO multicluster.attempts (job, attempt, record)
                 SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[])
                 ON CONFLICT (job, attempt) DO UPDATE SET record = excluded.record",
            ),
            decisions: Table::new(
                "INSERT INTO multicluster.decisions (number, job, body)
                 SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[])",
            ),
            log_pieces: Table::new(
                "INSERT INTO multicluster.log_pieces (job, attempt, start, body)
                 SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[])",
            ),
            logs: Table::new(
                "INSERT INTO multicluster.logs AS l (job, attempt, cluster, taken_at, truncated, size)
                 SELECT n.job, n.attempt, n.cluster, coalesce(n.taken_at, (SELECT o.taken_at FROM multicluster.logs o
                     WHERE o.job = n.job AND o.attempt = n.attempt), 0), n.truncated, n.size
                 FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::boolean[], $6::bigint[])
                     AS n (job, attempt, cluster, taken_at, truncated, size)
                 ON CONFLICT (job, attempt) DO UPDATE SET cluster = excluded.cluster,
                     taken_at = excluded.taken_at, truncated = excluded.truncated, size = excluded.size",
            ),
            seen: Table::new(
                "INSERT INTO multicluster.seen (job, attempt, body)
                 SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[])
                 ON CONFLICT (job) DO UPDATE SET attempt = excluded.attempt, body = excluded.body",
            ),
            events: Table::new(
                "INSERT INTO multicluster.events (last, body) SELECT * FROM unnest($1::bigint[], $2::bytea[])",
            ),
        }
    }

    fn into_statements(self, out: &mut Vec<Statement>) {
        for table in [
            self.new_jobs,
            self.jobs,
            self.classes,
            self.payloads,
            self.packages,
            self.clusters_of,
            self.attempts,
            self.decisions,
            self.log_pieces,
            self.logs,
            self.seen,
            self.events,
        ] {
            out.extend(table.into_statements());
        }
    }
}

impl<'b> Planning<'b> {
    /// Jobs and their payloads. Returns what is stored of each afterwards.
    fn jobs(
        &mut self,
        batch: &Batch<'b>,
        before: &[Option<Stored>],
    ) -> Result<Vec<Option<Stored>>, StoreError> {
        let mut after = Vec::with_capacity(before.len());
        let (mut forgotten, mut repacked) = (Vec::new(), Vec::new());
        for (change, &was) in batch.jobs.iter().zip(before) {
            let mut stored = was;
            if let Some(was) = was.filter(|_| change.deleted()) {
                forgotten.push(was.number);
                stored = None;
            }
            if let Some(record) = change.record {
                stored = Some(self.job(stored, record)?);
            }
            if let (Some(Stored { number, .. }), Some(payload)) = (stored, change.payload) {
                let place = Place::Payload(change.id.as_str());
                let body = self.seals.seal(place, json(&mut self.buffer, payload)?).map_err(failed)?;
                self.tables.payloads.add([number.into(), body.into_owned().into()]);
                if was.is_some_and(|was| was.number == number) {
                    repacked.push(number);
                }
                for sha256 in payload.packages.values().filter(|hex| packages::from_hex(hex).is_some()) {
                    self.tables.packages.add([number.into(), sha256.as_str().into()]);
                }
            }
            after.push(stored);
        }
        if !forgotten.is_empty() {
            let forget = FORGET.iter().map(|sql| Statement::new(sql, vec![Param::Ints(forgotten.clone())]));
            self.statements.extend(forget);
        }
        if !repacked.is_empty() {
            let sql = "DELETE FROM multicluster.job_packages WHERE job = ANY($1)";
            self.statements.push(Statement::new(sql, vec![Param::Ints(repacked)]));
        }
        Ok(after)
    }

    fn job(&mut self, was: Option<Stored>, record: &'b JobRecord) -> Result<Stored, StoreError> {
        let class = class::of(record);
        let text = self.works.job(&mut self.buffer, record)?.into();
        let number = match was {
            Some(Stored { number, class: before }) => {
                self.tables.jobs.add([number.into(), class.into(), text]);
                // Its clusters carry its class; a job that was only ever queued has none.
                if before != class {
                    self.tables.classes.add([number.into(), class.into()]);
                }
                number
            }
            None => {
                // The core's own number, as long as that keeps the order of acceptance.
                let number = self.next_job.max(int(record.seq).min(i64::MAX / 2));
                self.next_job = number + 1;
                self.tables.new_jobs.add([number.into(), class.into(), record.id.as_str().into(), text]);
                number
            }
        };
        if let Some(cluster) = class::cluster(record) {
            self.tables.clusters_of.add([number.into(), cluster.as_str().into(), class.into()]);
        }
        Ok(Stored { number, class })
    }

    /// Attempts, decisions, logs and sightings of jobs that exist.
    fn history(
        &mut self,
        batch: &Batch<'_>,
        after: &[Option<Stored>],
        options: &Options,
    ) -> Result<(), StoreError> {
        let mut attempts = BTreeMap::new();
        for (job, attempt) in batch.attempts() {
            let Some(Stored { number, class }) = after[job] else { continue };
            attempts.insert((number, attempt.live.attempt.0), attempt);
            self.tables.clusters_of.add([number.into(), attempt.live.cluster.as_str().into(), class.into()]);
        }
        for ((number, attempt), record) in attempts {
            let text = json(&mut self.buffer, record)?.into();
            self.tables.attempts.add([number.into(), i64::from(attempt).into(), text]);
        }
        self.decisions(batch, after, options)?;
        self.logs(batch, after);
        let mut seen = BTreeMap::new();
        for (job, sight) in batch.seen() {
            let Some(Stored { number, .. }) = after[job] else { continue };
            seen.insert(number, sight);
        }
        for (number, (attempt, sight)) in seen {
            let text = json(&mut self.buffer, sight)?.into();
            self.tables.seen.add([number.into(), i64::from(attempt.0).into(), text]);
        }
        Ok(())
    }

    fn decisions(
        &mut self,
        batch: &Batch<'_>,
        after: &[Option<Stored>],
        options: &Options,
    ) -> Result<(), StoreError> {
        let mut decided = HashSet::new();
        for (job, decision) in batch.decisions() {
            let Some(Stored { number, .. }) = after[job] else { continue };
            let text = json(&mut self.buffer, decision)?.into();
            self.tables.decisions.add([self.next_decision.into(), number.into(), text]);
            self.next_decision += 1;
            decided.insert(number);
        }
        if !decided.is_empty() {
            // Runs after the new ones are there.
            let keep = int(options.decisions_per_job as u64);
            let decided = Param::Ints(decided.into_iter().collect());
            self.later.push(Statement::new(
                "DELETE FROM multicluster.decisions WHERE number IN (
                    SELECT d.number FROM unnest($1::bigint[]) AS n (job) CROSS JOIN LATERAL (
                        SELECT number FROM multicluster.decisions WHERE job = n.job
                        ORDER BY number DESC OFFSET $2) AS d)",
                vec![decided, Param::Int(keep)],
            ));
        }
        Ok(())
    }

    /// A piece replaces all from where it begins on, also earlier pieces of the same batch.
    fn logs(&mut self, batch: &Batch<'_>, after: &[Option<Stored>]) {
        let mut copies: BTreeMap<(i64, u32), Vec<&LogPiece>> = BTreeMap::new();
        for (job, piece) in batch.logs() {
            let Some(Stored { number, .. }) = after[job] else { continue };
            copies.entry((number, piece.attempt.0)).or_default().push(piece);
        }
        let mut replaced = Table::new(
            "DELETE FROM multicluster.log_pieces AS p USING unnest($1::bigint[], $2::bigint[], $3::bigint[])
                 AS n (job, attempt, start)
             WHERE p.job = n.job AND p.attempt = n.attempt AND p.start >= n.start",
        );
        for ((number, attempt), pieces) in copies {
            let attempt = i64::from(attempt);
            let first = pieces.iter().map(|piece| piece.from).min().unwrap_or(0);
            replaced.add([number.into(), attempt.into(), int(first).into()]);
            let mut kept: Vec<&LogPiece> = Vec::new();
            let mut taken_at = None;
            for piece in pieces {
                kept.retain(|earlier| earlier.from < piece.from);
                kept.push(piece);
                taken_at = piece.taken_at.or(taken_at);
            }
            if let Some(last) = kept.last() {
                self.tables.logs.add([
                    number.into(),
                    attempt.into(),
                    last.cluster.as_str().into(),
                    Cell::Maybe(taken_at.map(|at| int(at.0))),
                    Cell::Bool(last.truncated),
                    int(last.from + last.body.size()).into(),
                ]);
            }
            for piece in kept {
                let body = Cell::Blob(piece.body.zlib.clone());
                self.tables.log_pieces.add([number.into(), attempt.into(), int(piece.from).into(), body]);
            }
        }
        self.statements.extend(replaced.into_statements());
    }

    /// Clusters, orphans, policies and the usage of owners, of which there are few.
    fn pool(&mut self, batch: &Batch<'_>) -> Result<(), StoreError> {
        let mut clusters = Named::new(
            "INSERT INTO multicluster.clusters (name, record) SELECT * FROM unnest($1::text[], $2::text[])
             ON CONFLICT (name) DO UPDATE SET record = excluded.record",
            "DELETE FROM multicluster.clusters WHERE name = ANY($1)",
        );
        for (name, record) in &batch.clusters {
            let text = record.map(|record| json(&mut self.buffer, record)).transpose()?;
            let sealed = text.map(|text| self.seals.seal(Place::Cluster(name.as_str()), text));
            let text = sealed.transpose().map_err(failed)?.map(Cow::into_owned);
            clusters.put(name.as_str(), text);
        }
        let mut policies = Named::new(
            "INSERT INTO multicluster.policies (name, spec) SELECT * FROM unnest($1::text[], $2::text[])
             ON CONFLICT (name) DO UPDATE SET spec = excluded.spec",
            "DELETE FROM multicluster.policies WHERE name = ANY($1)",
        );
        for (name, spec) in &batch.policies {
            let text = spec.map(|spec| json(&mut self.buffer, spec).map(str::to_owned)).transpose()?;
            policies.put(name.as_str(), text);
        }
        let mut usage = Named::new(
            "INSERT INTO multicluster.usage (owner, record) SELECT * FROM unnest($1::text[], $2::text[])
             ON CONFLICT (owner) DO UPDATE SET record = excluded.record",
            "DELETE FROM multicluster.usage WHERE owner = ANY($1)",
        );
        for (owner, record) in &batch.usage {
            let text = record.map(|record| json(&mut self.buffer, record).map(str::to_owned)).transpose()?;
            usage.put(owner.as_str(), text);
        }
        for named in [clusters, policies, usage] {
            self.statements.extend(named.into_statements());
        }
        self.orphans(batch);
        Ok(())
    }

    fn orphans(&mut self, batch: &Batch<'_>) {
        let mut gone = Table::new(
            "DELETE FROM multicluster.orphans AS o USING unnest($1::text[], $2::text[], $3::bigint[])
                 AS n (cluster, job, attempt)
             WHERE o.cluster = n.cluster AND o.job = n.job AND o.attempt = n.attempt",
        );
        let mut there = Table::new(
            "INSERT INTO multicluster.orphans (cluster, job, attempt, life)
             SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[])
             ON CONFLICT (cluster, job, attempt) DO UPDATE SET life = excluded.life",
        );
        // In the order of the map; of those that differ only in their life, the last one counts.
        let mut last = BTreeMap::new();
        for (orphan, is_there) in &batch.orphans {
            last.insert((orphan.cluster.as_str(), orphan.job.as_str(), orphan.attempt.0), (orphan, is_there));
        }
        for ((cluster, job, attempt), (orphan, is_there)) in last {
            let attempt = i64::from(attempt);
            if *is_there {
                let life = Cell::Maybe(orphan.life.map(|life| int(life.0)));
                there.add([cluster.into(), job.into(), attempt.into(), life]);
            } else {
                gone.add([cluster.into(), job.into(), attempt.into()]);
            }
        }
        self.statements.extend(gone.into_statements());
        self.statements.extend(there.into_statements());
    }

    /// One statement for each step's length, and one that forgets the oldest.
    fn samples(&mut self, batch: &Batch<'_>) -> Result<(), StoreError> {
        let mut samples = Table::new(
            "INSERT INTO multicluster.samples (step, begun, body)
             SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[])
             ON CONFLICT (step, begun) DO UPDATE SET body = excluded.body",
        );
        let mut forgotten = BTreeMap::new();
        for ((step, begun), sample) in &batch.samples {
            let (seconds, begun) = (int(step.span().0 / 1000), int(begun.0));
            let text = json(&mut self.buffer, sample)?.into();
            samples.add([seconds.into(), begun.into(), text]);
            forgotten.insert(seconds, begun - int(step.kept_for().0));
        }
        self.later.extend(samples.into_statements());
        self.later.extend(forgotten.into_iter().map(|(seconds, begun)| {
            let sql = "DELETE FROM multicluster.samples WHERE step = $1 AND begun <= $2";
            Statement::new(sql, vec![Param::Int(seconds), Param::Int(begun)])
        }));
        Ok(())
    }

    fn events(&mut self, batch: &Batch<'_>, options: &Options) -> Result<(), StoreError> {
        let rows = &mut self.tables.events;
        events::pack(&batch.events, &mut self.buffer, |last, row| {
            rows.add([int(last).into(), Cell::Blob(row.to_vec())]);
            Ok::<_, StoreError>(())
        })?;
        if let Some(newest) = batch.events.last() {
            // At least the newest event stays: the numbers continue from it after a restart.
            let up_to = int(newest.seq.saturating_sub(options.events.max(1)));
            let sql = "DELETE FROM multicluster.events WHERE last <= $1";
            self.later.push(Statement::new(sql, vec![Param::Int(up_to)]));
        }
        Ok(())
    }
}

/// Records found by a name.
struct Named {
    put: Table,
    forget: &'static str,
    gone: Vec<String>,
}

impl Named {
    fn new(put: &'static str, forget: &'static str) -> Self {
        Self { put: Table::new(put), forget, gone: Vec::new() }
    }

    fn put(&mut self, name: &str, text: Option<String>) {
        match text {
            Some(text) => self.put.add([name.into(), text.into()]),
            None => self.gone.push(name.to_owned()),
        }
    }

    fn into_statements(self) -> Vec<Statement> {
        let mut statements = self.put.into_statements();
        if !self.gone.is_empty() {
            statements.push(Statement::new(self.forget, vec![Param::Texts(self.gone)]));
        }
        statements
    }
}

fn failed(error: SealError) -> StoreError {
    Malformed::new("a record", error).into()
}
