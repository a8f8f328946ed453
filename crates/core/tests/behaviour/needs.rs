//! The resources a job needs of its cluster differ from those its driver reserves there.

use multicluster_types::{Lang, Origin, Reason, ReasonKind, State};

use crate::env::*;

const SIXTEEN: &[(&str, f64)] = &[("CPU", 16.0)];

/// Two clusters of 16 CPUs, as the users have them, without the 40-second rule.
fn users_pool() -> TestEnv {
    let mut env = TestEnv::unspaced();
    env.cluster(a_cluster("centos").cpus(16.0)).cluster(a_cluster("mac").cpus(16.0));
    env
}

#[test]
fn a_job_that_needs_a_whole_cluster_goes_to_an_empty_one_and_the_third_waits_for_the_first() {
    let mut env = users_pool();
    let jobs: Vec<_> = (0..3).map(|_| env.submit(a_job().needs(SIXTEEN))).collect();
    let mut places = [env.place(&jobs[0]).to_owned(), env.place(&jobs[1]).to_owned()];
    places.sort();
    assert_eq!(places, ["centos", "mac"]);
    env.run(&jobs[0]);
    env.run(&jobs[1]);
    // Both use less than they need: their needs count all the same.
    env.uses("centos", &[("CPU", 3.0)]);
    env.uses("mac", &[("CPU", 3.0)]);
    env.advance_s(60);
    assert_eq!(env.state(&jobs[2]), State::Queued);
    let first = env.place(&jobs[0]).to_owned();
    let reason = env.reason(&jobs[2], &first);
    assert_eq!(reason.describe(env.now, Lang::En), "no room: CPU 16 requested, 0 free, running jobs need 16");
    env.succeed(&jobs[0]);
    env.uses(&first, &[]);
    assert_eq!(env.place(&jobs[2]), first);
}

#[test]
fn needs_are_not_what_the_driver_reserves() {
    let mut env = users_pool();
    let job = env.submit(a_job().needs(SIXTEEN));
    let work = env.core.job(&job).unwrap().work.clone();
    assert!(work.on_one_node().is_empty() && work.burdens_head(), "Ray sets nothing aside");
    assert_eq!(env.view(env.place(&job)).drivers, 1, "so its driver is on the head node");
}

#[test]
fn a_job_that_reserves_more_than_it_needs_needs_what_it_reserves() {
    let mut env = users_pool();
    let job = env.submit(a_job().cpus(12.0).needs(&[("CPU", 4.0), ("memory", 1e9)]));
    let work = env.core.job(&job).unwrap().work.clone();
    assert_eq!(work.demand, amounts(&[("CPU", 12.0), ("memory", 1e9)]));
    assert_eq!(*work.on_one_node(), amounts(&[("CPU", 12.0)]));
}

#[test]
fn used_claimed_and_promised_are_told_apart() {
    let mut env = users_pool();
    let job = env.submit(a_job().needs(&[("CPU", 8.0)]).requires("mac"));
    assert_eq!(env.view("mac").promised, amounts(&[("CPU", 8.0)]));
    assert!(env.view("mac").claimed.is_empty());
    env.run(&job);
    env.uses("mac", &[("CPU", 3.0)]);
    env.advance_s(10);
    let mac = env.view("mac");
    assert!(mac.promised.is_empty());
    assert_eq!((mac.claimed, mac.snapshot.unwrap().used.cpu.as_f64()), (amounts(&[("CPU", 8.0)]), 3.0));
    env.succeed(&job);
    assert!(env.view("mac").claimed.is_empty());
}

#[test]
fn claims_do_not_count_against_the_threshold() {
    let mut env = users_pool();
    let large = env.submit(a_job().needs(&[("CPU", 14.0)]).requires("mac"));
    let small = env.submit(a_job().needs(&[("CPU", 2.0)]).requires("mac"));
    assert_eq!(env.reason(&small, "mac").kind(), ReasonKind::OverThreshold, "a promise counts");
    env.run(&large);
    env.uses("mac", &[("CPU", 1.0)]);
    env.advance_s(10);
    assert_eq!(env.place(&small), "mac", "1 of 16 CPUs is in use, and 2 are nobody's");
}

#[test]
fn what_others_use_and_what_we_need_is_not_added_up() {
    let mut env = users_pool();
    let ours = env.submit(a_job().needs(&[("CPU", 6.0)]).requires("mac"));
    env.run(&ours);
    // Our job uses its 6, other work uses 4.
    env.uses("mac", &[("CPU", 10.0)]);
    env.advance_s(10);
    let next = env.submit(a_job().needs(&[("CPU", 7.0)]).requires("mac"));
    let Reason::NoRoom { free, claimed, .. } = env.reason(&next, "mac") else { panic!("it has no room") };
    assert_eq!((free.as_f64(), claimed.as_f64()), (6.0, 6.0));
    let fits = env.submit(a_job().needs(&[("CPU", 6.0)]).requires("mac"));
    assert_eq!(env.place(&fits), "mac");
}

#[test]
fn until_started_only_what_the_facts_show_counts_as_in_the_prototype() {
    let mut env = users_pool();
    env.set("claims", "until_started");
    let first = env.submit(a_job().needs(SIXTEEN).requires("mac"));
    let second = env.submit(a_job().needs(&[("CPU", 10.0)]).requires("mac"));
    env.run(&first);
    env.uses("mac", &[("CPU", 3.0)]);
    env.advance_s(10);
    assert_eq!(env.place(&second), "mac");
    assert!(env.view("mac").claimed.is_empty());
    // The rule in force now decides, not the rule at dispatch.
    env.set("claims", "while_running");
    assert_eq!(env.view("mac").claimed, amounts(SIXTEEN));
}

#[test]
fn claims_are_there_again_after_a_crash() {
    let mut env = users_pool();
    let job = env.submit(a_job().needs(SIXTEEN).requires("mac"));
    env.run(&job);
    env.uses("mac", &[("CPU", 2.0)]);
    env.advance_s(10);
    env.crash();
    env.poll_all();
    let next = env.submit(a_job().needs(&[("CPU", 4.0)]).requires("mac"));
    assert_eq!(env.reason(&next, "mac").kind(), ReasonKind::NoRoom);
    env.advance_s(30);
    assert_eq!(env.view("mac").claimed, amounts(SIXTEEN));
}

#[test]
fn what_a_job_starts_uses_its_claim_and_is_not_counted_twice() {
    let mut env = users_pool();
    let parent = env.submit(a_job().needs(SIXTEEN).requires("mac"));
    env.run(&parent);
    // At once, even while the facts do not show the parent yet.
    let early = env.submit(a_task().cpus(4.0).inside(&parent, "mac"));
    assert_eq!(env.place(&early), "mac");
    assert_eq!(env.core.job(&early).unwrap().work.origin, Origin::Inside);
    env.heartbeat(&early).unwrap();
    env.uses("mac", &[("CPU", 4.0)]);
    env.advance_s(10);
    let child = env.submit(a_task().cpus(12.0).inside(&parent, "mac"));
    assert_eq!(env.place(&child), "mac", "all of it is the parent's");
    let beyond = env.submit(a_task().cpus(1.0).inside(&parent, "mac"));
    assert_eq!(env.reason(&beyond, "mac").kind(), ReasonKind::NoRoom, "Ray has no more to give");
    env.succeed(&parent);
    assert!(env.view("mac").claimed.is_empty(), "children have no claims of their own");
}

#[test]
fn the_owner_of_a_larger_need_is_told_at_once_that_no_cluster_is_large_enough() {
    let mut env = TestEnv::unspaced();
    env.cluster(a_cluster("a").cpus(10.0)).cluster(a_cluster("b").cpus(10.0));
    let told = env.try_submit(a_job().needs(SIXTEEN)).unwrap();
    let notice = "needs CPU 16, but the largest cluster has 10; queued until a cluster grows";
    let notices: Vec<_> = told.notices.iter().map(|notice| notice.describe(Lang::En)).collect();
    assert_eq!(notices, [notice]);
    assert_eq!(
        env.reason(&told.job, "a").describe(env.now, Lang::En),
        "too small: CPU 16 requested, 10 in total"
    );
    assert!(env.try_submit(a_job().needs(&[("CPU", 10.0)])).unwrap().notices.is_empty());
    env.fake("b").total = amounts(SIXTEEN);
    env.poll("b");
    assert_eq!(env.place(&told.job), "b", "it grew");
}

#[test]
fn needs_that_no_cluster_has_are_refused_where_the_pool_rejects() {
    let mut env = users_pool();
    env.set("infeasible", "reject");
    let refused = env.try_submit(a_job().needs(&[("CPU", 17.0)])).unwrap_err().to_string();
    assert!(refused.contains("too small: CPU 17 requested, 16 in total"), "{refused}");
}
