//! `ray-multicluster logs`: the output of a job.

use multicluster_api::Logs;
use serde_json::json;

use super::Context;
use crate::{
    client::{LogEvent, LogFollower},
    exit::Failure,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The id of the job.
    id: String,
    /// Follow the log until the job ends, over all attempts.
    #[arg(short, long, conflicts_with_all = ["lines", "attempt"])]
    follow: bool,
    /// Only this many of the last lines.
    #[arg(short = 'n', long, value_name = "N")]
    lines: Option<u32>,
    /// The attempt [default: the latest].
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    if args.follow {
        let mut log = LogFollower::open(&context.client, &args.id).await?;
        while tell(log.next().await?, context) {}
        return Ok(());
    }
    let numbers = [("lines", args.lines), ("attempt", args.attempt)];
    let query: Vec<_> =
        numbers.into_iter().filter_map(|(name, number)| Some((name, number?.to_string()))).collect();
    let answer = context.client.get::<Logs>(&["v1", "jobs", &args.id, "logs"], &query).await?;
    if context.out.is_json() {
        context.out.json(&answer.raw);
        return Ok(());
    }
    let Logs { id, text, truncated, source, .. } = &answer.value;
    if *truncated && args.lines.is_none() {
        eprintln!("only the end of the log is shown; --follow prints all that there is");
    }
    if source == "copy" {
        eprintln!("its cluster does not answer: this is the control plane's copy of the log");
    }
    if source == "none" {
        eprintln!("{id} has printed nothing yet, or its log is lost");
    }
    context.out.text(text);
    if !text.is_empty() && !text.ends_with('\n') {
        context.out.line("");
    }
    Ok(())
}

/// Prints an event. True as long as there is more.
pub(super) fn tell(event: LogEvent, context: &Context) -> bool {
    let out = &context.out;
    match event {
        LogEvent::End => return false,
        LogEvent::Text { attempt, cluster, text } if out.is_json() => {
            out.json_line(&json!({ "type": "log", "attempt": attempt, "cluster": cluster, "text": text }));
        }
        LogEvent::Note(text) if out.is_json() => out.json_line(&json!({ "type": "note", "text": text })),
        LogEvent::Text { text, .. } => out.text(&text),
        LogEvent::Note(text) => eprintln!("{}", text.trim_end()),
    }
    true
}
