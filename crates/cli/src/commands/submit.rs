//! `ray-multicluster submit`: like `ray job submit`, with options for placement.

mod ignores;
pub(crate) mod job;
mod own_folders;
mod package;
pub(crate) mod runtime_env;
mod wait;

use multicluster_api::{Accepted, Duplicate, Job};
use multicluster_types::State;

use super::Context;
use crate::{
    exit::{Exit, Failure},
    output::time,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    job: job::JobArgs,
    /// Return as soon as the job is accepted.
    #[arg(long, conflicts_with_all = ["wait", "follow"])]
    no_wait: bool,
    /// Wait until the job ends, without its log.
    #[arg(long, conflicts_with = "follow")]
    wait: bool,
    /// Wait until the job ends and print its log (default).
    #[arg(long)]
    follow: bool,
    /// Accepted for compatibility with `ray job submit`; has no effect.
    #[arg(long, hide = true)]
    verify: Option<String>,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let out = &context.out;
    let mut request = args.job.request()?;
    if request.entrypoint.is_empty() {
        return Err(Failure::new(Exit::BadInput, "there is nothing to run")
            .hint("write the command after --: ray-multicluster submit -- python train.py"));
    }
    runtime_env::bring_along(&mut request, &context.client).await?;
    let answer = context.client.submit(&request).await?;
    let Accepted { id, duplicate, notices, .. } = &answer.value;
    match duplicate {
        Some(Duplicate::SameContent) => {
            eprintln!(
                "an identical job still waits, so none was added (give a --submission-id to run it once more)"
            );
        }
        Some(Duplicate::SameId) => eprintln!("{}", earlier(id, context).await),
        None => {}
    }
    for notice in notices {
        eprintln!("{id}: {notice}");
    }
    if args.no_wait {
        if out.is_json() {
            out.json(&answer.raw);
        } else {
            out.line(id);
            eprintln!("submitted; see ray-multicluster job {id}, its log: ray-multicluster logs -f {id}");
        }
        return Ok(());
    }
    eprintln!("submitted {id}");
    // A JSON document cannot be mixed with a log.
    wait::until_the_end(id, !args.wait && !out.is_json(), context).await
}

/// What became of a job that was submitted before.
async fn earlier(id: &str, context: &Context) -> String {
    let same = format!("{id} was submitted before: it is the same job");
    let Ok(job) = context.client.get::<Job>(&["v1", "jobs", id], &[]).await else { return same };
    let Job { state, cluster, ended_at: Some(ended), .. } = &job.value else { return same };
    let place = cluster.as_ref().map_or(String::new(), |cluster| format!(" on {cluster}"));
    let (moment, ago) = (time::moment(*ended), time::since(*ended, time::now()));
    let retry = format!(", or use `ray-multicluster retry {id}`");
    let (verb, again) = match state {
        State::Succeeded => ("succeeded", ""),
        State::Stopped => ("was stopped", retry.as_str()),
        _ => ("failed", retry.as_str()),
    };
    format!(
        "{same}. It {verb}{place} at {moment}, {ago} ago, and is not run again\n\
         hint: to run it again, give another --submission-id{again}"
    )
}
