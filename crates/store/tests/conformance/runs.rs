//! The history of jobs that ran.

use std::{fs, sync::Arc, time::Duration};

use multicluster_core::{
    Write,
    record::{AttemptOutcome, AttemptRecord, Ended, JobRecord, Live, Phase, Stage, Step},
};
use multicluster_store::{Change, FinishedRun, Options};
use multicluster_types::{Attempt, Kind, Priority, Resources, Retry, Span, State, Tags, Timestamp, Work};

use crate::support::*;

const BEGIN: u64 = 1_700_000_000_000;
const END: Timestamp = Timestamp(u64::MAX);

/// A job that was submitted at second `at`, waited for a minute and ran for two.
fn ran(name: &str, at: u64, state: State) -> JobRecord {
    let submitted_at = Timestamp(BEGIN + at * 1000);
    let ended = Ended {
        state,
        at: submitted_at + Span::seconds(180),
        ran: Some(Span::seconds(120)),
        cluster: Some(cluster("mac")),
        message: None,
    };
    JobRecord { submitted_at, attempts: 1, phase: Phase::Ended(Box::new(ended)), ..queued(name, at) }
}

/// What the history has of it.
fn as_kept(record: &JobRecord) -> FinishedRun {
    let Phase::Ended(ended) = &record.phase else { panic!("it has not ended") };
    FinishedRun {
        job: Some(record.id.clone()),
        submitted_at: record.submitted_at,
        started_at: record.submitted_at + Span::seconds(60),
        ended_at: ended.at,
        ran: Span::seconds(120),
        state: ended.state,
        cluster: cluster("mac"),
        work: Arc::clone(&record.work),
    }
}

fn attempted(name: &str, number: u32, since: Timestamp, outcome: AttemptOutcome) -> Change {
    let mut live = Live::new(Attempt(number), cluster("mac"), None, since);
    if outcome != AttemptOutcome::NotStarted {
        live.apply(Step::Start, since).unwrap();
    }
    let ended_at = since + Span::seconds(5);
    Change::Core(Write::Attempt(Box::new(AttemptRecord {
        job: id(name),
        live,
        ended_at,
        outcome,
        message: None,
    })))
}

fn kept(store: &TestStore) -> Vec<FinishedRun> {
    all(3, |before| store.reader().runs(Timestamp(0), END, before, 3))
}

#[test]
fn a_run_is_kept_when_its_job_is_forgotten() {
    let mut store = TestStore::new(Options::default());
    let (a, b) = (ran("a", 0, State::Succeeded), ran("b", 100, State::Stopped));
    store.commit([job(queued("a", 1)), job(queued("b", 2))]);
    store.commit([job(a.clone()), job(b.clone())]);
    // Ended and forgotten in one commit.
    let c = ran("c", 200, State::Succeeded);
    store.commit([delete("a"), job(queued("c", 3)), job(c.clone()), delete("c")]);
    let forgotten = |record| FinishedRun { job: None, ..as_kept(record) };
    let expected = [forgotten(&c), as_kept(&b), forgotten(&a)];
    assert_eq!(kept(&store), expected);
    store.reopen();
    assert_eq!(kept(&store), expected);
    let late = Timestamp(BEGIN + 200_000);
    assert_eq!(store.reader().runs(late, END, None, 9).unwrap().items, expected[..2]);
}

#[test]
fn a_job_that_ended_is_one_run_however_often_it_is_written() {
    let mut store = TestStore::new(Options::default());
    let a = ran("a", 0, State::Succeeded);
    store.commit([job(a.clone()), job(a.clone())]);
    store.commit([job(a.clone())]);
    assert_eq!(kept(&store).len(), 1);
    // Another job of the same id.
    store.commit([delete("a"), job(ran("a", 50, State::Succeeded))]);
    assert_eq!(kept(&store).len(), 2);
    // And one that is run again.
    store.commit([job(on(&a, "mac", Stage::Running))]);
    store.commit([job(ran("a", 90, State::Succeeded))]);
    assert_eq!(kept(&store).len(), 3);
}

#[test]
fn what_never_ran_is_no_run_and_what_was_too_short_to_be_seen_is() {
    let mut store = TestStore::new(Options::default());
    let unseen = |name: &str, state| {
        let mut record = ran(name, 7, state);
        let Phase::Ended(ended) = &mut record.phase else { unreachable!() };
        ended.ran = None;
        record
    };
    let at = Timestamp(BEGIN);
    store.commit([
        job(ended(&queued("in-the-queue", 1), None, State::Stopped)),
        job(unseen("stopped-before-it-started", State::Stopped)),
        attempted("not-started", 1, at, AttemptOutcome::NotStarted),
        job(unseen("not-started", State::Failed)),
        attempted("lost", 1, at, AttemptOutcome::Lost),
        job(ran("lost", 7, State::Failed)),
        job(JobRecord { work: work(Kind::Task, &[]), ..ran("task", 7, State::Succeeded) }),
    ]);
    assert_eq!(kept(&store), []);
    store.commit([job(unseen("short", State::Succeeded))]);
    store.commit([
        attempted("failed-at-once", 1, at, AttemptOutcome::Failed),
        job(unseen("failed-at-once", State::Failed)),
    ]);
    assert_eq!(
        kept(&store).iter().map(|run| (run.ran, run.state)).collect::<Vec<_>>(),
        [(Span::ZERO, State::Failed), (Span::ZERO, State::Succeeded)]
    );
}

#[test]
fn the_wait_of_a_job_with_several_attempts_ends_with_the_first() {
    let mut store = TestStore::new(Options::default());
    let first = Timestamp(BEGIN + 10_000);
    store.commit([job(queued("a", 1)), attempted("a", 1, first, AttemptOutcome::Failed)]);
    store.commit([
        attempted("a", 2, Timestamp(BEGIN + 60_000), AttemptOutcome::Succeeded),
        job(JobRecord { attempts: 2, ..ran("a", 0, State::Succeeded) }),
    ]);
    let run = &kept(&store)[0];
    assert_eq!((run.started_at, run.ran), (first, Span::seconds(120)));
}

#[test]
fn what_runs_have_in_common_comes_back_and_what_is_only_theirs_does_not() {
    let mut store = TestStore::new(Options::default());
    let work = Work {
        demand: Resources::from_amounts([("CPU", 0.5), ("tpu", 2.0)]).unwrap(),
        owner: Some(owner("ann")),
        priority: Priority(-3),
        ..Work::new(Kind::Job)
    };
    let group = Some(multicluster_types::GroupId::new("a-group").unwrap());
    let own = Work { group, retry: Retry { max_retries: 7, ..Retry::default() }, ..work.clone() };
    store.commit([job(JobRecord { work: Arc::new(own), ..ran("a", 0, State::Succeeded) })]);
    assert_eq!(*kept(&store)[0].work, work);
    // Too much to keep: the tags are left out.
    let many = Tags::new((0..60).map(|nth| format!("{nth:0>100}"))).unwrap();
    let tagged = Work { tags: many, ..work.clone() };
    store.commit([job(JobRecord { work: Arc::new(tagged), ..ran("b", 9, State::Succeeded) })]);
    assert_eq!(*kept(&store)[0].work, work);
}

#[test]
fn the_oldest_runs_are_forgotten_first() {
    let mut store = TestStore::new(Options { runs: 100, ..Options::default() });
    for nth in 0..30u64 {
        store.commit((0..10).map(|n| job(ran(&format!("{nth}-{n}"), nth, State::Succeeded))));
    }
    let runs = kept(&store);
    assert_eq!(runs.len(), 100);
    assert_eq!(runs.last().unwrap().submitted_at, Timestamp(BEGIN + 20_000));
    let mut store = TestStore::new(Options { runs_for: Duration::from_secs(60), ..Options::default() });
    for nth in 0..200u64 {
        store.commit([job(ran(&nth.to_string(), nth, State::Succeeded))]);
    }
    assert_eq!(kept(&store).len(), 61);
    store.reopen();
    store.commit([job(ran("later", 10_000, State::Succeeded))]);
    assert_eq!(kept(&store).len(), 1);
}

#[test]
fn runs_that_have_nothing_in_common_are_forgotten_without_loss_of_others() {
    let mut store = TestStore::new(Options { runs: 6_000, ..Options::default() });
    let mut at = 0;
    for round in 0..4u32 {
        for batch in 0..10u32 {
            store.commit((0..500u32).map(|n| {
                at += 1;
                // Every second one is like others of other rounds.
                let tag = if n % 2 == 0 { format!("{}", n % 50) } else { format!("{round}-{batch}-{n}") };
                job(JobRecord {
                    work: work(Kind::Job, &[&tag]),
                    ..ran(&at.to_string(), at, State::Succeeded)
                })
            }));
        }
        store.reopen();
    }
    let runs = all(10_000, |before| store.reader().runs(Timestamp(0), END, before, 10_000));
    assert_eq!(runs.len(), 6_000, "each with its shape");
    let tags: std::collections::BTreeSet<_> = runs.iter().map(|run| run.work.tags.clone()).collect();
    assert_eq!(tags.len(), 3_000 + 25);
}

/// The figure in the documentation.
#[test]
fn a_run_takes_less_than_fifty_bytes() {
    let dir = TempDir::new();
    let options = Options { sync: false, ..Options::default() };
    let mut opened = multicluster_store::sqlite::open(dir.path(), options).unwrap();
    let works: Vec<_> = (0..200).map(|n| work(Kind::Job, &["linux", &format!("team-{n}")])).collect();
    let (count, per_batch) = (50_000u64, 500u64);
    for batch in 0..count / per_batch {
        // Forgotten at once, so that the file has the history and nothing else.
        let changes = (0..per_batch).flat_map(|n| {
            let at = batch * per_batch + n;
            let record = JobRecord {
                work: works[at as usize % 200].clone(),
                ..ran(&at.to_string(), at * 2, State::Succeeded)
            };
            [job(record), delete(&at.to_string())]
        });
        opened.store.commit(&changes.collect::<Vec<_>>()).unwrap();
    }
    drop(opened);
    let size = fs::metadata(dir.path().join("state.db")).unwrap().len();
    let empty = TempDir::new();
    drop(multicluster_store::sqlite::open(empty.path(), Options::default()).unwrap());
    let size = size - fs::metadata(empty.path().join("state.db")).unwrap().len();
    println!("{} bytes a run", size / count);
    assert!(size < 50 * count, "{} bytes a run", size / count);
}

#[test]
fn runs_between_two_moments_are_those_that_ran_then() {
    let mut store = TestStore::new(Options::default());
    // Submitted at these seconds, they run from 60 s to 180 s later.
    store.commit([0, 100, 200, 300].map(|at| job(ran(&at.to_string(), at, State::Succeeded))));
    let between = |from: u64, until: u64| {
        let [from, until] = [from, until].map(|second| Timestamp(BEGIN + second * 1000));
        let runs = all(1, |before| store.reader().runs(from, until, before, 1));
        runs.into_iter().map(|run| run.job.unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(between(0, 60), [""; 0]);
    assert_eq!(between(0, 61), ["0"]);
    assert_eq!(between(181, 300), ["200", "100"]);
    assert_eq!(between(181, 100_000), ["300", "200", "100"]);
}

#[test]
fn a_run_is_not_of_another_job_that_got_its_number() {
    let mut store = TestStore::new(Options::default());
    store.commit([job(queued("first", 0))]);
    store.commit([job(ran("first", 0, State::Succeeded))]);
    assert_eq!(kept(&store)[0].job, Some(id("first")));
    store.commit([delete("first")]);
    store.reopen();
    store.commit([job(JobRecord { submitted_at: Timestamp(BEGIN + 7), ..queued("second", 0) })]);
    assert_eq!(kept(&store)[0].job, None);
}

#[test]
fn waits_are_counted_step_by_step_by_when_jobs_first_ran() {
    let mut store = TestStore::new(Options::default());
    let waited = |nth: u64, started: u64, wait: u64| {
        let mut record = ran(&nth.to_string(), 0, State::Succeeded);
        record.submitted_at = Timestamp(BEGIN + (started - wait) * 1000);
        let Phase::Ended(ended) = &mut record.phase else { unreachable!() };
        (ended.at, ended.ran) = (Timestamp(BEGIN + (started + 7) * 1000), Some(Span::seconds(7)));
        job(record)
    };
    // 100 in the first ten minutes from second 400 on, which waited 1 to 100 s, and one much later.
    store.commit((1..=100).map(|nth| waited(nth, 400 + nth, nth)));
    store.commit([waited(101, 90_000, 5), waited(102, 200_000, 9)]);
    let step = Span::seconds(600);
    let waits = store.reader().waits(Timestamp(BEGIN), Timestamp(BEGIN + 100_000_000), step).unwrap();
    let of = |wait: &multicluster_store::Waits| {
        let seconds = [wait.p50, wait.p90, wait.p99].map(|span| span.0 / 1000);
        (wait.begun.0.saturating_sub(BEGIN) / 1000, wait.jobs, seconds)
    };
    // BEGIN is 400 s before the end of a step.
    assert_eq!(BEGIN % 600_000, 200_000);
    assert_eq!(waits.iter().map(of).collect::<Vec<_>>(), [(400, 100, [50, 90, 99]), (89_800, 1, [5, 5, 5])]);
    assert_eq!(
        store.reader().waits(Timestamp(BEGIN + 91_000_000), Timestamp(BEGIN + 92_000_000), step).unwrap(),
        []
    );
}
