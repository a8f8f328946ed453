//! Clusters that refuse our token.

use multicluster_core::{CircuitState, DispatchOutcome, HealthState, Input, LookupOutcome, RunStatus};
use multicluster_types::{Reason, State};

use crate::env::*;

const WHY: &str = "token_file /etc/token was refused";

fn refuse(env: &mut TestEnv, cluster: &str) {
    env.send(Input::Unauthorized { cluster: cluster_name(cluster), error: WHY.into() });
}

fn denied() -> DispatchOutcome {
    DispatchOutcome::Denied(format!("unauthorized: {WHY}").into())
}

#[test]
fn a_cluster_that_refuses_our_token_says_so() {
    let mut env = TestEnv::only();
    refuse(&mut env, "only");
    refuse(&mut env, "only");
    assert_eq!(env.view("only").health, HealthState::Healthy, "it may be restarting with another token");
    refuse(&mut env, "only");
    let since = env.now;
    assert_eq!(env.view("only").health, HealthState::Unauthorized { since, error: WHY.into() });
    let job = env.submit(a_job());
    assert_eq!(env.state(&job), State::Queued);
    assert_eq!(env.reason(&job, "only"), Reason::Unauthorized { since, error: WHY.into() });
    assert!(env.summary(&job).contains(&format!("only: unauthorized: {WHY}")), "{}", env.summary(&job));

    env.poll("only");
    assert_eq!(env.state(&job), State::Dispatching);
}

#[test]
fn one_that_never_answered_or_was_away_is_known_at_once() {
    let mut env = TestEnv::unspaced();
    env.send(Input::Register { spec: Box::new(a_cluster("new").spec), replace: false });
    refuse(&mut env, "new");
    assert!(matches!(env.view("new").health, HealthState::Unauthorized { .. }));
    let away = |env: &mut TestEnv| {
        env.send(Input::PollFailed { cluster: cluster_name("new"), error: "refused".into() });
    };
    away(&mut env);
    assert!(matches!(env.view("new").health, HealthState::Unhealthy { .. }), "it is away now");
    refuse(&mut env, "new");
    assert!(matches!(env.view("new").health, HealthState::Unauthorized { .. }), "and back");
}

#[test]
fn its_jobs_are_neither_failed_nor_run_again() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    env.run(&job);
    (0..3).for_each(|_| refuse(&mut env, "only"));
    assert_eq!(env.state(&job), State::Unknown);
    env.poll("only");
    env.answer(&job, LookupOutcome::Found(RunStatus::Running));
    assert_eq!((env.state(&job), env.attempt(&job).0), (State::Running, 1));
}

#[test]
fn a_token_that_is_being_replaced_costs_no_job() {
    let mut env = TestEnv::unspaced();
    env.cluster(a_cluster("only").cpus(32.0));
    let jobs: Vec<_> = (0..12).map(|_| env.submit(a_job())).collect();
    for job in &jobs {
        assert_eq!(env.state(job), State::Dispatching);
    }
    for job in &jobs {
        env.dispatched(job, denied());
        assert_eq!(env.state(job), State::Queued, "it waits");
    }
    assert_eq!(env.view("only").circuit, CircuitState::Closed, "no failure of the cluster");
    let later = env.submit(a_job());
    assert_eq!(env.state(&later), State::Queued, "nothing is sent there until it answers");
    refuse(&mut env, "only");
    assert!(matches!(env.reason(&later, "only"), Reason::Unauthorized { .. }));
    env.poll("only");
    env.advance_s(2);
    for job in jobs.iter().chain([&later]) {
        assert_eq!(env.state(job), State::Dispatching);
        env.accept(job);
    }
}

#[test]
fn one_that_answers_polls_and_refuses_jobs_is_a_failing_cluster() {
    let mut env = TestEnv::with(|s| {
        s.set("submission_interval", "0").unwrap();
        s.set("dispatch_attempts", "3").unwrap();
    });
    env.cluster(a_cluster("only"));
    let job = env.submit(a_job());
    for _ in 0..4 {
        assert_eq!(env.state(&job), State::Dispatching);
        env.dispatched(&job, denied());
        env.poll("only");
        env.advance_s(30);
    }
    assert_eq!(env.state(&job), State::Failed, "the first refusal is free, then three attempts count");
    assert!(env.summary(&job).contains(WHY), "{}", env.summary(&job));
}

#[test]
fn a_job_that_is_stopped_meanwhile_is_stopped() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    env.stop(&job).unwrap();
    env.dispatched(&job, denied());
    assert_eq!(env.state(&job), State::Stopped);
}

#[test]
fn a_refused_probe_lets_the_next_one_pass() {
    let mut env = TestEnv::unspaced();
    env.cluster(a_cluster("only"));
    for _ in 0..5 {
        let job = env.submit(a_job());
        env.dispatched(&job, DispatchOutcome::Failed("no agent".into()));
        env.send(Input::Stop { job });
    }
    let probe = env.submit(a_job());
    env.advance_s(61);
    env.poll("only");
    assert_eq!(env.state(&probe), State::Dispatching);
    env.dispatched(&probe, denied());
    env.poll("only");
    env.advance_s(5);
    assert_eq!(env.state(&probe), State::Dispatching, "it is the probe again");
}
