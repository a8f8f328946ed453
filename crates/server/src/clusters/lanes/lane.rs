//! One lane: receives effects one by one and performs them concurrently.

use std::{collections::HashSet, sync::Arc, time::Duration};

use multicluster_core::{Effect, Input, LookupOutcome, Run};
use multicluster_ray::{Endpoint, JobDetails, RayClient, RayError, Timeouts};
use multicluster_store::Seen;
use multicluster_types::{ClusterName, ClusterSpec, SubmissionId};
use parking_lot::Mutex as SyncMutex;
use tokio::{
    sync::{Mutex, Notify, Semaphore, mpsc, watch as latest},
    task::JoinSet,
    time::sleep,
};

use super::{
    Means, Shared, Word, bury,
    errands::Errands,
    runs::{Found, Runs},
    status,
};

/// Requests under way to one cluster; Ray itself accepts about 55 a second.
const DISPATCHES: usize = 8;
const QUESTIONS: usize = 8;
/// Deletes of forgotten jobs; no caller waits for them.
const CHORES: usize = 2;
/// Deletes that wait. Beyond that, runs are left on a cluster that deletes slower than jobs end.
const DELETES: usize = 10_000;
/// Logs copied at a time.
const COPIES: usize = 4;
/// If a job is deleted right after it ended, Ray brings it back.
pub(super) const DELETE_AFTER: Duration = Duration::from_secs(3);

pub(super) struct Lane {
    pub(super) shared: Arc<Shared>,
    pub(super) cluster: ClusterName,
    pub(super) generation: u64,
    pub(super) client: RayClient,
    pub(super) runs: Runs,
    pub(super) spec: latest::Receiver<Arc<ClusterSpec>>,
    pub(super) dispatches: Semaphore,
    /// One push of packages at a time.
    pub(super) pushing: Mutex<()>,
    pub(super) questions: Semaphore,
    chores: Semaphore,
    pub(super) copies: Semaphore,
    /// With the number of the question.
    lookups: Errands<u32>,
    /// The same.
    pub(super) burials: Errands<u32>,
    stops: Errands<()>,
    deletes: Errands<()>,
    /// Runs to be taken back, and the one who does it.
    pub(super) recalls: SyncMutex<HashSet<Run>>,
    pub(super) recalling: Mutex<()>,
    pub(super) logs: Errands<JobDetails>,
    /// Submissions under way. A look-up that does not find one of these proves nothing.
    pub(super) sending: SyncMutex<HashSet<Run>>,
    /// There may be new runs to watch.
    pub(super) look: Notify,
    /// Fresh facts were requested.
    pub(super) poll: Notify,
}

/// Starts a lane; it ends when the returned set is dropped.
pub(super) fn start(
    shared: Arc<Shared>,
    spec: &Arc<ClusterSpec>,
    specs: latest::Receiver<Arc<ClusterSpec>>,
    generation: u64,
    effects: mpsc::UnboundedReceiver<(Effect, Means)>,
) -> (Option<Runs>, JoinSet<()>) {
    let mut running = JoinSet::new();
    let client = match connect(spec) {
        Ok(client) => client,
        Err(problem) => {
            tracing::error!(cluster = %spec.name, %problem, "this cluster cannot be used");
            let cluster = spec.name.clone();
            running.spawn(refuse(shared, cluster, generation, problem));
            return (None, running);
        }
    };
    let runs = Runs { client: client.clone(), plane: Arc::clone(&shared.plane) };
    let lane = Arc::new(Lane {
        shared,
        cluster: spec.name.clone(),
        generation,
        client,
        runs: runs.clone(),
        spec: specs,
        dispatches: Semaphore::new(DISPATCHES),
        pushing: Mutex::new(()),
        questions: Semaphore::new(QUESTIONS),
        chores: Semaphore::new(CHORES),
        copies: Semaphore::new(COPIES),
        lookups: Errands::default(),
        burials: Errands::default(),
        stops: Errands::default(),
        deletes: Errands::default(),
        recalls: SyncMutex::default(),
        recalling: Mutex::new(()),
        logs: Errands::default(),
        sending: SyncMutex::default(),
        look: Notify::new(),
        poll: Notify::new(),
    });
    running.spawn(super::poll::run(Arc::clone(&lane)));
    running.spawn(super::watch::run(Arc::clone(&lane)));
    running.spawn(super::sweep::run(Arc::clone(&lane)));
    running.spawn(perform(lane, effects));
    (Some(runs), running)
}

fn connect(spec: &ClusterSpec) -> Result<RayClient, String> {
    RayClient::new(&Endpoint::of(spec)?, Timeouts::default()).map_err(|error| error.to_string())
}

/// A cluster without a usable client is unhealthy, with the problem as the reason.
async fn refuse(shared: Arc<Shared>, cluster: ClusterName, generation: u64, problem: String) {
    loop {
        let input = Input::PollFailed { cluster: cluster.clone(), error: problem.as_str().into() };
        let (cluster, input) = (cluster.clone(), Box::new(input));
        let word = Word::Report { cluster, generation, input, seen: Vec::new() };
        if shared.engine.tell(word).await.is_none() {
            return;
        }
        sleep(Duration::from_secs(5)).await;
    }
}

/// Effects never wait for each other: a stop must not queue behind a slow upload.
async fn perform(lane: Arc<Lane>, mut effects: mpsc::UnboundedReceiver<(Effect, Means)>) {
    let mut under_way = JoinSet::new();
    while let Some((effect, means)) = effects.recv().await {
        let lane = Arc::clone(&lane);
        match effect {
            Effect::Poll { .. } => lane.poll.notify_one(),
            Effect::Submit { run, .. } => {
                under_way.spawn(async move { lane.dispatch(run, &means).await });
            }
            Effect::Lookup { run, question, .. } => {
                if lane.lookups.request(&run, question) {
                    under_way.spawn(async move { while lane.look_up(&run).await {} });
                }
            }
            Effect::List { .. } => {
                under_way.spawn(async move { lane.list_all_runs().await });
            }
            Effect::Bury { run, question, .. } => {
                if lane.burials.request(&run, question) {
                    under_way.spawn(async move { while lane.bury(&run).await {} });
                }
            }
            Effect::Recall { run, .. } => {
                if lane.note_recall(run) {
                    under_way.spawn(lane.recall());
                }
            }
            Effect::Stop { run, .. } => {
                if lane.stops.request(&run, ()) {
                    under_way.spawn(async move { while lane.stop(&run).await {} });
                }
            }
            Effect::Forget { run, .. } => {
                if lane.deletes.len() < DELETES && lane.deletes.request(&run, ()) {
                    under_way.spawn(async move {
                        lane.forget(&run).await;
                        lane.deletes.finish(&run);
                    });
                }
            }
        }
        while under_way.try_join_next().is_some() {}
    }
}

impl Lane {
    /// Reports to the engine. If the engine has stopped, this lane ends in a moment too.
    pub(super) async fn report(&self, input: Input, seen: Vec<(Run, Seen)>) {
        let (cluster, generation, input) = (self.cluster.clone(), self.generation, Box::new(input));
        let _stopped = self.shared.engine.tell(Word::Report { cluster, generation, input, seen }).await;
    }

    /// Looks an attempt up. True if it must be looked up once more.
    async fn look_up(&self, run: &Run) -> bool {
        let Ok(_turn) = self.questions.acquire().await else { return false };
        let Some(question) = self.lookups.begin(run) else { return false };
        let found = self.ask(run).await;
        self.report_found(run, question, found).await;
        self.lookups.finish(run)
    }

    /// Reports what the cluster has under the id of this attempt, or that it did not say.
    pub(super) async fn report_found(
        &self,
        run: &Run,
        question: u32,
        found: Result<(LookupOutcome, Option<Seen>), RayError>,
    ) {
        let (outcome, seen) = found.unwrap_or((LookupOutcome::NoAnswer, None));
        let seen = seen.into_iter().map(|seen| (run.clone(), seen)).collect();
        self.report(Input::LookedUp { run: run.clone(), question, outcome }, seen).await;
        self.look.notify_one();
    }

    pub(super) async fn ask(&self, run: &Run) -> Result<(LookupOutcome, Option<Seen>), RayError> {
        let outcome = match self.runs.find(run).await? {
            Found::Ours(details) => {
                return Ok((LookupOutcome::Found(status::of(&details)), Some(status::seen(&details))));
            }
            // The incarnation is read after the answer: if the head node restarted before it, both
            // the answer and this incarnation are those of the new head.
            Found::Tombstone(_) => LookupOutcome::Buried { incarnation: self.client.incarnation().await? },
            Found::SomebodyElses => LookupOutcome::Taken {
                message: status::taken(&self.cluster, run),
                incarnation: self.client.incarnation().await?,
            },
            // The request is under way and may arrive in a moment.
            Found::Nothing if self.is_sending(run) => LookupOutcome::NoAnswer,
            Found::Nothing => LookupOutcome::NotFound { incarnation: self.client.incarnation().await? },
        };
        Ok((outcome, None))
    }

    pub(super) fn is_sending(&self, run: &Run) -> bool {
        self.sending.lock().contains(run)
    }

    /// Stops an attempt. True if it must be stopped once more.
    async fn stop(&self, run: &Run) -> bool {
        let Ok(_turn) = self.questions.acquire().await else { return false };
        let Some(()) = self.stops.begin(run) else { return false };
        let id = SubmissionId::of(&run.job, run.attempt);
        let answered = match self.runs.find(run).await {
            // Whoever leads by now repeats it.
            Ok(Found::Ours(_)) if !self.shared.trust.wait().await => return false,
            Ok(Found::Ours(_)) => self.client.stop(id.as_str()).await.map(drop),
            Ok(Found::Tombstone(_) | Found::SomebodyElses | Found::Nothing) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = &answered {
            tracing::warn!(cluster = %self.cluster, job = %run.job, %error, "cannot stop the run; will retry");
        }
        self.report(Input::StopSent { run: run.clone(), answered: answered.is_ok() }, Vec::new()).await;
        self.look.notify_one();
        self.stops.finish(run)
    }

    /// Keeps Ray's own list short and the id free. Best effort: the metadata tells runs that are
    /// left behind from later ones.
    pub(super) async fn forget(&self, run: &Run) {
        sleep(DELETE_AFTER).await;
        let Ok(_turn) = self.chores.acquire().await else { return };
        let id = SubmissionId::of(&run.job, run.attempt);
        let is_over = match self.runs.find(run).await {
            Ok(Found::Ours(details)) => status::is_over(&details),
            Ok(Found::Tombstone(details)) => bury::is_spent(&details, self.shared.clock.now()),
            Ok(Found::SomebodyElses | Found::Nothing) | Err(_) => false,
        };
        if is_over
            && self.shared.trust.wait().await
            && let Err(error) = self.client.delete(id.as_str()).await
        {
            tracing::debug!(cluster = %self.cluster, job = %run.job, %error, "left on its cluster");
        }
    }
}
