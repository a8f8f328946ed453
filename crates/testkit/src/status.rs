//! `/api/cluster_status`: usage, camelCased, and what the autoscaler does.
//!
//! The second autoscaler leaves all of it empty, except the text for people.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::clock::date;
use crate::node::{Amounts, Node};
use crate::state::State;
use crate::view::{camel, usage_lines};

const HEAD: &str = "ray.head.default";
const WORKER: &str = "w";
/// The longest list of failures.
const SHOWN: usize = 20;

pub(crate) fn cluster_status(state: &State, now: Instant, formatted: bool) -> Value {
    let shown = state.shown_usage(now);
    let (mut totals, mut used) = (Amounts::new(), Amounts::new());
    for (index, (node, node_used)) in
        state.nodes.iter().zip(&shown).enumerate().filter(|(_, (node, _))| node.alive)
    {
        for (into, amounts) in [(&mut totals, &node.totals(index == 0)), (&mut used, node_used)] {
            for (name, amount) in amounts {
                *into.entry(name.clone()).or_default() += amount;
            }
        }
    }
    let lines = usage_lines(&totals, &used);
    if formatted {
        let text = text(state, now, &lines);
        return json!({"result": true, "msg": "Got formatted cluster status.", "data": {"clusterStatus": text}});
    }
    let (mut status, mut text) = (Value::Null, Value::Null);
    if !state.options.autoscaler_v2 {
        let pair = |name: &String| json!([used.get(name).copied().unwrap_or(0.0), totals[name]]);
        let usage: Map<String, Value> = totals.keys().map(|name| (camel(name), pair(name))).collect();
        // Ray writes this every five seconds.
        let time = (state.clock.ms(now) / 5000 * 5) as f64;
        let demand: Vec<Value> =
            demands(state).into_values().map(|(demand, count)| json!([demand, count])).collect();
        status = json!({
            "gcsRequestTime": 0.003,
            "time": time,
            "monitorPid": 9427,
            "autoscalerReport": report(state),
            "loadMetricsReport": {"usage": usage, "resourceDemand": demand, "pgDemand": [], "requestDemand": []},
        });
        text = format!("Cluster status: 0 nodes\n - ResourceUsage: {}", lines.join(", ")).into();
    }
    json!({
        "result": true,
        "msg": "Got cluster status.",
        "data": {"autoscalingStatus": text, "autoscalingError": null, "clusterStatus": status},
    })
}

/// What the first autoscaler reports.
fn report(state: &State) -> Value {
    let growth = &state.growth;
    let launches =
        if growth.launching.is_empty() { json!({}) } else { json!({WORKER: growth.launching.len()}) };
    let available = growth.failures.last().map(|(at, why)| {
        json!({WORKER: {
            "nodeType": WORKER,
            "isAvailable": false,
            "lastCheckedTimestamp": state.clock.ms(*at) / 1000,
            "unavailableNodeInformation": {"category": why, "description": why},
        }})
    });
    let active: BTreeMap<&str, usize> = kinds(state, |_| true);
    json!({
        "activeNodes": active,
        "idleNodes": null,
        "pendingNodes": [],
        "pendingLaunches": launches,
        "failedNodes": [],
        "nodeAvailabilitySummary": {"nodeAvailabilities": available.unwrap_or_else(|| json!({}))},
        "legacy": true,
    })
}

/// The nodes that are there, by their kind.
fn kinds(state: &State, counts: impl Fn(&Node) -> bool) -> BTreeMap<&'static str, usize> {
    let mut kinds = BTreeMap::new();
    for (index, _) in state.nodes.iter().enumerate().filter(|(_, node)| node.alive && counts(node)) {
        *kinds.entry(if index == 0 { HEAD } else { WORKER }).or_default() += 1;
    }
    kinds
}

/// What waits, by how Python writes it.
fn demands(state: &State) -> BTreeMap<String, (&Amounts, usize)> {
    let mut demands = BTreeMap::new();
    for demand in state.waiting().filter_map(|request| request.demand.as_ref()) {
        let amounts: Vec<String> =
            demand.iter().map(|(name, amount)| format!("'{name}': {amount:?}")).collect();
        demands.entry(format!("{{{}}}", amounts.join(", "))).or_insert((demand, 0)).1 += 1;
    }
    demands
}

fn text(state: &State, now: Instant, usage: &[String]) -> String {
    let is_v2 = state.options.autoscaler_v2;
    let ms = state.clock.ms(now);
    let header = format!("======== Autoscaler status: {}.{:06} ========", date(ms), ms % 1000 * 1000);
    let rule = "-".repeat(header.len());
    let count = |kinds: BTreeMap<&str, usize>| {
        kinds.into_iter().map(|(kind, count)| format!("{count} {kind}")).collect()
    };
    let active: Vec<String> = count(kinds(state, |node| !is_v2 || !node.is_idle()));
    let mut parts =
        vec![header, "Node status".into(), rule.clone(), list("Active:", active, "(no active nodes)")];
    if is_v2 {
        parts.push(list("Idle:", count(kinds(state, Node::is_idle)), "(no idle nodes)"));
    }
    let launching = match state.growth.launching.len() {
        0 => Vec::new(),
        some => vec![format!("{WORKER}, {some} launching")],
    };
    parts.push(list("Pending:", launching, "(no pending nodes)"));
    parts.push(list("Recent failures:", failures(state), "(no failures)"));
    parts.extend([
        String::new(),
        "Resources".into(),
        rule,
        list("Total Usage:", usage.to_vec(), "(no usage)"),
    ]);
    parts.push(list("\nFrom request_resources:", Vec::new(), "(none)"));
    let demands = demands(state).into_iter();
    let demands = demands.map(|(demand, (_, count))| format!("{demand}: {count}+ pending tasks/actors"));
    parts.push(list("Pending Demands:", demands.collect(), "(no resource demands)"));
    parts.join("\n")
}

/// The newest first. The first autoscaler keeps one of each kind of node, the second one all of them.
fn failures(state: &State) -> Vec<String> {
    let is_v2 = state.options.autoscaler_v2;
    let launches = state.growth.failures.iter().rev().map(|(at, why)| {
        let why = if is_v2 { "LaunchFailed" } else { why };
        let date = date(state.clock.ms(*at));
        format!("{WORKER}: {why} (latest_attempt: {})", date.split_once(' ').map_or("", |(_, time)| time))
    });
    let removed = state.growth.removed.iter().filter(|_| is_v2);
    let removed = removed.map(|id| format!("{WORKER}: NodeTerminated (instance_id: {id})"));
    launches.take(if is_v2 { SHOWN } else { 1 }).chain(removed).take(SHOWN).collect()
}

fn list(heading: &str, lines: Vec<String>, none: &str) -> String {
    let lines = if lines.is_empty() { vec![none.to_owned()] } else { lines };
    format!("{heading}\n {}", lines.join("\n "))
}
