//! How much may be requested at once. Callers that request more are refused in time and told when
//! to come back, so that there is room for the others. Refusals are counted.
//!
//! - `places` limits how many at a time, with a share for one owner · `rates` how many a second
//! - `turns` limits how many at a time, while others wait · `bodies` how many bytes

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

/// One owner gets at most this part (1/SHARE) of what all callers share.
const SHARE: usize = 2;
/// Followers of the log of one job. Each has a stream of its own from the job's cluster: Ray's tail
/// begins at the first byte, and the beginning that a late follower needs is stored nowhere else.
const FOLLOWERS_OF_A_JOB: usize = 32;
/// Batches that are received at a time, and how many of them are parsed and checked.
const BATCHES_RECEIVED: usize = 32;
const BATCHES_CHECKED: usize = 4;
/// Bytes of request bodies in memory at a time, however many are sent and however slowly. Four of
/// the largest batches, two of one owner.
const BODIES: usize = 256 << 20;
/// Packages uploaded at a time; each upload holds a megabyte.
const UPLOADS: usize = 64;
/// Answers of more than [`LARGE`] being sent at a time. This bounds their memory, however slowly
/// clients read them.
const LARGE_ANSWERS: usize = 32;
const LARGE: u64 = 1 << 20;
/// Logs followed on one cluster at a time, because its dashboard is one process. More followers
/// wait for their turn.
const TAILS_OF_A_CLUSTER: usize = 128;
/// Lists and searches, which look at thousands of jobs, being read at a time: half of the store's
/// readers, so that requests for one job need not wait for them.
const SEARCHES: usize = 2;
const SEARCH_WITHIN: Duration = Duration::from_secs(15);
/// Logs being read at a time. A log has to be read completely to find its end.
const LOGS: usize = 8;
const LOG_WITHIN: Duration = Duration::from_secs(30);
/// Callers that may wait for one of these.
const IN_LINE: usize = 64;
/// Delay before a caller without a place to wait is answered.
const PAUSE: Duration = Duration::from_secs(1);

/// All bounds. Cheap to clone.
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

/// A caller's place. It is free again when this is dropped.
pub(crate) struct Place {
    _of_owner: places::Held<Owner>,
    _of_job: Option<places::Held<JobId>>,
}

impl Bounds {
    /// For this many connections. Long polls and streams hold a connection for long: three quarters
    /// are for them, and the last quarter is for requests that are answered at once.
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

    /// Applies these settings.
    pub(crate) fn set(&self, settings: &Settings) {
        self.0.submits.set(settings.submit_rate);
        *self.0.packages.lock() = (settings.package_store, settings.package_share);
    }

    /// How much room for packages this caller has.
    pub(crate) fn room(&self, caller: &Caller) -> Room {
        let (all, share) = *self.0.packages.lock();
        let own = caller.owner.is_some().then(|| (caller.package(""), all.part(share)));
        Room { all: Some(all.0), own }
    }

    /// The number of connections that may be open at a time.
    pub(crate) fn connections(&self) -> usize {
        self.0.connections
    }

    /// Counts a refusal.
    pub(crate) fn count(&self, shed: Shed) {
        self.0.metrics.shed(shed);
    }

    /// This caller submits `count` jobs, tasks or actors. Those that are not accepted do not count.
    pub(crate) fn submit(&self, caller: &Caller, count: usize) -> Result<Taken, Problem> {
        let Some(token) = caller.token() else { return Ok(Taken::default()) };
        self.0.submits.take(token, count).map_err(|over| {
            self.count(Shed::SubmitRate);
            let seconds = over.wait.as_secs_f64();
            let message = match caller.is_signed_on() {
                true => format!("{} submits more than {} a second", token.owner, over.per_second),
                false => format!(
                    "token {} of {} submits more than {} a second",
                    token.id, token.owner, over.per_second
                ),
            };
            let hint = format!(
                "try again in {seconds:.1} s; ask the operator of the control plane for a higher rate"
            );
            Problem::new(codes::RATE_LIMITED, message).hint(hint).retry_after(over.wait)
        })
    }

    /// A request that needs no token.
    pub(crate) fn stranger(&self) -> Result<Place, Problem> {
        let what = "requests without a token are under way";
        self.enter(&self.0.strangers, &Caller::ANYBODY, Shed::Requests, what)
    }

    /// A place for a request of this caller.
    pub(crate) fn request(&self, caller: &Caller) -> Result<Place, Problem> {
        self.enter(&self.0.requests, caller, Shed::Requests, "requests are under way")
    }

    /// A place for a stream of events to this caller.
    pub(crate) fn watch(&self, caller: &Caller) -> Result<Place, Problem> {
        self.last(caller, Shed::Watchers)
    }

    /// A place to follow the log of this job.
    pub(crate) fn follow(&self, caller: &Caller, job: &JobId) -> Result<Place, Problem> {
        let of_job = self.0.followers_of_jobs.enter(Some(job.clone())).map_err(|_| {
            let message = format!("{FOLLOWERS_OF_A_JOB} clients already follow the log of job {job}");
            self.busy(Shed::Followers, message).hint("read it without following, or try again later")
        })?;
        let place = self.last(caller, Shed::Followers)?;
        Ok(Place { _of_job: Some(of_job), ..place })
    }

    /// A place to follow a log on this cluster; `None`: too many are being followed.
    pub(crate) fn tail(&self, cluster: &ClusterName) -> Option<places::Held<ClusterName>> {
        self.0.tails.enter(Some(cluster.clone())).ok()
    }

    /// A place for a long poll of this caller.
    pub(crate) fn wait(&self, caller: &Caller) -> Result<Place, Problem> {
        self.last(caller, Shed::LongPolls)
    }

    fn last(&self, caller: &Caller, shed: Shed) -> Result<Place, Problem> {
        self.enter(&self.0.lasting, caller, shed, "streams and waiting requests are open")
    }

    /// A place to wait for this long. Without one, the caller is answered with the current state,
    /// after a pause: callers that repeat the request must not do so without pause.
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

    /// A place for a batch of this caller.
    pub(crate) fn batch(&self, caller: &Caller) -> Result<Place, Problem> {
        self.enter(&self.0.batches, caller, Shed::Batches, "batches are being sent")
    }

    /// A turn to check a batch, which takes milliseconds of computation.
    pub(crate) async fn check_batch(&self) -> SemaphorePermit<'_> {
        self.0.batches_checked.acquire().await.expect("it is never closed")
    }

    /// Room for the body of a request, which grows as the body comes in.
    pub(crate) fn body(&self, caller: &Caller) -> BodyRoom {
        BodyRoom::new(self, caller)
    }

    /// A place for an upload of this caller.
    pub(crate) fn upload(&self, caller: &Caller) -> Result<Place, Problem> {
        self.enter(&self.0.uploads, caller, Shed::Uploads, "packages are being uploaded")
    }

    /// A place for an answer of this size; `None` if it is small.
    pub(crate) fn answer(&self, caller: &Caller, size: u64) -> Result<Option<Place>, Problem> {
        if size <= LARGE {
            return Ok(None);
        }
        self.stream(caller).map(Some)
    }

    /// A place for an answer whose size is not known in advance.
    pub(crate) fn stream(&self, caller: &Caller) -> Result<Place, Problem> {
        self.enter(&self.0.answers, caller, Shed::LargeAnswers, "large answers are being sent")
    }

    /// A turn to look at many jobs.
    pub(crate) async fn search(&self, caller: &Caller) -> Result<Permit, Problem> {
        let turn = self.0.searches.enter(caller.owner.clone()).await;
        turn.map_err(|full| self.full(full, caller, Shed::Searches, "lists are being read"))
    }

    /// The next turn of a caller that has a place already and is in the middle of its search.
    pub(crate) async fn search_on(&self, caller: &Caller) -> Permit {
        self.0.searches.wait(caller.owner.clone()).await
    }

    /// A turn to read a log.
    pub(crate) async fn log(&self, caller: &Caller) -> Result<Permit, Problem> {
        let turn = self.0.logs.enter(caller.owner.clone()).await;
        turn.map_err(|full| self.full(full, caller, Shed::Logs, "logs are being read"))
    }

    /// The next turn for a follower, which has a place already, to read the rest of a log.
    pub(crate) async fn rest_of_log(&self) -> Permit {
        self.0.logs.wait(None).await
    }

    /// All connections are in use.
    pub(crate) fn crowded(&self) -> Problem {
        self.busy(Shed::Connections, format!("all {} connections are in use", self.connections()))
    }

    /// Refuses with "busy" and counts the refusal.
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
