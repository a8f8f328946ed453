//! How the pool stood, step by step.

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

/// The figures in the documentation: at most 1,500 minutes and 4,464 times ten minutes.
#[test]
fn a_sample_takes_about_100_bytes_and_50_for_each_cluster() {
    let mut sample =
        Sample { waiting: 12, live: 34, submitted: 20, started: 20, succeeded: 19, ..a_sample(0) };
    let known = ClusterSample {
        moments: 40,
        cpu: Some(6_250),
        gpu: Some(10_000),
        memory: Some(1_234),
        live: 12,
        waiting: 3,
        healthy: Some(true),
    };
    sample.clusters = (0..10).map(|n| (cluster(&format!("cluster-{n}")), known)).collect();
    let bytes = serde_json::to_string(&sample).unwrap().len();
    println!("{bytes} bytes for 10 clusters");
    assert!(bytes < 100 + 10 * 80, "{bytes}");
}
