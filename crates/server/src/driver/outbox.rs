//! What came out of a few inputs, on its way through the disk.

use std::{sync::Arc, time::Instant};

use multicluster_core::{Accepted, Refusal, Reply};
use multicluster_store::Change;
use multicluster_types::{Attempt, ClusterName, ClusterSpec, JobId, Timestamp};
use tokio::sync::oneshot;

/// Made durable together, then released together.
#[derive(Default)]
pub(crate) struct Outbox {
    pub(crate) changes: Vec<Change>,
    pub(crate) lanes: Vec<LaneChange>,
    pub(crate) errands: Vec<(ClusterName, Errand)>,
    pub(crate) answers: Vec<Answer>,
}

impl Outbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.lanes.is_empty() && self.errands.is_empty() && self.answers.is_empty()
    }
}

/// An answer that waits for what it promises to be durable.
pub(crate) enum Answer {
    Act(Result<Reply, Refusal>, oneshot::Sender<Result<Reply, Refusal>>),
    Submit(Vec<Result<Accepted, Refusal>>, oneshot::Sender<Vec<Result<Accepted, Refusal>>>),
}

impl Answer {
    /// The caller may have gone: nobody minds.
    pub(crate) fn give(self) {
        match self {
            Answer::Act(answer, caller) => drop(caller.send(answer)),
            Answer::Submit(answer, caller) => drop(caller.send(answer)),
        }
    }
}

/// A cluster came, changed or went.
pub(crate) enum LaneChange {
    /// Run a lane like this; a lane of an earlier generation ends.
    Open { spec: Arc<ClusterSpec>, generation: u64 },
    /// End it.
    Close { cluster: ClusterName },
}

/// What a lane is asked to do: an effect of the core with what it takes to perform it.
#[derive(Debug, Clone)]
pub(crate) enum Errand {
    /// Submit this attempt.
    Submit {
        run: Run,
        /// Home directories known to the pool.
        homes: Arc<[Arc<str>]>,
        /// What does not leave by then does not leave at all: the core has moved on.
        leave_by: Instant,
    },
    /// Ask about this attempt.
    Lookup { run: Run, question: u32 },
    /// Stop this attempt.
    Stop { run: Run },
    /// Delete this ended run.
    Forget { run: Run },
    /// Get fresh facts now.
    Poll,
}

/// One attempt, told apart from every other that ever had its id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Run {
    pub(crate) job: JobId,
    pub(crate) attempt: Attempt,
    /// When the job was accepted. `None`: an attempt of a job that is forgotten.
    pub(crate) life: Option<Timestamp>,
}
