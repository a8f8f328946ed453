//! `ray-multicluster retry`: runs a failed or stopped job again, as another attempt.

use super::{Context, stop::each};
use crate::exit::Failure;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which jobs.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    each(&args.ids, "rerun", context, |job| format!("{} is {} again", job.id, job.state)).await
}
