//! One lane per cluster: its own connections, timeouts, polls, dispatches and watch.
//! A hung or slow cluster delays nobody else.

mod dispatch;
mod lane;
mod logs;
mod poll;
mod status;
mod sweep;
mod watch;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use multicluster_core::{DispatchOutcome, LookupOutcome, RunStatus};
use multicluster_ray::RayClient;
use multicluster_store::{Packages, Reader, Seen};
use multicluster_types::{ClusterName, ClusterSpec, Incarnation, Message, Snapshot, Span, Timestamp};
use tokio::{
    runtime,
    sync::{mpsc, watch as latest},
};

use crate::{
    clock::Clock,
    driver::{Driver, Errand, LaneChange, Run},
    metrics::Metrics,
};

/// What a lane tells the driver.
#[derive(Debug)]
pub(crate) enum Report {
    /// A poll was answered.
    Polled { snapshot: Box<Snapshot>, took: Span },
    /// A poll was not answered.
    PollFailed(Message),
    /// A submit request came to an end.
    Dispatched { run: Run, outcome: DispatchOutcome, took: Span },
    /// A question came to an end.
    LookedUp { run: Run, question: u32, outcome: LookupOutcome, seen: Option<Box<Seen>> },
    /// A stop request came to an end.
    StopSent { run: Run, answered: bool },
    /// The watch saw these, and of some what it had not seen before.
    Observed {
        incarnation: Option<Incarnation>,
        complete_at: Option<Timestamp>,
        runs: Vec<(Run, RunStatus)>,
        seen: Vec<(Run, Seen)>,
    },
}

/// What every lane needs.
pub(crate) struct Shared {
    pub(crate) driver: Driver,
    pub(crate) reader: Arc<dyn Reader>,
    pub(crate) packages: Arc<dyn Packages>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    /// Who we are, for the clusters.
    pub(crate) plane: Arc<str>,
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
    client: Option<RayClient>,
    spec: latest::Sender<Arc<ClusterSpec>>,
    errands: mpsc::UnboundedSender<Errand>,
    /// Ends the lane when dropped.
    _running: tokio::task::JoinSet<()>,
}

impl Lanes {
    pub(crate) fn new(shared: Shared) -> Self {
        Self { shared: Arc::new(shared), runtime: runtime::Handle::current(), open: Arc::default() }
    }

    /// A cluster's client, to read its logs; `None` if it is not in the pool.
    #[must_use]
    pub fn client(&self, cluster: &ClusterName) -> Option<RayClient> {
        self.lock().get(cluster)?.client.clone()
    }

    pub(crate) fn send(&self, cluster: &ClusterName, errand: Errand) {
        if let Some(open) = self.lock().get(cluster) {
            // A lane that has ended was replaced; the core asks again.
            drop(open.errands.send(errand));
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
        let (errands, inbox) = mpsc::unbounded_channel();
        let (sender, receiver) = latest::channel(Arc::clone(spec));
        let _entered = self.runtime.enter();
        let (client, running) = lane::start(Arc::clone(&self.shared), spec, receiver, generation, inbox);
        Open { generation, client, spec: sender, errands, _running: running }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ClusterName, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
