//! Advice on made-up histories.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::time::Duration;

use multicluster_simulator::{About, Advice, Lab, Pool, advise};
use multicluster_types::{Lang, Owner};
use support::{pool, with, workload};

/// Long enough for any of these, and never waited for.
const TIME: Duration = Duration::from_secs(600);
const DAY: u32 = 86_400;

fn advice(pool: Pool, csv: &str) -> Advice {
    advise(&Lab { pool, nodes: Default::default() }, &workload(csv), TIME, &|_| {}).unwrap()
}

fn lines(advice: &Advice) -> Vec<String> {
    advice.lines.iter().map(|line| advice.describe(line, Lang::En)).collect()
}

/// So many bursts of jobs of 2 CPUs and 10 minutes, one every 2 hours.
fn bursts(number: u32, jobs: u32) -> String {
    let mut csv = "arrival,duration,cpu\n".to_owned();
    for at in (0..number * jobs).map(|nth| nth / jobs * 7_200) {
        csv += &format!("{at},10m,2\n");
    }
    csv
}

#[test]
fn a_pool_that_its_threshold_holds_back_gets_exactly_that_line() {
    let pool = with(pool(&["mac=10cpu"]), "submission_interval=0s");
    let advice = advice(pool, &bursts(60, 5));
    insta::assert_snapshot!(lines(&advice).join("\n"), @"resource_threshold 0.7 → 0.8: mean wait 2 min → 2 s, mac at most 100 % full");
    let best = &advice.lines[0];
    assert_eq!(best.set.as_ref().unwrap().to_string(), "resource_threshold=0.8");
    insta::assert_snapshot!(advice.sureness(best, Lang::En), @"300 jobs in 5 d, better in both halves");
    insta::assert_snapshot!(advice.summary(Lang::En), @"mean wait 2 min, longest 10 min");
}

#[test]
fn a_pool_where_nothing_waits_gets_no_line() {
    let advice = advice(with(pool(&["mac=64cpu"]), "submission_interval=0s"), &bursts(60, 5));
    assert_eq!(lines(&advice), [""; 0]);
    insta::assert_snapshot!(advice.summary(Lang::En), @"jobs hardly waited: mean wait 0 s, longest 0 s");
    assert_eq!(advice.trials.done, 1, "nothing else was tried");
}

#[test]
fn few_jobs_are_said_to_be_few() {
    let advice = advice(pool(&["mac=64cpu"]), &bursts(2, 6));
    insta::assert_snapshot!(lines(&advice).join("\n"), @"submission_interval 40s → 0s: mean wait 2 min → 0 s, mac at most 19 % full");
    insta::assert_snapshot!(advice.sureness(&advice.lines[0], Lang::En), @"little history: 12 jobs in 2 h, better in both halves");
    insta::assert_snapshot!(advice.sureness(&advice.lines[0], Lang::Zh), @"历史较少：2 小时内 12 个作业，前后两半均有改善");
    insta::assert_snapshot!(advice.describe(&advice.lines[0], Lang::Zh), @"submission_interval 40s → 0s：平均等待 2 分钟 → 0 秒，mac 最满时 19 %");
}

#[test]
fn a_pool_that_is_full_gets_more_clusters_and_is_told_which_is_full() {
    let pool = with(
        pool(&["mac=10cpu", "spare[gpu]=2cpu"]),
        "submission_interval=0s resource_threshold=1 order=shortest starvation_after=24h",
    );
    let advice = advice(pool, &bursts(60, 40));
    insta::assert_snapshot!(lines(&advice).join("\n"), @r"
    one more cluster like mac: mean wait 29 min → 14 min, mac at most 100 % full
    one more cluster like spare: mean wait 29 min → 24 min, mac at most 100 % full
    ");
    insta::assert_snapshot!(advice.summary(Lang::En), @"mean wait 29 min, longest 60 min; no other setting would have shortened it much; the fullest cluster is mac: 57 % of its CPU in use on average, 100 % at most");
}

#[test]
fn settings_that_only_help_together_are_tried_together() {
    // One job at a time by the threshold, and one in 40 s by the interval; each runs for 40 s.
    let advice = advice(with(pool(&["mac=10cpu"]), "resource_threshold=0.3"), &{
        let mut csv = "arrival,duration,cpu\n".to_owned();
        for nth in 0..600u32 {
            csv += &format!("{},40,4\n", nth / 4 * 600);
        }
        csv
    });
    insta::assert_snapshot!(lines(&advice).join("\n"), @"resource_threshold 0.3 → 1, submission_interval 40s → 0s: mean wait 60 s → 25 s, mac at most 80 % full");
}

#[test]
fn an_owner_that_waits_much_longer_is_named() {
    let mut csv = "arrival,duration,cpu,owner\n".to_owned();
    for day in 0..5u32 {
        for nth in 0..40u32 {
            csv += &format!("{},30m,2,research\n", day * DAY + nth);
        }
        for nth in 0..12u32 {
            csv += &format!("{},30m,2,trading\n", day * DAY + nth);
        }
    }
    let pool = with(pool(&["mac=10cpu"]), "submission_interval=0s resource_threshold=1");
    let advice = advice(pool, &csv);
    insta::assert_snapshot!(lines(&advice).join("\n"), @r"
    one more cluster like mac: mean wait 2 h 21 min → 63 min, mac at most 100 % full
    research waits 3.6 × longer than trading: 2 h 49 min against 48 min; with weight 4 instead of 1: 2 h 22 min against 2 h 18 min
    ");
    let line = advice.lines.iter().find(|line| matches!(line.about, About::Owners { .. })).unwrap();
    assert!(matches!(&line.about, About::Owners { slow, .. } if *slow == Owner::new("research").unwrap()));
}

#[test]
fn a_clusters_own_limits_are_changed_with_the_others() {
    let pool = with(pool(&["mac=10cpu"]), "submission_interval=0s mac.resource_threshold=0.5");
    let advice = advice(pool, &bursts(60, 5));
    assert!(lines(&advice)[0].contains("mac.resource_threshold 0.5 → "), "{:?}", lines(&advice));
    // What it says can be tried.
    for line in &advice.lines {
        let text = line.set.as_ref().unwrap().to_string();
        assert_eq!(text.parse::<multicluster_simulator::Variant>().unwrap(), *line.set.as_ref().unwrap());
    }
}

#[test]
fn without_time_the_latest_jobs_are_replayed_or_none() {
    let pool = with(pool(&["mac=10cpu"]), "submission_interval=0s");
    let lab = Lab { pool, nodes: Default::default() };
    let advice = advise(&lab, &workload(&bursts(2_000, 5)), Duration::from_millis(20), &|_| {}).unwrap();
    assert!(advice.history.left_out > 0, "{:?}", advice.history);
    assert_eq!(advice.history.jobs + advice.history.left_out, 10_000);
}
