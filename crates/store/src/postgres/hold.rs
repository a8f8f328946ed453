//! The lead while a control plane is copied: taken so that no replica starts, and renewed by a task of its
//! own, over a connection of its own.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    time::Duration,
};

use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_postgres::{Client, types::Type};

use super::{Database, check, fail, int, pool::Param, seat::Taken, url::Target};
use crate::StoreError;

/// Longer than that of a replica: nobody waits for the copy to fail.
pub(super) const LEASE: Duration = Duration::from_secs(10);

/// The lead, renewed by a task until it is ended.
pub(super) struct Hold {
    pub(super) rewound: bool,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<Held, StoreError>>,
}

/// The lead, which ends by itself soon.
pub(super) struct Held {
    client: Client,
    taken: Taken,
}

impl Hold {
    pub(super) fn start(target: Target, taken: Taken) -> Self {
        let (stop, stopped) = oneshot::channel();
        let rewound = taken.rewound;
        Self { rewound, stop, task: tokio::spawn(renew(target, taken, stopped)) }
    }

    /// Was it lost?
    pub(super) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    pub(super) async fn end(self) -> Result<Held, StoreError> {
        // It may have ended with an error.
        let _ = self.stop.send(());
        self.task.await.unwrap_or_else(|error| Err(StoreError::Unreachable { what: error.to_string() }))
    }

    pub(super) async fn resign(self, database: &Database) -> Result<(), StoreError> {
        self.end().await?.resign(database).await
    }
}

async fn renew(target: Target, taken: Taken, mut stopped: oneshot::Receiver<()>) -> Result<Held, StoreError> {
    let mut held = Held { client: connect(&target).await?, taken };
    loop {
        tokio::select! {
            _ = &mut stopped => return Ok(held),
            () = sleep(LEASE / 4) => {}
        }
        held.renew().await?;
    }
}

impl Held {
    /// Commits the transaction of this client, if this copy still leads.
    pub(super) async fn commit(&mut self, client: &Client) -> Result<(), StoreError> {
        let mark = random();
        self.fence(client, mark).await?;
        // The new database has lost nothing, wherever it was made.
        let sql = "UPDATE multicluster.lead SET rewound = false, origin = multicluster.origin()";
        client.execute_typed(sql, &[]).await?;
        let Err(error) = client.batch_execute("COMMIT").await else {
            self.taken.seq += 1;
            return Ok(());
        };
        // Was only the answer lost?
        let (token, seq) = (self.taken.token.clone(), int(self.taken.seq + 1));
        let sql = "SELECT FROM multicluster.lead WHERE token = $1 AND seq = $2 AND mark = $3";
        let params: [Param<'_>; 3] = [(&token, Type::TEXT), (&seq, Type::INT8), (&mark, Type::INT8)];
        match self.client.query_typed_opt(sql, &params).await {
            Ok(Some(_)) => {
                self.taken.seq += 1;
                // A synchronous standby may not have it yet. It has it with the next one.
                self.renew().await
            }
            _ => {
                let what = format!(
                    "{}\n  hint: the copy may be complete: look whether there are jobs before you copy again",
                    fail::text(&error)
                );
                Err(StoreError::Unreachable { what })
            }
        }
    }

    pub(super) async fn renew(&mut self) -> Result<(), StoreError> {
        let renewed = timeout(LEASE / 2, self.fence(&self.client, random())).await;
        renewed.unwrap_or_else(|_| Err(StoreError::Unreachable { what: "no answer".into() }))?;
        self.taken.seq += 1;
        Ok(())
    }

    /// Fails if another one leads.
    async fn fence(&self, client: &Client, mark: i64) -> Result<(), StoreError> {
        let sql = "SELECT multicluster.fence($1, $2, $3, $4, $5)";
        let (epoch, seq) = (int(self.taken.epoch), int(self.taken.seq + 1));
        let lease = i64::try_from(LEASE.as_millis()).unwrap_or(i64::MAX);
        let params: [Param<'_>; 5] = [
            (&self.taken.token, Type::TEXT),
            (&epoch, Type::INT8),
            (&seq, Type::INT8),
            (&mark, Type::INT8),
            (&lease, Type::INT8),
        ];
        client.query_typed(sql, &params).await.map_err(|error| self.lost(error.into()))?;
        Ok(())
    }

    /// Whoever comes next need not wait for the lease.
    pub(super) async fn resign(self, database: &Database) -> Result<(), StoreError> {
        let sql = "UPDATE multicluster.lead SET lease_ms = 0, seq = seq + 1
                   WHERE epoch = $1 AND token = $2 AND seq = $3";
        let (epoch, seq) = (int(self.taken.epoch), int(self.taken.seq));
        let params: [Param<'_>; 3] =
            [(&epoch, Type::INT8), (&self.taken.token, Type::TEXT), (&seq, Type::INT8)];
        self.client.execute_typed(sql, &params).await?;
        let me = &database.0.me.name;
        self.client
            .execute_typed("DELETE FROM multicluster.replicas WHERE name = $1", &[(me, Type::TEXT)])
            .await?;
        Ok(())
    }

    fn lost(&self, error: StoreError) -> StoreError {
        match error {
            StoreError::Postgres { what, code } if code == fail::FENCED => {
                StoreError::NotLeader { epoch: self.taken.epoch, why: what }
            }
            error => error,
        }
    }
}

pub(super) async fn connect(target: &Target) -> Result<Client, StoreError> {
    let connecting = target.config.connect(target.tls.clone()).await;
    let (client, connection) = connecting.map_err(|error| check::connecting(target, &error))?;
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}

pub(super) fn random() -> i64 {
    RandomState::new().build_hasher().finish().cast_signed()
}
