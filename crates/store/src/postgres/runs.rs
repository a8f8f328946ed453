//! The history of jobs that ran; `history.rs` says what is kept. The shapes that are found again are in
//! the leader's memory.

use std::collections::HashMap;

use tokio_postgres::{Client, Row, types::Type};

use super::{
    int,
    pipe::{Cell, Param, Statement, Table},
};
use crate::{
    FinishedRun, Options, StoreError,
    history::{self, STEP, WINDOW},
};

/// The shapes that are found again, and the numbers issued so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Runs {
    shapes: HashMap<String, i64>,
    numbers: Numbers,
}

#[derive(Debug, Clone, Copy, Default)]
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
    count: i64,
    newest: i64,
    rows: Table,
    bodies: Table,
}

impl Runs {
    pub(super) async fn load(client: &Client) -> Result<Self, StoreError> {
        let row = client
            .query_typed_one(
                "SELECT coalesce(min(run), 1), coalesce(max(run), 0) + 1,
                    (SELECT coalesce(max(shape), 0) + 1 FROM multicluster.shapes),
                    (SELECT coalesce(sum(octet_length(body)), 0)::bigint FROM multicluster.shapes)
                 FROM multicluster.runs",
                &[],
            )
            .await?;
        let numbers = Numbers {
            first_run: row.try_get(0)?,
            next_run: row.try_get(1)?,
            next_shape: row.try_get(2)?,
            bytes: row.try_get(3)?,
        };
        let oldest = numbers.next_shape - WINDOW;
        let sql = "SELECT body, shape FROM multicluster.shapes WHERE shape >= $1 ORDER BY shape";
        let rows = client.query_typed(sql, &[(&oldest, Type::INT8)]).await?;
        let shapes = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
        Ok(Self { shapes: shapes.collect::<Result<_, StoreError>>()?, numbers })
    }

    /// Begins a commit.
    pub(super) fn begin(&self) -> Added {
        Added {
            shapes: HashMap::new(),
            numbers: self.numbers,
            count: 0,
            newest: 0,
            rows: Table::new(
                "INSERT INTO multicluster.runs (run, shape, ended, lasted, waited, ran, state, job)
                 SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[])",
            ),
            bodies: Table::new(
                "INSERT INTO multicluster.shapes (shape, body) SELECT * FROM unnest($1::bigint[], $2::text[])",
            ),
        }
    }

    /// The commit was made. `pruned`: the answer to the last statement of [`Added::statements`].
    pub(super) fn keep(&mut self, added: Kept, pruned: Option<&Row>) {
        self.numbers = added.numbers;
        self.shapes.extend(added.shapes);
        if let Some(row) = pruned {
            self.numbers.first_run = row.try_get::<_, i64>(0).unwrap_or(self.numbers.first_run);
            self.numbers.bytes -= row.try_get::<_, i64>(1).unwrap_or(0);
        }
        // Not with every commit: it looks at all of them.
        if self.shapes.len() > 2 * usize::try_from(WINDOW).unwrap_or(0) {
            let oldest = self.numbers.next_shape - WINDOW;
            self.shapes.retain(|_, number| *number > oldest);
        }
    }
}

/// What is kept in memory of a commit's runs.
#[derive(Debug)]
pub(super) struct Kept {
    shapes: HashMap<String, i64>,
    numbers: Numbers,
}

impl Added {
    /// Adds one run, of the job that is stored under this number.
    pub(super) fn add(
        &mut self,
        known: &Runs,
        run: &FinishedRun,
        job: Option<i64>,
        buffer: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let shape = self.shape(known, run, buffer)?;
        let lasted = run.ended_at.since(run.submitted_at);
        let waited = run.started_at.since(run.submitted_at);
        let ended = int(run.ended_at.0);
        self.rows.add([
            self.numbers.next_run.into(),
            shape.into(),
            ended.into(),
            int(lasted.0).into(),
            int(waited.0).into(),
            int(run.ran.0).into(),
            history::code(run.state).into(),
            Cell::Maybe(job),
        ]);
        self.numbers.next_run += 1;
        self.count += 1;
        self.newest = self.newest.max(ended);
        Ok(())
    }

    fn shape(&mut self, known: &Runs, run: &FinishedRun, buffer: &mut Vec<u8>) -> Result<i64, StoreError> {
        let text = history::shape(buffer, run)?;
        let number = self.shapes.get(text).or_else(|| known.shapes.get(text)).copied();
        if let Some(number) = number.filter(|number| *number > self.numbers.next_shape - WINDOW) {
            return Ok(number);
        }
        let number = self.numbers.next_shape;
        self.bodies.add([number.into(), text.into()]);
        self.numbers.next_shape += 1;
        self.numbers.bytes += int(text.len() as u64);
        self.shapes.insert(text.to_owned(), number);
        Ok(number)
    }

    /// The statements of this commit. The oldest runs are forgotten if there are too many or they are too
    /// old: not many more than were added, so that no commit takes long. True: the last statement says
    /// which run is the oldest now, and how many bytes of shapes are gone.
    pub(super) fn finish(self, options: &Options) -> (Vec<Statement>, bool, Kept) {
        let kept = Kept { shapes: self.shapes, numbers: self.numbers };
        if self.count == 0 {
            return (Vec::new(), false, kept);
        }
        let Numbers { next_run, first_run, bytes, .. } = self.numbers;
        let up_to = (first_run + 2 * self.count + STEP).min(next_run - 1);
        let too_old = int(u64::try_from(options.runs_for.as_millis()).unwrap_or(u64::MAX));
        let cutoff = self.newest.saturating_sub(too_old);
        let keep_from = if history::is_too_large(bytes, options) {
            up_to
        } else {
            next_run.saturating_sub(int(options.runs.max(1)))
        };
        let mut statements = self.bodies.into_statements();
        statements.extend(self.rows.into_statements());
        statements.push(Statement::new(
            "DELETE FROM multicluster.runs WHERE run < $1 AND (run < $2 OR ended < $3)",
            vec![Param::Int(up_to), Param::Int(keep_from), Param::Int(cutoff)],
        ));
        statements.push(Statement::new(
            "WITH oldest AS (SELECT run, shape FROM multicluster.runs ORDER BY run LIMIT 1),
                gone AS (DELETE FROM multicluster.shapes WHERE shape <= (SELECT shape FROM oldest) - $1
                    RETURNING octet_length(body) AS bytes)
             SELECT (SELECT run FROM oldest), (SELECT coalesce(sum(bytes), 0)::bigint FROM gone)",
            vec![Param::Int(WINDOW)],
        ));
        (statements, true, kept)
    }
}
