//! How much may be asked at once. Whoever asks for more is turned away in time, with a word
//! when to come back, so that there is room for the others; and what is turned away is counted.
//!
//! - `places` so many at a time, of which one owner has a share · `rates` so many a second
//! - `turns` so many at a time, while others wait for theirs · `bodies` so many bytes

mod bodies;
mod places;
mod rates;
mod turns;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use multicluster_api::codes;
use multicluster_store::Room;
use multicluster_types::{ClusterName, JobId, Owner, Settings, Share, settings::Bytes};

pub(crate) use self::bodies::BodyRoom;
use self::{
    places::{Full, Places},
    rates::Rates,
    turns::Turns,
};
use crate::{access::Caller, http::error::Problem, metrics::Metrics};

/// Of what is shared by all, one owner gets at most this part.
const SHARE: usize = 2;
/// Followers of the log of one job. Each has a stream of its own from the job's cluster: Ray's
/// tail begins at the first byte, and what a late follower has missed is kept nowhere else.
const FOLLOWERS_OF_A_JOB: usize = 32;
/// Batches that are being sent at a time.
const BATCHES: usize = 32;
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

/// Why somebody was turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shed {
    /// A token submits too fast.
    SubmitRate,
    /// A queue has `max_queue`.
    QueueFull,
    /// The driver does not keep up.
    Overload,
    /// An idle connection was closed for a new one.
    IdleConnection,
    /// None of the connections was idle.
    Connections,
    /// One owner has too many requests under way.
    Requests,
    /// Streams of events.
    Watchers,
    /// Logs being followed.
    Followers,
    /// Requests that wait.
    LongPolls,
    /// Batches being sent.
    Batches,
    /// Bodies of requests, by bytes.
    Bodies,
    /// Packages being uploaded.
    Uploads,
    /// Large answers being read.
    LargeAnswers,
    /// Lists and searches.
    Searches,
    /// Logs being read.
    Logs,
}

impl Shed {
    pub(crate) const ALL: [Shed; 15] = [
        Shed::SubmitRate,
        Shed::QueueFull,
        Shed::Overload,
        Shed::IdleConnection,
        Shed::Connections,
        Shed::Requests,
        Shed::Watchers,
        Shed::Followers,
        Shed::LongPolls,
        Shed::Batches,
        Shed::Bodies,
        Shed::Uploads,
        Shed::LargeAnswers,
        Shed::Searches,
        Shed::Logs,
    ];

    /// A stable word.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Shed::SubmitRate => "submit_rate",
            Shed::QueueFull => "queue_full",
            Shed::Overload => "overload",
            Shed::IdleConnection => "idle_connection",
            Shed::Connections => "connections",
            Shed::Requests => "requests",
            Shed::Watchers => "watchers",
            Shed::Followers => "followers",
            Shed::LongPolls => "long_polls",
            Shed::Batches => "batches",
            Shed::Bodies => "bodies",
            Shed::Uploads => "uploads",
            Shed::LargeAnswers => "large_answers",
            Shed::Searches => "searches",
            Shed::Logs => "logs",
        }
    }
}

/// All of them. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Bounds(Arc<Inner>);

struct Inner {
    connections: usize,
    metrics: Metrics,
    submits: Rates,
    packages: Mutex<(Bytes, Share)>,
    strangers: Arc<Places<Owner>>,
    requests: Arc<Places<Owner>>,
    watchers: Arc<Places<Owner>>,
    followers: Arc<Places<Owner>>,
    followers_of_jobs: Arc<Places<JobId>>,
    tails: Arc<Places<ClusterName>>,
    polls: Arc<Places<Owner>>,
    batches: Arc<Places<Owner>>,
    bodies: Arc<Places<Owner>>,
    uploads: Arc<Places<Owner>>,
    answers: Arc<Places<Owner>>,
    searches: Arc<Turns<Owner>>,
    logs: Arc<Turns<Owner>>,
}

/// When somebody may read, until it is dropped.
pub(crate) type Turn = turns::Turn<Owner>;

/// What somebody has until it is dropped.
pub(crate) struct Place {
    _of_owner: places::Place<Owner>,
    _of_job: Option<places::Place<JobId>>,
}

impl Bounds {
    /// With so many connections. What waits or streams holds one for long: each kind gets a
    /// quarter of them, and the last quarter is for requests that are answered at once.
    pub(crate) fn new(connections: usize, settings: &Settings, metrics: Metrics) -> Self {
        let quarter = (connections / 4).max(1);
        let share = |count: usize| Places::new(count, (count / SHARE).max(1));
        let shared = |count| Arc::new(share(count));
        let turns = |count, patience| Arc::new(Turns::new(share(count), share(IN_LINE), patience));
        Self(Arc::new(Inner {
            connections,
            metrics,
            submits: Rates::new(settings.submit_rate),
            packages: Mutex::new((settings.package_store, settings.package_share)),
            strangers: Arc::new(Places::new(quarter, quarter)),
            requests: shared(connections),
            watchers: shared(quarter),
            followers: shared(quarter),
            followers_of_jobs: Arc::new(Places::new(quarter, FOLLOWERS_OF_A_JOB)),
            tails: Arc::new(Places::new(quarter, TAILS_OF_A_CLUSTER)),
            polls: shared(quarter),
            batches: shared(BATCHES),
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
        *self.packages() = (settings.package_store, settings.package_share);
    }

    /// How much room there is for packages of this caller.
    pub(crate) fn room(&self, caller: &Caller) -> Room {
        let (all, share) = *self.packages();
        let own = caller.owner.is_some().then(|| (caller.package(""), all.part(share)));
        Room { all: Some(all.0), own }
    }

    fn packages(&self) -> MutexGuard<'_, (Bytes, Share)> {
        self.0.packages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connections at a time.
    pub(crate) fn connections(&self) -> usize {
        self.0.connections
    }

    /// Counts somebody who was turned away.
    pub(crate) fn count(&self, shed: Shed) {
        self.0.metrics.shed(shed);
    }

    /// This caller submits so many.
    pub(crate) fn submit(&self, caller: &Caller, count: usize) -> Result<(), Problem> {
        let Some(token) = caller.token() else { return Ok(()) };
        self.0.submits.take(token, count).map_err(|over| {
            self.count(Shed::SubmitRate);
            let seconds = over.wait.as_secs_f64();
            let message = format!(
                "token {} of {} submits more than {} a second",
                token.id, token.owner, over.per_second
            );
            let hint = format!("try again in {seconds:.1} s; ask whoever runs the control plane for more");
            Problem::new(codes::RATE_LIMITED, message).hint(hint).retry_after(over.wait)
        })
    }

    /// So many of what this caller submitted were not accepted: they shall not count.
    pub(crate) fn give_back(&self, caller: &Caller, count: usize) {
        if let Some(token) = caller.token() {
            self.0.submits.give_back(token, count);
        }
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
        self.enter(&self.0.watchers, caller, Shed::Watchers, "streams of events are open")
    }

    /// This caller follows the log of this job.
    pub(crate) fn follow(&self, caller: &Caller, job: &JobId) -> Result<Place, Problem> {
        let of_job = self.0.followers_of_jobs.enter(Some(job.clone())).map_err(|_| {
            let message = format!("the log of job {job} is followed {FOLLOWERS_OF_A_JOB} times already");
            self.busy(Shed::Followers, message).hint("read it without following, or try again later")
        })?;
        let place = self.enter(&self.0.followers, caller, Shed::Followers, "logs are followed")?;
        Ok(Place { _of_job: Some(of_job), ..place })
    }

    /// A log is followed on this cluster; `None`: too many are, at the moment.
    pub(crate) fn tail(&self, cluster: &ClusterName) -> Option<places::Place<ClusterName>> {
        self.0.tails.enter(Some(cluster.clone())).ok()
    }

    /// This caller is kept waiting.
    pub(crate) fn wait(&self, caller: &Caller) -> Result<Place, Problem> {
        self.enter(&self.0.polls, caller, Shed::LongPolls, "requests wait")
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
        self.enter(&self.0.answers, caller, Shed::LargeAnswers, "large answers are on their way")
    }

    /// This caller looks at many jobs: its turn.
    pub(crate) async fn search(&self, caller: &Caller) -> Result<Turn, Problem> {
        let turn = self.0.searches.enter(caller.owner.clone()).await;
        turn.map_err(|full| self.full(full, caller, Shed::Searches, "lists are under way"))
    }

    /// The next turn for somebody who has a place already, and is in the middle of it.
    pub(crate) async fn search_on(&self, caller: &Caller) -> Turn {
        self.0.searches.wait(caller.owner.clone()).await
    }

    /// This caller reads a log: its turn.
    pub(crate) async fn log(&self, caller: &Caller) -> Result<Turn, Problem> {
        let turn = self.0.logs.enter(caller.owner.clone()).await;
        turn.map_err(|full| self.full(full, caller, Shed::Logs, "logs are being read"))
    }

    /// The next turn for a follower, who has a place already, to read what is left.
    pub(crate) async fn rest_of_log(&self) -> Turn {
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
                let message = format!("{most} {what} for {owner}, as many as one owner may have");
                self.busy(shed, message).hint("end some of them, or try again in a moment")
            }
            (Full::All(most) | Full::OfOne(most), _) => {
                self.busy(shed, format!("{most} {what}, as many as there may be"))
            }
        }
    }
}
