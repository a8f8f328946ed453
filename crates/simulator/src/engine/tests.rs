//! Internals that cannot be seen from outside: shortcuts change no result.

use multicluster_types::ClusterSpec;

use super::*;
use crate::{Capacities, Synthetic, Timing, Variant, generate};

fn pool(changes: &str) -> Pool {
    let spec = |name: &str| {
        ClusterSpec::new(ClusterName::new(name).unwrap(), "127.0.0.1:10001", "http://127.0.0.1:8265")
    };
    let (clusters, _) = Capacities::default().apply(vec![spec("a"), spec("b"), spec("c")]).unwrap();
    let mut pool = Pool { settings: Settings::default(), clusters, timing: Timing::default() };
    changes.parse::<Variant>().unwrap().apply(&mut pool).unwrap();
    pool
}

#[test]
fn polls_that_are_left_out_would_have_told_nothing() {
    for (seed, changes) in (1..).zip([
        "submission_interval=40s",
        "submission_interval=0",
        "submission_interval=0 poll_interval=7s",
        "submission_interval=10s starvation_after=10s",
        "submission_interval=0 max_running_jobs=2",
        "submission_interval=1s policies=pack",
    ]) {
        let pool = pool(changes);
        let workload = generate(Synthetic { jobs: 300, seed, gap: Span::seconds(4) }, &pool);
        let lazy = run(&pool, &Nodes::default(), &workload).unwrap();
        let mut engine = Engine::new(&pool, &Nodes::default(), &workload).unwrap();
        for on in 0..pool.clusters.len() {
            engine.expect_news(on, Timestamp(20_000_000));
        }
        let mut steps = 0;
        while let Some(step) = engine.next_step() {
            engine.take(step);
            steps += 1;
        }
        let eager = engine.finish().unwrap();
        assert!(steps > 8_000, "it polled all the time: {steps} steps");
        assert_eq!(lazy.fates, eager.fates, "{changes}");
    }
}
