//! Advice: this pool's own history, replayed under other settings. That takes seconds of computation,
//! so it has a thread of its own, one at a time, and its result is kept for a while.

mod past;
mod view;

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use multicluster_core::Core;
use multicluster_simulator::{Advice, Lab, Nodes, Pool, Progress, Timing, VirtualCluster, advise};
use multicluster_store::Reader;
use multicluster_types::{ClusterName, Lang, Span, Timestamp};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{
    engine::driver::{Driver, Failure},
    front::access::Caller,
};
use past::Past;

/// How long it may compute.
const TIME: Duration = Duration::from_secs(30);
/// How long a caller waits before the answer is `working`.
const WAIT: Duration = Duration::from_secs(15);
/// How long a result is good for.
const FRESH: Duration = Duration::from_mins(10);
/// How many results are kept: few ask for different numbers of days.
const KEPT: usize = 4;
/// How far back the history goes.
pub(crate) const MOST_DAYS: usize = 31;

/// Computes advice, and keeps it. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Adviser(Arc<Mutex<Desk>>);

#[derive(Default)]
struct Desk {
    /// What is being computed, and how far it is.
    working: Option<(u32, watch::Receiver<Stage>)>,
    made: VecDeque<Arc<Made>>,
}

#[derive(Clone)]
enum Stage {
    Working(Progress),
    Done(Arc<Made>),
    Failed(Arc<str>),
}

/// One result.
struct Made {
    days: u32,
    at: Timestamp,
    since: Instant,
    /// What it is about: other settings need other advice.
    about: About,
    advice: Advice,
    /// The mean wait of the jobs as it was, in seconds.
    waited_s: f64,
    is_cut: bool,
}

/// The present pool.
#[derive(Clone, PartialEq)]
struct About {
    lab: Lab,
    /// Clusters whose size is not known.
    unseen: Vec<ClusterName>,
    /// Clusters that others use, too.
    shared: Vec<ClusterName>,
}

/// What a caller gets.
pub(crate) enum Answer {
    /// Not yet.
    Working(Progress),
    /// The result.
    Done(Found),
}

/// A result, for one caller.
pub(crate) struct Found(Arc<Made>);

/// Why there is none.
pub(crate) enum NoAdvice {
    /// The driver or the store cannot be asked.
    Failure(Failure),
    /// The computation failed.
    Failed(Arc<str>),
}

impl From<Failure> for NoAdvice {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl Adviser {
    /// Advice by the history of so many days. Waits for it, but not long.
    pub(crate) async fn advice(
        &self,
        driver: &Driver,
        reader: &Arc<dyn Reader>,
        days: u32,
    ) -> Result<Answer, NoAdvice> {
        let (about, now) = driver.read(|core| (About::of(core), core.now())).await?;
        let deadline = tokio::time::Instant::now() + WAIT;
        loop {
            let (own, mut stage) = match self.found_or_started(reader, days, &about, now) {
                Ok(made) => return Ok(Answer::Done(Found(made))),
                Err(working) => working,
            };
            let is_over = |stage: &Stage| !matches!(stage, Stage::Working(_));
            let over = tokio::time::timeout_at(deadline, stage.wait_for(is_over)).await;
            match over.map(|over| over.map(|stage| stage.clone())) {
                Err(_) => {
                    let progress = match &*stage.borrow() {
                        Stage::Working(progress) if own == days => *progress,
                        _ => Progress::default(),
                    };
                    return Ok(Answer::Working(progress));
                }
                Ok(Ok(Stage::Done(made))) if own == days && made.about == about => {
                    return Ok(Answer::Done(Found(made)));
                }
                Ok(Ok(Stage::Failed(why))) if own == days => return Err(NoAdvice::Failed(why)),
                Ok(Ok(_)) => {}
                Ok(Err(_)) => return Err(NoAdvice::Failed("the computation ended early".into())),
            }
        }
    }

    /// A result that is still good, or the work that is under way.
    fn found_or_started(
        &self,
        reader: &Arc<dyn Reader>,
        days: u32,
        about: &About,
        now: Timestamp,
    ) -> Result<Arc<Made>, (u32, watch::Receiver<Stage>)> {
        let mut desk = self.0.lock();
        desk.made.retain(|made| made.since.elapsed() < FRESH);
        if let Some(made) = desk.made.iter().find(|made| made.days == days && made.about == *about) {
            return Ok(Arc::clone(made));
        }
        if let Some(working) = &desk.working {
            return Err(working.clone());
        }
        let (tell, stage) = watch::channel(Stage::Working(Progress::default()));
        desk.working = Some((days, stage.clone()));
        let (adviser, reader, about) = (self.clone(), Arc::clone(reader), about.clone());
        // Not one of tokio's threads: those must end before the process can.
        let thread = std::thread::Builder::new().name("advice".into());
        let spawned = thread.spawn(move || adviser.compute(&*reader, days, about, now, &tell));
        if spawned.is_err() {
            desk.working = None;
        }
        Err((days, stage))
    }

    fn compute(
        &self,
        reader: &dyn Reader,
        days: u32,
        about: About,
        now: Timestamp,
        tell: &watch::Sender<Stage>,
    ) {
        // However it ends, the next caller can start another.
        let _free = Free(self);
        let made = make(reader, days, about, now, &|progress| {
            tell.send_replace(Stage::Working(progress));
        });
        let stage = match made {
            Ok(made) => {
                let made = Arc::new(made);
                let mut desk = self.0.lock();
                desk.made.retain(|other| other.days != days);
                desk.made.push_front(Arc::clone(&made));
                desk.made.truncate(KEPT);
                Stage::Done(made)
            }
            Err(why) => Stage::Failed(why.into()),
        };
        tell.send_replace(stage);
    }
}

struct Free<'a>(&'a Adviser);

impl Drop for Free<'_> {
    fn drop(&mut self) {
        self.0.0.lock().working = None;
    }
}

fn make(
    reader: &dyn Reader,
    days: u32,
    about: About,
    now: Timestamp,
    progress: &dyn Fn(Progress),
) -> Result<Made, String> {
    let span = Span::minutes(u64::from(days) * 24 * 60);
    let from = Timestamp(now.0.saturating_sub(span.0));
    let past = Past::read(reader, from, &about.lab.pool).map_err(|error| error.to_string())?;
    let advice = advise(&about.lab, &past.workload, TIME, progress).map_err(|error| error.to_string())?;
    let waited_s = past.mean_wait_s(advice.history.jobs);
    Ok(Made { days, at: now, since: Instant::now(), about, advice, waited_s, is_cut: past.is_cut })
}

impl About {
    fn of(core: &Core) -> Self {
        let (mut clusters, mut unseen, mut shared) = (Vec::new(), Vec::new(), Vec::new());
        let mut nodes = Nodes::default();
        for view in core.clusters() {
            let name = &view.spec.name;
            let Some(snapshot) = &view.snapshot else {
                unseen.push(name.clone());
                continue;
            };
            if view.foreign.as_ref().is_some_and(|foreign| !foreign.is_empty()) {
                shared.push(name.clone());
            }
            nodes.note(name, &snapshot.shapes, &snapshot.total);
            clusters.push(VirtualCluster { spec: (*view.spec).clone(), total: snapshot.total.clone() });
        }
        let settings = core.settings().clone();
        let pool = Pool { settings, clusters, timing: Timing::default() };
        Self { lab: Lab { pool, nodes }, unseen, shared }
    }
}

impl Found {
    /// As this caller may see it.
    pub(crate) fn show(&self, caller: &Caller, lang: Lang) -> multicluster_api::Advice {
        view::done(&self.0, caller, lang)
    }
}

/// What a caller is shown while it is computed.
pub(crate) fn not_yet(days: u32, progress: Progress, lang: Lang) -> multicluster_api::Advice {
    view::working(days, progress, lang)
}
