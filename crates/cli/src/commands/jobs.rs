//! `ray-multicluster jobs`: lists.

use clap::ValueEnum;
use multicluster_api::{Job, Page};
use multicluster_types::{Kind, State};
use serde_json::Value;

use super::{
    Context,
    filter::{Filter, PAGE},
    watch::Watch,
};
use crate::{
    client::Answer,
    exit::Failure,
    output::{Cell, Table, Tone, time, words},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    filter: Filter,
    /// Sort the fetched jobs [default: the latest first].
    #[arg(long, value_name = "FIELD", value_enum)]
    sort: Option<Sort>,
    /// How many jobs to fetch.
    #[arg(short = 'n', long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Continue after an earlier page.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// Fetch all pages.
    #[arg(long, conflicts_with_all = ["limit", "cursor"])]
    all: bool,
    #[command(flatten)]
    watch: Watch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sort {
    Id,
    State,
    Cluster,
    Priority,
    Owner,
    /// The longest in its present state first.
    For,
    /// The longest run first.
    Ran,
    Submitted,
    Ended,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    args.watch.run(async || show(args, context).await).await
}

async fn show(args: &Args, context: &Context) -> Result<(), Failure> {
    let out = &context.out;
    let mut found = fetch(args, context).await?;
    if let Some(field) = args.sort {
        sort(&mut found, field);
    }
    if out.is_json() {
        out.json(&found.raw);
        return Ok(());
    }
    let Page { items, next_cursor } = found.value;
    if items.is_empty() && next_cursor.is_none() {
        out.remark(if args.filter.is_empty() { "no jobs yet" } else { "no matching jobs" });
        return Ok(());
    }
    let now = time::now();
    out.table(&if out.is_wide() { wide(&items, now) } else { table(&items, now) });
    if let Some(cursor) = next_cursor {
        out.remark(&format!("there are more jobs: add --cursor {cursor}, or --all"));
    }
    Ok(())
}

/// One page, or all of them as one.
async fn fetch(args: &Args, context: &Context) -> Result<Answer<Page<Job>>, Failure> {
    let query = args.query();
    let mut found: Answer<Page<Job>> = context.client.get(&["v1", "jobs"], &query).await?;
    while args.all
        && let Some(cursor) = found.value.next_cursor.take()
    {
        let query = [query.as_slice(), &[("cursor", cursor)]].concat();
        let Answer { value, mut raw } = context.client.get::<Page<Job>>(&["v1", "jobs"], &query).await?;
        found.value.items.extend(value.items);
        found.value.next_cursor = value.next_cursor;
        if let (Some(all), Some(more)) = (found.raw["items"].as_array_mut(), raw["items"].as_array_mut()) {
            all.append(more);
        }
        found.raw.as_object_mut().map(|page| page.remove("next_cursor"));
    }
    Ok(found)
}

impl Args {
    fn query(&self) -> Vec<(&'static str, String)> {
        let limit = if self.all { PAGE } else { self.limit };
        let mut query = self.filter.query();
        query.push(("limit", limit.to_string()));
        query.extend(self.cursor.clone().map(|cursor| ("cursor", cursor)));
        query
    }
}

/// Sorts the JSON document as the table.
fn sort(found: &mut Answer<Page<Job>>, field: Sort) {
    let Value::Array(raw) = found.raw["items"].take() else { return };
    let now = time::now();
    let began = |job: &Job| since(job).unwrap_or(u64::MAX);
    let mut both: Vec<_> = found.value.items.drain(..).zip(raw).collect();
    both.sort_by(|(a, _), (b, _)| match field {
        Sort::Id => a.id.cmp(&b.id),
        Sort::State => a.state.cmp(&b.state),
        Sort::Cluster => a.cluster.cmp(&b.cluster),
        Sort::Priority => b.priority.cmp(&a.priority),
        Sort::Owner => a.owner.cmp(&b.owner),
        Sort::For => began(a).cmp(&began(b)),
        Sort::Ran => ran(b, now).cmp(&ran(a, now)),
        Sort::Submitted => b.submitted_at.cmp(&a.submitted_at),
        Sort::Ended => b.ended_at.cmp(&a.ended_at),
    });
    let (items, raw): (Vec<_>, Vec<_>) = both.into_iter().unzip();
    found.value.items = items;
    found.raw["items"] = raw.into();
}

pub(super) fn table(jobs: &[Job], now: u64) -> Table {
    let mut table = Table::new(&["ID", "STATE", "#FOR", "CLUSTER", "#AGE", "~WHAT"]).one_line();
    for job in jobs {
        table.row(vec![
            job.id.as_str().into(),
            Cell::new(job.state.as_str()).tone(Tone::of_state(job.state)),
            in_this_state(job, now).into(),
            place(job).into(),
            time::since(job.submitted_at, now).into(),
            what(job).into(),
        ]);
        table.note(note(job));
    }
    table
}

/// Why it failed, or why it waits.
fn note(job: &Job) -> Option<String> {
    match (job.state, &job.cause) {
        (State::Failed, Some(cause)) => Some(words::failure(cause, job.exit_code)),
        (State::Failed, None) => job.message.clone(),
        (State::Queued, _) => job.waits_for.clone(),
        _ => None,
    }
}

/// With everything that a list has, for `-o wide`.
fn wide(jobs: &[Job], now: u64) -> Table {
    let mut table = Table::new(&[
        "ID",
        "STATE",
        "#FOR",
        "CLUSTER",
        "#AGE",
        "SUBMITTED",
        "KIND",
        "OWNER",
        "#PRIO",
        "#TRIES",
        "#RAN",
        "NEEDS",
        "TAGS",
        "~WHAT",
    ])
    .one_line();
    let dash = || "–".to_owned();
    for job in jobs {
        table.row(vec![
            job.id.as_str().into(),
            Cell::new(job.state.as_str()).tone(Tone::of_state(job.state)),
            in_this_state(job, now).into(),
            place(job).into(),
            time::since(job.submitted_at, now).into(),
            time::moment(job.submitted_at).into(),
            job.kind.as_str().into(),
            job.owner.clone().unwrap_or_else(dash).into(),
            job.priority.to_string().into(),
            job.attempts.to_string().into(),
            words::took(job, now).unwrap_or_else(dash).into(),
            words::resources(&job.demand).into(),
            if job.tags.is_empty() { dash() } else { job.tags.join(",") }.into(),
            what(job).into(),
        ]);
        table.note(note(job));
    }
    table
}

/// How long it has been in its present state.
pub(super) fn in_this_state(job: &Job, now: u64) -> String {
    since(job).map_or("–".to_owned(), |since| time::since(since, now))
}

fn ran(job: &Job, now: u64) -> u64 {
    job.running_at.map_or(0, |from| job.ended_at.unwrap_or(now).saturating_sub(from))
}

/// Since when it has been in its present state.
fn since(job: &Job) -> Option<u64> {
    match job.state {
        State::Queued => job.queued_at,
        State::Dispatching | State::Pending => job.dispatched_at,
        State::Running => job.running_at,
        State::Unknown => job.unreachable_at,
        State::Succeeded | State::Failed | State::Stopped => job.ended_at,
    }
}

/// The cluster where it is, or that it asks for.
pub(super) fn place(job: &Job) -> String {
    match (&job.cluster, &job.preferred_cluster) {
        (Some(cluster), _) => cluster.clone(),
        (None, Some(wanted)) => format!("({wanted})"),
        (None, None) => "–".to_owned(),
    }
}

/// Its entrypoint; that of tasks and actors is unknown.
pub(super) fn what(job: &Job) -> String {
    match (&job.entrypoint, job.kind) {
        (Some(entrypoint), _) => words::first_line(entrypoint, 200),
        (None, Kind::Job) => "–".to_owned(),
        (None, kind) => kind.as_str().to_owned(),
    }
}
