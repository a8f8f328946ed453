//! `clusters show`: everything about one cluster.

use multicluster_api::{Cluster, Growth, Job, LimitsView, Page};
use multicluster_types::State;

use super::{super::Context, super::jobs, source};
use crate::{
    exit::Failure,
    output::{Out, Tone, time, words},
};

/// How many of its jobs are shown.
const JOBS: usize = 20;

#[derive(clap::Args)]
pub(super) struct Args {
    /// The name of the cluster.
    name: String,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let (out, client) = (&context.out, &context.client);
    let cluster = client.get::<Cluster>(&["v1", "clusters", &args.name], &[]).await?;
    if out.is_json() {
        out.json(&cluster.raw);
        return Ok(());
    }
    let now = time::now();
    for (name, value) in facts(&cluster.value, out, now) {
        out.text(&words::fact(name, &value));
    }
    let on_it = State::ALL.into_iter().filter(|state| !state.is_terminal() && *state != State::Queued);
    let on_it = on_it.map(State::as_str).collect::<Vec<_>>().join(",");
    let query = [("cluster", args.name.clone()), ("state", on_it), ("limit", JOBS.to_string())];
    let page = client.get::<Page<Job>>(&["v1", "jobs"], &query).await?.value;
    if !page.items.is_empty() {
        out.line(format!("\n{}", out.paint("Jobs on it", Tone::Strong)));
        out.table(&jobs::table(&page.items, now));
    }
    if page.next_cursor.is_some() {
        eprintln!("there are more: ray-multicluster jobs --cluster {}", args.name);
    }
    Ok(())
}

fn facts(cluster: &Cluster, out: &Out, now: u64) -> Vec<(&'static str, String)> {
    let unknown = || "–".to_owned();
    let (condition, tone) = words::condition(cluster);
    let mut health = out.paint(condition, tone);
    if let Some(since) = cluster.health.since_at {
        health += &format!(" for {}", time::since(since, now));
    }
    let mut facts = vec![("cluster", cluster.name.clone()), ("health", health)];
    facts.extend(cluster.health.error.clone().map(|error| ("error", words::printable(&error))));
    facts.extend(cluster.cordoned.clone().map(|note| ("cordoned", words::printable(&note))));
    facts.push(("circuit", cluster.breaker.state.as_str().replace('_', " ")));
    facts.push(("accepts", words::next_submission(cluster, now)));
    facts.push(("head", cluster.head_address.clone()));
    facts.push(("dashboard", cluster.dashboard.clone()));
    facts.push(("source", source(cluster.source).to_owned()));
    if !cluster.tags.is_empty() {
        facts.push(("tags", cluster.tags.join(", ")));
    }
    facts.push(("weight", format!("{}{}", cluster.weight, if cluster.prefer { ", preferred" } else { "" })));
    let software = [
        cluster.ray_version.as_ref().map(|version| format!("Ray {version}")),
        cluster.python_version.as_ref().map(|version| format!("Python {version}")),
        cluster.os.clone(),
        cluster.arch.clone(),
    ];
    let software = software.into_iter().flatten().collect::<Vec<_>>().join(", ");
    facts.push(("software", if software.is_empty() { unknown() } else { software }));
    facts.push(("nodes", cluster.nodes.map_or_else(unknown, |nodes| nodes.to_string())));
    for (name, amounts) in [("total", &cluster.total), ("used", &cluster.used), ("free", &cluster.free)] {
        facts.push((name, amounts.as_ref().map_or_else(unknown, words::resources)));
    }
    for (name, amounts) in [("claimed", &cluster.claimed), ("promised", &cluster.promised)] {
        if !amounts.is_empty() {
            facts.push((name, words::resources(amounts)));
        }
    }
    facts.extend(cluster.elastic.as_ref().map(|growth| ("elastic", elastic(growth, now))));
    let snapshot = cluster.snapshot_at.map(|at| format!("{} ago", time::since(at, now)));
    facts.push(("seen", snapshot.unwrap_or_else(unknown)));
    facts.push(("live", words::count(cluster.live, "job")));
    facts.extend(cluster.reserved_for.clone().map(|job| ("kept for", job)));
    facts.push(("limits", limits(&cluster.limits)));
    facts.extend(cluster.home_dir.clone().map(|home| ("home", home)));
    facts.extend(cluster.plane_address.clone().map(|address| ("plane", address)));
    if !cluster.runtime_env.is_empty() {
        let shown = serde_json::to_string(&cluster.runtime_env).expect("it came as JSON");
        facts.push(("runtime_env", shown));
    }
    facts
}

fn elastic(growth: &Growth, now: u64) -> String {
    let mut parts = vec![format!(
        "up to {}, by nodes of {}",
        words::resources(&growth.max),
        words::resources(&growth.node)
    )];
    parts.push(format!("{} can be added", words::count(growth.can_add as usize, "more node")));
    parts.extend(growth.pending.filter(|nodes| *nodes > 0).map(|nodes| format!("{nodes} on the way")));
    if growth.waiting > 0 {
        parts.push(format!("{} waiting for nodes", words::count(growth.waiting, "job")));
    }
    if let (Some(since), Some(again)) = (growth.stuck_since_at, growth.asked_again_at) {
        let (since, again) = (time::since(since, now), time::since(now, again));
        parts.push(format!("was asked to grow {since} ago and did not, is asked again in {again}"));
    }
    parts.extend(growth.failure.as_ref().map(|why| format!("its autoscaler: {}", words::printable(why))));
    parts.extend(growth.problem.clone());
    parts.join("; ")
}

fn limits(limits: &LimitsView) -> String {
    let mut parts = vec![
        format!("{:.0} % of its resources", limits.resource_threshold * 100.0),
        format!("a submission every {} s", limits.submission_interval_seconds),
    ];
    let numbers = [
        (limits.max_running_jobs, "running"),
        (limits.max_drivers, "drivers"),
        (Some(limits.max_starting), "starting"),
    ];
    for (number, what) in numbers {
        parts.extend(number.map(|number| format!("{number} {what} at most")));
    }
    parts.join(", ")
}
