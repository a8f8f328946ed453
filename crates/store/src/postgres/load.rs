//! Reading the whole state, when the lead was taken.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::mpsc,
    thread,
};

use futures_util::TryStreamExt;
use multicluster_core::{
    Durable,
    record::{ClusterRecord, JobRecord, Orphan, UsageRecord},
};
use multicluster_types::{Attempt, ClusterName, JobId, PolicySpec, Timestamp};
use tokio::sync::oneshot;
use tokio_postgres::{Client, Row};

use super::{
    plan::{Memory, Stored},
    runs::Runs,
    uint,
};
use crate::{
    Loaded, StoreError,
    codec::{Malformed, ParsedWorks, parse},
    seal::{Place, Seals},
};

/// How many rows are passed on at once.
const STRIDE: usize = 1_000;

/// The state that a leader continues from, and what it must remember of the database.
pub(super) async fn everything(
    client: &Client,
    plane: String,
    seals: &Seals,
) -> Result<(Loaded, Memory), StoreError> {
    // Nobody else changes anything, so the tables need no common view.
    let jobs = jobs(client).await?;
    let durable = Durable {
        jobs: jobs.records,
        clusters: clusters(client, seals).await?,
        orphans: orphans(client).await?,
        policies: policies(client).await?,
        usage: usage(client).await?,
    };
    let sql = "SELECT (SELECT coalesce(max(last), 0) FROM multicluster.events),
                   (SELECT coalesce(max(number), 0) FROM multicluster.decisions)";
    let row = client.query_typed_one(sql, &[]).await?;
    let next_event = uint(row.try_get(0)?) + 1;
    let memory = Memory {
        jobs: jobs.stored,
        next_job: jobs.next,
        next_decision: row.try_get::<_, i64>(1)? + 1,
        runs: Runs::load(client).await?,
    };
    Ok((Loaded { durable, plane, next_event }, memory))
}

/// All jobs, and where they are stored.
#[derive(Default)]
struct Jobs {
    records: BTreeMap<JobId, JobRecord>,
    stored: HashMap<JobId, Stored>,
    next: i64,
}

/// One thread parses while this one receives.
async fn jobs(client: &Client) -> Result<Jobs, StoreError> {
    let (rows, received) = mpsc::channel::<Vec<Row>>();
    let (done, parsed) = oneshot::channel();
    thread::Builder::new()
        .name("store-load".into())
        .spawn(move || done.send(parse_jobs(&received)))
        .map_err(|error| StoreError::Io { path: "a thread".into(), error })?;
    let no_params: [(&str, tokio_postgres::types::Type); 0] = [];
    let stream =
        client.query_typed_raw("SELECT job, class, record FROM multicluster.jobs", no_params).await?;
    tokio::pin!(stream);
    let mut some = Vec::with_capacity(STRIDE);
    while let Some(row) = stream.try_next().await? {
        some.push(row);
        if some.len() == STRIDE
            && rows.send(std::mem::replace(&mut some, Vec::with_capacity(STRIDE))).is_err()
        {
            // A row cannot be parsed: the thread says which.
            break;
        }
    }
    let _ = rows.send(some);
    drop(rows);
    parsed.await.unwrap_or_else(|_| Err(Malformed("a job cannot be read".into()).into()))
}

fn parse_jobs(received: &mpsc::Receiver<Vec<Row>>) -> Result<Jobs, StoreError> {
    let mut works = ParsedWorks::default();
    let (mut records, mut stored, mut next) = (Vec::new(), HashMap::new(), 0);
    for row in received.iter().flatten() {
        let number: i64 = row.try_get(0)?;
        let class = i64::from(row.try_get::<_, i16>(1)?);
        let record = works
            .job(row.try_get(2)?)
            .map_err(|error| Malformed::new(format_args!("job number {number}"), error))?;
        next = next.max(number + 1);
        if stored.insert(record.id.clone(), Stored { number, class }).is_some() {
            return Err(Malformed(format!("there are two jobs {}", record.id)).into());
        }
        records.push((record.id.clone(), record));
    }
    // Sorts once, and fills the nodes of the map in order.
    Ok(Jobs { records: records.into_iter().collect(), stored, next })
}

async fn clusters(
    client: &Client,
    seals: &Seals,
) -> Result<BTreeMap<ClusterName, ClusterRecord>, StoreError> {
    let rows = client.query_typed("SELECT name, record FROM multicluster.clusters", &[]).await?;
    let record = |row: &Row| {
        let name: &str = row.try_get(0)?;
        let text = seals
            .open(Place::Cluster(name), row.try_get(1)?)
            .map_err(|error| Malformed::new(format_args!("cluster {name}"), error))?;
        let record: ClusterRecord = parse(format_args!("cluster {name}"), &text)?;
        Ok((record.spec.name.clone(), record))
    };
    rows.iter().map(record).collect()
}

async fn policies(client: &Client) -> Result<BTreeMap<multicluster_types::Message, PolicySpec>, StoreError> {
    let rows = client.query_typed("SELECT name, spec FROM multicluster.policies", &[]).await?;
    let spec = |row: &Row| {
        let spec: PolicySpec = parse(format_args!("policy {}", row.try_get::<_, &str>(0)?), row.try_get(1)?)?;
        Ok((spec.name.clone(), spec))
    };
    rows.iter().map(spec).collect()
}

async fn usage(client: &Client) -> Result<BTreeMap<multicluster_types::Owner, UsageRecord>, StoreError> {
    let rows = client.query_typed("SELECT owner, record FROM multicluster.usage", &[]).await?;
    let record = |row: &Row| {
        let record: UsageRecord =
            parse(format_args!("the usage of {}", row.try_get::<_, &str>(0)?), row.try_get(1)?)?;
        Ok((record.owner.clone(), record))
    };
    rows.iter().map(record).collect()
}

async fn orphans(client: &Client) -> Result<BTreeSet<Orphan>, StoreError> {
    let sql = "SELECT cluster, job, attempt, life FROM multicluster.orphans";
    let orphan = |row: &Row| {
        let attempt = u32::try_from(row.try_get::<_, i64>(2)?).map_err(bad)?;
        Ok(Orphan {
            cluster: ClusterName::new(row.try_get::<_, &str>(0)?).map_err(bad)?,
            job: JobId::new(row.try_get::<_, &str>(1)?).map_err(bad)?,
            attempt: Attempt(attempt),
            life: row.try_get::<_, Option<i64>>(3)?.map(|life| Timestamp(uint(life))),
        })
    };
    client.query_typed(sql, &[]).await?.iter().map(orphan).collect()
}

fn bad(error: impl std::fmt::Display) -> Malformed {
    Malformed::new("an orphan", error)
}
