//! `ray-multicluster advise`: what would have shortened the waits.

use std::time::Duration;

use multicluster_api::{Advice, AdviceLine};
use multicluster_types::say;

use super::Context;
use crate::{exit::Failure, output::words};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How far back: jobs submitted within so many days, 1 to 31.
    #[arg(long, value_name = "DAYS", default_value_t = 14, value_parser = clap::value_parser!(u32).range(1..=31))]
    days: u32,
}

/// Between two questions, in case the answer comes at once.
const PAUSE: Duration = Duration::from_millis(500);

pub(crate) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let out = &context.out;
    let query = [("days", args.days.to_string())];
    let advice = loop {
        let answer = context.client.get::<Advice>(&["v1", "advice"], &query).await?;
        if answer.value.state != "working" {
            break answer;
        }
        let Advice { tried, of, .. } = answer.value;
        eprintln!(
            "{}",
            say!(out.lang, "replaying the history: {tried} of {of}", "正在重放历史：{tried}/{of}")
        );
        tokio::time::sleep(PAUSE).await;
    };
    if out.is_json() {
        out.json(&advice.raw);
        return Ok(());
    }
    let Advice { basis, summary, items, notes, .. } = &advice.value;
    out.line(words::printable(basis));
    out.line(words::printable(summary));
    for item in items {
        out.line("");
        show(item, basis, context);
    }
    for note in notes {
        eprintln!("note: {}", words::printable(note));
    }
    Ok(())
}

fn show(item: &AdviceLine, basis: &str, context: &Context) {
    let out = &context.out;
    out.line(words::printable(&item.text));
    // What all lines have in common is shown once, at the top.
    let sure = item.sure.strip_prefix(basis).unwrap_or(&item.sure).trim_start_matches([',', '，', ' ']);
    if !sure.is_empty() {
        out.line(format!("    {}", words::printable(sure)));
    }
    if let Some(command) = &item.command {
        let command = words::printable(command);
        out.line(say!(out.lang, "    try it: {command}", "    试一试：{command}"));
    }
}
