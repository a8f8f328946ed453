//! Who leads, as every replica sees it.

use std::{sync::Arc, thread, time::Duration};

use multicluster_store::Options;

use crate::{
    backend::{expire, open, take},
    server::{Server, block},
    support::*,
};

#[test]
fn everybody_sees_who_leads_and_who_is_there() {
    let server = Server::shared();
    let url = server.url(&server.database());
    let (one, two) = (open(&url, Options::default()).unwrap(), open(&url, Options::default()).unwrap());
    assert_eq!(one.plane(), two.plane());
    let before = block(one.seat()).unwrap();
    assert!(before.expired && before.epoch == 0 && before.holder.is_none());
    let mut lead = take(&one).unwrap();
    lead.store.commit(&[job(queued("a", 1))]).unwrap();
    let seat = block(two.seat()).unwrap();
    assert!(!seat.expired && seat.epoch == 1 && seat.epoch == lead.epoch);
    assert!(seat.seq > 1 && seat.since >= before.now && seat.now >= seat.since);
    let names: Vec<_> = seat.replicas.iter().map(|replica| replica.name.clone()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.contains(&seat.holder.clone().unwrap()));
    assert_eq!(seat.origin, before.origin);
    assert!(seat.origin.ends_with("/00000001"), "{}", seat.origin);
    assert!(block(two.take(&seat)).unwrap().is_none());
    // What was seen before somebody else led is of no use.
    expire(&url);
    assert!(block(two.take(&before)).unwrap().is_none());
}

#[test]
fn a_follower_reads_what_the_leader_commits() {
    let server = Server::shared();
    let url = server.url(&server.database());
    let (one, two) = (open(&url, Options::default()).unwrap(), open(&url, Options::default()).unwrap());
    let mut lead = take(&one).unwrap();
    let (reader, _) = two.readers();
    for n in 1..20 {
        let name = format!("job-{n}");
        lead.store
            .commit(&[job(queued(&name, n)), payload(&name, a_payload(&name)), event(n, Some(&name))])
            .unwrap();
        assert_eq!(reader.job(&id(&name)).unwrap().unwrap().payload, Some(a_payload(&name)));
        assert_eq!(reader.events(None, n - 1, 10).unwrap().len(), 1);
    }
    drop(two);
    assert!(reader.job(&id("job-1")).unwrap().is_some(), "a reader outlives its database");
}

/// Loading takes longer than the lease, and the lease is renewed meanwhile.
#[test]
fn many_jobs_are_loaded_without_losing_the_lead() {
    let server = Server::shared();
    let url = server.url(&server.database());
    let options = Options {
        lease: Duration::from_millis(900),
        margin: Duration::from_millis(180),
        ..Options::default()
    };
    let one = open(&url, options.clone()).unwrap();
    let mut lead = take(&one).unwrap();
    let count = 30_000;
    for first in (0..count).step_by(5_000) {
        let jobs = (first..first + 5_000).map(|n| job(queued(&format!("job-{n}"), n)));
        lead.store.commit(&jobs.collect::<Vec<_>>()).unwrap();
    }
    lead.store.resign().unwrap();
    drop(lead);
    let mut lead = take(&one).unwrap();
    let trust = lead.trust.clone();
    let started = std::time::Instant::now();
    let loaded = lead.store.load().unwrap();
    println!("{count} jobs in {:?}, unoptimised", started.elapsed());
    assert_eq!(loaded.durable.jobs.len() as u64, count);
    let shared = loaded.durable.jobs.values().next().unwrap().work.clone();
    assert!(loaded.durable.jobs.values().all(|job| Arc::ptr_eq(&job.work, &shared)), "works are shared");
    assert!(!trust.has_ended());
    lead.store.renew().unwrap();
    assert!(trust.holds());
}

#[test]
fn the_store_may_be_used_and_dropped_inside_a_runtime() {
    let server = Server::shared();
    let url = server.url(&server.database());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let database = multicluster_store::postgres::Database::open(
            &url,
            Options::default(),
            crate::backend::a_replica(),
        )
        .await
        .unwrap();
        let seat = database.seat().await.unwrap();
        let mut lead = database.take(&seat).await.unwrap().unwrap();
        let lead = thread::spawn(move || {
            lead.store.load().unwrap();
            lead
        });
        let lead = lead.join().unwrap();
        assert!(database.readers().0.job(&id("none")).unwrap().is_none());
        drop(lead);
        drop(database);
    });
}
