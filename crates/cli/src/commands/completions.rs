//! `ray-multicluster completions`: output for the shell.

use clap_complete::Shell;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The shell. For bash: `source <(ray-multicluster completions bash)`.
    shell: Shell,
}

pub(crate) fn run(args: &Args, command: &mut clap::Command) {
    clap_complete::generate(args.shell, command, "ray-multicluster", &mut std::io::stdout());
}
