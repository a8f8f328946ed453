//! Lanes without an engine, on virtual time where a test takes an hour.

use multicluster_core::LookupOutcome;
use multicluster_store::{Trust, sqlite};
use multicluster_testkit::{Endpoint, FakeOptions, FakeRay, Fault};
use multicluster_types::{Attempt, JobId, Timestamp};

use super::*;

/// An engine that only records reports.
#[derive(Default)]
struct Notes {
    /// Which runs were stopped, as the cluster answered.
    stopped: Mutex<BTreeMap<Run, u32>>,
    /// The latest question that was answered, of each run.
    answered: Mutex<BTreeMap<Run, u32>>,
}

impl Engine for Notes {
    fn tell(&self, word: Word) -> BoxFuture<'_, Option<()>> {
        let Word::Report { input, .. } = word else { return Box::pin(async { None }) };
        match *input {
            Input::StopSent { run, answered: true } => *self.stopped.lock().entry(run).or_default() += 1,
            Input::LookedUp { run, question, outcome: LookupOutcome::NotFound { .. } } => {
                self.answered.lock().insert(run, question);
            }
            _ => {}
        }
        Box::pin(async { Some(()) })
    }
}

/// A lane to this cluster that performs effects, and neither polls nor watches.
fn lane_to(fake: &FakeRay, engine: Arc<dyn Engine>) -> Lanes {
    let store = sqlite::open_temporary().unwrap();
    let lanes = Lanes::new(Shared {
        trust: Trust::always(),
        engine,
        reader: store.reader,
        packages: store.packages,
        clock: Clock::new(),
        metrics: Metrics::default(),
        plane: "plane".into(),
        traces: false,
    });
    let spec = ClusterSpec::new(ClusterName::new(fake.name()).unwrap(), "127.0.0.1:1", fake.url());
    lanes.change(LaneChange::Open { spec: Arc::new(spec), generation: 1 });
    lanes
}

fn a_run(number: usize) -> Run {
    let job = JobId::new(format!("job-{number}")).unwrap();
    Run { job, attempt: Attempt(1), life: Some(Timestamp(1)) }
}

fn alive() -> usize {
    runtime::Handle::current().metrics().num_alive_tasks()
}

const HOUR: u32 = 3600;
const JOBS: usize = 1000;

/// The head answers polls, and `/api/jobs/*` hangs. The core repeats each stop every 5 s, and each
/// question at least every 30 s.
#[tokio::test(start_paused = true)]
async fn errands_to_a_cluster_that_hangs_do_not_pile_up_and_all_are_done_in_the_end() {
    let fake = FakeRay::start(FakeOptions::new("hung")).await;
    let notes = Arc::new(Notes::default());
    let lanes = lane_to(&fake, Arc::clone(&notes) as Arc<dyn Engine>);
    let cluster = ClusterName::new("hung").unwrap();
    let perform = |effect| {
        let means = Means { homes: Arc::default(), leave_by: Instant::now(), time_to_send: Duration::ZERO };
        lanes.perform(effect, means);
    };
    fake.fault(Endpoint::Job, Fault::Hang);
    let runs: Vec<Run> = (0..JOBS).map(a_run).collect();
    let stop_all =
        || runs.iter().for_each(|run| perform(Effect::Stop { run: run.clone(), cluster: cluster.clone() }));
    let ask_all = |question| {
        for run in &runs {
            perform(Effect::Lookup { run: run.clone(), cluster: cluster.clone(), question });
        }
    };
    let mut question = 0;
    for second in (0..HOUR).step_by(5) {
        stop_all();
        if second % 30 == 0 {
            question += 1;
            ask_all(question);
            for run in &runs {
                perform(Effect::Forget { run: run.clone(), cluster: cluster.clone() });
            }
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(alive() < 4 * JOBS, "{} tasks after {second} s", alive());
    }
    fake.clear_faults();
    tokio::time::resume();
    let done = async {
        let all = |of: &Mutex<BTreeMap<Run, u32>>| of.lock().len() == JOBS;
        while !all(&notes.stopped) || !all(&notes.answered) {
            stop_all();
            ask_all(question);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), done).await.expect("every errand is done");
    let answered = notes.answered.lock();
    assert!(answered.values().all(|latest| *latest == question), "the latest question is answered");
}
