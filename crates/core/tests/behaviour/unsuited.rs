//! Clusters whose Ray is too old for a job.

use multicluster_core::{CircuitState, DispatchOutcome};
use multicluster_types::{Reason, State};

use crate::env::*;

const OLD: &str = "unexpected keyword argument 'entrypoint_label_selector'";

fn unsupported() -> DispatchOutcome {
    DispatchOutcome::Unsupported(OLD.into())
}

#[test]
fn a_job_goes_to_another_cluster_when_one_cannot_accept_it() {
    let mut env = TestEnv::pair();
    let job = env.submit(a_job());
    assert_eq!(env.place(&job), "centos");
    env.dispatched(&job, unsupported());
    assert_eq!(env.state(&job), State::Queued);
    env.advance_s(1);
    assert_eq!((env.place(&job), env.attempt(&job).0), ("mac", 2));
}

#[test]
fn a_cluster_that_cannot_accept_a_job_is_left_out_with_a_reason_while_others_are_busy() {
    let mut env = TestEnv::pair();
    env.cordon("mac");
    let job = env.submit(a_job().prefers("centos"));
    env.dispatched(&job, unsupported());
    env.crash();
    env.poll_all();
    env.advance_s(3600);
    assert_eq!(env.state(&job), State::Queued, "an hour later");
    assert_eq!(env.reason(&job, "centos"), Reason::NotSupported { error: OLD.into() });
    assert!(env.summary(&job).contains("centos: its Ray cannot accept the work: unexpected"));
    env.uncordon("mac");
    assert_eq!(env.place(&job), "mac");
}

#[test]
fn a_job_that_no_cluster_can_accept_fails_at_once_and_says_why() {
    for mut env in [TestEnv::only(), TestEnv::pair()] {
        let name = if env.core.clusters().count() == 1 { "only" } else { "centos" };
        let job = env.submit(a_job().requires(name));
        env.dispatched(&job, unsupported());
        assert_eq!(env.state(&job), State::Failed);
        assert!(env.summary(&job).contains(OLD), "{}", env.summary(&job));
    }
}

#[test]
fn a_cluster_that_is_upgraded_is_tried_again() {
    let mut env = TestEnv::pair();
    env.cordon("mac");
    let job = env.submit(a_job());
    env.dispatched(&job, unsupported());
    env.advance_s(60);
    assert_eq!(env.state(&job), State::Queued);
    env.fake("centos").ray_version = "2.99.0".into();
    env.poll("centos");
    assert_eq!(env.place(&job), "centos");
}

#[test]
fn jobs_that_a_cluster_cannot_accept_do_not_open_its_circuit() {
    let mut env = TestEnv::pair();
    env.set("submission_interval", "0s");
    for _ in 0..20 {
        let job = env.submit(a_job().prefers("centos"));
        env.dispatched(&job, unsupported());
        env.advance_s(60);
        env.run(&job);
        env.succeed(&job);
    }
    assert_eq!(env.view("centos").circuit, CircuitState::Closed);
}
