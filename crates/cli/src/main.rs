//! The `ray-multicluster` command.

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// One front door to many Ray clusters.
#[derive(Parser)]
#[command(name = "ray-multicluster", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the control plane.
    Serve(commands::serve::Args),
    /// Ray clusters on this machine, to try things on.
    Sandbox(commands::sandbox::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Serve(args) => commands::serve::run(args),
        Command::Sandbox(args) => commands::sandbox::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
