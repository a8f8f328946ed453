//! `ray-multicluster clusters check`: the present state of a cluster.

use std::time::Duration;

use futures_util::future::join_all;
use multicluster_api::{Cluster, ClusterList, Health};
use multicluster_types::HealthKind;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{Context, table};
use crate::{
    client::{Answer, Client},
    exit::{Exit, Failure},
    output::{time, words},
};

/// A cluster that answers does so within this time.
const PATIENCE: Duration = Duration::from_secs(12);
const PAUSE: Duration = Duration::from_millis(100);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which; all of them if none is named.
    names: Vec<String>,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let (client, out) = (&context.client, &context.out);
    let names = match args.names.as_slice() {
        [] => {
            let all = client.get::<ClusterList>(&["v1", "clusters"], &[]).await?.value.items;
            all.into_iter().map(|cluster| cluster.name).collect()
        }
        names => names.to_vec(),
    };
    let checked = join_all(names.iter().map(|name| fresh(client, name))).await;
    let checked = checked.into_iter().collect::<Result<Vec<_>, _>>()?;
    let silent: Vec<_> =
        checked.iter().filter(|(_, is_fresh)| !is_fresh).map(|(answer, _)| &answer.value).collect();
    if out.is_json() {
        let items: Vec<_> = checked.iter().map(|(answer, _)| &answer.raw).collect();
        out.json(&json!({ "items": items }));
    } else {
        let clusters: Vec<_> = checked.iter().map(|(answer, _)| answer.value.clone()).collect();
        let age = |at: u64| format!("{} ago", time::since(at, time::now()));
        out.table(&table(&clusters, "FACTS", |cluster| cluster.snapshot_at.map_or("none".to_owned(), age)));
    }
    match silent.as_slice() {
        [] => Ok(()),
        silent => {
            let said = silent.iter().map(|cluster| {
                let why = cluster.health.error.as_deref().unwrap_or("no fresh facts in time");
                let why = words::first_line(why, 300);
                match cluster.health.state {
                    HealthKind::Unauthorized => format!("{} is unauthorized: {why}", cluster.name),
                    _ => format!("{} does not answer: {why}", cluster.name),
                }
            });
            Err(Failure::new(Exit::Failed, said.collect::<Vec<_>>().join("\n"))
                .hint("is its head running, and can the control plane reach its dashboard?"))
        }
    }
}

/// The cluster with facts from a poll that was requested now; and whether they arrived.
async fn fresh(client: &Client, name: &str) -> Result<(Answer<Cluster>, bool), Failure> {
    let before = client.post_surely::<Cluster>(&["v1", "clusters", name, "check"], &Value::Null).await?.value;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = client.get::<Cluster>(&["v1", "clusters", name], &[]).await?;
        let Cluster { snapshot_at, health, .. } = &answer.value;
        if *snapshot_at > before.snapshot_at {
            return Ok((answer, true));
        }
        // It has just been found silent, or still is after the time limit.
        let is_silent =
            |health: &Health| matches!(health.state, HealthKind::Unhealthy | HealthKind::Unauthorized);
        let found_silent = is_silent(health) && !is_silent(&before.health);
        if found_silent || Instant::now() >= deadline {
            return Ok((answer, false));
        }
        sleep(PAUSE).await;
    }
}
