//! Every decision explains itself: per cluster, in words and numbers.

use multicluster_core::{DispatchOutcome, Input, Parent};
use multicluster_types::{Lang, PolicyRule, ReasonKind, Settings, Span, State, Timestamp, Verdict};

use crate::env::*;

// ---- waiting

#[test]
fn a_waiting_job_has_a_verdict_for_every_cluster() {
    let mut env = TestEnv::new();
    for name in ["busy", "cordoned", "down", "other-os", "small", "spaced"] {
        let tags: &[_] = if name == "other-os" { &[] } else { &["linux"] };
        env.cluster(a_cluster(name).tags(tags).cpus(if name == "small" { 2.0 } else { 8.0 }));
    }
    env.submit(a_job().requires("spaced"));
    env.uses("busy", &[("CPU", 7.0)]);
    env.lose("down");
    env.cordon("cordoned");
    let job = env.submit(a_job().cpus(4.0).tags(&["linux"]));
    let explanation = env.core.explain(&job).unwrap();
    let reasons: Vec<_> = explanation
        .clusters
        .iter()
        .map(|c| match &c.verdict {
            Verdict::Rejected(reason) => (c.cluster.as_str(), reason.kind()),
            other => panic!("{}: {other:?}", c.cluster),
        })
        .collect();
    let expected = [
        ("busy", ReasonKind::OverThreshold),
        ("cordoned", ReasonKind::Cordoned),
        ("down", ReasonKind::Unhealthy),
        ("other-os", ReasonKind::MissingTags),
        ("small", ReasonKind::Infeasible),
        ("spaced", ReasonKind::TooSoon),
    ];
    assert_eq!(reasons, expected);
    for said in &explanation.clusters {
        let line = format!("{}: {}", said.cluster, said.verdict.describe(env.now, Lang::En));
        assert!(explanation.summary(Lang::En).lines().any(|told| told == line), "{line}");
    }
}

#[test]
fn a_reason_that_stays_counts_more_than_one_that_passes() {
    let mut env = TestEnv::new();
    env.cluster(a_cluster("small").cpus(2.0)).cluster(a_cluster("other-os").tags(&["macos"]));
    env.cluster(a_cluster("fits").tags(&["linux"]));
    env.cluster(a_cluster("gpu"));
    env.submit(a_job().requires("gpu").cpus(8.0));
    env.uses("small", &[("CPU", 2.0)]);
    env.cordon("small");
    env.lose("other-os");
    env.cordon("fits");
    let job = env.submit(a_job().cpus(4.0));
    assert_eq!(
        env.summary(&job),
        "queued for 0 s, next in line\n\
         small: too small: CPU 4 requested, 2 in total; also cordoned: kernel update\n\
         other-os: unhealthy for 0 s: connection refused\n\
         fits: cordoned: kernel update\n\
         gpu: busy: CPU 100 % in use, limit 70 %"
    );
    let job = env.submit(a_job().cpus(1.0).tags(&["linux"]));
    assert_eq!(env.reason(&job, "other-os").kind(), ReasonKind::MissingTags);
    let [preferring, requiring] = [a_job().prefers("gpu"), a_job().requires("gpu")].map(|job| {
        let what = env.core.what_if(&job.0.work, None);
        let said = what.clusters.iter().find(|said| said.cluster.as_str() == "fits").unwrap();
        said.describe(env.now, Lang::En)
    });
    assert_eq!(preferring, "cordoned: kernel update; also the work asks for cluster gpu", "it may change");
    assert_eq!(requiring, "the work asks for cluster gpu; also cordoned: kernel update");
    let what = env.core.what_if(&a_job().cpus(4.0).0.work, None);
    let others: Vec<_> = what.clusters[0].others.iter().map(multicluster_types::Reason::kind).collect();
    assert_eq!(others, [ReasonKind::Cordoned, ReasonKind::OverThreshold]);
    env.uncordon("fits");
    let decision = env.decisions.last().unwrap();
    let kept: Vec<_> =
        decision.per_cluster().map(|(_, verdict)| verdict.describe(env.now, Lang::En)).collect();
    assert!(kept[0].starts_with("too small"), "a decision keeps the reason that counts most: {kept:?}");
}

#[test]
fn a_spaced_job_says_when_it_may_go() {
    let mut env = TestEnv::new();
    env.cluster(a_cluster("only"));
    let (_, second, third) = (env.submit(a_job()), env.submit(a_job()), env.submit(a_job()));
    env.advance(Span(10_400));
    let text = "queued for 10 s, next in line\nonly: next submission allowed in 30 s";
    assert_eq!(env.summary(&second), text);
    assert_eq!(env.summary(&third), text.replace("next in line", "1 ahead"));
}

#[test]
fn a_job_kept_off_by_the_threshold_says_how_full_the_cluster_is() {
    let mut env = TestEnv::only();
    env.uses("only", &[("CPU", 7.0)]);
    let job = env.submit(a_task());
    assert_eq!(env.summary(&job), "queued for 0 s, next in line\nonly: busy: CPU 87.5 % in use, limit 70 %");
}

#[test]
fn a_job_that_fits_nowhere_says_what_is_missing() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job().demand(&[("CPU", 2.0), ("memory", 128.0 * 1024.0 * 1024.0 * 1024.0)]));
    env.advance_s(3600);
    assert_eq!(
        env.summary(&job),
        "queued for 60 min, next in line\nonly: too small: memory 128 GiB requested, 59.6 GiB in total"
    );
    let gpu = env.submit(a_job().demand(&[("A100", 1.0)]));
    assert_eq!(env.summary(&gpu), "queued for 0 s, 1 ahead\nonly: too small: A100 1 requested, 0 in total");
}

#[test]
fn a_job_backing_off_says_why_and_how_long() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    env.dispatched(&job, DispatchOutcome::Failed("503: no agent".into()));
    assert_eq!(
        env.summary(&job),
        "queued for 0 s, next in line\nwill retry in 1 s; last error: 503: no agent\n\
         only: could take it, score 0.833"
    );
    let explanation = env.core.explain(&job).unwrap();
    assert_eq!(explanation.last_error.unwrap().as_str(), "503: no agent");
    assert!(explanation.backing_off_until.unwrap() > env.now);
}

#[test]
fn a_job_whose_required_cluster_is_down_says_so() {
    let mut env = TestEnv::pair();
    let job = env.submit(a_job().requires("mac").cpus(8.0));
    env.dispatched(&job, DispatchOutcome::Failed("no agent".into()));
    env.lose("mac");
    env.advance_s(20);
    assert_eq!(
        env.summary(&job),
        "queued for 20 s in jobs@mac, next in line\ncentos: the work asks for cluster mac\n\
         mac: unhealthy for 20 s: connection refused"
    );
}

#[test]
fn a_job_held_back_for_a_starving_one_names_it() {
    let mut env = TestEnv::with(|s| s.set("resource_threshold", "1").unwrap());
    env.cluster(a_cluster("only"));
    env.crowd("only", 2.0);
    env.submit(a_job().id("large").cpus(8.0));
    env.advance_s(300);
    let small = env.submit(a_job().cpus(1.0));
    assert_eq!(
        env.summary(&small),
        "queued for 0 s, 1 ahead\nonly: its room is kept for large, which has waited too long"
    );
}

#[test]
fn a_job_without_any_cluster_left_says_so() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job().cpus(100.0));
    env.ask(Input::Remove { cluster: cluster_name("only"), force: false }).unwrap();
    assert_eq!(env.summary(&job), "queued for 0 s, next in line\nno cluster is registered");
}

// ---- live and ended

#[test]
fn a_live_job_says_where_it_is_and_whether_it_can_be_reached() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    assert_eq!(env.summary(&job), "dispatching on only (attempt 1)");
    env.run(&job);
    assert_eq!(env.summary(&job), "running on only (attempt 1)");
    env.lose("only");
    env.advance_s(90);
    let unreachable = "unknown on only (attempt 1), unreachable for 90 s: \
                       it will not be failed or run again until the cluster answers";
    assert_eq!(env.summary(&job), unreachable);
    env.stop(&job).unwrap();
    assert_eq!(env.summary(&job), format!("{unreachable}, being stopped"));
    let explanation = env.core.explain(&job).unwrap();
    assert_eq!((explanation.queue, explanation.clusters), (None, vec![]));
}

#[test]
fn every_part_of_an_explanation_is_said_in_chinese_too() {
    let zh = |env: &TestEnv, job| env.core.explain(job).unwrap().summary(Lang::Zh);
    let mut env = TestEnv::with(|s| s.set("resource_threshold", "1").unwrap());
    env.cluster(a_cluster("only"));
    env.crowd("only", 2.0);
    let large = env.submit(a_job().cpus(8.0));
    env.advance_s(300);
    let small = env.submit(a_job().id("small").requires("only").cpus(1.0));
    let told = "已排队 5 分钟，排在最前\n等待已久：已在 only 上为它预留空间\nonly：空闲不足：需要 CPU 8，空闲 6，运行中的作业需要 2";
    assert_eq!(zh(&env, &large), told);
    let told = format!("已在 jobs@only 排队 0 秒，排在最前\nonly：空间已预留给等待过久的作业：{large}");
    assert_eq!(zh(&env, &small), told);
    env.stop(&small).unwrap();
    env.succeed(&job_id("on-only"));
    env.advance_s(10); // Something else has used the 2 CPUs all the time.
    let told = "已排队 5 分钟，排在最前\n等待已久，但未在 only 上为它预留空间：其他来源的任务占用了 CPU 2\nonly：空闲不足：需要 CPU 8，空闲 6";
    assert_eq!(zh(&env, &large), told);

    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    env.dispatched(&job, DispatchOutcome::Failed("503: no agent".into()));
    let told = "已排队 0 秒，排在最前\n1 秒后重试；上次错误：503: no agent\nonly：可以接收，得分 0.833";
    assert_eq!(zh(&env, &job), told);
    let second = env.submit(a_job());
    assert_eq!(zh(&env, &second), "在 only 上派发中（第 1 次尝试）");
    env.run(&second);
    env.lose("only");
    env.advance_s(90);
    env.stop(&second).unwrap();
    assert_eq!(
        zh(&env, &second),
        "在 only 上失联（第 1 次尝试），已有 90 秒无法连接：集群恢复响应之前，既不算失败，也不会重新运行，正在停止"
    );

    let mut env = TestEnv::only();
    let requeued = env.submit(a_job().idempotent());
    env.run(&requeued);
    env.lose("only");
    env.advance_s(20);
    assert_eq!(
        zh(&env, &requeued),
        "在 only 上失联（第 1 次尝试），已有 20 秒无法连接：如果集群 40 秒内没有恢复响应，将在其他集群重新运行"
    );

    let mut env = TestEnv::only();
    let failed = env.submit(a_job());
    env.run(&failed);
    env.fail(&failed);
    assert_eq!(zh(&env, &failed), "在 only 上失败：exit code 1");
    let none = env.submit(a_job().cpus(100.0));
    env.ask(Input::Remove { cluster: cluster_name("only"), force: false }).unwrap();
    assert_eq!(zh(&env, &none), "已排队 0 秒，排在最前\n尚未注册集群");
}

#[test]
fn an_ended_job_says_how_and_where_it_ended() {
    let mut env = TestEnv::only();
    let jobs: Vec<_> = (0..5).map(|_| env.submit(a_job())).collect();
    jobs.iter().for_each(|job| env.run(job));
    env.succeed(&jobs[0]);
    env.fail(&jobs[1]);
    env.observe(&jobs[2], multicluster_core::RunStatus::Stopped);
    env.stop(&jobs[3]).unwrap();
    env.observe(&jobs[3], multicluster_core::RunStatus::Stopped);
    let message =
        "setup failed:\nTraceback (most recent call last):\n  File \"a\", line 1\nKeyError: 'x'\n".into();
    env.observe(
        &jobs[4],
        multicluster_core::RunStatus::Failed { message, never_started: false, exit_code: None },
    );
    let summaries: Vec<_> = jobs.iter().map(|job| env.summary(job)).collect();
    assert_eq!(
        summaries,
        [
            "succeeded on only",
            "failed on only: exit code 1",
            "stopped on only: stopped on cluster only, not through the control plane",
            "stopped on only",
            "failed on only: KeyError: 'x'",
        ]
    );
    assert_eq!(env.core.explain(&jobs[1]).unwrap().attempt.unwrap().0, 1);
}

#[test]
fn an_unknown_job_is_a_clear_error() {
    let error = TestEnv::only().core.explain(&job_id("typo")).unwrap_err();
    assert_eq!(error.code(), "unknown_job");
    assert_eq!(
        error.to_string(),
        "job typo does not exist\n  hint: ended jobs are forgotten after retain_for"
    );
}

// ---- decisions

#[test]
fn a_decision_has_a_verdict_for_every_cluster() {
    let mut env = TestEnv::unspaced();
    env.cluster(a_cluster("best")).cluster(a_cluster("fuller").used(&[("CPU", 2.0)]));
    env.cluster(a_cluster("tiny").cpus(1.0));
    let job = env.submit(a_job().cpus(2.0));
    let decision = env.decisions.last().unwrap();
    assert_eq!((&decision.job, decision.attempt.0, decision.at), (&job, 1, env.now));
    let verdicts: Vec<_> = decision
        .per_cluster()
        .map(|(cluster, verdict)| match verdict {
            Verdict::Chosen { .. } => (cluster.as_str(), "chosen"),
            Verdict::Eligible { .. } => (cluster.as_str(), "eligible"),
            Verdict::Rejected(reason) => (cluster.as_str(), reason.kind().as_str()),
        })
        .collect();
    assert_eq!(verdicts, [("best", "chosen"), ("fuller", "eligible"), ("tiny", "infeasible")]);
}

#[test]
fn the_parts_of_a_score_add_up_to_it_by_their_weights() {
    let mut env = TestEnv::unspaced();
    for (name, weight, used) in [("a", 1.0, 0.0), ("b", 0.3, 1.0), ("c", 7.0, 3.0)] {
        env.cluster(a_cluster(name).weight(weight).used(&[("CPU", used)]));
    }
    let weights: Vec<_> =
        env.core.settings().policies.iter().map(|p| (p.name.clone(), weight(&p.rule))).collect();
    let answer = env.core.what_if(&a_job().cpus(1.5).0.work, None);
    for cluster in answer.clusters {
        let (Verdict::Chosen { score, .. } | Verdict::Eligible { score, .. }) = cluster.verdict else {
            panic!()
        };
        let sum: f64 = cluster.parts.iter().zip(&weights).map(|((_, part), (_, weight))| part * weight).sum();
        let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
        assert!((sum / total - f64::from(score)).abs() < 1e-6, "{}: {:?}", cluster.cluster, cluster.parts);
        assert!(cluster.parts.iter().zip(&weights).all(|((a, _), (b, _))| a == b));
    }
}

fn weight(rule: &PolicyRule) -> f64 {
    match rule {
        PolicyRule::BuiltIn { weight } | PolicyRule::Score { weight, .. } => *weight,
        PolicyRule::Filter { .. } => 0.0,
    }
}

// ---- what if

/// Three different clusters, with a job running on the first.
fn a_mixed_pool(change: impl FnOnce(&mut Settings)) -> TestEnv {
    let mut env = TestEnv::with(change);
    env.cluster(a_cluster("centos").tags(&["linux"]).weight(2.0));
    env.cluster(a_cluster("mac").tags(&["macos"]).cpus(4.0));
    env.cluster(a_cluster("gpu").tags(&["linux", "cuda"]).total(&[("CPU", 16.0), ("GPU", 2.0)]));
    let parent = env.submit(a_job().id("parent").requires("centos"));
    env.run(&parent);
    env
}

fn all_kinds_of_work() -> Vec<WorkBuilder> {
    let parent = job_id("parent");
    vec![
        a_job(),
        a_job().cpus(3.0),
        a_job().cpus(5.0).priority(3),
        a_job().tags(&["linux"]),
        a_job().tags(&["cuda", "fund"]).demand(&[("GPU", 1.0)]),
        a_job().prefers("mac"),
        a_job().requires("gpu"),
        a_job().cpus(100.0),
        a_task().cpus(1.0),
        a_task().batch("b1"),
        an_actor().cpus(2.0).prefers("centos"),
        a_task().inside(&parent, "centos"),
        a_job().inside(&parent, "centos").prefers("gpu"),
    ]
}

#[test]
fn what_if_picks_what_a_submission_then_gets() {
    for interval in ["0", "40s"] {
        for (threshold, mode) in [("0.7", "parallel"), ("1", "serial"), ("0.3", "parallel")] {
            let mut env = a_mixed_pool(|s| {
                s.set("submission_interval", interval).unwrap();
                s.set("resource_threshold", threshold).unwrap();
                s.set("execution_mode", mode).unwrap();
            });
            for (round, cluster) in ["centos", "mac", "gpu", "mac"].into_iter().enumerate() {
                for work in all_kinds_of_work() {
                    let answer = env.core.what_if(&work.0.work, work.0.parent.as_ref());
                    let job = env.submit(work);
                    assert_eq!(answer.chosen.as_ref().map_or("", |c| c.as_str()), env.place(&job), "{job}");
                }
                match round {
                    0 => env.uses(cluster, &[("CPU", 3.0)]),
                    1 => env.lose(cluster),
                    2 => env.cordon(cluster),
                    _ => env.bring_back(cluster),
                }
                env.advance_s(17);
            }
        }
    }
}

#[test]
fn asking_changes_nothing() {
    let mut env = a_mixed_pool(|_| {});
    for work in all_kinds_of_work() {
        env.submit(work);
    }
    let (durable, wakeup) = (env.core.durable(), env.core.next_wakeup());
    let jobs: Vec<_> = env.core.jobs().map(|job| job.id.clone()).collect();
    for work in all_kinds_of_work() {
        let _ = env.core.what_if(&work.0.work, work.0.parent.as_ref());
    }
    jobs.iter().for_each(|job| drop(env.core.explain(job).unwrap()));
    assert_eq!((env.core.durable(), env.core.next_wakeup()), (durable, wakeup));
    let out = env.core.handle(env.now, Input::Tick);
    assert_eq!((out.writes.len(), out.effects.len(), out.events.len(), out.cycle), (0, 0, 0, None));
}

#[test]
fn what_if_says_when_a_submission_would_be_refused() {
    let refused = |env: &TestEnv, work: &WorkBuilder| {
        let answer = env.core.what_if(&work.0.work, None);
        assert_eq!((answer.chosen, answer.clusters), (None, vec![]));
        answer.refused.unwrap()
    };
    assert_eq!(
        refused(&TestEnv::new(), &a_job()),
        "no cluster is registered\n  hint: list some in cluster.yaml, or register one"
    );
    assert_eq!(
        refused(&TestEnv::only(), &a_job().prefers("mac")),
        "unknown cluster mac\n  hint: there are only"
    );
    let mut env = TestEnv::with(|s| s.set("infeasible", "reject").unwrap());
    env.cluster(a_cluster("only"));
    assert_eq!(
        refused(&env, &a_job().cpus(9.0)),
        "no cluster could ever take this: only: too small: CPU 9 requested, 8 in total\n  \
         hint: ask for less, or set infeasible: queue"
    );
    env.set("max_queue", "0");
    assert!(refused(&env, &a_job()).starts_with("queue jobs is full"));
}

#[test]
fn what_if_for_sub_work_looks_at_the_parents_cluster() {
    let env = a_mixed_pool(|_| {});
    let parent = Parent { job: job_id("parent"), cluster: cluster_name("centos") };
    let answer = env.core.what_if(&a_task().0.work, Some(&parent));
    assert_eq!(answer.chosen, Some(cluster_name("centos")));
    let said = answer.clusters[1].verdict.describe(answer.at, Lang::En);
    assert_eq!(said, "the work asks for cluster centos");
    assert_eq!((env.state(&parent.job), env.core.now()), (State::Running, Timestamp(1_000_000)));
}
