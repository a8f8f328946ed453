//! The one loop: input → core → commit → effects.
//!
//! Two threads. The *driver* owns the core: it takes what has arrived, feeds it, and
//! hands what came out to the *writer*. The writer makes it durable, and only then are
//! callers answered, clusters asked and watchers told. While the writer waits for the
//! disk the driver goes on: whatever it produced meanwhile shares the next transaction.
//!
//! Two ways lead to the driver: commands, which keep their order, and looks, which change nothing.
//! Looks have a queue of their own, so that a flood of submissions on a slow disk hides nothing.

mod disk;
mod outbox;
#[cfg(test)]
mod tests;
mod turn;
mod writer;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use multicluster_api::codes;
use multicluster_core::{Accepted, Core, Identity, Input, Parent, Refusal, Reply, Submission};
use multicluster_store::{StoreError, Trust};
use multicluster_types::{ContentHash, JobId, Kind, Owner, Payload, Priority, Work};
use tokio::sync::{
    mpsc::{self, error::SendTimeoutError},
    oneshot,
};

pub(crate) use disk::Disk;
pub(crate) use outbox::Outbox;
#[cfg(test)]
#[cfg(target_os = "linux")]
pub(crate) use turn::start_here;
pub(crate) use turn::{Parts, Running, Turn, start};

use self::outbox::Answer;
use crate::{
    clusters::lanes::{Engine, Word},
    metrics::{Metrics, Shed},
    problem::Problem,
};

/// How much may wait for the driver before callers are held up: backpressure.
const INBOX: usize = 4096;
/// How long a caller is held up before it is turned away.
const HELD_UP: Duration = Duration::from_secs(5);

/// Talks to the driver, from anywhere.
#[derive(Clone)]
pub struct Driver {
    commands: mpsc::Sender<Command>,
    looks: mpsc::Sender<Look>,
    metrics: Metrics,
    pub(crate) disk: Disk,
    /// Until when this process leads; `None`: it is the only one.
    lead: Option<Trust>,
}

/// What has arrived for the driver.
pub(crate) struct Inbox {
    commands: mpsc::Receiver<Command>,
    looks: mpsc::Receiver<Look>,
}

/// Looks at the core, which may be ahead of the disk.
pub(crate) type Look = Box<dyn FnOnce(&Core) + Send>;

/// What the driver is asked to do.
enum Command {
    /// Do this between two other things, and answer when what came of it is durable.
    Do(Box<dyn FnOnce(&mut Turn) -> Answer + Send>),
    /// A lane says something.
    Lane(Word),
    /// Commit what there is, and end.
    Stop,
}

/// New, checked work: the core's part, and the payload, which the core never sees.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// As the core takes it.
    pub submission: Submission,
    /// `None` for tasks and actors: their callers run them.
    payload: Option<Arc<Payload>>,
}

/// Why the driver did not do something.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The core refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The control plane is stopping.
    #[error("the control plane is stopping\n  hint: try again in a moment")]
    Stopping,
    /// Another replica leads, or none. Nothing was done here.
    #[error(
        "this replica of the control plane does not lead; nothing was done\n  hint: try again in a moment"
    )]
    NoLeader,
    /// This replica stopped leading while it had the request.
    #[error(
        "this replica of the control plane stopped leading while it had the request, which may have been done\n  \
         hint: send the same request again if it has an id, or look first whether it was done"
    )]
    LeaderLost,
    /// More is asked than is kept up with. Nothing was changed.
    #[error(
        "the control plane is overloaded: {INBOX} requests wait for its scheduler\n  hint: try again in a moment"
    )]
    Overloaded,
    /// What would be accepted now could not be kept.
    #[error(
        "the state has not been writable for {seconds} s: {error}\n  \
         hint: nothing was accepted; free up disk space, or repair the disk or database, then try again"
    )]
    CannotWrite {
        /// What the store says.
        error: String,
        /// For how long.
        seconds: u64,
    },
    /// The rest of the disk is kept for work that was accepted before.
    #[error(
        "the disk of the state directory has {} MiB free; the last {} MiB are kept for jobs that were \
         accepted before\n  hint: nothing was accepted; free up disk space, then try again", free >> 20, reserve >> 20
    )]
    DiskFull {
        /// Bytes that are free.
        free: u64,
        /// Bytes that stay free.
        reserve: u64,
    },
    /// A thread of ours panicked. Asking again would meet the same bug.
    #[error("the request ran into a bug")]
    Bug,
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(refusal) => refusal.into(),
            Failure::Store(error) => error.into(),
            Failure::CannotWrite { .. } | Failure::DiskFull { .. } => {
                Problem::told(codes::CANNOT_WRITE, &failure)
            }
            Failure::Stopping => Problem::told(codes::STOPPING, &failure),
            Failure::NoLeader => Problem::told(codes::NO_LEADER, &failure),
            Failure::LeaderLost => Problem::told(codes::LEADER_LOST, &failure),
            Failure::Overloaded => Problem::told(codes::OVERLOADED, &failure),
            Failure::Bug => Problem::told(codes::INTERNAL, &failure),
        }
    }
}

impl Driver {
    /// `lead`: until when this process leads; `None`: it is the only one.
    pub(crate) fn new(metrics: Metrics, lead: Option<Trust>) -> (Self, Inbox) {
        let ((to_do, commands), (to_see, looks)) = (mpsc::channel(INBOX), mpsc::channel(INBOX));
        let driver = Self { commands: to_do, looks: to_see, metrics, disk: Disk::default(), lead };
        (driver, Inbox { commands, looks })
    }

    /// Of a replica that does not lead: every request finds that nobody is there to answer.
    pub(crate) fn detached(metrics: Metrics) -> Self {
        let trust = Trust::always();
        trust.end();
        Self::new(metrics, Some(trust)).0
    }

    /// Feeds the core and waits until what came of it is durable.
    ///
    /// # Errors
    /// The core's refusal, [`Failure::Stopping`], [`Failure::Overloaded`].
    pub async fn act(&self, input: Input) -> Result<Reply, Failure> {
        let input = Box::new(input);
        Ok(self.turn(move |turn| turn.act(*input)).await??)
    }

    /// Accepts one job: durable when this returns.
    ///
    /// # Errors
    /// The core's refusal, [`Failure::CannotWrite`], [`Failure::DiskFull`], or [`Failure::Stopping`].
    pub async fn submit(&self, job: NewJob) -> Result<Accepted, Failure> {
        self.disk.check()?;
        Ok(self.turn(move |turn| turn.submit(job)).await??)
    }

    /// Accepts many at once: one transaction, one cycle, one answer for each in order.
    ///
    /// # Errors
    /// [`Failure::CannotWrite`], [`Failure::DiskFull`] or [`Failure::Stopping`].
    pub async fn submit_batch(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Accepted, Refusal>>, Failure> {
        self.disk.check()?;
        self.turn(move |turn| turn.submit_batch(jobs)).await
    }

    /// Does several things in one turn of the driver; returns when all that came of it, and all
    /// that it saw, is durable. Keep it short: everything else waits. Before new work, ask
    /// [`Disk::check`].
    pub(crate) async fn turn<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Turn) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let (reply, answer) = oneshot::channel();
        let begun = Arc::new(AtomicBool::new(false));
        let is_begun = Arc::clone(&begun);
        let act = move |turn: &mut Turn| -> Answer {
            is_begun.store(true, Ordering::Relaxed);
            let done = act(turn);
            // The caller may have gone.
            Box::new(move || drop(reply.send(done)))
        };
        self.send_in_time(&self.commands, Command::Do(Box::new(act))).await?;
        answer.await.map_err(|_| match &self.lead {
            Some(_) if begun.load(Ordering::Relaxed) => Failure::LeaderLost,
            _ => self.gone(),
        })
    }

    /// Looks at the core between two inputs; it may be ahead of what is durable. Keep it
    /// short: everything else waits.
    ///
    /// # Errors
    /// [`Failure::Stopping`], [`Failure::Overloaded`].
    pub async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Core) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let (look, answer) = answered(look);
        self.send_in_time(&self.looks, look).await?;
        self.trusted(answer).await
    }

    /// [`read`](Self::read) for streams and background tasks: they wait while the driver is
    /// overloaded instead of failing.
    ///
    /// # Errors
    /// Only [`Failure::Stopping`] and [`Failure::NoLeader`].
    pub(crate) async fn read_patiently<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Core) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let (look, answer) = answered(look);
        self.looks.send(look).await.map_err(|_| self.gone())?;
        self.trusted(answer).await
    }

    /// An answer from memory, once it is certain that nobody else has led since.
    async fn trusted<T>(&self, answer: oneshot::Receiver<T>) -> Result<T, Failure> {
        let answer = answer.await.map_err(|_| self.gone())?;
        match &self.lead {
            Some(trust) if !trust.wait().await => Err(Failure::NoLeader),
            _ => Ok(answer),
        }
    }

    /// The driver has ended, and what was asked of it was not begun.
    fn gone(&self) -> Failure {
        if self.lead.is_some() { Failure::NoLeader } else { Failure::Stopping }
    }

    /// Ends the driver once all that arrived before is durable.
    pub(crate) async fn stop(&self) {
        // The driver may have ended.
        drop(self.commands.send(Command::Stop).await);
    }

    #[cfg(test)]
    pub(crate) fn has_room_for_commands(&self) -> bool {
        self.commands.capacity() > 0
    }

    #[cfg(test)]
    pub(crate) fn has_room_for_looks(&self) -> bool {
        self.looks.capacity() > 0
    }

    /// For callers: they would rather be told to come back than wait for ever.
    async fn send_in_time<T>(&self, way: &mpsc::Sender<T>, what: T) -> Result<(), Failure> {
        way.send_timeout(what, HELD_UP).await.map_err(|error| match error {
            SendTimeoutError::Timeout(_) => {
                self.metrics.shed(Shed::Overload);
                Failure::Overloaded
            }
            SendTimeoutError::Closed(_) => self.gone(),
        })
    }
}

impl Engine for Driver {
    fn tell(&self, word: Word) -> BoxFuture<'_, Option<()>> {
        Box::pin(async { self.commands.send(Command::Lane(word)).await.ok() })
    }
}

/// The same look, and where its answer comes.
fn answered<T: Send + 'static>(
    look: impl FnOnce(&Core) -> T + Send + 'static,
) -> (Look, oneshot::Receiver<T>) {
    let (reply, answer) = oneshot::channel();
    (Box::new(move |core| drop(reply.send(look(core)))), answer)
}

impl NewJob {
    /// A job that runs this. Its fingerprint is taken here, by the caller's thread: the
    /// driver has only one.
    #[must_use]
    pub fn job(id: Option<JobId>, work: Work, mut payload: Payload, parent: Option<Parent>) -> Self {
        let (content, bytes) = fingerprint(&mut payload);
        let id = identity(id, work.kind);
        let submission = Submission { id, work, content: Some(content), bytes, parent };
        Self { submission, payload: Some(Arc::new(payload)) }
    }

    /// A task or an actor, which needs only a place.
    #[must_use]
    pub fn placement(id: Option<JobId>, work: Work, parent: Option<Parent>) -> Self {
        Self {
            submission: Submission { id: identity(id, work.kind), work, content: None, bytes: 0, parent },
            payload: None,
        }
    }

    pub(crate) fn priority(&self) -> Priority {
        self.submission.work.priority
    }

    /// The same, submitted by this owner.
    #[must_use]
    pub fn owned_by(mut self, owner: Option<Owner>) -> Self {
        self.submission.work.owner = owner;
        self
    }

    /// The same, submitted within this trace (W3C `traceparent`). Not a part of the fingerprint: a
    /// job that is submitted again is the same job, also within another trace.
    #[must_use]
    pub(crate) fn traced(mut self, traceparent: Option<&String>) -> Self {
        if let (Some(payload), Some(traceparent)) = (&mut self.payload, traceparent) {
            Arc::make_mut(payload).traceparent = Some(traceparent.clone());
        }
        self
    }

    /// The same; without an id of the caller's it is a new job even if an identical one is queued.
    #[must_use]
    pub fn always_new(mut self) -> Self {
        if matches!(self.submission.id, Identity::Fresh(_)) {
            self.submission.content = None;
        }
        self
    }
}

fn identity(given: Option<JobId>, kind: Kind) -> Identity {
    given.map_or_else(|| Identity::Fresh(fresh_id(kind)), Identity::Given)
}

/// An unused id; later ids sort later. Those of jobs look as Ray's own do.
fn fresh_id(kind: Kind) -> JobId {
    let prefix = match kind {
        Kind::Job => "raysubmit",
        Kind::Task => "task",
        Kind::Actor => "actor",
    };
    JobId::new(format!("{prefix}_{}", uuid::Uuid::now_v7().simple())).expect("a UUID is a legal id")
}

/// Two requests with the same fingerprint are the same request made twice. Keys are
/// sorted on the way in, so that their order does not matter. The SDK is not part of it: a
/// program that was upgraded still submits the same job. Also returns the size of the payload.
fn fingerprint(payload: &mut Payload) -> (ContentHash, u32) {
    let sdk = payload.sdk.take();
    let package = sdk.as_ref().and_then(|uri| payload.packages.remove_entry(uri));
    let json = serde_json::to_vec(payload).expect("plain data");
    payload.packages.extend(package);
    payload.sdk = sdk;
    let bytes = u32::try_from(json.len()).unwrap_or(u32::MAX);
    (ContentHash::of([json]), bytes)
}
