//! Clusters that can grow: they get work that fits once they have grown, after those that have room now,
//! and are found out if they do not grow.

use multicluster_core::{ClusterChange, Effect, RunStatus};
use multicluster_types::{
    Autoscaler, JobId, Kind, Lang, PolicyRule, PolicySpec, Quantity, Reason, ReasonKind, Span, State, Work,
};

use crate::env::*;

/// A head without any CPU that can grow to four nodes of 16 CPUs.
fn cloud() -> ClusterBuilder {
    a_cluster("cloud").nodes(&[0.0]).elastic(64.0, 16.0)
}

fn only_cloud() -> TestEnv {
    let mut env = TestEnv::unspaced();
    env.cluster(cloud());
    env
}

/// A resident cluster of 16 CPUs beside it.
fn with_resident() -> TestEnv {
    let mut env = only_cloud();
    env.cluster(a_cluster("centos").cpus(16.0));
    env
}

fn grows(env: &TestEnv, job: &JobId) -> u32 {
    env.core.job(job).and_then(|record| record.live()).expect("it is on a cluster").grows
}

fn never_started() -> RunStatus {
    RunStatus::Failed { message: "The actor never ran".into(), never_started: true, exit_code: None }
}

fn recalls(env: &TestEnv) -> usize {
    env.effects.iter().filter(|effect| matches!(effect, Effect::Recall { .. })).count()
}

/// Sends a job of 16 CPUs there and lets it wait in vain.
fn wait_in_vain(env: &mut TestEnv) -> JobId {
    let job = env.submit(a_job().id("first").cpus(16.0));
    env.accept(&job);
    env.effects.clear();
    env.advance_s(601);
    job
}

#[test]
fn a_cluster_that_can_grow_gets_what_fits_once_it_has_grown() {
    let mut env = only_cloud();
    let (job, task) = (env.submit(a_job().cpus(16.0)), env.submit(a_task().cpus(4.0)));
    let needs = env.submit(a_job().needs(&[("CPU", 20.0)]));
    for (work, nodes) in [(&job, 1), (&task, 1), (&needs, 2)] {
        assert_eq!((env.place(work), grows(&env, work)), ("cloud", nodes));
    }
    let too_large = env.submit(a_job().cpus(17.0));
    let reason = env.reason(&too_large, "cloud").describe(env.now, Lang::En);
    assert_eq!(reason, "largest node has CPU 16, 17 requested on one node");
    let too_much = env.submit(a_job().needs(&[("CPU", 65.0)]));
    let reason = env.reason(&too_much, "cloud").describe(env.now, Lang::En);
    assert_eq!(reason, "too small: CPU 65 requested, 64 in total");
}

#[test]
fn a_cluster_with_room_now_comes_first_and_growth_is_better_than_waiting() {
    let mut env = with_resident();
    let resident = env.submit(a_job().cpus(16.0));
    let grown = env.submit(a_job().cpus(16.0));
    assert_eq!((env.place(&resident), env.place(&grown)), ("centos", "cloud"));
    assert_eq!((grows(&env, &resident), grows(&env, &grown)), (0, 1));
    let mut work = Work::new(Kind::Job);
    work.demand = amounts(&[("CPU", 32.0)]);
    work.reserves = Some(Box::new(amounts(&[])));
    let tried = env.core.what_if(&work, None);
    let told: Vec<_> = tried.clusters.iter().map(|c| c.describe(env.now, Lang::En)).collect();
    assert!(told[0].ends_with("would have to grow by 2 nodes"), "{told:?}");
    assert_eq!(told[1], "too small: CPU 32 requested, 16 in total");
}

#[test]
fn a_policy_that_looks_at_growth_decides_alone() {
    let mut env = TestEnv::with(|settings| {
        settings.submission_interval = Span::ZERO;
        let expression = "grows_by > 0.0 ? 1.0 : 0.0".into();
        let rule = PolicyRule::Score { expression, weight: 1.0 };
        settings.policies = vec![PolicySpec { name: "elastic first".into(), rule }];
    });
    env.cluster(cloud()).cluster(a_cluster("centos").cpus(16.0));
    let job = env.submit(a_job().cpus(4.0));
    assert_eq!(env.place(&job), "cloud");
}

#[test]
fn growth_on_its_way_is_bounded_by_what_can_still_grow() {
    let mut env = only_cloud();
    env.set("resource_threshold", "1.0");
    let jobs: Vec<_> = (0..6).map(|_| env.submit(a_job().cpus(16.0))).collect();
    let places: Vec<_> = jobs.iter().map(|job| env.place(job)).collect();
    assert_eq!(places, ["cloud", "cloud", "cloud", "cloud", "", ""]);
    let reason = env.reason(&jobs[4], "cloud");
    assert_eq!(reason.describe(env.now, Lang::En), "no room: CPU 16 requested, 0 free");
}

#[test]
fn the_threshold_is_measured_against_what_it_can_have() {
    let mut env = TestEnv::unspaced();
    env.cluster(a_cluster("cloud").nodes(&[0.0, 16.0]).elastic(64.0, 16.0));
    env.fake("cloud").nodes[1].free = amounts(&[("memory", 8e9)]);
    env.uses("cloud", &[("CPU", 16.0)]);
    let job = env.submit(a_job().cpus(1.0));
    assert_eq!((env.place(&job), grows(&env, &job)), ("cloud", 1), "16 of 64 are in use");
    env.has_nodes("cloud", &[0.0, 16.0, 16.0, 16.0]);
    env.uses("cloud", &[("CPU", 46.0)]);
    let job = env.submit(a_job().cpus(1.0));
    assert_eq!(env.reason(&job, "cloud").kind(), ReasonKind::OverThreshold);
}

#[test]
fn a_head_without_cpus_is_healthy_and_takes_jobs_that_reserve_nothing() {
    for builder in [cloud(), a_cluster("cloud").nodes(&[0.0]), a_cluster("cloud").total(&[])] {
        let mut env = TestEnv::unspaced();
        env.cluster(builder);
        assert_eq!(env.view("cloud").closed, None);
        let job = env.submit(a_job());
        assert_eq!((env.place(&job), grows(&env, &job)), ("cloud", 0));
    }
}

#[test]
fn jobs_that_wait_for_nodes_do_not_keep_others_from_starting() {
    let mut env = TestEnv::unspaced();
    env.set("max_starting", "1");
    env.set("resource_threshold", "1.0");
    env.cluster(a_cluster("cloud").nodes(&[4.0]).elastic(64.0, 16.0));
    let waits = env.submit(a_job().cpus(16.0));
    let small = env.submit(a_job().cpus(1.0));
    assert_eq!((env.place(&waits), env.place(&small)), ("cloud", "cloud"));
    let second = env.submit(a_job().cpus(16.0));
    env.run(&small);
    assert_eq!(env.reason(&second, "cloud").kind(), ReasonKind::Starting, "one at a time");
    env.run(&waits);
    assert_eq!(env.place(&second), "cloud");
}

#[test]
fn a_waiting_job_says_what_it_waits_for() {
    let mut env = only_cloud();
    let job = env.submit(a_job().id("night").cpus(16.0));
    env.accept(&job);
    env.fake("cloud").autoscaler =
        Some(Autoscaler { pending: 1, failed: 1, failure: Some("worker: no capacity".into()) });
    env.poll("cloud");
    assert_eq!(
        env.summary(&job),
        "pending on cloud (attempt 1), waiting for 1 more node (1 on the way); its autoscaler: worker: no \
         capacity; if none comes within 10 min, the job is taken back"
    );
    env.has_nodes("cloud", &[0.0, 16.0]);
    env.observe(&job, RunStatus::Running);
    assert_eq!(env.summary(&job), "running on cloud (attempt 1)");
    assert_eq!(env.view("cloud").growth.unwrap().waiting, 0);
}

#[test]
fn a_cluster_that_does_not_grow_is_found_out_and_its_job_goes_elsewhere() {
    let mut env = only_cloud();
    env.fake("cloud").autoscaler =
        Some(Autoscaler { failure: Some("quota".into()), ..Autoscaler::default() });
    let job = wait_in_vain(&mut env);
    let told = ClusterChange::NotGrown("it did not grow within 10m: quota".into());
    assert!(env.changes("cloud").contains(&&told), "{:?}", env.changes("cloud"));
    assert!(matches!(&env.effects[..], [Effect::Recall { run, .. }] if run.job == job), "{:?}", env.effects);
    // Other work does not go there to wait, and says why.
    let other = env.submit(a_job().cpus(16.0));
    let Reason::NotGrown { reached, .. } = env.reason(&other, "cloud") else { panic!() };
    assert_eq!(reached, Quantity::ZERO);
    assert_eq!(
        env.reason(&other, "cloud").describe(env.now, Lang::En),
        "was asked to grow 10 min ago and did not: CPU 16 requested, 0 reached; its autoscaler: quota"
    );
    env.observe(&job, never_started());
    assert_eq!(env.state(&job), State::Queued);
    env.cluster(a_cluster("centos").cpus(16.0));
    env.advance_s(10);
    assert_eq!((env.place(&other), env.state(&job)), ("centos", State::Queued));
}

#[test]
fn taking_a_job_back_costs_none_of_its_attempts_and_is_tried_until_it_is_answered() {
    let mut env = only_cloud();
    env.set("dispatch_attempts", "1");
    let job = wait_in_vain(&mut env);
    assert_eq!(recalls(&env), 1);
    env.advance_s(61);
    assert_eq!(recalls(&env), 2, "again");
    env.observe(&job, never_started());
    assert_eq!(env.state(&job), State::Queued);
    // The cluster is asked again after a while; this time the job is faster than the recall.
    env.advance_s(1200);
    assert_eq!((env.place(&job), grows(&env, &job)), ("cloud", 1));
    env.accept(&job);
    env.advance_s(601);
    env.observe(&job, RunStatus::Running);
    assert_eq!(env.state(&job), State::Running);
    env.effects.clear();
    env.advance_s(3600);
    assert_eq!(recalls(&env), 0, "what runs stays");
    env.succeed(&job);
}

#[test]
fn a_cluster_that_grows_after_all_is_believed_again() {
    let mut env = only_cloud();
    env.set("resource_threshold", "1.0");
    let job = wait_in_vain(&mut env);
    env.observe(&job, never_started());
    env.has_nodes("cloud", &[0.0, 16.0]);
    env.advance_s(10);
    assert_eq!((env.place(&job), grows(&env, &job)), ("cloud", 0), "it has grown after all");
    env.run(&job);
    env.uses("cloud", &[("CPU", 16.0)]);
    let more = env.submit(a_job().cpus(16.0));
    assert_eq!((env.place(&more), grows(&env, &more)), ("cloud", 1));
}

#[test]
fn a_cluster_that_grows_only_in_part_is_as_large_as_that_also_when_it_is_empty_again() {
    let mut env = only_cloud();
    env.set("resource_threshold", "1.0");
    let jobs = [env.submit(a_job().cpus(16.0)), env.submit(a_job().cpus(16.0))];
    jobs.iter().for_each(|job| env.accept(job));
    env.advance_s(500);
    env.has_nodes("cloud", &[0.0, 16.0]);
    env.observe(&jobs[0], RunStatus::Running);
    env.advance_s(500);
    assert!(env.view("cloud").growth.unwrap().stuck.is_none(), "time counts from when it last grew");
    env.advance_s(110);
    env.observe(&jobs[1], never_started());
    let large = env.submit(a_job().needs(&[("CPU", 32.0)]));
    let Reason::NotGrown { reached, .. } = env.reason(&large, "cloud") else { panic!() };
    assert_eq!(reached.as_f64(), 16.0);
    env.succeed(&jobs[0]);
    env.has_nodes("cloud", &[0.0]);
    let growth = env.view("cloud").growth.unwrap();
    assert_eq!((growth.can_add, growth.grown.cpu.as_f64()), (1, 16.0));
}

#[test]
fn a_cluster_that_cannot_be_seen_is_not_blamed() {
    let mut env = only_cloud();
    let job = env.submit(a_job().cpus(16.0));
    env.accept(&job);
    env.advance_s(300);
    env.lose("cloud");
    env.advance_s(900);
    env.bring_back("cloud");
    assert!(env.view("cloud").growth.unwrap().stuck.is_none());
    env.crash();
    env.poll("cloud");
    env.advance_s(300);
    let growth = env.view("cloud").growth.unwrap();
    assert_eq!((growth.waiting, growth.stuck), (1, None), "it waits on after a restart");
}

#[test]
fn a_job_that_takes_long_to_start_on_its_new_node_is_left_alone() {
    let mut env = only_cloud();
    let job = env.submit(a_job().cpus(16.0));
    env.accept(&job);
    env.effects.clear();
    env.has_nodes("cloud", &[0.0, 16.0]);
    env.fake("cloud").nodes[1].free = amounts(&[("memory", 8e9)]);
    env.uses("cloud", &[("CPU", 16.0)]);
    env.advance_s(3600);
    assert_eq!(
        (recalls(&env), env.view("cloud").growth.unwrap().stuck),
        (0, None),
        "it builds its runtime_env"
    );
}

#[test]
fn a_node_that_is_gone_between_poll_and_dispatch_is_waited_for_as_long() {
    let mut env = TestEnv::unspaced();
    env.cluster(a_cluster("cloud").nodes(&[0.0, 16.0]).elastic(64.0, 16.0));
    let job = env.submit(a_job().cpus(16.0));
    assert_eq!(grows(&env, &job), 0);
    env.accept(&job);
    env.has_nodes("cloud", &[0.0]);
    env.effects.clear();
    env.advance_s(605);
    assert_eq!(recalls(&env), 1);
}

#[test]
fn a_job_that_waits_for_nodes_can_be_stopped() {
    let mut env = only_cloud();
    let job = env.submit(a_job().cpus(16.0));
    env.accept(&job);
    env.effects.clear();
    env.stop(&job).unwrap();
    assert_eq!(recalls(&env), 1, "Ray ignores a stop of a pending job");
    env.observe(&job, never_started());
    assert_eq!(env.state(&job), State::Stopped);
}

#[test]
fn a_new_description_is_believed() {
    let mut env = only_cloud();
    let job = wait_in_vain(&mut env);
    env.observe(&job, never_started());
    assert!(env.view("cloud").growth.unwrap().stuck.is_some());
    let spec = Box::new(a_cluster("cloud").elastic(32.0, 16.0).spec);
    env.ask(multicluster_core::Input::Register { spec, replace: true }).unwrap();
    let growth = env.view("cloud").growth.unwrap();
    assert_eq!((growth.stuck, growth.can_add), (None, 2));
    let spec = Box::new(a_cluster("cloud").spec);
    env.ask(multicluster_core::Input::Register { spec, replace: true }).unwrap();
    assert_eq!(env.view("cloud").growth, None);
}
