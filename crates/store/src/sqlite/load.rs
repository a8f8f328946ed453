//! Reading the whole state, after a restart.

use std::collections::{BTreeMap, BTreeSet};

use multicluster_core::{
    Durable,
    record::{ClusterRecord, JobRecord, Orphan, UsageRecord},
};
use multicluster_types::{Attempt, ClusterName, JobId, Message, Owner, PolicySpec, Timestamp};
use rusqlite::Connection;

use super::{fail::Fail, index::Index, uint};
use crate::{
    Loaded,
    codec::ParsedWorks,
    seal::{Place, Seals},
};

/// The state that a control plane continues from.
pub(super) fn everything(conn: &Connection, seals: &Seals) -> Result<Loaded, Fail> {
    // One consistent view of all tables, and one lock instead of one per statement.
    let tx = conn.unchecked_transaction()?;
    let durable = Durable {
        clusters: clusters(&tx, seals)?,
        jobs: jobs(&tx)?,
        orphans: orphans(&tx)?,
        policies: policies(&tx)?,
        usage: usage(&tx)?,
    };
    let plane = tx.query_row("SELECT id FROM plane", [], |row| row.get(0))?;
    let last: i64 = tx.query_row("SELECT coalesce(max(last), 0) FROM events", [], |row| row.get(0))?;
    Ok(Loaded { durable, plane, next_event: uint(last) + 1 })
}

/// Fills the index.
pub(super) fn fill(conn: &Connection, index: &Index) -> Result<(), Fail> {
    let mut statement = conn.prepare("SELECT job, id FROM jobs")?;
    let mut rows = statement.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let id = row.get_ref(1)?.as_str()?;
        all.push((JobId::new(id).map_err(|error| Fail::bad("a job", error))?, row.get(0)?));
    }
    match index.fill(all.into_iter()) {
        Some(id) => Err(Fail::Bad(format!("there are two jobs {id}"))),
        None => Ok(()),
    }
}

fn jobs(conn: &Connection) -> Result<BTreeMap<JobId, JobRecord>, Fail> {
    let mut statement = conn.prepare("SELECT record, id FROM jobs ORDER BY job")?;
    let mut rows = statement.query([])?;
    let mut works = ParsedWorks::default();
    let mut jobs = Vec::new();
    while let Some(row) = rows.next()? {
        let id = row.get_ref(1)?.as_str()?;
        let record = works
            .job(row.get_ref(0)?.as_str()?)
            .map_err(|error| Fail::bad(format_args!("job {id}"), error))?;
        jobs.push((record.id.clone(), record));
    }
    // Sorts once, and fills the nodes of the map in order.
    Ok(jobs.into_iter().collect())
}

fn clusters(conn: &Connection, seals: &Seals) -> Result<BTreeMap<ClusterName, ClusterRecord>, Fail> {
    let mut statement = conn.prepare("SELECT record, name FROM clusters")?;
    let mut rows = statement.query([])?;
    let mut clusters = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let name = row.get_ref(1)?.as_str()?;
        let text = seals
            .open(Place::Cluster(name), row.get_ref(0)?.as_str()?)
            .map_err(|error| Fail::bad(format_args!("cluster {name}"), error))?;
        let record: ClusterRecord =
            serde_json::from_str(&text).map_err(|error| Fail::bad(format_args!("cluster {name}"), error))?;
        clusters.insert(record.spec.name.clone(), record);
    }
    Ok(clusters)
}

fn policies(conn: &Connection) -> Result<BTreeMap<Message, PolicySpec>, Fail> {
    let mut statement = conn.prepare("SELECT spec, name FROM policies")?;
    let mut rows = statement.query([])?;
    let mut policies = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let name = row.get_ref(1)?.as_str()?;
        let spec: PolicySpec = serde_json::from_str(row.get_ref(0)?.as_str()?)
            .map_err(|error| Fail::bad(format_args!("policy {name}"), error))?;
        policies.insert(spec.name.clone(), spec);
    }
    Ok(policies)
}

fn usage(conn: &Connection) -> Result<BTreeMap<Owner, UsageRecord>, Fail> {
    let mut statement = conn.prepare("SELECT record, owner FROM usage")?;
    let mut rows = statement.query([])?;
    let mut usage = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let owner = row.get_ref(1)?.as_str()?;
        let record: UsageRecord = serde_json::from_str(row.get_ref(0)?.as_str()?)
            .map_err(|error| Fail::bad(format_args!("the usage of {owner}"), error))?;
        usage.insert(record.owner.clone(), record);
    }
    Ok(usage)
}

fn orphans(conn: &Connection) -> Result<BTreeSet<Orphan>, Fail> {
    let mut statement = conn.prepare("SELECT cluster, job, attempt, life FROM orphans")?;
    let mut rows = statement.query([])?;
    let mut orphans = BTreeSet::new();
    while let Some(row) = rows.next()? {
        let bad = |error| Fail::bad("an orphan", error);
        orphans.insert(Orphan {
            cluster: ClusterName::new(row.get_ref(0)?.as_str()?).map_err(bad)?,
            job: JobId::new(row.get_ref(1)?.as_str()?).map_err(bad)?,
            attempt: Attempt(row.get(2)?),
            life: row.get::<_, Option<i64>>(3)?.map(|life| Timestamp(uint(life))),
        });
    }
    Ok(orphans)
}
