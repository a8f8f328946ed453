//! Failures that the users of an earlier prototype reported, with one test (or a few) per report.
//! None of them may happen here.

use std::{collections::BTreeMap, sync::Arc};

use multicluster_core::{DispatchOutcome, Duplicate, Effect, ReleaseOutcome, record::AttemptOutcome};
use multicluster_types::{
    Kind, Reason, ReasonKind, Span, State, SubmissionId, Work, settings::ExecutionMode,
};

use crate::env::*;

// Report: "One cluster is idle, yet nothing starts: the average of all is over the threshold."
#[test]
fn a_free_cluster_is_used_although_the_average_is_over_the_threshold() {
    let mut env = TestEnv::new();
    for name in ["a", "b", "c", "d"] {
        env.cluster(a_cluster(name));
    }
    for full in ["a", "b", "c"] {
        env.uses(full, &[("CPU", 8.0)]);
    }
    let job = env.submit(a_job().cpus(1.0));
    assert_eq!(env.place(&job), "d");
}

// Report: "Each look at the queue consumes the 40-second window, and then nothing runs for good."
#[test]
fn looking_at_the_queue_does_not_consume_the_40_second_window() {
    let mut env = TestEnv::new();
    env.cluster(a_cluster("only"));
    let (first, second) = (env.submit(a_job()), env.submit(a_job()));
    env.run(&first);
    for _ in 0..39 {
        env.advance_s(1);
        env.core.explain(&second).unwrap();
        assert_eq!(env.core.what_if(&Work::new(Kind::Job), None).chosen, None);
        assert_eq!((env.state(&second), env.core.queues().count()), (State::Queued, 1));
    }
    env.advance_s(1);
    assert_eq!(env.state(&second), State::Dispatching);
}

// Report: "With many jobs the 40-second rule stops all work."
#[test]
fn many_jobs_all_get_through_one_per_40_seconds() {
    let mut env = TestEnv::new();
    env.cluster(a_cluster("only"));
    let start = env.now;
    let jobs: Vec<_> = (0..20).map(|_| env.submit(a_job().cpus(1.0))).collect();
    while env.core.queues().any(|(_, len)| len > 0) {
        env.obey();
        env.advance_s(1);
    }
    let expected: Vec<_> =
        jobs.into_iter().zip(0..).map(|(job, n)| (job, start + Span::seconds(40 * n))).collect();
    let decided: Vec<_> = env.decisions.iter().map(|d| (d.job.clone(), d.at)).collect();
    assert_eq!(decided, expected);
}

// Report: "A queued job runs twice, or never."
#[test]
fn each_queued_job_is_dispatched_exactly_once() {
    for crashes in [false, true] {
        let mut env = TestEnv::with(|s| s.set("submission_interval", "2s").unwrap());
        env.cluster(a_cluster("centos")).cluster(a_cluster("mac"));
        let jobs: Vec<_> = (0..30).map(|n| env.submit(a_job().cpus(f64::from(n % 5)))).collect();
        for _ in 0..40 {
            env.advance_s(1);
            if crashes {
                env.crash();
                env.poll_all();
            }
            env.obey();
        }
        for job in &jobs {
            let history = env.history(job);
            assert!(matches!(history[..], [(1, _, AttemptOutcome::Succeeded)]), "{job}: {history:?}");
        }
        assert_eq!(env.decisions.len(), jobs.len());
    }
}

// Report: "The second job gets the first job's cluster settings."
#[test]
fn each_job_is_sent_to_its_own_cluster_and_nothing_is_shared() {
    let mut env = TestEnv::pair();
    let environments = |env: &TestEnv| ["centos", "mac"].map(|c| Arc::clone(&env.view(c).spec.runtime_env));
    let before = environments(&env);
    for wanted in ["centos", "mac", "mac", "centos", "mac"] {
        let job = env.submit(a_job().prefers(wanted));
        let submit = Effect::Submit { run: env.run_of(&job, 1), cluster: cluster_name(wanted) };
        assert_eq!(env.take_effects(1), [submit]);
        let decision = env.decisions.last().unwrap();
        assert_eq!((&decision.job, decision.cluster.as_str()), (&job, wanted));
    }
    for (before, after) in before.iter().zip(environments(&env)) {
        assert!(Arc::ptr_eq(before, &after), "nobody replaced a cluster's runtime_env");
    }
    assert!(!Arc::ptr_eq(&before[0], &before[1]), "no two clusters share one");
}

// Report: "A job that needs 16 CPUs was sent to the cluster with 8."
#[test]
fn a_job_never_goes_to_a_cluster_that_is_too_small() {
    let mut env = TestEnv::unspaced();
    env.cluster(a_cluster("small").cpus(8.0)).cluster(a_cluster("big").cpus(32.0));
    env.uses("big", &[("CPU", 20.0)]);
    let job = env.submit(a_job().cpus(16.0));
    env.advance_s(600);
    assert_eq!(env.state(&job), State::Queued);
    assert_eq!(env.reason(&job, "small").kind(), ReasonKind::Infeasible);
    assert_eq!(env.reason(&job, "big").kind(), ReasonKind::NoRoom);
    env.uses("big", &[]);
    assert_eq!(env.place(&job), "big");
}

// Report: "preferred_cluster bypasses the 40-second rule."
#[test]
fn a_preferred_cluster_does_not_bypass_the_40_second_rule() {
    let mut env = TestEnv::new();
    env.cluster(a_cluster("only"));
    env.submit(a_job().prefers("only"));
    for job in [a_job().prefers("only"), a_job().requires("only"), a_task().prefers("only")] {
        let job = env.submit(job);
        assert_eq!(env.reason(&job, "only"), Reason::TooSoon { until: env.now + Span::seconds(40) });
    }
}

// Report: "preferred_cluster bypasses the threshold."
#[test]
fn a_preferred_cluster_does_not_bypass_the_threshold() {
    let mut env = TestEnv::only();
    env.uses("only", &[("CPU", 6.0)]);
    for job in [a_job().prefers("only"), a_job().requires("only"), an_actor().prefers("only")] {
        let job = env.submit(job);
        assert_eq!(env.reason(&job, "only").kind(), ReasonKind::OverThreshold);
    }
}

// Report: "Serial mode is bypassed through the per-cluster queue."
#[test]
fn a_preferred_cluster_does_not_bypass_serial_mode() {
    let mut env = TestEnv::with(|s| {
        s.submission_interval = Span::ZERO;
        s.execution_mode = ExecutionMode::Serial;
    });
    env.cluster(a_cluster("only"));
    let first = env.submit(a_job());
    for job in [a_job().prefers("only"), a_job().requires("only")] {
        let job = env.submit(job);
        assert_eq!(env.reason(&job, "only"), Reason::AtLimit { running: 1, limit: 1 });
    }
    env.run(&first);
    env.succeed(&first);
    assert_eq!(env.view("only").top_level_jobs, 1, "one of the two, not both");
}

// Report: "The queue overflowed and dropped work silently: 120 accepted, 23 never ran."
#[test]
fn a_full_queue_refuses_loudly_and_everything_accepted_runs() {
    let mut env = TestEnv::with(|s| s.max_queue = 100);
    env.cluster(a_cluster("only"));
    let answers: Vec<_> = (0..120).map(|_| env.try_submit(a_job())).collect();
    let (accepted, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((accepted.len(), refused.len()), (101, 19), "one is placed at once, 100 wait");
    assert!(refused.iter().all(|r| r.as_ref().unwrap_err().code() == "queue_full"));
    for _ in 0..101 {
        env.obey();
        env.advance_s(40);
    }
    for accepted in accepted {
        assert_eq!(env.state(&accepted.unwrap().job), State::Succeeded);
    }
}

// Report: "An identical submission is dropped while the first is queued; its status is UNKNOWN."
#[test]
fn an_identical_queued_submission_answers_with_the_job_that_runs() {
    let mut env = TestEnv::new();
    env.cluster(a_cluster("only"));
    env.submit(a_job());
    let queued = env.submit(a_job().content("train"));
    let again = env.try_submit(a_job().content("train")).unwrap();
    assert_eq!((&again.job, again.duplicate), (&queued, Some(Duplicate::SameContent)));
    assert_eq!(env.state(&again.job), State::Queued);
    for _ in 0..2 {
        env.obey();
        env.advance_s(40);
    }
    assert_eq!(env.state(&again.job), State::Succeeded);
}

// Report: "The job's id is not the one I gave, and it is QUEUED after it succeeded."
#[test]
fn a_job_keeps_the_id_it_was_given_over_all_retries() {
    let mut env = TestEnv::pair();
    let job = env.submit(a_job().id("nightly-train").retries(1));
    assert_eq!(job.as_str(), "nightly-train");
    env.dispatched(&job, DispatchOutcome::Failed("no agent".into()));
    env.advance_s(1);
    env.run(&job);
    env.fail(&job);
    env.advance_s(2);
    env.run(&job);
    env.succeed(&job);
    assert_eq!(env.state(&job), State::Succeeded);
    assert_eq!(env.summary(&job), format!("succeeded on {}", env.decisions[2].cluster));
    let on_ray: Vec<_> =
        env.attempts.iter().map(|a| SubmissionId::of(&a.job, a.live.attempt).to_string()).collect();
    assert_eq!(on_ray, ["nightly-train", "nightly-train-a2", "nightly-train-a3"]);
}

// Report: "One hung cluster adds 20 s to every submit to the healthy one."
#[test]
fn a_hung_cluster_delays_nobody_else() {
    let mut env = TestEnv::pair();
    let hung = env.submit(a_job().requires("mac"));
    env.lose("mac");
    env.effects.clear();
    for _ in 0..10 {
        let job = env.submit(a_job());
        assert_eq!((env.place(&job), env.effects.len()), ("centos", 1), "in the same step");
        env.obey();
        assert_eq!(env.state(&job), State::Succeeded);
    }
    assert_eq!(env.state(&hung), State::Unknown);
}

// Report: "A queued job is lost when the program exits."
#[test]
fn queued_jobs_survive_a_crash_in_order() {
    let mut env = TestEnv::new();
    env.cluster(a_cluster("only"));
    let jobs: Vec<_> = (0..5).map(|n| env.submit(a_job().content(&n.to_string()))).collect();
    let queued: BTreeMap<_, _> = env.core.queues().map(|(name, len)| (name.clone(), len)).collect();
    env.crash();
    assert_eq!(env.core.queues().map(|(name, len)| (name.clone(), len)).collect::<BTreeMap<_, _>>(), queued);
    env.poll_all();
    for _ in 0..5 {
        env.obey();
        env.advance_s(40);
    }
    assert!(jobs.iter().all(|job| env.state(job) == State::Succeeded));
    assert!(env.decisions.iter().map(|d| &d.job).eq(&jobs), "first in, first out");
}

// Report: "A second unnamed actor of a class returns a dead handle."
#[test]
fn a_second_actor_of_a_class_gets_its_own_placement() {
    let mut env = TestEnv::only();
    let actors = [env.submit(an_actor().cpus(1.0)), env.submit(an_actor().cpus(1.0))];
    assert_ne!(actors[0], actors[1]);
    let grant = |job: &_| (env.run_of(job, 1), cluster_name("only"));
    assert_eq!(env.grants, [grant(&actors[0]), grant(&actors[1])]);
    env.heartbeat(&actors[0]).unwrap();
    env.release(&actors[0], ReleaseOutcome::Stopped).unwrap();
    env.heartbeat(&actors[1]).unwrap();
    assert_eq!(env.state(&actors[1]), State::Running, "the end of one is not the end of the other");
}

// Report: "Resource requirements are not applied to tasks and actors."
#[test]
fn tasks_and_actors_reserve_what_they_ask_for() {
    let mut env = TestEnv::with(|s| {
        s.set("submission_interval", "0").unwrap();
        s.set("resource_threshold", "1").unwrap();
    });
    env.cluster(a_cluster("only"));
    let (task, actor) = (env.submit(a_task().cpus(4.0)), env.submit(an_actor().cpus(3.0)));
    assert_eq!(env.view("only").promised, amounts(&[("CPU", 7.0)]));
    let next = env.submit(an_actor().cpus(4.0));
    let Reason::NoRoom { demand, free, .. } = env.reason(&next, "only") else { panic!() };
    assert_eq!((demand.as_f64(), free.as_f64()), (4.0, 1.0));
    env.release(&task, ReleaseOutcome::Succeeded).unwrap();
    assert_eq!((env.place(&actor), env.place(&next)), ("only", "only"));
    assert_eq!(env.view("only").promised, amounts(&[("CPU", 7.0)]));
}
