//! `ray-multicluster completions`: output for the shell.

use clap_complete::Shell;

use crate::output::Out;

const NAME: &str = "ray-multicluster";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The shell. For bash: `source <(ray-multicluster completions bash)`.
    shell: Shell,
}

pub(crate) fn run(args: &Args, command: &mut clap::Command, out: Out) {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, NAME, &mut script);
    out.text(&mended(args.shell, &String::from_utf8_lossy(&script)));
}

/// The script for bash calls a program with a hyphen in its name by two names, and so completes nothing
/// after the first word: <https://github.com/clap-rs/clap/issues/6421>.
fn mended(shell: Shell, script: &str) -> String {
    match shell {
        Shell::Bash => script.replace(&NAME.replace('-', "__subcmd__"), &NAME.replace('-', "__")),
        _ => script.to_owned(),
    }
}
