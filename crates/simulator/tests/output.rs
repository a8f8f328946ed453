//! The output for people and programs, and the sample workloads.

mod support;

use std::path::Path;

use multicluster_simulator::{
    Baseline, Capacities, Percentiles, Pool, Run, Setup, Study, Timing, Workload, lineup, simulate, text,
};
use support::{lab, pool, run, study, with};

const CSV: &str = "id,arrival,duration,cpu,gpu,memory,tags,preferred_cluster
clean,0,2m,4,,8GiB,,
train,5s,30m,8,1,32GiB,linux,
huge,10s,1h,128,,,,
lost,15s,1m,1,,,,moon
tick-1,1m,10s,1,,1GiB,,
tick-2,1m,10s,1,,1GiB,,
tick-3,1m,10s,1,,1GiB,,
";

fn sample() -> Pool {
    let mut pool = pool(&["centos[linux]=32cpu,2gpu,128GiB", "mac=10cpu,32GiB"]);
    pool.timing = Timing::default();
    pool
}

#[test]
fn a_report_reads_well() {
    insta::assert_snapshot!(text::report(&run(&sample(), CSV)), @r"
    7 jobs on 2 clusters, 5 finished, 1 rejected, 1 never placed

    makespan  30m 41s  from the first arrival to the last end

                mean     p50     p95     max
    wait      20.2 s  21.2 s  41.2 s  41.2 s  from arrival to running
    slowdown     2.3     1.1     5.1     5.1  (wait + duration) / duration

    cluster  capacity                jobs  jobs/h  CPU used  GPU used  memory used
    centos   32 CPU, 2 GPU, 128 GiB     3     5.9    25.3 %    48.9 %       24.9 %
    mac      10 CPU, 32 GiB             2     3.9     0.1 %         -        0.0 %

    rejected at submission
      1 × lost
        unknown cluster moon
          hint: there are centos, mac

    never placed
      1 × job with 128 CPU: huge
        centos: too small: CPU 128 requested, 32 in total
        mac: too small: CPU 128 requested, 10 in total
    ");
}

#[test]
fn a_comparison_reads_well() {
    let runs = |changes: &[&str]| -> Vec<Run> {
        let baseline = Run { label: "baseline".to_owned(), report: run(&sample(), CSV) };
        let variant =
            |change: &&str| Run { label: (*change).to_owned(), report: run(&with(sample(), change), CSV) };
        [baseline].into_iter().chain(changes.iter().map(variant)).collect()
    };
    insta::assert_snapshot!(text::comparison(&runs(&["submission_interval=5s", "mac.capacity=256cpu,1TiB"])), @r"
                              makespan  mean wait  p95 wait  max wait  slowdown  finished
    baseline                   30m 41s     20.2 s    41.2 s    41.2 s       2.3       5/7
    submission_interval=5s     30m 06s      2.2 s     6.2 s     6.2 s       1.2       5/7
                                -1.9 %      -89 %     -85 %     -85 %     -48 %
    mac.capacity=256cpu,1TiB    1h 00m     16.2 s    41.2 s    41.2 s       2.1       6/7
                                 +98 %      -20 %         =         =    -9.4 %        +1

    CPU used                  centos     mac
    baseline                  25.3 %   0.1 %
    submission_interval=5s    25.8 %   0.1 %
    mac.capacity=256cpu,1TiB  12.4 %  49.5 %

    rejected at submission, in every run
      1 × lost
        unknown cluster moon
          hint: there are centos, mac

    never placed, in baseline, submission_interval=5s
      1 × job with 128 CPU: huge
        centos: too small: CPU 128 requested, 32 in total
        mac: too small: CPU 128 requested, 10 in total
    ");
    insta::assert_snapshot!(text::comparison(&runs(&["submission_interval=5s resource_threshold=0.9"])), @r"
    variant 1: submission_interval=5s resource_threshold=0.9

               makespan  mean wait  p95 wait  max wait  slowdown  finished
    baseline    30m 41s     20.2 s    41.2 s    41.2 s       2.3       5/7
    variant 1   30m 06s      2.2 s     6.2 s     6.2 s       1.2       5/7
                 -1.9 %      -89 %     -85 %     -85 %     -48 %

    CPU used   centos    mac
    baseline   25.3 %  0.1 %
    variant 1  25.8 %  0.1 %

    rejected at submission, in every run
      1 × lost
        unknown cluster moon
          hint: there are centos, mac

    never placed, in every run
      1 × job with 128 CPU: huge
        centos: too small: CPU 128 requested, 32 in total
        mac: too small: CPU 128 requested, 10 in total
    ");
}

#[test]
fn json_has_the_same_numbers() {
    let json =
        serde_json::to_value(Run { label: "baseline".to_owned(), report: run(&sample(), CSV) }).unwrap();
    assert_eq!(json["label"], "baseline");
    assert_eq!(json["jobs"]["submitted"], 7);
    assert_eq!(json["makespan_s"], 1841.2);
    assert_eq!(json["clusters"][0]["capacity"]["memory"], 137_438_953_472_u64);
    assert_eq!(json["clusters"][1]["utilization"]["gpu"], serde_json::Value::Null);
    assert_eq!(json["never_placed"][0]["why"][1]["reason"], "too small: CPU 128 requested, 10 in total");
    assert_eq!(json["rejected"][0]["code"], "unknown_cluster");
}

/// Two owners: ann's second job waits for her first one, bob's job is large and waits for both.
const OWNERS: &str = "owner,arrival,duration,gpu\nann,0,100,4\nann,0,100,4\nbob,1,50,8\nann,1,5,4\n";

#[test]
fn measures_are_the_same_for_every_policy() {
    let found = study(&lab(&["x=1*8gpu"]), "strict-fifo", OWNERS);
    // Waits: 0, 0, 99 and 149; slowdowns: 1, 1, 149 / 50 and 154 / 10.
    let quality = &found.quality;
    assert_eq!(quality.wait_s, Percentiles { mean: 62.0, p50: 0.0, p95: 149.0, p99: 149.0, max: 149.0 });
    assert_eq!((quality.slowdown.mean, quality.slowdown.max), (5.095, 15.4));
    assert_eq!(quality.utilization.gpu, Some(0.983_871), "(8 × 100 + 8 × 50 + 4 × 5) / (8 × 155)");
    let owners: Vec<_> = quality.owners.iter().map(|o| (o.owner.as_str(), o.jobs, o.slowdown.mean)).collect();
    assert_eq!(owners, [("ann", 3, 5.8), ("bob", 1, 2.98)]);
    assert_eq!(quality.worst().unwrap().owner.as_str(), "ann");
    // (5.8 + 2.98)² / (2 × (5.8² + 2.98²))
    assert_eq!((quality.fairness, quality.preempted_s), (0.906, 0.0));
    insta::assert_snapshot!(text::quality(quality), @r"
                        mean  median     p95     p99  longest
    wait              1m 02s   0.0 s  2m 29s  2m 29s   2m 29s
    bounded slowdown     5.1     1.0    15.4    15.4     15.4

    used       GPU 98.4 %
    preempted  0.0 s of run time lost
    fairness   0.91 (Jain's index of the owners' mean slowdowns)

    owner  jobs  mean wait  p95 wait  longest wait  mean slowdown
    ann       3     49.7 s    2m 29s        2m 29s            5.8
    bob       1     1m 39s    1m 39s        1m 39s            3.0
    ");
}

#[test]
fn policies_are_shown_side_by_side_as_text_markdown_and_json() {
    let lab = lab(&["x=1*8gpu"]);
    let long = "resource_threshold=1.0 submission_interval=0s";
    let studies = ["strict-fifo", "shortest", long].map(|policy| study(&lab, policy, OWNERS));
    insta::assert_snapshot!(text::qualities(&studies), @r"
                            median     p99        used  worst  slowdown  fairness
    one queue, strict FIFO   0.0 s  2m 29s  GPU 98.4 %  ann         5.8      0.91
    variant 1                0.0 s  1m 44s  GPU 98.4 %  ann         4.1      0.98
    variant 2                0.0 s  1m 44s  GPU 98.4 %  ann         4.1      0.98
    ");
    insta::assert_snapshot!(text::markdown(&studies), @r"
    | policy | mean wait | median | p95 | p99 | longest | slowdown | used | worst owner | fairness | finished |
    | --- | --: | --: | --: | --: | --: | --: | --: | --- | --: | --: |
    | one queue, strict FIFO | 1m 02s | 0.0 s | 2m 29s | 2m 29s | 2m 29s | 5.1 | GPU 98.4 % | ann 5.8 | 0.91 | 4 |
    | one queue, shortest first (true run times) | 50.8 s | 0.0 s | 1m 44s | 1m 44s | 1m 44s | 3.9 | GPU 98.4 % | ann 4.1 | 0.98 | 4 |
    | `resource_threshold=1.0 submission_interval=0s` | 50.8 s | 0.0 s | 1m 44s | 1m 44s | 1m 44s | 3.9 | GPU 98.4 % | ann 4.1 | 0.98 | 4 |
    ");
    let json = serde_json::to_value(&studies[0]).unwrap();
    assert_eq!((&json["label"], &json["jobs"]["finished"]), (&"one queue, strict FIFO".into(), &4.into()));
    assert_eq!(json["quality"]["wait_s"]["p99"], 149.0);
    assert_eq!(json["quality"]["owners"][1]["owner"], "bob");
    assert_eq!(
        (&json["quality"]["worst_owner"], &json["quality"]["preempted_s"]),
        (&"ann".into(), &0.0.into())
    );
}

/// The short form of `make traces`.
#[test]
fn every_policy_runs_the_sample_of_four_teams() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/workloads");
    let description = std::fs::read_to_string(folder.join("teams.pool")).unwrap();
    let Setup { lab, reading } = Setup::read(&description, "teams.pool").unwrap();
    let workload = reading.load(&folder.join("teams.csv")).unwrap().workload;
    let studies: Vec<_> = lineup().iter().map(|policy| lab.run(policy, &workload).unwrap()).collect();
    let mean = |label: &str| studies.iter().find(|s| s.label == label).unwrap().quality.wait_s.mean;
    for study in &studies {
        assert_eq!((study.report.jobs.finished, study.quality.owners.len()), (400, 4), "{}", study.label);
    }
    assert!(mean(Baseline::Fifo.title()) < mean(Baseline::LeastLoaded.title()));
    assert!(mean(Baseline::Shortest.title()) < mean(Baseline::Fifo.title()));
    assert!(mean(Baseline::Fifo.title()) < mean(Baseline::StrictFifo.title()) / 2.0);
}

#[test]
fn no_line_is_wider_than_100_columns() {
    let name = "n".repeat(62);
    let many: Vec<_> = (10..40).map(|n| format!("{name}{n}=1000000000cpu,100000gpu,100000GiB")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let long = |letter: &str| letter.repeat(128);
    let csv = format!(
        "id,arrival,duration,cpu,gpu,tags,preferred_cluster\n\
         {},0,36500d,1,,,\n{},0,1,99999999999999,99999999999999,{},\n{},0,1,1,1,,{}\n",
        long("a"),
        long("b"),
        long("t"),
        long("c"),
        "m".repeat(64),
    );
    let report = run(&pool(&many), &csv);
    assert_eq!((report.jobs.finished, report.jobs.rejected, report.jobs.never_placed), (1, 1, 1));
    let label = format!("resource_threshold={}", long("9"));
    let runs = ["baseline", &label].map(|label| Run { label: label.to_owned(), report: report.clone() });
    for line in text::report(&report).lines().chain(text::comparison(&runs).lines()) {
        assert!(line.chars().count() <= text::WIDTH, "{}: {line}", line.chars().count());
    }
}

#[test]
fn no_measure_is_wider_than_100_columns() {
    let name = "n".repeat(200);
    let rows: String = (0..20).map(|n| format!("{name}{n},{n},365d,8,1GiB,3,{n}\n")).collect();
    let csv = format!("owner,arrival,duration,cpu,memory,gpu,priority\n{rows}");
    let lab = lab(&["x=8cpu,1GiB,3gpu"]);
    let studies = ["ours", "least-loaded-fifo"].map(|policy| study(&lab, policy, &csv));
    let studies = studies.map(|study| Study { label: "n".repeat(30), ..study });
    for line in text::quality(&studies[0].quality).lines().chain(text::qualities(&studies).lines()) {
        assert!(line.chars().count() <= text::WIDTH, "{}: {line}", line.chars().count());
    }
}

/// The sample as the README shows it: the 40-second rule makes jobs wait.
#[test]
fn the_sample_morning_gains_from_a_shorter_interval() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let config = multicluster_config::load(&root.join("examples/cluster.yaml"), []).unwrap();
    let workload = Workload::load(&root.join("examples/workloads/morning.csv")).unwrap();
    assert_eq!(workload.arrivals.len(), 60);
    let mut capacities = Capacities::default();
    capacities.add("centos=32cpu,4gpu,128GiB").unwrap();
    capacities.add("mac=10cpu,32GiB").unwrap();
    let (clusters, _) = capacities.apply(config.clusters).unwrap();
    let pool = Pool { settings: config.settings, clusters, timing: Timing::default() };
    let baseline = simulate(&pool, &workload).unwrap();
    let faster = simulate(&with(pool, "submission_interval=5s"), &workload).unwrap();
    assert_eq!((baseline.jobs.finished, faster.jobs.finished), (60, 60));
    assert!(faster.wait_s.mean < baseline.wait_s.mean / 2.0, "{:?} {:?}", baseline.wait_s, faster.wait_s);
}
