//! One test (or a few) per line of the rule table in the design.

use multicluster_core::{
    DispatchOutcome, Duplicate, Effect, Input, LookupOutcome, Refusal, RunStatus, record::AttemptOutcome,
};
use multicluster_types::{
    Dimension, Kind, Lang, PolicyRule, PolicySpec, Reason, ReasonKind, Share, Span, State, Timestamp,
    settings::ExecutionMode,
};

use crate::env::*;

/// Two clusters of 8 CPUs: centos and mac.
fn two_clusters(mut env: TestEnv) -> TestEnv {
    env.cluster(a_cluster("centos").tags(&["linux", "x86_64"]));
    env.cluster(a_cluster("mac").tags(&["macos", "arm64"]));
    env
}

// ---- priority of choice

#[test]
fn a_preferred_cluster_beats_tags_and_score() {
    let mut env = two_clusters(TestEnv::new());
    env.uses("mac", &[("CPU", 5.0)]);
    let job = env.submit(a_job().cpus(1.0).prefers("mac"));
    assert_eq!(env.place(&job), "mac");
}

#[test]
fn tag_affinity_beats_score() {
    let mut env = two_clusters(TestEnv::with(|s| {
        s.set("tag_affinity", "preferred").unwrap();
        s.set("submission_interval", "0").unwrap();
    }));
    env.uses("mac", &[("CPU", 5.0)]);
    let job = env.submit(a_job().cpus(1.0).tags(&["arm64"]));
    assert_eq!(env.place(&job), "mac", "less free, but it carries the tag");
}

#[test]
fn the_load_balancing_score_picks_the_freer_cluster() {
    let mut env = two_clusters(TestEnv::new());
    env.uses("centos", &[("CPU", 4.0)]);
    let job = env.submit(a_job().cpus(1.0));
    assert_eq!(env.place(&job), "mac");
}

#[test]
fn ties_are_broken_by_round_robin() {
    let mut env = two_clusters(TestEnv::unspaced());
    env.cluster(a_cluster("third"));
    let places: Vec<_> = (0..6)
        .map(|_| {
            let job = env.submit(a_job());
            env.place(&job).to_owned()
        })
        .collect();
    assert_eq!(places, ["centos", "mac", "third", "centos", "mac", "third"]);
}

#[test]
fn weights_and_prefer_decide_between_equally_free_clusters() {
    let mut env = TestEnv::unspaced();
    env.cluster(a_cluster("light").weight(0.5)).cluster(a_cluster("heavy").weight(2.0));
    let job = env.submit(a_job());
    assert_eq!(env.place(&job), "heavy");
}

// ---- preferred cluster

#[test]
fn a_busy_preferred_cluster_is_waited_for_in_its_own_queue() {
    let mut env = two_clusters(TestEnv::new());
    env.uses("mac", &[("CPU", 7.0)]);
    let job = env.submit(a_job().cpus(1.0).prefers("mac"));
    assert_eq!(env.state(&job), State::Queued);
    assert_eq!(env.core.explain(&job).unwrap().queue.unwrap().to_string(), "jobs@mac");
    assert_eq!(env.reason(&job, "mac").kind(), ReasonKind::OverThreshold);
    assert_eq!(env.reason(&job, "centos"), Reason::OtherCluster { wanted: cluster_name("mac") });
    env.uses("mac", &[]);
    assert_eq!(env.place(&job), "mac");
}

#[test]
fn an_unhealthy_preferred_cluster_falls_through_to_the_others() {
    let mut env = two_clusters(TestEnv::new());
    env.lose("mac");
    let job = env.submit(a_job().prefers("mac"));
    assert_eq!(env.place(&job), "centos");
}

#[test]
fn a_job_waiting_for_its_preferred_cluster_moves_on_when_that_is_lost() {
    let mut env = two_clusters(TestEnv::new());
    env.uses("mac", &[("CPU", 8.0)]);
    let job = env.submit(a_job().prefers("mac"));
    assert_eq!(env.state(&job), State::Queued);
    env.lose("mac");
    assert_eq!(env.place(&job), "centos");
}

#[test]
fn a_preferred_cluster_with_an_open_circuit_falls_through() {
    let mut env = two_clusters(TestEnv::unspaced());
    open_circuit(&mut env, "mac");
    let job = env.submit(a_job().prefers("mac"));
    assert_eq!(env.place(&job), "centos");
}

#[test]
fn a_preferred_cluster_that_could_never_hold_the_work_falls_through() {
    let mut env = TestEnv::new();
    env.cluster(a_cluster("small").cpus(4.0)).cluster(a_cluster("big").cpus(64.0));
    let job = env.submit(a_job().cpus(16.0).prefers("small"));
    assert_eq!(env.place(&job), "big");
}

#[test]
fn a_preferred_cluster_that_the_operator_closes_to_the_work_falls_through() {
    let rule = PolicyRule::Filter { expression: "cluster != 'mac' || cpu <= 2.0".into() };
    let mut env = two_clusters(TestEnv::with(|s| {
        s.policies.push(PolicySpec { name: "small_on_mac".into(), rule });
    }));
    let job = env.submit(a_job().cpus(4.0).prefers("mac"));
    assert_eq!(env.place(&job), "centos");
}

#[test]
fn a_preferred_cluster_that_failed_to_start_the_work_falls_through() {
    let mut env = two_clusters(TestEnv::unspaced());
    let job = env.submit(a_job().prefers("mac"));
    env.dispatched(&job, DispatchOutcome::Failed("no agent".into()));
    env.advance_s(1);
    assert_eq!(env.place(&job), "centos");
}

#[test]
fn a_required_cluster_is_waited_for_even_if_it_is_down() {
    let mut env = two_clusters(TestEnv::new());
    env.lose("mac");
    let job = env.submit(a_job().requires("mac"));
    assert_eq!(env.state(&job), State::Queued);
    assert_eq!(env.reason(&job, "mac").kind(), ReasonKind::Unhealthy);
    env.bring_back("mac");
    assert_eq!(env.place(&job), "mac");
}

#[test]
fn an_unknown_cluster_is_refused_with_the_names_that_exist() {
    let mut env = two_clusters(TestEnv::new());
    let refusal = env.try_submit(a_job().prefers("linux")).unwrap_err();
    assert_eq!(refusal.code(), "unknown_cluster");
    assert_eq!(refusal.to_string(), "unknown cluster linux\n  hint: there are centos, mac");
}

// ---- tags

#[test]
fn placement_tags_filter_and_other_tags_are_labels() {
    let mut env = two_clusters(TestEnv::new());
    env.uses("mac", &[("CPU", 5.0)]);
    let job = env.submit(a_job().tags(&["arm64", "tradebot", "fund"]));
    assert_eq!(env.place(&job), "mac");
    let wants_both = env.submit(a_job().tags(&["arm64", "linux"]));
    assert_eq!(env.state(&wants_both), State::Queued);
    let Reason::MissingTags { tags } = env.reason(&wants_both, "mac") else { panic!() };
    assert_eq!(tags[0].as_str(), "linux");
}

#[test]
fn preferred_tags_only_come_first() {
    let mut env = two_clusters(TestEnv::with(|s| s.set("tag_affinity", "preferred").unwrap()));
    env.uses("mac", &[("CPU", 8.0)]);
    let job = env.submit(a_job().tags(&["arm64"]));
    assert_eq!(env.place(&job), "centos");
}

// ---- versions

#[test]
fn who_connects_itself_goes_only_where_the_versions_are_its_own() {
    let mut env = two_clusters(TestEnv::unspaced());
    env.fake("centos").ray_version = "2.46.0".into();
    env.poll("centos");
    env.uses("mac", &[("CPU", 5.0)]);
    let task = env.submit(a_task().needs_versions("2.60.0", "3.11.2"));
    assert_eq!(env.place(&task), "mac", "however busy");
    let nowhere = env.submit(a_task().needs_versions("2.60.0", "3.12.0"));
    assert_eq!(env.state(&nowhere), State::Queued);
    let told = |env: &TestEnv, cluster| env.reason(&nowhere, cluster).describe(env.now, Lang::En);
    assert_eq!(
        told(&env, "centos"),
        "has Ray 2.46.0 with Python 3.11.7, the caller has Ray 2.60.0 with Python 3.12"
    );
    assert_eq!(
        told(&env, "mac"),
        "has Ray 2.60.0 with Python 3.11.7, the caller has Ray 2.60.0 with Python 3.12"
    );
    let job = env.submit(a_job().prefers("centos"));
    assert_eq!(env.place(&job), "centos", "jobs are sent, not connected to");
}

#[test]
fn a_preferred_cluster_of_other_versions_is_not_waited_for_unless_required() {
    let mut env = two_clusters(TestEnv::unspaced());
    env.fake("centos").ray_version = "2.46.0".into();
    env.poll("centos");
    let task = env.submit(a_task().prefers("centos").needs_versions("2.60.0", "3.11"));
    assert_eq!(env.place(&task), "mac");
    let task = env.submit(a_task().requires("centos").needs_versions("2.60.0", "3.11"));
    assert_eq!(env.state(&task), State::Queued);
}

#[test]
fn a_label_becomes_a_placement_tag_when_a_cluster_carries_it() {
    let mut env = two_clusters(TestEnv::unspaced());
    env.cluster(a_cluster("gpu").tags(&["fund"]));
    let job = env.submit(a_job().tags(&["fund"]));
    assert_eq!(env.place(&job), "gpu");
}

// ---- threshold

#[test]
fn over_the_threshold_on_any_one_resource_a_cluster_takes_no_work_from_outside() {
    for (used, resource) in [
        (&[("CPU", 5.7)][..], Dimension::Cpu),
        (&[("memory", 45e9)][..], Dimension::Memory),
        (&[("GPU", 3.0)][..], Dimension::Gpu),
    ] {
        let mut env = TestEnv::new();
        env.cluster(a_cluster("only").total(&[("CPU", 8.0), ("GPU", 4.0), ("memory", 64e9)]));
        env.uses("only", used);
        let job = env.submit(a_job());
        let Reason::OverThreshold { resource: over, limit, .. } = env.reason(&job, "only") else { panic!() };
        assert_eq!((over, limit), (resource, Share::percent(70)));
    }
}

#[test]
fn at_exactly_the_threshold_a_cluster_still_takes_work() {
    let mut env = TestEnv::new();
    env.cluster(a_cluster("only").cpus(10.0));
    env.uses("only", &[("CPU", 7.0)]);
    let job = env.submit(a_job().cpus(3.0));
    assert_eq!(env.place(&job), "only");
}

#[test]
fn the_threshold_is_per_cluster() {
    let mut env = TestEnv::unspaced();
    env.cluster(a_cluster("tight").limits(|l| l.resource_threshold = Some(Share::percent(10))));
    env.uses("tight", &[("CPU", 1.0)]);
    let job = env.submit(a_job());
    assert_eq!(env.reason(&job, "tight").kind(), ReasonKind::OverThreshold);
    env.cluster(a_cluster("loose"));
    assert_eq!(env.place(&job), "loose");
}

#[test]
fn the_threshold_can_be_measured_on_the_hosts_load() {
    for (utilization, logical, physical, blocked) in [
        ("logical", 1.0, 0.9, false),
        ("physical", 1.0, 0.9, true),
        ("physical", 8.0, 0.1, false),
        ("max", 1.0, 0.9, true),
        ("max", 8.0, 0.1, true),
    ] {
        let mut env = TestEnv::with(|s| s.set("utilization", utilization).unwrap());
        env.cluster(a_cluster("only"));
        env.fake("only").physical.cpu = Some(Share::clamped(physical));
        env.uses("only", &[("CPU", logical)]);
        let job = env.submit(a_job());
        assert_eq!(env.state(&job) == State::Queued, blocked, "{utilization} {logical} {physical}");
    }
}

#[test]
fn work_from_inside_a_job_ignores_the_threshold_and_the_spacing() {
    let mut env = two_clusters(TestEnv::new());
    let parent = env.submit(a_job().requires("mac"));
    env.run(&parent);
    env.uses("mac", &[("CPU", 7.0)]);
    for child in [a_task(), an_actor(), a_job()] {
        let child = env.submit(child.inside(&parent, "mac"));
        assert_eq!(env.place(&child), "mac");
    }
}

// ---- 40-second rule

#[test]
fn one_top_level_submission_per_cluster_per_40_seconds() {
    let mut env = TestEnv::new();
    env.cluster(a_cluster("only"));
    let (first, second) = (env.submit(a_job()), env.submit(a_job()));
    let started = env.now;
    assert_eq!(env.state(&first), State::Dispatching);
    assert_eq!(env.reason(&second, "only"), Reason::TooSoon { until: started + Span::seconds(40) });
    env.advance(Span(39_999));
    assert_eq!(env.state(&second), State::Queued);
    env.advance(Span(1));
    assert_eq!(env.state(&second), State::Dispatching);
}

#[test]
fn the_interval_can_differ_per_cluster_and_zero_disables_it() {
    let mut env = TestEnv::new();
    env.cluster(a_cluster("only").limits(|l| l.submission_interval = Some(Span::ZERO)));
    for _ in 0..10 {
        let job = env.submit(a_job());
        assert_eq!(env.state(&job), State::Dispatching);
    }
}

#[test]
fn the_40_second_rule_survives_a_restart() {
    let mut env = TestEnv::new();
    env.cluster(a_cluster("only"));
    env.submit(a_job());
    env.advance_s(30);
    env.crash();
    env.poll("only");
    let second = env.submit(a_job());
    assert_eq!(env.state(&second), State::Queued);
    env.advance_s(9);
    assert_eq!(env.state(&second), State::Queued);
    env.advance_s(1);
    assert_eq!(env.state(&second), State::Dispatching);
}

// ---- top-level

#[test]
fn jobs_and_outside_tasks_are_top_level_and_actors_are_not() {
    let mut env = TestEnv::new();
    env.cluster(a_cluster("only"));
    env.submit(a_task());
    let job = env.submit(a_job());
    assert_eq!(env.reason(&job, "only").kind(), ReasonKind::TooSoon);
    let actor = env.submit(an_actor());
    assert_eq!(env.place(&actor), "only");
}

#[test]
fn a_batch_of_tasks_counts_as_one_submission() {
    let mut env = TestEnv::new();
    env.cluster(a_cluster("only"));
    env.send(a_batch((0..5).map(|i| a_task().id(&format!("t{i}")).cpus(1.0).batch("b1"))));
    for i in 0..5 {
        assert_eq!(env.place(&job_id(&format!("t{i}"))), "only");
    }
    let other = env.submit(a_task().batch("b2"));
    assert_eq!(env.reason(&other, "only").kind(), ReasonKind::TooSoon);
}

// ---- feasibility

#[test]
fn a_demand_larger_than_every_cluster_waits_and_says_so() {
    let mut env = two_clusters(TestEnv::new());
    let job = env.submit(a_job().cpus(100.0));
    for cluster in ["centos", "mac"] {
        assert_eq!(env.reason(&job, cluster).kind(), ReasonKind::Infeasible);
    }
    env.fake("mac").total = amounts(&[("CPU", 128.0)]);
    env.poll("mac");
    assert_eq!(env.place(&job), "mac", "the cluster grew");
}

#[test]
fn an_infeasible_demand_is_rejected_at_once_if_configured() {
    let mut env = two_clusters(TestEnv::with(|s| s.set("infeasible", "reject").unwrap()));
    let refusal = env.try_submit(a_job().cpus(100.0)).unwrap_err();
    assert_eq!(refusal.code(), "infeasible");
    assert!(refusal.to_string().contains("mac: too small: CPU 100 requested, 8 in total"), "{refusal}");
    assert!(env.try_submit(a_job().cpus(8.0)).is_ok());
}

// ---- ledger

#[test]
fn a_burst_does_not_land_on_one_cluster_because_the_facts_are_stale() {
    let mut env = two_clusters(TestEnv::unspaced());
    let jobs: Vec<_> = (0..4).map(|_| env.submit(a_job().cpus(4.0))).collect();
    let places: Vec<_> = jobs.iter().map(|job| env.place(job)).collect();
    assert_eq!(places, ["centos", "mac", "centos", "mac"]);
    let fifth = env.submit(a_job().cpus(4.0));
    assert_eq!(env.state(&fifth), State::Queued, "both are promised away");
}

#[test]
fn what_was_dispatched_counts_until_a_snapshot_taken_after_it_settled_shows_it() {
    let mut env = TestEnv::unspaced();
    env.cluster(a_cluster("only"));
    let assumed = |env: &TestEnv| env.core.cluster(&cluster_name("only")).unwrap().promised;
    let job = env.submit(a_job().cpus(4.0));
    env.advance_s(20);
    assert_eq!(assumed(&env), amounts(&[("CPU", 4.0)]), "not running yet: no snapshot can show it");
    env.run(&job);
    env.poll("only");
    assert_eq!(assumed(&env), amounts(&[("CPU", 4.0)]), "the snapshot is too fresh to be believed");
    env.fake("only").used = amounts(&[("CPU", 4.0)]);
    env.advance_s(12);
    assert_eq!(assumed(&env), amounts(&[]), "now the snapshot itself shows it");
}

// ---- execution mode

#[test]
fn serial_mode_runs_one_top_level_job_per_cluster() {
    let mut env = two_clusters(TestEnv::with(|s| {
        s.execution_mode = ExecutionMode::Serial;
        s.submission_interval = Span::ZERO;
    }));
    let jobs: Vec<_> = (0..3).map(|_| env.submit(a_job())).collect();
    assert_eq!([env.place(&jobs[0]), env.place(&jobs[1])], ["centos", "mac"]);
    assert_eq!(env.reason(&jobs[2], "mac"), Reason::AtLimit { running: 1, limit: 1 });
    env.run(&jobs[1]);
    env.succeed(&jobs[1]);
    assert_eq!(env.place(&jobs[2]), "mac");
}

#[test]
fn a_cluster_starts_only_so_many_jobs_at_once() {
    let mut env = TestEnv::with(|s| {
        s.submission_interval = Span::ZERO;
        s.set("max_starting", "2").unwrap();
    });
    env.cluster(a_cluster("only"));
    let jobs: Vec<_> = (0..4).map(|_| env.submit(a_job())).collect();
    assert_eq!(env.reason(&jobs[2], "only"), Reason::Starting { jobs: 2, limit: 2, lowered: None });
    env.accept(&jobs[0]);
    assert_eq!(env.state(&jobs[2]), State::Queued, "accepted is not started");
    env.run(&jobs[0]);
    assert_eq!(env.place(&jobs[2]), "only");
    env.crash();
    env.poll_all();
    assert_eq!(env.reason(&jobs[3], "only"), Reason::Starting { jobs: 2, limit: 2, lowered: None });
    let task = env.submit(a_task());
    assert_ne!(env.state(&task), State::Queued, "what a holder starts is its own business");
}

#[test]
fn max_running_jobs_generalises_serial_mode() {
    let mut env = TestEnv::with(|s| {
        s.set("submission_interval", "0").unwrap();
        s.set("max_running_jobs", "2").unwrap();
    });
    env.cluster(a_cluster("only"));
    let jobs: Vec<_> = (0..3).map(|_| env.submit(a_job())).collect();
    assert_eq!(env.reason(&jobs[2], "only"), Reason::AtLimit { running: 2, limit: 2 });
    let task = env.submit(a_task());
    assert_eq!(env.place(&task), "only", "the limit is on jobs");
}

// ---- dedup

#[test]
fn the_same_id_with_the_same_content_is_the_same_job() {
    let mut env = two_clusters(TestEnv::new());
    env.submit(a_job().id("x").content("train"));
    for state in [State::Dispatching, State::Succeeded] {
        assert_eq!(env.state(&job_id("x")), state);
        let again = env.try_submit(a_job().id("x").content("train")).unwrap();
        assert_eq!((again.job.as_str(), again.duplicate), ("x", Some(Duplicate::SameId)));
        env.succeed(&job_id("x"));
    }
    assert_eq!(env.core.job_count(), 1);
}

#[test]
fn the_same_id_with_other_content_is_a_conflict() {
    let mut env = two_clusters(TestEnv::new());
    env.submit(a_job().id("x").content("train"));
    for other in [a_job().id("x").content("infer"), a_job().id("x").content("train").cpus(1.0)] {
        let refusal = env.try_submit(other).unwrap_err();
        assert_eq!(refusal.code(), "conflict");
    }
}

#[test]
fn an_identical_queued_job_stands_in_for_one_without_an_id() {
    let mut env = TestEnv::new();
    env.cluster(a_cluster("only"));
    env.submit(a_job());
    let queued = env.submit(a_job().content("train"));
    let again = env.try_submit(a_job().content("train")).unwrap();
    assert_eq!((&again.job, again.duplicate), (&queued, Some(Duplicate::SameContent)));
    let different = env.try_submit(a_job().content("train").priority(1)).unwrap();
    assert_eq!(different.duplicate, None, "another priority is another job");
    env.advance_s(80);
    assert_ne!(env.state(&queued), State::Queued);
    let later = env.try_submit(a_job().content("train")).unwrap();
    assert_eq!(later.duplicate, None, "it is no longer queued");
}

// ---- breaker

/// Five failed dispatches in a row, each of another job that requires this cluster.
pub fn open_circuit(env: &mut TestEnv, cluster: &str) {
    for _ in 0..5 {
        let job = env.submit(a_job().requires(cluster));
        env.dispatched(&job, DispatchOutcome::Failed("connection refused".into()));
        env.send(Input::Stop { job });
    }
    env.effects.clear();
}

#[test]
fn five_failures_open_the_circuit_and_one_probe_closes_it() {
    let mut env = TestEnv::unspaced();
    env.cluster(a_cluster("only"));
    open_circuit(&mut env, "only");
    let (probe, other) = (env.submit(a_job()), env.submit(a_job()));
    assert_eq!(env.reason(&probe, "only"), Reason::BreakerOpen { until: env.now + Span::seconds(60) });
    env.advance_s(59);
    assert_eq!(env.state(&probe), State::Queued);
    env.advance_s(1);
    assert_eq!(env.state(&probe), State::Dispatching);
    assert_eq!(env.reason(&other, "only"), Reason::BreakerProbing);
    env.accept(&probe);
    assert_eq!(env.state(&other), State::Dispatching);
}

#[test]
fn a_failed_probe_opens_the_circuit_for_another_minute() {
    let mut env = TestEnv::unspaced();
    env.cluster(a_cluster("only"));
    open_circuit(&mut env, "only");
    let probe = env.submit(a_job());
    env.advance_s(60);
    env.dispatched(&probe, DispatchOutcome::Failed("again".into()));
    env.advance_s(59);
    assert_eq!(env.state(&probe), State::Queued);
    env.advance_s(1);
    assert_eq!(env.state(&probe), State::Dispatching);
}

#[test]
fn what_was_never_sent_does_not_count_against_its_cluster() {
    let mut env = TestEnv::unspaced();
    env.cluster(a_cluster("only"));
    for _ in 0..5 {
        let job = env.submit(a_job());
        env.dispatched(&job, DispatchOutcome::NotSent("our own disk".into()));
        assert_eq!(env.state(&job), State::Queued, "it is tried again");
        env.send(Input::Stop { job });
    }
    let next = env.submit(a_job());
    assert_eq!(env.state(&next), State::Dispatching);
    env.accept(&next);

    // It is not a probe either.
    open_circuit(&mut env, "only");
    let (first, second) = (env.submit(a_job()), env.submit(a_job()));
    env.advance_s(60);
    env.dispatched(&first, DispatchOutcome::NotSent("our own disk".into()));
    assert_eq!(env.state(&second), State::Dispatching);
}

#[test]
fn a_job_that_is_refused_does_not_count_against_its_cluster() {
    let mut env = TestEnv::unspaced();
    env.cluster(a_cluster("only"));
    for _ in 0..20 {
        let job = env.submit(a_job());
        env.dispatched(&job, DispatchOutcome::Refused("400: unknown key".into()));
        assert_eq!(env.state(&job), State::Failed);
    }
    let job = env.submit(a_job());
    assert_eq!(env.place(&job), "only");
}

// ---- retry

#[test]
fn a_failed_dispatch_is_retried_on_another_cluster_first() {
    let mut env = two_clusters(TestEnv::unspaced());
    let job = env.submit(a_job());
    assert_eq!(env.place(&job), "centos");
    env.dispatched(&job, DispatchOutcome::Failed("no agent".into()));
    assert_eq!(env.state(&job), State::Queued);
    env.advance_s(1);
    assert_eq!(env.place(&job), "mac");
    env.run(&job);
    env.succeed(&job);
    assert_eq!(
        env.history(&job),
        [(1, "centos", AttemptOutcome::NotStarted), (2, "mac", AttemptOutcome::Succeeded)]
    );
}

#[test]
fn retries_back_off_exponentially_with_jitter_and_end() {
    let mut env = TestEnv::with(|s| {
        s.set("submission_interval", "0").unwrap();
        s.set("breaker_failures", "1000").unwrap();
    });
    env.cluster(a_cluster("only"));
    let job = env.submit(a_job());
    let mut pauses = Vec::new();
    while env.state(&job) == State::Dispatching {
        env.dispatched(&job, DispatchOutcome::Failed("no agent".into()));
        let since = env.now;
        while env.state(&job) == State::Queued {
            env.advance(Span(100));
        }
        pauses.push(env.now.since(since).as_seconds());
    }
    assert_eq!(env.state(&job), State::Failed);
    assert_eq!(env.attempt(&job).0, 10);
    for (n, pause) in pauses.iter().take(8).enumerate() {
        let longest = f64::from(1 << n);
        assert!((longest / 2.0..=longest + 0.1).contains(pause), "retry {n} after {pause} s");
    }
    let explanation = env.summary(&job);
    assert!(
        explanation.contains("failed to start 10 times; last error, on cluster only: no agent"),
        "{explanation}"
    );
}

#[test]
fn a_job_that_ran_and_failed_is_failed_unless_it_may_be_retried() {
    let mut env = TestEnv::unspaced();
    env.cluster(a_cluster("only"));
    let once = env.submit(a_job());
    env.run(&once);
    env.fail(&once);
    assert_eq!(env.state(&once), State::Failed);

    let twice = env.submit(a_job().retries(1));
    env.run(&twice);
    env.fail(&twice);
    assert_eq!(env.state(&twice), State::Queued);
    env.advance_s(1);
    env.run(&twice);
    env.fail(&twice);
    assert_eq!(env.state(&twice), State::Failed);
    assert_eq!(env.history(&twice).len(), 2);
}

// ---- cluster lost

#[test]
fn jobs_of_a_lost_cluster_are_unknown_and_reconciled_when_it_is_back() {
    let mut env = two_clusters(TestEnv::unspaced());
    let (runs, ends) = (env.submit(a_job().requires("mac")), env.submit(a_job().requires("mac")));
    env.run(&runs);
    env.run(&ends);
    env.effects.clear();
    env.lose("mac");
    assert_eq!([env.state(&runs), env.state(&ends)], [State::Unknown; 2]);
    env.advance_s(3600);
    assert_eq!([env.state(&runs), env.state(&ends)], [State::Unknown; 2]);
    env.assert_quiet();
    env.bring_back("mac");
    env.answer(&runs, LookupOutcome::Found(RunStatus::Running));
    env.answer(&ends, LookupOutcome::Found(RunStatus::Succeeded));
    assert_eq!([env.state(&runs), env.state(&ends)], [State::Running, State::Succeeded]);
}

#[test]
fn idempotent_jobs_of_a_lost_cluster_run_elsewhere_and_the_old_attempt_is_stopped() {
    let mut env = two_clusters(TestEnv::unspaced());
    let job = env.submit(a_job().prefers("mac").idempotent());
    env.run(&job);
    env.lose("mac");
    env.advance_s(59);
    assert_eq!(env.state(&job), State::Unknown);
    env.advance_s(2);
    assert_eq!((env.place(&job), env.attempt(&job).0), ("centos", 2));
    env.effects.clear();
    env.bring_back("mac");
    let run = env.run_of(&job, 1);
    assert_eq!(env.take_effects(1), [Effect::Stop { run: run.clone(), cluster: cluster_name("mac") }]);
    env.send(Input::StopSent { run, answered: true });
    assert!(env.store.orphans.is_empty());
}

// ---- cordon / drain

#[test]
fn a_cordoned_cluster_takes_nothing_new_and_says_why() {
    let mut env = TestEnv::new();
    env.cluster(a_cluster("only"));
    let running = env.submit(a_job());
    env.run(&running);
    env.send(Input::Cordon {
        cluster: cluster_name("only"),
        note: Some("kernel update".into()),
        drain: false,
    });
    env.advance_s(60);
    let job = env.submit(a_job());
    assert_eq!(env.reason(&job, "only"), Reason::Cordoned { note: "kernel update".into() });
    assert_eq!(env.state(&running), State::Running, "what runs goes on");
    env.send(Input::Uncordon { cluster: cluster_name("only") });
    assert_eq!(env.place(&job), "only");
}

// ---- queues: see queues.rs · failure: see attempts.rs and explain.rs

#[test]
fn a_failure_names_the_cluster_the_attempt_and_the_error() {
    let mut env = TestEnv::new();
    env.cluster(a_cluster("only"));
    let job = env.submit(a_job());
    env.run(&job);
    env.fail(&job);
    let failed = env.events.iter().rev().find_map(|e| match e {
        multicluster_core::Event::Job { state: State::Failed, cluster, attempt, message, .. } => {
            Some((cluster.clone().unwrap(), attempt.unwrap().0, message.clone().unwrap()))
        }
        _ => None,
    });
    assert_eq!(failed, Some((cluster_name("only"), 1, "exit code 1".into())));
}

#[test]
fn a_queue_without_clusters_is_a_clear_error() {
    let mut env = TestEnv::new();
    assert!(matches!(env.try_submit(a_job()), Err(Refusal::NoClusters)));
    assert_eq!(env.core.what_if(&multicluster_types::Work::new(Kind::Job), None).chosen, None);
    assert_eq!(env.core.now(), Timestamp(1_000_000));
}
