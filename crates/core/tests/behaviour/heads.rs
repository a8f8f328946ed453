//! The next jobs of each queue: the first of each shape, and why it is queued.

use multicluster_core::{DispatchOutcome, Head, QueueView};
use multicluster_types::Lang;

use crate::env::*;

fn queue(env: &TestEnv, name: &str) -> QueueView {
    env.core
        .queue_views(20)
        .into_iter()
        .find(|view| view.name.to_string() == name)
        .expect("a queue that was used")
}

fn ids(heads: &[Head]) -> Vec<&str> {
    heads.iter().map(|head| head.why.job.as_str()).collect()
}

#[test]
fn heads_come_in_the_order_of_choice_one_for_each_shape() {
    let mut env = TestEnv::pair();
    env.cordon("centos");
    env.cordon("mac");
    for (id, work) in [
        ("small-1", a_job().cpus(1.0)),
        ("large-1", a_job().cpus(4.0)),
        ("small-2", a_job().cpus(1.0)),
        ("urgent", a_job().cpus(1.0).priority(5)),
        ("small-3", a_job().cpus(1.0)),
        ("there", a_job().requires("mac")),
        ("task", a_task()),
        ("actor", an_actor()),
    ] {
        env.submit(work.id(id));
    }
    let jobs = queue(&env, "jobs");
    assert_eq!((jobs.waiting, ids(&jobs.heads)), (5, vec!["urgent", "small-1", "large-1"]));
    assert_eq!(jobs.heads.iter().map(|head| head.waiting).collect::<Vec<_>>(), [1, 3, 1]);
    assert_eq!(jobs.more_heads, 0);
    assert_eq!(ids(&queue(&env, "jobs@mac").heads), ["there"]);
    assert_eq!(ids(&queue(&env, "tasks").heads), ["task", "actor"]);

    env.stop(&job_id("small-1")).unwrap();
    let jobs = queue(&env, "jobs");
    assert_eq!((ids(&jobs.heads), jobs.heads[2].waiting), (vec!["urgent", "large-1", "small-2"], 2));
}

#[test]
fn a_head_is_explained_as_the_job_itself_is() {
    let mut env = TestEnv::only();
    env.uses("only", &[("CPU", 7.0)]);
    let since = env.now;
    for work in [a_job().cpus(1.0), a_job().cpus(2.0), a_job().cpus(2.0), a_job().cpus(9.0)] {
        env.submit(work);
    }
    env.advance_s(10);
    let heads = queue(&env, "jobs").heads;
    assert_eq!(ids(&heads), ["job-1", "job-2", "job-4"]);
    for head in &heads {
        assert_eq!(head.why, env.core.explain(&head.why.job).unwrap());
        assert_eq!(
            (head.queued_at, &head.work.demand),
            (since, &env.core.job(&head.why.job).unwrap().work.demand)
        );
    }
    assert_eq!(
        heads[2].why.summary(Lang::En),
        "queued for 10 s, 3 ahead\nonly: too small: CPU 9 requested, 8 in total"
    );
}

#[test]
fn only_so_many_shapes_are_shown_and_the_others_counted() {
    let mut env = TestEnv::only();
    env.cordon("only");
    for priority in 0..25 {
        env.submit(a_job().priority(priority));
    }
    env.submit(a_task());
    let jobs = queue(&env, "jobs");
    let priorities: Vec<_> = jobs.heads.iter().map(|head| head.work.priority.0).collect();
    assert_eq!(priorities, (5..25).rev().collect::<Vec<_>>());
    assert_eq!((jobs.waiting, jobs.more_heads), (25, 5));
    assert_eq!(queue(&env, "tasks").more_heads, 0);
    assert_eq!(env.core.queue_views(0)[0].more_heads, 25);
}

#[test]
fn a_large_pool_shows_fewer_those_whose_turn_is_next() {
    let mut env = TestEnv::new();
    for n in 0..500 {
        env.cluster(a_cluster(&format!("c{n}")));
        env.cordon(&format!("c{n}"));
    }
    for priority in 0..15 {
        env.submit(a_job().priority(priority));
        env.submit(a_job().priority(priority).prefers("c7"));
    }
    let shown = |name| queue(&env, name).heads.iter().map(|head| head.work.priority.0).collect::<Vec<_>>();
    assert_eq!(shown("jobs"), (5..15).rev().collect::<Vec<_>>());
    assert_eq!(shown("jobs@c7"), shown("jobs"));
    assert_eq!(queue(&env, "jobs@c7").more_heads, 5);
}

#[test]
fn what_backs_off_waits_but_has_no_turn_yet() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    env.dispatched(&job, DispatchOutcome::Failed("503: no agent".into()));
    let jobs = queue(&env, "jobs");
    assert_eq!((jobs.waiting, jobs.heads, jobs.more_heads), (1, vec![], 0));
    env.cordon("only");
    env.submit(a_job());
    assert_eq!(queue(&env, "jobs").heads[0].waiting, 2, "the one that backs off is of the same shape");
}
