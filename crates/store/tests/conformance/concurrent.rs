//! Reads during writes.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use multicluster_core::record::Stage;
use multicluster_store::{JobFilter, Options};
use multicluster_types::State;

use crate::support::*;

/// Committed data is visible at once and completely, and reads never go backwards.
#[test]
fn readers_see_whole_commits_while_the_writer_works() {
    let mut store = TestStore::new(Options::default());
    const ROUNDS: u64 = 200;
    let committed = AtomicU64::new(0);
    let reader = store.reader();
    let (writer, committed) = (store.store(), &committed);
    thread::scope(|scope| {
        for _ in 0..6 {
            let reader = &reader;
            scope.spawn(move || {
                let mut seen = 0;
                while seen < ROUNDS {
                    let promised = committed.load(Ordering::SeqCst);
                    // Each round adds ten jobs and an event.
                    let page = reader.jobs(&JobFilter::default(), None, 5_000).unwrap();
                    assert_eq!(page.items.len() % 10, 0, "half a commit");
                    let now = page.items.len() as u64 / 10;
                    assert!(now >= promised && now >= seen, "{now} {promised} {seen}");
                    assert!(page.items.iter().all(|job| job.payload.is_some()));
                    let events = reader.events(None, 0, 5_000).unwrap().len() as u64;
                    assert!(events >= now);
                    if promised > 0 {
                        let name = id(format!("job-{}-3", promised - 1));
                        assert!(reader.job(&name).unwrap().is_some());
                        // Deleted and made again in every round.
                        assert!(reader.job(&id("again")).unwrap().is_none_or(|job| job.record.seq > 0));
                    }
                    seen = now;
                }
            });
        }
        for round in 0..ROUNDS {
            let names = (0..10).map(|n| format!("job-{round}-{n}"));
            let mut changes: Vec<_> = names
                .enumerate()
                .flat_map(|(n, name)| {
                    [job(queued(&name, round * 10 + n as u64)), payload(&name, a_payload(&name))]
                })
                .collect();
            changes.push(event(round + 1, None));
            writer.commit(&changes).unwrap();
            committed.store(round + 1, Ordering::SeqCst);
        }
    });
}

/// A job that is deleted and submitted again in one commit is always visible.
#[test]
fn a_job_that_is_replaced_is_never_missing() {
    let mut store = TestStore::new(Options::default());
    let reader = store.reader();
    store.commit([job(queued("again", 0))]);
    let writer = store.store();
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while done.load(Ordering::SeqCst) == 0 {
                    assert!(reader.job(&id("again")).unwrap().is_some());
                }
            });
        }
        for round in 1..500 {
            writer.commit(&[delete("again"), job(queued("again", round))]).unwrap();
        }
        done.store(1, Ordering::SeqCst);
    });
}

#[test]
fn a_list_by_state_is_one_view() {
    let mut store = TestStore::new(Options::default());
    let reader = store.reader();
    let record = queued("only", 0);
    store.commit([job(record.clone())]);
    let writer = store.store();
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let filter = JobFilter { states: State::ALL.to_vec(), ..Default::default() };
            while done.load(Ordering::SeqCst) == 0 {
                assert_eq!(reader.jobs(&filter, None, 5).unwrap().items.len(), 1);
            }
        });
        for round in 0..300 {
            let next = if round % 2 == 0 { on(&record, "mac", Stage::Running) } else { record.clone() };
            writer.commit(&[job(next)]).unwrap();
        }
        done.store(1, Ordering::SeqCst);
    });
}
