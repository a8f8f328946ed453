//! Records and payloads.

use multicluster_core::{Write, record::Stage};
use multicluster_store::{Change, Options};
use multicluster_types::State;

use crate::support::*;

#[test]
fn a_new_store_is_empty_and_knows_who_it_is() {
    let mut store = TestStore::new(Options::default());
    let loaded = store.store().load().unwrap();
    assert_eq!(loaded.durable, Default::default());
    assert_eq!(loaded.next_event, 1);
    assert!(loaded.plane.len() > 10, "{}", loaded.plane);
    store.reopen();
    assert_eq!(store.store().load().unwrap().plane, loaded.plane);
    assert_eq!(store.reader().job(&id("x")).unwrap(), None);
    assert_eq!(store.ids(&Default::default(), 10), Vec::<String>::new());
}

#[test]
fn a_job_comes_back_as_it_was() {
    let mut store = TestStore::new(Options::default());
    let record = queued("a", 7);
    store.commit([job(record.clone()), payload("a", a_payload("python x.py"))]);
    for _ in 0..2 {
        let loaded = store.store().load().unwrap();
        assert_eq!(loaded.durable.jobs[&id("a")], record);
        let stored = store.reader().job(&id("a")).unwrap().unwrap();
        assert_eq!(stored.record, record);
        assert_eq!(stored.payload, Some(a_payload("python x.py")));
        assert_eq!(store.reader().payload(&id("a")).unwrap(), Some(a_payload("python x.py")));
        store.reopen();
    }
}

#[test]
fn a_later_record_wins_also_within_one_batch() {
    let mut store = TestStore::new(Options::default());
    let record = queued("a", 1);
    let running = on(&record, "mac", Stage::Running);
    let over = ended(&record, Some("mac"), State::Succeeded);
    store.commit([job(record.clone()), payload("a", a_payload("x")), job(running)]);
    assert_eq!(store.reader().job(&id("a")).unwrap().unwrap().record.state(), State::Running);
    store.commit([job(record), job(over.clone())]);
    store.reopen();
    let stored = store.reader().job(&id("a")).unwrap().unwrap();
    assert_eq!(stored.record, over);
    assert_eq!(stored.payload, Some(a_payload("x")), "the payload stays");
}

#[test]
fn a_job_that_is_run_again_gets_another_seq_and_keeps_everything() {
    let mut store = TestStore::new(Options::default());
    store.commit([
        job(queued("a", 1)),
        payload("a", a_payload("x")),
        job(queued("b", 2)),
        attempt("a", 1, "mac"),
    ]);
    store.commit([job(queued("a", 3))]);
    store.reopen();
    assert_eq!(store.store().load().unwrap().durable.jobs[&id("a")].seq, 3);
    assert_eq!(store.reader().payload(&id("a")).unwrap(), Some(a_payload("x")));
    assert_eq!(store.reader().attempts(&id("a")).unwrap().len(), 1);
    assert_eq!(store.ids(&Default::default(), 10), ["b", "a"], "in the order of acceptance");
}

#[test]
fn deleting_a_job_deletes_all_of_it() {
    let mut store = TestStore::new(Options::default());
    let everything = |name: &str| {
        vec![
            job(on(&queued(name, 1), "mac", Stage::Running)),
            payload(name, a_payload("x")),
            attempt(name, 1, "centos"),
            decision(name, 1),
            Change::Logs(a_log(name, 1, "text")),
            seen(name, 1, "node"),
        ]
    };
    let gone = |store: &TestStore, name: &str| {
        let (reader, name) = (store.reader(), id(name));
        assert_eq!(reader.job(&name).unwrap(), None);
        assert_eq!(reader.payload(&name).unwrap(), None);
        assert_eq!(reader.attempts(&name).unwrap(), []);
        assert_eq!(reader.decisions(Some(&name), None, 10).unwrap().items, []);
        assert_eq!(reader.log_copy(&name, None).unwrap(), None);
    };
    store.commit(everything("a"));
    store.commit([delete("a")]);
    gone(&store, "a");
    // Within one batch, in the order given.
    store.commit(everything("b").into_iter().chain([delete("b")]));
    gone(&store, "b");
    // Data of the old job does not belong to a new job of the same name.
    store.commit(everything("c"));
    store.commit([delete("c"), job(queued("c", 9))]);
    store.reopen();
    let stored = store.reader().job(&id("c")).unwrap().unwrap();
    assert_eq!((stored.record, stored.payload, stored.seen), (queued("c", 9), None, None));
    assert_eq!(store.reader().attempts(&id("c")).unwrap(), []);
    assert_eq!(store.reader().decisions(None, None, 10).unwrap().items, []);
    assert_eq!(store.reader().log_copy(&id("c"), None).unwrap(), None);
    let on_mac = multicluster_store::JobFilter { cluster: Some(cluster("mac")), ..Default::default() };
    assert_eq!(store.ids(&on_mac, 10), Vec::<String>::new());
}

#[test]
fn what_belongs_to_no_job_is_dropped() {
    let mut store = TestStore::new(Options::default());
    store.commit([payload("a", a_payload("x")), attempt("a", 1, "mac"), decision("a", 1), delete("zzz")]);
    store.commit([Change::Logs(a_log("a", 1, "text"))]);
    store.commit([job(queued("a", 1))]);
    assert_eq!(store.reader().payload(&id("a")).unwrap(), None);
    assert_eq!(store.reader().attempts(&id("a")).unwrap(), []);
    assert_eq!(store.reader().log_copy(&id("a"), None).unwrap(), None);
    assert_eq!(store.reader().decisions(None, None, 10).unwrap().items, []);
}

#[test]
fn a_payload_may_come_before_its_record() {
    let mut store = TestStore::new(Options::default());
    store.commit([payload("a", a_payload("x")), job(queued("a", 1))]);
    assert_eq!(store.reader().payload(&id("a")).unwrap(), Some(a_payload("x")));
}

#[test]
fn clusters_orphans_policies_and_usage_come_back() {
    let mut store = TestStore::new(Options::default());
    let core = |write| Change::Core(write);
    store.commit([
        core(Write::Cluster(a_cluster("mac", false))),
        core(Write::Cluster(a_cluster("centos", false))),
        core(Write::Orphan(an_orphan("a", 1))),
        core(Write::Orphan(an_orphan("a", 2))),
        core(Write::Orphan(an_orphan("a", 2))),
        core(Write::Policy(a_policy("night", 1.0))),
        core(Write::Policy(a_policy("small", 1.0))),
        core(Write::Usage(a_usage("ann", 1))),
        core(Write::Usage(a_usage("bob", 1))),
        core(Write::Usage(a_usage("bob", 2))),
    ]);
    store.commit([
        core(Write::Cluster(a_cluster("mac", true))),
        core(Write::DeleteCluster(cluster("centos"))),
        core(Write::DeleteOrphan(an_orphan("a", 1))),
        core(Write::DeleteOrphan(an_orphan("b", 1))),
        core(Write::Policy(a_policy("night", 0.1))),
        core(Write::DeletePolicy("small".into())),
        core(Write::DeletePolicy("none".into())),
        core(Write::Usage(a_usage("eve", 3))),
        core(Write::DeleteUsage(owner("eve"))),
        core(Write::DeleteUsage(owner("ann"))),
        core(Write::Usage(a_usage("cat", 4))),
    ]);
    store.reopen();
    let durable = store.store().load().unwrap().durable;
    assert_eq!(durable.clusters, [(cluster("mac"), a_cluster("mac", true))].into());
    assert_eq!(durable.orphans, [an_orphan("a", 2)].into());
    assert_eq!(durable.policies, [("night".into(), a_policy("night", 0.1))].into());
    let usage: Vec<_> = durable.usage.into_values().collect();
    assert_eq!(usage, [a_usage("bob", 2), a_usage("cat", 4)]);
}

#[test]
fn an_empty_batch_is_fine() {
    let mut store = TestStore::new(Options::default());
    store.commit([]);
}
