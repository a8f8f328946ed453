//! An old leader stores nothing, and a commit whose answer is lost is stored once.

use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use multicluster_store::{
    Change, JobFilter, Options, StoreError,
    postgres::{Database, Lead},
};

use crate::{
    backend::{expire, open, take, take_in_time},
    proxy::{Fault, Proxy},
    server::{Server, ask, block},
    support::*,
};

fn a_database() -> String {
    let server = Server::shared();
    server.url(&server.database())
}

fn lead(url: &str) -> (Database, Lead) {
    let database = open(url, Options::default()).unwrap();
    let mut lead = take(&database).unwrap();
    lead.store.load().unwrap();
    (database, lead)
}

fn is_not_leader(result: &Result<(), StoreError>) -> bool {
    matches!(result, Err(StoreError::NotLeader { .. }))
}

fn accepted(name: &str, seq: u64) -> Vec<Change> {
    vec![
        job(queued(name, seq)),
        payload(name, a_payload(name)),
        decision(name, 1),
        event(seq + 1, Some(name)),
    ]
}

fn names(url: &str) -> Vec<String> {
    ask(url, "SELECT id FROM multicluster.jobs ORDER BY job")
}

#[test]
fn an_old_leader_stores_nothing() {
    let url = a_database();
    let (_old_database, mut old) = lead(&url);
    old.store.commit(&accepted("before", 1)).unwrap();
    expire(&url);
    let (_database, mut new) = lead(&url);
    assert!(old.trust.holds(), "it cannot know yet; its lease was shortened by the test");
    assert!(is_not_leader(&old.store.commit(&accepted("stale", 2))));
    assert!(!old.trust.holds() && old.trust.has_ended());
    assert!(is_not_leader(&old.store.commit(&accepted("stale", 2))));
    assert!(is_not_leader(&old.store.renew()) && is_not_leader(&old.store.resign()));
    new.store.commit(&accepted("after", 2)).unwrap();
    assert_eq!(names(&url), ["before", "after"]);
    assert!(new.epoch > old.epoch && new.trust.holds() && !new.rewound);
}

#[test]
fn of_many_that_take_at_once_one_leads() {
    let url = a_database();
    let databases: Vec<_> = (0..6).map(|_| open(&url, Options::default()).unwrap()).collect();
    for round in 1..4 {
        expire(&url);
        let leads: Vec<_> = thread::scope(|scope| {
            let takes: Vec<_> = databases.iter().map(|database| scope.spawn(|| take(database))).collect();
            takes.into_iter().filter_map(|take| take.join().unwrap()).collect()
        });
        assert_eq!(leads.len(), 1, "round {round}");
        assert_eq!(leads[0].epoch, round);
    }
}

#[test]
fn nobody_takes_the_lead_from_a_leader_that_renews() {
    let url = a_database();
    let options = Options {
        lease: Duration::from_millis(400),
        margin: Duration::from_millis(80),
        ..Options::default()
    };
    let database = open(&url, options.clone()).unwrap();
    let mut lead = take(&database).unwrap();
    assert_eq!(lead.store.renews_every(), Some(Duration::from_millis(100)));
    let other = open(&url, options).unwrap();
    for _ in 0..10 {
        lead.store.renew().unwrap();
        assert!(take(&other).is_none() && lead.trust.holds());
        thread::sleep(Duration::from_millis(100));
    }
    // What it trusts ends before anybody else can lead.
    let started = Instant::now();
    while lead.trust.holds() {
        assert!(take(&other).is_none());
    }
    assert!(!lead.trust.has_ended(), "a renewal that still arrives extends it");
    while take(&other).is_none() {
        assert!(started.elapsed() < Duration::from_secs(3));
    }
    assert!(is_not_leader(&lead.store.renew()));
}

#[test]
fn who_resigns_is_followed_at_once() {
    let url = a_database();
    let (_database, mut old) = lead(&url);
    old.store.commit(&accepted("a", 1)).unwrap();
    old.store.resign().unwrap();
    assert!(!old.trust.holds());
    assert!(is_not_leader(&old.store.commit(&accepted("b", 2))));
    let (_next, mut new) = lead(&url);
    new.store.commit(&accepted("c", 2)).unwrap();
    assert_eq!(names(&url), ["a", "c"]);
    assert_eq!(ask(&url, "SELECT count(*) FROM multicluster.lead"), ["1"]);
}

/// Both ways: it arrived and the answer is lost, or it never arrived.
#[test]
fn a_commit_whose_answer_is_lost_is_stored_once() {
    let server = Server::shared();
    let (name, proxy) = (server.database(), Proxy::to(server.port));
    let url = server.url(&name);
    let (_database, mut lead) = lead(&proxy.url(&name));
    lead.store.commit(&accepted("first", 1)).unwrap();
    for (at, fault) in [Fault::LoseAnswer, Fault::LoseRequest, Fault::LoseAnswer].into_iter().enumerate() {
        let at = at as u64 * 2 + 2;
        proxy.set(fault);
        lead.store.commit(&accepted(&format!("job-{at}"), at)).unwrap();
        assert!(proxy.is_set(Fault::None), "{fault:?} happened");
        // Memory is as the database: numbers go on, and the job is known.
        let record = ended(&queued(&format!("job-{at}"), at), Some("mac"), multicluster_types::State::Failed);
        lead.store.commit(&[job(record), decision(&format!("job-{at}"), 2)]).unwrap();
        lead.store.commit(&accepted(&format!("job-{}", at + 1), at + 1)).unwrap();
        assert!(lead.trust.holds());
    }
    assert_eq!(names(&url).len(), 7);
    assert_eq!(ask(&url, "SELECT count(*) FROM multicluster.decisions"), ["10"]);
    assert_eq!(ask(&url, "SELECT count(*) FROM multicluster.payloads"), ["7"]);
    assert_eq!(ask(&url, "SELECT count(*) FROM multicluster.events"), ["7"]);
}

/// The same for a commit that ends a run: what is kept of it is known again.
#[test]
fn a_lost_answer_leaves_the_history_of_runs_consistent() {
    let server = Server::shared();
    let (name, proxy) = (server.database(), Proxy::to(server.port));
    let (database, mut lead) = lead(&proxy.url(&name));
    let run = |n: u64| {
        let name = format!("job-{n}");
        let record = ended(&queued(&name, n), Some("mac"), multicluster_types::State::Succeeded);
        vec![job(record)]
    };
    for n in 1..7 {
        if n % 2 == 0 {
            proxy.set(Fault::LoseAnswer);
        }
        lead.store.commit(&run(n)).unwrap();
    }
    assert_eq!(
        database
            .readers()
            .0
            .runs(multicluster_types::Timestamp(0), multicluster_types::Timestamp(u64::MAX), None, 100)
            .unwrap()
            .items
            .len(),
        6
    );
    assert_eq!(ask(&server.url(&name), "SELECT count(*) FROM multicluster.shapes"), ["1"]);
}

#[test]
fn a_lost_answer_and_another_leader_is_not_the_leader() {
    let server = Server::shared();
    let (name, proxy) = (server.database(), Proxy::to(server.port));
    let url = server.url(&name);
    let (_database, mut old) = lead(&proxy.url(&name));
    proxy.set(Fault::Cut);
    let commits = thread::spawn(move || {
        let result = old.store.commit(&accepted("stale", 1));
        (result, old)
    });
    thread::sleep(Duration::from_millis(100));
    expire(&url);
    let (_next, mut new) = lead(&url);
    new.store.commit(&accepted("new", 1)).unwrap();
    proxy.set(Fault::None);
    let (result, old) = commits.join().unwrap();
    assert!(is_not_leader(&result) && old.trust.has_ended());
    assert_eq!(names(&url), ["new"]);
}

/// As a process that is stopped with half of a large commit on its way.
#[test]
fn the_open_transaction_of_an_old_leader_is_ended() {
    let server = Server::shared();
    let (name, proxy) = (server.database(), Proxy::to(server.port));
    let url = server.url(&name);
    let (_database, mut old) = lead(&proxy.url(&name));
    let commits = thread::spawn({
        proxy.set(Fault::Stall);
        let many: Vec<_> = (1..4_000).flat_map(|n| accepted(&format!("stale-{n}"), n)).collect();
        move || {
            let result = old.store.commit(&many);
            (result, old)
        }
    });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_xid IS NOT NULL";
    let started = Instant::now();
    while ask(&url, waits) == ["0"] {
        assert!(started.elapsed() < Duration::from_secs(5), "it never began");
        thread::sleep(Duration::from_millis(10));
    }
    // `expire` would wait for it: here the lease really ends.
    let follower = open(&url, Options::default()).unwrap();
    let lead = loop {
        let started = Instant::now();
        if let Some(lead) = take(&follower) {
            println!("taken within {:?} of the end of the lease", started.elapsed());
            break lead;
        }
        thread::sleep(Duration::from_millis(50));
    };
    let waited = started.elapsed();
    assert!(waited < Duration::from_secs(15), "{waited:?}");
    proxy.set(Fault::Cut);
    thread::sleep(Duration::from_millis(100));
    proxy.set(Fault::None);
    let (result, _old) = commits.join().unwrap();
    assert!(is_not_leader(&result));
    assert_eq!(names(&url), [""; 0]);
    assert!(lead.epoch == 2 && !lead.rewound);
}

#[test]
fn a_database_that_lost_commits_is_noticed_until_it_was_dealt_with() {
    let url = a_database();
    let (database, mut first) = lead(&url);
    for n in 1..6 {
        first.store.commit(&accepted(&format!("job-{n}"), n)).unwrap();
    }
    ask(&url, "UPDATE multicluster.lead SET seq = seq - 3");
    assert!(is_not_leader(&first.store.commit(&accepted("late", 9))));
    expire(&url);
    // This process has seen more than there is.
    let second = take(&database).unwrap();
    assert!(second.rewound);
    // It ended before it had looked at the clusters: the next one must.
    expire(&url);
    let (_other, mut third) = lead(&url);
    assert!(third.rewound);
    third.store.adopted().unwrap();
    expire(&url);
    assert!(!lead(&url).1.rewound);
    // Another server, or the same after it was restored.
    expire(&url);
    ask(&url, "UPDATE multicluster.lead SET origin = 'another/00000001'");
    assert!(lead(&url).1.rewound);
}

#[test]
fn what_is_refused_is_not_stored_and_may_be_tried_again() {
    let url = a_database();
    let (database, mut lead) = lead(&url);
    lead.store.commit(&accepted("a", 1)).unwrap();
    ask(&url, "ALTER TABLE multicluster.payloads ADD CONSTRAINT small CHECK (length(body) < 10) NOT VALID");
    for _ in 0..3 {
        let error = lead.store.commit(&accepted("b", 2)).unwrap_err();
        assert!(matches!(error, StoreError::Postgres { .. }), "{error}");
        assert!(lead.trust.holds());
    }
    lead.store.renew().unwrap();
    ask(&url, "ALTER TABLE multicluster.payloads DROP CONSTRAINT small");
    lead.store.commit(&accepted("b", 2)).unwrap();
    assert_eq!(names(&url), ["a", "b"]);
    assert_eq!(database.readers().0.jobs(&JobFilter::default(), None, 9).unwrap().items.len(), 2);
}

#[test]
fn commits_go_on_while_sessions_are_killed() {
    let url = a_database();
    let (database, mut lead) = lead(&url);
    // Ends the other thread even if a commit fails.
    let (progress, progressed) = mpsc::sync_channel(0);
    let (count, size) = (120, 5);
    thread::scope(|scope| {
        let url = &url;
        let killer = scope.spawn(move || {
            let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                        WHERE datname = current_database() AND pid <> pg_backend_pid()";
            // In the middle of a commit, not of every one: some must get through on a slow machine.
            progressed.iter().step_by(7).map(|()| ask(url, kill).len()).sum::<usize>()
        });
        for n in 0..count {
            let changes: Vec<_> =
                (0..size).flat_map(|i| accepted(&format!("job-{n}-{i}"), n * size + i)).collect();
            progress.send(()).unwrap();
            lead.store.commit(&changes).unwrap();
        }
        drop(progress);
        assert!(killer.join().unwrap() > 3);
    });
    assert_eq!(names(&url).len() as u64, count * size);
    for table in ["payloads", "decisions"] {
        let stored = ask(&url, &format!("SELECT count(*) FROM multicluster.{table}"));
        assert_eq!(stored, [(count * size).to_string()]);
    }
    let reader = database.readers().0;
    assert_eq!(reader.events(None, 0, 10_000).unwrap().len() as u64, count * size);
}

#[test]
fn a_leader_without_its_database_stops_to_lead_and_can_lead_again() {
    let server = Server::shared();
    let (name, proxy) = (server.database(), Proxy::to(server.port));
    let options = Options {
        lease: Duration::from_millis(200),
        margin: Duration::from_millis(40),
        ..Options::default()
    };
    let database = open(&proxy.url(&name), options).unwrap();
    let mut lead = take(&database).unwrap();
    lead.store.commit(&accepted("a", 1)).unwrap();
    proxy.set(Fault::Cut);
    let started = Instant::now();
    assert!(is_not_leader(&lead.store.commit(&accepted("b", 2))));
    assert!(started.elapsed() < Duration::from_secs(5) && lead.trust.has_ended());
    assert!(matches!(block(database.seat()), Err(StoreError::Unreachable { .. })));
    proxy.set(Fault::None);
    let mut again = take_in_time(&database);
    let known = again.store.load().unwrap().durable.jobs;
    assert!(known.contains_key(&id("a")) && !again.rewound);
    again.store.commit(&accepted("c", 3)).unwrap();
}
