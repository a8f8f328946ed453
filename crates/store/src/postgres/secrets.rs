//! Secrets at rest: which keys the database needs, the tokens of all replicas, and sealing again what was
//! stored plain or with an older key.
//!
//! Sealing again happens in small steps within commits and renewals of the leader. A value is replaced
//! only if it is still the one that was read. At the end the older keys are struck off the list in
//! `sealed_by`, under a lock, because tokens are written without the lead.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{FutureExt, future::BoxFuture};
use tokio_postgres::{
    Client, Row,
    types::{ToSql, Type},
};

use super::{
    Database, int,
    pipe::{Param, Statement},
    pool::Pool,
    uint,
};
use crate::{
    Sealing, StoreError, TokenTable,
    codec::Malformed,
    seal::{self, Keys, Place, Seals},
};

/// One step looks at this many values,
const STEP: i64 = 200;
/// and at no further one after this many bytes: a long commit costs the lead.
const STEP_BYTES: i64 = 4 << 20;
/// Between two steps: sealing must not slow down what the leader is there for.
const PAUSE: Duration = Duration::from_millis(250);

const NEEDS: &str = "INSERT INTO multicluster.sealed_by (key) VALUES ($1) ON CONFLICT DO NOTHING";
const LOCK: &str = "LOCK TABLE multicluster.sealed_by IN EXCLUSIVE MODE";

/// Refuses a database whose values these keys do not open. Changes nothing.
pub(super) async fn check(client: &Client, keys: Option<&Arc<Keys>>) -> Result<(), StoreError> {
    let sql = "SELECT pg_catalog.to_regclass('multicluster.sealed_by') IS NOT NULL";
    if !client.query_typed_one(sql, &[]).await?.try_get::<_, bool>(0)? {
        return Ok(());
    }
    match seal::missing(needed(client).await?, keys) {
        Some(key) => Err(StoreError::Locked {
            path: "PostgreSQL, schema multicluster".into(),
            key,
            without: keys.is_none(),
        }),
        None => Ok(()),
    }
}

async fn needed(client: &Client) -> Result<Vec<String>, StoreError> {
    let rows = client.query_typed("SELECT key FROM multicluster.sealed_by", &[]).await?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}

/// What the leader commits before the first value that is sealed with its key.
pub(super) fn announce(seals: &Seals) -> Vec<Statement> {
    let key = seals.first().map(|key| Param::Text(key.to_string()));
    key.map(|key| Statement::new(NEEDS, vec![key])).into_iter().collect()
}

/// How secrets are stored now.
pub(super) async fn sealing(client: &Client, seals: &Seals) -> Result<Sealing, StoreError> {
    let Some(keys) = seals.keys() else { return Ok(Sealing::default()) };
    let needed = needed(client).await?;
    let unneeded =
        keys.ids().filter(|id| *id != keys.first() && !needed.iter().any(|key| key == id.as_str()));
    Ok(Sealing {
        key: Some(keys.first().clone()),
        unneeded: unneeded.cloned().collect(),
        ..Sealing::default()
    })
}

/// What is still to be sealed again.
#[derive(Debug)]
pub(super) struct Resealing {
    /// Payloads up to this job are done.
    after: i64,
    sealed: u64,
    due: Instant,
}

/// One step of it, to be committed.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) statements: Vec<Statement>,
    after: i64,
    count: u64,
}

impl Resealing {
    /// `None`: there are no keys. Otherwise the first step looks whether there is anything to do.
    pub(super) fn new(seals: &Seals) -> Option<Self> {
        seals.first().map(|_| Self { after: -1, sealed: 0, due: Instant::now() })
    }

    pub(super) fn is_due(&self) -> bool {
        Instant::now() >= self.due
    }

    /// The next step; `None`: all is done.
    pub(super) async fn step(&self, client: &Client, seals: &Seals) -> Result<Option<Step>, StoreError> {
        let needed = needed(client).await?;
        let Some(first) = seals.first().filter(|_| needed.len() > 1) else { return Ok(None) };
        let sql = "
            SELECT p.job, j.id, p.body
            FROM (SELECT q.job, q.body,
                         sum(octet_length(q.body)) OVER (ORDER BY q.job) - octet_length(q.body) AS before
                  FROM (SELECT job, body FROM multicluster.payloads WHERE job > $1 ORDER BY job LIMIT $2) q) p
            JOIN multicluster.jobs j USING (job)
            WHERE p.before < $3 ORDER BY p.job";
        let params: [super::pool::Param<'_>; 3] =
            [(&self.after, Type::INT8), (&STEP, Type::INT8), (&STEP_BYTES, Type::INT8)];
        let rows = client.query_typed(sql, &params).await?;
        let Some(last) = rows.last() else { return self.end(client, seals, first.as_str()).await.map(Some) };
        let after = last.try_get(0)?;
        let (mut jobs, mut old, mut new) = (Vec::new(), Vec::new(), Vec::new());
        for row in &rows {
            let (id, stored): (&str, &str) = (row.try_get(1)?, row.try_get(2)?);
            if seals.is_current(stored) {
                continue;
            }
            jobs.push(row.try_get(0)?);
            new.push(again(seals, Place::Payload(id), stored, || format!("the payload of job {id}"))?);
            old.push(stored.to_owned());
        }
        let count = jobs.len() as u64;
        let sql = "UPDATE multicluster.payloads AS p SET body = n.new
                   FROM unnest($1::bigint[], $2::text[], $3::text[]) AS n (job, old, new)
                   WHERE p.job = n.job AND p.body = n.old";
        let params = vec![Param::Ints(jobs), Param::Texts(old), Param::Texts(new)];
        Ok(Some(Step { statements: vec![Statement::new(sql, params)], after, count }))
    }

    /// The last step: clusters, tokens and the list of keys. If somebody wrote tokens with an older key
    /// meanwhile, the list stays as it is, and the step is done again.
    async fn end(&self, client: &Client, seals: &Seals, first: &str) -> Result<Step, StoreError> {
        let mut statements = vec![Statement::new(LOCK, Vec::new())];
        let (mut names, mut old, mut new) = (Vec::new(), Vec::new(), Vec::new());
        for row in client.query_typed("SELECT name, record FROM multicluster.clusters", &[]).await? {
            let (name, stored): (&str, &str) = (row.try_get(0)?, row.try_get(1)?);
            if !seals.is_current(stored) {
                new.push(again(seals, Place::Cluster(name), stored, || format!("cluster {name}"))?);
                names.push(name.to_owned());
                old.push(stored.to_owned());
            }
        }
        let mut count = names.len() as u64;
        let sql = "UPDATE multicluster.clusters AS c SET record = n.new
                   FROM unnest($1::text[], $2::text[], $3::text[]) AS n (name, old, new)
                   WHERE c.name = n.name AND c.record = n.old";
        statements.push(Statement::new(sql, vec![Param::Texts(names), Param::Texts(old), Param::Texts(new)]));
        if let Some(row) =
            client.query_typed_opt("SELECT version, body FROM multicluster.tokens", &[]).await?
        {
            let stored: &str = row.try_get(1)?;
            if !seals.is_current(stored) {
                let text = again(seals, Place::Tokens, stored, || "the tokens".into())?;
                let sql =
                    "UPDATE multicluster.tokens SET version = version + 1, body = $2 WHERE version = $1";
                statements.push(Statement::new(sql, vec![Param::Int(row.try_get(0)?), Param::Text(text)]));
                count += 1;
            }
        }
        let sql = "DELETE FROM multicluster.sealed_by WHERE key <> $1
                   AND NOT EXISTS (SELECT FROM multicluster.clusters WHERE NOT starts_with(record, $2))
                   AND NOT EXISTS (SELECT FROM multicluster.tokens WHERE NOT starts_with(body, $2))";
        statements
            .push(Statement::new(sql, vec![Param::Text(first.to_owned()), Param::Text(seals.current())]));
        Ok(Step { statements, after: self.after, count })
    }

    /// The step was committed.
    pub(super) fn done(&mut self, step: &Step) {
        self.after = step.after;
        self.sealed += step.count;
        self.due = Instant::now() + PAUSE;
    }

    /// How many values were sealed again.
    pub(super) fn sealed(&self) -> u64 {
        self.sealed
    }
}

fn again(
    seals: &Seals,
    place: Place<'_>,
    stored: &str,
    what: impl Fn() -> String,
) -> Result<String, StoreError> {
    let sealed = seals.open(place, stored).and_then(|text| Ok(seals.seal(place, &text)?.into_owned()));
    Ok(sealed.map_err(|error| Malformed::new(what(), error))?)
}

fn question(
    sql: &'static str,
) -> impl for<'c> Fn(&'c Client) -> BoxFuture<'c, Result<Option<Row>, StoreError>> + Send + Sync {
    move |client| async move { Ok(client.query_typed_opt(sql, &[]).await?) }.boxed()
}

/// The tokens of all replicas: one row. Any replica, and any command, may replace it.
#[derive(Debug)]
pub(super) struct PgTokens {
    pool: Pool,
    /// Keeps the connections alive while this exists.
    database: Database,
}

impl PgTokens {
    pub(super) fn new(pool: Pool, database: Database) -> Self {
        Self { pool, database }
    }

    /// One question that has at most one row as its answer.
    fn ask(&self, sql: &'static str) -> Result<Option<Row>, StoreError> {
        let pool = self.pool.clone();
        self.pool.block(async move { pool.view(question(sql)).await })
    }

    fn change(
        &self,
        work: impl for<'c> Fn(&'c Client) -> BoxFuture<'c, Result<bool, StoreError>> + Send + Sync + 'static,
    ) -> Result<bool, StoreError> {
        let pool = self.pool.clone();
        self.pool.block(async move { pool.change(work).await })
    }
}

impl TokenTable for PgTokens {
    fn version(&self) -> Result<Option<u64>, StoreError> {
        let row = self.ask("SELECT version FROM multicluster.tokens")?;
        Ok(row.map(|row| row.try_get(0)).transpose()?.map(uint))
    }

    fn read(&self) -> Result<Option<(u64, String)>, StoreError> {
        let Some(row) = self.ask("SELECT version, body FROM multicluster.tokens")? else { return Ok(None) };
        let text = self.database.0.seals.open(Place::Tokens, row.try_get(1)?);
        let text = text.map_err(|error| Malformed::new("the tokens", error))?;
        Ok(Some((uint(row.try_get(0)?), text.into_owned())))
    }

    fn replace(&self, seen: Option<u64>, text: &str) -> Result<bool, StoreError> {
        let seals = &self.database.0.seals;
        let stored = seals.seal(Place::Tokens, text).map_err(|error| Malformed::new("the tokens", error))?;
        let key = seals.first().map_or(seal::PLAIN, |key| key.as_str());
        let new = Arc::new(Replacement { seen, stored: stored.into_owned(), key: key.to_owned() });
        self.change(move |client| {
            let new = Arc::clone(&new);
            async move { new.make(client).await }.boxed()
        })
    }
}

/// New tokens in the place of those of a version.
struct Replacement {
    seen: Option<u64>,
    stored: String,
    key: String,
}

impl Replacement {
    /// May be made twice, if an answer was lost.
    async fn make(&self, client: &Client) -> Result<bool, StoreError> {
        let stored = (&self.stored as &(dyn ToSql + Sync), Type::TEXT);
        client.execute_typed(LOCK, &[]).await?;
        client.execute_typed(NEEDS, &[(&self.key, Type::TEXT)]).await?;
        match self.seen.map(int) {
            None => {
                let sql =
                    "INSERT INTO multicluster.tokens (version, body) VALUES (1, $1) ON CONFLICT DO NOTHING";
                client.execute_typed(sql, std::slice::from_ref(&stored)).await?
            }
            Some(seen) => {
                let sql =
                    "UPDATE multicluster.tokens SET version = version + 1, body = $2 WHERE version = $1";
                client.execute_typed(sql, &[(&seen, Type::INT8), stored.clone()]).await?
            }
        };
        // Also true if an earlier attempt was stored. No two sealed texts are equal; two plain ones are
        // if they say the same.
        let row = client.query_typed_opt("SELECT body = $1 FROM multicluster.tokens", &[stored]).await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?.unwrap_or(false))
    }
}
