//! `ray-multicluster sandbox`: a pool to try things on, out of one-node Ray clusters on
//! this machine.
//!
//! Each stand-in is one `ray start --head --block` in a session of its own, with its own
//! ports, home and temporary directory, on 127.0.0.1 only. What was started is written
//! down before it runs, so that `down` finds it however `up` ended.
//!
//! - `state`      what was started, and the directory it is written down in
//! - `stand_in`   one Ray cluster: how it is started, and when it is ready
//! - `ports`      blocks of free ports
//! - `processes`  who belongs to a stand-in, and how they are ended
//! - `pool`       `cluster.yaml` for the stand-ins
//! - `projects`   the user's folder below each stand-in's home
//! - `up`, `down`, `status`, and `keep`, which `up` runs for each stand-in

mod down;
mod keep;
mod pool;
mod ports;
mod processes;
mod projects;
mod stand_in;
mod state;
mod status;
mod up;

use std::path::PathBuf;

use anyhow::Context;
use clap::Subcommand;

use crate::output::Format;
use state::Sandbox;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
    /// Where its files are [default: ~/.ray_scheduler/sandbox].
    #[arg(long, value_name = "DIR", global = true, env = "RAY_MULTICLUSTER_SANDBOX_DIR")]
    dir: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Start the stand-ins; those that run already are left alone.
    Up(up::Args),
    /// End them and what runs on them, and remove their temporary directories.
    Down,
    /// Show them.
    Status,
    #[command(hide = true)]
    Keep(keep::Args),
}

pub(crate) fn run(args: Args, output: Format) -> anyhow::Result<()> {
    let sandbox = || Sandbox::at(args.dir.clone());
    match args.command {
        Command::Up(up) => up::run(&sandbox()?, &up, output),
        Command::Down => down::run(&sandbox()?, output),
        Command::Status => status::run(&sandbox()?, output),
        Command::Keep(keep) => keep::run(&keep),
    }
}

fn user_home() -> anyhow::Result<PathBuf> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    home.map(PathBuf::from).context("no HOME in the environment\nhint: say where: --dir DIR")
}
