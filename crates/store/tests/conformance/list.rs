//! Lists of jobs.

use std::{sync::Arc, time::Instant};

use multicluster_core::record::{Ended, JobRecord, Phase, Stage};
use multicluster_store::{Change, JobFilter, Options, Search};
use multicluster_types::{Kind, Message, Owner, State, Tag, Timestamp, Work};

use crate::support::*;

/// 40 jobs of every state, kind and cluster.
fn variety() -> Vec<Change> {
    (0..40u64)
        .flat_map(|n| {
            let name = format!("job-{n:02}");
            let kind = [Kind::Job, Kind::Task, Kind::Actor][n as usize % 3];
            let tags: &[&str] = if n % 4 == 0 { &["gpu", "say\"hi\""] } else { &["linux"] };
            let record = JobRecord { work: work(kind, tags), ..queued(&name, n) };
            let on_cluster = if n % 2 == 0 { "mac" } else { "centos" };
            let record = match n % 5 {
                0 => record,
                1 => on(&record, on_cluster, Stage::Sending),
                2 => on(&record, on_cluster, Stage::Running),
                3 => ended(&record, Some(on_cluster), State::Succeeded),
                _ => ended(&record, None, State::Stopped),
            };
            [job(record), payload(&name, a_payload(&name))]
        })
        .collect()
}

fn names(numbers: impl DoubleEndedIterator<Item = u64>) -> Vec<String> {
    numbers.rev().map(|n| format!("job-{n:02}")).collect()
}

#[test]
fn the_latest_accepted_come_first_with_their_payloads() {
    let mut store = TestStore::new(Options::default());
    store.commit(variety());
    store.reopen();
    for limit in [1, 7, 39, 40, 41, 1000] {
        assert_eq!(store.ids(&JobFilter::default(), limit), names(0..40), "{limit}");
    }
    let page = store.reader().jobs(&JobFilter::default(), None, 40).unwrap();
    assert_eq!(page.next, None, "that was all");
    assert!(page.items.iter().all(|job| job.payload == Some(a_payload(job.record.id.as_str()))));
    assert_eq!(store.reader().jobs(&JobFilter::default(), Some(0), 5).unwrap().items, []);
}

#[test]
fn a_page_of_large_jobs_ends_early_and_nothing_is_left_out() {
    let mut store = TestStore::new(Options::default());
    let large = |n: u64| {
        [
            job(queued(&format!("job-{n:02}"), n)),
            payload(&format!("job-{n:02}"), a_payload(&"x".repeat(900 << 10))),
        ]
    };
    store.commit((0..10).flat_map(large));
    let page = store.reader().jobs(&JobFilter::default(), None, 10).unwrap();
    assert_eq!(page.items.len(), 3, "2 MiB, and what it takes to get there");
    assert!(page.next.is_some());
    assert_eq!(store.ids(&JobFilter::default(), 10), names(0..10));
}

#[test]
fn a_page_of_long_failures_ends_early_and_nothing_is_left_out() {
    let mut store = TestStore::new(Options::default());
    let message = Message::new("x".repeat(1 << 20));
    let failed = |n: u64| {
        let record = ended(&queued(&format!("job-{n:03}"), n), None, State::Failed);
        let Phase::Ended(mut end) = record.phase else { unreachable!() };
        end.message = Some(message.clone());
        job(JobRecord { phase: Phase::Ended(end), ..record })
    };
    store.commit((0..300).map(failed));
    let page = store.reader().jobs(&JobFilter::default(), None, 300).unwrap();
    assert!((100..200).contains(&page.items.len()), "2 MiB: {}", page.items.len());
    assert_eq!(store.ids(&JobFilter::default(), 300).len(), 300);
}

#[test]
fn every_filter_alone() {
    let mut store = TestStore::new(Options::default());
    store.commit(variety());
    let filter =
        JobFilter { states: vec![State::Queued, State::Stopped, State::Queued], ..Default::default() };
    assert_eq!(store.ids(&filter, 3), names((0..40).filter(|n| matches!(n % 5, 0 | 4))));
    let filter = JobFilter { kind: Some(Kind::Task), ..Default::default() };
    assert_eq!(store.ids(&filter, 3), names((0..40).filter(|n| n % 3 == 1)));
    let filter = JobFilter { cluster: Some(cluster("mac")), ..Default::default() };
    assert_eq!(store.ids(&filter, 3), names((0..40).filter(|n| n % 2 == 0 && (1..4).contains(&(n % 5)))));
    let filter = JobFilter { tags: vec![Tag::new("gpu").unwrap()], ..Default::default() };
    assert_eq!(store.ids(&filter, 3), names((0..40).filter(|n| n % 4 == 0)));
    let filter = JobFilter { tags: vec![Tag::new("say\"hi\"").unwrap()], ..Default::default() };
    assert_eq!(store.ids(&filter, 3), names((0..40).filter(|n| n % 4 == 0)));
    let filter = JobFilter { id_contains: Some("-1".into()), ..Default::default() };
    assert_eq!(store.ids(&filter, 3), names(10..20));
}

#[test]
fn a_text_is_searched_for_in_ids_entrypoints_and_tags() {
    let mut plain = TestStore::new(Options::default());
    let mut sealed = TestStore::new(Options::default());
    sealed.rotate();
    for store in [&mut plain, &mut sealed] {
        finds_texts(store);
    }
}

fn finds_texts(store: &mut TestStore) {
    for (name, tags, entrypoint) in [
        ("Nightly-1", &["linux"][..], "python train.py"),
        ("b", &["Nightly", "say\"hi\""][..], "python x.py"),
        ("c", &[][..], "python NIGHTLY.py --say \"hi\""),
        ("d", &[][..], "python É.py\nexit 0"),
    ] {
        let record = JobRecord { work: work(Kind::Job, tags), ..queued(name, 1) };
        store.commit([job(record), payload(name, a_payload(entrypoint))]);
    }
    store.commit([job(JobRecord { work: work(Kind::Task, &["night"]), ..queued("no-payload", 2) })]);
    for (text, found) in [
        ("nightly", vec!["c", "b", "Nightly-1"]),
        ("NIGHT", vec!["no-payload", "c", "b", "Nightly-1"]),
        ("say\"HI", vec!["b"]),
        ("--say \"hi\"", vec!["c"]),
        ("é.PY\nExit", vec!["d"]),
        ("zorro", vec![]),
        ("entrypoint", vec![]),
    ] {
        let filter = JobFilter { search: Some(Search::new(text)), ..Default::default() };
        assert_eq!(store.ids(&filter, 2), found, "{text}");
    }
}

#[test]
fn jobs_of_one_owner() {
    let mut store = TestStore::new(Options::default());
    let owned = |id: &str, seq, owner: Option<&str>| {
        let record = queued(id, seq);
        let owner = owner.map(|owner| Owner::new(owner).unwrap());
        let work = Arc::new(Work { owner, ..(*record.work).clone() });
        job(JobRecord { work, ..record })
    };
    // A search for an owner does not find jobs that merely have that text elsewhere.
    store.commit([owned("a", 1, Some("zorro")), owned("b", 2, Some("diego")), owned("zorro", 3, None)]);
    for (owner, found) in [("zorro", vec!["a"]), ("diego", vec!["b"]), ("zor", vec![])] {
        let filter = JobFilter { owner: Some(Owner::new(owner).unwrap()), ..Default::default() };
        assert_eq!(store.ids(&filter, 2), found, "{owner}");
    }
}

#[test]
fn jobs_of_a_time() {
    let mut store = TestStore::new(Options::default());
    let at = |id: &str, seq, submitted: u64, ended: Option<u64>| {
        let record = JobRecord { submitted_at: Timestamp(submitted), ..queued(id, seq) };
        let Some(ended) = ended else { return job(record) };
        let (state, at) = (State::Failed, Timestamp(ended));
        let phase = Phase::Ended(Box::new(Ended { state, at, ran: None, cluster: None, message: None }));
        job(JobRecord { phase, ..record })
    };
    store.commit([at("a", 1, 10, Some(20)), at("b", 2, 15, None), at("c", 3, 30, Some(40))]);
    for (since, until, found) in [
        (None, None, vec!["c", "b", "a"]),
        (Some(20), None, vec!["c", "b", "a"]),
        (Some(21), None, vec!["c", "b"]),
        (Some(41), None, vec!["b"]),
        (None, Some(30), vec!["b", "a"]),
        (Some(21), Some(30), vec!["b"]),
    ] {
        let moment = |at: Option<u64>| at.map(Timestamp);
        let filter = JobFilter { since: moment(since), until: moment(until), ..Default::default() };
        assert_eq!(store.ids(&filter, 2), found, "{since:?} {until:?}");
        let failed = JobFilter { states: vec![State::Failed], ..filter };
        let found: Vec<_> = found.into_iter().filter(|id| *id != "b").collect();
        assert_eq!(store.ids(&failed, 2), found, "failed {since:?} {until:?}");
    }
}

#[test]
fn filters_together() {
    let mut store = TestStore::new(Options::default());
    store.commit(variety());
    let filter = JobFilter {
        states: vec![State::Running, State::Succeeded],
        kind: Some(Kind::Job),
        cluster: Some(cluster("mac")),
        owner: None,
        since: None,
        until: None,
        tags: vec![Tag::new("gpu").unwrap()],
        id_contains: Some("2".into()),
        search: Some(Search::new("JOB")),
    };
    let wanted = (0..40)
        .filter(|n| matches!(n % 5, 2 | 3) && n % 3 == 0 && n % 4 == 0 && (n % 10 == 2 || n / 10 == 2));
    assert_eq!(store.ids(&filter, 2), names(wanted));
    let none =
        JobFilter { tags: vec![Tag::new("gpu").unwrap(), Tag::new("linux").unwrap()], ..Default::default() };
    assert_eq!(store.ids(&none, 2), Vec::<String>::new());
    let prefix = JobFilter { tags: vec![Tag::new("lin").unwrap()], ..Default::default() };
    assert_eq!(store.ids(&prefix, 2), Vec::<String>::new(), "a part of a tag is not the tag");
}

#[test]
fn a_job_is_listed_under_every_cluster_it_was_on() {
    let mut store = TestStore::new(Options::default());
    let on_cluster = |name, states: &[State]| JobFilter {
        cluster: Some(cluster(name)),
        states: states.to_vec(),
        ..Default::default()
    };
    let record = queued("a", 1);
    store.commit([job(on(&record, "mac", Stage::Sending))]);
    store.commit([attempt("a", 1, "mac"), job(on(&record, "centos", Stage::Running))]);
    assert_eq!(store.ids(&on_cluster("mac", &[]), 5), ["a"]);
    assert_eq!(store.ids(&on_cluster("mac", &[State::Running]), 5), ["a"]);
    assert_eq!(store.ids(&on_cluster("mac", &[State::Dispatching]), 5), Vec::<String>::new());
    store.commit([job(record.clone())]);
    assert_eq!(store.ids(&on_cluster("centos", &[State::Queued]), 5), ["a"]);
    store.commit([attempt("a", 2, "gpu"), job(ended(&record, None, State::Failed))]);
    store.reopen();
    for name in ["mac", "centos", "gpu"] {
        assert_eq!(store.ids(&on_cluster(name, &[State::Failed]), 5), ["a"], "{name}");
    }
    assert_eq!(store.ids(&on_cluster("other", &[]), 5), Vec::<String>::new());
}

#[test]
fn a_search_that_finds_nothing_is_bounded_and_can_go_on() {
    let mut store = TestStore::new(Options::default());
    const MANY: u64 = 50_000;
    store.commit((0..MANY).map(|n| job(queued(&format!("job-{n}"), n))));
    store.commit([job(queued("needle", MANY))]);
    store.commit((MANY + 1..2 * MANY).map(|n| job(queued(&format!("job-{n}"), n))));
    let filter = JobFilter { id_contains: Some("needle".into()), ..Default::default() };
    assert_eq!(store.ids(&filter, 10), ["needle"], "it is found in the end");
    let started = Instant::now();
    for filter in [
        JobFilter { id_contains: Some("nowhere".into()), ..Default::default() },
        JobFilter { tags: vec![Tag::new("nowhere").unwrap()], ..Default::default() },
        JobFilter { search: Some(Search::new("nowhere")), ..Default::default() },
        JobFilter { states: vec![State::Running], ..Default::default() },
        JobFilter { kind: Some(Kind::Actor), ..Default::default() },
        JobFilter { cluster: Some(cluster("nowhere")), ..Default::default() },
    ] {
        let page = store.reader().jobs(&filter, None, 10).unwrap();
        assert_eq!(page.items, []);
    }
    assert!(started.elapsed().as_secs_f64() < 3.0, "{:?}", started.elapsed());
}
