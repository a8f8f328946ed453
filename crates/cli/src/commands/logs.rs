//! `ray-multicluster logs`: the output of a job.

use multicluster_api::{Attempt, Logs, Page};
use serde_json::json;

use super::{Context, ids};
use crate::{
    client::{LogEvent, LogFollower, LogPart},
    exit::Failure,
    output::words,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The id of the job, or the beginning of it.
    id: String,
    /// Follow the log until the job ends, over all attempts. With --lines, begins with the last lines.
    #[arg(short, long)]
    follow: bool,
    /// Only this many of the last lines.
    #[arg(short = 'n', long, value_name = "N")]
    lines: Option<u32>,
    /// Only this attempt [default: the latest; with --follow, all that come].
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// The whole log from its first line, however long [default: the last 1 MiB].
    #[arg(long, conflicts_with = "lines")]
    since_start: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    if args.follow || args.since_start {
        let part = LogPart { attempt: args.attempt, lines: args.lines, once: !args.follow };
        let open = async |id: &str| Ok((id.to_owned(), LogFollower::open(&context.client, id, part).await?));
        let (id, mut log) = ids::read(&args.id, &context.client, open).await?;
        let mut is_empty = true;
        loop {
            let event = log.next().await?;
            is_empty &= !matches!(event, LogEvent::Text { .. });
            if !tell(event, context) {
                break;
            }
        }
        if is_empty && args.lines.is_none() && !context.out.is_json() {
            silent(&id, args.attempt, context).await;
        }
        return Ok(());
    }
    let numbers = [("lines", args.lines), ("attempt", args.attempt)];
    let query: Vec<_> =
        numbers.into_iter().filter_map(|(name, number)| Some((name, number?.to_string()))).collect();
    let read = async |id: &str| context.client.get::<Logs>(&["v1", "jobs", id, "logs"], &query).await;
    let answer = ids::read(&args.id, &context.client, read).await?;
    if context.out.is_json() {
        context.out.json(&answer.raw);
        return Ok(());
    }
    let Logs { id, text, truncated, source, attempt, .. } = &answer.value;
    if *truncated && args.lines.is_none() {
        eprintln!("only the end of the log is shown; --since-start prints all of it");
    }
    if let (None, Some(before)) = (args.attempt, attempt.and_then(|latest| latest.checked_sub(1)))
        && before > 0
    {
        eprintln!("this is attempt {}; --attempt {before} shows the one before", before + 1);
    }
    if source == "copy" {
        eprintln!("its cluster does not answer: this is the control plane's copy of the log");
    }
    if text.is_empty() && args.lines != Some(0) {
        silent(id, args.attempt, context).await;
    }
    context.out.text(text);
    if !text.is_empty() && !text.ends_with('\n') {
        context.out.line("");
    }
    Ok(())
}

/// There is no output: says why, and where to look.
async fn silent(id: &str, attempt: Option<u32>, context: &Context) {
    let attempts = context.client.get::<Page<Attempt>>(&["v1", "jobs", id, "attempts"], &[]).await;
    let attempts = attempts.map(|answer| answer.value.items).unwrap_or_default();
    let shown = attempts.iter().rev().find(|one| attempt.is_none_or(|wanted| wanted == one.attempt));
    match (shown, attempt) {
        (Some(one), _) if one.running_at.is_none() && one.outcome.as_deref().is_some_and(is_failure) => {
            eprintln!("{}", never_started(id, one));
        }
        (Some(Attempt { outcome: None, cluster, .. }), _) => {
            eprintln!("{id} has printed nothing yet on {cluster}");
        }
        (None, Some(number)) => {
            eprintln!("{id} has no attempt {number}: it has {}", words::count(attempts.len(), "attempt"));
        }
        (None, None) => eprintln!("{id} has not run yet; see ray-multicluster why {id}"),
        (Some(_), _) => eprintln!("{id} printed nothing, or its log is lost"),
    }
}

fn is_failure(outcome: &str) -> bool {
    !matches!(outcome, "succeeded" | "stopped")
}

fn never_started(id: &str, attempt: &Attempt) -> String {
    let Attempt { attempt: number, cluster, cause, .. } = attempt;
    let why = cause.as_ref().map(|cause| format!(": {cause}")).unwrap_or_default();
    format!(
        "{id} printed nothing: attempt {number} failed on {cluster} before it started{why}\n\
         the whole message: ray-multicluster job {id}\n\
         on the head of {cluster}: /tmp/ray/session_latest/logs/, files runtime_env_setup-*.log and \
         job-driver-*.log; also in its dashboard under Logs"
    )
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
