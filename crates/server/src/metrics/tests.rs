use std::{collections::BTreeMap, fs, path::Path};

use multicluster_core::{ClusterChange, DispatchOutcome, Identity, Input, Run, Submission};
use multicluster_types::{
    ClusterSpec, Owner, Platform, Resources, Settings, Snapshot, Span, Timestamp, Work, settings::Share,
};

use super::{catalogue::ALL, *};

/// A core with one cluster, and metrics fed as the driver feeds them.
struct World {
    core: Core,
    metrics: Metrics,
}

impl World {
    fn new() -> Self {
        let mut world = Self { core: Core::new(Settings::default()).unwrap(), metrics: Metrics::default() };
        let spec = ClusterSpec::new(ClusterName::new("mac").unwrap(), "h:10001", "http://h:8265");
        world.feed(0, Input::Register { spec: Box::new(spec), replace: false });
        let mut snapshot = Snapshot {
            taken_at: Timestamp(1000),
            total: Resources::from_amounts([("CPU", 8.0), ("memory", 1024.0)]).unwrap(),
            used: Resources::from_amounts([("CPU", 2.0)]).unwrap(),
            physical: multicluster_types::Load::default(),
            head: None,
            nodes: 1,
            shapes: Vec::new(),
            platform: Platform::default(),
            ray_version: "2.60.0".into(),
            python_version: Some("3.11.7".into()),
            incarnation: None,
            autoscaler: None,
        };
        snapshot.physical.cpu = Some(Share::percent(40));
        let cluster = ClusterName::new("mac").unwrap();
        world.feed(1000, Input::Polled { cluster, snapshot: Box::new(snapshot), took: Span::ZERO });
        world
    }

    fn feed(&mut self, now: u64, input: Input) {
        let output = self.core.handle(Timestamp(now), input);
        for write in &output.writes {
            match write {
                multicluster_core::Write::Decision(decision) => self.metrics.decided(decision),
                multicluster_core::Write::Attempt(attempt) => self.metrics.attempted(attempt, &self.core),
                _ => {}
            }
        }
        output.events.iter().for_each(|event| self.metrics.happened(event, &self.core));
        output.cycle.iter().for_each(|cycle| self.metrics.cycled(cycle));
    }

    fn submit(&mut self, now: u64, id: &str) {
        let id = Identity::Given(JobId::new(id).unwrap());
        let submission = Submission { id, work: Work::new(Kind::Job), content: None, bytes: 0, parent: None };
        self.feed(now, Input::Submit(submission));
    }

    fn page(&self) -> String {
        self.metrics.render(Seen::of(&self.core))
    }

    #[track_caller]
    fn shows(&self, line: &str) {
        let page = self.page();
        assert!(page.lines().any(|shown| shown == line), "no line {line:?} in\n{page}");
    }
}

/// The first attempt of this job.
fn run(id: &str) -> Run {
    Run { job: JobId::new(id).unwrap(), attempt: Attempt::FIRST, life: None }
}

#[test]
fn a_job_is_counted_from_acceptance_to_its_end() {
    let mut world = World::new();
    world.submit(3000, "a");
    world.shows(r#"multicluster_accepted_total{kind="job"} 1"#);
    world.shows(r#"multicluster_placements_total{cluster="mac"} 1"#);
    world.shows(r#"multicluster_wait_seconds_count{kind="job",cluster="mac"} 1"#);
    world.shows(r#"multicluster_cluster_live{cluster="mac"} 1.0"#);

    let (outcome, took) = (DispatchOutcome::Accepted, Span::ZERO);
    world.feed(4000, Input::Dispatched { run: run("a"), outcome, took });
    for (now, status) in
        [(5000, multicluster_core::RunStatus::Running), (25_000, multicluster_core::RunStatus::Succeeded)]
    {
        let runs = vec![multicluster_core::Observation { run: run("a"), status, ran: None }];
        let cluster = ClusterName::new("mac").unwrap();
        world.feed(now, Input::Observed { cluster, incarnation: None, complete_at: None, runs });
    }
    world.shows(r#"multicluster_ended_total{kind="job",cluster="mac",state="succeeded"} 1"#);
    world.shows(r#"multicluster_ended_total{kind="job",cluster="mac",state="failed"} 0"#);
    world.shows(r#"multicluster_run_seconds_sum{kind="job",cluster="mac"} 20.0"#);
    world.shows(r#"multicluster_state_changes_total{state="running"} 1"#);
    world.shows(r#"multicluster_started_total{kind="job"} 1"#);
    let totals = Totals { submitted: 1, started: 1, succeeded: 1, failed: 0, stopped: 0 };
    assert_eq!(world.metrics.totals(), totals);
}

#[test]
fn who_waits_is_seen_in_its_queue_with_the_reason() {
    let mut world = World::new();
    world.submit(3000, "a");
    world.submit(3000, "b");
    world.shows(r#"multicluster_queue_length{queue="jobs",cluster=""} 1.0"#);
    world.shows(r#"multicluster_decisions_total{outcome="placed",reason=""} 1"#);
    world.shows(r#"multicluster_decisions_total{outcome="passed_over",reason="too_soon"} 1"#);
    world.feed(4000, Input::Stop { job: JobId::new("b").unwrap() });
    world.shows(r#"multicluster_ended_total{kind="job",cluster="",state="stopped"} 1"#);
}

#[test]
fn the_owners_with_the_most_are_shown_and_the_rest_as_one() {
    let mut world = World::new();
    let submit = |world: &mut World, owner: &str, id: String| {
        let work = Work { owner: Some(Owner::new(owner).unwrap()), ..Work::new(Kind::Job) };
        let id = Identity::Given(JobId::new(id).unwrap());
        world.feed(3000, Input::Submit(Submission { id, work, content: None, bytes: 0, parent: None }));
    };
    for n in 0..3 {
        submit(&mut world, "ann", format!("ann-{n}"));
    }
    for n in 0..60 {
        submit(&mut world, &format!("o-{n:02}"), format!("o-{n}"));
    }
    let page = world.metrics.render(Seen::with_owners(&world.core));
    let has = |line: &str| assert!(page.lines().any(|found| found == line), "{line}: {page}");
    has(r#"multicluster_owner_share_ratio{owner="ann",measure="holds"} 0.125"#);
    has(r#"multicluster_owner_queued{owner="ann"} 2.0"#);
    has(r#"multicluster_owner_queued{owner="o-48"} 1.0"#);
    has(r#"multicluster_owner_queued{owner="(other)"} 11.0"#);
    has(r#"multicluster_owner_share_ratio{owner="(other)",measure="holds"} 0.0"#);
    assert!(!page.contains(r#"owner="o-49""#) && !page.contains(r#"owner="(other)",measure="entitled""#));
    assert!(!world.page().contains("owner="), "not for callers that see their own work only");
}

#[test]
fn a_cluster_is_shown_as_it_stands() {
    let mut world = World::new();
    world.shows(
        r#"multicluster_cluster_utilization_ratio{cluster="mac",resource="cpu",measure="logical"} 0.25"#,
    );
    world.shows(
        r#"multicluster_cluster_utilization_ratio{cluster="mac",resource="cpu",measure="physical"} 0.4"#,
    );
    world.shows(r#"multicluster_cluster_capacity{cluster="mac",resource="cpu"} 8.0"#);
    world.shows(r#"multicluster_cluster_healthy{cluster="mac"} 1.0"#);
    world.shows(r#"multicluster_cluster_breaker_state{cluster="mac",state="closed"} 1.0"#);
    world.shows(r#"multicluster_cluster_cordoned{cluster="mac"} 0.0"#);
    assert!(!world.page().contains(r#"resource="gpu",measure"#), "what it does not have is not in use");
    let cluster = ClusterName::new("mac").unwrap();
    world.feed(2000, Input::Cordon { cluster, note: Some("upgrade".into()), drain: false });
    world.shows(r#"multicluster_cluster_cordoned{cluster="mac"} 1.0"#);
    world.shows(r#"multicluster_cluster_changes_total{cluster="mac",change="cordoned"} 1"#);
}

#[test]
fn what_was_counted_of_a_removed_cluster_is_dropped() {
    let metrics = Metrics::default();
    let took = Duration::from_millis(5);
    for i in 0..1000 {
        let cluster = ClusterName::new(format!("spot-{i}")).unwrap();
        metrics.polled(&cluster, true, took);
        metrics.series.changed(&cluster, &ClusterChange::Removed);
    }
    assert!(metrics.series.clusters().is_empty());
}

#[test]
fn routes_are_bounded_whatever_is_asked_for() {
    let metrics = Metrics::default();
    for i in 0..10_000 {
        metrics.api(Some(&format!("/v1/evil/{i}")), &http::Method::GET, 200, Duration::ZERO);
    }
    metrics.api(None, &http::Method::from_bytes(b"EVIL").unwrap(), 999, Duration::ZERO);
    assert!(metrics.series.routes().len() <= 257);
    let page = metrics.render(Seen::default());
    assert!(page.contains(r#"route="more",method="GET",status="2xx""#), "{page}");
}

#[test]
fn hooks_on_the_hot_path_are_cheap() {
    let mut world = World::new();
    world.submit(3000, "a");
    let event = Event::Job {
        job: JobId::new("a").unwrap(),
        at: Timestamp(3000),
        state: State::Queued,
        cluster: None,
        attempt: None,
        message: None,
        owner: None,
        by: None,
    };
    let started = std::time::Instant::now();
    for _ in 0..100_000 {
        world.metrics.happened(&event, &world.core);
    }
    // About 10 ms here; a whole second is all that the driver has for 100,000 events.
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
}

#[test]
fn every_metric_is_on_the_page_and_in_the_docs() {
    let page = Metrics::default().render(Seen::default());
    let types: BTreeMap<_, _> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    assert_eq!(types.len(), ALL.len(), "{types:?}");
    for metric in ALL {
        let unit = metric.unit.as_ref().map_or(String::new(), |unit| format!("_{}", unit.as_str()));
        assert_eq!(types[format!("{}{unit}", metric.name).as_str()], metric.kind.as_str());
    }
    assert!(page.ends_with("# EOF\n"));

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let docs = fs::read_to_string(&path).unwrap();
    let (before, rest) = docs.split_once("<!-- metrics -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- end -->").unwrap();
    let mut table = "| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n".to_owned();
    for metric in ALL {
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let kind = metric.kind.as_str();
        table += &format!("| `{}` | {kind} | {} | {} |\n", metric.shown(), labels.join(" "), metric.help);
    }
    let wanted = format!("{before}<!-- metrics -->\n{table}<!-- end -->{after}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &wanted).unwrap();
    } else {
        assert_eq!(docs, wanted, "run: UPDATE_DOCS=1 cargo test -p multicluster-server every_metric");
    }
}

#[test]
fn a_job_is_accepted_once_even_if_it_waits_again_in_the_same_moment() {
    let mut world = World::new();
    world.submit(2000, "a");
    let outcome = DispatchOutcome::Failed("refused".into());
    world.feed(2000, Input::Dispatched { run: run("a"), outcome, took: Span::ZERO });
    assert_eq!(world.metrics.totals().submitted, 1);
}
