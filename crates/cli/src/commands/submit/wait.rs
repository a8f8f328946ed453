//! Waiting for the end of a job, with or without its log.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use multicluster_api::{Explanation, Job};
use multicluster_types::State;
use tokio::{signal, time::sleep};

use super::super::{Context, logs};
use crate::{
    client::LogFollower,
    exit::{Exit, Failure},
    output::words,
};

/// How often the text beside the spinner is updated.
const PAUSE: Duration = Duration::from_secs(2);

/// Succeeds only if the job did.
pub(super) async fn until_the_end(id: &str, with_log: bool, context: &Context) -> Result<(), Failure> {
    let job = tokio::select! {
        job = ended(id, with_log, context) => job?,
        _ = signal::ctrl_c() => {
            let message = format!("no longer waiting; {id} goes on");
            return Err(Failure::new(Exit::Interrupted, message).hint(format!(
                "its log: ray-multicluster logs -f {id}; to stop it: ray-multicluster stop {id}"
            )));
        }
    };
    let place = job.cluster.as_ref().map_or(String::new(), |cluster| format!(" on {cluster}"));
    match job.state {
        State::Succeeded => {
            eprintln!("{id} succeeded{place}");
            Ok(())
        }
        state => {
            let why = because(&job, with_log).map_or(String::new(), |why| format!(": {why}"));
            Err(Failure::new(Exit::Failed, format!("{id} {state}{place}{why}")).hint(format!(
                "its log: ray-multicluster logs {id}; run it again: ray-multicluster retry {id}"
            )))
        }
    }
}

/// Why it failed, then the message. Ray puts the end of the log there, below a line of its own: if the log
/// was printed, that part is left out.
fn because(job: &Job, with_log: bool) -> Option<String> {
    let message = words::printable(job.message.as_deref()?.trim_end());
    let Some(cause) = &job.cause else { return Some(message) };
    let mut why = words::failure(cause, job.exit_code);
    let below = match message.split_once(", last available logs") {
        Some((_, log)) => log.split_once('\n').map_or("", |(_, log)| log).trim_end(),
        None => message.as_str(),
    };
    let is_log = below.len() < message.len();
    if !below.is_empty() && below != cause && !(is_log && with_log) {
        why = format!("{why}\n{below}");
    }
    Some(why)
}

async fn ended(id: &str, with_log: bool, context: &Context) -> Result<Job, Failure> {
    let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    spinner
        .set_style(ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}").expect("a legal template"));
    spinner.enable_steady_tick(Duration::from_millis(120));
    let telling = tell_why(id, &spinner, context);
    let waiting = async {
        if with_log {
            let mut log = LogFollower::open(&context.client, id).await?;
            loop {
                let event = log.next().await?;
                // From its first line on, the log shows the progress.
                spinner.finish_and_clear();
                if !logs::tell(event, context) {
                    break;
                }
            }
        }
        context.client.wait_for(id).await
    };
    let answer = tokio::select! {
        answer = waiting => answer,
        never = telling => match never {},
    };
    spinner.finish_and_clear();
    let answer = answer?;
    if context.out.is_json() {
        context.out.json(&answer.raw);
    }
    Ok(answer.value)
}

/// Shows beside the spinner why the job waits.
async fn tell_why(id: &str, spinner: &ProgressBar, context: &Context) -> std::convert::Infallible {
    loop {
        if !spinner.is_hidden() && !spinner.is_finished() {
            let path = ["v1", "jobs", id, "explain"];
            if let Ok(why) = context.client.get::<Explanation>(&path, &[]).await {
                let Explanation { state, summary, clusters, .. } = &why.value;
                spinner.set_message(match words::reasons(clusters).join("; ") {
                    none if none.is_empty() => words::first_line(summary, 300),
                    reasons => format!("{}: {reasons}", state.describe(context.out.lang)),
                });
            }
        }
        sleep(PAUSE).await;
    }
}
