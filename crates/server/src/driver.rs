//! The one loop: input → core → commit → effects.
//!
//! Two threads. The *driver* owns the core: it takes what has arrived, feeds it, and
//! hands what came out to the *writer*. The writer makes it durable, and only then are
//! callers answered, clusters asked and watchers told. While the writer waits for the
//! disk the driver goes on: whatever it produced meanwhile shares the next transaction.

mod outbox;
mod turn;
mod writer;

use std::sync::Arc;

use multicluster_core::{Accepted, Core, Identity, Input, Parent, Refusal, Reply, Submission};
use multicluster_store::{LogCopy, StoreError};
use multicluster_types::{ClusterName, ContentHash, JobId, Kind, Payload, Work};
use tokio::sync::{mpsc, oneshot};

pub(crate) use outbox::{Errand, LaneChange, Outbox, Run};
pub(crate) use turn::{Parts, Running, start};

use crate::lanes::Report;

/// How much may wait for the driver before callers are held up: backpressure.
const INBOX: usize = 4096;

/// Talks to the driver, from anywhere.
#[derive(Clone)]
pub struct Driver {
    inbox: mpsc::Sender<Command>,
}

/// What the driver is asked to do.
pub(crate) enum Command {
    /// Feed this, and answer.
    Act(Box<Input>, oneshot::Sender<Result<Reply, Refusal>>),
    /// Accept these jobs, each on its own or not.
    Submit { jobs: Vec<NewJob>, batch: bool, reply: oneshot::Sender<Vec<Result<Accepted, Refusal>>> },
    /// A lane reports. Void if the lane was replaced meanwhile.
    Report { cluster: ClusterName, generation: u64, report: Report },
    /// Keep this copy.
    Logs(Box<LogCopy>),
    /// Look at the core.
    Read(Box<dyn FnOnce(&Core) + Send>),
    /// Commit what there is, and end.
    Stop,
}

/// A request to run something, checked by whoever took it.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// The caller's id; made if there is none.
    pub id: Option<JobId>,
    /// What it needs.
    pub work: Work,
    /// Submitted from inside a scheduled job.
    pub parent: Option<Parent>,
    /// What it runs, with its fingerprint; tasks and actors keep that to themselves.
    content: Option<(Arc<Payload>, ContentHash)>,
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
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Driver {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Command>) {
        let (inbox, commands) = mpsc::channel(INBOX);
        (Self { inbox }, commands)
    }

    /// Feeds the core and waits until what came of it is durable.
    ///
    /// # Errors
    /// The core's refusal, or [`Failure::Stopping`].
    pub async fn act(&self, input: Input) -> Result<Reply, Failure> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Act(Box::new(input), reply)).await?;
        Ok(answer.await.map_err(|_| Failure::Stopping)??)
    }

    /// Accepts one job: durable when this returns.
    ///
    /// # Errors
    /// The core's refusal, or [`Failure::Stopping`].
    pub async fn submit(&self, job: NewJob) -> Result<Accepted, Failure> {
        let mut each = self.send_jobs(vec![job], false).await?;
        Ok(each.pop().ok_or(Failure::Stopping)??)
    }

    /// Accepts many at once: one transaction, one cycle, one answer for each in order.
    ///
    /// # Errors
    /// [`Failure::Stopping`].
    pub async fn submit_batch(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Accepted, Refusal>>, Failure> {
        self.send_jobs(jobs, true).await
    }

    async fn send_jobs(
        &self,
        jobs: Vec<NewJob>,
        batch: bool,
    ) -> Result<Vec<Result<Accepted, Refusal>>, Failure> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Submit { jobs, batch, reply }).await?;
        answer.await.map_err(|_| Failure::Stopping)
    }

    /// Looks at the core between two inputs. Keep it short: everything else waits.
    ///
    /// # Errors
    /// [`Failure::Stopping`].
    pub async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Core) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let (reply, answer) = oneshot::channel();
        let look = Box::new(move |core: &Core| drop(reply.send(look(core))));
        self.send(Command::Read(look)).await?;
        answer.await.map_err(|_| Failure::Stopping)
    }

    pub(crate) async fn send(&self, command: Command) -> Result<(), Failure> {
        self.inbox.send(command).await.map_err(|_| Failure::Stopping)
    }
}

impl NewJob {
    /// A job that runs this. Its fingerprint is taken here, by the caller's thread: the
    /// driver has only one.
    #[must_use]
    pub fn job(id: Option<JobId>, work: Work, payload: Payload, parent: Option<Parent>) -> Self {
        let fingerprint = fingerprint(&payload);
        Self { id, work, parent, content: Some((Arc::new(payload), fingerprint)) }
    }

    /// A task or an actor: a place is all it wants.
    #[must_use]
    pub fn placement(id: Option<JobId>, work: Work, parent: Option<Parent>) -> Self {
        Self { id, work, parent, content: None }
    }

    /// As the core wants it, and what it must not see.
    fn into_submission(self) -> (Submission, Option<Arc<Payload>>) {
        let id = match self.id {
            Some(id) => Identity::Given(id),
            None => Identity::Fresh(fresh_id(self.work.kind)),
        };
        let (payload, content) = self.content.unzip();
        (Submission { id, work: self.work, content, parent: self.parent }, payload)
    }
}

/// An id nobody has used, in the order of making; jobs look as Ray's own do.
fn fresh_id(kind: Kind) -> JobId {
    let prefix = match kind {
        Kind::Job => "raysubmit",
        Kind::Task => "task",
        Kind::Actor => "actor",
    };
    JobId::new(format!("{prefix}_{}", uuid::Uuid::now_v7().simple())).expect("a UUID is a legal id")
}

/// Two requests with the same fingerprint are the same request made twice. Keys are
/// sorted on the way in, so that their order does not matter.
fn fingerprint(payload: &Payload) -> ContentHash {
    ContentHash::of([serde_json::to_vec(payload).expect("plain data")])
}
