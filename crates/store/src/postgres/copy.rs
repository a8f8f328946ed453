//! A database as the source or the target of a copy.
//!
//! The copy takes the lead, so that no replica starts meanwhile, and renews it beside its work. The source
//! is read in one view. The target is written in one transaction, whose last statement is the fence: if
//! another replica could take the lead, nothing of the copy is there.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use tokio::{
    runtime::Handle,
    time::{sleep, timeout},
};
use tokio_postgres::{Client, types::Type};

use super::{
    Database, Replica, Seat, check,
    hold::{Held, Hold, LEASE, connect, random},
    pipe::Param,
    pool::Threads,
    schema, seat,
    url::{self, Target},
};
use crate::{
    Keys, Options, StoreError,
    copy::{
        CopyError, Each, Row, Side, Value,
        tables::{self, KEYS, Kind, PIECES, PLANE, TABLES, Table},
    },
};

/// How often it is looked whether a leader has ended.
const LOOK: Duration = Duration::from_millis(100);
/// Rows that are taken from the connection at once.
const STRIDE: usize = 64;

/// Only reads, and sees one moment.
const READS: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
const WRITES: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = 10000;
    SET LOCAL synchronous_commit = on";
/// Whatever the server, the database or the user say: a copy takes its time.
const NO_LIMITS: &str = "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0;
    SELECT pg_catalog.set_config(name, '0', true) FROM pg_catalog.pg_settings WHERE name = 'transaction_timeout'";

/// A database, led by the copy.
struct Db {
    /// In the transaction.
    client: Client,
    hold: Option<Hold>,
    /// What `hold` was, at the end.
    held: Option<Held>,
    is_target: bool,
    database: Database,
    handle: Handle,
    _threads: Threads,
}

/// Who leads; after a crash, once the lease of the last leader has ended.
async fn free(database: &Database) -> Result<Seat, StoreError> {
    let first = database.seat().await?;
    let mut seat = first.clone();
    while !seat.expired && seat.seq == first.seq && seat.epoch == first.epoch {
        sleep(LOOK).await;
        seat = database.seat().await?;
    }
    Ok(seat)
}

/// The address without user and password.
pub(crate) fn shown(url: &str) -> Result<String, StoreError> {
    Ok(url::parse(url)?.shown)
}

/// The database of a control plane that nobody leads.
pub(crate) fn source(url: &str, keys: Option<&Arc<Keys>>) -> Result<impl Side + use<>, CopyError> {
    let target = url::parse(url)?;
    let threads = Threads::start()?;
    threads.handle().block_on(async {
        let client = connect(&target).await?;
        if check::everything(&target, &client, &me()).await? {
            return Ok(());
        }
        Err(match schema::version(&client).await? {
            None => CopyError::refused(
                format!("there is no control plane in {}", target.shown),
                "name the database as its replicas do",
            ),
            Some(_) => CopyError::refused(
                format!("the control plane in {} is of an earlier version", target.shown),
                "start it once with this version of the program, stop it, and copy then",
            ),
        })
    })?;
    Db::open(&target, url, keys, threads, false)
}

/// A database that is empty, or has an empty control plane.
pub(crate) fn target(url: &str) -> Result<impl Side + use<>, CopyError> {
    let target = url::parse(url)?;
    let threads = Threads::start()?;
    threads.handle().block_on(async {
        let client = connect(&target).await?;
        match check::everything(&target, &client, &me()).await? {
            true => empty(&client, &target).await,
            false => Ok(()),
        }
    })?;
    Db::open(&target, url, None, threads, true)
}

fn me() -> Replica {
    Replica {
        name: format!("copy-{}-{:08x}", std::process::id(), random().cast_unsigned() >> 32),
        address: String::new(),
        version: env!("CARGO_PKG_VERSION").into(),
        plane: None,
    }
}

impl Db {
    fn open(
        target: &Target,
        url: &str,
        keys: Option<&Arc<Keys>>,
        threads: Threads,
        is_target: bool,
    ) -> Result<Self, CopyError> {
        let handle = threads.handle();
        let options = Options { lease: LEASE, readers: 1, keys: keys.cloned(), ..Options::default() };
        let me = me();
        let (database, hold) = handle.block_on(async {
            let database = Database::open(url, options, me).await?;
            let seat = free(&database).await?;
            let taken = if seat.expired { seat::take(&database.0, &seat).await? } else { None };
            let taken = taken.ok_or_else(|| {
                let holder = seat.holder.as_deref().unwrap_or("a replica");
                CopyError::refused(
                    format!("{} is in use: {holder} leads the control plane there", target.shown),
                    "stop all of its replicas",
                )
            })?;
            Ok::<_, CopyError>((database, Hold::start(target.clone(), taken)))
        })?;
        let (rewound, client) = (hold.rewound, handle.block_on(connect(target)));
        // From now on, the lead is resigned if anything fails.
        let client = match client {
            Ok(client) => client,
            Err(error) => {
                handle.block_on(async { drop(timeout(LEASE, hold.resign(&database)).await) });
                return Err(error.into());
            }
        };
        let side =
            Self { client, hold: Some(hold), held: None, is_target, database, handle, _threads: threads };
        if rewound && !is_target {
            return Err(CopyError::refused(
                format!("{} may have lost commits, as after a restore", target.shown),
                "start a control plane with it, which looks at what runs on the clusters, stop it, and copy then",
            ));
        }
        side.handle.block_on(async {
            side.begin().await?;
            if is_target { empty(&side.client, target).await } else { Ok(()) }
        })?;
        Ok(side)
    }

    async fn begin(&self) -> Result<(), StoreError> {
        self.client.batch_execute(if self.is_target { WRITES } else { READS }).await?;
        self.client.batch_execute(NO_LIMITS).await?;
        if self.is_target {
            self.client.batch_execute("DELETE FROM multicluster.sealed_by").await?;
        }
        Ok(())
    }

    /// The hold, which must not have been lost.
    fn held(&mut self) -> Result<(), CopyError> {
        match self.hold.take_if(|hold| hold.has_ended()) {
            None => Ok(()),
            Some(hold) => {
                let ended = self.handle.block_on(hold.end());
                Err(ended.err().unwrap_or(StoreError::Unreachable { what: "the lead ended".into() }).into())
            }
        }
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        // Where waiting would panic, the lease ends by itself.
        if Handle::try_current().is_ok() {
            return;
        }
        let (hold, held) = (self.hold.take(), self.held.take());
        let resign = async {
            match (hold, held) {
                (Some(hold), _) => hold.resign(&self.database).await,
                (None, Some(held)) => held.resign(&self.database).await,
                (None, None) => Ok(()),
            }
        };
        // Also if it was lost to another replica.
        self.handle.block_on(async { drop(timeout(LEASE, resign).await) });
    }
}

impl Side for Db {
    fn read(&mut self, table: &Table, each: Each<'_>) -> Result<(), CopyError> {
        self.held()?;
        let none: Vec<(i64, Type)> = Vec::new();
        let stream = self.handle.block_on(self.client.query_typed_raw(&select(table), none));
        let mut stream = Box::pin(stream.map_err(StoreError::from)?.ready_chunks(STRIDE));
        while let Some(rows) = self.handle.block_on(stream.next()) {
            for row in rows {
                let row = row.map_err(StoreError::from)?;
                each(values(table, &row).map_err(StoreError::from)?)?;
            }
        }
        Ok(())
    }

    fn write(&mut self, table: &Table, rows: Vec<Row>) -> Result<(), CopyError> {
        self.held()?;
        let columns = columns(table, rows)?;
        let params: Vec<_> = columns.iter().map(Param::typed).collect();
        let written = self.handle.block_on(self.client.execute_typed(&insert(table), &params));
        Ok(written.map(drop).map_err(StoreError::from)?)
    }

    fn seals_tokens(&self) -> bool {
        true
    }

    fn confirm(&mut self) -> Result<(), CopyError> {
        let Some(hold) = self.hold.take() else { return Ok(()) };
        self.held = Some(self.handle.block_on(async {
            let mut held = hold.end().await?;
            held.renew().await?;
            Ok::<_, StoreError>(held)
        })?);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), CopyError> {
        self.confirm()?;
        let Some(mut held) = self.held.take() else { return Ok(()) };
        let handle = self.handle.clone();
        handle.block_on(async {
            if self.is_target {
                held.commit(&self.client).await?;
            }
            // All is done: if this fails, the lease ends by itself.
            drop(timeout(LEASE, held.resign(&self.database)).await);
            Ok(())
        })
    }
}

/// Refuses a target that has anything but a name.
async fn empty(client: &Client, target: &Target) -> Result<(), CopyError> {
    let kept = TABLES.iter().filter(|table| ![PLANE.name, KEYS.name, PIECES.name].contains(&table.name));
    let has = kept.map(|Table { name, .. }| {
        format!("SELECT '{name}'::text WHERE EXISTS (SELECT FROM multicluster.{name})")
    });
    let sql = has.collect::<Vec<_>>().join(" UNION ALL ");
    let found = client.query_typed(&sql, &[]).await.map_err(StoreError::from)?;
    let Some(first) = found.first() else { return Ok(()) };
    let table: &str = first.try_get(0).map_err(StoreError::from)?;
    Err(CopyError::refused(
        format!("{} is not empty: there are rows in multicluster.{table}", target.shown),
        "name a new database: nothing is overwritten",
    ))
}

fn select(table: &Table) -> String {
    if let Some(select) = table.postgres.select {
        return select.to_owned();
    }
    let columns = tables::list(table.columns, |_, name, kind| match kind {
        Kind::Int | Kind::Maybe => format!("{name}::bigint"),
        _ => name.to_owned(),
    });
    let key = tables::list(&table.columns[..table.key], |_, name, _| name.to_owned());
    format!("SELECT {columns} FROM multicluster.{} ORDER BY {key}", table.name)
}

fn insert(table: &Table) -> String {
    if let Some(insert) = table.postgres.insert {
        return insert.to_owned();
    }
    let columns = tables::list(table.columns, |_, name, _| name.to_owned());
    let arrays = tables::list(table.columns, |at, _, kind| {
        let kind = match kind {
            Kind::Int | Kind::Maybe => "bigint",
            Kind::Bool => "boolean",
            Kind::Text | Kind::Hash => "text",
            Kind::Blob => "bytea",
        };
        format!("${at}::{kind}[]")
    });
    format!("INSERT INTO multicluster.{} ({columns}) SELECT * FROM unnest({arrays})", table.name)
}

fn values(table: &Table, row: &tokio_postgres::Row) -> Result<Row, tokio_postgres::Error> {
    let value = |(at, (_, kind)): (usize, &(&str, Kind))| {
        Ok(match kind {
            Kind::Int => Value::Int(row.try_get(at)?),
            Kind::Maybe => row.try_get::<_, Option<i64>>(at)?.map_or(Value::Null, Value::Int),
            Kind::Bool => Value::Bool(row.try_get(at)?),
            Kind::Text | Kind::Hash => Value::Text(row.try_get(at)?),
            Kind::Blob => Value::Blob(row.try_get(at)?),
        })
    };
    table.columns.iter().enumerate().map(value).collect()
}

/// Whole columns.
fn columns(table: &Table, rows: Vec<Row>) -> Result<Vec<Param>, CopyError> {
    let mut columns: Vec<_> = table
        .columns
        .iter()
        .map(|(_, kind)| match kind {
            Kind::Int => Param::Ints(Vec::new()),
            Kind::Maybe => Param::Maybes(Vec::new()),
            Kind::Bool => Param::Bools(Vec::new()),
            Kind::Text | Kind::Hash => Param::Texts(Vec::new()),
            Kind::Blob => Param::Blobs(Vec::new()),
        })
        .collect();
    for (at, value) in rows.into_iter().flat_map(|row| row.into_iter().enumerate()) {
        match (&mut columns[at], value) {
            (Param::Ints(column), Value::Int(number)) => column.push(number),
            (Param::Maybes(column), Value::Int(number)) => column.push(Some(number)),
            (Param::Maybes(column), Value::Null) => column.push(None),
            (Param::Bools(column), Value::Bool(is)) => column.push(is),
            (Param::Texts(column), Value::Text(text)) => column.push(text),
            (Param::Blobs(column), Value::Blob(bytes)) => column.push(bytes),
            _ => return Err(CopyError::Damaged(format!("{} has a value of another type", table.name))),
        }
    }
    Ok(columns)
}
