//! The leader's commits, over one connection.
//!
//! Every transaction begins with the fence, which raises `seq` and renews the lease, and fails if another
//! replica leads. A commit whose answer is lost is sent again under the same number: either it is stored
//! now, or the fence says that its number is taken, and then the mark beside it says whether by itself.
//! So whatever a commit returns is certain, except that [`StoreError::NotLeader`] may also mean that the
//! next leader finds what was to be stored. Memory changes only with commits that are known to be stored.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hasher, RandomState},
    time::{Duration, Instant},
};

use multicluster_core::record::AttemptRecord;
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_postgres::{Client, Row, types::Type};

use super::{
    Database, fail, int, load,
    pipe::{self, Param, Statement},
    plan::{self, Memory},
    runs::Runs,
    seat::{self, Taken},
    secrets::{self, Resealing, Step},
    window,
};
use crate::{Change, Loaded, Moment, Store, StoreError, Trust, batch::Batch, codec};

/// An answer that takes longer than this many leases counts as lost.
const ANSWER: u32 = 5;
/// A commit whose fate is not known after this many leases: this replica stops to lead. Others could long
/// have taken over.
const GIVE_UP: u32 = 10;
/// Between two log lines about attempts.
const TELL: Duration = Duration::from_secs(1);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// The only writer, as long as it leads.
#[derive(Debug)]
pub(super) struct Writer {
    line: Line,
    /// `None`: not loaded yet.
    memory: Option<Memory>,
    /// An answer was lost that says what was forgotten of the history of runs.
    are_runs_stale: bool,
    /// `None`: nothing is left to be sealed again.
    resealing: Option<Resealing>,
    /// A runtime of one thread, which is whoever calls. Dropped in [`Drop`].
    runtime: Option<Runtime>,
}

impl Writer {
    pub(super) fn new(database: Database, taken: &Taken, trust: Trust) -> Result<Self, StoreError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| StoreError::Io { path: "a thread".into(), error })?;
        let Taken { epoch, seq, token, .. } = taken.clone();
        let line = Line { database, trust, epoch, seq, token, connected: None };
        Ok(Self { line, memory: None, are_runs_stale: false, resealing: None, runtime: Some(runtime) })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.line.connected = None;
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Store for Writer {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        let (loaded, memory) = self.wait(async |writer| writer.line.load().await)?;
        self.memory = Some(memory);
        self.are_runs_stale = false;
        self.resealing = Resealing::new(&self.line.database.0.seals);
        Ok(loaded)
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        if changes.is_empty() {
            return Ok(());
        }
        if self.memory.is_none() {
            self.load()?;
        }
        self.wait(async |writer| writer.write(changes).await)
    }

    fn renew(&mut self) -> Result<(), StoreError> {
        self.wait(async |writer| writer.renewed().await)
    }

    fn renews_every(&self) -> Option<Duration> {
        Some(self.line.database.0.options.lease / 4)
    }

    fn adopted(&mut self) -> Result<(), StoreError> {
        let sql = "UPDATE multicluster.lead SET rewound = false WHERE rewound";
        self.wait(async |writer| writer.line.fenced(&[Statement::new(sql, Vec::new())]).await.map(drop))
    }

    fn resign(&mut self) -> Result<(), StoreError> {
        // Before it is sent: from then on, another one may lead.
        let was_trusted = !self.line.trust.has_ended();
        let epoch = self.line.epoch;
        self.line.trust.end();
        if !was_trusted {
            return Err(StoreError::NotLeader { epoch, why: "it ended before".into() });
        }
        self.wait(async |writer| writer.line.resign().await)
    }
}

impl Writer {
    /// Runs this to its end.
    fn wait<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let runtime = self.runtime.take().expect("put back below");
        let done = runtime.block_on(work(self));
        self.runtime = Some(runtime);
        done
    }

    async fn write(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        let batch = Batch::of(changes);
        let Some(memory) = &mut self.memory else { return Ok(()) };
        let with_attempts = plan::with_attempts(&batch, memory);
        let attempts = if with_attempts.is_empty() {
            HashMap::new()
        } else {
            self.line.attempts(with_attempts.iter().map(|(_, job)| *job).collect()).await?
        };
        if self.are_runs_stale {
            memory.runs = self.line.ask(async |client| Runs::load(client).await).await?;
            self.are_runs_stale = false;
        }
        let database = self.line.database.clone();
        let mut plan = plan::plan(&batch, memory, &attempts, &database.0.options, &database.0.seals)?;
        let step = self.line.step(&mut self.resealing).await;
        plan.statements.extend(step.iter().flat_map(|step| step.statements.clone()));
        let answers = self.line.fenced(&plan.statements).await?;
        self.sealed(step.as_ref());
        let Some(memory) = &mut self.memory else { return Ok(()) };
        self.are_runs_stale = answers.is_none() && plan.pruned.is_some();
        let answers = answers.unwrap_or_default();
        let pruned = plan.pruned.and_then(|at| answers.get(at)?.first());
        memory.keep(plan, pruned);
        Ok(())
    }

    /// An empty commit, or one that only seals.
    async fn renewed(&mut self) -> Result<(), StoreError> {
        let step = self.line.step(&mut self.resealing).await;
        self.line.fenced(step.as_ref().map_or(&[], |step| &step.statements)).await?;
        self.sealed(step.as_ref());
        Ok(())
    }

    fn sealed(&mut self, step: Option<&Step>) {
        if let (Some(resealing), Some(step)) = (&mut self.resealing, step) {
            resealing.done(step);
        }
    }
}

/// The connection of the leader, and what it must say to be one.
#[derive(Debug)]
struct Line {
    database: Database,
    trust: Trust,
    epoch: u64,
    /// The number of the last commit.
    seq: u64,
    token: String,
    connected: Option<Connected>,
}

#[derive(Debug)]
struct Connected {
    client: Client,
    task: JoinHandle<()>,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What became of one attempt.
enum Attempt {
    Stored(Vec<Vec<Row>>),
    /// Not stored, because another one leads or the number is taken.
    Fenced(String),
    /// Not stored.
    Refused(tokio_postgres::Error),
    /// Nobody knows. False: nothing was sent.
    Lost(StoreError, bool),
}

impl Line {
    /// Commits these statements as the next commit. `None`: they are stored, but their answers are lost.
    async fn fenced(&mut self, statements: &[Statement]) -> Result<Option<Vec<Vec<Row>>>, StoreError> {
        if self.trust.has_ended() {
            return Err(self.not_leader("it ended before"));
        }
        let seq = self.seq + 1;
        // By chance the same as another's: never.
        let mark = RandomState::new().build_hasher().finish().cast_signed();
        let statements: Vec<_> =
            std::iter::once(self.fence(seq, mark)).chain(statements.iter().cloned()).collect();
        let (started, mut may_have_arrived) = (Instant::now(), false);
        let mut told: Option<Instant> = None;
        loop {
            let sent = Moment::now();
            let trouble = match self.attempt(&statements).await {
                Attempt::Stored(mut answers) => {
                    self.arrived(seq, sent);
                    answers.remove(0);
                    return Ok(Some(answers));
                }
                Attempt::Fenced(why) if !may_have_arrived => return Err(self.lost_the_lead(&why)),
                Attempt::Fenced(why) => match self.has_arrived(seq, mark).await {
                    // It is there, but perhaps not on a synchronous standby yet: a server that crashed
                    // while it waited for the standby shows it without. A commit that comes after it
                    // waits for both. The lease runs from that one.
                    Ok(true) => {
                        self.seq = seq;
                        self.database.0.saw(self.epoch, seq);
                        return Box::pin(self.fenced(&[])).await.map(|_| None);
                    }
                    Ok(false) => return Err(self.lost_the_lead(&why)),
                    Err(error) => error,
                },
                Attempt::Refused(error) if fail::is_passing(&error) => error.into(),
                Attempt::Refused(error) if !may_have_arrived => return Err(error.into()),
                // An earlier attempt may still be on its way.
                Attempt::Refused(error) => return Err(self.lost_the_lead(&fail::text(&error))),
                Attempt::Lost(error, was_sent) => {
                    self.connected = None;
                    may_have_arrived |= was_sent;
                    error
                }
            };
            if self.trust.has_ended() || started.elapsed() > self.database.0.options.lease * GIVE_UP {
                return Err(self.lost_the_lead(&trouble.to_string()));
            }
            if told.is_none_or(|told| told.elapsed() >= TELL) {
                told = Some(Instant::now());
                tracing::warn!(error = %trouble, seq, "a commit is tried again");
            }
            sleep(PAUSE).await;
        }
    }

    fn fence(&self, seq: u64, mark: i64) -> Statement {
        let lease = int(seat::millis(&self.database.0.options));
        Statement::new(
            "SELECT multicluster.fence($1, $2, $3, $4, $5)",
            vec![
                Param::Text(self.token.clone()),
                Param::Int(int(self.epoch)),
                Param::Int(int(seq)),
                Param::Int(mark),
                // Negative: not synced, for tests.
                Param::Int(if self.database.0.options.sync { lease } else { -lease }),
            ],
        )
    }

    async fn attempt(&mut self, statements: &[Statement]) -> Attempt {
        let begin = if self.database.0.options.sync { BEGIN } else { BEGIN_UNSYNCED };
        let patience = self.patience();
        let client = match self.client().await {
            Ok(client) => client,
            Err(error) => return Attempt::Lost(error, false),
        };
        match timeout(patience, pipe::transaction(client, begin, statements)).await {
            Ok(Ok(answers)) => Attempt::Stored(answers),
            Ok(Err(error)) if fail::is_lost(&error) => Attempt::Lost(error.into(), true),
            Ok(Err(error)) if fail::is_fenced(&error) => Attempt::Fenced(fail::text(&error)),
            Ok(Err(error)) => Attempt::Refused(error),
            Err(_) => Attempt::Lost(StoreError::Unreachable { what: "no answer in time".into() }, true),
        }
    }

    /// Is the commit that has this number ours?
    async fn has_arrived(&mut self, seq: u64, mark: i64) -> Result<bool, StoreError> {
        let (token, epoch, seq) = (self.token.clone(), int(self.epoch), int(seq));
        let sql = "SELECT FROM multicluster.lead WHERE token = $1 AND epoch = $2 AND seq = $3 AND mark = $4";
        let found = self
            .ask(async |client: &Client| {
                let params: [super::pool::Param<'_>; 4] =
                    [(&token, Type::TEXT), (&epoch, Type::INT8), (&seq, Type::INT8), (&mark, Type::INT8)];
                Ok(client.query_typed_opt(sql, &params).await?)
            })
            .await?;
        Ok(found.is_some())
    }

    fn arrived(&mut self, seq: u64, sent: Moment) {
        self.seq = seq;
        self.database.0.saw(self.epoch, seq);
        self.trust.extend(sent, window(&self.database.0.options));
    }

    /// One question outside of a transaction.
    async fn ask<T>(
        &mut self,
        question: impl AsyncFnOnce(&Client) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let patience = self.patience();
        let client = self.client().await?;
        let answer = timeout(patience, question(client)).await;
        let answer = answer.unwrap_or_else(|_| Err(StoreError::Unreachable { what: "no answer".into() }));
        if matches!(answer, Err(StoreError::Unreachable { .. })) {
            self.connected = None;
        }
        answer
    }

    /// What to seal again with the next commit. An error only means that it stays as it is.
    async fn step(&mut self, resealing: &mut Option<Resealing>) -> Option<Step> {
        let due = resealing.as_ref().filter(|resealing| resealing.is_due())?;
        let database = self.database.clone();
        let step = match self.ask(async |client| due.step(client, &database.0.seals).await).await {
            Ok(step) => step,
            Err(error) => {
                tracing::error!(%error, "stored secrets cannot be encrypted with the new key; the next leader tries again");
                None
            }
        };
        if step.is_none()
            && let Some(done) = resealing.take()
            && let (Some(key), values @ 1..) = (database.0.seals.first(), done.sealed())
        {
            tracing::info!(%key, values, "stored secrets are now encrypted with this key");
        }
        step
    }

    /// The stored attempts of these jobs.
    async fn attempts(&mut self, jobs: Vec<i64>) -> Result<HashMap<i64, Vec<AttemptRecord>>, StoreError> {
        let sql = "SELECT job, record FROM multicluster.attempts WHERE job = ANY($1) ORDER BY job, attempt";
        let question =
            async |client: &Client| Ok(client.query_typed(sql, &[(&jobs, Type::INT8_ARRAY)]).await?);
        // The connection may have died since the last commit.
        let rows = match self.ask(question).await {
            Err(StoreError::Unreachable { .. }) => self.ask(question).await?,
            other => other?,
        };
        let mut attempts: HashMap<i64, Vec<AttemptRecord>> = HashMap::new();
        for row in rows {
            // A commit does not fail because of a record that cannot be read.
            let parsed = codec::parse("an attempt", row.try_get::<_, &str>(1)?).ok();
            attempts.entry(row.try_get(0)?).or_default().extend(parsed);
        }
        Ok(attempts)
    }

    /// Reads everything over a connection of its own, and stays the leader meanwhile.
    async fn load(&mut self) -> Result<(Loaded, Memory), StoreError> {
        let every = self.database.0.options.lease / 4;
        // Before the first value that is sealed with our key.
        self.fenced(&secrets::announce(&self.database.0.seals)).await?;
        let reading = self.connect().await?;
        let database = self.database.clone();
        let loading = load::everything(&reading.client, database.plane().to_owned(), &database.0.seals);
        tokio::pin!(loading);
        loop {
            tokio::select! {
                loaded = &mut loading => return loaded,
                () = sleep(every) => self.fenced(&[]).await.map(drop)?,
            }
        }
    }

    async fn resign(&mut self) -> Result<(), StoreError> {
        let sql = "UPDATE multicluster.lead SET lease_ms = 0, seq = seq + 1
                   WHERE epoch = $1 AND token = $2 AND seq = $3";
        let (epoch, seq, token) = (int(self.epoch), int(self.seq), self.token.clone());
        self.ask(async |client| {
            let params: [super::pool::Param<'_>; 3] =
                [(&epoch, Type::INT8), (&token, Type::TEXT), (&seq, Type::INT8)];
            Ok(client.execute_typed(sql, &params).await.map(drop)?)
        })
        .await
    }

    async fn client(&mut self) -> Result<&Client, StoreError> {
        let connected = match self.connected.take().filter(|connected| !connected.client.is_closed()) {
            Some(connected) => connected,
            None => self.connect().await?,
        };
        Ok(&self.connected.insert(connected).client)
    }

    async fn connect(&self) -> Result<Connected, StoreError> {
        let target = &self.database.0.target;
        let connecting = timeout(self.patience(), target.config.connect(target.tls.clone())).await;
        let (client, connection) = connecting
            .map_err(|_| StoreError::Unreachable { what: format!("{}: no answer", target.shown) })??;
        let task = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error = %fail::text(&error), "the leader's connection ended");
            }
        });
        Ok(Connected { client, task })
    }

    fn patience(&self) -> Duration {
        self.database.0.options.lease * ANSWER
    }

    fn lost_the_lead(&self, why: &str) -> StoreError {
        self.trust.end();
        self.not_leader(why)
    }

    fn not_leader(&self, why: &str) -> StoreError {
        StoreError::NotLeader { epoch: self.epoch, why: why.to_owned() }
    }
}

/// Settings of one transaction: a pooler gives the session to others afterwards.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED;
    SET LOCAL idle_in_transaction_session_timeout = 5000; SET LOCAL statement_timeout = 60000;
    SET LOCAL lock_timeout = 5000";
const BEGIN_UNSYNCED: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL synchronous_commit = off";

const _: () = assert!(ANSWER < GIVE_UP);
