//! Attempts, decisions, logs and events.

use multicluster_store::{Change, LogCopy, LogPiece, Options};
use multicluster_types::{Attempt, Timestamp};

use crate::support::*;

#[test]
fn attempts_come_in_order() {
    let mut store = TestStore::new(Options::default());
    store.commit([job(queued("a", 1)), attempt("a", 2, "mac")]);
    store.commit([attempt("a", 1, "centos"), attempt("a", 10, "mac")]);
    store.reopen();
    let numbers: Vec<_> =
        store.reader().attempts(&id("a")).unwrap().iter().map(|attempt| attempt.live.attempt.0).collect();
    assert_eq!(numbers, [1, 2, 10]);
    assert_eq!(store.reader().attempts(&id("b")).unwrap(), []);
}

#[test]
fn decisions_come_latest_first_in_pages() {
    let mut store = TestStore::new(Options::default());
    store.commit([job(queued("a", 1)), job(queued("b", 2))]);
    for number in 1..=7 {
        store.commit([decision("a", number), decision("b", number)]);
    }
    store.reopen();
    let of_a = all(3, |before| store.reader().decisions(Some(&id("a")), before, 3));
    assert_eq!(of_a, (1..=7).rev().map(|number| a_decision("a", number)).collect::<Vec<_>>());
    let of_all = all(4, |before| store.reader().decisions(None, before, 4));
    assert_eq!(of_all.len(), 14);
    assert_eq!(of_all[0], a_decision("b", 7));
    assert_eq!(of_all[13], a_decision("a", 1));
    let exact = store.reader().decisions(Some(&id("a")), None, 7).unwrap();
    assert_eq!((exact.items.len(), exact.next), (7, None));
}

#[test]
fn only_the_last_decisions_of_a_job_are_kept() {
    let mut store = TestStore::new(Options::default());
    store.commit([job(queued("a", 1)), job(queued("b", 2)), decision("b", 1)]);
    store.commit((1..=30).map(|number| decision("a", number)));
    store.commit((31..=35).map(|number| decision("a", number)));
    let of_a = store.reader().decisions(Some(&id("a")), None, 100).unwrap().items;
    assert_eq!(of_a.iter().map(|d| d.attempt.0).collect::<Vec<_>>(), (16..=35).rev().collect::<Vec<_>>());
    assert_eq!(store.reader().decisions(Some(&id("b")), None, 100).unwrap().items.len(), 1);
}

#[test]
fn a_log_copy_replaces_the_earlier_one() {
    let mut store = TestStore::new(Options::default());
    store.commit([job(queued("a", 1)), Change::Logs(a_log("a", 1, "first"))]);
    store.commit([Change::Logs(a_log("a", 1, "second\0é")), Change::Logs(a_log("a", 2, "other"))]);
    store.reopen();
    let reader = store.reader();
    assert_eq!(log(&*reader, &id("a"), Some(Attempt(1))), Some(a_copy(1, "second\0é")));
    assert_eq!(log(&*reader, &id("a"), None), Some(a_copy(2, "other")));
    assert_eq!(reader.log_copy(&id("a"), Some(Attempt(3))).unwrap(), None);
    assert_eq!(reader.log_copy(&id("b"), None).unwrap(), None);
    assert_eq!(reader.log_piece(&id("b"), Attempt(1), 0).unwrap(), None);
}

#[test]
fn a_long_log_is_kept_and_read_in_pieces() {
    let mut store = TestStore::new(Options::default());
    let piece = |from: u64, text: &str, taken_at: Option<u64>| {
        let taken_at = taken_at.map(Timestamp);
        Change::Logs(LogPiece { from, taken_at, ..a_log("a", 1, text) })
    };
    store.commit([job(queued("a", 1)), piece(0, "one\n", None), piece(4, "two\n", None)]);
    let copy = |store: &TestStore| log(&*store.reader(), &id("a"), None).unwrap();
    assert_eq!(copy(&store).0.taken_at, Timestamp(0), "the copy is not finished");
    // The last piece again, with what was printed since.
    store.commit([piece(4, "two\nthree\n", None), piece(14, "four\n", Some(70))]);
    store.commit([piece(19, "five\n", None)]);
    store.reopen();
    let (found, text) = copy(&store);
    assert_eq!(text, "one\ntwo\nthree\nfour\nfive\n");
    let LogCopy { taken_at, size, last, .. } = found;
    assert_eq!((taken_at, size, last), (Timestamp(70), 24, 19));
    let reader = store.reader();
    for keep in 0..=30 {
        let end = reader.log_end(&id("a"), &found, keep).unwrap();
        assert_eq!(end, &text.as_bytes()[text.len().saturating_sub(keep)..]);
    }
    let at = |at| reader.log_piece(&id("a"), Attempt(1), at).unwrap();
    assert_eq!(at(0), Some((0, b"one\n".to_vec())));
    assert_eq!((at(4), at(13)), (Some((4, b"two\nthree\n".to_vec())), at(4)));
    assert_eq!((at(23), at(24), at(u64::MAX)), (Some((19, b"five\n".to_vec())), None, None));
    // A new copy replaces all pieces, and a deleted job leaves none to the next one with its id.
    store.commit([piece(0, "new\n", Some(80))]);
    assert_eq!(copy(&store).1, "new\n");
    store.commit([piece(4, "more\n", None), delete("a"), job(queued("a", 2))]);
    assert_eq!(log(&*store.reader(), &id("a"), None), None);
    store.commit([piece(0, "x", None)]);
    assert_eq!(copy(&store).1, "x");
}

#[test]
fn what_was_seen_last_of_a_job_comes_with_it() {
    let mut store = TestStore::new(Options::default());
    store.commit([job(queued("a", 1)), job(queued("b", 2)), seen("a", 1, "node-1")]);
    store.commit([seen("a", 1, "node-2"), seen("a", 2, "node-3"), seen("missing", 1, "x")]);
    store.reopen();
    let stored = store.reader().job(&id("a")).unwrap().unwrap();
    assert_eq!(stored.seen, Some((Attempt(2), a_sight("node-3"))));
    let page = store.reader().jobs(&Default::default(), None, 9).unwrap().items;
    assert_eq!(page.into_iter().map(|job| job.seen).collect::<Vec<_>>(), [None, stored.seen]);
}

#[test]
fn events_come_in_order_after_the_one_named() {
    let mut store = TestStore::new(Options::default());
    let of = |seq: u64| [None, Some("a"), Some("c")][usize::try_from(seq % 3).unwrap()];
    store.commit((1..=500).map(|seq| event(seq, of(seq))));
    store.commit([event(501, None)]);
    store.reopen();
    let reader = store.reader();
    let seqs = |jobs: Option<&[&str]>, after, limit| {
        let jobs = jobs.map(|names| names.iter().copied().map(id).collect());
        let events = reader.events(jobs.as_ref(), after, limit).unwrap();
        events.iter().map(|event| event.seq).collect::<Vec<_>>()
    };
    assert_eq!(seqs(None, 0, 1000), (1..=501).collect::<Vec<_>>());
    assert_eq!(seqs(None, 77, 3), [78, 79, 80]);
    assert_eq!(seqs(None, 500, 10), [501]);
    assert_eq!(seqs(None, 501, 10), [0u64; 0]);
    assert_eq!(seqs(None, u64::MAX, 10), [0u64; 0]);
    assert_eq!(seqs(Some(&["a"]), 490, 10), [493, 496, 499]);
    assert_eq!(seqs(Some(&["a", "b", "c"]), 490, 10), [491, 493, 494, 496, 497, 499, 500]);
    assert_eq!(seqs(Some(&["c", "a"]), 490, 3), [491, 493, 494]);
    assert_eq!(seqs(Some(&["b"]), 0, 10), [0u64; 0]);
    assert_eq!(seqs(Some(&[]), 0, 10), [0u64; 0]);
    assert_eq!(reader.events(None, 42, 1).unwrap(), [an_event(43, Some("a"))]);
    assert_eq!(store.store().load().unwrap().next_event, 502);
}

#[test]
fn only_the_last_events_are_kept_and_numbers_never_repeat() {
    let mut store = TestStore::new(Options { events: 10, ..Options::default() });
    for first in [1, 4, 30, 100] {
        store.commit((first..first + 25).map(|seq| event(seq + 1000, None)));
    }
    store.commit([event(2000, Some("a"))]);
    store.reopen();
    assert_eq!(store.store().load().unwrap().next_event, 2001);
    let seqs = |store: &TestStore| {
        store.reader().events(None, 0, 1000).unwrap().iter().map(|event| event.seq).collect::<Vec<_>>()
    };
    assert_eq!(seqs(&store), [2000]);
    store.commit((2001..2101).map(|seq| event(seq, None)));
    assert_eq!(seqs(&store), (2091..=2100).collect::<Vec<_>>());
    store.commit([job(queued("a", 1))]);
    store.commit([delete("a")]);
    store.reopen();
    assert_eq!(store.store().load().unwrap().next_event, 2101);
}

#[test]
fn even_a_store_that_keeps_no_events_does_not_repeat_numbers() {
    let mut store = TestStore::new(Options { events: 0, ..Options::default() });
    store.commit((1..=5).map(|seq| event(seq, None)));
    store.reopen();
    assert_eq!(store.store().load().unwrap().next_event, 6);
}
