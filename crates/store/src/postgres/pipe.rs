//! Many statements in one round trip.

use std::{future::poll_fn, pin::Pin, task::Poll};

use futures_util::future::BoxFuture;
use tokio_postgres::{
    Client, Error, Row,
    types::{ToSql, Type},
};

/// Rows of one statement are split beyond this many bytes, so that no message is huge.
const MAX_BYTES: usize = 8 << 20;

/// One statement over whole columns: `unnest` makes rows of them again. Measured against COPY, which takes
/// a round trip of its own and a named statement, which poolers do not have.
#[derive(Debug, Clone)]
pub(super) struct Statement {
    sql: &'static str,
    params: Vec<Param>,
}

/// The parameter of a statement.
#[derive(Debug, Clone)]
pub(super) enum Param {
    Int(i64),
    Text(String),
    Ints(Vec<i64>),
    Maybes(Vec<Option<i64>>),
    Bools(Vec<bool>),
    Texts(Vec<String>),
    Blobs(Vec<Vec<u8>>),
}

/// One value of a row.
#[derive(Debug)]
pub(super) enum Cell {
    Int(i64),
    Maybe(Option<i64>),
    Bool(bool),
    Text(String),
    Blob(Vec<u8>),
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl Statement {
    pub(super) fn new(sql: &'static str, params: Vec<Param>) -> Self {
        Self { sql, params }
    }
}

impl Param {
    fn of(cell: Cell) -> Self {
        match cell {
            Cell::Int(value) => Self::Ints(vec![value]),
            Cell::Maybe(value) => Self::Maybes(vec![value]),
            Cell::Bool(value) => Self::Bools(vec![value]),
            Cell::Text(value) => Self::Texts(vec![value]),
            Cell::Blob(value) => Self::Blobs(vec![value]),
        }
    }

    fn push(&mut self, cell: Cell) {
        match (self, cell) {
            (Self::Ints(column), Cell::Int(value)) => column.push(value),
            (Self::Maybes(column), Cell::Maybe(value)) => column.push(value),
            (Self::Bools(column), Cell::Bool(value)) => column.push(value),
            (Self::Texts(column), Cell::Text(value)) => column.push(value),
            (Self::Blobs(column), Cell::Blob(value)) => column.push(value),
            _ => unreachable!("every row of a table has the same columns"),
        }
    }

    pub(super) fn typed(&self) -> (&(dyn ToSql + Sync), Type) {
        match self {
            Self::Int(value) => (value, Type::INT8),
            Self::Text(value) => (value, Type::TEXT),
            Self::Ints(column) => (column, Type::INT8_ARRAY),
            Self::Maybes(column) => (column, Type::INT8_ARRAY),
            Self::Bools(column) => (column, Type::BOOL_ARRAY),
            Self::Texts(column) => (column, Type::TEXT_ARRAY),
            Self::Blobs(column) => (column, Type::BYTEA_ARRAY),
        }
    }
}

/// The rows of one kind of statement.
#[derive(Debug)]
pub(super) struct Table {
    sql: &'static str,
    columns: Vec<Param>,
    bytes: usize,
    full: Vec<Statement>,
}

impl Table {
    pub(super) fn new(sql: &'static str) -> Self {
        Self { sql, columns: Vec::new(), bytes: 0, full: Vec::new() }
    }

    /// Adds a row.
    pub(super) fn add<const N: usize>(&mut self, row: [Cell; N]) {
        self.bytes += row
            .iter()
            .map(|cell| match cell {
                Cell::Text(text) => text.len(),
                Cell::Blob(blob) => blob.len(),
                _ => 8,
            })
            .sum::<usize>();
        if self.columns.is_empty() {
            self.columns = row.into_iter().map(Param::of).collect();
        } else {
            self.columns.iter_mut().zip(row).for_each(|(column, cell)| column.push(cell));
        }
        if self.bytes >= MAX_BYTES {
            self.cut();
        }
    }

    /// The statements, none if there are no rows.
    pub(super) fn into_statements(mut self) -> Vec<Statement> {
        self.cut();
        self.full
    }

    fn cut(&mut self) {
        if !self.columns.is_empty() {
            self.full.push(Statement::new(self.sql, std::mem::take(&mut self.columns)));
            self.bytes = 0;
        }
    }
}

/// One transaction, all of it on its way at once: the first statement that fails makes the server refuse
/// those after it, COMMIT included. Returns the rows of each statement.
///
/// `first` is the text before the statements, BEGIN among it.
pub(super) async fn transaction(
    client: &Client,
    first: &str,
    statements: &[Statement],
) -> Result<Vec<Vec<Row>>, Error> {
    let mut steps: Vec<BoxFuture<'_, Result<Vec<Row>, Error>>> = Vec::with_capacity(statements.len() + 3);
    steps.push(Box::pin(run(client, first)));
    for Statement { sql, params } in statements {
        steps.push(Box::pin(async move {
            let params: Vec<_> = params.iter().map(Param::typed).collect();
            client.query_typed(sql, &params).await
        }));
    }
    // A timeout during COMMIT would end the wait for a standby, and the commit would count nonetheless.
    steps.push(Box::pin(run(client, "SET LOCAL statement_timeout = 0")));
    steps.push(Box::pin(run(client, "COMMIT")));
    let mut answers = all(steps).await.into_iter();
    // The first error is the cause of the others.
    answers.next().transpose()?;
    let rows = answers.by_ref().take(statements.len()).collect::<Result<_, _>>()?;
    answers.try_for_each(|answer| answer.map(drop))?;
    Ok(rows)
}

async fn run(client: &Client, sql: &str) -> Result<Vec<Row>, Error> {
    client.batch_execute(sql).await.map(|()| Vec::new())
}

/// Polls all in this order, which is the order in which they are sent.
async fn all<T>(mut steps: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    let mut done: Vec<Option<T>> = steps.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut waiting = false;
        for (step, done) in steps.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
            match Pin::new(step).poll(context) {
                Poll::Ready(answer) => *done = Some(answer),
                Poll::Pending => waiting = true,
            }
        }
        if waiting { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    done.into_iter().flatten().collect()
}
