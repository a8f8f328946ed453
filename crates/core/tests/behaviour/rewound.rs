//! The store lost its last commits: what clusters ran is adopted before anything is dispatched.

use multicluster_core::{Durable, Effect, Input, Listed, Run, RunStatus};
use multicluster_types::{Attempt, JobId, Lang, Reason, Span, State, Timestamp};

use crate::env::*;

impl TestEnv {
    /// A standby takes over whose last commit was this one.
    fn rewind_to(&mut self, store: Durable) {
        self.store = store;
        self.crash_rewound();
        self.poll_all();
    }

    fn list(&mut self, cluster: &str, runs: Vec<Listed>) {
        let asked = Effect::List { cluster: cluster_name(cluster) };
        assert!(self.effects.contains(&asked), "{:?}", self.effects);
        self.send(Input::Listed { cluster: cluster_name(cluster), runs: Some(runs) });
    }

    /// One attempt of this job as it is now, for a list.
    fn listed(&self, job: &JobId, attempt: u32, status: RunStatus) -> Listed {
        let record = self.core.job(job).expect("it is known");
        Listed {
            run: self.run_of(job, attempt),
            status,
            work: Some(Box::new((*record.work).clone())),
            content: record.content,
            bytes: record.bytes,
            sent_at: Some(self.now),
        }
    }

    fn submits(&self) -> usize {
        self.effects.iter().filter(|e| matches!(e, Effect::Submit { .. })).count()
    }
}

#[test]
fn nothing_is_dispatched_before_every_cluster_was_asked_and_the_reason_names_the_one_that_was_not() {
    let mut env = TestEnv::pair();
    env.rewind_to(env.store.clone());
    let job = env.submit(a_job());
    env.list("centos", vec![]);
    env.advance_s(300);
    assert_eq!((env.submits(), env.state(&job)), (0, State::Queued));
    let reason = env.reason(&job, "centos");
    assert_eq!(reason, Reason::Rewound { cluster: cluster_name("mac") });
    assert_eq!(
        reason.describe(env.now, Lang::En),
        "waits until cluster mac was asked what it ran: the database lost recent changes"
    );
    assert!(reason.describe(env.now, Lang::Zh).contains("mac"));
    env.list("mac", vec![]);
    assert_eq!((env.submits(), env.state(&job)), (1, State::Dispatching));
    assert!(env.store.clusters.values().all(|cluster| cluster.unlisted.is_none()));
}

#[test]
fn a_cluster_that_is_removed_by_force_is_not_waited_for() {
    let mut env = TestEnv::pair();
    env.rewind_to(env.store.clone());
    let job = env.submit(a_job());
    env.list("centos", vec![]);
    env.ask(Input::Remove { cluster: cluster_name("mac"), force: true }).unwrap();
    assert_eq!(env.place(&job), "centos");
}

#[test]
fn a_crash_before_the_last_list_starts_over() {
    let mut env = TestEnv::pair();
    env.rewind_to(env.store.clone());
    let job = env.submit(a_job());
    env.list("centos", vec![]);
    env.crash();
    env.poll_all();
    env.list("mac", vec![]);
    assert_eq!(env.state(&job), State::Queued, "the answer of centos is gone");
    env.list("centos", vec![]);
    assert_eq!(env.state(&job), State::Dispatching);
    env.crash();
    env.poll_all();
    assert!(!env.effects.iter().any(|e| matches!(e, Effect::List { .. })), "it is done for good");
}

#[test]
fn a_list_without_an_answer_is_asked_for_again() {
    let mut env = TestEnv::only();
    env.rewind_to(env.store.clone());
    env.effects.clear();
    env.poll("only");
    env.assert_quiet();
    env.send(Input::Listed { cluster: cluster_name("only"), runs: None });
    env.poll("only");
    assert_eq!(env.take_effects(1), [Effect::List { cluster: cluster_name("only") }]);
}

#[test]
fn a_known_attempt_is_observed() {
    let mut env = TestEnv::pair();
    let job = env.submit(a_job());
    env.run(&job);
    env.rewind_to(env.store.clone());
    let listed = env.listed(&job, 1, RunStatus::Succeeded);
    env.list("mac", vec![]);
    env.list("centos", vec![listed]);
    assert_eq!(env.state(&job), State::Succeeded);
}

#[test]
fn a_dispatch_that_the_store_lost_is_taken_over() {
    for (status, state) in [
        (RunStatus::Pending, State::Pending),
        (RunStatus::Running, State::Running),
        (RunStatus::Succeeded, State::Succeeded),
    ] {
        let mut env = TestEnv::pair();
        env.cordon("centos");
        env.cordon("mac");
        let job = env.submit(a_job());
        let before = env.store.clone();
        env.uncordon("mac");
        assert_eq!(env.place(&job), "mac");
        let listed = env.listed(&job, 1, status);
        env.rewind_to(before);
        assert_eq!(env.state(&job), State::Queued);
        env.list("centos", vec![]);
        env.list("mac", vec![listed]);
        assert_eq!((env.state(&job), env.attempt(&job)), (state, Attempt(1)));
        assert_eq!(env.submits(), 0);
        env.uncordon("centos");
        env.advance_s(300);
        assert_eq!(env.submits(), 0, "it went to mac");
    }
}

#[test]
fn a_later_attempt_that_the_store_lost_is_taken_over() {
    let mut env = TestEnv::pair();
    let job = env.submit(a_job().retries(1));
    env.run(&job);
    let before = env.store.clone();
    env.fail(&job);
    env.advance_s(60);
    assert_eq!(env.attempt(&job), Attempt(2));
    let (first, second) = ("centos", env.place(&job).to_owned());
    let failed = RunStatus::Failed { message: "exit 1".into(), never_started: false, exit_code: Some(1) };
    let runs = [(first, env.listed(&job, 1, failed)), (&second, env.listed(&job, 2, RunStatus::Running))];
    env.rewind_to(before);
    assert_eq!(env.attempt(&job), Attempt(1));
    // What is seen of the first attempt does not count before the lists are in.
    env.fail(&job);
    assert_ne!(env.state(&job), State::Failed);
    for name in ["centos", "mac"] {
        let here = runs.iter().filter(|(on, _)| *on == name).map(|(_, run)| run.clone()).collect();
        env.list(name, here);
    }
    assert_eq!((env.state(&job), env.attempt(&job), env.place(&job)), (State::Running, Attempt(2), &*second));
    assert_eq!(env.submits(), 0);
    env.succeed(&job);
    assert_eq!(env.state(&job), State::Succeeded);
}

#[test]
fn a_stop_of_an_earlier_attempt_is_a_stop_of_the_later_one() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    env.run(&job);
    env.stop(&job).unwrap();
    let later = env.listed(&job, 2, RunStatus::Running);
    env.rewind_to(env.store.clone());
    env.list("only", vec![later]);
    let stop = Effect::Stop { run: env.run_of(&job, 2), cluster: cluster_name("only") };
    assert!(env.effects.contains(&stop), "{:?}", env.effects);
}

#[test]
fn a_final_status_never_changes() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    env.run(&job);
    env.fail(&job);
    let listed = [1, 2].map(|attempt| env.listed(&job, attempt, RunStatus::Running));
    env.rewind_to(env.store.clone());
    env.list("only", listed.to_vec());
    assert_eq!((env.state(&job), env.attempt(&job)), (State::Failed, Attempt(1)));
}

#[test]
fn what_is_stopped_before_the_lists_are_in_is_stopped_where_it_runs() {
    let mut env = TestEnv::only();
    env.cordon("only");
    let job = env.submit(a_job());
    let before = env.store.clone();
    let listed = env.listed(&job, 1, RunStatus::Running);
    env.rewind_to(before);
    env.stop(&job).unwrap();
    env.list("only", vec![listed]);
    let stop = Effect::Stop { run: env.run_of(&job, 1), cluster: cluster_name("only") };
    assert!(env.effects.contains(&stop), "{:?}", env.effects);
    assert_eq!(env.state(&job), State::Stopped);
}

#[test]
fn a_job_that_the_store_lost_gets_a_record_from_its_run_and_is_found_under_its_id() {
    let mut env = TestEnv::pair();
    let before = env.store.clone();
    let request = || a_job().id("nightly").owner("ann").priority(7).tags(&["fund"]).cpus(2.0).content("x");
    let job = env.submit(request());
    env.run(&job);
    let (record, listed) = (env.core.job(&job).unwrap().clone(), env.listed(&job, 1, RunStatus::Running));
    env.rewind_to(before);
    assert!(env.core.job(&job).is_none());
    env.list("mac", vec![]);
    let out = env
        .core
        .handle(env.now, Input::Listed { cluster: cluster_name("centos"), runs: Some(vec![listed.clone()]) });
    assert_eq!(out.found, [listed.run], "the driver stores its payload");
    env.commit(out);
    let made = env.core.job(&job).unwrap().clone();
    assert_eq!(
        (made.work, made.content, made.submitted_at),
        (record.work, record.content, record.submitted_at)
    );
    assert_eq!((env.state(&job), env.place(&job)), (State::Running, "centos"));
    let again = env.try_submit(request()).unwrap();
    assert!(again.duplicate.is_some());
    assert_eq!(env.submits(), 0);
}

#[test]
fn a_lost_job_that_is_submitted_again_before_the_lists_are_in_runs_once() {
    let mut env = TestEnv::only();
    let before = env.store.clone();
    let job = env.submit(a_job().id("nightly").content("x"));
    env.run(&job);
    let listed = env.listed(&job, 1, RunStatus::Running);
    env.now = env.now + Span::seconds(1);
    env.rewind_to(before);
    env.now = env.now + Span::seconds(1);
    env.submit(a_job().id("nightly").content("x"));
    env.list("only", vec![listed]);
    assert_eq!((env.state(&job), env.submits()), (State::Running, 0));
}

#[test]
fn the_newer_life_of_an_id_wins() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job().id("daily"));
    env.run(&job);
    env.succeed(&job);
    let (before, old) = (env.store.clone(), env.listed(&job, 1, RunStatus::Succeeded));
    // Forgotten, and submitted again: the store lost both.
    let newer = Run { life: Some(env.now + Span::seconds(9)), ..old.run.clone() };
    let newer = Listed { run: newer, status: RunStatus::Running, ..old.clone() };
    env.now = env.now + Span::seconds(10);
    env.rewind_to(before);
    env.list("only", vec![newer.clone(), old.clone()]);
    assert_eq!(env.state(&job), State::Running);
    assert_eq!(Some(env.core.job(&job).unwrap().submitted_at), newer.run.life);
    // The other way round: the run of an earlier life says nothing about the present job.
    let earlier = Run { life: Some(Timestamp(1)), ..old.run.clone() };
    let earlier = Listed { run: earlier, status: RunStatus::Succeeded, ..old };
    env.rewind_to(env.store.clone());
    env.list("only", vec![earlier]);
    assert_eq!(env.state(&job), State::Running);
}
