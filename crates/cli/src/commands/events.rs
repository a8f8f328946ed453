//! `ray-multicluster events`: past and new events.

use std::time::Duration;

use multicluster_api::EventList;
use serde_json::Value;
use tokio::time::timeout;

use super::Context;
use crate::{
    client::Events,
    exit::Failure,
    output::{Tone, time, words},
};

/// After this long without an event, all past events have arrived.
const QUIET: Duration = Duration::from_millis(500);
/// The first event takes longer: it is read from disk.
const FIRST: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Follow new events; begins now, or after --after.
    #[arg(short, long)]
    follow: bool,
    /// Only events of this job; repeat for several.
    #[arg(long, value_name = "ID")]
    job: Vec<String>,
    /// Only events after this number; 0 begins with the oldest.
    #[arg(long, value_name = "N")]
    after: Option<u64>,
    /// Without --follow: how many of the last events.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50, conflicts_with = "follow")]
    limit: usize,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    if args.follow {
        let mut events = Events::open(&context.client, &args.job, args.after).await?;
        loop {
            show(&events.next().await?, context);
        }
    }
    let mut past =
        if args.job.is_empty() { of_all(args, context).await? } else { of_jobs(args, context).await? };
    let skipped = past.len().saturating_sub(args.limit);
    if skipped > 0 && !context.out.is_json() {
        eprintln!("{skipped} earlier events are not shown: add --limit");
    }
    past.drain(..skipped);
    past.iter().for_each(|event| show(event, context));
    Ok(())
}

/// All stored events: the control plane sends them at once, and then nothing, or new events.
async fn of_all(args: &Args, context: &Context) -> Result<Vec<Value>, Failure> {
    let mut events = Events::open(&context.client, &[], Some(args.after.unwrap_or(0))).await?;
    let now = events.opened_at();
    let mut past = Vec::new();
    let mut patience = FIRST;
    while let Ok(event) = timeout(patience, events.next()).await {
        let event = event?;
        if event["at"].as_u64() > Some(now) {
            break;
        }
        past.push(event);
        patience = QUIET;
    }
    Ok(past)
}

async fn of_jobs(args: &Args, context: &Context) -> Result<Vec<Value>, Failure> {
    let mut past = Vec::new();
    for job in &args.job {
        let mut after = args.after.unwrap_or(0);
        loop {
            let query = [("after", after.to_string()), ("limit", "1000".to_owned())];
            let page = context.client.get::<EventList>(&["v1", "jobs", job, "events"], &query).await?.value;
            if page.items.is_empty() {
                break;
            }
            past.extend(page.items);
            after = page.last_seq;
        }
    }
    past.sort_by_key(|event| event["seq"].as_u64());
    Ok(past)
}

fn show(event: &Value, context: &Context) {
    if context.out.is_json() {
        context.out.json_line(event);
        return;
    }
    let field = |name: &str| event[name].as_str().unwrap_or_default();
    let at = time::clock(event["at"].as_u64().unwrap_or_default());
    let (about, change) = match field("type") {
        "job" => (field("job"), field("state")),
        "policy" => (field("policy"), field("change")),
        _ => (field("cluster"), field("change")),
    };
    let tone = match change {
        "failed" | "unhealthy" | "breaker_opened" | "unknown" => Tone::Bad,
        "succeeded" | "healthy" | "running" | "breaker_closed" => Tone::Good,
        _ => Tone::Plain,
    };
    let mut line = format!(
        "{:>6}  {at}  {:<7}  {about}  {}",
        event["seq"].as_u64().unwrap_or_default(),
        field("type"),
        context.out.paint(change, tone)
    );
    if field("type") == "job" && !field("cluster").is_empty() {
        line += &format!(" on {}", field("cluster"));
        if let Some(attempt) = event["attempt"].as_u64().filter(|attempt| *attempt > 1) {
            line += &format!(", attempt {attempt}");
        }
    }
    if !field("owner").is_empty() {
        line += &format!(" by {}", field("owner"));
    }
    if !field("message").is_empty() {
        line += &format!(": {}", words::first_line(field("message"), 300));
    }
    context.out.line(line);
}
