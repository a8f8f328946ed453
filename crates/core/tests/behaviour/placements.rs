//! Placements of tasks and actors: granted, held by heartbeats, given up.

use multicluster_core::{
    CircuitState, HealthState, Input, Refusal, ReleaseOutcome, Reply,
    record::AttemptOutcome::{self, Failed, NotStarted, Stopped, Succeeded},
};
use multicluster_types::{Attempt, JobId, Span, State};

use crate::env::*;

#[test]
fn a_placement_is_granted_and_runs_from_its_first_heartbeat() {
    for work in [a_task(), an_actor()] {
        let mut env = TestEnv::only();
        let task = env.submit(work);
        assert_eq!(env.grants, [(env.run_of(&task, 1), cluster_name("only"))]);
        assert_eq!(env.state(&task), State::Dispatching);
        assert_eq!(env.heartbeat(&task), Ok(Reply::Alive { stopping: false }));
        assert_eq!(env.state(&task), State::Running);
    }
}

#[test]
fn a_placement_lives_as_long_as_its_heartbeat() {
    let mut env = TestEnv::only();
    let task = env.submit(a_task().cpus(1.0));
    for _ in 0..100 {
        env.advance_s(29);
        env.heartbeat(&task).unwrap();
    }
    env.advance_s(30);
    assert_eq!(
        env.summary(&task),
        "failed on only: its holder was silent for 30s; the placement on only was released"
    );
    assert!(env.view("only").promised.is_empty());
    let refusal = env.heartbeat(&task).unwrap_err();
    assert_eq!(refusal, Refusal::NoLease { job: task, attempt: Attempt(1) });
}

#[test]
fn a_placement_ends_as_its_holder_says() {
    let cases: [(ReleaseOutcome, State, AttemptOutcome); 4] = [
        (ReleaseOutcome::Succeeded, State::Succeeded, Succeeded),
        (ReleaseOutcome::Failed("ValueError".into()), State::Failed, Failed),
        (ReleaseOutcome::Stopped, State::Stopped, Stopped),
        (ReleaseOutcome::Unreachable("connection refused".into()), State::Queued, NotStarted),
    ];
    for (outcome, state, attempt) in cases {
        let mut env = TestEnv::only();
        let task = env.submit(a_task());
        env.release(&task, outcome).unwrap();
        assert_eq!((env.state(&task), env.history(&task)), (state, vec![(1, "only", attempt)]));
    }
}

#[test]
fn a_placement_that_nobody_waits_for_is_given_up() {
    let mut env = TestEnv::new();
    env.cluster(a_cluster("only"));
    let running = env.submit(a_job());
    let [asked_for, forgotten] = [env.submit(a_task()), env.submit(a_task())];
    env.callers_gone = true;
    for _ in 0..3 {
        env.advance_s(12);
        let answer = env.ask(Input::Waits { job: asked_for.clone() }).unwrap();
        let granted = Reply::Granted { attempt: Attempt(1) };
        assert!(answer == Reply::Waits || answer == granted, "{answer:?}");
    }
    assert_eq!(env.summary(&forgotten), "stopped: its caller was silent for 30s while it was queued");
    // The slot of the 40-second rule goes to the task that still has a caller.
    env.advance_s(10);
    assert_eq!(env.state(&asked_for), State::Dispatching);
    assert_ne!(env.state(&running), State::Queued);
    let gone = env.ask(Input::Waits { job: forgotten.clone() }).unwrap_err();
    assert_eq!(gone, Refusal::NoLease { job: forgotten, attempt: Attempt(0) });
    assert!(env.ask(Input::Waits { job: running }).is_err(), "a job waits for itself");
}

#[test]
fn whoever_waits_for_a_placement_is_heard_by_asking_again_and_gets_time_after_a_restart() {
    let mut env = TestEnv::new();
    env.cluster(a_cluster("only"));
    env.submit(a_job());
    env.callers_gone = true;
    let submission = a_task().id("again").0;
    env.send(Input::Submit(submission.clone()));
    let task = job_id("again");
    env.advance_s(20);
    env.send(Input::Submit(submission));
    env.advance_s(15);
    assert_eq!(env.state(&task), State::Queued, "it was asked for 15 s ago");
    env.crash();
    env.advance_s(4);
    assert_eq!(env.state(&task), State::Queued);
    env.advance_s(26);
    assert_ne!(env.state(&task), State::Queued);
}

#[test]
fn a_placement_that_backs_off_is_given_up_too_and_else_comes_back() {
    for (gone, state) in [(true, State::Stopped), (false, State::Dispatching)] {
        let mut env = TestEnv::with(|s| {
            (s.retry_backoff, s.retry_backoff_max) = (Span::seconds(50), Span::seconds(60));
        });
        env.cluster(a_cluster("only"));
        let task = env.submit(an_actor());
        env.callers_gone = gone;
        env.release(&task, ReleaseOutcome::Unreachable("no route".into())).unwrap();
        env.advance_s(24);
        assert_eq!(env.state(&task), State::Queued);
        env.advance_s(30);
        assert_eq!(env.state(&task), state);
    }
}

#[test]
fn nobody_loses_a_placement_because_the_control_plane_stood_still() {
    for (told, states) in [(true, [State::Running, State::Queued]), (false, [State::Failed, State::Stopped])]
    {
        let mut env = TestEnv::only();
        let [held, waits] = [env.submit(an_actor()), env.submit(an_actor().cpus(1000.0))];
        env.heartbeat(&held).unwrap();
        env.now = env.now + Span::minutes(60);
        env.send(if told { Input::Awoke } else { Input::Tick });
        assert_eq!([env.state(&held), env.state(&waits)], states);
        // From then on silence counts again.
        env.callers_gone = true;
        env.advance_s(30);
        assert_eq!([env.state(&held), env.state(&waits)], [State::Failed, State::Stopped]);
    }
}

/// The laptop wakes up: no cluster has had a chance to answer yet.
#[test]
fn what_prefers_a_cluster_still_waits_for_it_after_the_control_plane_stood_still() {
    let mut env = TestEnv::new();
    env.cluster(a_cluster("near"));
    env.cluster(a_cluster("far"));
    let [runs, waits] = [env.submit(a_job().prefers("near")), env.submit(a_job().prefers("near"))];
    env.run(&runs);
    assert_eq!(env.state(&waits), State::Queued, "spaced by the 40-second rule");
    env.now = env.now + Span::minutes(60);
    env.send(Input::Awoke);
    assert_eq!(env.state(&runs), State::Running);
    assert_eq!(env.view("near").health, HealthState::NeverSeen, "what was known is old");
    env.poll("far");
    assert_eq!(env.state(&waits), State::Queued, "near is up for all we know");
    env.poll("near");
    assert_eq!(env.place(&waits), "near");
}

#[test]
fn a_lost_job_gets_its_whole_grace_after_the_control_plane_stood_still() {
    let mut env = TestEnv::with(|s| s.loss_grace = Span::minutes(10));
    env.cluster(a_cluster("only"));
    let job = env.submit(a_job().idempotent());
    env.run(&job);
    env.lose("only");
    env.advance_s(120);
    assert_eq!(env.state(&job), State::Unknown);
    env.now = env.now + Span::minutes(60);
    env.send(Input::Awoke);
    assert_eq!(env.state(&job), State::Unknown, "its cluster could not have answered");
    env.advance_s(599);
    assert_eq!(env.state(&job), State::Unknown);
    env.advance_s(2);
    assert_eq!(env.state(&job), State::Queued);
}

#[test]
fn a_placement_is_withdrawn_wherever_it_is() {
    let mut env = TestEnv::only();
    let [granted, waits] = [env.submit(an_actor()), env.submit(an_actor().prefers("only").cpus(1000.0))];
    let withdraw = |job: &JobId| Input::Withdraw { job: job.clone() };
    let inputs = vec![withdraw(&granted), withdraw(&waits), withdraw(&waits)];
    let Ok(Reply::Each(each)) = env.ask(Input::Together(inputs)) else { panic!("one answer for each") };
    assert_eq!(each.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!([env.state(&granted), env.state(&waits)], [State::Stopped; 2]);
    assert!(env.view("only").promised.is_empty());
}

#[test]
fn the_heartbeat_of_a_stopped_placement_says_that_it_is_to_be_given_up() {
    let mut env = TestEnv::only();
    let [given_up, silent] = [env.submit(an_actor()), env.submit(an_actor())];
    env.effects.clear();
    for actor in [&given_up, &silent] {
        env.heartbeat(actor).unwrap();
        env.stop(actor).unwrap();
        env.assert_quiet();
        assert_eq!(env.heartbeat(actor), Ok(Reply::Alive { stopping: true }));
    }
    env.release(&given_up, ReleaseOutcome::Stopped).unwrap();
    env.advance_s(30);
    assert_eq!([env.state(&given_up), env.state(&silent)], [State::Stopped; 2]);
}

#[test]
fn an_unreachable_cluster_counts_for_the_breaker_and_another_is_tried() {
    let mut env = TestEnv::pair();
    let task = env.submit(a_task().prefers("mac"));
    for _ in 0..5 {
        let elsewhere = env.submit(a_task().requires("mac"));
        env.release(&elsewhere, ReleaseOutcome::Unreachable("no route".into())).unwrap();
        env.stop(&elsewhere).unwrap();
    }
    assert!(matches!(env.view("mac").circuit, CircuitState::Open { .. }));
    env.release(&task, ReleaseOutcome::Unreachable("no route".into())).unwrap();
    env.advance_s(1);
    assert_eq!((env.place(&task), env.attempt(&task).0), ("centos", 2));
}

#[test]
fn placements_survive_a_crash_and_an_unheard_grant_is_told_when_its_caller_asks() {
    let mut env = TestEnv::only();
    let [unheard, alive] = [env.submit(a_task()), env.submit(a_task())];
    env.heartbeat(&alive).unwrap();
    env.advance_s(25);
    env.crash();
    let granted = Reply::Granted { attempt: Attempt(1) };
    assert_eq!(env.ask(Input::Waits { job: unheard.clone() }), Ok(granted));
    env.advance_s(25);
    env.heartbeat(&alive).unwrap();
    env.advance_s(5);
    assert_eq!([env.state(&unheard), env.state(&alive)], [State::Failed, State::Running]);
}
