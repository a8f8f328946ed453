//! `ray-multicluster events`: past and new events.

use std::{collections::VecDeque, time::Duration};

use multicluster_api::EventList;
use serde_json::Value;
use tokio::time::timeout;

use super::Context;
use crate::{
    client::{Client, Events},
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
    let (past, skipped) = if args.job.is_empty() {
        past(&context.client, args.after.unwrap_or(0), args.limit).await?
    } else {
        of_jobs(&context.client, &args.job, args.after.unwrap_or(0), args.limit).await?
    };
    if skipped > 0 && !context.out.is_json() {
        eprintln!("{skipped} earlier events are not shown: add --limit");
    }
    past.iter().for_each(|event| show(event, context));
    Ok(())
}

/// The latest stored events, and how many more there are: the control plane sends all of them at once,
/// and then nothing, or new events.
pub(super) async fn past(client: &Client, after: u64, most: usize) -> Result<(Vec<Value>, usize), Failure> {
    let mut events = Events::open(client, &[], Some(after)).await?;
    let now = events.opened_at();
    let mut past = VecDeque::new();
    let mut skipped = 0;
    let mut patience = FIRST;
    while let Ok(event) = timeout(patience, events.next()).await {
        let event = event?;
        if event["at"].as_u64() > Some(now) {
            break;
        }
        past.push_back(event);
        if past.len() > most {
            past.pop_front();
            skipped += 1;
        }
        patience = QUIET;
    }
    Ok((past.into(), skipped))
}

/// The same of these jobs.
pub(super) async fn of_jobs(
    client: &Client,
    jobs: &[String],
    after: u64,
    most: usize,
) -> Result<(Vec<Value>, usize), Failure> {
    let mut past = Vec::new();
    for job in jobs {
        let mut after = after;
        loop {
            let query = [("after", after.to_string()), ("limit", "1000".to_owned())];
            let page = client.get::<EventList>(&["v1", "jobs", job, "events"], &query).await?.value;
            if page.items.is_empty() {
                break;
            }
            past.extend(page.items);
            after = page.last_seq;
        }
    }
    past.sort_by_key(|event| event["seq"].as_u64());
    let skipped = past.len().saturating_sub(most);
    past.drain(..skipped);
    Ok((past, skipped))
}

fn show(event: &Value, context: &Context) {
    if context.out.is_json() {
        context.out.json_line(event);
        return;
    }
    let change = change(event);
    let tone = match change {
        "failed" | "unhealthy" | "breaker_opened" | "unknown" | "refused" => Tone::Bad,
        "succeeded" | "healthy" | "running" | "breaker_closed" | "reloaded" => Tone::Good,
        _ => Tone::Plain,
    };
    context.out.line(told(event, &context.out.paint(change, tone)));
}

/// The event without colours.
pub(super) fn line(event: &Value) -> String {
    told(event, change(event))
}

/// What happened.
fn change(event: &Value) -> &str {
    let field = if event["type"] == "job" { "state" } else { "change" };
    event[field].as_str().unwrap_or_default()
}

fn told(event: &Value, change: &str) -> String {
    let field = |name: &str| event[name].as_str().unwrap_or_default();
    let at = time::clock(event["at"].as_u64().unwrap_or_default());
    let about = match field("type") {
        "job" => field("job"),
        "policy" => field("policy"),
        "config" => "file",
        _ => field("cluster"),
    };
    let is_job = field("type") == "job";
    let whose =
        if is_job && !field("owner").is_empty() { format!(" ({})", field("owner")) } else { String::new() };
    let mut line = format!(
        "{:>6}  {at}  {:<7}  {about}{whose}  {change}",
        event["seq"].as_u64().unwrap_or_default(),
        field("type"),
    );
    if is_job && !field("cluster").is_empty() {
        line += &format!(" on {}", field("cluster"));
        if let Some(attempt) = event["attempt"].as_u64().filter(|attempt| *attempt > 1) {
            line += &format!(", attempt {attempt}");
        }
    }
    // Events about policies name the operator as their owner.
    let by = match field("type") {
        "policy" => field("owner"),
        _ => field("by"),
    };
    if !by.is_empty() && field("message") != format!("by {by}") {
        line += &format!(" by {by}");
    }
    if !field("message").is_empty() {
        line += &format!(": {}", words::first_line(field("message"), 300));
    }
    line
}
