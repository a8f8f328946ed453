//! One lane per cluster: its own connections, timeouts, polls, dispatches and watch.
//! A hung or slow cluster does not delay the others.

mod bury;
mod dispatch;
mod errands;
mod lane;
mod listing;
mod logs;
mod packages;
mod poll;
mod recall;
mod runs;
mod status;
mod sweep;
mod watch;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use multicluster_core::{Core, Effect, Input, Listed, Run};
use multicluster_ray::RayClient;
use multicluster_store::{LogPiece, Packages, Reader, Seen, Trust};
use multicluster_types::{ClusterName, ClusterSpec, Payload};
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    runtime,
    sync::{mpsc, oneshot, watch as latest},
    time::Instant,
};

pub(crate) use runs::Runs;

use crate::{clock::Clock, metrics::Metrics, traces::JobTrace};

/// The engine, as lanes see it. `None`: the engine has stopped.
pub(crate) trait Engine: Send + Sync {
    /// Sends the engine a message, which does not get lost, after those sent before.
    fn tell(&self, word: Word) -> BoxFuture<'_, Option<()>>;
}

/// A message from a lane to the engine.
pub(crate) enum Word {
    /// The outcome of a poll, look or request. Void if the lane was replaced in the meantime.
    Report {
        cluster: ClusterName,
        generation: u64,
        input: Box<Input>,
        /// New facts about runs, beside the input.
        seen: Vec<(Run, Seen)>,
    },
    /// All of our runs on the cluster, and the payloads of those that are not known; `None`: the
    /// cluster did not say. Void as above.
    Listed { cluster: ClusterName, generation: u64, runs: Option<Vec<(Listed, Option<Payload>)>> },
    /// Parts of the log of this run, to be stored together. `stored` is dropped if they are not.
    Logs { run: Run, pieces: Vec<LogPiece>, stored: oneshot::Sender<()> },
    /// Looks at the core, when it has taken all that was told before. Keep the look short:
    /// everything else waits.
    Look(Box<dyn FnOnce(&Core) + Send>),
}

/// A cluster was added, changed or removed.
pub(crate) enum LaneChange {
    /// Run a lane for this cluster; a lane of an earlier generation ends.
    Open {
        spec: Arc<ClusterSpec>,
        generation: u64,
    },
    Close {
        cluster: ClusterName,
    },
}

/// A lane needs this to perform an effect of the core.
#[derive(Debug, Clone)]
pub(crate) struct Means {
    /// Home directories of all clusters in the pool.
    pub(crate) homes: Arc<[Arc<str>]>,
    /// A submission that is not sent by then is not sent at all: the core has moved on.
    pub(crate) leave_by: Instant,
    /// The time to send it, from the effect or from the last [`Input::Pushing`].
    pub(crate) time_to_send: Duration,
}

/// Shared by all lanes.
pub(crate) struct Shared {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) reader: Arc<dyn Reader>,
    pub(crate) packages: Arc<dyn Packages>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    /// Nothing that changes a cluster is sent after this has ended.
    pub(crate) trust: Trust,
    /// The id of this control plane, for the marks on its runs.
    pub(crate) plane: Arc<str>,
    /// Whether traces of jobs are sent: a job's own spans then belong to ours.
    pub(crate) traces: bool,
}

impl Shared {
    /// Looks at the core; `None` once the engine has stopped.
    async fn see<T: Send + 'static>(&self, look: impl FnOnce(&Core) -> T + Send + 'static) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.engine.tell(Word::Look(Box::new(move |core| drop(reply.send(look(core)))))).await?;
        answer.await.ok()
    }

    /// For the own spans of this attempt: they belong to our span of it. If traces are off, they
    /// belong to the submitter's span.
    fn traceparent(&self, run: &Run, given: Option<&str>) -> Option<String> {
        if !self.traces {
            return given.map(str::to_owned);
        }
        let trace = JobTrace::new(&self.plane, &run.job, run.life.unwrap_or_default(), given);
        Some(trace.traceparent(run.attempt))
    }
}

/// All lanes.
#[derive(Clone)]
pub struct Lanes {
    shared: Arc<Shared>,
    runtime: runtime::Handle,
    open: Arc<Mutex<BTreeMap<ClusterName, Open>>>,
}

struct Open {
    generation: u64,
    /// `None`: the cluster cannot be reached in the way that its description says.
    runs: Option<Runs>,
    spec: latest::Sender<Arc<ClusterSpec>>,
    effects: mpsc::UnboundedSender<(Effect, Means)>,
    /// Ends the lane when dropped.
    _running: tokio::task::JoinSet<()>,
}

impl Lanes {
    pub(crate) fn new(shared: Shared) -> Self {
        Self { shared: Arc::new(shared), runtime: runtime::Handle::current(), open: Arc::default() }
    }

    /// The client of a cluster, for questions about the cluster itself; `None` if the cluster is
    /// not in the pool. Runs are read through [`Self::runs`], which checks whose they are.
    #[must_use]
    pub fn client(&self, cluster: &ClusterName) -> Option<RayClient> {
        Some(self.runs(cluster)?.client)
    }

    /// Our runs on a cluster; `None` if the cluster is not in the pool.
    pub(crate) fn runs(&self, cluster: &ClusterName) -> Option<Runs> {
        self.lock().get(cluster)?.runs.clone()
    }

    /// The `traceparent` that this attempt is sent with. `given`: the submitter's.
    pub(crate) fn traceparent(&self, run: &Run, given: Option<&str>) -> Option<String> {
        self.shared.traceparent(run, given)
    }

    pub(crate) fn perform(&self, effect: Effect, means: Means) {
        if let Some(open) = self.lock().get(effect.cluster()) {
            // A lane that has ended was replaced; the core will request the effect again.
            drop(open.effects.send((effect, means)));
        }
    }

    pub(crate) fn change(&self, change: LaneChange) {
        match change {
            LaneChange::Close { cluster } => drop(self.lock().remove(&cluster)),
            LaneChange::Open { spec, generation } => {
                let mut open = self.lock();
                match open.get(&spec.name) {
                    Some(known) if known.generation == generation => drop(known.spec.send(spec)),
                    _ => drop(open.insert(spec.name.clone(), self.start(&spec, generation))),
                }
            }
        }
    }

    /// Ends all lanes; jobs on the clusters go on.
    pub(crate) fn close(&self) {
        self.lock().clear();
    }

    fn start(&self, spec: &Arc<ClusterSpec>, generation: u64) -> Open {
        let (effects, inbox) = mpsc::unbounded_channel();
        let (sender, receiver) = latest::channel(Arc::clone(spec));
        let _entered = self.runtime.enter();
        let (runs, running) = lane::start(Arc::clone(&self.shared), spec, receiver, generation, inbox);
        Open { generation, runs, spec: sender, effects, _running: running }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ClusterName, Open>> {
        self.open.lock()
    }
}
