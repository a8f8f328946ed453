//! What came out of a few inputs, on its way through the disk.

use std::sync::Arc;

use multicluster_core::{Input, Write};
use multicluster_store::Change;
use multicluster_types::{Attempt, ClusterName, ClusterSpec, JobId, Kind, Timestamp};
use tokio::time::Instant;

/// Made durable together, then released together.
#[derive(Default)]
pub(crate) struct Outbox {
    pub(crate) changes: Vec<Change>,
    /// Somebody would miss them after a power cut, see [`must_last`].
    pub(crate) must_last: bool,
    pub(crate) lanes: Vec<LaneChange>,
    pub(crate) errands: Vec<(ClusterName, Errand)>,
    pub(crate) answers: Vec<Answer>,
}

impl Outbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.lanes.is_empty() && self.errands.is_empty() && self.answers.is_empty()
    }
}

/// Must this survive a power cut? All that has to do with jobs must. A lease is worth nothing
/// without its holder, and neither is its history, nor the 40 seconds it takes.
pub(super) fn must_last(write: &Write) -> bool {
    match write {
        Write::Job(record) => record.work.kind == Kind::Job,
        // They belong to a record that is written with them.
        Write::Attempt(_) | Write::Decision(_) => false,
        // A clock: a job that moved it is written with it. Other changes are orders.
        Write::Cluster(_) => false,
        // Forgotten in time, and forgotten again after a power cut, unless it was an order.
        Write::DeleteJob(_) => false,
        Write::DeleteCluster(_)
        | Write::Orphan(_)
        | Write::DeleteOrphan(_)
        | Write::Policy(_)
        | Write::DeletePolicy(_) => true,
    }
}

/// Somebody's word, which is kept once it is given.
pub(super) fn is_order(input: &Input) -> bool {
    match input {
        Input::Delete { .. }
        | Input::Register { .. }
        | Input::Remove { .. }
        | Input::Cordon { .. }
        | Input::Uncordon { .. }
        | Input::Reload { .. }
        | Input::SetPolicy { .. }
        | Input::RemovePolicy { .. } => true,
        Input::Together(inputs) => inputs.iter().any(is_order),
        Input::Submit(_)
        | Input::SubmitBatch(_)
        | Input::Stop { .. }
        | Input::Rerun { .. }
        | Input::Polled { .. }
        | Input::PollFailed { .. }
        | Input::Dispatched { .. }
        | Input::LookedUp { .. }
        | Input::StopSent { .. }
        | Input::Observed { .. }
        | Input::Waits { .. }
        | Input::Withdraw { .. }
        | Input::Heartbeat { .. }
        | Input::Released { .. }
        | Input::CheckNow { .. }
        | Input::Tick
        | Input::Awoke => false,
    }
}

/// Answers a caller. Called when what it promises is durable.
pub(crate) type Answer = Box<dyn FnOnce() + Send>;

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
