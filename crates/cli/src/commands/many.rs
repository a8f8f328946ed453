//! `stop`, `retry` and `delete`: the same command for some jobs by id, or for all that match a filter.
//!
//! Jobs by id are named, so nothing is asked. Everything else is shown and counted first, and needs a yes.

use std::io::{IsTerminal, Write, stderr, stdin};

use futures_util::{StreamExt, stream};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use multicluster_api::Job;
use multicluster_types::State;
use serde_json::{Value, json};

use super::{
    Context,
    filter::{self, Filter, PAGE},
    ids, jobs,
};
use crate::{
    client::Client,
    exit::{Exit, Failure},
    output::{time, words},
};

/// How many of the jobs are shown before the question.
const SHOWN: usize = 5;
/// How many refusals are reported one by one.
const TOLD: usize = 10;
/// How many requests are sent at once.
const AT_ONCE: usize = 8;

/// Which jobs.
#[derive(clap::Args)]
pub(crate) struct Which {
    /// The ids of the jobs, or the beginnings of their ids.
    #[arg(value_name = "ID", conflicts_with = "filter")]
    ids: Vec<String>,
    #[command(flatten)]
    filter: Filter,
    /// Do not ask before many jobs are changed.
    #[arg(short, long)]
    yes: bool,
}

/// What is done to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    Stop,
    Retry,
    Delete,
}

impl Deed {
    fn verb(self) -> &'static str {
        match self {
            Deed::Stop => "stop",
            Deed::Retry => "retry",
            Deed::Delete => "delete",
        }
    }

    /// `3 jobs are` …
    fn done(self) -> &'static str {
        match self {
            Deed::Stop => "stopped",
            Deed::Retry => "retried",
            Deed::Delete => "deleted",
        }
    }

    fn may_be_done_to(self, state: State) -> bool {
        match self {
            Deed::Stop => !state.is_terminal(),
            Deed::Retry => matches!(state, State::Failed | State::Stopped),
            Deed::Delete => state.is_terminal(),
        }
    }

    async fn send(self, id: &str, client: &Client) -> Result<Done, Failure> {
        let answer = match self {
            Deed::Stop => client.stop(id).await?,
            Deed::Retry => client.post(&["v1", "jobs", id, "rerun"], &Value::Null).await?,
            Deed::Delete => {
                client.forget(id).await?;
                return Ok(Done {
                    line: format!("{id} is deleted"),
                    raw: json!({ "id": id, "deleted": true }),
                });
            }
        };
        Ok(Done { line: self.tell(&answer.value), raw: answer.raw })
    }

    fn tell(self, job: &Job) -> String {
        let Job { id, state, cluster, .. } = job;
        match (self, state.is_terminal(), cluster) {
            (Deed::Retry, ..) => format!("{id} is {state} again"),
            (_, true, _) => format!("{id} is {state}"),
            (_, false, Some(cluster)) => format!("{id} is being stopped on {cluster}"),
            (_, false, None) => format!("{id} is being stopped"),
        }
    }
}

/// The outcome for one job.
struct Done {
    line: String,
    raw: Value,
}

pub(super) async fn run(deed: Deed, which: &Which, context: &Context) -> Result<(), Failure> {
    if !which.ids.is_empty() {
        return named(deed, which, context).await;
    }
    let verb = deed.verb();
    if which.filter.is_empty() {
        return Err(Failure::new(Exit::BadInput, format!("which jobs should be {}?", deed.done())).hint(
            format!("name them: ray-multicluster {verb} ID …, or filter: --state STATE, --tag TAG, …"),
        ));
    }
    let found = matching(deed, &which.filter, &context.client).await?;
    let Found { ids, first, others } = &found;
    if *others > 0 {
        eprintln!("{}", left_out(deed, *others));
    }
    if ids.is_empty() {
        eprintln!("no matching jobs to {verb}");
        return Ok(());
    }
    let count = words::count(ids.len(), "job");
    let table = jobs::table(first, time::now()).without_notes().render(context.out.width, false);
    let more = match ids.len().saturating_sub(first.len()) {
        0 => String::new(),
        more => format!("… and {more} more\n"),
    };
    eprint!("{table}{more}");
    if !which.yes && !agreed(&format!("{verb} {count}?"), &format!("{verb} {count}"))? {
        eprintln!("no job was {}", deed.done());
        return Ok(());
    }
    all(deed, ids, context).await
}

/// By their ids, one after the other, even after a refusal. Exits with the code of the first refusal,
/// and reports all of them.
async fn named(deed: Deed, which: &Which, context: &Context) -> Result<(), Failure> {
    let (out, client) = (&context.out, &context.client);
    let mut refused: Option<Failure> = None;
    for typed in &which.ids {
        let outcome = match deed.send(typed, client).await {
            Err(unknown) if unknown.exit == Exit::NotFound => {
                by_beginning(deed, typed, unknown, which.yes, client).await
            }
            outcome => outcome.map(Some),
        };
        match outcome {
            Ok(Some(done)) => match (out.is_json(), which.ids.len()) {
                (true, 1) => out.json(&done.raw),
                (true, _) => out.json_line(&done.raw),
                (false, _) => out.line(done.line),
            },
            Ok(None) => eprintln!("no job was {}", deed.done()),
            Err(failure) => match &mut refused {
                None => refused = Some(failure),
                // A problem that affects all of them is reported once.
                Some(first) if first.message.contains(&failure.message) => {}
                Some(first) => first.message += &format!("\n{}", failure.message),
            },
        }
    }
    refused.map_or(Ok(()), Err)
}

/// There is no job with this id, but with an id that begins so. It may be a mistyped id of a job that
/// is gone: asks. `None`: it was not meant.
async fn by_beginning(
    deed: Deed,
    typed: &str,
    unknown: Failure,
    yes: bool,
    client: &Client,
) -> Result<Option<Done>, Failure> {
    let not_found = unknown.message.clone();
    let id = ids::meant(typed, client, unknown).await?;
    if !yes {
        let asked = agreed(&format!("{} {id}?", deed.verb()), &format!("{} {id}", deed.verb()));
        let asked = asked.map_err(|failure| Failure {
            exit: Exit::NotFound,
            message: format!("{not_found}; {id} begins with it"),
            ..failure
        })?;
        if !asked {
            return Ok(None);
        }
    }
    deed.send(&id, client).await.map(Some)
}

/// All of these jobs.
async fn all(deed: Deed, ids: &[String], context: &Context) -> Result<(), Failure> {
    let out = &context.out;
    let bar = ProgressBar::with_draw_target(Some(ids.len() as u64), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:24} {pos} of {len}").expect("a legal template");
    bar.set_style(style.progress_chars("█▌░"));
    let sent = stream::iter(ids).map(|id| deed.send(id, &context.client)).buffered(AT_ONCE);
    let mut sent = std::pin::pin!(sent);
    let (mut done, mut failures, mut unreported) = (0, Vec::<Failure>::new(), 0);
    while let Some(outcome) = sent.next().await {
        bar.inc(1);
        match outcome {
            Ok(one) => {
                done += 1;
                bar.suspend(|| if out.is_json() { out.json_line(&one.raw) } else { out.line(one.line) });
            }
            // The others would fail in the same way, each after a long wait.
            Err(failure) if failure.exit == Exit::Unreachable => {
                bar.finish_and_clear();
                let so_far = format!("{done} of {} were {} before this", ids.len(), deed.done());
                return Err(Failure { message: format!("{}\n{so_far}", failure.message), ..failure });
            }
            Err(failure) if failures.len() < TOLD => failures.push(failure),
            Err(_) => unreported += 1,
        }
    }
    bar.finish_and_clear();
    let count = words::count(ids.len(), "job");
    eprintln!("{done} of {count} {}", deed.done());
    let Some(first) = failures.first() else { return Ok(()) };
    let mut message =
        format!("{} could not be {}:", words::count(failures.len() + unreported, "job"), deed.done());
    for failure in &failures {
        message += &format!("\n  {}", failure.message);
    }
    if unreported > 0 {
        message += &format!("\n  … and {unreported} more");
    }
    Err(Failure { message, hint: None, ..first.clone() })
}

/// The jobs that match a filter.
struct Found {
    ids: Vec<String>,
    /// Some of them, to be shown.
    first: Vec<Job>,
    /// How many match too, but are in a state in which this cannot be done.
    others: usize,
}

/// Only the ids are kept, of any number of jobs.
async fn matching(deed: Deed, filter: &Filter, client: &Client) -> Result<Found, Failure> {
    let mut query = filter.query();
    query.push(("limit", PAGE.to_string()));
    if filter.state.is_empty() {
        let states = State::ALL.into_iter().filter(|state| deed.may_be_done_to(*state));
        query.push(("state", states.map(State::as_str).collect::<Vec<_>>().join(",")));
    }
    let mut found = Found { ids: Vec::new(), first: Vec::new(), others: 0 };
    filter::pages(client, &query, |page| {
        for job in page.value.items {
            if !deed.may_be_done_to(job.state) {
                found.others += 1;
                continue;
            }
            found.ids.push(job.id.clone());
            if found.first.len() < SHOWN {
                found.first.push(job);
            }
        }
        true
    })
    .await?;
    Ok(found)
}

fn left_out(deed: Deed, others: usize) -> String {
    let is = if others == 1 { "is" } else { "are" };
    let why = match deed {
        Deed::Stop => "ended already",
        Deed::Retry => "neither failed nor stopped",
        Deed::Delete => "not ended",
    };
    format!("{} {is} left out: {why}", words::count(others, "matching job"))
}

/// Asks on a terminal. In a script nobody answers: there, `--yes` is the answer.
fn agreed(question: &str, what: &str) -> Result<bool, Failure> {
    if !stdin().is_terminal() || !stderr().is_terminal() {
        return Err(Failure::new(Exit::BadInput, format!("this would {what}"))
            .hint("add --yes, if that is what you want"));
    }
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    let read = stderr().flush().and_then(|()| stdin().read_line(&mut answer));
    Ok(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes"))
}
