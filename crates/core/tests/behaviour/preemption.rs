//! Preemption: who is stopped for whom, and what becomes of them.

#![allow(clippy::unwrap_used, reason = "tests may")]

use std::collections::BTreeSet;

use multicluster_core::{DispatchOutcome, Effect, Input, RunStatus, record::AttemptOutcome};
use multicluster_types::{JobId, Lang, Owner, Share, ShareTerms, ShareWeight, Shares, Span, State};

use crate::env::*;

/// One cluster of 8 CPUs; work of priority 10 and above may preempt work that has run for a minute.
fn pool() -> TestEnv {
    let mut env = TestEnv::with(|s| {
        s.submission_interval = Span::ZERO;
        s.resource_threshold = Share::percent(100);
    });
    env.set("preempt_from", "10");
    env.set("preempt_after", "1m");
    env.cluster(a_cluster("only"));
    env
}

fn preemptible(mut job: WorkBuilder) -> WorkBuilder {
    job.0.work.preemptible = true;
    job
}

/// A job that runs, and that the facts show.
fn running(env: &mut TestEnv, job: WorkBuilder) -> JobId {
    let job = env.submit(job);
    env.run(&job);
    job
}

fn uses(env: &mut TestEnv, cpus: f64) {
    env.uses("only", &[("CPU", cpus)]);
}

fn stops(env: &mut TestEnv) -> BTreeSet<String> {
    let stops = env.effects.iter().filter_map(|effect| match effect {
        Effect::Stop { run, .. } => Some(run.job.to_string()),
        _ => None,
    });
    let stops = stops.collect();
    env.effects.clear();
    stops
}

#[test]
fn urgent_work_gets_the_room_of_preemptible_work_which_is_queued_again() {
    let mut env = pool();
    let victim = running(&mut env, preemptible(a_job().id("victim").cpus(6.0)));
    uses(&mut env, 6.0);
    env.advance_s(60);
    let urgent = env.submit(a_job().id("urgent").cpus(8.0).priority(10));
    assert_eq!(stops(&mut env), ["victim".to_owned()].into());
    assert_eq!(env.place(&urgent), "", "it waits until the room is there");
    let why = env.summary(&urgent);
    assert!(why.contains("room is being made on only: 1 preemptible jobs are being stopped"), "{why}");
    let why = env.core.explain(&victim).unwrap().summary(Lang::En);
    assert!(why.contains("being stopped for other work: it will be queued again"), "{why}");
    let later = env.submit(a_job().cpus(1.0));
    assert_eq!(env.place(&later), "", "the room is not for later work");
    env.observe(&victim, RunStatus::Stopped);
    uses(&mut env, 0.0);
    assert_eq!((env.state(&victim), env.place(&urgent)), (State::Queued, "only"));
    assert_eq!(env.history(&victim), [(1, "only", AttemptOutcome::Preempted)]);
    env.run(&urgent);
    env.succeed(&urgent);
    assert_eq!(env.place(&victim), "only", "under its id, in its old place");
    assert_eq!(env.attempt(&victim).0, 2);
}

#[test]
fn work_that_is_not_preemptible_is_never_touched() {
    let mut env = pool();
    running(&mut env, a_job().cpus(8.0));
    uses(&mut env, 8.0);
    env.advance_s(3600);
    env.submit(a_job().cpus(1.0).priority(100));
    env.advance_s(3600);
    assert_eq!(stops(&mut env), BTreeSet::new());
}

#[test]
fn nothing_is_stopped_unless_a_priority_or_a_group_may() {
    let mut env = pool();
    running(&mut env, preemptible(a_job().cpus(8.0)));
    uses(&mut env, 8.0);
    env.advance_s(3600);
    env.submit(a_job().cpus(1.0).priority(9));
    env.set("preempt_from", "off");
    env.submit(a_job().cpus(1.0).priority(100));
    env.advance_s(3600);
    assert_eq!(stops(&mut env), BTreeSet::new());
}

#[test]
fn a_job_is_stopped_only_after_it_has_run_for_a_while_and_then_at_once() {
    let mut env = pool();
    running(&mut env, preemptible(a_job().id("young").cpus(8.0)));
    uses(&mut env, 8.0);
    env.submit(a_job().cpus(1.0).priority(10));
    env.advance_s(50);
    assert_eq!(stops(&mut env), BTreeSet::new());
    env.advance_s(15);
    assert_eq!(stops(&mut env), ["young".to_owned()].into());
}

#[test]
fn nothing_is_stopped_in_vain() {
    let mut env = pool();
    running(&mut env, preemptible(a_job().cpus(2.0)));
    running(&mut env, a_job().cpus(6.0));
    uses(&mut env, 8.0);
    env.advance_s(60);
    env.submit(a_job().cpus(3.0).priority(10));
    env.advance_s(60);
    assert_eq!(stops(&mut env), BTreeSet::new(), "two CPUs are not enough for three");
}

#[test]
fn the_lowest_priority_goes_first_then_the_youngest_and_as_few_as_possible() {
    let mut env = pool();
    running(&mut env, preemptible(a_job().id("higher").cpus(2.0).priority(5)));
    running(&mut env, preemptible(a_job().id("old").cpus(2.0)));
    env.advance_s(10);
    running(&mut env, preemptible(a_job().id("young").cpus(2.0)));
    running(&mut env, preemptible(a_job().id("tiny").cpus(0.5)));
    uses(&mut env, 6.5);
    env.advance_s(100);
    env.submit(a_job().cpus(3.0).priority(10));
    assert_eq!(stops(&mut env), ["young".to_owned()].into(), "1.5 CPUs are free, tiny alone is too small");
    let mut env = pool();
    for name in ["a", "b", "c", "d"] {
        running(&mut env, preemptible(a_job().id(name).cpus(2.0)));
        env.advance_s(1);
    }
    uses(&mut env, 8.0);
    env.advance_s(100);
    env.submit(a_job().cpus(4.0).priority(10));
    assert_eq!(stops(&mut env), ["c".to_owned(), "d".to_owned()].into());
}

#[test]
fn a_job_that_was_stopped_for_others_stops_nobody() {
    let mut env = pool();
    let victim = running(&mut env, preemptible(a_job().cpus(8.0).priority(20)));
    uses(&mut env, 8.0);
    env.advance_s(60);
    let urgent = env.submit(preemptible(a_job().cpus(8.0).priority(30)));
    env.observe(&victim, RunStatus::Stopped);
    uses(&mut env, 0.0);
    assert_eq!(env.place(&urgent), "only");
    env.run(&urgent);
    env.succeed(&urgent);
    // The victim runs again, is stopped again, and a lower job has its room meanwhile.
    env.run(&victim);
    uses(&mut env, 8.0);
    env.advance_s(60);
    let again = env.submit(a_job().cpus(8.0).priority(30));
    env.observe(&victim, RunStatus::Stopped);
    uses(&mut env, 0.0);
    env.run(&again);
    env.cordon("only");
    env.succeed(&again);
    let low = running_after_uncordon(&mut env);
    stops(&mut env);
    env.advance_s(600);
    assert_eq!((env.state(&victim), env.state(&low)), (State::Queued, State::Running));
    assert_eq!(stops(&mut env), BTreeSet::new());
}

fn running_after_uncordon(env: &mut TestEnv) -> JobId {
    // Only the low job fits: one CPU is left by work of others.
    env.uses("only", &[("CPU", 4.0)]);
    let low = env.submit(preemptible(a_job().cpus(4.0)));
    env.uncordon("only");
    env.run(&low);
    env.uses("only", &[("CPU", 8.0)]);
    low
}

#[test]
fn a_callers_stop_counts_more_and_ends_the_job() {
    let mut env = pool();
    let victim = running(&mut env, preemptible(a_job().cpus(8.0)));
    uses(&mut env, 8.0);
    env.advance_s(60);
    env.submit(a_job().cpus(8.0).priority(10));
    env.stop(&victim).unwrap();
    env.observe(&victim, RunStatus::Stopped);
    assert_eq!(env.state(&victim), State::Stopped);
}

#[test]
fn a_job_that_was_done_before_the_signal_came_has_succeeded() {
    let mut env = pool();
    let victim = running(&mut env, preemptible(a_job().cpus(8.0)));
    uses(&mut env, 8.0);
    env.advance_s(60);
    env.submit(a_job().cpus(8.0).priority(10));
    env.succeed(&victim);
    assert_eq!(env.state(&victim), State::Succeeded);
}

#[test]
fn no_retry_is_used_up_whatever_the_job_reports_when_it_is_stopped() {
    let mut env = pool();
    let victim = running(&mut env, preemptible(a_job().cpus(8.0)));
    uses(&mut env, 8.0);
    env.advance_s(60);
    env.submit(a_job().cpus(8.0).priority(10));
    env.fail(&victim);
    assert_eq!(env.state(&victim), State::Queued);
    let troubles = env.core.job(&victim).unwrap().troubles.clone().unwrap();
    assert_eq!((troubles.run_failures, troubles.preemptions), (0, 1));
}

#[test]
fn a_victim_that_will_not_die_holds_up_nobody() {
    let mut env = pool();
    env.cluster(a_cluster("second").cpus(8.0));
    let jobs: Vec<_> =
        ["only", "second"].map(|on| running(&mut env, preemptible(a_job().cpus(8.0).requires(on)))).into();
    for on in ["only", "second"] {
        env.uses(on, &[("CPU", 8.0)]);
    }
    env.advance_s(60);
    let urgent = env.submit(a_job().cpus(8.0).priority(10));
    assert_eq!(stops(&mut env).len(), 1, "one cluster at a time");
    env.advance_s(16 * 60);
    let stopped = stops(&mut env);
    assert_eq!(stopped.len(), 2, "after a quarter of an hour it looks elsewhere: {stopped:?}");
    let willing =
        jobs.iter().find(|job| env.core.job(job).unwrap().live().unwrap().cluster.as_str() == "second");
    let willing = willing.unwrap().clone();
    env.observe(&willing, RunStatus::Stopped);
    env.uses("second", &[]);
    assert_eq!(env.place(&urgent), "second");
}

#[test]
fn at_most_so_many_jobs_are_stopped_in_one_hour() {
    let mut env = pool();
    env.set("preempt_per_hour", "1");
    for name in ["a", "b"] {
        running(&mut env, preemptible(a_job().id(name).cpus(4.0)));
    }
    uses(&mut env, 8.0);
    env.advance_s(60);
    for _ in 0..2 {
        env.submit(a_job().cpus(4.0).priority(10));
    }
    assert_eq!(stops(&mut env).len(), 1);
    env.advance_s(3000);
    let again = stops(&mut env);
    assert_eq!(again.len(), 1, "only the first one is asked again and again: {again:?}");
    env.advance_s(700);
    assert_eq!(stops(&mut env).len(), 2);
}

#[test]
fn urgent_work_finds_its_room_however_many_others_look_in_vain() {
    let mut env = pool();
    env.cluster(a_cluster("second"));
    running(&mut env, preemptible(a_job().id("victim").cpus(8.0).requires("only")));
    running(&mut env, a_job().cpus(8.0).requires("second"));
    for on in ["only", "second"] {
        env.uses(on, &[("CPU", 8.0)]);
    }
    env.advance_s(60);
    // Each of another demand, and none can have room on the second cluster.
    for n in 1..20 {
        env.submit(a_job().cpus(1.0 + f64::from(n) / 100.0).priority(10).requires("second"));
    }
    env.uses("second", &[("CPU", 7.5)]);
    assert_eq!(stops(&mut env), BTreeSet::new());
    env.submit(a_job().cpus(1.0).priority(10).requires("only"));
    assert_eq!(stops(&mut env), ["victim".to_owned()].into());
}

#[test]
fn a_crash_forgets_neither_the_victim_nor_the_stop() {
    let mut env = pool();
    let victim = running(&mut env, preemptible(a_job().id("victim").cpus(8.0)));
    uses(&mut env, 8.0);
    env.advance_s(60);
    let urgent = env.submit(a_job().cpus(8.0).priority(10));
    env.crash();
    env.poll_all();
    env.advance_s(10);
    assert_eq!(stops(&mut env), ["victim".to_owned()].into(), "and nobody else");
    env.observe(&victim, RunStatus::Stopped);
    uses(&mut env, 0.0);
    assert_eq!((env.state(&victim), env.place(&urgent)), (State::Queued, "only"));
}

#[test]
fn over_the_threshold_as_many_are_stopped_as_bring_it_below() {
    let mut env = pool();
    env.set("resource_threshold", "0.7");
    for name in ["a", "b", "c"] {
        running(&mut env, preemptible(a_job().id(name).cpus(2.5)));
    }
    uses(&mut env, 7.5);
    env.advance_s(60);
    env.submit(a_job().cpus(0.5).priority(10));
    assert_eq!(stops(&mut env).len(), 1, "62.5 % are left");
}

fn owner(name: &str) -> Owner {
    Owner::new(name).unwrap()
}

fn set_shares(env: &mut TestEnv, preempting: &str) {
    let terms = |weight: f64, preempts| ShareTerms {
        weight: ShareWeight::new(weight).unwrap(),
        preempts,
        ..ShareTerms::default()
    };
    let named = ["ann", "bob"].map(|name| (owner(name), terms(1.0, name == preempting)));
    let mut settings = env.core.settings().clone();
    settings.shares = Shares::new(Shares::HALF_LIFE, named.into()).unwrap();
    let clusters = env.core.clusters().map(|c| (*c.spec).clone()).collect();
    env.send(Input::Reload { settings: Box::new(settings), clusters }).unwrap().unwrap();
}

#[test]
fn a_group_below_its_share_gets_it_from_one_above_but_no_more() {
    let mut env = pool();
    set_shares(&mut env, "ann");
    let bobs: Vec<_> = (0..8)
        .map(|n| running(&mut env, preemptible(a_job().id(&format!("b{n}")).owner("bob").cpus(1.0))))
        .collect();
    uses(&mut env, 8.0);
    env.advance_s(60);
    for n in 0..8 {
        env.submit(a_job().id(&format!("a{n}")).owner("ann").cpus(1.0));
    }
    let mut stopped = BTreeSet::new();
    for _ in 0..10 {
        let now = stops(&mut env);
        for job in bobs.iter().filter(|job| now.contains(job.as_str())) {
            env.observe(job, RunStatus::Stopped);
        }
        stopped.extend(now);
        let used = env.core.jobs().filter(|job| job.live().is_some()).count();
        uses(&mut env, used as f64);
        let starting: Vec<_> = env
            .core
            .jobs()
            .filter(|job| job.state() == State::Dispatching)
            .map(|job| job.id.clone())
            .collect();
        for job in starting {
            env.dispatched(&job, DispatchOutcome::Accepted);
            env.observe(&job, RunStatus::Running);
        }
        env.advance_s(100);
    }
    assert_eq!(stopped.len(), 4, "half of the pool each: {stopped:?}");
    let anns = env.core.jobs().filter(|job| job.live().is_some() && job.work.owner == Some(owner("ann")));
    assert_eq!(anns.count(), 4);
}
