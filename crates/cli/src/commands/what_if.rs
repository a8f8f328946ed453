//! `ray-multicluster what-if`: a dry run of `submit`.

use multicluster_api::WhatIf;
use multicluster_types::say;

use super::{
    Context,
    submit::{job::JobArgs, runtime_env},
    why::verdicts,
};
use crate::{
    exit::{Exit, Failure},
    output::{Tone, words},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    job: JobArgs,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let out = &context.out;
    let mut request = args.job.request()?;
    if request.entrypoint.is_empty() {
        // The placement does not depend on the entrypoint.
        request.entrypoint = "what-if".to_owned();
    }
    runtime_env::leave_out_packages(&mut request);
    let answer = context.client.post_surely::<WhatIf>(&["v1", "what-if"], &request).await?;
    let WhatIf { chosen, refused, notices, clusters } = &answer.value;
    if out.is_json() {
        out.json(&answer.raw);
    } else if refused.is_none() {
        match chosen {
            Some(cluster) => {
                let cluster = out.paint(cluster, Tone::Good);
                out.line(say!(out.lang, "it would go to {cluster} now", "现在会派发到 {cluster}"));
            }
            None => out.line(out.paint(out.lang.pick("it would be queued", "需要排队"), Tone::Busy)),
        }
        for notice in notices {
            out.line(words::first_line(notice, 500));
        }
        out.line("");
        out.table(&verdicts(clusters, out.lang));
    }
    match refused {
        Some(why) => {
            let (message, hint) =
                why.split_once("\n  hint: ").unwrap_or((why, "ask for less, or change the pool"));
            Err(Failure::new(Exit::Refused, format!("it would be refused: {message}")).hint(hint))
        }
        None => Ok(()),
    }
}
