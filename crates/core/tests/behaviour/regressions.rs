//! Real bugs that were found by reading and by the property tests.

use multicluster_core::*;
use multicluster_types::*;

use crate::env::*;

fn is_submit(effect: &Effect) -> bool {
    matches!(effect, Effect::Submit { .. })
}

fn is_stop(effect: &Effect) -> bool {
    matches!(effect, Effect::Stop { .. })
}

#[test]
fn nothing_is_sent_again_while_a_send_is_under_way() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    env.dispatched(&job, DispatchOutcome::Unknown("timed out".into()));
    env.lose("only");
    env.answer(&job, env.not_found("only")); // was on its way: sent again, Dispatching
    env.effects.clear();
    env.bring_back("only"); // The second send is under way: nothing to ask about.
    env.assert_quiet();
}

#[test]
fn a_moved_dashboard_does_not_send_again_while_a_send_is_under_way() {
    let mut env = TestEnv::only();
    env.submit(a_job());
    env.effects.clear();
    let mut moved = a_cluster("only");
    moved.spec.dashboard = "http://elsewhere:8265".into();
    env.ask(Input::Register { spec: Box::new(moved.spec), replace: true }).unwrap();
    env.poll("only");
    env.assert_quiet();
}

#[test]
fn what_never_starts_anywhere_is_given_up_after_dispatch_attempts() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    while env.state(&job) == State::Dispatching && env.attempt(&job).0 < 30 {
        env.accept(&job);
        let message = "no such conda environment".into();
        env.observe(&job, RunStatus::Failed { message, never_started: true, exit_code: None });
        while env.state(&job) == State::Queued {
            env.advance_s(1);
        }
    }
    assert_eq!((env.state(&job), env.attempt(&job).0), (State::Failed, 10));
}

#[test]
fn a_refused_second_send_says_nothing_about_the_first() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    env.dispatched(&job, DispatchOutcome::Unknown("timed out".into()));
    env.answer(&job, env.not_found("only"));
    env.dispatched(&job, DispatchOutcome::Refused("400: submission id exists already".into()));
    assert_eq!(env.state(&job), State::Unknown);
}

#[test]
fn sending_again_backs_off() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    env.effects.clear();
    env.dispatched(&job, DispatchOutcome::Unknown("timed out".into()));
    let mut sends = 0;
    while sends < 100 && !env.effects.is_empty() {
        env.answer(&job, env.not_found("only"));
        sends += env.effects.drain(..).filter(is_submit).count();
        env.dispatched(&job, DispatchOutcome::Failed("503: no agent".into()));
    }
    assert!(sends <= 2, "{sends} sends within one millisecond");
}

#[test]
fn late_news_of_a_lost_cluster_does_not_make_its_jobs_reachable() {
    let mut env = TestEnv::pair();
    let job = env.submit(a_job().prefers("mac"));
    let idempotent = env.submit(a_job().prefers("mac").idempotent());
    env.lose("mac");
    env.accept(&job); // both completions were on their way
    env.accept(&idempotent);
    env.advance_s(3600);
    assert_eq!((env.state(&job), env.place(&idempotent)), (State::Unknown, "centos"));
}

#[test]
fn stopping_a_starving_head_ends_its_reservation() {
    let mut env = TestEnv::with(|s| s.resource_threshold = settings::Share::percent(100));
    env.cluster(a_cluster("only"));
    env.crowd("only", 2.0);
    let large = env.submit(a_job().cpus(8.0));
    env.advance_s(300);
    let small = env.submit(a_job().cpus(1.0));
    env.stop(&large).unwrap();
    env.advance_s(60);
    assert_eq!(env.place(&small), "only");
}

#[test]
fn the_second_of_a_class_starves_too() {
    let mut env = TestEnv::with(|s| s.resource_threshold = settings::Share::percent(100));
    env.cluster(a_cluster("only").cpus(12.0).used(&[("CPU", 5.0)]));
    let first = env.submit(a_job().cpus(8.0));
    env.advance_s(200);
    let second = env.submit(a_job().cpus(8.0));
    env.advance_s(110);
    env.uses("only", &[("CPU", 2.0)]);
    env.run(&first);
    env.uses("only", &[("CPU", 10.0)]);
    env.advance_s(220); // second has waited for 330 s
    assert_eq!(env.view("only").reserved_for, Some(second));
}

#[test]
fn a_trickling_batch_counts_as_one_submission() {
    let mut env = TestEnv::with(|s| s.resource_threshold = settings::Share::percent(100));
    env.cluster(a_cluster("only"));
    let batch = (0..20).map(|n| a_task().id(&format!("t{n}")).cpus(8.0).batch("b"));
    env.send(a_batch(batch));
    let urgent = env.submit(a_job().priority(9));
    for n in 0..4 {
        env.advance_s(10);
        env.release(&job_id(&format!("t{n}")), ReleaseOutcome::Succeeded).unwrap();
    }
    assert_ne!(env.state(&urgent), State::Queued, "{}", env.summary(&urgent));
}

#[test]
fn what_was_given_up_on_a_healthy_cluster_is_buried() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job().idempotent());
    env.dispatched(&job, DispatchOutcome::Unknown("timed out".into()));
    env.advance_s(63); // polls are answered, look-ups are not
    assert_eq!((env.attempt(&job).0, env.store.orphans.len()), (2, 1));
    assert!(env.effects.iter().any(|e| matches!(e, Effect::Bury { .. })));
}

#[test]
fn an_unanswered_stop_of_what_was_given_up_is_repeated() {
    let mut env = TestEnv::pair();
    let job = env.submit(a_job().prefers("mac").idempotent());
    env.run(&job);
    env.lose("mac");
    env.advance_s(62);
    env.run(&job);
    env.bring_back("mac");
    env.effects.clear();
    env.send(Input::StopSent { run: env.run_of(&job, 1), answered: false });
    env.advance_s(600);
    assert!(env.effects.iter().any(is_stop));
}

#[test]
fn any_identical_queued_job_stands_in() {
    let mut env = TestEnv::new();
    env.cluster(a_cluster("only"));
    env.submit(a_job());
    env.submit(a_job().id("first").content("train"));
    let second = env.submit(a_job().id("second").content("train"));
    env.advance_s(40); // first is dispatched
    assert_eq!(env.try_submit(a_job().content("train")).unwrap().job, second);
}

#[test]
fn a_running_job_is_asked_about_again_when_the_question_after_a_crash_had_no_answer() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    env.run(&job);
    env.crash();
    env.poll("only");
    env.answer(&job, LookupOutcome::NoAnswer);
    env.advance_s(600);
    assert!(env.effects.iter().any(|e| matches!(e, Effect::Lookup { .. })));
}

#[test]
fn a_dispatch_report_for_a_placement_is_dropped() {
    let mut env = TestEnv::only();
    let task = env.submit(a_task());
    env.effects.clear();
    env.dispatched(&task, DispatchOutcome::Unknown("?".into()));
    env.assert_quiet(); // asks about a task, and would Submit it on "not found"
}

#[test]
fn one_hung_request_counts_once_for_the_breaker() {
    let mut env = TestEnv::with(|s| s.set("breaker_failures", "2").unwrap());
    env.cluster(a_cluster("only"));
    let job = env.submit(a_job());
    env.advance_s(60); // dispatch_timeout
    env.dispatched(&job, DispatchOutcome::Unknown("timed out".into()));
    assert_eq!(env.view("only").circuit, CircuitState::Closed);
}

#[test]
fn a_lost_idempotent_job_does_not_claim_that_it_is_not_run_again() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job().idempotent());
    env.run(&job);
    env.lose("only");
    assert!(!env.summary(&job).contains("nor run again"), "{}", env.summary(&job));
}

#[test]
fn the_ledger_adds_up_for_huge_amounts() {
    let mut env = TestEnv::with(|s| {
        s.submission_interval = Span::ZERO;
        s.lease_ttl = Span::minutes(60);
        s.resource_threshold = settings::Share::percent(100);
        s.claims = settings::Claims::UntilStarted;
    });
    env.cluster(a_cluster("only").total(&[("memory", 9.9e14)]));
    let tasks = [(); 3].map(|()| {
        let task = env.submit(a_task().demand(&[("memory", 9e14)]));
        env.heartbeat(&task).unwrap();
        env.advance_s(10); // struck out by a snapshot that does not show it
        task
    });
    env.crash();
    env.release(&tasks[0], ReleaseOutcome::Succeeded).unwrap(); // check() fails
}

#[test]
fn a_new_job_is_not_stopped_for_an_orphan_of_a_deleted_one() {
    let mut env = TestEnv::pair();
    let job = env.submit(a_job().id("x").prefers("mac").idempotent());
    env.run(&job);
    env.lose("mac");
    env.advance_s(62);
    env.succeed(&job);
    env.ask(Input::Delete { job: job.clone() }).unwrap();
    let earlier = env.run_of(&job, 1);
    let earlier = Run { life: env.store.orphans.first().unwrap().life, ..earlier };
    env.effects.clear();
    env.bring_back("mac");
    let stop_of_the_orphan = [Effect::Stop { run: earlier.clone(), cluster: cluster_name("mac") }];
    assert_eq!(env.take_effects(1), stop_of_the_orphan);
    env.advance_s(40);
    env.submit(a_job().id("x").prefers("mac"));
    env.run(&job);
    // The stop had no answer, so it is sent again: of the earlier attempt, never of the new one.
    env.send(Input::StopSent { run: earlier.clone(), answered: false });
    env.effects.clear();
    env.poll("mac");
    assert_eq!(env.take_effects(1), stop_of_the_orphan);
    assert!(!env.core.is_latest(&earlier));
    // An answer about the new job's run is not an answer about the orphan.
    env.send(Input::StopSent { run: env.latest(&job), answered: true });
    assert_eq!(env.store.orphans.len(), 1);
    env.send(Input::StopSent { run: earlier, answered: true });
    assert_eq!((env.store.orphans.len(), env.state(&job)), (0, State::Running));
}

#[test]
fn a_stop_of_an_orphan_is_sent_again_when_its_cluster_is_reached_in_another_way() {
    let mut env = TestEnv::pair();
    let job = env.submit(a_job().prefers("mac").idempotent());
    env.run(&job);
    env.lose("mac");
    env.advance_s(62);
    env.effects.clear();
    env.bring_back("mac");
    let stop = Effect::Stop { run: env.run_of(&job, 1), cluster: cluster_name("mac") };
    assert_eq!(env.take_effects(1), std::slice::from_ref(&stop));
    env.poll("mac");
    env.assert_quiet(); // The stop is under way.
    // The lane is replaced, and with it the report on the stop is lost.
    let spec = env.store.clusters[&cluster_name("mac")].spec.clone();
    let spec = Box::new(ClusterSpec {
        secret_vars: [("TOKEN".to_owned(), Secret::new("t"))].into(),
        ..(*spec).clone()
    });
    env.ask(Input::Register { spec, replace: true }).unwrap();
    env.effects.clear();
    env.poll("mac");
    assert_eq!(env.take_effects(1), [stop]);
}

#[test]
fn a_found_running_job_is_not_asked_about_for_ever() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    env.run(&job);
    env.crash();
    env.poll("only");
    let mut asked = 0;
    for _ in 0..120 {
        let mine = |e: &Effect| matches!(e, Effect::Lookup { .. });
        if env.effects.iter().any(mine) {
            asked += 1;
            env.answer(&job, LookupOutcome::Found(RunStatus::Running));
        }
        env.advance(Span(500));
    }
    assert_eq!(asked, 1);
}

#[test]
fn a_definite_failure_moves_on_although_the_cluster_is_lost() {
    let mut env = TestEnv::pair();
    let job = env.submit(a_job().prefers("mac"));
    env.lose("mac");
    env.dispatched(&job, DispatchOutcome::Failed("connection refused".into()));
    env.advance_s(5);
    assert_eq!((env.state(&job), env.place(&job)), (State::Dispatching, "centos"));
}

#[test]
fn a_restart_does_not_end_what_is_still_being_sent() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    env.fake("only").session = Some("session_2".into());
    env.poll("only");
    if env.effects.iter().any(|e| matches!(e, Effect::Lookup { .. })) {
        env.answer(&job, env.not_found("only"));
    }
    env.accept(&job); // the new head took it
    let seen = env.seen("only", &job, 1, RunStatus::Running);
    env.send(seen);
    assert_eq!(env.state(&job), State::Running);
}

#[test]
fn heartbeats_before_unreachable_hide_a_dead_cluster() {
    let mut env = TestEnv::only();
    let task = env.submit(a_task());
    let mut tries = 0;
    while !env.state(&task).is_terminal() && tries < 50 {
        tries += 1;
        env.heartbeat(&task).unwrap();
        env.release(&task, ReleaseOutcome::Unreachable("connect timed out".into())).unwrap();
        let mut waited = 0;
        while env.state(&task) == State::Queued && waited < 600 {
            env.advance_s(1);
            waited += 1;
        }
    }
    assert!(tries <= 10, "{tries} tries, circuit {:?}", env.view("only").circuit);
}

#[test]
fn a_batch_sent_again_is_the_same_batch() {
    let mut env = TestEnv::only();
    let first = env.try_submit(a_task().id("t1").batch("call-1")).unwrap();
    let again = env.try_submit(a_task().id("t1").batch("call-2"));
    assert_eq!(again.map(|a| a.job).map_err(|e| e.code()), Ok(first.job));
}

#[test]
fn a_retried_parent_finds_its_sub_job() {
    let mut env = TestEnv::pair();
    let parent = env.submit(a_job().prefers("mac").retries(3));
    env.run(&parent);
    let child = env.submit(a_job().id("step-1").content("x").inside(&parent, "mac"));
    env.fail(&parent);
    env.cordon("mac");
    env.advance_s(10);
    assert_eq!(env.place(&parent), "centos");
    let again = env.try_submit(a_job().id("step-1").content("x").inside(&parent, "centos"));
    assert_eq!(again.map(|a| a.job).map_err(|e| e.code()), Ok(child));
}

#[test]
fn downtime_of_the_control_plane_is_not_the_loss_of_a_cluster() {
    let mut env = TestEnv::pair();
    let job = env.submit(a_job().prefers("mac").idempotent());
    env.run(&job);
    env.lose("mac");
    env.now = env.now + Span::seconds(600);
    env.crash();
    env.bring_back("mac"); // the first thing heard
    assert_eq!(env.place(&job), "mac");
}

#[test]
fn a_task_cannot_be_run_again_without_its_caller() {
    let mut env = TestEnv::only();
    let task = env.submit(a_task());
    env.heartbeat(&task).unwrap();
    env.release(&task, ReleaseOutcome::Failed("x".into())).unwrap();
    assert!(env.ask(Input::Rerun { job: task.clone() }).is_err());
}

#[test]
fn a_clock_set_back_over_a_restart_does_not_close_a_cluster() {
    let mut env = TestEnv::new();
    env.cluster(a_cluster("only"));
    env.now = env.now + Span::seconds(7200); // clock ran ahead
    env.poll("only");
    let first = env.submit(a_job());
    env.run(&first);
    env.succeed(&first);
    env.now = Timestamp(env.now.0 - 7_200_000);
    env.crash();
    env.poll("only");
    let second = env.submit(a_job());
    for _ in 0..60 {
        env.now = env.now + Span::seconds(1);
        env.send(Input::Tick);
        env.poll("only");
    }
    assert_eq!(env.place(&second), "only", "{}", env.summary(&second));
}

#[test]
fn a_stopped_job_that_never_started_is_stopped() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    env.accept(&job);
    env.stop(&job).unwrap();
    env.observe(
        &job,
        RunStatus::Failed { message: "start timeout".into(), never_started: true, exit_code: None },
    );
    assert_eq!(env.state(&job), State::Stopped);
}

#[test]
fn a_stop_waits_for_the_send_under_way() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    env.stop(&job).unwrap();
    env.advance_s(61); // the lane is slow, nothing was reported
    env.answer(&job, env.not_found("only"));
    env.effects.clear();
    env.accept(&job);
    let seen = env.seen("only", &job, 1, RunStatus::Running);
    env.send(seen);
    assert!(
        env.effects.iter().any(|e| matches!(e, Effect::Stop { .. })),
        "{:?} and nobody stops it",
        env.state(&job)
    );
}

#[test]
fn a_lost_probe_is_released() {
    let mut env = TestEnv::only();
    for n in 0..5 {
        let j = env.submit(a_job().id(&format!("j{n}")));
        env.dispatched(&j, DispatchOutcome::Failed("x".into()));
        env.stop(&j).unwrap();
    }
    env.advance_s(61);
    let probe = env.submit(a_job().id("probe"));
    assert_eq!(env.state(&probe), State::Dispatching);
    env.lose("only");
    env.dispatched(&probe, DispatchOutcome::Unknown("t".into()));
    env.effects.clear();
    env.bring_back("only");
    let next = env.submit(a_job().id("next"));
    for _ in 0..600 {
        env.advance_s(1);
        if !env.place(&next).is_empty() {
            break;
        }
        if env.effects.iter().any(|e| matches!(e, Effect::Lookup { .. })) {
            env.answer(&probe, LookupOutcome::NoAnswer);
        }
    }
    assert_eq!(env.place(&next), "only", "{}", env.summary(&next));
}

#[test]
fn a_job_that_waits_to_be_started_does_not_hold_back_a_task_beside_it() {
    let mut env = TestEnv::only();
    env.set("max_starting", "1");
    let parent = env.submit(a_job());
    env.run(&parent);
    env.submit(a_job().inside(&parent, "only"));
    let batch = [a_job().id("waits").inside(&parent, "only"), a_task().id("goes").inside(&parent, "only")];
    env.ask(a_batch(batch)).unwrap();
    assert_eq!(env.reason(&job_id("waits"), "only"), Reason::Starting { jobs: 1, limit: 1, lowered: None });
    assert_eq!(env.place(&job_id("goes")), "only");
}

#[test]
fn a_job_that_is_gone_while_it_is_being_stopped_is_asked_about() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    env.run(&job);
    env.advance_s(60);
    env.stop(&job).unwrap();
    env.effects.clear();
    // The head has restarted and does not report it. The list was asked for just before the stop.
    env.send(env.watched("only", Some(Timestamp(env.now.0 - 1)), vec![]));
    env.answer(&job, LookupOutcome::NotFound { incarnation: None });
    assert_eq!(env.state(&job), State::Stopped);
}
