//! The clock ran ahead, the control plane stopped, the clock was corrected, and the control plane
//! started again.

use multicluster_core::{DispatchOutcome, RunStatus, record::Phase};
use multicluster_types::{Resources, Span, State, Timestamp};
use serde_json::Value;

use crate::env::*;

const AHEAD: Span = Span::minutes(300);

/// The control plane starts again with a clock that was corrected.
fn correct_the_clock(env: &mut TestEnv) {
    env.set_clock(Timestamp(env.now.0 - AHEAD.0));
    env.crash();
}

fn ahead(mut env: TestEnv) -> TestEnv {
    // Later than any other number in a record.
    env.set_clock(Timestamp(1_700_000_000_000) + AHEAD);
    env.cluster(a_cluster("only"));
    env
}

fn unspaced() -> TestEnv {
    ahead(TestEnv::unspaced())
}

/// Every moment in a record that is later than this, with its path. A new field is found too.
fn later_than(latest: Timestamp, path: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields
                .iter()
                .for_each(|(name, value)| later_than(latest, &format!("{path}.{name}"), value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| later_than(latest, path, item, found)),
        Value::Number(number) if number.as_u64().is_some_and(|at| at > latest.0) => {
            found.push(path.to_owned());
        }
        _ => {}
    }
}

#[test]
fn no_stored_moment_lies_in_the_future_after_a_restart() {
    let mut env = unspaced();
    env.cluster(a_cluster("lost"));
    let lost_running = env.submit(a_job().id("lost-running").requires("lost"));
    env.run(&lost_running);
    let lost_pending = env.submit(a_job().id("lost-pending").requires("lost"));
    env.accept(&lost_pending);
    let unheard = env.submit(a_job().id("unheard").requires("lost"));
    env.dispatched(&unheard, DispatchOutcome::Unknown("timed out".into()));
    env.lose("lost");
    let ended = env.submit(a_job().id("ended").requires("only"));
    env.run(&ended);
    env.succeed(&ended);
    let running = env.submit(a_job().id("running").requires("only"));
    env.run(&running);
    let task = env.submit(a_task().id("task").requires("only"));
    env.heartbeat(&task).unwrap();
    let pending = env.submit(a_job().id("pending").requires("only"));
    env.accept(&pending);
    let backing_off = env.submit(a_job().id("backing-off").requires("only"));
    env.dispatched(&backing_off, DispatchOutcome::Failed("connection refused".into()));
    env.submit(a_job().id("waiting").requires("lost"));
    let sending = env.submit(a_job().id("sending").requires("only"));
    assert_eq!((env.store.jobs.len(), env.state(&sending)), (10, State::Dispatching));

    correct_the_clock(&mut env);
    // The one that backs off does so for as long as it would have.
    let latest = env.now + env.core.settings().retry_backoff;
    let mut found = Vec::new();
    for (id, record) in &env.store.jobs {
        later_than(latest, id.as_str(), &serde_json::to_value(record).unwrap(), &mut found);
        if let Phase::Waiting { since, .. } = record.phase {
            assert!(since <= env.now);
        }
    }
    for (name, record) in &env.store.clusters {
        later_than(latest, name.as_str(), &serde_json::to_value(record).unwrap(), &mut found);
    }
    // Clusters know the runs of a job by the moment of its acceptance.
    let accepted = found.iter().filter(|path| path.ends_with(".submitted_at")).count();
    assert_eq!((found.len(), accepted), (10, 10), "{found:?}");
}

#[test]
fn a_job_that_backs_off_does_not_wait_until_the_clock_has_caught_up() {
    let mut env = unspaced();
    let job = env.submit(a_job());
    env.dispatched(&job, DispatchOutcome::Failed("connection refused".into()));
    correct_the_clock(&mut env);
    env.advance_s(10);
    assert_eq!((env.state(&job), env.attempt(&job).0), (State::Dispatching, 2));
}

#[test]
fn a_running_job_is_counted_once() {
    let mut env = unspaced();
    let job = env.submit(a_job().needs(&[("CPU", 1.0)]));
    env.run(&job);
    correct_the_clock(&mut env);
    env.poll("only");
    env.observe(&job, RunStatus::Running);
    env.advance_s(30);
    assert_eq!(env.view("only").promised, Resources::default());
}

#[test]
fn a_cluster_is_not_closed_until_the_clock_has_caught_up() {
    let mut env = ahead(TestEnv::new());
    env.submit(a_job());
    let next = env.submit(a_job());
    assert_eq!(env.state(&next), State::Queued);
    correct_the_clock(&mut env);
    env.advance_s(45);
    assert_eq!(env.state(&next), State::Dispatching);
}

#[test]
fn ended_jobs_are_forgotten_in_time() {
    let mut env = unspaced();
    env.set("retain_for", "30m");
    let job = env.submit(a_job());
    env.run(&job);
    env.succeed(&job);
    correct_the_clock(&mut env);
    env.advance(Span::minutes(30));
    assert!(env.store.jobs.is_empty());
}
