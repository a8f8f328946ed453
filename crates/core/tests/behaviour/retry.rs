//! Which failed jobs are run again: `max_retries`, `retry_on`, `never_retry_on`.

use multicluster_core::{
    Input,
    record::AttemptOutcome::{Failed, Lost, Succeeded},
};
use multicluster_types::{JobId, State};

use crate::env::*;

/// Runs the job and lets it fail with this exit code.
fn fails(env: &mut TestEnv, job: &JobId, exit_code: Option<i64>) {
    env.run(job);
    let message = exit_code.map_or("it failed".to_owned(), |code| format!("exit code {code}"));
    env.fail_with(job, exit_code, &message);
}

#[test]
fn a_failed_job_is_run_again_only_with_exit_codes_that_its_owner_allows() {
    let (always, listed, excluded, both) =
        ((&[][..], &[][..]), (&[3, -9][..], &[][..]), (&[][..], &[2][..]), (&[3][..], &[2][..]));
    for ((retry_on, never_retry_on), exit_code, state) in [
        (always, Some(1), State::Queued),
        (always, None, State::Queued),
        (listed, Some(3), State::Queued),
        (listed, Some(-9), State::Queued),
        (listed, Some(1), State::Failed),
        (listed, None, State::Failed),
        (excluded, Some(1), State::Queued),
        (excluded, None, State::Queued),
        (excluded, Some(2), State::Failed),
        (both, Some(3), State::Queued),
        (both, Some(2), State::Failed),
        (both, Some(1), State::Failed),
        (both, None, State::Failed),
    ] {
        let mut env = TestEnv::only();
        let job = env.submit(a_job().retries(1).codes(retry_on, never_retry_on));
        fails(&mut env, &job, exit_code);
        assert_eq!(env.state(&job), state, "{exit_code:?} of {retry_on:?}, never {never_retry_on:?}");
        env.advance_s(600);
        let runs = if state == State::Queued { 2 } else { 1 };
        assert_eq!(env.attempt(&job).0, runs);
    }
}

#[test]
fn each_failure_is_judged_by_its_own_exit_code() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job().retries(5).codes(&[3, 4], &[]));
    for code in [3, 4, 1] {
        fails(&mut env, &job, Some(code));
        env.advance_s(60);
    }
    assert_eq!(env.state(&job), State::Failed);
    assert_eq!(env.history(&job), [(1, "only", Failed), (2, "only", Failed), (3, "only", Failed)]);
}

#[test]
fn allowed_exit_codes_use_up_max_retries() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job().retries(1).codes(&[3], &[]));
    fails(&mut env, &job, Some(3));
    env.advance_s(60);
    fails(&mut env, &job, Some(3));
    assert_eq!(env.state(&job), State::Failed);
    assert_eq!(env.summary(&job), "failed on only: exit code 3", "it was retried as often as it may be");
}

#[test]
fn a_job_that_could_have_been_retried_says_why_it_was_not() {
    for (retry_on, never_retry_on, exit_code, why) in [
        (&[3][..], &[][..], Some(1), "exit code 1 is not in retry_on"),
        (&[], &[2], Some(2), "exit code 2 is in never_retry_on"),
        (&[3], &[], None, "the exit code is unknown, so it is not in retry_on"),
    ] {
        let mut env = TestEnv::only();
        let job = env.submit(a_job().retries(2).codes(retry_on, never_retry_on));
        env.run(&job);
        env.fail_with(&job, exit_code, "failed, its log:\nTraceback:\nValueError: no such fund\n\n");
        let last = format!("not retried: {why}; last error: ValueError: no such fund");
        assert_eq!(env.summary(&job), format!("failed on only: {last}"));
        let message = env.core.explain(&job).unwrap().message.unwrap();
        let all = format!("failed, its log:\nTraceback:\nValueError: no such fund\n{last}");
        assert_eq!(message.as_str(), all, "nothing that Ray reported is lost");
    }
}

#[test]
fn a_message_of_one_line_is_not_repeated() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job().retries(2).codes(&[], &[2]));
    fails(&mut env, &job, Some(2));
    let message = env.core.explain(&job).unwrap().message.unwrap();
    assert_eq!(message.as_str(), "not retried: exit code 2 is in never_retry_on; last error: exit code 2");
}

#[test]
fn a_job_that_is_not_retried_can_be_run_again_by_hand() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job().retries(1).codes(&[], &[2]));
    fails(&mut env, &job, Some(2));
    env.ask(Input::Rerun { job: job.clone() }).unwrap();
    env.run(&job);
    env.succeed(&job);
    assert_eq!(env.history(&job), [(1, "only", Failed), (2, "only", Succeeded)]);
}

#[test]
fn exit_codes_do_not_matter_when_the_cluster_is_lost() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job().idempotent().retries(1).codes(&[3], &[]));
    env.run(&job);
    env.fake("only").session = Some("session_2".into());
    env.poll("only");
    // The new head is asked for the job first.
    env.answer(&job, env.not_found("only"));
    env.advance_s(1);
    assert_eq!(env.history(&job), [(1, "only", Lost)]);
    assert_eq!(env.attempt(&job).0, 2, "on_cluster_loss decides that");
}

#[test]
fn jobs_that_differ_in_their_exit_codes_are_not_the_same() {
    let mut env = TestEnv::only();
    let job = || a_job().id("nightly").retries(1);
    env.submit(job().codes(&[3], &[]));
    env.submit(job().codes(&[3], &[]));
    assert_eq!(env.try_submit(job().codes(&[4], &[])).unwrap_err().code(), "conflict");
}

#[test]
fn exit_codes_survive_a_crash() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job().retries(1).codes(&[], &[2]));
    env.run(&job);
    env.crash();
    env.poll("only");
    env.fail_with(&job, Some(2), "exit code 2");
    assert_eq!(env.state(&job), State::Failed);
}
