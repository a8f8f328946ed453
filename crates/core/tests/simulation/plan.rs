//! The world of one seed: settings, clusters, and how often things fail.

use multicluster_types::{
    ClusterName, ClusterSpec, Elastic, Limits, Owner, Platform, PlatformName, PolicyRule, PolicySpec,
    Priority, Quantity, Resources, Settings, Share, ShareTerms, ShareWeight, Shares, Span, Tags, Weight,
    settings::{
        Claims, Count, ExecutionMode, JobLimit, Order, PreemptFrom, TagAffinity, ThresholdCounts, Utilization,
    },
};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::ray::{Scaler, Shape};

/// How often things go wrong, in percent.
#[derive(Debug, Clone, Copy)]
pub struct Faults {
    /// A request or its answer is lost.
    pub lost: u32,
    /// A cluster answers 500.
    pub error: u32,
    /// An answer comes twice.
    pub duplicate: u32,
    /// An answer takes very long.
    pub slow: u32,
    /// A snapshot shows the past.
    pub lie: u32,
    /// The control plane crashes between commit and effects.
    pub crash: u32,
    /// A cluster goes down, hangs or restarts (per thousand steps).
    pub outage: u32,
    /// The control plane stalls: the machine sleeps, or the disk hangs.
    pub stall: u32,
    /// A dashboard becomes slow, or quick again (per thousand steps).
    pub sluggish: u32,
}

impl Faults {
    pub const NONE: Faults = Faults {
        lost: 0,
        error: 0,
        duplicate: 0,
        slow: 0,
        lie: 0,
        crash: 0,
        outage: 0,
        stall: 0,
        sluggish: 0,
    };
}

#[derive(Debug)]
pub struct Plan {
    pub settings: Settings,
    pub clusters: Vec<(ClusterSpec, Shape)>,
    pub faults: Faults,
    pub steps: u32,
}

pub fn chance(rng: &mut ChaCha8Rng, percent: u32) -> bool {
    rng.random_range(0..100) < percent
}

pub fn pick<'a, T>(rng: &mut ChaCha8Rng, of: &'a [T]) -> &'a T {
    &of[rng.random_range(0..of.len())]
}

pub fn plan(rng: &mut ChaCha8Rng) -> Plan {
    let unkind = *pick(rng, &[0, 1, 1, 3]);
    let faults = Faults {
        lost: 4 * unkind,
        error: 4 * unkind,
        duplicate: 5 * unkind,
        slow: 5 * unkind,
        lie: 10 * unkind,
        crash: unkind,
        outage: 15 * unkind,
        stall: unkind,
        sluggish: 20 * unkind,
    };
    let count = rng.random_range(1..=4);
    Plan {
        settings: settings(rng),
        clusters: (0..count).map(|n| cluster(rng, n)).collect(),
        faults,
        steps: *pick(rng, &[40, 80, 160]),
    }
}

fn settings(rng: &mut ChaCha8Rng) -> Settings {
    let mut settings = Settings {
        resource_threshold: *pick(
            rng,
            &[Share::percent(70), Share::percent(70), Share::percent(100), Share::percent(20)],
        ),
        submission_interval: *pick(
            rng,
            &[Span::seconds(40), Span::seconds(40), Span::seconds(5), Span::ZERO],
        ),
        starvation_after: *pick(rng, &[Span::minutes(5), Span::seconds(30)]),
        max_queue: *pick(rng, &[1000, 1000, 4]),
        dispatch_attempts: Count::new(*pick(rng, &[10, 3])).unwrap(),
        breaker_failures: Count::new(*pick(rng, &[5, 2])).unwrap(),
        retain_finished: *pick(rng, &[10_000, 10_000, 5]),
        ..Settings::default()
    };
    if chance(rng, 20) {
        settings.execution_mode = ExecutionMode::Serial;
    }
    if chance(rng, 20) {
        settings.max_running_jobs = JobLimit::at_most(2);
    }
    if chance(rng, 30) {
        settings.max_starting = Count::new(*pick(rng, &[1, 2, 4])).unwrap();
    }
    if chance(rng, 30) {
        settings.claims = Claims::UntilStarted;
    }
    if chance(rng, 20) {
        settings.threshold_counts = ThresholdCounts::Others;
    }
    if chance(rng, 25) {
        settings.order = Order::Shortest;
    }
    settings.shares = shares(rng);
    settings.preempt_from = PreemptFrom(*pick(rng, &[None, Some(Priority(0)), Some(Priority(5))]));
    settings.preempt_after = *pick(rng, &[Span::ZERO, Span::seconds(20), Span::minutes(5)]);
    settings.preempt_per_hour = *pick(rng, &[60, 60, 2]);
    if chance(rng, 20) {
        settings.tag_affinity = TagAffinity::Preferred;
    }
    if chance(rng, 15) {
        settings.utilization = *pick(rng, &[Utilization::Physical, Utilization::Max]);
    }
    if chance(rng, 30) {
        let names = ["score", "tag_affinity", "weighted_preference", "spread", "pack", "whole_nodes"];
        let built_in =
            |name: &&str| PolicySpec { name: (*name).into(), rule: PolicyRule::BuiltIn { weight: 1.0 } };
        settings.policies = names[rng.random_range(0..5)..].iter().map(built_in).collect();
    }
    settings
}

/// Alone, as a group, or on terms of their own.
pub fn shares(rng: &mut ChaCha8Rng) -> Shares {
    let owner = |name: &str| Owner::new(name).unwrap();
    let half_life = *pick(rng, &[Span::seconds(30), Span::minutes(60), Shares::HALF_LIFE]);
    let mut terms = || ShareTerms {
        weight: ShareWeight::new(*pick(rng, &[1.0, 1.0, 3.0, 0.5])).unwrap(),
        limit: Resources::from_amounts(pick::<Vec<_>>(rng, &[vec![], vec![], vec![("CPU", 6.0)]]).clone())
            .unwrap(),
        max_queued: *pick(rng, &[None, None, Some(3)]),
        max_priority: *pick(rng, &[None, None, Some(Priority(0))]),
        preempts: chance(rng, 30),
        ..ShareTerms::default()
    };
    let members = vec![owner("ann"), owner("bob")];
    let named = [
        (owner("ann"), terms()),
        (owner("bob"), terms()),
        (owner("team"), ShareTerms { members, ..terms() }),
    ];
    let named = match rng.random_range(0..3) {
        0 => Vec::new(),
        1 => named[..2].to_vec(),
        _ => named[2..].to_vec(),
    };
    Shares::new(half_life, named.into_iter().collect()).unwrap()
}

const TAGS: &[&[&str]] = &[&["linux"], &["macos"], &["linux", "gpu"], &[]];

pub fn cluster(rng: &mut ChaCha8Rng, number: u32) -> (ClusterSpec, Shape) {
    let tags = pick(rng, TAGS);
    let limits = Limits {
        resource_threshold: chance(rng, 15).then(|| Share::percent(50)),
        submission_interval: chance(rng, 15).then(|| Span::seconds(10)),
        execution_mode: chance(rng, 10).then_some(ExecutionMode::Serial),
        max_running_jobs: chance(rng, 10).then(|| JobLimit::at_most(3)),
        driver_memory: chance(rng, 10).then_some(Quantity::ZERO),
        head_memory_share: chance(rng, 10).then(|| Share::percent(80)),
    };
    let name = ClusterName::new(format!("c{number}")).unwrap();
    let spec = ClusterSpec {
        prefer: chance(rng, 20),
        weight: Weight::new(*pick(rng, &[1.0, 1.0, 0.5, 2.0])).unwrap(),
        tags: Tags::new(*tags).unwrap(),
        limits,
        ..ClusterSpec::new(name, "127.0.0.1:10001", format!("http://127.0.0.1:{}", 8000 + number))
    };
    let count = *pick(rng, &[1, 1, 2, 4]);
    let cpus = *pick(rng, &[4.0, 8.0, 16.0]);
    let gpus = if chance(rng, 30) { 2.0 } else { 0.0 };
    // Only the first node has a licence.
    let node = |nth: u32| {
        let licence = if nth == 0 { f64::from(number % 2) } else { 0.0 };
        let of = |amount: f64| amount / f64::from(count);
        let amounts = [("CPU", of(cpus)), ("GPU", of(gpus)), ("memory", of(32e9)), ("licence", licence)];
        Resources::from_amounts(amounts).unwrap()
    };
    let arch = chance(rng, 50).then(|| PlatformName::new(pick::<&str>(rng, &["x86_64", "arm64"])).unwrap());
    let labels = if chance(rng, 50) { [("zone".into(), "a".into())].into() } else { [].into() };
    let head = *pick(rng, &[None, Some(64e9), Some(1e9), Some(5.5e8)]);
    let reports_session = chance(rng, 75);
    let mut nodes: Vec<_> = (0..count).map(node).collect();
    let mut spec = spec;
    let scaler = chance(rng, 30).then(|| {
        let (elastic, scaler) = elastic(rng, &mut nodes);
        spec.elastic = Some(Box::new(elastic));
        scaler
    });
    (spec, Shape { nodes, labels, platform: Platform { os: None, arch }, head, reports_session, scaler })
}

/// A cluster that grows: as it is described, late, only in part, or never. It may begin as a head without
/// any CPU.
fn elastic(rng: &mut ChaCha8Rng, nodes: &mut Vec<Resources>) -> (Elastic, Scaler) {
    if chance(rng, 50) {
        *nodes = vec![Resources::from_amounts([("memory", 8e9)]).unwrap()];
    }
    let node = Resources::from_amounts([("CPU", *pick(rng, &[4.0, 8.0])), ("memory", 16e9)]).unwrap();
    let count = *pick(rng, &[1, 2, 4]);
    let mut max = node.times(count);
    nodes.iter().for_each(|node| max.add(node));
    let most = if chance(rng, 60) { count } else { rng.random_range(0..=count) };
    let within = *pick(rng, &[Span::seconds(30), Span::minutes(2)]);
    let takes = *pick(rng, &[Span::seconds(5), Span::seconds(20), Span::seconds(90)]);
    let stays = *pick(rng, &[Span::seconds(10), Span::minutes(5)]);
    (Elastic { max, node: node.clone(), within }, Scaler::new(node, most as usize, takes, stays))
}
