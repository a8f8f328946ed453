//! Hostile values: typed errors or silence, never a panic, never a stuck queue.

#![allow(clippy::unwrap_used, reason = "tests may")]

use multicluster_core::{
    DispatchOutcome, Effect, HealthState, Identity, Input, LookupOutcome, Observation, Parent, Refusal,
    ReleaseOutcome, Reply, Run, RunStatus, Submission,
};
use multicluster_types::{
    Attempt, ClusterName, ClusterSpec, ContentHash, ExitCodes, GroupId, HeadMemory, Incarnation, JobId, Kind,
    Load, Message, OnClusterLoss, Owner, Platform, Preference, Priority, Quantity, Resources, Retry,
    RetryCodes, Settings, Share, Snapshot, Span, State, Tags, Timestamp, Work,
};
use proptest::prelude::*;

use crate::env::*;

/// The code of the refusal that a caller gets, or `None` for news that is dropped.
fn code(env: &mut TestEnv, input: Input) -> Option<&'static str> {
    env.send(input).map(|reply| reply.unwrap_err().code())
}

fn huge() -> Message {
    "x".repeat(10 << 20).into()
}

// ---- names and numbers that the core never issued

/// Every input that names a job, for this job, with the refusal for an unknown job.
fn about_job(job: &JobId, attempt: Attempt) -> Vec<(Input, Option<&'static str>)> {
    let job = || job.clone();
    let released = |outcome| (Input::Released { job: job(), attempt, outcome }, Some("no_lease"));
    let run = || Run { job: job(), attempt, life: None };
    let dispatched = |outcome| (Input::Dispatched { run: run(), outcome, took: Span::ZERO }, None);
    let looked_up = |outcome| (Input::LookedUp { run: run(), question: 1, outcome }, None);
    vec![
        (Input::Stop { job: job() }, Some("unknown_job")),
        (Input::Rerun { job: job() }, Some("unknown_job")),
        (Input::Delete { job: job() }, Some("unknown_job")),
        dispatched(DispatchOutcome::Accepted),
        dispatched(DispatchOutcome::Refused(huge())),
        dispatched(DispatchOutcome::Failed(huge())),
        dispatched(DispatchOutcome::Denied(huge())),
        dispatched(DispatchOutcome::Unknown(huge())),
        looked_up(LookupOutcome::Found(RunStatus::Succeeded)),
        looked_up(LookupOutcome::NotFound { incarnation: None }),
        looked_up(LookupOutcome::Buried { incarnation: None }),
        looked_up(LookupOutcome::NoAnswer),
        (Input::Pushing { run: run(), pushed: u64::MAX, of: 0 }, None),
        (Input::StopSent { run: run(), answered: true }, None),
        (Input::Heartbeat { job: job(), attempt }, Some("no_lease")),
        released(ReleaseOutcome::Succeeded),
        released(ReleaseOutcome::Unreachable(huge())),
    ]
}

/// Owners are separate: ids, identical requests, and the exemptions of sub-work.
#[test]
fn two_owners_share_nothing() {
    let mut env = TestEnv::only();
    let of = |mut builder: WorkBuilder, owner: &str| {
        builder.0.work.owner = Some(Owner::new(owner).unwrap());
        builder
    };
    let nightly = env.submit(of(a_job().id("nightly").content("x"), "zorro"));
    let taken = env.try_submit(of(a_job().id("nightly").content("x"), "diego")).unwrap_err();
    assert!(matches!(taken, Refusal::Taken { .. }), "{taken:?}");
    assert!(!taken.to_string().contains("queued"), "nothing of it is told: {taken}");
    let same = |env: &mut TestEnv, owner| env.submit(of(a_job().cpus(1000.0).content("same"), owner));
    let first = same(&mut env, "zorro");
    assert_eq!(same(&mut env, "zorro"), first);
    assert_ne!(same(&mut env, "diego"), first);

    env.run(&nightly);
    let inside = |owner| of(a_task().inside(&nightly, "only"), owner);
    assert!(env.try_submit(inside("zorro")).is_ok());
    let refused = env.try_submit(inside("diego")).unwrap_err();
    assert!(matches!(refused, Refusal::NotInside { .. }), "{refused:?}");
}

#[test]
fn an_unknown_job_is_an_error_to_a_caller_and_stale_news_from_a_cluster() {
    let mut env = TestEnv::only();
    let before = env.core.durable();
    for (input, expected) in about_job(&job_id("nobody"), Attempt(1)) {
        let text = format!("{input:?}").chars().take(80).collect::<String>();
        assert_eq!(code(&mut env, input), expected, "{text}");
    }
    env.send(env.seen("only", &job_id("nobody"), 1, RunStatus::Running));
    assert_eq!(env.core.durable(), before);
    env.assert_quiet();
}

#[test]
fn news_of_attempts_that_never_were_is_dropped() {
    for work in [a_job(), a_task()] {
        let mut env = TestEnv::only();
        let job = env.submit(work);
        env.effects.clear();
        let before = env.core.durable();
        for attempt in [0, 2, u32::MAX] {
            let news = about_job(&job, Attempt(attempt)).into_iter().skip(3);
            news.for_each(|(input, _)| drop(env.send(input)));
            env.send(env.seen("only", &job, attempt, RunStatus::Succeeded));
        }
        assert_eq!(env.core.durable(), before);
        env.assert_quiet();
    }
}

#[test]
fn a_lease_is_not_a_job_and_a_job_is_not_a_lease() {
    let mut env = TestEnv::only();
    let (job, task) = (env.submit(a_job()), env.submit(a_task()));
    assert_eq!(env.heartbeat(&job).unwrap_err().code(), "no_lease");
    assert_eq!(env.release(&job, ReleaseOutcome::Succeeded).unwrap_err().code(), "no_lease");
    env.send(env.seen("only", &task, 1, RunStatus::Succeeded));
    assert_eq!([env.state(&job), env.state(&task)], [State::Dispatching; 2]);
}

#[test]
fn an_unknown_cluster_is_an_error_that_lists_the_known_ones() {
    let mut env = TestEnv::pair();
    let before = env.core.durable();
    let cluster = || cluster_name("nowhere");
    let Input::Polled { snapshot, .. } = env.poll_input("mac") else { panic!() };
    let inputs = [
        Input::Polled { cluster: cluster(), snapshot, took: Span::ZERO },
        Input::PollFailed { cluster: cluster(), error: huge() },
        Input::Unauthorized { cluster: cluster(), error: huge() },
        Input::Observed { cluster: cluster(), incarnation: None, complete_at: None, runs: vec![] },
        Input::Remove { cluster: cluster(), force: true },
        Input::Cordon { cluster: cluster(), note: Some(huge()), drain: true },
        Input::Uncordon { cluster: cluster() },
        Input::CheckNow { cluster: cluster() },
        Input::Submit(a_job().id("x").prefers("nowhere").0),
    ];
    for input in inputs {
        let refusal = env.ask(input).unwrap_err();
        assert_eq!(refusal.to_string(), "unknown cluster nowhere\n  hint: there are centos, mac");
    }
    assert_eq!(env.core.durable(), before);
}

#[test]
fn only_a_job_on_a_cluster_can_be_submitted_from() {
    let mut env = TestEnv::pair();
    let parent = env.submit(a_job().requires("mac"));
    for (job, cluster) in [("nobody", "mac"), (parent.as_str(), "centos"), (parent.as_str(), "nowhere")] {
        let refusal = env.try_submit(a_task().inside(&job_id(job), cluster)).unwrap_err();
        assert_eq!(refusal.code(), "not_inside", "{refusal}");
    }
    assert!(env.try_submit(a_task().inside(&parent, "mac")).is_ok());
    env.succeed(&parent);
    let refusal = env.try_submit(a_task().inside(&parent, "mac")).unwrap_err();
    assert_eq!(refusal.code(), "not_inside", "it has ended");
}

#[test]
fn nothing_panics_on_an_empty_pool() {
    let mut env = TestEnv::new();
    for (input, expected) in about_job(&job_id("nobody"), Attempt(1)) {
        assert_eq!(code(&mut env, input), expected);
    }
    assert_eq!(code(&mut env, Input::Submit(a_job().id("x").0)), Some("no_clusters"));
    assert_eq!(code(&mut env, Input::CheckNow { cluster: cluster_name("x") }), Some("unknown_cluster"));
    env.advance_s(3600);
    env.crash();
    comes_to_rest(&mut env, "an empty pool");
}

#[test]
fn odd_batches_are_answered_one_by_one() {
    let mut env = TestEnv::only();
    assert_eq!(env.ask(a_batch([])), Ok(Reply::Each(vec![])));
    let batch = [a_job().id("a"), a_job().id("a"), a_job().id("a").cpus(1.0), a_job().id("b").prefers("no")];
    let Ok(Reply::Each(answers)) = env.ask(a_batch(batch)) else { panic!() };
    let codes: Vec<_> = answers.iter().map(|a| a.as_ref().map_or_else(Refusal::code, |_| "ok")).collect();
    assert_eq!(codes, ["ok", "ok", "conflict", "unknown_cluster"]);
    assert_eq!(env.core.job_count(), 1);
}

// ---- text and sets without end

#[test]
fn ten_megabytes_of_text_are_cut_before_they_are_kept() {
    let mut env = TestEnv::only();
    let job = env.submit(a_job());
    env.dispatched(&job, DispatchOutcome::Refused(huge()));
    env.ask(Input::Cordon { cluster: cluster_name("only"), note: Some(huge()), drain: false }).unwrap();
    (0..3).for_each(|_| drop(env.send(Input::PollFailed { cluster: cluster_name("only"), error: huge() })));
    let HealthState::Unhealthy { error, .. } = env.view("only").health else { panic!() };
    assert!(error.as_str().len() <= Message::MAX);
    assert!(env.summary(&job).len() < 2 * Message::MAX);
}

#[test]
fn a_thousand_tags_or_resources_are_refused_by_their_types() {
    let many = || (0..1000).map(|n| format!("t{n}"));
    assert!(Tags::new(many()).is_err());
    assert!(Resources::from_amounts(many().map(|name| (name, 1.0))).is_err());
    for amount in [f64::NAN, f64::INFINITY, -1.0, 1e15] {
        assert!(Resources::from_amounts([("CPU", amount)]).is_err(), "{amount}");
    }
    for name in ["", "a b", "..", &"x".repeat(1000)] {
        assert!(JobId::new(name).is_err(), "{name}");
    }
}

// ---- numbers at their limits

#[test]
fn priorities_and_retries_at_their_limits_are_only_numbers() {
    let mut env = TestEnv::only();
    env.cordon("only");
    for (id, priority) in [("low", i32::MIN), ("mid", 0), ("high", i32::MAX)] {
        env.submit(a_job().id(id).priority(priority).retries(u32::MAX));
    }
    env.uncordon("only");
    let order: Vec<_> = env.decisions.iter().map(|d| d.job.as_str()).collect();
    assert_eq!(order, ["high", "mid", "low"]);
    for _ in 0..50 {
        env.run(&job_id("low"));
        env.fail(&job_id("low"));
        env.advance_s(300);
    }
    assert_eq!(env.attempt(&job_id("low")).0, 51);
}

#[test]
fn impossible_snapshots_are_survived() {
    let extremes =
        [amounts(&[]), amounts(&[("CPU", 1.0)]), amounts(&[("CPU", 9e14), ("memory", 9e14), ("x", 9e14)])];
    for total in &extremes {
        for used in &extremes {
            let mut env = TestEnv::only();
            env.submit(a_job().cpus(8.0));
            env.fake("only").total = total.clone();
            env.fake("only").used = used.clone();
            env.advance_s(10);
            let jobs = [a_job(), a_job().cpus(1.0), a_job().demand(&[("CPU", 9e14), ("x", 9e14)])];
            for job in jobs {
                let job = env.submit(job);
                let _ = env.summary(&job);
            }
        }
    }
}

#[test]
fn a_snapshot_from_the_future_was_taken_now() {
    let mut env = TestEnv::only();
    for ahead in [Timestamp(env.now.0 + 1_000_000), Timestamp(u64::MAX)] {
        let Input::Polled { cluster, mut snapshot, took } = env.poll_input("only") else { panic!() };
        snapshot.taken_at = ahead;
        env.send(Input::Polled { cluster, snapshot, took });
        assert_eq!(env.view("only").snapshot.unwrap().taken_at, env.now);
    }
    env.advance_s(10);
    assert_eq!(env.view("only").snapshot.unwrap().taken_at, env.now, "later ones are still believed");
}

#[test]
fn the_end_of_time_is_survived() {
    let mut env = TestEnv::pair();
    let jobs: Vec<_> = (0..8).map(|_| env.submit(a_job().idempotent().retries(1))).collect();
    env.run(&jobs[0]);
    env.stop(&jobs[0]).unwrap();
    env.accept(&jobs[1]);
    env.dispatched(&jobs[2], DispatchOutcome::Unknown("?".into()));
    env.dispatched(&jobs[3], DispatchOutcome::Failed("?".into()));
    env.submit(a_task());
    for now in [u64::MAX, 5, u64::MAX - 1] {
        env.now = Timestamp(now);
        env.poll_all();
        env.send(Input::Tick);
        env.submit(a_job().cpus(1.0));
    }
    env.crash();
    assert_eq!(env.core.now(), Timestamp(u64::MAX - 1));
}

#[test]
fn settings_at_their_limits_do_not_break_anything() {
    for definition in Settings::DEFINITIONS {
        for value in ["0", "1", "1ms", "100000d", "4294967295", "unlimited"] {
            let mut settings = Settings { submission_interval: Span::ZERO, ..Settings::default() };
            if settings.set(definition.name, value).is_err() {
                continue;
            }
            let mut env = TestEnv::with(|s| *s = settings);
            env.cluster(a_cluster("a").weight(0.0)).cluster(a_cluster("b").weight(0.0));
            for n in 0..4 {
                let work = [a_job().cpus(3.0), a_job().retries(1), a_task(), an_actor().cpus(1.0)][n].clone();
                let _ = env.try_submit(work.id(&format!("w{n}")));
            }
            for step in 0..40 {
                step_somehow(&mut env, step);
                env.advance_s(1);
            }
            env.crash();
            comes_to_rest(&mut env, definition.name);
        }
    }
}

/// Answers the open requests, well or badly in turn.
fn step_somehow(env: &mut TestEnv, step: usize) {
    for effect in std::mem::take(&mut env.effects) {
        if let Effect::Submit { run, .. } = effect {
            let outcome = match step % 3 {
                0 => DispatchOutcome::Failed("no agent".into()),
                1 => DispatchOutcome::Unknown("timed out".into()),
                _ => DispatchOutcome::Accepted,
            };
            env.send(Input::Dispatched { run, outcome, took: Span::ZERO });
        }
    }
}

/// If nothing more happens at one moment, the scheduler does not ask forever to be woken at that moment.
fn comes_to_rest(env: &mut TestEnv, what: &str) {
    for _ in 0..100 {
        env.now = env.core.now();
        if env.core.next_wakeup().is_none_or(|at| at > env.now) {
            return;
        }
        env.send(Input::Tick);
    }
    panic!("{what}: never at rest");
}

// ---- anything in any order

/// One step of a test. Names, attempts and questions come from tiny pools, so that they collide.
#[derive(Debug, Clone)]
enum Step {
    /// Any input, whether it makes sense or not.
    Feed(Input),
    /// One of the open requests is answered.
    Answer(usize, DispatchOutcome, LookupOutcome, ReleaseOutcome),
    /// A cluster answers a poll sensibly.
    Poll(ClusterName),
    Pass(Span),
    Jump(Timestamp),
    Crash,
}

fn one_of<T: Clone + std::fmt::Debug + 'static>(values: &[T]) -> impl Strategy<Value = T> + use<T> {
    prop::sample::select(values.to_vec())
}

fn job() -> impl Strategy<Value = JobId> {
    one_of(&["a", "b", "c", "d", "e", "f"]).prop_map(job_id)
}

fn cluster() -> impl Strategy<Value = ClusterName> {
    one_of(&["p", "p", "q", "q", "r"]).prop_map(cluster_name)
}

fn attempt() -> impl Strategy<Value = Attempt> {
    one_of(&[1, 1, 1, 2, 2, 3, 0, u32::MAX]).prop_map(Attempt)
}

fn message() -> impl Strategy<Value = Message> {
    one_of(&["", "no agent"]).prop_map(Message::from)
}

fn head() -> impl Strategy<Value = Option<Incarnation>> {
    one_of(&[Some("session_1"), Some("session_1"), Some("session_2"), None])
        .prop_map(|name| name.map(|name| Incarnation::new(name).unwrap()))
}

fn resources() -> impl Strategy<Value = Resources> {
    one_of(&[0.0, 0.0, 1.0, 1.0, 2.0, 4.0, 8.0, 100.0, 9e14]).prop_map(|cpu| amounts(&[("CPU", cpu)]))
}

fn work() -> impl Strategy<Value = Work> {
    let preference = prop::option::weighted(0.4, (cluster(), any::<bool>()))
        .prop_map(|named| named.map(|(cluster, required)| Preference { cluster, required }));
    let tags = one_of(&[&[][..], &[], &["fund"], &["linux"]]).prop_map(|tags| Tags::new(tags).unwrap());
    let group = prop::option::weighted(0.2, Just(GroupId::new("batch").unwrap()));
    let priority = one_of(&[0, 0, 1, i32::MIN, i32::MAX]).prop_map(Priority);
    let codes = one_of(&[&[][..], &[], &[1], &[1, -9]]).prop_map(|codes| {
        let codes = ExitCodes::new(codes.iter().copied()).unwrap();
        (!codes.is_empty()).then(|| Box::new(RetryCodes::new(codes, ExitCodes::default()).unwrap()))
    });
    let retry = (one_of(&[0, 1, u32::MAX]), one_of(&[OnClusterLoss::Wait, OnClusterLoss::Requeue]), codes);
    let kind = one_of(&[Kind::Job, Kind::Job, Kind::Task, Kind::Actor]);
    (kind, resources(), tags, preference, group, priority, retry).prop_map(
        |(kind, demand, tags, preference, group, priority, (max_retries, on_cluster_loss, codes))| {
            let retry = Retry { max_retries, on_cluster_loss, codes };
            Work { demand, tags, preference, group, priority, retry, ..Work::new(kind) }
        },
    )
}

fn submission() -> impl Strategy<Value = Submission> {
    let id = prop_oneof![job().prop_map(Identity::Given), job().prop_map(Identity::Fresh)];
    let content = prop::option::of((0..2u8).prop_map(|n| ContentHash::of([[n]])));
    let parent = (job(), cluster()).prop_map(|(job, cluster)| Parent { job, cluster });
    (id, work(), content, prop::option::weighted(0.2, parent))
        .prop_map(|(id, work, content, parent)| Submission { id, work, content, bytes: 0, parent })
}

fn status() -> impl Strategy<Value = RunStatus> {
    let exit_code = one_of(&[None, Some(1), Some(-9), Some(i64::MIN), Some(i64::MAX)]);
    let failed = (message(), any::<bool>(), exit_code).prop_map(|(message, never_started, exit_code)| {
        RunStatus::Failed { message, never_started, exit_code }
    });
    prop_oneof![
        one_of(&[RunStatus::Pending, RunStatus::Running, RunStatus::Running, RunStatus::Succeeded]),
        prop_oneof![failed, Just(RunStatus::Stopped)],
    ]
}

fn dispatch() -> impl Strategy<Value = DispatchOutcome> {
    prop_oneof![
        2 => Just(DispatchOutcome::Accepted),
        1 => message().prop_map(DispatchOutcome::Refused),
        2 => message().prop_map(DispatchOutcome::Failed),
        1 => message().prop_map(DispatchOutcome::Denied),
        1 => message().prop_map(DispatchOutcome::NotSent),
        1 => message().prop_map(DispatchOutcome::Unsupported),
        2 => message().prop_map(DispatchOutcome::Unknown),
    ]
}

fn lookup() -> impl Strategy<Value = LookupOutcome> {
    prop_oneof![
        status().prop_map(LookupOutcome::Found),
        head().prop_map(|incarnation| LookupOutcome::NotFound { incarnation }),
        head().prop_map(|incarnation| LookupOutcome::Buried { incarnation }),
        Just(LookupOutcome::NoAnswer),
    ]
}

fn release() -> impl Strategy<Value = ReleaseOutcome> {
    prop_oneof![
        Just(ReleaseOutcome::Succeeded),
        message().prop_map(ReleaseOutcome::Failed),
        message().prop_map(ReleaseOutcome::Unreachable),
        Just(ReleaseOutcome::Stopped),
    ]
}

fn snapshot() -> impl Strategy<Value = Box<Snapshot>> {
    let taken_at = one_of(&[0, 1_000_000, 1_030_000, u64::MAX]).prop_map(Timestamp);
    (taken_at, resources(), resources(), one_of(&[1, 0, u32::MAX]), head(), head_memory()).prop_map(
        |(taken_at, total, used, nodes, incarnation, head)| {
            let (physical, ray_version) =
                (Load { cpu: Some(Share::percent(90)), ..Load::default() }, String::new());
            Box::new(Snapshot {
                taken_at,
                total,
                used,
                physical,
                head,
                nodes,
                shapes: Vec::new(),
                platform: Platform::default(),
                ray_version,
                python_version: None,
                incarnation,
                autoscaler: None,
            })
        },
    )
}

fn head_memory() -> impl Strategy<Value = Option<HeadMemory>> {
    let bytes = || one_of(&[0.0, 1e8, 1e9, 9e14]).prop_map(|bytes| Quantity::from_f64(bytes).unwrap());
    prop::option::of((bytes(), bytes()).prop_map(|(total, free)| HeadMemory { total, free }))
}

fn took() -> impl Strategy<Value = Span> {
    one_of(&[0, 3_000, u64::MAX]).prop_map(Span)
}

fn spec() -> impl Strategy<Value = ClusterSpec> {
    let dashboard = one_of(&["http://here:8265", "http://elsewhere:8265"]);
    let tags = one_of(&[&[][..], &["linux"], &["linux", "gpu"]]);
    (cluster(), tags, one_of(&[0.0, 1.0, 1e6]), dashboard).prop_map(|(name, tags, weight, dashboard)| {
        let spec = a_cluster(name.as_str()).tags(tags).weight(weight).spec;
        ClusterSpec { dashboard: dashboard.into(), ..spec }
    })
}

fn settings() -> impl Strategy<Value = Box<Settings>> {
    let value = one_of(&["0", "1", "2s", "serial", "reject", "max"]);
    prop::collection::vec((0..Settings::DEFINITIONS.len(), value), 0..6).prop_map(|changes| {
        let mut settings = Box::<Settings>::default();
        settings.submission_interval = Span::seconds(2);
        for (which, value) in changes {
            let _ = settings.set(Settings::DEFINITIONS[which].name, value);
        }
        settings
    })
}

/// A run of the present job, of an earlier one, or of any job.
fn run() -> impl Strategy<Value = Run> {
    let life = one_of(&[None, Some(Timestamp(0)), Some(Timestamp(1_000_000))]);
    (job(), attempt(), life).prop_map(|(job, attempt, life)| Run { job, attempt, life })
}

fn news() -> impl Strategy<Value = Input> {
    let seen = (run(), status()).prop_map(|(run, status)| Observation { run, status, ran: None });
    let moment = prop::option::of(one_of(&[0, 1_100_000, u64::MAX]).prop_map(Timestamp));
    prop_oneof![
        (cluster(), snapshot(), took()).prop_map(|(cluster, snapshot, took)| Input::Polled {
            cluster,
            snapshot,
            took
        }),
        (cluster(), message()).prop_map(|(cluster, error)| Input::PollFailed { cluster, error }),
        (cluster(), message()).prop_map(|(cluster, error)| Input::Unauthorized { cluster, error }),
        (run(), dispatch(), took()).prop_map(|(run, outcome, took)| Input::Dispatched { run, outcome, took }),
        (run(), 0..6u32, lookup()).prop_map(|(run, question, outcome)| Input::LookedUp {
            run,
            question,
            outcome
        }),
        (run(), any::<bool>()).prop_map(|(run, answered)| Input::StopSent { run, answered }),
        (run(), any::<u64>()).prop_map(|(run, of)| Input::Pushing { run, pushed: 1, of }),
        (cluster(), head(), moment, prop::collection::vec(seen, 0..3)).prop_map(
            |(cluster, incarnation, complete_at, runs)| Input::Observed {
                cluster,
                incarnation,
                complete_at,
                runs
            }
        ),
        (job(), attempt()).prop_map(|(job, attempt)| Input::Heartbeat { job, attempt }),
        (job(), attempt(), release()).prop_map(|(job, attempt, outcome)| Input::Released {
            job,
            attempt,
            outcome
        }),
    ]
}

fn request() -> impl Strategy<Value = Input> {
    prop_oneof![
        12 => submission().prop_map(Input::Submit),
        1 => prop::collection::vec(submission(), 0..5)
            .prop_map(|all| Input::Together(all.into_iter().map(Input::Submit).collect())),
        2 => job().prop_map(|job| Input::Stop { job }),
        2 => job().prop_map(|job| Input::Rerun { job }),
        3 => job().prop_map(|job| Input::Delete { job }),
        2 => (spec(), any::<bool>())
            .prop_map(|(spec, replace)| Input::Register { spec: Box::new(spec), replace }),
        1 => (cluster(), any::<bool>()).prop_map(|(cluster, force)| Input::Remove { cluster, force }),
        1 => (cluster(), message(), any::<bool>())
            .prop_map(|(cluster, note, drain)| Input::Cordon { cluster, note: Some(note), drain }),
        2 => cluster().prop_map(|cluster| Input::Uncordon { cluster }),
        1 => cluster().prop_map(|cluster| Input::CheckNow { cluster }),
        1 => (settings(), prop::collection::vec(spec(), 0..4))
            .prop_map(|(settings, clusters)| Input::Reload { settings, clusters }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let answer = (any::<usize>(), dispatch(), lookup(), release());
    let spans = one_of(&[0, 1, 1_000, 5_000, 40_000, 61_000, 301_000]);
    prop_oneof![
        16 => request().prop_map(Step::Feed),
        8 => news().prop_map(Step::Feed),
        12 => answer.prop_map(|(which, d, l, r)| Step::Answer(which, d, l, r)),
        8 => one_of(&["p", "q"]).prop_map(|name| Step::Poll(cluster_name(name))),
        6 => spans.prop_map(|ms| Step::Pass(Span(ms))),
        1 => one_of(&[0, 900_000, 1 << 60]).prop_map(|at| Step::Jump(Timestamp(at))),
        2 => Just(Step::Crash),
    ]
}

fn take(env: &mut TestEnv, step: Step) {
    match step {
        Step::Feed(input) => drop(env.send(input)),
        Step::Poll(cluster) => env.poll(cluster.as_str()),
        Step::Jump(at) => env.now = at,
        Step::Crash => env.crash(),
        Step::Pass(span) => {
            env.now = env.now + span;
            env.send(Input::Tick);
        }
        Step::Answer(..) if env.effects.is_empty() && env.grants.is_empty() => {}
        Step::Answer(which, dispatch, lookup, release) => {
            let which = which % (env.effects.len() + env.grants.len());
            let input = if which < env.grants.len() {
                let Run { job, attempt, .. } = env.grants.remove(which).0;
                match which % 2 {
                    0 => Input::Heartbeat { job, attempt },
                    _ => Input::Released { job, attempt, outcome: release },
                }
            } else {
                match env.effects.remove(which - env.grants.len()) {
                    Effect::Submit { run, .. } => {
                        Input::Dispatched { run, outcome: dispatch, took: Span::ZERO }
                    }
                    Effect::Lookup { run, question, .. } | Effect::Bury { run, question, .. } => {
                        Input::LookedUp { run, question, outcome: lookup }
                    }
                    Effect::Stop { run, .. } => Input::StopSent { run, answered: which.is_multiple_of(2) },
                    Effect::Poll { cluster }
                    | Effect::Forget { cluster, .. }
                    | Effect::Recall { cluster, .. }
                    | Effect::List { cluster } => Input::CheckNow { cluster },
                }
            };
            env.send(input);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// [`TestEnv::send`] checks all tables and the store after every input.
    #[test]
    fn nothing_panics_and_nothing_drifts_whatever_happens(steps in prop::collection::vec(step(), 1..60)) {
        let mut env = TestEnv::with(|s| s.submission_interval = Span::seconds(2));
        env.cluster(a_cluster("p").tags(&["linux"])).cluster(a_cluster("q"));
        for step in steps {
            take(&mut env, step);
            let jobs: Vec<_> = env.core.jobs().map(|job| job.id.clone()).collect();
            jobs.iter().for_each(|job| drop(env.core.explain(job).unwrap()));
        }
        comes_to_rest(&mut env, "after the last step");
    }
}
