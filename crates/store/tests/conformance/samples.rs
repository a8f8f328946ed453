//! How the pool stood, step by step.

use std::fs;

use multicluster_store::{Change, ClusterSample, Options, Sample, SampleStep};
use multicluster_types::Timestamp;

use crate::support::*;

fn kept(step: SampleStep, begun: u64) -> Change {
    Change::Sample { step, sample: Box::new(a_sample(begun)) }
}

#[test]
fn samples_come_back_in_order_and_a_later_one_of_the_same_step_replaces_it() {
    let mut store = TestStore::new(Options::default());
    store.commit([
        kept(SampleStep::Minute, 120_000),
        kept(SampleStep::Minute, 60_000),
        kept(SampleStep::TenMinutes, 0),
    ]);
    let mut more = a_sample(120_000);
    more.add(&a_sample(120_000));
    assert_ne!(more, a_sample(120_000));
    let twice = [
        kept(SampleStep::Minute, 120_000),
        Change::Sample { step: SampleStep::Minute, sample: Box::new(more.clone()) },
    ];
    store.commit(twice);
    for _ in 0..2 {
        assert_eq!(samples(&*store.reader(), SampleStep::Minute), [a_sample(60_000), more.clone()]);
        assert_eq!(samples(&*store.reader(), SampleStep::TenMinutes), [a_sample(0)]);
        let until =
            store.reader().samples(SampleStep::Minute, Timestamp(60_000), Timestamp(120_000)).unwrap();
        assert_eq!(until, [a_sample(60_000)]);
        store.reopen();
    }
}

#[test]
fn each_length_of_step_is_kept_for_its_own_time_and_no_longer() {
    let mut store = TestStore::new(Options { sync: false, ..Options::default() });
    for step in SampleStep::ALL {
        let (span, most) = (step.span().0, step.kept_for().0 / step.span().0);
        // Many in one commit, then one by one.
        store.commit((0..most + 50).map(|nth| kept(step, nth * span)));
        store.commit([kept(step, (most + 50) * span)]);
        let samples = samples(&*store.reader(), step);
        assert_eq!(samples.len() as u64, most, "{step:?}");
        assert_eq!((samples[0].begun.0, samples.last().unwrap().begun.0), (51 * span, (most + 50) * span));
        // After a pause of a year, what was before is forgotten at once.
        store.commit([kept(step, (most + 50) * span + 365 * 24 * 3_600_000)]);
        assert_eq!(store.reader().samples(step, Timestamp(0), Timestamp(u64::MAX)).unwrap().len(), 1);
    }
}

/// The figures in the documentation: all that is kept, of ten clusters that are busy all the time.
#[test]
fn a_month_of_ten_clusters_takes_less_than_six_megabytes() {
    let dir = TempDir::new();
    let options = Options { sync: false, ..Options::default() };
    let mut opened = multicluster_store::sqlite::open(dir.path(), options).unwrap();
    let known = ClusterSample {
        moments: 40,
        cpu: Some(6_250),
        gpu: Some(9_999),
        memory: Some(1_234),
        live: 12,
        waiting: 3,
        healthy: Some(true),
    };
    let clusters = (0..10).map(|n| (cluster(&format!("cluster-{n}")), known)).collect();
    let sample = Sample {
        waiting: 120,
        live: 340,
        submitted: 200,
        started: 200,
        succeeded: 199,
        clusters,
        ..a_sample(0)
    };
    let size = |dir: &TempDir| fs::metadata(dir.path().join("state.db")).unwrap().len();
    let mut rows = 0;
    for step in SampleStep::ALL {
        let count = step.kept_for().0 / step.span().0;
        rows += count;
        let all = (1..=count).map(|nth| Sample { begun: Timestamp(nth * step.span().0), ..sample.clone() });
        let changes = all.map(|sample| Change::Sample { step, sample: Box::new(sample) });
        opened.store.commit(&changes.collect::<Vec<_>>()).unwrap();
    }
    drop(opened);
    let bytes = size(&dir);
    println!("{rows} rows, {bytes} bytes, {} a row", bytes / rows);
    assert!(bytes < 6_000_000, "{bytes}");
}
