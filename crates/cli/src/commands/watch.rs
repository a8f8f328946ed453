//! `--watch`, for commands that show how things stand.

use std::time::Duration;

use crate::{exit::Failure, output};

#[derive(clap::Args)]
pub(crate) struct Watch {
    /// Show it again every 2 seconds, or every SECONDS, until Ctrl-C.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "2")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    watch: Option<u64>,
}

impl Watch {
    pub(super) async fn run(&self, show: impl AsyncFn() -> Result<(), Failure>) -> Result<(), Failure> {
        match self.watch {
            None => show().await,
            Some(seconds) => output::again_and_again(Duration::from_secs(seconds), show).await,
        }
    }
}
