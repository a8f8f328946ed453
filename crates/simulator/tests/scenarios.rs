//! Scenarios small enough to be computed by hand, with exact numbers.

mod support;

use multicluster_simulator::{SimulationError, Synthetic, Timing, generate, simulate};
use multicluster_types::{Elastic, Resources, Span};
use proptest::prelude::*;
use support::{pool, run, with, workload};

#[test]
fn the_second_of_two_jobs_waits_40_seconds() {
    let csv = "arrival,duration,cpu\n0,100,1\n0,100,1\n";
    let report = run(&pool(&["a=16cpu"]), csv);
    assert_eq!(report.jobs.finished, 2);
    assert_eq!((report.wait_s.mean, report.wait_s.p50, report.wait_s.max), (20.0, 0.0, 40.0));
    assert_eq!(report.makespan, Span::seconds(140));
    // On a real cluster, a job runs 1.2 s after it was sent.
    let mut real = pool(&["a=16cpu"]);
    real.timing = Timing::default();
    assert_eq!(run(&real, csv).wait_s.max, 41.2);
    assert_eq!(run(&real, csv).makespan, Span(141_200));
}

#[test]
fn without_the_rule_or_on_two_clusters_nobody_waits() {
    let csv = "arrival,duration,cpu\n0,100,1\n0,100,1\n";
    assert_eq!(run(&with(pool(&["a=16cpu"]), "submission_interval=0"), csv).wait_s.max, 0.0);
    let report = run(&pool(&["a=16cpu", "b=16cpu"]), csv);
    assert_eq!(report.wait_s.max, 0.0);
    assert_eq!(report.clusters.iter().map(|c| c.jobs).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn actors_are_exempt_from_the_rule_and_tasks_are_not() {
    let of = |kind: &str| format!("arrival,duration,cpu,kind\n0,9,1,{kind}\n0,9,1,{kind}\n");
    assert_eq!(run(&pool(&["a=16cpu"]), &of("actor")).wait_s.max, 0.0);
    assert_eq!(run(&pool(&["a=16cpu"]), &of("task")).wait_s.max, 40.0);
}

#[test]
fn a_job_larger_than_every_cluster_is_never_placed_and_says_why() {
    let report = run(&pool(&["a=8cpu", "b=4cpu"]), "id,arrival,duration,cpu\nbig,0,60,16\nsmall,1,60,1\n");
    assert_eq!((report.jobs.finished, report.jobs.never_placed), (1, 1));
    let never = &report.never_placed[0];
    assert_eq!(never.jobs[0].as_str(), "big");
    let why: Vec<_> = never.why.iter().map(|why| format!("{}: {}", why.cluster, why.reason)).collect();
    assert_eq!(
        why,
        ["a: too small: CPU 16 requested, 8 in total", "b: too small: CPU 16 requested, 4 in total"]
    );
    assert_eq!(report.makespan, Span::seconds(61), "the wait for ever is no part of it");
}

#[test]
fn what_cannot_be_accepted_is_rejected_with_the_schedulers_own_words() {
    let rejection = |pool, csv| {
        let report = run(&pool, csv);
        assert_eq!(report.jobs.rejected, 1);
        (report.rejected[0].code, report.rejected[0].first.to_string(), report.rejected[0].why.clone())
    };
    let (code, _, why) =
        rejection(with(pool(&["a=8cpu"]), "infeasible=reject"), "arrival,duration,cpu\n0,60,16\n");
    assert!(code == "infeasible" && why.contains("CPU 16 requested, 8 in total"), "{why}");
    let (code, _, why) = rejection(pool(&["a=8cpu"]), "arrival,duration,preferred_cluster\n0,60,moon\n");
    assert!(code == "unknown_cluster" && why.contains("there are a"), "{why}");
    // One runs, one waits, one is refused.
    let (code, first, _) =
        rejection(with(pool(&["a=8cpu"]), "max_queue=1"), "id,arrival,duration\nx,0,9\ny,0,9\nz,0,9\n");
    assert_eq!((code, first.as_str()), ("queue_full", "z"));
}

#[test]
fn utilization_is_weighted_by_time() {
    let report =
        run(&pool(&["a=16cpu,64GiB", "b=16cpu,2gpu"]), "arrival,duration,cpu,memory\n10,100,8,16GiB\n");
    assert_eq!(report.makespan, Span::seconds(100), "it starts with the first arrival");
    let used = report.clusters[0].utilization;
    assert_eq!((used.cpu, used.gpu, used.memory), (Some(0.5), None, Some(0.25)));
    assert_eq!(report.clusters[0].jobs_per_hour, 36.0);
    assert_eq!(report.clusters[1].utilization.gpu, Some(0.0));
}

#[test]
fn room_is_known_from_the_next_poll_after_a_job_ended() {
    let pool = with(pool(&["a=16cpu"]), "submission_interval=0 resource_threshold=1 poll_interval=5s");
    let report = run(&pool, "arrival,duration,cpu\n0,98,8\n0,98,8\n0,10,8\n");
    assert_eq!((report.wait_s.p50, report.wait_s.max), (0.0, 100.0));
    assert_eq!(report.makespan, Span::seconds(110));
}

#[test]
fn a_cluster_over_its_threshold_takes_nothing_and_one_at_its_limit_neither() {
    let csv = "arrival,duration,cpu\n0,95,12\n1,10,1\n";
    let at = |changes| run(&with(pool(&["a=16cpu"]), changes), csv).wait_s.max;
    // 12 of 16 is 75 %; the first poll after the end is at 95 s, the second arrived at 1 s.
    assert_eq!(at("submission_interval=0 resource_threshold=0.7"), 94.0);
    assert_eq!(at("submission_interval=0 resource_threshold=0.8"), 0.0);
    assert_eq!(at("submission_interval=0 resource_threshold=0.8 execution_mode=serial"), 94.0);
    assert_eq!(at("submission_interval=0 resource_threshold=0.8 a.max_running_jobs=1"), 94.0);
}

#[test]
fn pack_fills_one_cluster_and_spread_uses_both() {
    let csv = "arrival,duration,cpu\n0,100,2\n1,100,2\n2,100,2\n3,100,2\n";
    let two = || with(pool(&["a=16cpu", "b=16cpu"]), "submission_interval=0");
    let jobs = |policy: &str| -> Vec<u64> {
        run(&with(two(), policy), csv).clusters.iter().map(|c| c.jobs).collect()
    };
    assert_eq!(jobs("policies=pack"), [4, 0]);
    assert_eq!(jobs("policies=spread"), [2, 2]);
    assert_eq!(jobs("policies="), [2, 2], "round robin");
    let Err(SimulationError::Refused(why)) = simulate(&with(two(), "policies=pakc"), &workload(csv)) else {
        panic!("an unknown policy is refused");
    };
    assert!(why.to_string().contains("did you mean pack?"), "{why}");
}

#[test]
fn placement_tags_and_preferences_are_kept_and_labels_are_not_looked_at() {
    let two = pool(&["a[linux]=16cpu", "b[macos]=16cpu"]);
    let report = run(
        &with(two, "submission_interval=0"),
        "arrival,duration,cpu,tags,preferred_cluster\n0,9,1,macos;fund,\n0,9,1,macos|fund,\n0,9,1,fund,b\n0,9,1,linux,\n",
    );
    assert_eq!(report.clusters.iter().map(|c| c.jobs).collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn higher_priority_goes_first() {
    let report = run(&pool(&["a=16cpu"]), "arrival,duration,priority\n0,1,0\n1,1,0\n2,1,9\n");
    // The third is sent at 40 s, the second at 80 s.
    assert_eq!((report.wait_s.max, report.wait_s.p50), (79.0, 38.0));
}

#[test]
fn facts_believed_too_early_make_a_cluster_hold_jobs_back() {
    let mut hasty = with(
        pool(&["a=16cpu"]),
        "submission_interval=0 resource_threshold=1 settle_margin=0 poll_interval=1s claims=until_started",
    );
    let csv = "arrival,duration,cpu\n0,60,16\n0,60,16\n";
    hasty.timing.usage = Span(1200);
    let report = run(&hasty, csv);
    assert_eq!((report.clusters[0].held_back, report.wait_s.max), (1, 60.0));
    assert_eq!(report.clusters[0].utilization.cpu, Some(1.0));
    // With a margin that covers Ray's delay, the control plane keeps the job queued.
    let careful = with(hasty.clone(), "settle_margin=3s");
    assert_eq!(run(&careful, csv).clusters[0].held_back, 0);
    // A running job keeps its claim, whatever the facts show.
    let claiming = with(hasty, "claims=while_running");
    assert_eq!(run(&claiming, csv).clusters[0].held_back, 0);
}

#[test]
fn quiet_years_cost_nothing_and_everything_ends() {
    let report = run(
        &pool(&["a=16cpu"]),
        "arrival,duration,cpu,kind\n0,36500d,1,job\n0,36500d,1,actor\n30000d,1,1,\n",
    );
    assert_eq!(report.jobs.finished, 3);
    let long = with(pool(&["a=1cpu"]), "starvation_after=36500d submission_interval=36500d poll_interval=0");
    let report = run(&long, "arrival,duration,cpu\n0,1,1\n0,1,1\n0,1,2\n");
    assert_eq!((report.jobs.finished, report.jobs.never_placed), (2, 1));
}

#[test]
fn nothing_at_all_is_reported_as_that() {
    let report = run(&pool(&["a=16cpu"]), "arrival,duration\n");
    assert_eq!((report.jobs.submitted, report.makespan, report.wait_s.mean), (0, Span::ZERO, 0.0));
    assert_eq!(report.clusters[0].utilization.cpu, Some(0.0));
}

#[test]
fn a_seed_makes_up_the_same_work_and_a_run_replays_exactly() {
    let mut pool = pool(&["a=32cpu,2gpu,128GiB", "b=16cpu,64GiB"]);
    pool.timing = Timing::default();
    let made = |seed| generate(Synthetic { jobs: 500, seed, gap: Span::seconds(15) }, &pool);
    assert_eq!(made(7), made(7));
    assert_ne!(made(7), made(8));
    let json = || serde_json::to_string(&simulate(&pool, &made(7)).unwrap()).unwrap();
    assert_eq!(json(), json());
    let report = simulate(&pool, &made(7)).unwrap();
    assert_eq!(report.jobs.finished, 500, "only work that fits is made up");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Every arrival is finished, rejected or never placed; no cluster is ever more than full;
    /// and the core keeps its promises with any settings.
    #[test]
    fn nothing_is_lost(
        rows in prop::collection::vec((0u32..600, 0u32..300, 0u32..20, 0u32..3, -1i32..2, 0usize..3), 0..60),
        interval in 0u32..60, threshold in 0u32..=10, margin in 0u32..4, poll in 0u32..9, lag in 0u64..3000,
        timeout in 0u32..3,
    ) {
        let mut csv = "arrival,duration,cpu,gpu,priority,kind\n".to_owned();
        for (arrival, duration, cpu, gpu, priority, kind) in rows {
            let kind = ["job", "task", "actor"][kind];
            csv += &format!("{arrival},{duration},{cpu},{gpu},{priority},{kind}\n");
        }
        let mut pool = with(
            pool(&["a=16cpu,1gpu", "b=8cpu"]),
            &format!("submission_interval={interval} resource_threshold=0.{threshold} settle_margin={margin} \
                      poll_interval={poll} dispatch_timeout={timeout} max_queue=20"),
        );
        pool.timing = Timing { answer: Span(lag / 2), start: Span(lag), usage: Span(lag), ..Timing::default() };
        let report = run(&pool, &csv);
        let jobs = report.jobs;
        prop_assert_eq!(jobs.finished + jobs.rejected + jobs.never_placed, jobs.submitted);
        prop_assert_eq!(report.clusters.iter().map(|c| c.jobs).sum::<u64>(), jobs.finished);
        for cluster in &report.clusters {
            prop_assert!(cluster.utilization.cpu.unwrap_or_default() <= 1.0);
            // The purpose of the ledger: as long as the margin covers Ray's delay, no work is
            // sent to a cluster without room.
            prop_assert!(u64::from(margin) * 1000 < lag || cluster.held_back == 0);
        }
        for never in &report.never_placed {
            // Only work that is too large for both clusters waits forever.
            prop_assert!(never.work.demand.gpu.as_f64() > 1.0 || never.work.demand.cpu.as_f64() > 8.0, "{:?}", never);
        }
    }
}

#[test]
fn an_elastic_cluster_grows_when_work_waits_and_a_resident_one_with_room_comes_first() {
    let mut pool =
        with(pool(&["resident=4cpu", "cloud=1cpu"]), "submission_interval=0 resource_threshold=1.0");
    let [max, node] = [9.0, 4.0].map(|cpus| Resources::from_amounts([("CPU", cpus)]).unwrap());
    pool.clusters[1].spec.elastic = Some(Box::new(Elastic { max, node, within: Elastic::WITHIN }));
    pool.timing = Timing { grow: Span::minutes(2), idle: Span::minutes(5), ..Timing::INSTANT };
    let csv = "id,arrival,duration,cpu\na,0,1000,4\nb,1,100,4\nc,2,100,4\nd,3,100,4\ne,3600,100,4\n";
    let report = run(&pool, csv);
    assert_eq!(report.jobs.finished, 5);
    let on = |name: &str| report.clusters.iter().find(|c| c.name.as_str() == name).unwrap().jobs;
    assert_eq!((on("resident"), on("cloud")), (2, 3), "an hour later it is the resident one's turn again");
    // b waits for the first node, c for the second one, d for the end of b.
    assert_eq!(report.wait_s.max, 238.0);
}
