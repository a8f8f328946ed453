//! Clusters with nodes, computed by hand.

mod support;

use multicluster_simulator::Policy;
use support::{lab, spread, study, waits};

/// Each job has an owner of its own, so that its wait can be seen.
const HEADER: &str = "owner,arrival,duration,gpu,one_node\n";

fn csv(rows: &str) -> String {
    HEADER.to_owned() + rows
}

fn expect(found: &[(String, f64)], expected: &[(&str, f64)]) {
    let expected: Vec<_> = expected.iter().map(|(owner, wait)| ((*owner).to_owned(), *wait)).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_job_that_must_be_on_one_node_waits_although_the_sum_would_do() {
    // Two nodes with 5 of 8 in use: 3 + 3 are free, and no node has 4.
    let rows = csv("a,0,100,5,no\nb,0,200,5,no\nc,10,50,4,yes\n");
    let nodes = lab(&["x=2*8gpu"]);
    expect(&waits(&study(&nodes, "ours", &rows)), &[("a", 0.0), ("b", 0.0), ("c", 90.0)]);
    expect(&waits(&study(&nodes, "fifo", &rows)), &[("a", 0.0), ("b", 0.0), ("c", 90.0)]);
    let sum = lab(&["x=16gpu"]);
    expect(&waits(&study(&sum, "ours", &rows)), &[("a", 0.0), ("b", 0.0), ("c", 0.0)]);
    let rows = rows.replace("yes", "no");
    expect(&waits(&study(&nodes, "ours", &rows)), &[("a", 0.0), ("b", 0.0), ("c", 0.0)]);
}

#[test]
fn small_jobs_are_packed_so_that_a_whole_node_stays_free() {
    // 2 + 2 + 2 + 2 on one node leave the other one to the job of 8.
    let rows = csv("a,0,100,2,yes\nb,10,100,2,yes\nc,20,100,2,yes\nd,30,100,2,yes\ne,40,100,8,yes\n");
    let found = waits(&study(&lab(&["x=2*8gpu"]), "ours", &rows));
    assert!(found.iter().all(|(_, wait)| *wait == 0.0), "{found:?}");
}

#[test]
fn a_job_larger_than_a_node_uses_several() {
    let rows = csv("a,0,100,20,\nb,0,50,8,yes\nc,0,50,8,yes\n");
    let found = study(&lab(&["x=4*8gpu"]), "ours", &rows);
    // 20 of 32 are in use: one node is whole, and on another one 4 are free. The first poll after the end of b
    // is at 50 s.
    expect(&waits(&found), &[("a", 0.0), ("b", 0.0), ("c", 50.0)]);
    assert_eq!(found.quality.utilization.gpu, Some(0.875), "(20 × 100 + 8 × 50 + 8 × 50) / (32 × 100)");
}

#[test]
fn a_job_that_no_node_can_hold_is_never_placed_and_says_why() {
    let found = study(&lab(&["x=4*8gpu"]), "ours", &csv("a,0,100,9,yes\n"));
    assert_eq!(found.report.jobs.never_placed, 1);
    let reason = &found.report.never_placed[0].why[0].reason;
    assert_eq!(reason, "largest node has GPU 8, 9 requested on one node");
    let found = study(&lab(&["x=4*8gpu"]), "fifo", &csv("a,0,100,9,yes\n"));
    assert_eq!(found.report.never_placed[0].summary, "too large for every cluster that may run it");
}

#[test]
fn tasks_are_always_on_one_node() {
    let rows = "owner,arrival,duration,gpu,kind\na,0,100,5,job\nb,0,100,5,job\nc,10,50,4,task\n";
    let found = study(&lab(&["x=2*8gpu"]), "ours", rows);
    expect(&waits(&found), &[("a", 0.0), ("b", 0.0), ("c", 90.0)]);
}

#[test]
fn a_change_of_capacity_changes_the_nodes() {
    let lab = lab(&["x=2*8gpu"]);
    let workload = spread(&csv("a,0,100,9,yes\n"));
    let changed: Policy = "x.capacity=1*16gpu".parse().unwrap();
    assert_eq!(lab.run(&changed, &workload).unwrap().report.jobs.finished, 1);
    let changed: Policy = "x.capacity=4*8gpu".parse().unwrap();
    assert_eq!(lab.run(&changed, &workload).unwrap().report.jobs.never_placed, 1);
}
