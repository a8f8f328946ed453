//! `ray-multicluster job`: everything about one, on one screen.

use std::fmt::Write;

use multicluster_api::{Attempt, Decision, Job, JobDetail};
use multicluster_types::say;

use super::{Context, jobs, why};
use crate::{
    exit::Failure,
    output::{Cell, Out, Table, Tone, time, words},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The id of the job.
    id: String,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let out = &context.out;
    let mut job = context.client.get::<JobDetail>(&["v1", "jobs", &args.id], &[]).await?;
    let decisions = why::latest_decision(&args.id, context).await?;
    if out.is_json() {
        job.raw["decisions"] = decisions.raw["items"].clone();
        out.json(&job.raw);
        return Ok(());
    }
    let now = time::now();
    let JobDetail { job, runtime_env, history, dashboard_url, why, .. } = &job.value;
    out.text(&facts(job, out, now));
    if let Some(url) = dashboard_url {
        out.text(&fact("in Ray", url));
    }
    if !runtime_env.is_empty() {
        let shown = serde_json::to_string(runtime_env).expect("it came as JSON");
        out.text(&fact("runtime_env", &shown));
    }
    if !history.is_empty() {
        out.line(format!("\n{}", out.paint("Attempts", Tone::Strong)));
        out.table(&attempts(history, now));
    }
    if let Some(why) = why.as_ref().filter(|why| !why.clusters.is_empty()) {
        out.line(format!("\n{}", out.paint(out.lang.pick("Why it waits", "为何等待"), Tone::Strong)));
        out.line(words::first_line(&why.summary, 500));
        out.table(&why::verdicts(&why.clusters, out.lang));
    }
    if let Some(Decision { cluster, attempt, clusters, .. }) = decisions.value.items.first() {
        let heading =
            say!(out.lang, "Why {cluster} for attempt {attempt}", "第 {attempt} 次尝试为何选择 {cluster}");
        out.line(format!("\n{}", out.paint(&heading, Tone::Strong)));
        out.table(&why::verdicts(clusters, out.lang));
    }
    Ok(())
}

fn facts(job: &Job, out: &Out, now: u64) -> String {
    let mut text = String::new();
    let mut say = |name: &str, value: &str| text += &fact(name, value);
    say("id", &job.id);
    let state = out.paint(job.state.as_str(), Tone::of_state(job.state));
    let stopping = if job.stopping { ", being stopped" } else { "" };
    say("state", &format!("{state} for {}{stopping}", jobs::in_this_state(job, now)));
    if let Some(cause) = &job.cause {
        say("cause", &words::failure(cause, job.exit_code));
    }
    if let Some(message) = job.message.as_deref().and_then(|message| beside(message, job.cause.as_deref())) {
        say("message", &words::printable(message));
    }
    say("what", &jobs::what(job));
    say("cluster", &jobs::place(job));
    if let Some(wanted) = &job.preferred_cluster {
        say("wanted on", &format!("{wanted}{}", if job.required { " only" } else { "" }));
    }
    say("needs", &words::resources(&job.demand));
    if let Some(reserves) = &job.reserves {
        say("reserves", &words::resources(reserves));
    }
    if !job.tags.is_empty() {
        say("tags", &job.tags.join(", "));
    }
    say("priority", &job.priority.to_string());
    say("retries", &retries(job));
    if let Some(stops) = stops(job) {
        say("stops", &stops);
    }
    if let Some(parent) = &job.parent_job {
        say("parent", parent);
    }
    say(
        "submitted",
        &format!("{}, {} ago", time::moment(job.submitted_at), time::since(job.submitted_at, now)),
    );
    if let Some(from) = job.running_at {
        let ran = words::took(job, now).unwrap_or_default();
        say("running", &format!("from {}, {ran} long", time::moment(from)));
    }
    if let Some(ended) = job.ended_at {
        say("ended", &time::moment(ended));
    }
    for (key, value) in &job.metadata {
        say("metadata", &words::printable(&format!("{key}={value}")));
    }
    text
}

/// What the message says beside the cause. Ray's has the end of the log, which `logs` shows in full.
fn beside<'m>(message: &'m str, cause: Option<&str>) -> Option<&'m str> {
    let is_entrypoint = message.starts_with("Job entrypoint command failed with exit code ");
    (!is_entrypoint && Some(message.trim()) != cause).then_some(message)
}

fn stops(job: &Job) -> Option<String> {
    let grace = job.stop_grace.map(|seconds| format!("within {seconds} s"));
    let preemptible = job.preemptible.then(|| "to make room for other work".to_owned());
    let parts: Vec<_> = preemptible.into_iter().chain(grace).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn retries(job: &Job) -> String {
    let list = |codes: &[i64]| codes.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    let mut text = format!("{} at most", job.max_retries);
    if !job.retry_on.is_empty() {
        text += &format!(", on exit codes {}", list(&job.retry_on));
    }
    if !job.never_retry_on.is_empty() {
        text += &format!(", never on {}", list(&job.never_retry_on));
    }
    text
}

fn fact(name: &str, value: &str) -> String {
    let mut text = String::new();
    for (nth, line) in value.trim_end().lines().enumerate() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:<11} {line}", if nth == 0 { name } else { "" });
    }
    text
}

/// Each attempt in one row: cluster, start, duration, outcome.
fn attempts(history: &[Attempt], now: u64) -> Table {
    let mut table = Table::new(&["#N", "CLUSTER", "SENT", "#STARTED", "#RAN", "END", "~MESSAGE"]);
    for attempt in history {
        let started = attempt.running_at.map(|at| format!("+{}", time::since(attempt.dispatched_at, at)));
        let ran = attempt.running_at.map(|from| time::since(from, attempt.ended_at.unwrap_or(now)));
        let outcome = attempt.outcome.as_deref().unwrap_or("live");
        let tone = match outcome {
            "succeeded" | "live" => Tone::Good,
            "stopped" => Tone::Dim,
            _ => Tone::Bad,
        };
        table.row(vec![
            attempt.attempt.to_string().into(),
            attempt.cluster.as_str().into(),
            time::moment(attempt.dispatched_at).into(),
            started.unwrap_or_else(|| "–".to_owned()).into(),
            ran.unwrap_or_else(|| "–".to_owned()).into(),
            Cell::new(outcome.replace('_', " ")).tone(tone),
            words::gist(attempt.message.as_deref().unwrap_or_default(), 300).into(),
        ]);
    }
    table
}
