//! Clusters come, go, fall silent and change; operators change their minds.

use multicluster_core::{
    ClusterChange, ConfigChange, Duplicate, Effect, Event, HealthState, Input, LookupOutcome, Observation,
    Refusal, ReleaseOutcome, RunStatus,
    record::{Phase, Source},
};
use multicluster_types::{
    ClusterSpec, JobId, Owner, PolicyRule, PolicySpec, Reason, ReasonKind, Settings, Span, State, Timestamp,
};

use crate::env::*;

fn register(builder: &ClusterBuilder, replace: bool) -> Input {
    Input::Register { spec: Box::new(builder.spec.clone()), replace }
}

fn remove(cluster: &str, force: bool) -> Input {
    Input::Remove { cluster: cluster_name(cluster), force }
}

fn cordon(cluster: &str, drain: bool) -> Input {
    Input::Cordon { cluster: cluster_name(cluster), note: Some("kernel update".into()), drain }
}

fn names(env: &TestEnv) -> Vec<String> {
    env.core.clusters().map(|c| c.spec.name.as_str().to_owned()).collect()
}

/// A poll answered at this moment, with a change.
fn poll_with(env: &TestEnv, cluster: &str, change: impl FnOnce(&mut multicluster_types::Snapshot)) -> Input {
    let Input::Polled { cluster, mut snapshot, took } = env.poll_input(cluster) else { panic!() };
    change(&mut snapshot);
    Input::Polled { cluster, snapshot, took }
}

// ---- register, replace, remove

#[test]
fn a_new_cluster_is_polled_and_takes_work_from_its_first_answer() {
    let mut env = TestEnv::new();
    let out = env.core.handle(env.now, register(&a_cluster("new"), false));
    assert_eq!(out.effects, [Effect::Poll { cluster: cluster_name("new") }]);
    env.commit(out);
    let job = env.submit(a_job());
    assert_eq!(env.reason(&job, "new"), Reason::NeverSeen);
    env.fakes.extend(TestEnv::only().fakes.into_values().map(|fake| (cluster_name("new"), fake)));
    env.poll("new");
    assert_eq!(env.place(&job), "new");
    assert_eq!(env.changes("new"), [&ClusterChange::Registered, &ClusterChange::Healthy]);
}

#[test]
fn a_known_cluster_is_only_replaced_on_request() {
    let mut env = TestEnv::only();
    let heavier = a_cluster("only").weight(5.0);
    let refusal = env.ask(register(&heavier, false)).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "cluster only is registered already\n  hint: names must be unique; to change a cluster, replace it"
    );
    env.ask(register(&heavier, true)).unwrap();
    assert_eq!(env.view("only").spec.weight.get(), 5.0);
    assert_eq!(env.view("only").health, HealthState::Healthy, "the same address: the same facts");
}

#[test]
fn tags_and_weights_can_change_at_run_time() {
    let mut env = TestEnv::pair();
    env.ask(register(&a_cluster("centos").weight(9.0), true)).unwrap();
    let heavier = env.submit(a_job());
    assert_eq!(env.place(&heavier), "centos");
    env.ask(register(&a_cluster("mac").tags(&["arm64"]), true)).unwrap();
    let tagged = env.submit(a_job().tags(&["arm64"]));
    assert_eq!(env.place(&tagged), "mac");
    env.ask(register(&a_cluster("mac"), true)).unwrap();
    let label = env.submit(a_job().tags(&["arm64"]));
    assert_eq!(env.place(&label), "centos", "no cluster carries it any more: it is a label");
}

#[test]
fn another_dashboard_address_makes_the_facts_void() {
    let mut env = TestEnv::only();
    let mut moved = a_cluster("only");
    moved.spec.dashboard = "http://10.0.0.9:8265".into();
    env.ask(register(&moved, true)).unwrap();
    assert_eq!(env.view("only").health, HealthState::NeverSeen);
    let job = env.submit(a_job());
    assert_eq!(env.reason(&job, "only"), Reason::NeverSeen);
    env.poll("only");
    assert_eq!(env.place(&job), "only");
}

#[test]
fn an_empty_cluster_is_removed_at_once() {
    let mut env = TestEnv::pair();
    env.ask(remove("mac", false)).unwrap();
    assert_eq!(names(&env), ["centos"]);
    assert_eq!(env.changes("mac").last(), Some(&&ClusterChange::Removed));
    assert!(!env.store.clusters.contains_key(&cluster_name("mac")));
}

#[test]
fn a_cluster_with_work_on_it_is_drained_first() {
    let mut env = TestEnv::pair();
    let running = env.submit(a_job().requires("mac"));
    env.run(&running);
    env.ask(remove("mac", false)).unwrap();
    assert_eq!(env.changes("mac").last(), Some(&&ClusterChange::Leaving));
    let waits = env.submit(a_job().requires("mac"));
    assert_eq!(env.reason(&waits, "mac").kind(), ReasonKind::Draining);
    env.crash();
    env.poll_all();
    env.succeed(&running);
    assert_eq!((env.state(&running), names(&env)), (State::Succeeded, vec!["centos".to_owned()]));
}

#[test]
fn a_removal_can_be_taken_back_while_the_cluster_drains() {
    let mut env = TestEnv::only();
    let running = env.submit(a_job());
    env.ask(remove("only", false)).unwrap();
    env.ask(register(&a_cluster("only"), true)).unwrap();
    env.succeed(&running);
    assert_eq!(names(&env), ["only"]);
    let job = env.submit(a_job());
    assert_eq!(env.place(&job), "only");
}

#[test]
fn a_forced_removal_does_not_wait() {
    let mut env = TestEnv::pair();
    let job = env.submit(a_job().requires("mac"));
    let idempotent = env.submit(a_job().prefers("mac").idempotent());
    let actor = env.submit(an_actor().requires("mac"));
    env.run(&job);
    env.ask(remove("mac", true)).unwrap();
    assert_eq!(names(&env), ["centos"]);
    assert_eq!(env.summary(&job), "failed on mac: cluster mac was removed while this job was on it");
    assert_eq!(env.state(&actor), State::Failed);
    env.advance_s(1);
    assert_eq!(env.place(&idempotent), "centos");
}

#[test]
fn work_that_waits_for_a_removed_cluster_moves_on_or_says_what_it_waits_for() {
    let mut env = TestEnv::pair();
    env.uses("mac", &[("CPU", 8.0)]);
    let (preferred, required) = (env.submit(a_job().prefers("mac")), env.submit(a_job().requires("mac")));
    env.ask(remove("mac", false)).unwrap();
    assert_eq!(env.place(&preferred), "centos");
    assert_eq!(env.reason(&required, "centos"), Reason::OtherCluster { wanted: cluster_name("mac") });
    env.cluster(a_cluster("mac"));
    assert_eq!(env.place(&required), "mac", "it came back");
}

// ---- cordon, drain

#[test]
fn a_drained_cluster_says_so_once_it_is_empty() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    env.run(&job);
    env.ask(cordon("only", true)).unwrap();
    let waits = env.submit(a_job());
    assert_eq!(env.reason(&waits, "only"), Reason::Draining { note: "kernel update".into() });
    assert!(!env.changes("only").contains(&&ClusterChange::Drained));
    env.succeed(&job);
    assert_eq!(env.changes("only").last(), Some(&&ClusterChange::Drained));
    env.uncordon("only");
    assert_eq!(env.place(&waits), "only");
}

#[test]
fn an_empty_cluster_is_drained_at_once_and_a_cordon_survives_a_crash() {
    let mut env = TestEnv::only();
    env.ask(cordon("only", true)).unwrap();
    assert_eq!(env.changes("only").last(), Some(&&ClusterChange::Drained));
    env.crash();
    env.poll("only");
    let job = env.submit(a_job());
    assert_eq!(env.reason(&job, "only").kind(), ReasonKind::Draining);
}

#[test]
fn a_running_job_may_still_start_its_sub_work_on_a_cordoned_or_leaving_cluster() {
    for keep_away in [cordon("mac", false), cordon("mac", true), remove("mac", false)] {
        let mut env = TestEnv::pair();
        let parent = env.submit(a_job().requires("mac"));
        env.run(&parent);
        env.ask(keep_away).unwrap();
        let child = env.submit(a_task().inside(&parent, "mac"));
        assert_eq!(env.place(&child), "mac");
    }
}

// ---- reload

/// The content of a configuration file with these clusters.
fn file(env: &TestEnv, clusters: &[ClusterBuilder], change: impl FnOnce(&mut Settings)) -> Input {
    let mut settings = env.core.settings().clone();
    change(&mut settings);
    let clusters: Vec<ClusterSpec> = clusters.iter().map(|c| c.spec.clone()).collect();
    Input::Reload { settings: Box::new(settings), clusters }
}

#[test]
fn changed_settings_take_effect_at_once() {
    let mut env = TestEnv::new();
    env.cluster(a_cluster("only"));
    let (first, spaced) = (env.submit(a_job()), env.submit(a_job()));
    assert_eq!(env.reason(&spaced, "only").kind(), ReasonKind::TooSoon);
    env.set("submission_interval", "0");
    assert_eq!(env.place(&spaced), "only");
    env.run(&first);
    env.uses("only", &[("CPU", 7.0)]);
    let busy = env.submit(a_job());
    assert_eq!(env.reason(&busy, "only").kind(), ReasonKind::OverThreshold);
    env.set("resource_threshold", "90%");
    assert_eq!(env.place(&busy), "only");
}

#[test]
fn a_longer_interval_holds_for_submissions_already_made() {
    let mut env = TestEnv::new();
    env.cluster(a_cluster("only"));
    let (_, second) = (env.submit(a_job()), env.submit(a_job()));
    env.set("submission_interval", "100s");
    env.advance_s(99);
    assert_eq!(env.state(&second), State::Queued);
    env.advance_s(1);
    assert_eq!(env.state(&second), State::Dispatching);
}

#[test]
fn clusters_of_the_file_come_and_go_and_those_of_the_api_stay() {
    let mut env = TestEnv::unspaced();
    env.cluster(a_cluster("by-api"));
    env.ask(file(&env, &[a_cluster("a"), a_cluster("b")], |_| {})).unwrap();
    assert_eq!(names(&env), ["by-api", "a", "b"]);
    assert_eq!((env.view("by-api").source, env.view("a").source), (Source::Api, Source::File));
    env.ask(file(&env, &[a_cluster("b"), a_cluster("c")], |_| {})).unwrap();
    let mut left = names(&env);
    left.sort();
    assert_eq!(left, ["b", "by-api", "c"]);
}

#[test]
fn a_cluster_that_left_the_file_with_work_on_it_is_drained_first() {
    let mut env = TestEnv::pair();
    let both = [a_cluster("centos"), a_cluster("mac")];
    env.ask(file(&env, &both, |_| {})).unwrap();
    let job = env.submit(a_job().requires("mac"));
    env.ask(file(&env, &both[..1], |_| {})).unwrap();
    assert!(env.view("mac").leaving);
    env.ask(file(&env, &both, |_| {})).unwrap();
    assert!(!env.view("mac").leaving, "back in the file in time");
    env.ask(file(&env, &both[..1], |_| {})).unwrap();
    env.succeed(&job);
    assert_eq!(names(&env), ["centos"]);
}

#[test]
fn a_bad_configuration_changes_nothing_at_all() {
    let mut env = TestEnv::only();
    let twice = file(&env, &[a_cluster("a"), a_cluster("a")], |s| s.max_queue = 1);
    let bad_policy = file(&env, &[a_cluster("a")], |s| {
        s.max_queue = 1;
        s.policies = vec![PolicySpec { name: "scor".into(), rule: PolicyRule::BuiltIn { weight: 1.0 } }];
    });
    let (durable, settings) = (env.core.durable(), env.core.settings().clone());
    let refusals = [twice, bad_policy].map(|input| env.ask(input).unwrap_err());
    assert_eq!(refusals.each_ref().map(Refusal::code), ["duplicate_cluster", "bad_policy"]);
    assert!(refusals[0].to_string().starts_with("cluster a is listed twice"));
    assert!(refusals[1].to_string().contains("did you mean score?"), "{}", refusals[1]);
    assert_eq!((env.core.durable(), env.core.settings()), (durable, &settings));
    let job = env.submit(a_job());
    assert_eq!(env.place(&job), "only");
}

// ---- health

#[test]
fn check_now_polls() {
    let mut env = TestEnv::only();
    let out = env.core.handle(env.now, Input::CheckNow { cluster: cluster_name("only") });
    assert_eq!(out.effects, [Effect::Poll { cluster: cluster_name("only") }]);
}

#[test]
fn an_answer_that_was_overtaken_is_ignored() {
    let mut env = TestEnv::only();
    let slow = poll_with(&env, "only", |s| s.used = amounts(&[("CPU", 8.0)]));
    env.now = env.now + Span::seconds(1);
    env.poll("only");
    env.send(slow);
    assert!(env.view("only").snapshot.unwrap().used.is_empty());
}

#[test]
fn an_answer_that_is_too_old_is_ignored() {
    let mut env = TestEnv::new();
    env.ask(register(&a_cluster("new"), false)).unwrap();
    env.fakes = TestEnv::only().fakes.into_values().map(|fake| (cluster_name("new"), fake)).collect();
    let old = poll_with(&env, "new", |s| s.taken_at = Timestamp(env.now.0 - 30_000));
    env.send(old);
    assert_eq!(env.view("new").health, HealthState::NeverSeen);
}

#[test]
fn a_head_without_nodes_is_not_a_cluster_yet() {
    let mut env = TestEnv::pair();
    env.send(poll_with(&env, "mac", |s| s.nodes = 0));
    let (required, preferred) = (env.submit(a_job().requires("mac")), env.submit(a_job().prefers("mac")));
    assert_eq!(env.reason(&required, "mac"), Reason::NoNodes);
    assert_eq!(env.place(&preferred), "centos");
    env.poll("mac");
    assert_eq!(env.place(&required), "mac");
}

#[test]
fn a_head_without_nodes_is_not_called_too_small() {
    let mut env = TestEnv::only();
    env.send(poll_with(&env, "only", |s| {
        s.nodes = 0;
        s.total = amounts(&[]);
    }));
    let job = env.submit(a_job().cpus(4.0));
    let told = "queued for 0 s, next in line\nonly: its head answers but no node is alive";
    assert_eq!(env.summary(&job), told);
}

#[test]
fn one_failed_poll_is_not_yet_unhealthy() {
    let mut env = TestEnv::only();
    env.fake("only").answers = false;
    env.poll("only");
    env.poll("only");
    let job = env.submit(a_job());
    assert_eq!((env.view("only").health, env.place(&job)), (HealthState::Healthy, "only"));
    env.bring_back("only");
    env.fake("only").answers = false;
    env.poll("only");
    env.poll("only");
    assert_eq!(env.view("only").health, HealthState::Healthy, "not three in a row");
    env.poll("only");
    assert_eq!(env.changes("only").last(), Some(&&ClusterChange::Unhealthy("connection refused".into())));
}

#[test]
fn a_cluster_that_nobody_hears_of_is_unhealthy_after_snapshot_max_age() {
    let mut env = TestEnv::only();
    let since = env.now + Span::seconds(30);
    env.now = Timestamp(since.0 - 1);
    env.send(Input::Tick);
    assert_eq!(env.view("only").health, HealthState::Healthy);
    assert_eq!(env.core.next_wakeup(), Some(since));
    env.now = since;
    env.send(Input::Tick);
    let error = "no answer to a poll for 30s".into();
    assert_eq!(env.view("only").health, HealthState::Unhealthy { since, error });
}

#[test]
fn the_jobs_of_a_restarted_head_are_asked_about() {
    let mut env = TestEnv::only();
    let (runs, gone) = (env.submit(a_job()), env.submit(a_job()));
    env.run(&runs);
    env.run(&gone);
    env.effects.clear();
    env.fake("only").session = Some("session_2".into());
    env.poll("only");
    assert_eq!(env.changes("only").last(), Some(&&ClusterChange::Restarted));
    assert_eq!([env.state(&runs), env.state(&gone)], [State::Unknown; 2]);
    env.answer(&runs, LookupOutcome::Found(RunStatus::Running));
    env.answer(&gone, env.not_found("only"));
    assert_eq!([env.state(&runs), env.state(&gone)], [State::Running, State::Failed]);
    env.assert_quiet();
}

#[test]
fn time_that_goes_back_stands_still() {
    let mut env = TestEnv::new();
    env.cluster(a_cluster("only"));
    let (start, later) = (env.now, env.now + Span::seconds(20));
    env.submit(a_job());
    let second = env.submit(a_job());
    env.now = later;
    env.poll("only");
    env.now = Timestamp(5);
    env.poll("only");
    assert_eq!((env.core.now(), env.view("only").snapshot.unwrap().taken_at), (later, later));
    assert_eq!(env.reason(&second, "only"), Reason::TooSoon { until: start + Span::seconds(40) });
    env.now = start + Span::seconds(40);
    env.send(Input::Tick);
    assert_eq!(env.state(&second), State::Dispatching);
}

// ---- ended jobs

#[test]
fn a_job_that_is_run_again_joins_the_end_of_its_queue() {
    let mut env = TestEnv::only();
    env.set("max_running_jobs", "1");
    let [first, second, third] = [(); 3].map(|()| env.submit(a_job()));
    env.run(&first);
    env.stop(&first).unwrap();
    env.observe(&first, RunStatus::Stopped);
    env.ask(Input::Rerun { job: first.clone() }).unwrap();
    env.run(&second);
    env.observe(&second, RunStatus::Succeeded);
    assert_eq!((env.state(&third), env.state(&first)), (State::Dispatching, State::Queued));
}

#[test]
fn a_failed_or_stopped_job_is_run_again_under_its_id() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    let failed =
        RunStatus::Failed { message: "exit code 1".into(), never_started: false, exit_code: Some(1) };
    for (n, status) in [(2, RunStatus::Stopped), (3, failed)] {
        env.run(&job);
        env.stop(&job).unwrap();
        env.observe(&job, status);
        env.effects.clear();
        env.ask(Input::Rerun { job: job.clone() }).unwrap();
        let (run, cluster) = (env.run_of(&job, n), cluster_name("only"));
        assert_eq!(env.take_effects(1), [Effect::Submit { run, cluster }]);
    }
    let live = env.ask(Input::Rerun { job: job.clone() }).unwrap_err();
    env.succeed(&job);
    let ended = env.ask(Input::Rerun { job }).unwrap_err();
    assert_eq!([live.code(), ended.code()], ["wrong_state"; 2]);
}

#[test]
fn only_an_ended_job_can_be_deleted() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    let delete = Input::Delete { job: job.clone() };
    assert_eq!(env.ask(delete.clone()).unwrap_err().code(), "wrong_state");
    env.succeed(&job);
    env.ask(delete.clone()).unwrap();
    assert_eq!(env.ask(delete).unwrap_err().code(), "unknown_job");
    assert!(env.store.jobs.is_empty());
}

#[test]
fn ended_jobs_are_forgotten_by_count_and_by_age() {
    let mut env = TestEnv::with(|s| {
        s.set("submission_interval", "0").unwrap();
        s.set("retain_finished", "3").unwrap();
        s.set("retain_for", "1h").unwrap();
    });
    env.cluster(a_cluster("only"));
    for _ in 0..5 {
        let job = env.submit(a_job());
        env.succeed(&job);
        env.advance_s(600);
    }
    let known = |env: &TestEnv| env.store.jobs.keys().map(|id| id.as_str().to_owned()).collect::<Vec<_>>();
    assert_eq!(known(&env), ["job-3", "job-4", "job-5"]);
    env.advance_s(1800);
    assert_eq!(known(&env), ["job-4", "job-5"], "an hour after each ended");
    env.advance_s(1200);
    assert!(known(&env).is_empty());
}

fn retaining(count: &str) -> TestEnv {
    let mut env = TestEnv::with(|s| {
        s.set("submission_interval", "0").expect("a known setting");
        s.set("retain_finished", count).expect("a known setting");
    });
    env.cluster(a_cluster("only"));
    env
}

#[test]
fn one_owners_ended_work_does_not_push_out_the_jobs_of_others() {
    let mut env = retaining("3");
    let anns = env.submit(a_job().id("anns").owner("ann"));
    env.run(&anns);
    env.succeed(&anns);
    let bobs = env.submit(a_job().id("bobs").owner("bob"));
    env.run(&bobs);
    env.succeed(&bobs);
    for n in 0..10 {
        let task = env.submit(a_task().id(&format!("task-{n}")).owner("bob"));
        env.heartbeat(&task).unwrap();
        env.release(&task, ReleaseOutcome::Succeeded).unwrap();
    }
    env.advance_s(400);
    let known: Vec<_> = env.store.jobs.keys().map(JobId::as_str).collect();
    assert_eq!(known, ["anns", "bobs", "task-7", "task-8", "task-9"]);
}

#[test]
fn an_id_is_known_for_five_minutes_however_much_has_ended() {
    let mut env = retaining("0");
    let first = env.submit(a_job().id("first"));
    env.run(&first);
    env.succeed(&first);
    for _ in 0..20 {
        let job = env.submit(a_job());
        env.run(&job);
        env.succeed(&job);
    }
    env.advance_s(299);
    let again = env.try_submit(a_job().id("first")).unwrap();
    assert_eq!(again.duplicate, Some(Duplicate::SameId), "a repeated request does not run again");
    env.advance_s(1);
    assert!(env.store.jobs.is_empty());
}

// ---- who, and what came of a file

#[test]
fn a_note_stays_until_there_is_another_and_a_drain_is_told_as_a_drain() {
    let mut env = TestEnv::only();
    let order = |note: Option<&str>, drain| Input::Cordon {
        cluster: cluster_name("only"),
        note: note.map(Into::into),
        drain,
    };
    let note = |env: &TestEnv| env.view("only").cordon.map(|cordon| cordon.note.as_str().to_owned());
    env.events.clear();
    env.ask(order(Some("kernel update"), false)).unwrap();
    env.ask(order(None, true)).unwrap();
    assert_eq!(note(&env).as_deref(), Some("kernel update"));
    let by_ann = |input| Input::By { owner: Owner::new("ann").unwrap(), input: Box::new(input) };
    env.ask(by_ann(order(Some("disk swap"), false))).unwrap();
    env.uncordon("only");
    env.ask(by_ann(order(None, false))).unwrap();
    assert_eq!(note(&env).as_deref(), Some("by ann"));
    assert_eq!(
        env.changes("only"),
        [
            &ClusterChange::Cordoned("kernel update".into()),
            &ClusterChange::Draining("kernel update".into()),
            &ClusterChange::Drained,
            &ClusterChange::Cordoned("disk swap".into()),
            &ClusterChange::Uncordoned,
            &ClusterChange::Cordoned("by ann".into()),
        ]
    );
    let by = env.events.iter().filter_map(|event| match event {
        Event::Cluster { by, .. } => Some(by.as_ref().map(Owner::as_str)),
        _ => None,
    });
    assert_eq!(by.collect::<Vec<_>>(), [None, None, None, Some("ann"), None, Some("ann")]);
}

#[test]
fn a_refused_file_is_told_once_and_so_is_its_end() {
    let mut env = TestEnv::only();
    env.events.clear();
    env.send(Input::RefusedConfig { why: "line 3".into() });
    assert_eq!(env.core.refused_config(), Some(&(env.now, "line 3".into())));
    for _ in 0..2 {
        let clusters = env.core.clusters().map(|cluster| (*cluster.spec).clone()).collect();
        let settings = Box::new(env.core.settings().clone());
        env.ask(Input::Reload { settings, clusters }).unwrap();
    }
    assert_eq!(env.core.refused_config(), None);
    let told = env.events.iter().filter_map(|event| match event {
        Event::Config { change, .. } => Some(change.clone()),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [ConfigChange::Refused("line 3".into()), ConfigChange::Reloaded]);
}

#[test]
fn a_file_that_stays_refused_is_told_once_while_others_change() {
    let mut env = TestEnv::only();
    env.events.clear();
    let reload = |env: &mut TestEnv, more: &[&str], refused: Option<&str>| {
        let settings = Box::new(env.core.settings().clone());
        let names = ["only"].iter().chain(more);
        let clusters = names.map(|name| a_cluster(name).spec).collect();
        env.ask(match refused {
            Some(why) => Input::ReloadInPart { settings, clusters, refused: why.into() },
            None => Input::Reload { settings, clusters },
        })
        .unwrap();
    };
    reload(&mut env, &[], Some("b.yaml:1"));
    let since = env.now;
    env.advance_s(5);
    reload(&mut env, &["more"], Some("b.yaml:1"));
    assert_eq!(env.core.refused_config(), Some(&(since, "b.yaml:1".into())), "since it was first seen");
    assert_eq!(env.core.clusters().count(), 2, "the other files are in force");
    reload(&mut env, &[], Some("b.yaml:2"));
    assert_eq!(env.core.refused_config(), Some(&(env.now, "b.yaml:2".into())));
    reload(&mut env, &[], None);
    assert_eq!((env.core.refused_config(), env.core.clusters().count()), (None, 1));
    let told = env.events.iter().filter_map(|event| match event {
        Event::Config { change, .. } => Some(change.clone()),
        _ => None,
    });
    let refused = |why: &str| ConfigChange::Refused(why.into());
    assert_eq!(told.collect::<Vec<_>>(), [refused("b.yaml:1"), refused("b.yaml:2"), ConfigChange::Reloaded]);
}

#[test]
fn a_job_too_short_to_be_seen_running_ran_as_long_as_its_cluster_says() {
    for (status, ran) in [
        (RunStatus::Succeeded, Some(Span(700))),
        (
            RunStatus::Failed { message: "exit code 1".into(), never_started: false, exit_code: Some(1) },
            Some(Span(700)),
        ),
        (RunStatus::Stopped, None),
    ] {
        let mut env = TestEnv::only();
        let job = env.submit(a_job());
        env.accept(&job);
        env.now = env.now + Span::seconds(1);
        let seen = Observation { run: env.latest(&job), status, ran: Some(Span(700)) };
        env.send(env.watched("only", None, vec![seen]));
        let Phase::Ended(ended) = &env.core.job(&job).unwrap().phase else { panic!() };
        assert_eq!(ended.ran, ran);
    }
}
