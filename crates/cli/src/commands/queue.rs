//! `ray-multicluster queue`: queued jobs, the next ones, and why they wait.

use multicluster_api::{Queue, QueueHead, Queues};

use super::{Context, watch::Watch};
use crate::{
    exit::Failure,
    output::{Table, Tone, time, words},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    watch: Watch,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    args.watch.run(async || show(context).await).await
}

async fn show(context: &Context) -> Result<(), Failure> {
    let out = &context.out;
    let answer = context.client.get::<Queues>(&["v1", "queue"], &[]).await?;
    if out.is_json() {
        out.json(&answer.raw);
        return Ok(());
    }
    let waiting: Vec<_> = answer.value.items.iter().filter(|queue| queue.waiting > 0).collect();
    if waiting.is_empty() {
        out.line("nothing is queued");
        return Ok(());
    }
    let now = time::now();
    for (nth, queue) in waiting.into_iter().enumerate() {
        let Queue { name, waiting, limit, heads, more_heads, .. } = queue;
        let heading = format!("{name}: {waiting} queued, limit {limit}");
        out.line(format!("{}{}", if nth > 0 { "\n" } else { "" }, out.paint(&heading, Tone::Strong)));
        out.table(&table(heads, now));
        if *more_heads > 0 {
            out.line(format!("… and {} more", words::count(*more_heads as usize, "shape")));
        }
    }
    Ok(())
}

/// One row for each shape: jobs with the same demand wait for the same reason. The reason is below.
fn table(heads: &[QueueHead], now: u64) -> Table {
    let mut table = Table::new(&["NEXT", "#ALIKE", "#FOR", "#PRIO", "~ASKS FOR"]).one_line();
    for head in heads {
        table.row(vec![
            head.id.as_str().into(),
            head.waiting.to_string().into(),
            time::since(head.queued_at, now).into(),
            head.priority.to_string().into(),
            asks_for(head).into(),
        ]);
        table.note(words::reasons(&head.clusters));
    }
    table
}

/// `2 CPU on mac, linux`.
pub(super) fn asks_for(head: &QueueHead) -> String {
    let mut parts = vec![words::resources(&head.demand)];
    parts.extend(head.preferred_cluster.as_ref().map(|cluster| match head.required {
        true => format!("only {cluster}"),
        false => cluster.clone(),
    }));
    parts.extend(head.tags.iter().cloned());
    parts.join(", ")
}
