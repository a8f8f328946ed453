//! A head node can bear a limited number of drivers, and of jobs that start at once.

use multicluster_core::{DispatchOutcome, Input};
use multicluster_types::{JobId, Quantity, Reason, Share, Span, State};

use crate::env::{TestEnv, a_cluster, a_job, a_task};

const MB: f64 = 1e6;

/// One cluster whose head node has memory for three drivers, by default settings.
fn small() -> TestEnv {
    let mut env = TestEnv::only();
    env.head_memory("only", 600.0 * MB, 600.0 * MB);
    env
}

fn jobs(env: &mut TestEnv, count: usize) -> Vec<JobId> {
    (0..count).map(|_| env.submit(a_job())).collect()
}

fn waiting(env: &TestEnv, jobs: &[JobId]) -> usize {
    jobs.iter().filter(|job| env.state(job) == State::Queued).count()
}

fn head_full(drivers: u32, limit: u32, free: f64) -> Reason {
    Reason::HeadFull { drivers, limit, free: Quantity::from_f64(free * MB).expect("a legal amount") }
}

// ---- memory

#[test]
fn a_head_runs_no_more_drivers_than_its_share_of_memory_holds() {
    let mut env = small();
    let jobs = jobs(&mut env, 5);
    assert_eq!(waiting(&env, &jobs), 2);
    assert_eq!(env.reason(&jobs[3], "only"), head_full(3, 3, 600.0));
    assert!(
        env.summary(&jobs[3]).contains("only: runs 3 of at most 3 drivers on its head node, 572.2 MiB free"),
        "{}",
        env.summary(&jobs[3])
    );
    env.run(&jobs[0]);
    assert_eq!(waiting(&env, &jobs), 2, "a driver that runs is there as well");
    env.succeed(&jobs[0]);
    assert_eq!(waiting(&env, &jobs), 1);
}

#[test]
fn the_budget_holds_over_a_crash() {
    let mut env = small();
    let jobs = jobs(&mut env, 4);
    env.crash();
    env.poll_all();
    assert_eq!(env.reason(&jobs[3], "only"), head_full(3, 3, 600.0));
}

#[test]
fn a_head_whose_memory_others_use_gets_nothing() {
    let mut env = TestEnv::only();
    env.head_memory("only", 8000.0 * MB, 890.0 * MB);
    let job = env.submit(a_job());
    assert_eq!(env.reason(&job, "only"), head_full(0, 0, 890.0));
    env.head_memory("only", 8000.0 * MB, 901.0 * MB);
    assert_eq!(env.place(&job), "only", "a tenth is kept, and one more fits");
}

#[test]
fn drivers_that_the_facts_do_not_show_yet_count_as_well() {
    let mut env = TestEnv::only();
    env.head_memory("only", 8000.0 * MB, 1050.0 * MB);
    let jobs = jobs(&mut env, 4);
    assert_eq!(env.reason(&jobs[2], "only"), head_full(2, 2, 1050.0));
    env.run(&jobs[0]);
    env.poll("only");
    assert_eq!(env.reason(&jobs[2], "only"), head_full(2, 2, 1050.0), "too fresh to be believed");
    env.head_memory("only", 8000.0 * MB, 1010.0 * MB);
    env.advance_s(12);
    assert_eq!(env.reason(&jobs[2], "only"), head_full(2, 2, 1010.0), "Ray measures memory every 15 s");
    env.advance_s(9);
    assert_eq!(env.place(&jobs[2]), "only", "it took 40 MB, not 100");
}

#[test]
fn a_driver_that_reserves_something_runs_on_any_node() {
    let mut env = small();
    jobs(&mut env, 3);
    let elsewhere = env.submit(a_job().cpus(1.0));
    assert_eq!(env.place(&elsewhere), "only");
    let task = env.submit(a_task());
    assert_eq!(env.place(&task), "only", "a task has no driver of its own");
}

#[test]
fn what_a_job_starts_is_counted_but_never_waits_for_memory() {
    let mut env = small();
    let parents = jobs(&mut env, 3);
    env.run(&parents[0]);
    let child = env.submit(a_job().inside(&parents[0], "only"));
    assert_eq!(env.place(&child), "only", "its parent waits for it, and would do so for good");
    let next = env.submit(a_job());
    assert_eq!(env.reason(&next, "only"), head_full(4, 3, 600.0));
}

#[test]
fn a_cluster_that_does_not_tell_its_memory_has_no_budget() {
    let mut env = TestEnv::only();
    env.set("max_starting", "100");
    let jobs = jobs(&mut env, 50);
    assert_eq!(waiting(&env, &jobs), 0);
}

#[test]
fn the_budget_follows_the_settings_and_a_clusters_own() {
    let mut env = small();
    let jobs = jobs(&mut env, 8);
    assert_eq!(waiting(&env, &jobs), 5);
    env.set("driver_memory", "60MB");
    assert_eq!(waiting(&env, &jobs), 3);
    env.set("head_memory_share", "0.6");
    assert_eq!(waiting(&env, &jobs), 2);
    let mut spec = (*env.view("only").spec).clone();
    spec.limits.head_memory_share = Some(Share::percent(70));
    env.ask(Input::Register { spec: Box::new(spec), replace: true }).unwrap();
    assert_eq!(waiting(&env, &jobs), 1);
    env.set("driver_memory", "0");
    assert_eq!(waiting(&env, &jobs), 0, "0 counts nothing");
}

#[test]
fn a_job_that_waits_for_one_head_goes_to_another() {
    let mut env = small();
    env.cluster(a_cluster("other"));
    let jobs = jobs(&mut env, 12);
    assert_eq!(waiting(&env, &jobs), 0);
    assert_eq!(env.view("only").drivers, 3);
    assert_eq!(env.view("other").drivers, 9);
}

// ---- pace

#[test]
fn a_head_that_does_not_say_what_memory_it_has_has_what_it_had() {
    let mut env = small();
    env.fake("only").head = None;
    env.poll("only");
    let jobs = jobs(&mut env, 4);
    assert_eq!(waiting(&env, &jobs), 1);
    assert_eq!(env.reason(&jobs[3], "only"), head_full(3, 3, 600.0));
}

#[test]
fn work_without_a_driver_on_the_head_does_not_wait_for_drivers_that_starve() {
    let mut env = small();
    let jobs = jobs(&mut env, 4);
    jobs[..3].iter().for_each(|job| env.run(job));
    env.advance_s(3600);
    assert_eq!(waiting(&env, &jobs), 1, "it has waited for an hour");
    let other = env.submit(a_job().cpus(1.0));
    assert_eq!(env.place(&other), "only");
}

/// How many jobs may be starting at once.
fn window(env: &TestEnv) -> u32 {
    env.view("only").starting_limit
}

/// A poll is slow while this job is starting.
fn a_slow_poll(env: &mut TestEnv) -> JobId {
    let job = env.submit(a_job());
    env.accept(&job);
    env.fake("only").takes = Span::seconds(3);
    env.poll("only");
    env.fake("only").takes = Span::ZERO;
    job
}

#[test]
fn a_slow_dashboard_is_given_half_as_much_to_do() {
    let mut env = TestEnv::only();
    env.fake("only").takes = Span(4_200);
    let jobs = jobs(&mut env, 20);
    assert_eq!(waiting(&env, &jobs), 4);
    env.accept(&jobs[0]);
    assert_eq!(window(&env), 8);
    let lowered = Some("its dashboard took 4.2 s".into());
    assert_eq!(env.reason(&jobs[19], "only"), Reason::Starting { jobs: 16, limit: 8, lowered });
    assert!(
        env.summary(&jobs[19])
            .contains("is starting 16 jobs, at most 8 at once, lowered because its dashboard took 4.2 s"),
        "{}",
        env.summary(&jobs[19])
    );
    jobs[..7].iter().for_each(|job| env.run(job));
    assert_eq!(waiting(&env, &jobs), 4, "nine are starting yet");
    env.run(&jobs[7]);
    assert_eq!((window(&env), waiting(&env, &jobs)), (9, 3), "eight have started well");
}

#[test]
fn jobs_that_start_well_bring_the_window_back() {
    let mut env = TestEnv::only();
    let first = a_slow_poll(&mut env);
    assert_eq!(window(&env), 8);
    let mut windows = Vec::new();
    for n in 0..9 + 8 {
        let job = if n == 0 { first.clone() } else { env.submit(a_job()) };
        env.run(&job);
        windows.push(window(&env));
    }
    assert_eq!(windows, [[8; 7].as_slice(), &[9; 9], &[10]].concat());
}

#[test]
fn a_job_too_short_to_be_seen_running_started_well_too() {
    let mut env = TestEnv::only();
    env.set("max_starting", "4");
    let first = a_slow_poll(&mut env);
    assert_eq!(window(&env), 2);
    let second = env.submit(a_job());
    [first, second].iter().for_each(|job| env.succeed(job));
    assert_eq!(window(&env), 3);
}

#[test]
fn a_submission_without_success_slows_down_too() {
    type Outcome = fn(multicluster_types::Message) -> DispatchOutcome;
    let cases: [(Outcome, u32); 4] = [
        (DispatchOutcome::Failed, 8),
        (DispatchOutcome::Unknown, 8),
        (DispatchOutcome::Refused, 16),
        (DispatchOutcome::Taken, 16),
    ];
    for (outcome, wanted) in cases {
        let mut env = TestEnv::only();
        env.fake("only").takes = Span(10);
        let job = env.submit(a_job());
        env.dispatched(&job, outcome("500: no available agent".into()));
        assert_eq!(window(&env), wanted, "{:?}", outcome("".into()));
    }
}

#[test]
fn what_never_left_says_nothing_about_the_cluster() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    env.dispatched(&job, DispatchOutcome::NotSent("our own disk".into()));
    assert_eq!(window(&env), 16);
}

#[test]
fn nobody_is_told_how_the_submission_of_another_failed() {
    let mut env = TestEnv::only();
    env.set("max_starting", "2");
    env.fake("only").takes = Span(10);
    let jobs = jobs(&mut env, 3);
    env.dispatched(&jobs[0], DispatchOutcome::Unknown("submission_id secret already exists".into()));
    let lowered = Some("a submission got no answer".into());
    assert_eq!(env.reason(&jobs[2], "only"), Reason::Starting { jobs: 2, limit: 1, lowered });
}

#[test]
fn a_poll_that_fails_slows_down_too() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    env.accept(&job);
    env.fake("only").answers = false;
    env.poll("only");
    assert_eq!(window(&env), 8);
    env.poll("only");
    assert_eq!(window(&env), 8, "one cut for all that was sent before it");
}

#[test]
fn trouble_that_lasts_leaves_one_at_a_time() {
    let mut env = TestEnv::only();
    a_slow_poll(&mut env);
    env.fake("only").takes = Span::seconds(3);
    env.advance_s(120);
    assert_eq!(window(&env), 1);
    let next = env.submit(a_job());
    assert_eq!(env.place(&next), "", "one is starting");

    env.fake("only").takes = Span::ZERO;
    env.advance_s(310);
    assert_eq!((window(&env), env.place(&next)), (16, "only"), "it has been well for long");
}

#[test]
fn a_cluster_that_starts_nothing_is_slow_for_another_reason() {
    let mut env = TestEnv::only();
    env.fake("only").takes = Span::seconds(3);
    env.poll("only");
    env.fake("only").answers = false;
    env.poll("only");
    assert_eq!(window(&env), 16);
}

#[test]
fn what_a_job_starts_does_not_wait_for_a_lowered_window() {
    let mut env = TestEnv::only();
    let parent = env.submit(a_job());
    env.run(&parent);
    env.set("max_starting", "2");
    a_slow_poll(&mut env);
    assert_eq!(window(&env), 1);
    let outside = env.submit(a_job());
    let inside = env.submit(a_job().inside(&parent, "only"));
    assert_eq!([env.place(&outside), env.place(&inside)], ["", "only"]);
}

#[test]
fn what_is_slow_is_a_setting() {
    let mut env = TestEnv::only();
    for slow in ["5s", "0"] {
        env.set("dashboard_slow", slow);
        a_slow_poll(&mut env);
        assert_eq!(window(&env), 16, "{slow}");
    }
}

#[test]
fn a_cluster_that_moved_starts_afresh() {
    let mut env = TestEnv::only();
    let job = a_slow_poll(&mut env);
    env.succeed(&job);
    assert_eq!(window(&env), 8);
    let mut spec = (*env.view("only").spec).clone();
    spec.dashboard = "http://127.0.0.1:9999".into();
    env.ask(Input::Register { spec: Box::new(spec), replace: true }).unwrap();
    assert_eq!(window(&env), 16);
}
