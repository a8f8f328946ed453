//! `ray-multicluster stop`.

use multicluster_api::Job;
use serde_json::Value;

use super::Context;
use crate::exit::Failure;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The ids of the jobs.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    each(&args.ids, "stop", context, |job| match (job.state.is_terminal(), &job.cluster) {
        (true, _) => format!("{} is {}", job.id, job.state),
        (false, Some(cluster)) => format!("{} is being stopped on {cluster}", job.id),
        (false, None) => format!("{} is being stopped", job.id),
    })
    .await
}

/// Sends the same request for each job, even after a refusal. Exits with the code of the first
/// refusal, and reports all of them.
pub(super) async fn each(
    ids: &[String],
    verb: &str,
    context: &Context,
    tell: impl Fn(&Job) -> String,
) -> Result<(), Failure> {
    let out = &context.out;
    let mut refused: Option<Failure> = None;
    for id in ids {
        let asked = match verb {
            "stop" => context.client.stop(id).await,
            _ => context.client.post::<Job>(&["v1", "jobs", id, verb], &Value::Null).await,
        };
        match asked {
            Ok(answer) => match (out.is_json(), ids.len()) {
                (true, 1) => out.json(&answer.raw),
                (true, _) => out.json_line(&answer.raw),
                (false, _) => out.line(tell(&answer.value)),
            },
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
