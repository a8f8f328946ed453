//! `ray-multicluster stop`.

use super::{
    Context,
    many::{self, Deed, Which},
};
use crate::exit::Failure;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    many::run(Deed::Stop, &args.which, context).await
}
