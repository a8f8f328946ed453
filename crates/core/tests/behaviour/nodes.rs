//! A driver's reservation, a task and an actor must fit on one node. The needs of a job need not.

use multicluster_types::{Labels, Lang, NodeShape, Platform, PlatformName, ReasonKind};

use crate::env::*;

/// Two nodes of 4 CPUs.
fn two_nodes() -> TestEnv {
    let mut env = TestEnv::unspaced();
    env.cluster(a_cluster("two").nodes(&[4.0, 4.0]));
    env
}

#[test]
fn what_must_be_on_one_node_never_goes_where_no_node_is_large_enough() {
    let mut env = two_nodes();
    let job = env.submit(a_job().cpus(6.0));
    for id in [job.clone(), env.submit(a_task().cpus(6.0)), env.submit(an_actor().cpus(6.0))] {
        let reason = env.reason(&id, "two");
        assert_eq!(reason.describe(env.now, Lang::En), "largest node has CPU 4, 6 requested on one node");
    }
    env.cluster(a_cluster("large").cpus(8.0));
    assert_eq!(env.place(&job), "large");
}

#[test]
fn what_a_job_needs_is_summed_over_the_nodes() {
    let mut env = two_nodes();
    let job = env.submit(a_job().needs(&[("CPU", 6.0)]));
    assert_eq!(env.place(&job), "two");
}

#[test]
fn a_node_must_have_it_free_all_at_once() {
    let mut env = two_nodes();
    let nodes = &mut env.fake("two").nodes;
    nodes.iter_mut().for_each(|node| node.free = amounts(&[("CPU", 3.0), ("memory", 8e9)]));
    env.uses("two", &[("CPU", 2.0)]);
    let job = env.submit(a_task().cpus(4.0));
    let reason = env.reason(&job, "two");
    assert_eq!(
        reason.describe(env.now, Lang::En),
        "no node has room: CPU 4 requested on one node, at most 3 free"
    );
    let fits = env.submit(a_task().cpus(3.0));
    assert_eq!(env.place(&fits), "two");
}

#[test]
fn a_node_that_has_enough_of_each_thing_has_it_together() {
    let mut env = TestEnv::unspaced();
    env.cluster(a_cluster("mixed").nodes(&[8.0, 2.0]));
    let nodes = &mut env.fake("mixed").nodes;
    nodes[0].total = amounts(&[("CPU", 8.0), ("memory", 1e9)]);
    nodes[0].free = nodes[0].total.clone();
    env.poll("mixed");
    let job = env.submit(a_task().demand(&[("CPU", 4.0), ("memory", 4e9)]));
    assert_eq!(env.reason(&job, "mixed").kind(), ReasonKind::NodeTooSmall);
}

#[test]
fn a_job_with_a_label_selector_goes_only_where_a_node_matches() {
    let mut env = TestEnv::unspaced();
    env.cluster(a_cluster("plain").nodes(&[4.0])).cluster(a_cluster("gpus").nodes(&[4.0, 4.0]));
    let labelled = |node: &mut NodeShape| node.labels = Labels::from([("gpu".into(), "A100".into())]);
    labelled(&mut env.fake("gpus").nodes[1]);
    env.poll("gpus");
    let job = env.submit(a_job().labels("gpu", "in(A100, H100)"));
    assert_eq!(env.place(&job), "gpus");
    let none = env.submit(a_job().labels("gpu", "T4"));
    assert_eq!(env.reason(&none, "plain").describe(env.now, Lang::En), "no node matches gpu=T4");
    assert_eq!(env.view("gpus").drivers, 0, "it may run on any node that matches");
    let large = env.submit(a_job().cpus(5.0).labels("gpu", "A100"));
    assert_eq!(env.reason(&large, "gpus").kind(), ReasonKind::NodeTooSmall);
}

#[test]
fn work_may_ask_for_an_architecture_that_nobody_tagged() {
    let mut env = TestEnv::unspaced();
    env.cluster(a_cluster("linux")).cluster(a_cluster("mac"));
    let arm = Platform { os: None, arch: Some(PlatformName::new("aarch64").unwrap()) };
    env.fake("mac").platform = arm;
    env.poll("mac");
    let job = env.submit(a_job().arch("arm64"));
    assert_eq!(env.place(&job), "mac");
    let other = env.submit(a_job().arch("x86_64"));
    assert_eq!(
        env.reason(&other, "mac").describe(env.now, Lang::En),
        "runs on arm64, the work asks for x86_64"
    );
    let text = "runs on an unknown platform, the work asks for x86_64";
    assert_eq!(env.reason(&other, "linux").describe(env.now, Lang::En), text);
}

#[test]
fn a_cluster_that_does_not_say_what_it_runs_on_is_believed_its_tags() {
    let mut env = TestEnv::unspaced();
    env.cluster(a_cluster("centos").tags(&["linux", "x86_64"]));
    env.cluster(a_cluster("mac").tags(&["macos", "arm64"]));
    let job = env.submit(a_task().arch("amd64"));
    assert_eq!(env.place(&job), "centos");
    assert_eq!(env.view("mac").platform.to_string(), "macos arm64");
}

#[test]
fn a_node_that_joins_or_leaves_is_noticed() {
    let mut env = two_nodes();
    let job = env.submit(a_task().cpus(6.0));
    env.fake("two").nodes[1].total = amounts(&[("CPU", 8.0), ("memory", 8e9)]);
    env.fake("two").nodes[1].free = amounts(&[("CPU", 8.0), ("memory", 8e9)]);
    env.poll("two");
    assert_eq!(env.place(&job), "two", "a larger node makes the same sums another cluster");
}
