//! What is worth a trial in this pool. Values of one setting go from mild to strong.

use multicluster_types::{PolicyRule, Settings, Share, Span, settings::JobLimit};

use super::{Outcome, Shift};
use crate::Pool;

/// Values of one setting.
#[derive(Debug)]
pub(super) struct Idea {
    /// Settings of one group are alternatives: only one of them is part of a combination.
    pub(super) group: &'static str,
    /// Each a complete change, the mildest first.
    pub(super) steps: Vec<Vec<Shift>>,
}

const THRESHOLDS: [Share; 3] = [Share::percent(80), Share::percent(90), Share::percent(100)];
const INTERVALS: [Span; 2] = [Span::seconds(10), Span::ZERO];
const STARVATION: [Span; 2] = [Span::minutes(60), Span::minutes(24 * 60)];
/// The built-in scores that say how full clusters should be.
const SCORES: [&str; 3] = ["score", "pack", "spread"];
/// The most clusters of which one more is tried.
const CLUSTERS: usize = 4;

/// Settings that could be different.
pub(super) fn settings(pool: &Pool) -> Vec<Idea> {
    let settings = &pool.settings;
    let is_limited = settings.max_running_jobs < JobLimit::UNLIMITED;
    let ideas = [
        ("threshold", thresholds(pool)),
        ("threshold", switch(settings, "threshold_counts", "all", "others")),
        ("interval", intervals(pool)),
        ("order", switch(settings, "order", "fifo", "shortest")),
        ("starvation", starvation(settings)),
        ("mode", switch(settings, "execution_mode", "serial", "parallel")),
        (
            "limit",
            if is_limited { vec![vec![shift(settings, "max_running_jobs", "unlimited")]] } else { vec![] },
        ),
        ("policies", policies(settings)),
    ];
    let ideas = ideas.into_iter().map(|(group, steps)| Idea { group, steps });
    ideas.filter(|idea| !idea.steps.is_empty()).collect()
}

/// Clusters of which one more could help, the fullest first.
pub(super) fn clusters(pool: &Pool, now: &Outcome) -> Vec<multicluster_types::ClusterName> {
    let mut fullest: Vec<_> = now.clusters.iter().filter(|cluster| cluster.mean > 0.0).collect();
    fullest.sort_by(|a, b| b.mean.total_cmp(&a.mean));
    let names = fullest.into_iter().map(|cluster| cluster.cluster.clone());
    names
        .filter(|name| pool.clusters.iter().any(|cluster| cluster.spec.name == *name))
        .take(CLUSTERS)
        .collect()
}

fn shift(settings: &Settings, name: &str, to: &str) -> Shift {
    let from = settings.show(name).unwrap_or_default();
    Shift { name: name.to_owned(), from, to: to.to_owned() }
}

fn switch(settings: &Settings, name: &str, from: &str, to: &str) -> Vec<Vec<Shift>> {
    let shift = shift(settings, name, to);
    if shift.from == from { vec![vec![shift]] } else { vec![] }
}

/// A cluster's own threshold is raised with the others.
fn thresholds(pool: &Pool) -> Vec<Vec<Shift>> {
    let steps = THRESHOLDS.map(|value| {
        let to = value.as_f64().to_string();
        let all = (pool.settings.resource_threshold < value)
            .then(|| shift(&pool.settings, "resource_threshold", &to));
        let own = pool.clusters.iter().filter_map(|cluster| {
            let own = cluster.spec.limits.resource_threshold.filter(|own| *own < value)?;
            let name = format!("{}.resource_threshold", cluster.spec.name);
            Some(Shift { name, from: own.as_f64().to_string(), to: to.clone() })
        });
        all.into_iter().chain(own).collect::<Vec<_>>()
    });
    steps.into_iter().filter(|step| !step.is_empty()).collect()
}

fn intervals(pool: &Pool) -> Vec<Vec<Shift>> {
    let steps = INTERVALS.map(|value| {
        let to = value.to_string();
        let all = (pool.settings.submission_interval > value)
            .then(|| shift(&pool.settings, "submission_interval", &to));
        let own = pool.clusters.iter().filter_map(|cluster| {
            let own = cluster.spec.limits.submission_interval.filter(|own| *own > value)?;
            let name = format!("{}.submission_interval", cluster.spec.name);
            Some(Shift { name, from: own.to_string(), to: to.clone() })
        });
        all.into_iter().chain(own).collect::<Vec<_>>()
    });
    steps.into_iter().filter(|step| !step.is_empty()).collect()
}

fn starvation(settings: &Settings) -> Vec<Vec<Shift>> {
    let longer = STARVATION.into_iter().filter(|value| *value > settings.starvation_after);
    longer.map(|value| vec![shift(settings, "starvation_after", &value.to_string())]).collect()
}

/// The other scores in place of the present one. Expressions of the user's own cannot be written in a
/// list of policies, so they are left alone.
fn policies(settings: &Settings) -> Vec<Vec<Shift>> {
    let mut list = Vec::new();
    for policy in &settings.policies {
        let PolicyRule::BuiltIn { weight } = policy.rule else { return vec![] };
        list.push((policy.name.as_str(), weight));
    }
    let show = |list: &[(&str, f64)]| {
        let items: Vec<_> = list.iter().map(|(name, weight)| format!("{name}:{weight}")).collect();
        items.join(",")
    };
    let Some(at) = list.iter().position(|(name, _)| SCORES.contains(name)) else { return vec![] };
    let others = SCORES.into_iter().filter(|name| list.iter().all(|(known, _)| known != name));
    let changed = others.map(|name| {
        let mut changed = list.clone();
        changed[at].0 = name;
        vec![Shift { name: "policies".to_owned(), from: show(&list), to: show(&changed) }]
    });
    changed.collect()
}
