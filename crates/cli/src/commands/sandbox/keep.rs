//! What `up` runs for each stand-in: it writes down who it is, then becomes `ray start`.
//!
//! So the record is there before any process of Ray's is, whatever happens to `up`. And the
//! session that everything of the stand-in belongs to bears the number of this process.

use std::{ffi::OsString, os::unix::process::CommandExt, path::PathBuf, process::Command};

use anyhow::Context;

use super::{processes::Process, state};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Where it writes down who it is.
    #[arg(long)]
    record: PathBuf,
    /// What it becomes.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    rustix::process::setsid().context("cannot begin a session")?;
    let me = Process::with(std::process::id()).context("cannot find out when this process began")?;
    state::write(&args.record, &serde_json::to_vec(&me)?)?;
    let (program, arguments) = args.command.split_first().context("no command to become")?;
    // Comes back only if it did not work.
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}
