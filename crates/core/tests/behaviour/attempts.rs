//! Exactly-once dispatch: the fate of one attempt when messages are lost, late or repeated, or
//! the control plane crashes.

use multicluster_core::{
    DispatchOutcome, Effect, Input, LookupOutcome, Observation, RunStatus,
    record::AttemptOutcome::{Lost, NotStarted, Stopped, Succeeded},
};
use multicluster_types::{JobId, Span, State, SubmissionId};

use crate::env::*;

fn submit_of(env: &TestEnv, job: &JobId, attempt: u32, cluster: &str) -> Effect {
    Effect::Submit { run: env.run_of(job, attempt), cluster: cluster_name(cluster) }
}

fn stop_of(env: &TestEnv, job: &JobId, cluster: &str) -> Effect {
    Effect::Stop { run: env.run_of(job, 1), cluster: cluster_name(cluster) }
}

/// A job whose submit request had no answer.
fn uncertain(env: &mut TestEnv, job: WorkBuilder) -> JobId {
    let job = env.submit(job);
    env.effects.clear();
    env.dispatched(&job, DispatchOutcome::Unknown("timed out".into()));
    job
}

fn looked_up(env: &TestEnv, job: &JobId, question: u32, outcome: LookupOutcome) -> Input {
    Input::LookedUp { run: env.run_of(job, 1), question, outcome }
}

fn never_started() -> RunStatus {
    RunStatus::Failed { message: "no such conda environment".into(), never_started: true, exit_code: None }
}

// ---- outcome unknown

#[test]
fn a_submit_without_an_answer_is_unknown_and_looked_up() {
    let mut env = TestEnv::pair();
    let job = uncertain(&mut env, a_job());
    assert_eq!(env.state(&job), State::Unknown);
    let [Effect::Lookup { run, cluster, .. }] = &env.take_effects(1)[..] else { panic!() };
    assert_eq!((run, cluster.as_str()), (&env.run_of(&job, 1), "centos"));
}

#[test]
fn what_is_found_is_adopted() {
    let failed =
        RunStatus::Failed { message: "exit code 1".into(), never_started: false, exit_code: Some(1) };
    for (status, state) in [
        (RunStatus::Pending, State::Pending),
        (RunStatus::Running, State::Running),
        (RunStatus::Succeeded, State::Succeeded),
        (failed, State::Failed),
        (RunStatus::Stopped, State::Stopped),
    ] {
        let mut env = TestEnv::only();
        let job = uncertain(&mut env, a_job());
        env.answer(&job, LookupOutcome::Found(status));
        assert_eq!(env.state(&job), state);
        env.advance_s(600);
        env.assert_quiet();
    }
}

#[test]
fn what_the_same_head_never_got_is_sent_again_under_the_same_id() {
    let mut env = TestEnv::pair();
    let job = uncertain(&mut env, a_job());
    env.answer(&job, env.not_found("centos"));
    assert_eq!(env.state(&job), State::Dispatching);
    assert_eq!(env.take_effects(1), [submit_of(&env, &job, 1, "centos")]);
    env.run(&job);
    env.succeed(&job);
    assert_eq!(env.history(&job), [(1, "centos", Succeeded)]);
    assert_eq!(env.decisions.len(), 1);
}

#[test]
fn what_a_restarted_head_does_not_know_may_have_run_and_is_failed() {
    let mut env = TestEnv::pair();
    let job = uncertain(&mut env, a_job());
    env.fake("centos").session = Some("session_2".into());
    env.answer(&job, env.not_found("centos"));
    assert_eq!(env.state(&job), State::Unknown, "the request may still be on its way");
    env.bury(&job);
    env.assert_quiet();
    assert_eq!(env.state(&job), State::Failed);
    assert_eq!(
        env.summary(&job),
        "failed on centos: cluster centos restarted and no longer knows this job; it may or may not have finished"
    );
}

#[test]
fn idempotent_work_that_a_restarted_head_does_not_know_runs_again() {
    let mut env = TestEnv::only();
    let job = uncertain(&mut env, a_job().idempotent());
    env.fake("only").session = Some("session_2".into());
    env.answer(&job, env.not_found("only"));
    env.bury(&job);
    env.advance_s(1);
    assert_eq!(env.take_effects(1), [submit_of(&env, &job, 2, "only")]);
    assert_eq!(env.history(&job), [(1, "only", Lost)]);
}

/// The answer of a head that does not report its session: it may be the same head or another.
fn a_job_that_a_nameless_head_does_not_know(builder: WorkBuilder) -> (TestEnv, JobId) {
    let mut env = TestEnv::only();
    env.fake("only").session = None;
    env.poll("only");
    let job = uncertain(&mut env, builder);
    env.answer(&job, env.not_found("only"));
    assert_eq!(env.state(&job), State::Unknown, "the request may still be on its way");
    env.bury(&job);
    (env, job)
}

#[test]
fn what_a_head_without_a_session_does_not_know_may_have_run_and_is_failed() {
    let (mut env, job) = a_job_that_a_nameless_head_does_not_know(a_job());
    env.assert_quiet();
    assert_eq!(env.state(&job), State::Failed);
    assert_eq!(
        env.summary(&job),
        "failed on only: cluster only does not know this job, and does not report whether it restarted; \
         the job may or may not have run"
    );
}

#[test]
fn idempotent_work_that_a_head_without_a_session_does_not_know_runs_again() {
    let (mut env, job) = a_job_that_a_nameless_head_does_not_know(a_job().idempotent());
    env.advance_s(1);
    assert_eq!(env.take_effects(1), [submit_of(&env, &job, 2, "only")]);
    assert_eq!(env.history(&job), [(1, "only", Lost)]);
}

#[test]
fn a_head_that_begins_to_report_its_session_is_not_taken_for_the_old_one() {
    let mut env = TestEnv::only();
    env.fake("only").session = None;
    env.poll("only");
    let job = uncertain(&mut env, a_job());
    env.fake("only").session = Some("session_2".into());
    env.answer(&job, env.not_found("only"));
    assert_eq!(env.state(&job), State::Unknown);
    assert!(!env.effects.iter().any(|e| matches!(e, Effect::Submit { .. })), "{:?}", env.effects);
}

#[test]
fn a_silent_cluster_is_asked_again_and_again_but_nothing_is_sent_twice() {
    let mut env = TestEnv::pair();
    let job = uncertain(&mut env, a_job());
    for n in 0..12 {
        env.answer(&job, LookupOutcome::NoAnswer);
        let since = env.now;
        while env.effects.is_empty() {
            env.advance(Span(100));
        }
        let (pause, longest) = (env.now.since(since).as_seconds(), f64::from(1 << n).min(30.0));
        assert!((longest / 2.0..=longest + 0.1).contains(&pause), "question {n} after {pause} s");
        assert!(matches!(env.effects[..], [Effect::Lookup { .. }]), "{:?}", env.effects);
    }
    assert_eq!((env.state(&job), env.place(&job)), (State::Unknown, "centos"));
}

#[test]
fn a_definite_failure_after_an_uncertain_send_never_moves_the_job() {
    let mut env = TestEnv::pair();
    let job = uncertain(&mut env, a_job());
    env.answer(&job, env.not_found("centos"));
    env.dispatched(&job, DispatchOutcome::Failed("connection refused".into()));
    assert_eq!((env.state(&job), env.place(&job), env.attempt(&job).0), (State::Unknown, "centos", 1));
    env.advance_s(2);
    env.answer(&job, LookupOutcome::Found(RunStatus::Running));
    assert_eq!(env.state(&job), State::Running, "the first send had arrived after all");
}

#[test]
fn a_submit_that_nobody_reports_on_is_looked_up_after_dispatch_timeout() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    env.effects.clear();
    env.advance(Span(59_999));
    assert_eq!(env.state(&job), State::Dispatching);
    env.advance(Span(1));
    assert_eq!(env.state(&job), State::Unknown);
    let error = env.core.explain(&job).unwrap().last_error.unwrap();
    assert_eq!(error.as_str(), "cluster only did not answer the submit request");
    env.answer(&job, LookupOutcome::Found(RunStatus::Pending));
    assert_eq!(env.state(&job), State::Pending);
}

/// A large package over a slow link takes longer than `dispatch_timeout`.
#[test]
fn a_submit_whose_packages_are_being_pushed_is_not_lost_and_says_how_far_they_are() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    for step in 1..=10 {
        env.advance_s(50);
        env.send(Input::Pushing { run: env.run_of(&job, 1), pushed: (step * 10) << 20, of: 100 << 20 });
        assert_eq!(env.state(&job), State::Dispatching, "step {step}");
    }
    let why = env.core.explain(&job).unwrap().summary(multicluster_types::Lang::En);
    assert!(why.contains("pushing its packages: 100.0 of 100.0 MiB"), "{why}");
    env.advance_s(59);
    assert_eq!(env.state(&job), State::Dispatching);
    env.advance_s(1);
    assert_eq!(env.state(&job), State::Unknown, "the request itself has its usual time");
    let before = env.core.durable();
    env.send(Input::Pushing { run: env.run_of(&job, 1), pushed: 1, of: 2 });
    assert_eq!((env.core.durable(), env.state(&job)), (before, State::Unknown));
}

// ---- stale news

#[test]
fn news_of_an_earlier_attempt_is_dropped() {
    let mut env = TestEnv::pair();
    let job = env.submit(a_job());
    env.dispatched(&job, DispatchOutcome::Failed("no agent".into()));
    env.advance_s(1);
    let (run, before) = (env.run_of(&job, 1), env.core.durable());
    let (outcome, took) = (DispatchOutcome::Accepted, Span::ZERO);
    env.send(Input::Dispatched { run: run.clone(), outcome, took });
    env.send(env.seen("centos", &job, 1, RunStatus::Succeeded));
    env.send(Input::StopSent { run, answered: true });
    assert_eq!(env.core.durable(), before);
}

#[test]
fn not_found_counts_only_as_the_answer_to_the_latest_question() {
    let mut env = TestEnv::only();
    let job = uncertain(&mut env, a_job());
    let [Effect::Lookup { question: first, .. }] = env.take_effects(1)[..] else { panic!() };
    env.advance_s(1);
    let [Effect::Lookup { question: second, .. }] = env.take_effects(1)[..] else { panic!() };
    env.send(looked_up(&env, &job, first, env.not_found("only")));
    assert_eq!(env.state(&job), State::Unknown);
    env.send(looked_up(&env, &job, second, LookupOutcome::Found(RunStatus::Running)));
    env.send(looked_up(&env, &job, second, env.not_found("only")));
    assert_eq!(env.state(&job), State::Running);
}

/// A cluster that takes a minute for each answer would otherwise never be heard: it is asked again
/// every 30 s.
#[test]
fn found_counts_although_the_question_was_repeated_since() {
    let mut env = TestEnv::only();
    let job = uncertain(&mut env, a_job());
    let [Effect::Lookup { question: first, .. }] = env.take_effects(1)[..] else { panic!() };
    env.advance_s(1);
    let [Effect::Lookup { question: second, .. }] = env.take_effects(1)[..] else { panic!() };
    env.send(looked_up(&env, &job, first, LookupOutcome::Found(RunStatus::Running)));
    assert_eq!(env.state(&job), State::Running);
    env.send(looked_up(&env, &job, second, env.not_found("only")));
    assert_eq!(env.state(&job), State::Running, "the question is answered");
}

#[test]
fn an_answer_overtaken_by_other_news_is_dropped() {
    let mut env = TestEnv::only();
    let job = uncertain(&mut env, a_job());
    env.observe(&job, RunStatus::Running);
    env.answer(&job, env.not_found("only"));
    env.dispatched(&job, DispatchOutcome::Failed("late".into()));
    assert_eq!(env.state(&job), State::Running);
    env.assert_quiet();
}

#[test]
fn nothing_that_arrives_after_the_end_changes_it() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    env.run(&job);
    env.succeed(&job);
    let before = env.core.durable();
    env.effects.clear();
    for status in [RunStatus::Pending, RunStatus::Running, RunStatus::Stopped, never_started()] {
        env.send(env.seen("only", &job, 1, status));
    }
    env.accept(&job);
    env.dispatched(&job, DispatchOutcome::Unknown("late".into()));
    env.send(looked_up(&env, &job, 1, LookupOutcome::NoAnswer));
    assert_eq!(env.core.durable(), before);
    env.assert_quiet();
    assert_eq!(env.history(&job), [(1, "only", Succeeded)]);
}

#[test]
fn a_job_may_be_seen_running_or_ended_before_its_submit_is_answered() {
    let mut env = TestEnv::only();
    let (runs, ends) = (env.submit(a_job()), env.submit(a_job()));
    env.observe(&runs, RunStatus::Running);
    env.accept(&runs);
    assert_eq!(env.state(&runs), State::Running);
    env.succeed(&ends);
    env.accept(&ends);
    assert_eq!(env.state(&ends), State::Succeeded);
}

#[test]
fn what_another_cluster_or_an_earlier_head_says_is_void() {
    let mut env = TestEnv::pair();
    let job = env.submit(a_job().requires("mac"));
    env.run(&job);
    env.send(env.seen("centos", &job, 1, RunStatus::Succeeded));
    let word_of_the_old_head = env.seen("mac", &job, 1, RunStatus::Succeeded);
    env.fake("mac").session = Some("session_2".into());
    env.poll("mac");
    env.send(word_of_the_old_head);
    assert_eq!(env.state(&job), State::Unknown, "asked about, and neither word was believed");
}

#[test]
fn a_job_missing_from_a_complete_list_is_asked_about() {
    let mut env = TestEnv::only();
    let (there, gone) = (env.submit(a_job()), env.submit(a_job()));
    env.run(&there);
    env.run(&gone);
    env.effects.clear();
    let seen = Observation { run: env.run_of(&there, 1), status: RunStatus::Running, ran: None };
    env.send(env.watched("only", Some(env.now), vec![seen.clone()]));
    env.assert_quiet();
    env.now = env.now + Span::seconds(5);
    env.send(env.watched("only", Some(env.now), vec![seen]));
    env.answer(&gone, env.not_found("only"));
    env.assert_quiet();
    assert_eq!([env.state(&there), env.state(&gone)], [State::Running, State::Failed]);
    assert_eq!(env.summary(&gone), "failed on only: cluster only no longer knows this job");
}

// ---- crashes

#[test]
fn an_intent_without_a_report_is_looked_up_before_anything_else() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    env.crash();
    assert_eq!(env.state(&job), State::Unknown);
    env.assert_quiet();
    env.poll("only");
    assert!(matches!(env.effects[..], [Effect::Lookup { .. }]), "{:?}", env.effects);
    env.answer(&job, env.not_found("only"));
    assert_eq!(env.take_effects(1), [submit_of(&env, &job, 1, "only")]);
}

#[test]
fn an_intent_whose_request_did_leave_is_adopted_after_the_crash() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    env.crash();
    env.crash();
    env.poll("only");
    env.answer(&job, LookupOutcome::Found(RunStatus::Running));
    env.succeed(&job);
    assert_eq!(env.history(&job), [(1, "only", Succeeded)]);
}

#[test]
fn accepted_and_running_jobs_keep_their_state_over_a_crash_and_are_asked_about() {
    let mut env = TestEnv::only();
    let (pending, running) = (env.submit(a_job().cpus(1.0)), env.submit(a_job().cpus(2.0)));
    env.accept(&pending);
    env.run(&running);
    env.crash();
    assert_eq!([env.state(&pending), env.state(&running)], [State::Pending, State::Running]);
    assert_eq!(env.view("only").promised, amounts(&[("CPU", 3.0)]), "promises are kept");
    env.poll("only");
    env.answer(&pending, LookupOutcome::Found(RunStatus::Running));
    env.answer(&running, LookupOutcome::Found(RunStatus::Succeeded));
    env.assert_quiet();
    assert_eq!([env.state(&pending), env.state(&running)], [State::Running, State::Succeeded]);
}

#[test]
fn a_wish_to_stop_and_a_backoff_survive_a_crash() {
    let mut env = TestEnv::only();
    let (stopping, retried) = (env.submit(a_job()), env.submit(a_job()));
    env.run(&stopping);
    env.stop(&stopping).unwrap();
    env.dispatched(&retried, DispatchOutcome::Failed("no agent".into()));
    let until = env.core.explain(&retried).unwrap().backing_off_until;
    env.crash();
    assert_eq!(env.core.explain(&retried).unwrap().backing_off_until, until);
    env.advance_s(5);
    assert!(env.effects.contains(&stop_of(&env, &stopping, "only")), "{:?}", env.effects);
    assert_eq!(env.attempt(&retried).0, 2);
}

// ---- stop

#[test]
fn a_queued_job_is_stopped_at_once() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job().cpus(100.0));
    env.stop(&job).unwrap();
    assert_eq!(env.summary(&job), "stopped: stopped before it was dispatched");
    env.assert_quiet();
}

#[test]
fn a_job_on_its_way_is_stopped_as_soon_as_it_arrives() {
    let mut env = TestEnv::only();
    let (arrives, fails) = (env.submit(a_job()), env.submit(a_job()));
    env.effects.clear();
    env.stop(&arrives).unwrap();
    env.stop(&fails).unwrap();
    env.assert_quiet();
    env.accept(&arrives);
    assert_eq!(env.take_effects(1), [stop_of(&env, &arrives, "only")]);
    env.dispatched(&fails, DispatchOutcome::Failed("no agent".into()));
    assert_eq!(env.state(&fails), State::Stopped);
    assert_eq!(env.history(&fails), [(1, "only", NotStarted)]);
}

#[test]
fn a_stop_is_repeated_until_the_job_is_over() {
    for (status, state) in [(RunStatus::Pending, State::Pending), (RunStatus::Running, State::Running)] {
        let mut env = TestEnv::only();
        let job = env.submit(a_job());
        env.accept(&job);
        env.observe(&job, status);
        assert_eq!(env.state(&job), state);
        env.effects.clear();
        env.stop(&job).unwrap();
        env.stop(&job).unwrap();
        assert_eq!(env.take_effects(1), [stop_of(&env, &job, "only")]);
        env.advance_s(15);
        assert_eq!(env.take_effects(3), vec![stop_of(&env, &job, "only"); 3]);
        env.observe(&job, RunStatus::Stopped);
        env.advance_s(60);
        env.assert_quiet();
        assert_eq!((env.state(&job), env.history(&job)), (State::Stopped, vec![(1, "only", Stopped)]));
    }
}

#[test]
fn a_lost_job_is_stopped_when_it_is_found() {
    let mut env = TestEnv::only();
    let job = uncertain(&mut env, a_job());
    env.stop(&job).unwrap();
    env.advance_s(1);
    env.answer(&job, LookupOutcome::Found(RunStatus::Running));
    assert!(env.effects.contains(&stop_of(&env, &job, "only")));
}

#[test]
fn a_cluster_that_never_takes_a_request_does_not_keep_it_for_ever() {
    let mut env = TestEnv::pair();
    env.set("dispatch_attempts", "3");
    let job = uncertain(&mut env, a_job());
    let mut sends = 1;
    while env.place(&job) != "mac" {
        for effect in std::mem::take(&mut env.effects) {
            match effect {
                Effect::Lookup { run, question, .. } => {
                    let outcome = env.not_found("centos");
                    env.send(Input::LookedUp { run, question, outcome });
                }
                Effect::Submit { cluster, .. } if cluster.as_str() == "centos" => {
                    sends += 1;
                    env.dispatched(&job, DispatchOutcome::Failed("no agent".into()));
                }
                Effect::Bury { run, question, .. } => {
                    assert_eq!((sends, env.place(&job)), (3, "centos"));
                    let outcome = env.buried("centos");
                    env.send(Input::LookedUp { run, question, outcome });
                }
                _ => {}
            }
        }
        env.advance_s(1);
    }
    assert_eq!(env.history(&job), [(1, "centos", NotStarted)], "it is certain that it does not run there");
}

// ---- tombstones

/// A job whose send had no answer, which is being stopped, and whose cluster does not have it.
fn stopped_before_it_was_seen(env: &mut TestEnv) -> JobId {
    let job = uncertain(env, a_job());
    env.stop(&job).expect("it can be stopped");
    env.answer(&job, env.not_found("only"));
    assert!(matches!(env.effects[..], [Effect::Bury { .. }]), "{:?}", env.effects);
    assert_eq!(env.state(&job), State::Unknown);
    job
}

#[test]
fn a_stopped_request_without_an_answer_is_given_up_when_it_is_buried() {
    let mut env = TestEnv::only();
    let job = stopped_before_it_was_seen(&mut env);
    env.bury(&job);
    assert_eq!(env.state(&job), State::Stopped);
    env.advance_s(600);
    env.assert_quiet();
}

#[test]
fn a_late_request_that_is_faster_than_the_tombstone_is_stopped() {
    let mut env = TestEnv::only();
    let job = stopped_before_it_was_seen(&mut env);
    env.answer(&job, LookupOutcome::Found(RunStatus::Running));
    assert_eq!(env.state(&job), State::Running);
    assert!(env.effects.contains(&stop_of(&env, &job, "only")));
    env.observe(&job, RunStatus::Stopped);
    assert_eq!(env.state(&job), State::Stopped);
}

#[test]
fn a_burial_without_an_answer_is_repeated_and_nothing_is_given_up() {
    let mut env = TestEnv::only();
    let job = stopped_before_it_was_seen(&mut env);
    env.answer(&job, LookupOutcome::NoAnswer);
    for _ in 0..5 {
        while env.effects.is_empty() {
            env.advance(Span(100));
        }
        env.answer(&job, env.not_found("only"));
        env.answer(&job, LookupOutcome::NoAnswer);
        assert_eq!(env.state(&job), State::Unknown);
    }
    // The tombstone had arrived: a look-up finds it.
    while env.effects.is_empty() {
        env.advance(Span(100));
    }
    env.answer(&job, env.buried("only"));
    assert_eq!(env.state(&job), State::Stopped);
}

#[test]
fn a_tombstone_outlives_a_crash_before_its_report() {
    let mut env = TestEnv::only();
    let job = stopped_before_it_was_seen(&mut env);
    env.crash();
    env.poll("only");
    env.answer(&job, env.buried("only"));
    assert_eq!((env.state(&job), env.history(&job)), (State::Stopped, vec![(1, "only", Stopped)]));
}

#[test]
fn what_is_refused_after_a_send_without_an_answer_is_buried_before_it_fails() {
    let mut env = TestEnv::only();
    let job = uncertain(&mut env, a_job());
    env.answer(&job, env.not_found("only"));
    env.dispatched(&job, DispatchOutcome::Refused("400: no such field".into()));
    env.effects.clear();
    env.advance_s(5);
    env.answer(&job, env.not_found("only"));
    assert_eq!(env.state(&job), State::Unknown);
    env.bury(&job);
    assert_eq!(env.summary(&job), "failed on only: 400: no such field");
}

#[test]
fn a_tombstone_on_a_restarted_head_does_not_prove_that_the_job_never_ran() {
    let mut env = TestEnv::only();
    let job = stopped_before_it_was_seen(&mut env);
    env.fake("only").session = Some("session_2".into());
    env.bury(&job);
    assert_eq!(env.state(&job), State::Stopped);
    assert!(env.summary(&job).contains("it may or may not have finished"), "{}", env.summary(&job));
}

#[test]
fn an_orphan_that_may_not_have_arrived_is_buried_also_after_a_crash() {
    let mut env = TestEnv::pair();
    let job = uncertain(&mut env, a_job().idempotent().prefers("mac"));
    env.lose("mac");
    env.advance_s(62);
    assert_eq!((env.place(&job), env.store.orphans.len()), ("centos", 1));
    env.crash();
    env.poll("centos");
    env.effects.clear();
    env.bring_back("mac");
    let [Effect::Bury { run, cluster, question }] = &env.take_effects(1)[..] else { panic!() };
    assert_eq!((run, cluster.as_str()), (&env.run_of(&job, 1), "mac"));
    let (run, question) = (run.clone(), *question);
    let answer = |outcome| Input::LookedUp { run: run.clone(), question, outcome };
    // No answer: with the next poll.
    env.send(answer(LookupOutcome::NoAnswer));
    env.poll("mac");
    assert!(matches!(env.take_effects(1)[..], [Effect::Bury { .. }]));
    // The late request was faster: it is stopped, as any other orphan.
    env.send(answer(LookupOutcome::Found(RunStatus::Pending)));
    assert_eq!(env.take_effects(1), [Effect::Stop { run: run.clone(), cluster: cluster_name("mac") }]);
    env.send(Input::StopSent { run: run.clone(), answered: true });
    assert!(env.store.orphans.is_empty());
    assert!(env.store.clusters[&cluster_name("mac")].unheard.is_empty());
}

#[test]
fn a_buried_orphan_is_forgotten() {
    let mut env = TestEnv::pair();
    let job = uncertain(&mut env, a_job().idempotent().prefers("mac"));
    env.lose("mac");
    env.advance_s(62);
    env.effects.clear();
    env.bring_back("mac");
    let Some(Effect::Bury { run, question, .. }) = env.take_effects(1).pop() else { panic!() };
    let outcome = env.buried("mac");
    env.send(Input::LookedUp { run, question, outcome });
    assert_eq!((env.place(&job), env.store.orphans.len()), ("centos", 0));
    assert!(env.store.clusters[&cluster_name("mac")].unheard.is_empty());
}

#[test]
fn a_job_that_ends_while_it_is_stopped_ended_as_it_did_and_is_not_retried() {
    for (status, state) in [
        (RunStatus::Succeeded, State::Succeeded),
        (
            RunStatus::Failed { message: "SIGTERM".into(), never_started: false, exit_code: None },
            State::Failed,
        ),
    ] {
        let mut env = TestEnv::only();
        let job = env.submit(a_job().retries(5));
        env.run(&job);
        env.stop(&job).unwrap();
        env.observe(&job, status);
        assert_eq!(env.state(&job), state);
    }
}

#[test]
fn a_job_that_has_ended_cannot_be_stopped() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    env.run(&job);
    env.succeed(&job);
    let refusal = env.stop(&job).unwrap_err();
    assert_eq!(refusal.code(), "wrong_state");
    assert_eq!(
        refusal.to_string(),
        "job job-1 is succeeded, so it cannot be stopped\n  hint: it has already ended"
    );
}

// ---- failures

#[test]
fn a_refused_dispatch_fails_at_once() {
    let mut env = TestEnv::pair();
    let job = env.submit(a_job().retries(5));
    env.effects.clear();
    env.dispatched(&job, DispatchOutcome::Refused("400: bad runtime_env".into()));
    assert_eq!(env.summary(&job), "failed on centos: 400: bad runtime_env");
    env.advance_s(60);
    env.assert_quiet();
}

#[test]
fn what_never_started_is_tried_elsewhere() {
    let mut env = TestEnv::pair();
    env.uses("mac", &[("CPU", 4.0)]);
    let job = env.submit(a_job());
    env.accept(&job);
    env.observe(&job, never_started());
    assert_eq!(env.state(&job), State::Queued);
    env.advance_s(1);
    assert_eq!((env.place(&job), env.attempt(&job).0), ("mac", 2), "though centos is freer");
    assert_eq!(env.history(&job), [(1, "centos", NotStarted)]);
    assert_eq!(SubmissionId::of(&job, env.attempt(&job)).as_str(), "job-1-a2");
}

// ---- an id that is in use

#[test]
fn an_id_in_use_by_somebody_else_is_tried_again_under_the_next_one() {
    // Even after a send without an answer: the id was taken on the same head, so the attempt
    // cannot be there.
    for uncertain_before in [false, true] {
        let mut env = TestEnv::only();
        env.set("submission_interval", "0s");
        let job = env.submit(a_job());
        if uncertain_before {
            env.dispatched(&job, DispatchOutcome::Unknown("timed out".into()));
            env.answer(&job, env.taken("only"));
        } else {
            env.dispatched(&job, DispatchOutcome::Taken("in use".into()));
        }
        assert_eq!(env.state(&job), State::Queued);
        env.effects.clear();
        env.advance_s(30);
        assert_eq!(env.take_effects(1), [submit_of(&env, &job, 2, "only")]);
    }
}

const RESTARTED: &str =
    "failed on only: cluster only restarted and no longer knows this job; it may or may not have finished";

#[test]
fn a_run_that_was_seen_and_whose_id_is_now_somebody_elses_is_lost() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    env.run(&job);
    env.lose("only");
    env.bring_back("only");
    env.fake("only").session = Some("session_2".into());
    env.answer(&job, env.taken("only"));
    assert_eq!(env.summary(&job), RESTARTED, "it may have run: it is not run again");
}

#[test]
fn a_send_without_an_answer_whose_id_is_somebody_elses_on_a_new_head_may_have_run() {
    let mut env = TestEnv::pair();
    env.uses("centos", &[("CPU", 4.0)]);
    let job = uncertain(&mut env, a_job());
    assert_eq!(env.place(&job), "mac");
    env.fake("mac").session = Some("session_2".into());
    env.answer(&job, env.taken("mac"));
    env.effects.clear();
    env.advance_s(60);
    env.assert_quiet();
    assert_eq!(env.summary(&job), RESTARTED.replace("only", "mac"));
}

#[test]
fn a_second_send_whose_id_is_somebody_elses_is_looked_up_first() {
    let mut env = TestEnv::only();
    let job = uncertain(&mut env, a_job());
    env.answer(&job, env.not_found("only"));
    // The first request arrives after all, the head restarts, and somebody else is faster.
    env.fake("only").session = Some("session_2".into());
    env.effects.clear();
    env.dispatched(&job, DispatchOutcome::Taken("in use".into()));
    assert_eq!(env.state(&job), State::Unknown);
    env.advance_s(10);
    env.answer(&job, env.taken("only"));
    assert_eq!(env.summary(&job), RESTARTED);
}

#[test]
fn a_forgotten_job_is_deleted_from_its_cluster() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    env.run(&job);
    env.succeed(&job);
    let (run, cluster) = (env.latest(&job), cluster_name("only"));
    let out = env.core.handle(env.now, Input::Delete { job });
    assert_eq!(out.effects, [Effect::Forget { run, cluster }]);
}

#[test]
fn what_is_said_about_an_earlier_job_of_the_same_id_is_dropped() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job().id("again"));
    let earlier = env.latest(&job);
    env.run(&job);
    env.succeed(&job);
    env.ask(Input::Delete { job: job.clone() }).unwrap();
    env.now = env.now + Span::seconds(1);
    env.submit(a_job().id("again"));
    env.accept(&job);
    let before = env.core.durable();
    let took = Span::ZERO;
    env.send(Input::Dispatched { run: earlier.clone(), outcome: DispatchOutcome::Failed("no".into()), took });
    env.send(env.watched(
        "only",
        None,
        vec![Observation {
            run: earlier.clone(),
            status: RunStatus::Failed {
                message: "exit code 1".into(),
                never_started: false,
                exit_code: Some(1),
            },
            ran: None,
        }],
    ));
    assert_eq!(env.core.durable(), before);
    assert!(!env.core.is_latest(&earlier) && env.core.is_latest(&env.latest(&job)));
    // The other run is not mistaken for the missing attempt either.
    env.effects.clear();
    env.now = env.now + Span::seconds(5);
    let seen = Observation { run: earlier, status: RunStatus::Running, ran: None };
    env.send(env.watched("only", Some(env.now), vec![seen]));
    assert!(matches!(env.effects[..], [Effect::Lookup { .. }]), "{:?}", env.effects);
}
