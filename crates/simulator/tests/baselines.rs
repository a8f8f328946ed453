//! What people would use instead, computed by hand.

mod support;

use multicluster_simulator::{Baseline, Policy, lineup};
use multicluster_types::Span;
use proptest::prelude::*;
use support::{lab, spread, study, waits};

/// Each job has an owner of its own, so that its wait can be seen.
const HEADER: &str = "owner,arrival,duration,gpu\n";

/// Checks the wait of each job under a policy.
fn expect(clusters: &[&str], policy: &str, rows: &str, expected: &[(&str, f64)]) {
    let found = waits(&study(&lab(clusters), policy, &format!("{HEADER}{rows}")));
    let expected: Vec<_> = expected.iter().map(|(owner, wait)| ((*owner).to_owned(), *wait)).collect();
    assert_eq!(found, expected, "{policy}");
}

/// A runs; b needs all of the cluster; c and d are small, c is short and d is long.
const BLOCKED: &str = "a,0,100,2\nb,1,50,4\nc,2,90,1\nd,3,500,1\n";

#[test]
fn strict_fifo_lets_nothing_pass_the_first() {
    let expected = [("a", 0.0), ("b", 99.0), ("c", 148.0), ("d", 147.0)];
    expect(&["x=4gpu"], "strict-fifo", BLOCKED, &expected);
}

#[test]
fn skipping_starts_whatever_fits_and_the_large_one_waits_longest() {
    // B needs c and d to end as well: 503.
    expect(&["x=4gpu"], "fifo", BLOCKED, &[("a", 0.0), ("b", 502.0), ("c", 0.0), ("d", 0.0)]);
}

#[test]
fn easy_backfills_only_work_that_does_not_delay_the_first() {
    // B has its reservation at 100. C ends at 92 and may start; d would end at 503 and may not.
    expect(&["x=4gpu"], "easy", BLOCKED, &[("a", 0.0), ("b", 99.0), ("c", 0.0), ("d", 147.0)]);
}

#[test]
fn easy_backfills_long_work_into_room_that_the_first_does_not_need() {
    // At 100, 6 of 8 are free, b needs 5 of them: one remains for c, and none for d.
    let rows = "a,0,100,4\na2,0,900,2\nb,1,50,5\nc,2,500,1\nd,3,500,1\n";
    let expected = [("a", 0.0), ("a2", 0.0), ("b", 99.0), ("c", 0.0), ("d", 147.0)];
    expect(&["x=8gpu"], "easy", rows, &expected);
}

#[test]
fn easy_uses_clusters_without_the_reservation_freely() {
    // B waits for x, which is the only cluster that is large enough.
    let rows = "a,0,100,2\nb,1,50,4\nc,2,500,2\n";
    expect(&["x=4gpu", "y=2gpu"], "easy", rows, &[("a", 0.0), ("b", 0.0), ("c", 49.0)]);
    let rows = "a,0,100,3\nb,1,50,4\nc,2,500,2\n";
    expect(&["x=4gpu", "y=2gpu"], "easy", rows, &[("a", 0.0), ("b", 99.0), ("c", 0.0)]);
}

#[test]
fn easy_makes_a_new_reservation_if_work_of_a_higher_priority_takes_the_room() {
    // B would run at 100. P comes first and takes 2 until 301; c would end at 402, after b's new turn at 301.
    let rows = "owner,arrival,duration,gpu,priority\na,0,100,2,0\nb,1,50,4,0\np,1,300,2,1\nc,302,100,2,0\n";
    let found = waits(&study(&lab(&["x=4gpu"]), "easy", rows));
    let expected = [("a", 0.0), ("b", 300.0), ("c", 49.0), ("p", 0.0)];
    assert_eq!(found, expected.map(|(owner, wait)| (owner.to_owned(), wait)));
    // A short job may pass b until then, a long one may not.
    let rows = rows.to_owned() + "s,110,100,2,0\nl,120,300,2,0\n";
    let found = waits(&study(&lab(&["x=4gpu"]), "easy", &rows));
    let expected = [("a", 0.0), ("b", 300.0), ("c", 49.0), ("l", 231.0), ("p", 0.0), ("s", 0.0)];
    assert_eq!(found, expected.map(|(owner, wait)| (owner.to_owned(), wait)));
}

#[test]
fn shortest_first_knows_the_run_times() {
    let rows = "a,0,100,1\nb,1,50,1\nc,2,10,1\n";
    expect(&["x=1gpu"], "shortest", rows, &[("a", 0.0), ("b", 109.0), ("c", 98.0)]);
    expect(&["x=1gpu"], "fifo", rows, &[("a", 0.0), ("b", 99.0), ("c", 148.0)]);
}

#[test]
fn priorities_hold_in_every_queue() {
    let rows = "owner,arrival,duration,gpu,priority\na,0,100,1,0\nb,1,10,1,0\nc,2,10,1,5\n";
    for policy in ["fifo", "strict-fifo", "easy", "shortest", "least-loaded"] {
        let found = waits(&study(&lab(&["x=1gpu"]), policy, rows));
        assert_eq!(found[1..], [("b".to_owned(), 109.0), ("c".to_owned(), 98.0)], "{policy}");
    }
}

#[test]
fn round_robin_takes_turns_whatever_the_size_of_the_clusters() {
    // B and d go to y, which is small; x stays half empty.
    let rows = "a,0,100,1\nb,0,100,1\nc,0,100,1\nd,0,100,1\n";
    let expected = [("a", 0.0), ("b", 0.0), ("c", 0.0), ("d", 100.0)];
    expect(&["x=3gpu", "y=1gpu"], "round-robin", rows, &expected);
}

#[test]
fn round_robin_leaves_out_clusters_that_are_too_small() {
    let rows = "a,0,100,2\nb,0,100,2\nc,0,100,1\n";
    expect(&["x=4gpu", "y=1gpu"], "round-robin", rows, &[("a", 0.0), ("b", 0.0), ("c", 0.0)]);
}

#[test]
fn the_least_loaded_cluster_is_the_one_with_the_least_demand_for_its_size() {
    // A: 2/8 < 2/4: x. B: 4/8 = 2/4: the larger. C: 6/8 > 2/4: y. D: 6/8 < 4/4: x.
    for (rows, expected) in [
        ("a,0,100,2\nb,0,100,2\n", [0, 2]),
        ("a,0,100,2\nb,0,100,2\nc,0,100,2\n", [1, 2]),
        ("a,0,100,2\nb,0,100,2\nc,0,100,2\nd,0,100,2\n", [1, 3]),
    ] {
        let found = study(&lab(&["y=4gpu", "x=8gpu"]), "least-loaded", &format!("{HEADER}{rows}"));
        assert_eq!(found.report.clusters.iter().map(|cluster| cluster.jobs).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_job_stays_where_it_was_sent_although_another_cluster_is_free() {
    // At 0, x has 100 % of its demand and y, too. B is sent to x, and waits for a; y is free from 10 on.
    let rows = "a,0,100,2\ny,0,10,1\nb,1,10,1\n";
    expect(&["x=2gpu", "y=1gpu"], "least-loaded", rows, &[("a", 0.0), ("b", 99.0), ("y", 0.0)]);
    expect(&["x=2gpu", "y=1gpu"], "fifo", rows, &[("a", 0.0), ("b", 9.0), ("y", 0.0)]);
}

#[test]
fn a_cluster_starts_what_fits_unless_it_is_strict() {
    expect(&["x=4gpu"], "least-loaded", BLOCKED, &[("a", 0.0), ("b", 502.0), ("c", 0.0), ("d", 0.0)]);
    let expected = [("a", 0.0), ("b", 99.0), ("c", 148.0), ("d", 147.0)];
    expect(&["x=4gpu"], "least-loaded-fifo", BLOCKED, &expected);
}

#[test]
fn each_team_has_the_cluster_of_its_name() {
    let rows = "owner,arrival,duration,gpu\nteam-red,0,100,1\nteam-red,0,100,1\nteam-blue,0,100,1\n";
    let found = study(&lab(&["vc-blue=4gpu", "vc-red=1gpu"]), "own-cluster", rows);
    assert_eq!(waits(&found), [("team-blue".to_owned(), 0.0), ("team-red".to_owned(), 50.0)]);
}

#[test]
fn without_names_the_largest_team_has_the_largest_cluster_and_others_share() {
    // Ann has the most work, then bob, then eve: ann and eve on y, bob on x.
    let rows = "owner,arrival,duration,gpu\nann,0,300,1\nann,0,300,1\nbob,0,400,1\neve,0,10,1\n";
    let found = study(&lab(&["x=1gpu", "y=2gpu"]), "own-cluster", rows);
    assert_eq!(found.report.clusters.iter().map(|cluster| cluster.jobs).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(waits(&found)[2], ("eve".to_owned(), 300.0));
}

#[test]
fn a_random_cluster_is_the_same_in_every_run() {
    let rows: String = (0..50).map(|nth| format!("o{nth},{nth},100,1\n")).collect();
    let run = || study(&lab(&["x=4gpu", "y=4gpu"]), "random", &format!("{HEADER}{rows}"));
    let first = run();
    assert_eq!(first, run());
    assert!(first.report.clusters.iter().all(|cluster| cluster.jobs > 10), "{:?}", first.report.clusters);
}

#[test]
fn runs_start_as_late_as_ours() {
    let mut lab = lab(&["x=1gpu"]);
    lab.pool.timing.start = Span::seconds(2);
    for policy in [Policy::AsConfigured, "fifo".parse().unwrap()] {
        let found = lab.run(&policy, &spread("arrival,duration,gpu\n0,8,1\n")).unwrap();
        assert_eq!(found.quality.wait_s.max, 2.0, "{policy}");
        assert_eq!(found.quality.utilization.gpu, Some(0.8), "{policy}");
    }
}

#[test]
fn every_policy_has_a_name_of_its_own() {
    let policies = lineup();
    assert!(policies.len() > Baseline::ALL.len());
    for baseline in Baseline::ALL {
        assert_eq!(baseline.name().parse::<Policy>().unwrap(), Policy::Instead(baseline));
    }
    assert!("slurm".parse::<Policy>().is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Every policy runs the same work: what can run, and nothing else; no cluster is more than full.
    #[test]
    fn every_policy_runs_all_work_that_can_run(
        rows in prop::collection::vec((0u32..300, 1u32..200, 1u32..20, 0usize..3, 0usize..3), 0..60),
    ) {
        let mut csv = "arrival,duration,gpu,one_node,owner\n".to_owned();
        for (arrival, duration, gpu, one_node, owner) in rows {
            let (one_node, owner) = (["yes", "no", ""][one_node], ["ann", "bob", ""][owner]);
            csv += &format!("{arrival},{duration},{gpu},{one_node},{owner}\n");
        }
        let lab = lab(&["x=2*8gpu", "y=4gpu+2*2gpu"]);
        let workload = spread(&csv);
        let can_run = workload.arrivals.iter().filter(|arrival| {
            let gpus = arrival.work.demand.gpu.as_f64();
            gpus <= if arrival.work.on_one_node().is_empty() { 16.0 } else { 8.0 }
        });
        let can_run = can_run.count() as u64;
        for policy in lineup() {
            let found = lab.run(&policy, &workload).unwrap();
            prop_assert_eq!(found.report.jobs.finished, can_run, "{}", policy);
            prop_assert_eq!(found.report.jobs.finished + found.report.jobs.never_placed, workload.arrivals.len() as u64);
            for cluster in &found.report.clusters {
                prop_assert!(cluster.utilization.gpu.unwrap_or_default() <= 1.0);
            }
        }
    }
}
