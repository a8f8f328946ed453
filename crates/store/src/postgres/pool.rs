//! Connections for everything but the leader's commits, on a runtime of their own, so that they serve
//! whoever calls: plain threads, any runtime.

use std::{
    sync::mpsc,
    time::{Duration, Instant},
};

use deadpool_postgres::{Manager, ManagerConfig, Object, PoolError, RecyclingMethod, TimeoutType};
use futures_util::{
    FutureExt,
    future::{BoxFuture, try_join},
};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio_postgres::{
    Client, Row,
    types::{ToSql, Type},
};

use super::url::Target;
use crate::StoreError;

/// A database that does not connect, or begin a transaction, within this time counts as unreachable.
const REACHED: Duration = Duration::from_secs(5);
/// One statement of a reader may take this long.
const STATEMENT: Duration = Duration::from_secs(30);
/// Beyond that, the connection is given up.
const ANSWER: Duration = Duration::from_secs(35);
/// One consistent view of all tables. Nothing of it stays in the session.
const VIEW: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 30000;
    SET LOCAL idle_in_transaction_session_timeout = 10000";
const CHANGE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 30000;
    SET LOCAL lock_timeout = 20000; SET LOCAL idle_in_transaction_session_timeout = 10000";

/// A runtime that may be dropped anywhere.
#[derive(Debug)]
pub(super) struct Threads(Option<Runtime>);

impl Threads {
    pub(super) fn start() -> Result<Self, StoreError> {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).thread_name("store-postgres").enable_all().build();
        Ok(Self(Some(runtime.map_err(|error| StoreError::Io { path: "a thread".into(), error })?)))
    }

    pub(super) fn handle(&self) -> Handle {
        self.0.as_ref().expect("taken only when dropped").handle().clone()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // Waiting for its threads would panic inside another runtime.
            runtime.shutdown_background();
        }
    }
}

/// Some connections for one purpose.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    handle: Handle,
    pool: deadpool_postgres::Pool,
}

impl Pool {
    pub(super) fn new(handle: Handle, target: &Target, max: usize) -> Result<Self, StoreError> {
        let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(target.config.clone(), target.tls.clone(), config);
        let pool = deadpool_postgres::Pool::builder(manager)
            .max_size(max.max(1))
            .runtime(deadpool_postgres::Runtime::Tokio1)
            .wait_timeout(Some(Duration::from_secs(10)))
            .create_timeout(Some(REACHED))
            .build()
            .map_err(|error| StoreError::Unreachable { what: error.to_string() })?;
        Ok(Self { handle, pool })
    }

    /// Runs this on the runtime of the pool, and waits for it in a thread.
    pub(super) fn block<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.handle.spawn(async move { answer.send(work.await) });
        answered.recv().unwrap_or_else(|_| Err(closed()))
    }

    /// Runs this on the runtime of the pool, and waits for it in a task.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.handle.spawn(work).await.unwrap_or_else(|_| Err(closed()))
    }

    /// Reads within one view. Tried twice: an idle connection may have died unnoticed.
    pub(super) async fn view<T: Send>(&self, work: impl Work<T>) -> Result<T, StoreError> {
        self.twice(VIEW, &work).await
    }

    /// Changes something in one transaction that may be done twice.
    pub(super) async fn change<T: Send>(&self, work: impl Work<T>) -> Result<T, StoreError> {
        self.twice(CHANGE, &work).await
    }

    async fn twice<T: Send>(&self, begin: &str, work: &impl Work<T>) -> Result<T, StoreError> {
        let started = Instant::now();
        match self.once(begin, work).await {
            // Not if it took long: then the connection was not the trouble.
            Err(StoreError::Unreachable { .. }) if started.elapsed() < Duration::from_secs(1) => {
                self.once(begin, work).await
            }
            other => other,
        }
    }

    async fn once<T: Send>(&self, begin: &str, work: &impl Work<T>) -> Result<T, StoreError> {
        let client = self.client().await?;
        let done = tokio::time::timeout(ANSWER, transaction(&client, begin, work)).await;
        let done = done.unwrap_or_else(|_| Err(StoreError::Unreachable { what: silent(STATEMENT) }));
        if done.is_err() {
            // Whatever state it is in.
            drop(Object::take(client));
        }
        done
    }

    /// A connection. To be thrown away with [`Object::take`] after an error.
    pub(super) async fn client(&self) -> Result<Object, StoreError> {
        self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => error.into(),
            PoolError::Timeout(TimeoutType::Wait) => {
                StoreError::Unreachable { what: "all connections are busy".into() }
            }
            PoolError::Timeout(_) => StoreError::Unreachable { what: silent(REACHED) },
            error => StoreError::Unreachable { what: error.to_string() },
        })
    }
}

/// Something to do in a transaction, perhaps twice.
pub(super) trait Work<T>:
    for<'c> Fn(&'c Client) -> BoxFuture<'c, Result<T, StoreError>> + Send + Sync
{
}

impl<T, F> Work<T> for F where F: for<'c> Fn(&'c Client) -> BoxFuture<'c, Result<T, StoreError>> + Send + Sync {}

async fn transaction<T: Send>(client: &Client, begin: &str, work: &impl Work<T>) -> Result<T, StoreError> {
    let begun = async {
        let answer = tokio::time::timeout(REACHED, client.batch_execute(begin)).await;
        answer.map_err(|_| StoreError::Unreachable { what: silent(REACHED) })?.map_err(StoreError::from)
    };
    // The first statement does not wait for the answer to BEGIN.
    let ((), done) = try_join(begun, work(client)).await?;
    let end = client.batch_execute("COMMIT");
    if begin == VIEW {
        // Sent with the first poll. Nobody waits for the answer, the next statement comes after it.
        let _ = Box::pin(end).now_or_never();
    } else {
        end.await?;
    }
    Ok(done)
}

/// A parameter with its type: without, the driver would ask the server, in a prepared statement.
pub(super) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// Rows.
pub(super) async fn rows(client: &Client, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, StoreError> {
    Ok(client.query_typed(sql, params).await?)
}

fn silent(after: Duration) -> String {
    format!("no answer within {after:?}")
}

fn closed() -> StoreError {
    StoreError::Unreachable { what: "it was closed".into() }
}
