//! Who leads, and taking the lead.

use std::time::{Duration, Instant};

use multicluster_types::Timestamp;
use tokio::time::sleep;
use tokio_postgres::{Client, Row, types::Type};

use super::{Inner, ReplicaSeen, Seat, pool::Pool};
use crate::{Moment, Options, StoreError};

/// How often a replica says that it is there.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// An open transaction of an earlier leader may be in the way this long.
const PATIENCE: Duration = Duration::from_millis(200);

const SEAT: &str = "
    SELECT l.epoch, l.seq, l.holder, l.address, multicluster.origin(), l.lease_ms,
        (extract(epoch FROM l.since) * 1000)::bigint,
        (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint,
        (SELECT pg_catalog.array_agg(r.name ORDER BY r.name) FROM multicluster.replicas r WHERE r.seen_at > pg_catalog.clock_timestamp() - interval '1 minute'),
        (SELECT pg_catalog.array_agg(r.address ORDER BY r.name) FROM multicluster.replicas r WHERE r.seen_at > pg_catalog.clock_timestamp() - interval '1 minute'),
        (SELECT pg_catalog.array_agg(r.version ORDER BY r.name) FROM multicluster.replicas r WHERE r.seen_at > pg_catalog.clock_timestamp() - interval '1 minute'),
        (SELECT pg_catalog.array_agg((extract(epoch FROM r.seen_at) * 1000)::bigint ORDER BY r.name)
            FROM multicluster.replicas r WHERE r.seen_at > pg_catalog.clock_timestamp() - interval '1 minute'),
        l.origin <> multicluster.origin()
    FROM multicluster.lead l";

const SEEN: &str = "
    INSERT INTO multicluster.replicas (name, address, version, seen_at)
    VALUES ($1, $2, $3, pg_catalog.clock_timestamp())
    ON CONFLICT (name) DO UPDATE SET address = $2, version = $3, seen_at = pg_catalog.clock_timestamp()";

const FORGET: &str =
    "DELETE FROM multicluster.replicas WHERE seen_at < pg_catalog.clock_timestamp() - interval '1 hour'";

/// Who leads. Every few seconds it also says that this replica is there.
pub(super) async fn seat(inner: &Inner) -> Result<Seat, StoreError> {
    let client = inner.own.client().await?;
    let seat = tokio::time::timeout(inner.options.lease, ask(&client, inner)).await.unwrap_or_else(|_| {
        Err(StoreError::Unreachable { what: format!("no answer within {:?}", inner.options.lease) })
    });
    if seat.is_err() {
        drop(deadpool_postgres::Object::take(client));
    }
    let mut seat = seat?;
    seat.expired = inner.unchanged_for(&seat) >= seat.lease;
    seat.moved |= inner.has_seen_more(&seat);
    inner.saw(seat.epoch, seat.seq);
    Ok(seat)
}

async fn ask(client: &Client, inner: &Inner) -> Result<Seat, StoreError> {
    if inner.is_heartbeat_due(HEARTBEAT) {
        let me = &inner.me;
        let params: [super::pool::Param<'_>; 3] =
            [(&me.name, Type::TEXT), (&me.address, Type::TEXT), (&me.version, Type::TEXT)];
        let (seen, _) = futures_util::future::join(
            client.execute_typed(SEEN, &params),
            client.execute_typed(FORGET, &[]),
        )
        .await;
        // A database that only reads at the moment still says who leads.
        if let Err(error) = seen {
            tracing::debug!(error = %super::fail::text(&error), "cannot tell other replicas");
        } else {
            inner.heartbeat_sent();
        }
    }
    read(&client.query_typed_one(SEAT, &[]).await?)
}

fn read(row: &Row) -> Result<Seat, StoreError> {
    let time = |millis: i64| Timestamp(super::uint(millis));
    let names: Option<Vec<String>> = row.try_get(8)?;
    let addresses: Option<Vec<String>> = row.try_get(9)?;
    let versions: Option<Vec<String>> = row.try_get(10)?;
    let seen: Option<Vec<i64>> = row.try_get(11)?;
    let replicas = names.into_iter().flatten().zip(addresses.into_iter().flatten());
    let replicas = replicas.zip(versions.into_iter().flatten().zip(seen.into_iter().flatten()));
    Ok(Seat {
        epoch: super::uint(row.try_get(0)?),
        seq: super::uint(row.try_get(1)?),
        holder: row.try_get(2)?,
        address: row.try_get(3)?,
        origin: row.try_get(4)?,
        lease: Duration::from_millis(super::uint(row.try_get(5)?)),
        expired: false,
        moved: row.try_get(12)?,
        since: time(row.try_get(6)?),
        now: time(row.try_get(7)?),
        replicas: replicas
            .map(|((name, address), (version, at))| ReplicaSeen { name, address, version, seen_at: time(at) })
            .collect(),
    })
}

/// What the leader has to say with every commit.
#[derive(Debug, Clone)]
pub(super) struct Taken {
    pub(super) sent: Moment,
    pub(super) epoch: u64,
    pub(super) seq: u64,
    pub(super) token: String,
    pub(super) now: Timestamp,
    pub(super) rewound: bool,
}

const TAKE: &str = "
    UPDATE multicluster.lead SET epoch = epoch + 1, seq = seq + 1, holder = $2, address = $3,
        since = pg_catalog.clock_timestamp(),
        lease_ms = $4,
        token = pg_catalog.gen_random_uuid()::text, mark = 0,
        rewound = rewound OR origin <> multicluster.origin() OR $5, origin = multicluster.origin()
    WHERE epoch = $1 AND seq = $6
    RETURNING epoch, seq, token, rewound, (extract(epoch FROM since) * 1000)::bigint";

/// Only one replica at a time tries: another one would take its transaction for that of an earlier leader,
/// and end it. The number is ours alone, next to that of migrations.
const TURN: &str = "SELECT pg_catalog.pg_try_advisory_xact_lock(685842258784)";

/// Takes the lead if it is free and still as it was seen.
pub(super) async fn take(inner: &Inner, seen: &Seat) -> Result<Option<Taken>, StoreError> {
    if !seen.expired {
        return Ok(None);
    }
    let client = inner.own.client().await?;
    let taken = tokio::time::timeout(Duration::from_secs(15), take_with(&client, inner, seen)).await;
    let taken = taken.unwrap_or_else(|_| Err(StoreError::Unreachable { what: "no answer".into() }));
    if !matches!(taken, Ok(Some(_))) {
        drop(deadpool_postgres::Object::take(client));
    }
    taken
}

async fn take_with(client: &Client, inner: &Inner, seen: &Seat) -> Result<Option<Taken>, StoreError> {
    let sent = Moment::now();
    client
        .batch_execute(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = 10000;
             SET LOCAL idle_in_transaction_session_timeout = 2000",
        )
        .await?;
    let own =
        client.query_typed_one("SELECT pg_catalog.pg_backend_pid()", &[]).await?.try_get::<_, i32>(0)?;
    if !client.query_typed_one(TURN, &[]).await?.try_get::<_, bool>(0)? {
        client.batch_execute("ROLLBACK").await?;
        return Ok(None);
    }
    let lost = inner.has_seen_more(seen);
    let lease = super::int(millis(&inner.options));
    let (epoch, seq) = (super::int(seen.epoch), super::int(seen.seq));
    let params: [super::pool::Param<'_>; 6] = [
        (&epoch, Type::INT8),
        (&inner.me.name, Type::TEXT),
        (&inner.me.address, Type::TEXT),
        (&lease, Type::INT8),
        (&lost, Type::BOOL),
        (&seq, Type::INT8),
    ];
    let update = client.query_typed_opt(TAKE, &params);
    tokio::pin!(update);
    let started = Instant::now();
    let row = loop {
        tokio::select! {
            row = &mut update => break row?,
            () = sleep(PATIENCE) => {
                tracing::info!(waited = ?started.elapsed(), "ending the open transaction of an earlier leader");
                end_blockers(&inner.own, own).await;
            }
        }
    };
    let Some(row) = row else {
        client.batch_execute("ROLLBACK").await?;
        return Ok(None);
    };
    client.batch_execute("SET LOCAL synchronous_commit = on; COMMIT").await?;
    let taken = Taken {
        sent,
        epoch: super::uint(row.try_get(0)?),
        seq: super::uint(row.try_get(1)?),
        token: row.try_get(2)?,
        rewound: row.try_get(3)?,
        now: Timestamp(super::uint(row.try_get(4)?)),
    };
    Ok(Some(taken))
}

/// Ends the sessions that this one waits for. If that is not allowed, their timeouts end them.
async fn end_blockers(pool: &Pool, pid: i32) {
    let end = async {
        let client = pool.client().await?;
        let sql =
            "SELECT pg_catalog.pg_terminate_backend(b) FROM unnest(pg_catalog.pg_blocking_pids($1)) AS b";
        super::pool::rows(&client, sql, &[(&pid, Type::INT4)]).await
    };
    if let Err(error) = end.await {
        tracing::warn!(%error, "cannot end the session of an earlier leader");
    }
}

pub(super) fn millis(options: &Options) -> u64 {
    u64::try_from(options.lease.as_millis()).unwrap_or(u64::MAX)
}
