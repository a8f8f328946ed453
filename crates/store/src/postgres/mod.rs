//! One PostgreSQL database that any number of replicas share: one leads, the others stand by.

mod cache;
mod check;
pub(crate) mod copy;
mod fail;
mod hold;
mod list;
mod load;
mod packages;
mod pipe;
mod plan;
mod pool;
mod reader;
mod runs;
mod schema;
mod seat;
mod secrets;
mod tls;
mod url;
mod writer;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use multicluster_types::Timestamp;
use parking_lot::Mutex;

use self::{
    packages::{KeptPackages, PgPackages},
    pool::{Pool, Threads},
    reader::PgReader,
    seat::Taken,
    secrets::PgTokens,
    url::Target,
    writer::Writer,
};
use crate::{
    Moment, Options, Packages, Reader, Sealing, Store, StoreError, TokenTable, Trust,
    seal::{Keys, Seals},
};

/// A database, connected, checked and migrated.
#[derive(Debug, Clone)]
pub struct Database(Arc<Inner>);

/// This replica, as others see it.
#[derive(Debug, Clone)]
pub struct Replica {
    /// Unique among all replicas, now and before: host and process, for example.
    pub name: String,
    /// How other replicas reach it.
    pub address: String,
    /// The version of its program.
    pub version: String,
    /// The name of the control plane; `None`: whichever the database holds.
    pub plane: Option<String>,
}

/// Who leads, as of one query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    /// The number of the leadership; 0: nobody has ever led.
    pub epoch: u64,
    /// The number of the leader's last commit.
    pub seq: u64,
    /// The replica that leads, or led last.
    pub holder: Option<String>,
    /// How to reach it.
    pub address: Option<String>,
    /// Since when it leads.
    pub since: Timestamp,
    /// How long the leader leads without a commit. Zero: it resigned.
    pub lease: Duration,
    /// Has the lease ended? No commit came for that long, by the clock of this process.
    pub expired: bool,
    /// The clock of the database.
    pub now: Timestamp,
    /// Which history of which database this is: its system identifier and timeline.
    pub origin: String,
    /// It is another history than that of the last leadership, or commits are gone that this process has
    /// seen. So a leader of before may still trust its lease, although this database says that it ended.
    pub moved: bool,
    /// The replicas that were seen lately.
    pub replicas: Vec<ReplicaSeen>,
}

/// A replica that was seen lately.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the fields say it")]
pub struct ReplicaSeen {
    pub name: String,
    pub address: String,
    pub version: String,
    pub seen_at: Timestamp,
}

/// The lead was taken.
pub struct Lead {
    /// For the one thread that writes. Its first [`Store::load`] reads the state.
    pub store: Box<dyn Store>,
    /// Until when this replica may act and answer from memory. Extended by the store with each commit.
    pub trust: Trust,
    /// The number of this leadership.
    pub epoch: u64,
    /// The clock of the database when the lead was taken.
    pub now: Timestamp,
    /// The database may have lost commits since the last leadership: what runs on the clusters must be
    /// looked at before anything is dispatched. See [`Store::adopted`].
    pub rewound: bool,
}

impl std::fmt::Debug for Lead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lead")
            .field("epoch", &self.epoch)
            .field("rewound", &self.rewound)
            .finish_non_exhaustive()
    }
}

/// What all parts share.
#[derive(Debug)]
struct Inner {
    target: Target,
    options: Arc<Options>,
    me: Replica,
    plane: String,
    seals: Seals,
    /// For the seat and for packages, so that they do not wait for callers.
    own: Pool,
    reader: Pool,
    own_reader: Pool,
    packages: PgPackages,
    /// The highest (epoch, seq) that this process has seen.
    highest: Mutex<(u64, u64)>,
    /// The last commit that was seen, and when it was first seen.
    last: Mutex<Option<(u64, u64, Moment)>>,
    heartbeat: Mutex<Option<Instant>>,
    /// Dropped last.
    _threads: Threads,
}

impl Database {
    /// Connects, checks everything, and only then creates or migrates the schema `multicluster`.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] with a hint, [`StoreError::TooNew`], [`StoreError::Locked`] without the
    /// keys that it is sealed with, [`StoreError::Unreachable`].
    pub async fn open(url: &str, options: Options, me: Replica) -> Result<Self, StoreError> {
        let target = url::parse(url)?;
        let threads = Threads::start()?;
        let handle = threads.handle();
        let opening = {
            let (target, me, keys) = (target.clone(), me.clone(), options.keys.clone());
            handle.spawn(async move { prepare(&target, &me, keys.as_ref()).await })
        };
        let plane =
            opening.await.unwrap_or_else(|error| Err(StoreError::Unreachable { what: error.to_string() }))?;
        let seals = Seals::new(options.keys.clone(), plane.as_str());
        let options = Arc::new(options);
        let pool = |size| Pool::new(handle.clone(), &target, size);
        let own = pool(6)?;
        let packages = PgPackages::open(own.clone(), options.clone())?;
        let (reader, own_reader) = (pool(options.readers)?, pool(options.readers)?);
        let (highest, last, heartbeat) = Default::default();
        let inner = Inner {
            target,
            options,
            me,
            plane,
            seals,
            own,
            reader,
            own_reader,
            packages,
            highest,
            last,
            heartbeat,
            _threads: threads,
        };
        Ok(Self(Arc::new(inner)))
    }

    /// For queries of callers, and for those of the control plane itself.
    #[must_use]
    pub fn readers(&self) -> (Arc<dyn Reader>, Arc<dyn Reader>) {
        let reader = |pool: &Pool| Arc::new(PgReader::new(pool.clone(), self.clone()));
        (reader(&self.0.reader), reader(&self.0.own_reader))
    }

    /// For uploads and dispatches.
    #[must_use]
    pub fn packages(&self) -> Arc<dyn Packages> {
        Arc::new(KeptPackages { packages: self.0.packages.clone(), _database: self.clone() })
    }

    /// The tokens of all replicas.
    #[must_use]
    pub fn tokens(&self) -> Arc<dyn TokenTable> {
        Arc::new(PgTokens::new(self.0.own.clone(), self.clone()))
    }

    /// How secrets are stored: the leader seals in the background what is plain or sealed with an older
    /// key, and says in its log when it is done.
    ///
    /// # Errors
    /// As [`Database::seat`].
    pub async fn sealing(&self) -> Result<Sealing, StoreError> {
        let inner = self.0.clone();
        self.0.own.run(async move { secrets::sealing(&*inner.own.client().await?, &inner.seals).await }).await
    }

    /// The name of the control plane.
    #[must_use]
    pub fn plane(&self) -> &str {
        &self.0.plane
    }

    /// Who leads. One light query, which also tells the others that this replica is there.
    ///
    /// # Errors
    /// [`StoreError::Unreachable`] and other errors of the database.
    pub async fn seat(&self) -> Result<Seat, StoreError> {
        let inner = self.0.clone();
        self.0.own.run(async move { seat::seat(&inner).await }).await
    }

    /// Takes the lead, if nobody has taken it since the seat was seen and the lease has ended. `None`:
    /// somebody was faster, or the leader came back.
    ///
    /// # Errors
    /// [`StoreError::Locked`], [`StoreError::Unusable`] if it is another control plane by now, and as
    /// [`Database::seat`]. Then the lead may have been taken; its lease ends by itself.
    pub async fn take(&self, seen: &Seat) -> Result<Option<Lead>, StoreError> {
        let (inner, seen) = (self.0.clone(), seen.clone());
        // Others may have a newer key file, or may have copied another control plane to here.
        self.0.own.run(async move { inner.check().await }).await?;
        let inner = self.0.clone();
        let taken = self.0.own.run(async move { seat::take(&inner, &seen).await }).await?;
        let Some(taken) = taken else { return Ok(None) };
        self.0.highest.lock().clone_from(&(taken.epoch, taken.seq));
        let trust = Trust::since(taken.sent, window(&self.0.options));
        let store = Box::new(Writer::new(self.clone(), &taken, trust.clone())?);
        let Taken { epoch, now, rewound, .. } = taken;
        Ok(Some(Lead { store, trust, epoch, now, rewound }))
    }
}

impl Inner {
    async fn check(&self) -> Result<(), StoreError> {
        let client = self.own.client().await?;
        check::plane(&client, &Replica { plane: Some(self.plane.clone()), ..self.me.clone() }).await?;
        secrets::check(&client, self.options.keys.as_ref()).await
    }

    /// Something that this process knows to be committed.
    fn saw(&self, epoch: u64, seq: u64) {
        let mut highest = self.highest.lock();
        *highest = (*highest).max((epoch, seq));
    }

    /// Has this process seen commits that the database has lost?
    fn has_seen_more(&self, seen: &Seat) -> bool {
        *self.highest.lock() > (seen.epoch, seen.seq)
    }

    /// How long the last commit is known to be the last one. A leader trusts its lease from before that
    /// commit was sent, so it trusts it no longer once this is as long, whatever other clocks show.
    fn unchanged_for(&self, seen: &Seat) -> Duration {
        let mut last = self.last.lock();
        if last.is_none_or(|(epoch, seq, _)| (epoch, seq) != (seen.epoch, seen.seq)) {
            *last = Some((seen.epoch, seen.seq, Moment::now()));
        }
        last.map_or(Duration::ZERO, |(.., since)| since.elapsed())
    }

    fn is_heartbeat_due(&self, every: Duration) -> bool {
        self.heartbeat.lock().is_none_or(|sent| sent.elapsed() >= every)
    }

    fn heartbeat_sent(&self) {
        *self.heartbeat.lock() = Some(Instant::now());
    }
}

/// Everything before the first use: connect, check, migrate. Returns the name of the control plane.
async fn prepare(target: &Target, me: &Replica, keys: Option<&Arc<Keys>>) -> Result<String, StoreError> {
    let (client, connection) =
        target.config.connect(target.tls.clone()).await.map_err(|error| check::connecting(target, &error))?;
    let connection = tokio::spawn(connection);
    let prepared = async {
        let is_present = check::everything(target, &client, me).await?;
        secrets::check(&client, keys).await?;
        if !is_present {
            schema::migrate(&client, me).await?;
        }
        check::plane(&client, me).await
    };
    let prepared = prepared.await;
    drop(client);
    connection.abort();
    prepared
}

/// How long the leader trusts its memory after it sent a renewal.
fn window(options: &Options) -> Duration {
    options.lease.saturating_sub(options.margin)
}

/// A number for PostgreSQL, which has no unsigned ones. From a caller, a number this high means "beyond
/// the end".
fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number from PostgreSQL: we store no negative numbers.
fn uint(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
