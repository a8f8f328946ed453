//! Queues: separate, bounded, ordered; which work may pass, and what a look costs.

use std::collections::BTreeMap;

use multicluster_core::{CycleStats, DispatchOutcome, Input, Reply};
use multicluster_types::{JobId, Lang, Owner, Reason, ReasonKind, Share, Span, State, settings::Bytes};

use crate::env::*;

fn lengths(env: &TestEnv) -> BTreeMap<String, u32> {
    env.core.queues().map(|(name, len)| (name.to_string(), len)).collect()
}

/// Feeds one input and returns what its cycle did.
fn cycle_of(env: &mut TestEnv, input: Input) -> Option<CycleStats> {
    let out = env.core.handle(env.now, input);
    let cycle = out.cycle.clone();
    env.commit(out);
    cycle
}

/// The order in which jobs were placed so far.
fn order(env: &TestEnv) -> Vec<&str> {
    env.decisions.iter().map(|d| d.job.as_str()).collect()
}

// ---- separate and bounded

#[test]
fn jobs_and_tasks_wait_apart_each_globally_and_per_cluster() {
    let mut env = TestEnv::pair();
    env.cordon("centos");
    env.cordon("mac");
    for work in [a_job(), a_job().requires("mac"), a_task(), a_task().prefers("mac"), an_actor()] {
        env.submit(work);
    }
    let expected = [("jobs", 1), ("jobs@mac", 1), ("tasks", 2), ("tasks@mac", 1)];
    assert_eq!(lengths(&env), expected.map(|(name, len)| (name.to_owned(), len)).into());
}

#[test]
fn a_full_queue_is_named_and_the_others_take_on() {
    let mut env = TestEnv::with(|s| s.max_queue = 2);
    env.cluster(a_cluster("mac"));
    env.cordon("mac");
    for _ in 0..2 {
        env.submit(a_job().requires("mac"));
    }
    let refusal = env.try_submit(a_job().prefers("mac")).unwrap_err();
    assert_eq!(refusal.code(), "queue_full");
    assert_eq!(
        refusal.to_string(),
        "queue jobs@mac is full: 2 are waiting\n  hint: submit later, or raise max_queue"
    );
    for other in [a_job(), a_task(), a_task().prefers("mac")] {
        env.submit(other);
    }
}

#[test]
fn a_batch_that_does_not_fit_is_taken_as_far_as_it_does() {
    let mut env = TestEnv::with(|s| s.max_queue = 3);
    env.cluster(a_cluster("only"));
    env.cordon("only");
    let batch = (0..5).map(|n| a_task().id(&format!("t{n}")));
    let Reply::Each(answers) = env.ask(a_batch(batch)).unwrap() else { panic!() };
    let taken: Vec<_> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(taken, [true, true, true, false, false]);
}

#[test]
fn stopping_a_queued_job_frees_its_place() {
    let mut env = TestEnv::with(|s| s.max_queue = 1);
    env.cluster(a_cluster("only"));
    env.cordon("only");
    let job = env.submit(a_job());
    assert!(env.try_submit(a_job()).is_err());
    env.stop(&job).unwrap();
    assert_eq!(lengths(&env)["jobs"], 0);
    env.submit(a_job());
}

#[test]
fn what_is_stored_for_jobs_that_have_not_ended_is_bounded_by_owner_and_in_total() {
    let mut env = TestEnv::with(|s| s.job_store = Bytes(4 << 20));
    env.cluster(a_cluster("only"));
    env.cordon("only");
    let mib = |owner: &str| {
        let mut job = a_job();
        (job.0.work.owner, job.0.bytes) = (Some(Owner::new(owner).unwrap()), 1 << 20);
        job
    };
    let first = env.submit(mib("ann"));
    env.submit(mib("ann"));
    let refusal = env.try_submit(mib("ann")).unwrap_err();
    assert_eq!(refusal.code(), "queue_full");
    assert_eq!(
        refusal.to_string(),
        "your jobs that have not ended take 2 of 2 MiB\n  hint: submit later, put large data into working_dir, or raise job_store"
    );
    env.submit(a_task());
    env.submit(mib("bob"));
    env.submit(mib("bob"));
    let refusal = env.try_submit(mib("eve")).unwrap_err().to_string();
    assert!(refusal.starts_with("jobs that have not ended take 4 of 4 MiB\n"), "{refusal}");

    env.stop(&first).unwrap();
    env.submit(mib("eve"));
    assert!(env.ask(Input::Rerun { job: first }).is_err(), "a job that is run again counts again");
}

#[test]
fn a_retry_is_never_turned_away_by_a_full_queue() {
    let mut env = TestEnv::with(|s| s.max_queue = 1);
    env.cluster(a_cluster("only"));
    let (first, second) = (env.submit(a_job()), env.submit(a_job()));
    env.dispatched(&first, DispatchOutcome::Failed("no agent".into()));
    assert_eq!([env.state(&first), env.state(&second)], [State::Queued; 2]);
    assert_eq!(lengths(&env)["jobs"], 2);
}

// ---- priority, then first in, first out

#[test]
fn higher_priority_goes_first_and_equals_in_the_order_of_arrival() {
    let mut env = TestEnv::only();
    env.cordon("only");
    for (id, priority, cpus) in
        [("a", 0, 1.0), ("b", 5, 1.0), ("c", 0, 2.0), ("d", -3, 0.0), ("e", 5, 0.5), ("f", 0, 1.0)]
    {
        env.submit(a_job().id(id).priority(priority).cpus(cpus));
    }
    env.uncordon("only");
    assert_eq!(order(&env), ["b", "e", "a", "c", "f", "d"]);
}

#[test]
fn jobs_and_tasks_share_one_order() {
    let mut env = TestEnv::only();
    env.cordon("only");
    for (id, work) in [("a", a_job()), ("b", a_task()), ("c", a_job().prefers("only")), ("d", an_actor())] {
        env.submit(work.id(id));
    }
    env.uncordon("only");
    assert_eq!(order(&env), ["a", "b", "c", "d"]);
}

#[test]
fn a_retried_job_keeps_its_place_in_the_queue() {
    let mut env = TestEnv::with(|s| {
        s.set("submission_interval", "0").unwrap();
        s.set("execution_mode", "serial").unwrap();
    });
    env.cluster(a_cluster("only"));
    let jobs = ["a", "b", "c"].map(|id| env.submit(a_job().id(id)));
    env.dispatched(&jobs[0], DispatchOutcome::Failed("no agent".into()));
    env.run(&jobs[1]);
    env.advance_s(2);
    assert_eq!(env.core.explain(&jobs[2]).unwrap().ahead, Some(1));
    env.succeed(&jobs[1]);
    env.run(&jobs[0]);
    env.succeed(&jobs[0]);
    assert_eq!(order(&env), ["a", "b", "a", "c"], "b passed only while a was backing off");
}

// ---- which work may pass

/// One cluster of 8 CPUs without threshold or spacing. Work of others uses `used` of the CPUs.
fn used_by_others(used: f64) -> TestEnv {
    let mut env = TestEnv::with(|s| {
        s.submission_interval = Span::ZERO;
        s.resource_threshold = Share::percent(100);
    });
    env.cluster(a_cluster("only").used(&[("CPU", used)]));
    env
}

/// The same, used by a job of ours.
fn crowded(used: f64) -> TestEnv {
    let mut env = used_by_others(0.0);
    env.crowd("only", used);
    env
}

/// The same, with a job for the whole cluster that has waited for `starvation_after`.
fn starved() -> (TestEnv, JobId) {
    let mut env = crowded(2.0);
    let large = env.submit(a_job().id("large").cpus(8.0));
    env.advance_s(300);
    (env, large)
}

#[test]
fn small_work_passes_a_blocked_large_job() {
    let mut env = crowded(2.0);
    let large = env.submit(a_job().cpus(8.0));
    env.advance_s(299);
    let small = env.submit(a_job().cpus(1.0));
    assert_eq!((env.place(&small), env.place(&large)), ("only", ""));
}

#[test]
fn a_starving_head_keeps_later_work_off_the_next_cluster_that_could_hold_it() {
    let (mut env, large) = starved();
    assert_eq!(env.view("only").reserved_for, Some(large.clone()));
    for later in [a_job().cpus(1.0), a_task(), an_actor(), a_job().priority(-1)] {
        let later = env.submit(later);
        assert_eq!(env.reason(&later, "only"), Reason::Reserved { job: Some(large.clone()) });
    }
    env.advance_s(3600);
    assert_eq!(lengths(&env)["jobs"], 3);
    env.empty("only");
    assert_eq!(env.place(&large), "only");
}

#[test]
fn later_work_goes_to_the_cluster_of_a_starving_head_as_long_as_it_leaves_its_room() {
    let mut env = used_by_others(0.0);
    let first = env.submit(a_job().id("first").cpus(4.0));
    env.run(&first);
    env.uses("only", &[("CPU", 4.0)]);
    let large = env.submit(a_job().id("large").cpus(6.0));
    env.advance_s(300);
    assert_eq!(env.view("only").reserved_for, Some(large.clone()));
    let beside = env.submit(a_job().cpus(1.5));
    assert_eq!(env.place(&beside), "only", "6 of 8 CPUs stay for the large job");
    let too_much = env.submit(a_job().cpus(1.0));
    assert_eq!(env.reason(&too_much, "only"), Reason::Reserved { job: Some(large.clone()) });
    let gpus_only = env.submit(a_job().demand(&[("memory", 1e9)]));
    assert_eq!(env.place(&gpus_only), "only", "it takes nothing of what the large job demands");
    let says_nothing = env.submit(a_job());
    assert_eq!(env.reason(&says_nothing, "only").kind(), ReasonKind::Reserved, "it may use anything");
    env.run(&beside);
    env.run(&gpus_only);
    env.uses("only", &[("CPU", 5.5)]);
    env.advance_s(60);
    env.succeed(&first);
    env.uses("only", &[("CPU", 1.5)]);
    assert_eq!(env.place(&large), "only", "the end of earlier work was enough");
}

#[test]
fn later_work_on_other_nodes_leaves_the_node_of_a_starving_head() {
    let mut env = TestEnv::with(|s| {
        s.submission_interval = Span::ZERO;
        s.resource_threshold = Share::percent(100);
    });
    env.cluster(a_cluster("only").nodes(&[4.0, 4.0, 4.0]));
    let earlier: Vec<_> = (0..3).map(|_| env.submit(a_job().cpus(2.0))).collect();
    earlier.iter().for_each(|job| env.run(job));
    env.uses("only", &[("CPU", 6.0)]);
    env.fake("only").nodes = a_cluster("x").nodes(&[4.0, 4.0, 4.0]).nodes;
    env.fake("only").nodes.iter_mut().for_each(|node| node.free = amounts(&[("CPU", 2.0)]));
    env.poll("only");
    let whole_node = env.submit(a_job().id("whole-node").cpus(4.0));
    env.advance_s(300);
    assert_eq!(env.view("only").reserved_for, Some(whole_node.clone()));
    for place in ["only", "only", ""] {
        let later = env.submit(a_job().cpus(1.0));
        assert_eq!(env.place(&later), place, "at worst each is on a node of its own, and one is left");
    }
}

#[test]
fn a_reservation_ends_when_only_the_work_of_others_is_in_its_way() {
    let mut env = used_by_others(0.0);
    let first = env.submit(a_job().id("first").cpus(2.0));
    env.run(&first);
    env.uses("only", &[("CPU", 4.0)]); // Two of them by a Serve deployment, which nobody can tell.
    let large = env.submit(a_job().id("large").cpus(7.0));
    env.advance_s(300);
    let beside = env.submit(a_job().cpus(1.0));
    assert_eq!(env.place(&beside), "only");
    env.run(&beside);
    env.succeed(&first);
    env.uses("only", &[("CPU", 3.0)]);
    env.advance_s(60);
    assert_eq!(env.view("only").reserved_for, None, "what it waited for has ended");
    let why = env.core.explain(&large).unwrap().summary(Lang::En);
    assert!(why.contains("work of others uses CPU 2"), "{why}");
    let next = env.submit(a_job().cpus(1.0));
    assert_eq!(env.place(&next), "only", "the cluster stays open");
}

#[test]
fn with_order_shortest_the_job_that_is_expected_to_be_done_first_goes_first() {
    let mut env = used_by_others(0.0);
    env.set("order", "shortest");
    for (owner, seconds) in [("quick", 10), ("slow", 1000)] {
        let done = env.submit(a_job().owner(owner).cpus(8.0));
        env.run(&done);
        env.advance_s(seconds);
        env.succeed(&done);
    }
    let running = env.submit(a_job().cpus(8.0));
    env.run(&running);
    let slow = env.submit(a_job().owner("slow").cpus(8.0));
    let quick = env.submit(a_job().owner("quick").cpus(8.0));
    let unknown = env.submit(a_job().owner("new").cpus(8.0));
    for next in [unknown, quick, slow] {
        let last = env.core.jobs().find(|job| job.live().is_some()).unwrap().id.clone();
        env.succeed(&last);
        assert_eq!(env.place(&next), "only", "unknown work counts as short");
        env.run(&next);
        env.crash();
        env.poll_all();
    }
}

#[test]
fn with_order_shortest_a_job_that_has_waited_too_long_goes_before_shorter_ones() {
    let mut env = used_by_others(0.0);
    env.set("order", "shortest");
    // Of one owner, so that nobody's share counts: jobs of 8 CPUs are slow, jobs of 7 are quick.
    for (cpus, seconds) in [(8.0, 1000), (7.0, 10)] {
        let done = env.submit(a_job().cpus(cpus));
        env.run(&done);
        env.advance_s(seconds);
        env.succeed(&done);
    }
    let running = env.submit(a_job().cpus(6.0));
    env.run(&running);
    let slow = env.submit(a_job().cpus(8.0));
    let quick = env.submit(a_job().cpus(7.0));
    env.advance_s(299);
    env.succeed(&running);
    assert_eq!((env.place(&slow), env.place(&quick)), ("", "only"), "it has not waited too long yet");
    env.run(&quick);
    env.advance_s(10);
    let next = env.submit(a_job().cpus(7.0));
    env.succeed(&quick);
    assert_eq!((env.place(&slow), env.place(&next)), ("only", ""));
}

#[test]
fn a_cluster_is_not_kept_free_for_room_that_only_work_of_others_could_free() {
    let mut env = crowded(2.0);
    env.uses("only", &[("CPU", 3.0)]); // A Serve deployment holds one.
    let large = env.submit(a_job().cpus(8.0));
    env.advance_s(300);
    assert_eq!(env.view("only").reserved_for, Some(large.clone()), "whose CPUs they are is not known");
    env.succeed(&job_id("on-only"));
    env.uses("only", &[("CPU", 1.0)]);
    env.advance_s(10);
    assert_eq!(env.view("only").reserved_for, None, "the end of our work has not freed enough");
    for _ in 0..10 {
        let small = env.submit(a_job().cpus(1.0));
        assert_eq!(env.place(&small), "only");
        env.run(&small);
        env.advance_s(300);
        assert_eq!(env.view("only").reserved_for, None);
        env.succeed(&small);
    }
    let why = env.core.explain(&large).unwrap().summary(Lang::En);
    assert!(why.contains("no room on only is reserved for it: work of others uses CPU 1"), "{why}");
    env.uses("only", &[]);
    assert_eq!(env.place(&large), "only");
}

#[test]
fn old_news_of_the_work_of_others_does_not_let_a_job_starve() {
    let mut env = used_by_others(1.0);
    env.advance_s(10);
    let large = env.submit(a_job().cpus(8.0));
    let ours = env.submit(a_job().cpus(4.0));
    env.run(&ours);
    env.uses("only", &[("CPU", 4.0)]); // The other work has ended, which Ray does not tell apart.
    env.advance_s(3000);
    assert_eq!(env.view("only").reserved_for, None);
    env.advance_s(1000);
    assert_eq!(env.view("only").reserved_for, Some(large));
}

#[test]
fn for_which_job_a_cluster_is_kept_free_is_told_to_its_owner_alone() {
    let (mut env, large) = starved();
    let of = |owner: &str| {
        let mut small = a_job().cpus(1.0);
        small.0.work.owner = Some(Owner::new(owner).unwrap());
        small
    };
    let others = env.submit(of("diego"));
    assert_eq!(env.reason(&others, "only"), Reason::Reserved { job: None });
    assert_eq!((env.view("only").reserved_for, env.view("only").reserved_owner), (Some(large), None));
}

#[test]
fn a_reservation_ends_when_its_job_is_placed() {
    let (mut env, large) = starved();
    let small = env.submit(a_job().cpus(1.0));
    env.empty("only");
    assert_eq!(env.view("only").reserved_for, None);
    env.run(&large);
    env.succeed(&large);
    assert_eq!(env.place(&small), "only");
}

#[test]
fn work_of_higher_priority_and_earlier_work_pass_a_reservation() {
    let mut env = crowded(2.0);
    env.cordon("only");
    let earlier = env.submit(a_job().cpus(1.0));
    let large = env.submit(a_job().cpus(8.0));
    env.advance_s(300);
    env.uncordon("only");
    assert_eq!(env.place(&earlier), "only");
    assert_eq!(env.view("only").reserved_for, Some(large));
    let urgent = env.submit(a_job().cpus(1.0).priority(1));
    assert_eq!(env.place(&urgent), "only");
}

#[test]
fn sub_work_of_a_running_job_passes_a_reservation() {
    let mut env = used_by_others(0.0);
    let parent = env.submit(a_job());
    env.run(&parent);
    env.uses("only", &[("CPU", 2.0)]);
    env.submit(a_job().cpus(8.0));
    env.advance_s(300);
    let child = env.submit(a_task().cpus(1.0).inside(&parent, "only"));
    assert_eq!(env.place(&child), "only", "the parent would never end otherwise");
}

#[test]
fn other_clusters_stay_open_while_one_is_reserved() {
    let (mut env, large) = starved();
    env.cluster(a_cluster("tiny").cpus(2.0));
    let small = env.submit(a_job().cpus(1.0));
    assert_eq!((env.place(&small), env.place(&large)), ("tiny", ""));
}

#[test]
fn a_starving_head_keeps_the_cluster_it_reserved() {
    let (mut env, large) = starved();
    env.cluster(a_cluster("second").used(&[("CPU", 4.0)]));
    env.crowd("second", 4.0);
    assert_eq!(env.view("only").reserved_for, Some(large.clone()));
    env.uses("only", &[("CPU", 6.0)]);
    let reserved = |env: &TestEnv| ["only", "second"].map(|c| env.view(c).reserved_for);
    assert_eq!(reserved(&env), [Some(large.clone()), None], "second is freer now, but that may change");
    env.lose("only");
    assert_eq!(reserved(&env), [None, Some(large)]);
}

#[test]
fn every_starving_head_reserves_a_cluster_of_its_own() {
    let (mut env, large) = starved();
    env.cluster(a_cluster("second").used(&[("CPU", 1.0)]));
    env.crowd("second", 1.0);
    let other = env.submit(a_job().cpus(7.5));
    env.advance_s(300);
    assert_eq!([env.view("only"), env.view("second")].map(|c| c.reserved_for), [Some(large), Some(other)]);
}

#[test]
fn what_can_never_run_here_reserves_nothing() {
    let mut env = crowded(2.0);
    env.submit(a_job().cpus(100.0));
    env.advance_s(3600);
    assert_eq!(env.view("only").reserved_for, None);
    let small = env.submit(a_job());
    assert_eq!(env.place(&small), "only");
}

// ---- what a look costs

#[test]
fn a_batch_is_placed_in_one_cycle() {
    let mut env = TestEnv::only();
    env.set("max_starting", "100");
    let batch = (0..100).map(|n| a_job().id(&format!("j{n}")));
    let cycle = cycle_of(&mut env, a_batch(batch)).unwrap();
    assert_eq!(cycle, CycleStats { heads: 100, looks: 100, placed: 100, rejections: BTreeMap::new() });
}

#[test]
fn a_cycle_looks_at_the_head_of_each_class_not_at_each_job() {
    let mut env = TestEnv::pair();
    for cluster in ["centos", "mac"] {
        env.uses(cluster, &[("CPU", 7.0)]);
    }
    let batch = (0..20_000).map(|n| a_job().id(&format!("j{n}")).cpus(1.0));
    cycle_of(&mut env, a_batch(batch)).unwrap();
    env.fake("mac").used = amounts(&[("CPU", 6.0)]);
    let out = cycle_of_poll(&mut env, "mac").unwrap();
    let rejections = [(ReasonKind::OverThreshold, 2)].into();
    assert_eq!(out, CycleStats { heads: 1, looks: 1, placed: 0, rejections });
    assert_eq!(lengths(&env)["jobs"], 20_000);
}

#[test]
fn when_no_cluster_is_open_to_anyone_the_other_shapes_are_not_looked_at() {
    let mut env = TestEnv::only();
    env.uses("only", &[("CPU", 7.0)]);
    for n in 1..=50 {
        env.submit(a_job().cpus(f64::from(n) / 10.0));
    }
    env.fake("only").used = amounts(&[("CPU", 6.0)]);
    let cycle = cycle_of_poll(&mut env, "only").unwrap();
    assert_eq!((cycle.heads, cycle.looks), (50, 1));
    env.uses("only", &[]);
    assert!(lengths(&env)["jobs"] < 50);
}

#[test]
fn shapes_that_ask_for_more_than_anybody_has_are_not_looked_at_one_by_one() {
    let mut env = used_by_others(5.0);
    for n in 0..50 {
        env.submit(a_job().cpus(4.0 + f64::from(n) / 10.0));
    }
    env.fake("only").used = amounts(&[("CPU", 5.5)]);
    let cycle = cycle_of_poll(&mut env, "only").unwrap();
    assert_eq!((cycle.heads, cycle.looks, cycle.placed), (50, 1, 0));
    let small = env.submit(a_job().cpus(1.0));
    assert_eq!(env.place(&small), "only", "what fits is still found");
}

#[test]
fn a_poll_that_says_nothing_new_causes_no_cycle() {
    let mut env = used_by_others(7.5);
    env.poll("only"); // From now on it is known whose work that is.
    env.submit(a_job().cpus(1.0));
    env.now = env.now + Span::seconds(5);
    assert_eq!(cycle_of_poll(&mut env, "only"), None);
    env.fake("only").used = amounts(&[("CPU", 7.25)]);
    assert_eq!(cycle_of_poll(&mut env, "only").unwrap().rejections, [(ReasonKind::NoRoom, 1)].into());
}

#[test]
fn a_submission_looks_only_at_its_own_class() {
    let mut env = used_by_others(7.0);
    for cpus in 2..8 {
        env.submit(a_job().cpus(f64::from(cpus)));
    }
    let cycle = cycle_of(&mut env, Input::Submit(a_job().id("small").cpus(0.5).0)).unwrap();
    assert_eq!((cycle.heads, cycle.placed), (1, 1));
    let another = cycle_of(&mut env, Input::Submit(a_job().id("another").cpus(2.0).0));
    assert_eq!(another.map(|c| c.placed).unwrap_or_default(), 0);
}

/// Lets a cluster answer a poll and returns what the cycle did.
fn cycle_of_poll(env: &mut TestEnv, cluster: &str) -> Option<CycleStats> {
    let input = env.poll_input(cluster);
    cycle_of(env, input)
}
