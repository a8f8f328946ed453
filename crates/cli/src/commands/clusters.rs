//! `ray-multicluster clusters`: list them, and the operator's commands.

mod check;
mod show;

use std::time::Duration;

use clap::Subcommand;
use multicluster_api::{Cluster, ClusterList, ClusterRequest, NoteRequest, Removed};
use multicluster_types::Source;
use serde_json::{Map, Value};
use tokio::time::sleep;

use super::{Context, watch::Watch};
use crate::{
    client::Answer,
    exit::{Exit, Failure},
    output::{Cell, Table, words},
};

/// How often a drained cluster is looked at.
const LOOK: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    watch: Watch,
}

#[derive(Subcommand)]
enum Verb {
    /// Show everything about a cluster.
    Show(show::Args),
    /// Register a cluster.
    Add(Add),
    /// Change some keys of a cluster; the others stay as they are.
    Update(Update),
    /// Remove a cluster, as soon as it is empty.
    Remove {
        /// The name of the cluster.
        name: String,
        /// Do not wait for the jobs on it.
        #[arg(long)]
        force: bool,
    },
    /// Send no new jobs to a cluster.
    Cordon(Note),
    /// Send jobs to a cluster again.
    Uncordon {
        /// The name of the cluster.
        name: String,
    },
    /// Send no new jobs to a cluster, and report an event when it is empty.
    Drain(Drain),
    /// Poll clusters now and show the result.
    Check(check::Args),
}

#[derive(clap::Args)]
struct Add {
    /// The name of the cluster.
    name: String,
    /// Ray Client address, host:port.
    #[arg(long, value_name = "HOST:PORT")]
    head_address: String,
    /// Address of the dashboard, http://host:8265.
    #[arg(long, value_name = "URL")]
    dashboard: String,
    /// A tag of the cluster; repeat for more.
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// A higher weight scores better [default: 1].
    #[arg(long)]
    weight: Option<f64>,
    /// Any other key of a cluster in cluster.yaml; the value as in YAML.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, Value)>,
}

#[derive(clap::Args)]
struct Update {
    /// The name of the cluster.
    name: String,
    /// A tag of the cluster, in place of its present tags; repeat for more.
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// A higher weight scores better.
    #[arg(long)]
    weight: Option<f64>,
    /// Any key of a cluster in cluster.yaml; the value as in YAML, null for the default.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, Value)>,
}

#[derive(clap::Args)]
struct Drain {
    #[command(flatten)]
    note: Note,
    /// Return when no job is left on the cluster.
    #[arg(long)]
    wait: bool,
}

#[derive(clap::Args)]
struct Note {
    /// The name of the cluster.
    name: String,
    /// The reason, shown with jobs that wait because of it.
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
}

fn key_value(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE, such as prefer=true")?;
    let value = serde_saphyr::from_str(value).unwrap_or_else(|_| Value::from(value));
    Ok((key.trim().to_owned(), value))
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let client = &context.client;
    let answer = match &args.verb {
        None => return args.watch.run(async || list(context).await).await,
        Some(Verb::Show(args)) => return show::run(args, context).await,
        Some(Verb::Update(update)) => {
            client.patch(&["v1", "clusters", &update.name], &update.request()?).await?
        }
        Some(Verb::Check(args)) => return check::run(args, context).await,
        Some(Verb::Remove { name, force }) => return remove(name, *force, context).await,
        Some(Verb::Add(add)) => client.post(&["v1", "clusters"], &add.request()).await?,
        Some(Verb::Cordon(note)) => {
            client.post_surely(&["v1", "clusters", &note.name, "cordon"], &note.request()).await?
        }
        Some(Verb::Drain(Drain { note, wait })) => {
            let path = ["v1", "clusters", &note.name, "drain"];
            let drained = client.post_surely(&path, &note.request()).await?;
            if *wait { until_empty(drained, context).await? } else { drained }
        }
        Some(Verb::Uncordon { name }) => {
            client.post_surely(&["v1", "clusters", name, "uncordon"], &Value::Null).await?
        }
    };
    let Answer { value: cluster, raw }: Answer<Cluster> = answer;
    let (name, live) = (&cluster.name, words::count(cluster.live, "job"));
    let words = match &args.verb {
        Some(Verb::Cordon(_)) => format!("{name} accepts no new jobs; {live} on it"),
        Some(Verb::Drain(Drain { wait: true, .. })) => format!("{name} is drained: no job is left on it"),
        Some(Verb::Drain(_)) => format!("{name} is draining; {live} on it"),
        Some(Verb::Uncordon { .. }) => format!("{name} accepts jobs again"),
        Some(Verb::Update(_)) => format!("{name} is changed"),
        _ => format!("{name} is registered; see it with `ray-multicluster clusters check {name}`"),
    };
    if context.out.is_json() {
        context.out.json(&raw)
    } else {
        context.out.line(words)
    }
    Ok(())
}

/// The cluster once no job is left on it, however long that takes.
async fn until_empty(mut drained: Answer<Cluster>, context: &Context) -> Result<Answer<Cluster>, Failure> {
    let mut told = None;
    while drained.value.live > 0 {
        let Cluster { name, live, .. } = &drained.value;
        if told != Some(*live) {
            eprintln!("{name} is draining; {} on it", words::count(*live, "job"));
            told = Some(*live);
        }
        sleep(LOOK).await;
        let name = name.clone();
        drained = match context.client.get::<Cluster>(&["v1", "clusters", &name], &[]).await {
            // The control plane restarts, or has a new leader.
            Err(failure) if failure.passes => continue,
            answer => answer?,
        };
        if !drained.value.draining {
            let message = format!("{name} is no longer being drained");
            return Err(Failure::new(Exit::Refused, message)
                .hint("somebody uncordoned or cordoned it meanwhile; see ray-multicluster events"));
        }
    }
    Ok(drained)
}

impl Update {
    fn request(&self) -> Result<Map<String, Value>, Failure> {
        let mut keys: Map<String, Value> = self.set.iter().cloned().collect();
        if !self.tag.is_empty() {
            keys.insert("tags".to_owned(), Value::from(self.tag.clone()));
        }
        keys.extend(self.weight.map(|weight| ("weight".to_owned(), Value::from(weight))));
        if keys.is_empty() {
            return Err(Failure::new(Exit::BadInput, "there is nothing to change")
                .hint("name what changes: --weight 2, --tag gpu, --set prefer=true"));
        }
        Ok(keys)
    }
}

impl Note {
    fn request(&self) -> NoteRequest {
        NoteRequest { note: self.note.clone() }
    }
}

impl Add {
    fn request(&self) -> ClusterRequest {
        let mut more: Map<String, Value> = self.set.iter().cloned().collect();
        if !self.tag.is_empty() {
            more.insert("tags".to_owned(), Value::from(self.tag.clone()));
        }
        more.extend(self.weight.map(|weight| ("weight".to_owned(), Value::from(weight))));
        ClusterRequest {
            name: Some(self.name.clone()),
            head_address: self.head_address.clone(),
            dashboard: self.dashboard.clone(),
            more,
        }
    }
}

async fn remove(name: &str, force: bool, context: &Context) -> Result<(), Failure> {
    let query = [("force", force.to_string())];
    let answer = context.client.delete::<Removed>(&["v1", "clusters", name], &query).await?;
    let Removed { removed, live, .. } = answer.value;
    if context.out.is_json() {
        context.out.json(&answer.raw);
    } else if removed {
        context.out.line(format!("{name} is removed"));
    } else {
        context.out.line(format!(
            "{name} accepts no new jobs and will be removed once it is empty; {live} on it now"
        ));
    }
    Ok(())
}

async fn list(context: &Context) -> Result<(), Failure> {
    let out = &context.out;
    let answer = context.client.get::<ClusterList>(&["v1", "clusters"], &[]).await?;
    if out.is_json() {
        out.json(&answer.raw);
        return Ok(());
    }
    if answer.value.items.is_empty() {
        eprintln!("no clusters yet: add some to cluster.yaml, or use `ray-multicluster clusters add`");
        return Ok(());
    }
    let clusters = &answer.value.items;
    out.table(&if out.is_wide() {
        wide(clusters)
    } else {
        table(clusters, "DASHBOARD", |one| one.dashboard.clone())
    });
    Ok(())
}

/// One row for each, with one extra column for the caller.
fn table(clusters: &[Cluster], column: &str, own: impl Fn(&Cluster) -> String) -> Table {
    let mut table = Table::new(&["CLUSTER", "HEALTH", "RAY", "#NODES", "#LIVE", column, "~HAS"]);
    for cluster in clusters {
        let (condition, tone) = words::condition(cluster);
        let unknown = || "–".to_owned();
        table.row(vec![
            cluster.name.as_str().into(),
            Cell::new(condition).tone(tone),
            ray(cluster).into(),
            cluster.nodes.map_or_else(unknown, |nodes| nodes.to_string()).into(),
            cluster.live.to_string().into(),
            own(cluster).into(),
            has(cluster).into(),
        ]);
    }
    table
}

/// With more of what is set, for `-o wide`.
fn wide(clusters: &[Cluster]) -> Table {
    let mut table = Table::new(&[
        "CLUSTER",
        "HEALTH",
        "RAY",
        "PYTHON",
        "#NODES",
        "#LIVE",
        "#WEIGHT",
        "PREFER",
        "TAGS",
        "HEAD",
        "DASHBOARD",
        "SOURCE",
        "~FREE",
    ]);
    for cluster in clusters {
        let (condition, tone) = words::condition(cluster);
        let unknown = || "–".to_owned();
        table.row(vec![
            cluster.name.as_str().into(),
            Cell::new(condition).tone(tone),
            ray(cluster).into(),
            cluster.python_version.clone().unwrap_or_else(unknown).into(),
            cluster.nodes.map_or_else(unknown, |nodes| nodes.to_string()).into(),
            cluster.live.to_string().into(),
            cluster.weight.to_string().into(),
            if cluster.prefer { "yes" } else { "no" }.into(),
            if cluster.tags.is_empty() { unknown() } else { cluster.tags.join("\n") }.into(),
            cluster.head_address.as_str().into(),
            cluster.dashboard.as_str().into(),
            source(cluster.source).into(),
            cluster.free.as_ref().map_or_else(unknown, words::resources).into(),
        ]);
    }
    table
}

/// Who registered it.
fn source(source: Source) -> &'static str {
    match source {
        Source::File => "file",
        Source::Api => "API",
    }
}

/// Its Ray version and platform.
fn ray(cluster: &Cluster) -> String {
    let version = cluster.ray_version.as_deref().unwrap_or("–");
    [Some(version), cluster.os.as_deref(), cluster.arch.as_deref()]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("\n")
}

/// Its total resources, and the part that is taken without being in use.
fn has(cluster: &Cluster) -> String {
    let mut lines = vec![cluster.total.as_ref().map_or_else(|| "–".to_owned(), words::resources)];
    for (amounts, word) in [(&cluster.claimed, "claimed"), (&cluster.promised, "promised")] {
        if !amounts.is_empty() {
            lines.push(format!("{} {word}", words::resources(amounts)));
        }
    }
    lines.extend(words::busy(cluster));
    lines.join("\n")
}
