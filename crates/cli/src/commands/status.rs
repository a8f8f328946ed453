//! `ray-multicluster status`: the pool at a glance.

use multicluster_api::{Cluster, ClusterList, ConfigProblem, Pool, Queues};
use multicluster_types::HealthKind;
use serde_json::json;

use super::{Context, watch::Watch};
use crate::{
    client::{Answer, Client},
    exit::Failure,
    output::{Cell, Out, Table, Tone, bars, time, words},
};

/// Everything that `status` and `top` show of clusters and queues.
pub(crate) struct Status {
    pub(crate) pool: Pool,
    pub(crate) clusters: Vec<Cluster>,
    pub(crate) queues: Queues,
}

impl Status {
    pub(crate) async fn ask(client: &Client) -> Result<Answer<Self>, Failure> {
        let (pool, clusters, queues) = tokio::try_join!(
            client.get::<Pool>(&["v1", "pool"], &[]),
            client.get::<ClusterList>(&["v1", "clusters"], &[]),
            client.get::<Queues>(&["v1", "queue"], &[]),
        )?;
        let raw = json!({ "pool": pool.raw, "clusters": clusters.raw["items"], "queue": queues.raw });
        let value = Self { pool: pool.value, clusters: clusters.value.items, queues: queues.value };
        Ok(Answer { value, raw })
    }

    /// How many jobs wait for this cluster alone.
    pub(crate) fn queued(&self, cluster: &Cluster) -> u32 {
        let own = self.queues.items.iter().filter(|queue| queue.cluster.as_ref() == Some(&cluster.name));
        own.map(|queue| queue.waiting).sum()
    }

    /// `2 of 3 clusters available · 12 CPU, 48 GiB free · 5 live`.
    pub(crate) fn headline(&self) -> String {
        let Pool { clusters, available, free, live, .. } = &self.pool;
        if *clusters == 0 {
            return "no clusters yet: add one with `ray-multicluster clusters add`".to_owned();
        }
        let (clusters, free) = (words::count(*clusters, "cluster"), words::resources(free));
        format!("{available} of {clusters} available · {free} free · {live} live")
    }

    /// Why the configuration file, or one of its cluster files, is not in force; `None`: all are.
    pub(crate) fn config_line(&self, now: u64) -> Option<String> {
        let ConfigProblem { at, message } = self.pool.config_problem.as_ref()?;
        let (since, why) = (time::since(*at, now), words::first_line(message, 300));
        Some(format!("refused for {since}, what was last valid stays in force: {why}"))
    }

    /// `jobs 3, jobs@mac 2`.
    pub(crate) fn queues_line(&self) -> String {
        let waiting = self.queues.items.iter().filter(|queue| queue.waiting > 0);
        let shown: Vec<_> = waiting.map(|queue| format!("{} {}", queue.name, queue.waiting)).collect();
        if shown.is_empty() { "nothing is queued".to_owned() } else { shown.join(", ") }
    }
}

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    watch: Watch,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    args.watch.run(async || show(context).await).await
}

async fn show(context: &Context) -> Result<(), Failure> {
    let Answer { value: status, raw } = Status::ask(&context.client).await?;
    let out = &context.out;
    if out.is_json() {
        out.json(&raw);
        return Ok(());
    }
    out.line(format!("{}    {}", out.paint("POOL", Tone::Strong), status.headline()));
    out.line(format!("{}  {}", out.paint("QUEUES", Tone::Strong), status.queues_line()));
    if let Some(line) = status.config_line(time::now()) {
        out.line(format!("{}  {line}", out.paint("CONFIG", Tone::Bad)));
    }
    if !status.clusters.is_empty() {
        out.line("");
        out.table(&clusters(&status, out, time::now()));
    }
    Ok(())
}

/// A line of numbers for each cluster, with text below it.
fn clusters(status: &Status, out: &Out, now: u64) -> Table {
    let widest = |text: &dyn Fn(&Cluster) -> String, head: &str| {
        let widths = status.clusters.iter().map(|cluster| text(cluster).chars().count());
        widths.max().unwrap_or(0).max(head.len())
    };
    let name = widest(&|cluster| cluster.name.clone(), "CLUSTER");
    let health = widest(&|cluster| words::condition(cluster).0.to_owned(), "HEALTH");
    let next = widest(&|cluster| words::next_submission(cluster, now), "NEXT");
    // Three bars share the rest of the width: without the columns above, LIVE and QUEUED, 7 gaps
    // and 3 percentages.
    let others = name + health + next + 4 + 6 + 7 * 2 + 3 * 5;
    let cells = (usize::from(out.width).saturating_sub(others) / 3).clamp(3, 16);
    let mut table =
        Table::new(&["CLUSTER", "HEALTH", "CPU", "GPU", "MEMORY", "#LIVE", "#QUEUED", "#NEXT"]).one_line();
    for cluster in &status.clusters {
        let (condition, tone) = words::condition(cluster);
        let threshold = cluster.limits.resource_threshold;
        let full = |share: Option<f64>| {
            let tone = share.map_or(Tone::Dim, |share| Tone::of_share(share, threshold));
            Cell::new(bars::bar(share, cells)).tone(tone)
        };
        table.row(vec![
            cluster.name.as_str().into(),
            Cell::new(condition).tone(tone),
            full(cluster.logical.cpu),
            full(cluster.logical.gpu),
            full(cluster.logical.memory),
            cluster.live.to_string().into(),
            status.queued(cluster).to_string().into(),
            words::next_submission(cluster, now).into(),
        ]);
        table.note(details(cluster, now));
    }
    table
}

/// Facts about a cluster, then its problems.
fn details(cluster: &Cluster, now: u64) -> Vec<String> {
    let mut is = vec![format!("weight {}", cluster.weight)];
    if cluster.prefer {
        is.push("preferred".to_owned());
    }
    if !cluster.tags.is_empty() {
        is.push(cluster.tags.join(", "));
    }
    if let Some(version) = &cluster.ray_version {
        is.push(format!("Ray {version}"));
    }
    is.push(format!("circuit {}", cluster.breaker.state.as_str().replace('_', " ")));
    let mut lines = vec![is.join(" · ")];
    if let Some(until) = cluster.breaker.until_at {
        lines.push(format!("circuit open: next probe {}", time::until(Some(until), now)));
    }
    if let Some(note) = &cluster.cordoned {
        lines.push(format!("{}: {note}", if cluster.draining { "draining" } else { "cordoned" }));
    }
    if let Some(error) = &cluster.health.error {
        let error = words::first_line(error, 200);
        let since =
            cluster.health.since_at.map_or(String::new(), |at| format!("for {}", time::since(at, now)));
        lines.push(match cluster.health.state {
            HealthKind::Unauthorized => format!("unauthorized: {error} ({since})"),
            _ => format!("unhealthy {since}: {error}"),
        });
    }
    lines.extend(words::busy(cluster));
    if let Some(job) = &cluster.reserved_for {
        lines.push(format!("room is kept for {job}, which has waited too long"));
    }
    lines
}
