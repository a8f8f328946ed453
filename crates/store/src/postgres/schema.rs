//! The schema `multicluster`, its version, and the migrations between versions.
//!
//! During a rolling upgrade, programs of two versions use one database. So a step only adds what an
//! older program does not need to know (*expand*); what no program needs any more is removed by a later
//! version (*contract*). Each step says which is the oldest version of the program that can still work
//! with its result.

use tokio_postgres::{Client, types::Type};

use super::Replica;
use crate::StoreError;

/// One migration. A released step never changes.
struct Step {
    sql: &'static str,
    /// The version of the schema that a program must know at least to run beside this one.
    oldest: u32,
}

/// Step *n* makes version *n*.
const STEPS: &[Step] = &[
    Step { sql: include_str!("../../migrations/postgres/0001_initial.sql"), oldest: 1 },
    Step { sql: include_str!("../../migrations/postgres/0002_samples.sql"), oldest: 1 },
];

/// What every program before us knew how to say.
pub(super) fn known() -> u32 {
    u32::try_from(STEPS.len()).unwrap_or(u32::MAX)
}

/// The present version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) version: u32,
    pub(super) oldest: u32,
}

impl Version {
    /// Can this program work with it?
    pub(super) fn check(self) -> Result<Self, StoreError> {
        if self.version > known() && self.oldest > known() {
            return Err(StoreError::TooNew { found: self.version, known: known() });
        }
        Ok(self)
    }
}

/// The present version; `None`: there is no schema of ours. Changes nothing.
pub(super) async fn version(client: &Client) -> Result<Option<Version>, StoreError> {
    let there = client
        .query_typed_one(
            // Not to_regclass: within a transaction it may remember that there was none.
            "SELECT EXISTS (SELECT FROM pg_catalog.pg_class c
                 JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                 WHERE n.nspname = 'multicluster' AND c.relname = 'state')",
            &[],
        )
        .await?;
    if !there.try_get::<_, bool>(0)? {
        return Ok(None);
    }
    let row = client
        .query_typed_opt("SELECT version, oldest FROM multicluster.state", &[])
        .await
        .map_err(|error| match error.code().map(tokio_postgres::error::SqlState::code) {
            Some("42703") => foreign(),
            _ => error.into(),
        })?
        .ok_or_else(foreign)?;
    let number = |at| row.try_get::<_, i32>(at).map(|number| u32::try_from(number).unwrap_or(0));
    Ok(Some(Version { version: number(0)?, oldest: number(1)? }))
}

/// Brings the schema to the present version, one whole step at a time. Safe if several replicas do it at
/// the same moment: the lock belongs to the transaction, and comes before everything else.
pub(super) async fn migrate(client: &Client, me: &Replica) -> Result<(), StoreError> {
    loop {
        client.batch_execute(BEGIN).await?;
        match step(client, me).await {
            Ok(Some(())) => client.batch_execute("COMMIT").await?,
            Ok(None) => {
                client.batch_execute("ROLLBACK").await?;
                return Ok(());
            }
            Err(error) => {
                let _ = client.batch_execute("ROLLBACK").await;
                return Err(error);
            }
        }
    }
}

/// The number is ours alone: "multicluster" on a telephone's keys.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = 60000;
    SET LOCAL client_min_messages = warning; SELECT pg_catalog.pg_advisory_xact_lock(685842258783)";

/// One step under the lock; `None`: there is none to do.
async fn step(client: &Client, me: &Replica) -> Result<Option<()>, StoreError> {
    let found = version(client).await?.map(Version::check).transpose()?;
    let at = found.map_or(0, |found| found.version);
    let Some(step) = STEPS.get(at as usize) else { return Ok(None) };
    if found.is_none() {
        // Only if it is missing: whoever may not create one may use one that is there.
        let there = client
            .query_typed_one(
                "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'multicluster')",
                &[],
            )
            .await?;
        if !there.try_get::<_, bool>(0)? {
            client.batch_execute("CREATE SCHEMA multicluster").await?;
        }
    }
    client.batch_execute(step.sql).await?;
    let version = i32::try_from(at + 1).unwrap_or(i32::MAX);
    let oldest = i32::try_from(step.oldest).unwrap_or(i32::MAX);
    client
        .execute_typed(
            "UPDATE multicluster.state SET version = $1, oldest = $2",
            &[(&version, Type::INT4), (&oldest, Type::INT4)],
        )
        .await?;
    if let Some(plane) = me.plane.as_ref().filter(|_| found.is_none()) {
        client.execute_typed("UPDATE multicluster.state SET plane = $1", &[(plane, Type::TEXT)]).await?;
    }
    Ok(Some(()))
}

pub(super) fn foreign() -> StoreError {
    StoreError::Unusable {
        what: "the database has a schema `multicluster` of another program".into(),
        hint: "use a database of its own: CREATE DATABASE multicluster".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_schema_is_refused_only_if_it_asks_for_a_newer_program() {
        let known = known();
        assert!(Version { version: known, oldest: 1 }.check().is_ok());
        assert!(Version { version: known + 5, oldest: known }.check().is_ok());
        let newer = Version { version: known + 5, oldest: known + 1 };
        assert!(matches!(newer.check(), Err(StoreError::TooNew { .. })));
    }

    #[test]
    fn a_step_never_asks_for_a_program_newer_than_itself() {
        for (at, step) in STEPS.iter().enumerate() {
            assert!((1..=at + 1).contains(&(step.oldest as usize)), "step {}", at + 1);
        }
    }
}
