//! How much may be asked at once. Whoever asks for more is turned away in time, with a word
//! when to come back, so that there is room for the others; and what is turned away is counted.
//!
//! - `places` so many at a time, of which one owner has a share · `rates` so many a second
//! - `turns` so many at a time, while others wait for theirs · `bodies` so many bytes

mod bodies;
mod places;
mod rates;
mod turns;

use std::{sync::Arc, time::Duration};

use multicluster_api::codes;
use multicluster_store::Room;
use multicluster_types::{ClusterName, JobId, Owner, Settings, Share, settings::Bytes};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

pub(crate) use self::{bodies::BodyRoom, rates::Taken, turns::Permit};
use self::{
    places::{Full, Places},
    rates::Rates,
    turns::Turns,
};
use crate::{
    front::access::Caller,
    metrics::{Metrics, Shed},
    problem::Problem,
};

/// Of what is shared by all, one owner gets at most this part.
const SHARE: usize = 2;
/// Followers of the log of one job. Each has a stream of its own from the job's cluster: Ray's
/// tail begins at the first byte, and what a late follower has missed is kept nowhere else.
const FOLLOWERS_OF_A_JOB: usize = 32;
/// Batches that are received at a time, and those of them that are parsed and checked.
const BATCHES_RECEIVED: usize = 32;
const BATCHES_CHECKED: usize = 4;
/// Bytes of requests in memory at a time, as they come in: however many are sent, and however
/// slowly. Four of the largest batches, two of one owner.
const BODIES: usize = 256 << 20;
/// Packages uploaded at a time, each holding a megabyte.
const UPLOADS: usize = 64;
/// Answers of more than [`LARGE`] on their way at a time: what bounds their memory, however
/// slowly they are read.
const LARGE_ANSWERS: usize = 32;
const LARGE: u64 = 1 << 20;
/// Logs followed on one cluster at a time, whose dashboard is one process; more wait for their
/// turn.
const TAILS_OF_A_CLUSTER: usize = 128;
/// Lists and searches, which look at thousands of jobs, read at a time: half of the store's
/// readers, so that whoever looks at one job need not wait for them.
const SEARCHES: usize = 2;
const SEARCH_WITHIN: Duration = Duration::from_secs(15);
/// Logs, of which all must come to find the end, read at a time.
const LOGS: usize = 8;
const LOG_WITHIN: Duration = Duration::from_secs(30);
/// Who may wait for one of these.
const IN_LINE: usize = 64;
/// Before somebody is answered for whom there is no place to wait.
const PAUSE: Duration = Duration::from_secs(1);

/// All of them. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Bounds(Arc<Inner>);

struct Inner {
    connections: usize,
    metrics: Metrics,
    submits: Arc<Rates>,
    packages: Mutex<(Bytes, Share)>,
    strangers: Arc<Places<Owner>>,
    requests: Arc<Places<Owner>>,
    /// Streams of events, followed logs and long polls.
    lasting: Arc<Places<Owner>>,
    followers_of_jobs: Arc<Places<JobId>>,
    tails: Arc<Places<ClusterName>>,
    batches: Arc<Places<Owner>>,
    batches_checked: Semaphore,
    bodies: Arc<Places<Owner>>,
    uploads: Arc<Places<Owner>>,
    answers: Arc<Places<Owner>>,
    searches: Turns<Owner>,
    logs: Turns<Owner>,
}

/// What somebody has until it is dropped.
pub(crate) struct Place {
    _of_owner: places::Held<Owner>,
    _of_job: Option<places::Held<JobId>>,
}

impl Bounds {
    /// With so many connections. What waits or streams holds one for long: three quarters are for
    /// those, and the last one is for requests that are answered at once.
    pub(crate) fn new(connections: usize, settings: &Settings, metrics: Metrics) -> Self {
        let quarter = (connections / 4).max(1);
        let own = |count: usize| (count / SHARE).max(1);
        let share = |count: usize| Places::new(count, own(count));
        let shared = |count| Arc::new(share(count));
        let turns = |count, patience| Turns::new(count, own(count), share(IN_LINE), patience);
        Self(Arc::new(Inner {
            connections,
            metrics,
            submits: Arc::new(Rates::new(settings.submit_rate)),
            packages: Mutex::new((settings.package_store, settings.package_share)),
            strangers: Arc::new(Places::new(quarter, quarter)),
            requests: shared(connections),
            lasting: shared(3 * quarter),
            followers_of_jobs: Arc::new(Places::new(usize::MAX, FOLLOWERS_OF_A_JOB)),
            tails: Arc::new(Places::new(quarter, TAILS_OF_A_CLUSTER)),
            batches: shared(BATCHES_RECEIVED),
            batches_checked: Semaphore::new(BATCHES_CHECKED),
            bodies: shared(BODIES),
            uploads: shared(UPLOADS),
            answers: shared(LARGE_ANSWERS),
            searches: turns(SEARCHES, SEARCH_WITHIN),
            logs: turns(LOGS, LOG_WITHIN),
        }))
    }

    /// These settings are in force now.
    pub(crate) fn set(&self, settings: &Settings) {
        self.0.submits.set(settings.submit_rate);
        *self.0.packages.lock() = (settings.package_store, settings.package_share);
    }

    /// How much room there is for packages of this caller.
    pub(crate) fn room(&self, caller: &Caller) -> Room {
        let (all, share) = *self.0.packages.lock();
        let own = caller.owner.is_some().then(|| (caller.package(""), all.part(share)));
        Room { all: Some(all.0), own }
    }

    /// Connections at a time.
    pub(crate) fn connections(&self) -> usize {
        self.0.connections
    }

    /// Counts somebody who was turned away.
    pub(crate) fn count(&self, shed: Shed) {
        self.0.metrics.shed(shed);
    }

    /// This caller submits so many. Those that are not accepted do not count.
    pub(crate) fn submit(&self, caller: &Caller, count: usize) -> Result<Taken, Problem> {
        let Some(token) = caller.token() else { return Ok(Taken::default()) };
        self.0.submits.take(token, count).map_err(|over| {
            self.count(Shed::SubmitRate);
            let seconds = over.wait.as_secs_f64();
            let message = format!(
                "token {} of {} submits more than {} a second",
                token.id, token.owner, over.per_second
            );
            let hint = format!(
                "try again in {seconds:.1} s; ask the operator of the control plane for a higher rate"
            );
            Problem::new(codes::RATE_LIMITED, message).hint(hint).retry_after(over.wait)
        })
    }

    /// A request of somebody who need not say who it is.
    pub(crate) fn stranger(&self) -> Result<Place, Problem> {
        let what = "requests without a token are under way";
        self.enter(&self.0.strangers, &Caller::ANYBODY, Shed::Requests, what)
    }

    /// A request of this caller is under way.
    pub(crate) fn request(&self, caller: &Caller) -> Result<Place, Problem> {
        self.enter(&self.0.requests, caller, Shed::Requests, "requests are under way")
    }

    /// This caller watches what happens.
    pub(crate) fn watch(&self, caller: &Caller) -> Result<Place, Problem> {
        self.last(caller, Shed::Watchers)
    }

    /// This caller follows the log of this job.
    pub(crate) fn follow(&self, caller: &Caller, job: &JobId) -> Result<Place, Problem> {
        let of_job = self.0.followers_of_jobs.enter(Some(job.clone())).map_err(|_| {
            let message = format!("{FOLLOWERS_OF_A_JOB} clients already follow the log of job {job}");
            self.busy(Shed::Followers, message).hint("read it without following, or try again later")
        })?;
        let place = self.last(caller, Shed::Followers)?;
        Ok(Place { _of_job: Some(of_job), ..place })
    }

    /// A log is followed on this cluster; `None`: too many are, at the moment.
    pub(crate) fn tail(&self, cluster: &ClusterName) -> Option<places::Held<ClusterName>> {
        self.0.tails.enter(Some(cluster.clone())).ok()
    }

    /// This caller is kept waiting.
    pub(crate) fn wait(&self, caller: &Caller) -> Result<Place, Problem> {
        self.last(caller, Shed::LongPolls)
    }

    fn last(&self, caller: &Caller, shed: Shed) -> Result<Place, Problem> {
        self.enter(&self.0.lasting, caller, shed, "streams and waiting requests are open")
    }

    /// The same, for this long. Whoever finds no place is answered with how it stands, and not at
    /// once: those who ask again and again must not do so all the time.
    pub(crate) async fn wait_or_look(
        &self,
        caller: &Caller,
        patience: Duration,
    ) -> (Option<Place>, Duration) {
        if patience.is_zero() {
            return (None, patience);
        }
        match self.wait(caller) {
            Ok(place) => (Some(place), patience),
            Err(_) => {
                tokio::time::sleep(patience.min(PAUSE)).await;
                (None, Duration::ZERO)
            }
        }
    }

    /// This caller sends a batch.
    pub(crate) fn batch(&self, caller: &Caller) -> Result<Place, Problem> {
        self.enter(&self.0.batches, caller, Shed::Batches, "batches are being sent")
    }

    /// The turn to check a batch: milliseconds of pure work.
    pub(crate) async fn check_batch(&self) -> SemaphorePermit<'_> {
        self.0.batches_checked.acquire().await.expect("it is never closed")
    }

    /// The body of a request of this caller, to which it will be added as it comes in.
    pub(crate) fn body(&self, caller: &Caller) -> BodyRoom {
        BodyRoom::new(self, caller)
    }

    /// This caller uploads a package.
    pub(crate) fn upload(&self, caller: &Caller) -> Result<Place, Problem> {
        self.enter(&self.0.uploads, caller, Shed::Uploads, "packages are being uploaded")
    }

    /// This caller is sent so many bytes: a place, if that is many.
    pub(crate) fn answer(&self, caller: &Caller, size: u64) -> Result<Option<Place>, Problem> {
        if size <= LARGE {
            return Ok(None);
        }
        self.stream(caller).map(Some)
    }

    /// This caller is sent more than anybody knows yet.
    pub(crate) fn stream(&self, caller: &Caller) -> Result<Place, Problem> {
        self.enter(&self.0.answers, caller, Shed::LargeAnswers, "large answers are being sent")
    }

    /// This caller looks at many jobs: its turn.
    pub(crate) async fn search(&self, caller: &Caller) -> Result<Permit, Problem> {
        let turn = self.0.searches.enter(caller.owner.clone()).await;
        turn.map_err(|full| self.full(full, caller, Shed::Searches, "lists are being read"))
    }

    /// The next turn for somebody who has a place already, and is in the middle of it.
    pub(crate) async fn search_on(&self, caller: &Caller) -> Permit {
        self.0.searches.wait(caller.owner.clone()).await
    }

    /// This caller reads a log: its turn.
    pub(crate) async fn log(&self, caller: &Caller) -> Result<Permit, Problem> {
        let turn = self.0.logs.enter(caller.owner.clone()).await;
        turn.map_err(|full| self.full(full, caller, Shed::Logs, "logs are being read"))
    }

    /// The next turn for a follower, who has a place already, to read what is left.
    pub(crate) async fn rest_of_log(&self) -> Permit {
        self.0.logs.wait(None).await
    }

    /// All connections are in use.
    pub(crate) fn crowded(&self) -> Problem {
        self.busy(Shed::Connections, format!("all {} connections are in use", self.connections()))
    }

    /// Too many of the same at once.
    fn busy(&self, shed: Shed, message: impl Into<String>) -> Problem {
        self.count(shed);
        Problem::new(codes::BUSY, message)
    }

    fn enter(
        &self,
        places: &Arc<Places<Owner>>,
        caller: &Caller,
        shed: Shed,
        what: &str,
    ) -> Result<Place, Problem> {
        match places.enter(caller.owner.clone()) {
            Ok(place) => Ok(Place { _of_owner: place, _of_job: None }),
            Err(full) => Err(self.full(full, caller, shed, what)),
        }
    }

    fn full(&self, full: Full, caller: &Caller, shed: Shed, what: &str) -> Problem {
        match (full, &caller.owner) {
            (Full::OfOne(most), Some(owner)) => {
                let message = format!("{most} {what} for {owner}, the most that one owner may have");
                self.busy(shed, message).hint("end some of them, or try again in a moment")
            }
            (Full::All(most) | Full::OfOne(most), _) => {
                self.busy(shed, format!("{most} {what}, the most allowed"))
            }
        }
    }
}
