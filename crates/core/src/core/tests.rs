//! Cases that tests outside the crate cannot bring about: changes that the state diagram does not have.

use multicluster_types::{
    ClusterSpec, ImpossibleTransition, Kind, Load, Platform, Resources, Snapshot, State, Transition, Work,
};

use super::*;
use crate::{
    Effect, Identity, Impossible, Submission,
    record::{Phase, Step},
};

const NOW: Timestamp = Timestamp(1_000);

/// One cluster, and one job that is being dispatched to it.
fn a_core() -> (Core, JobKey) {
    let mut core = Core::new(Settings::default()).unwrap();
    let cluster = ClusterName::new("only").unwrap();
    let spec = ClusterSpec::new(cluster.clone(), "127.0.0.1:10001", "http://127.0.0.1:8265");
    let snapshot = Snapshot {
        taken_at: NOW,
        total: Resources::from_amounts([("CPU", 8.0)]).unwrap(),
        used: Resources::default(),
        physical: Load::default(),
        head: None,
        nodes: 1,
        shapes: Vec::new(),
        platform: Platform::default(),
        ray_version: "2.60.0".into(),
        python_version: None,
        incarnation: None,
        autoscaler: None,
    };
    let id = JobId::new("job").unwrap();
    let submission = Submission {
        id: Identity::Given(id.clone()),
        work: Work::new(Kind::Job),
        content: None,
        bytes: 0,
        parent: None,
    };
    for input in [
        Input::Register { spec: Box::new(spec), replace: false },
        Input::Polled { cluster, snapshot: Box::new(snapshot), took: Span::ZERO },
        Input::Submit(submission),
    ] {
        assert_eq!(core.handle(NOW, input).impossible, []);
    }
    let key = core.find_job(&id).unwrap();
    assert_eq!(core.jobs[key].record().state(), State::Dispatching);
    (core, key)
}

/// The impossible change was recorded and had no other effect.
fn noted(core: &Core, out: &Output, from: State, transition: Transition) {
    let what = ImpossibleTransition { from, transition };
    assert_eq!(out.impossible, [Impossible { job: JobId::new("job").unwrap(), what }]);
    assert!(out.writes.is_empty() && out.effects.is_empty() && out.events.is_empty(), "{out:?}");
    core.check().unwrap();
}

#[test]
fn a_job_that_cannot_be_dispatched_is_not_sent() {
    let (mut core, key) = a_core();
    let (before, mut out) = (core.durable(), Output::default());
    let on = core.jobs[key].on.unwrap();
    assert!(!core.assume(key, on, &[], &mut out));
    noted(&core, &out, State::Dispatching, Transition::Dispatch);
    assert_eq!(core.durable(), before);
}

#[test]
fn a_job_that_its_cluster_has_is_not_sent_again() {
    let (mut core, key) = a_core();
    assert!(core.step(key, Step::Accept, &mut Output::default()));
    let (before, mut out) = (core.durable(), Output::default());
    core.send_again(key, &mut out);
    noted(&core, &out, State::Pending, Transition::Resend);
    assert_eq!(core.durable(), before);
}

#[test]
fn a_job_that_has_ended_is_not_asked_about() {
    let (mut core, key) = a_core();
    core.end(key, Transition::Succeed, None, &mut Output::default());
    let mut out = Output::default();
    core.mark_lost(key, &mut out);
    noted(&core, &out, State::Succeeded, Transition::LoseContact);
    core.end(key, Transition::Fail, Some("too late".into()), &mut out);
    assert_eq!(out.impossible.len(), 2);
    assert!(matches!(&core.jobs[key].record().phase, Phase::Ended(end) if end.state == State::Succeeded));
}

#[test]
fn what_is_sent_carries_the_run_and_orders_must_last() {
    let (mut core, key) = a_core();
    assert!(core.step(key, Step::Start, &mut Output::default()));
    let stop = core.handle(NOW, Input::Stop { job: JobId::new("job").unwrap() });
    let cluster = ClusterName::new("only").unwrap();
    assert_eq!(stop.effects, [Effect::Stop { run: core.jobs[key].run(), cluster: cluster.clone() }]);
    assert!(stop.must_sync, "it is about a job");
    assert!(core.handle(NOW, Input::Uncordon { cluster }).must_sync, "it is an order");
    assert!(!core.handle(NOW, Input::Tick).must_sync);
}
