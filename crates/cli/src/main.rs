//! The `ray-multicluster` command.

mod address;
mod client;
mod commands;
mod exit;
mod output;
#[cfg(test)]
mod reference;

use std::{io::IsTerminal, process::ExitCode};

use clap::{CommandFactory, Parser, Subcommand};
use multicluster_types::{Lang, env_vars};

use address::Address;
use client::Client;
use commands::Context;
use exit::Failure;
use output::{Colours, Format, Out, Tone, words};

/// One front door to many Ray clusters.
#[derive(Parser)]
#[command(name = "ray-multicluster", version, after_help = exit::help())]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    everywhere: Everywhere,
}

// Options of every command.
#[derive(clap::Args)]
#[command(next_help_heading = "Everywhere")]
struct Everywhere {
    /// The control plane to use, http://host:port; several addresses with commas, if it has
    /// replicas [default: your own for this cluster.yaml, else http://127.0.0.1:8700].
    #[arg(long, value_name = "URL", global = true, env = env_vars::ADDRESS, hide_env_values = true)]
    address: Option<String>,
    /// The output format.
    #[arg(short, long, value_name = "FORMAT", global = true, value_enum, default_value_t)]
    output: Format,
    /// Whether to use colours; NO_COLOR turns them off too.
    #[arg(long, value_name = "WHEN", global = true, value_enum, default_value_t)]
    color: Colours,
    /// The language of explanations, en or zh [default: from LC_ALL, LC_MESSAGES or LANG].
    #[arg(long, value_name = "LANG", global = true, value_parser = output::lang)]
    lang: Option<Lang>,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Guest(Guest),
    /// Check a configuration.
    Config(commands::config::Args),
    /// Offer the control plane to an AI assistant, as tools of the Model Context Protocol on stdio.
    Mcp(commands::mcp::Args),
    /// Run the control plane.
    Serve(commands::serve::Args),
    /// Create, list and revoke the tokens of a control plane.
    Token(commands::token::Args),
    /// Create and rotate the keys that encrypt what a control plane stores.
    Key(commands::key::Args),
    /// Move a control plane between SQLite and PostgreSQL.
    Store(commands::store::Args),
    /// Run Ray clusters on this machine, to try things out.
    Sandbox(commands::sandbox::Args),
    /// Print shell completions.
    Completions(commands::completions::Args),
}

// Commands that need a control plane.
#[derive(Subcommand)]
enum Guest {
    /// Show the pool at a glance: clusters, utilization, queues.
    Status(commands::status::Args),
    /// Show the pool live, full screen.
    Top,
    /// Submit a job, and follow it.
    Submit(Box<commands::submit::Args>),
    /// List jobs, the latest first.
    Jobs(commands::jobs::Args),
    /// Show everything about a job.
    Job(commands::job::Args),
    /// Print the log of a job.
    Logs(commands::logs::Args),
    /// Stop jobs.
    Stop(commands::stop::Args),
    /// Retry failed or stopped jobs: another attempt, under the same id.
    #[command(visible_alias = "rerun")]
    Retry(commands::retry::Args),
    /// Delete ended jobs; their ids may be used again.
    Delete(commands::delete::Args),
    /// Explain why a job is where it is, cluster by cluster.
    Why(commands::why::Args),
    /// Show where a job would run now, without submitting it.
    WhatIf(Box<commands::what_if::Args>),
    /// Show the queues: what is next, and why it waits.
    Queue(commands::queue::Args),
    /// List the owners that share the pool, and whose turn is next.
    Owners,
    /// List the clusters, or change them.
    Clusters(commands::clusters::Args),
    /// Show the settings in force, and where each comes from.
    Settings(commands::settings::Args),
    /// List the policies in force, try one, register or remove one.
    Policies(commands::policies::Args),
    /// Show which replica of the control plane leads, and which others there are.
    Plane,
    /// Print past events, or follow new ones.
    Events(commands::events::Args),
    /// Replay past jobs with other settings.
    Replay(commands::replay::Args),
    /// Say what would have shortened the waits of the last days.
    Advise(commands::advise::Args),
    /// Write an archive for a bug report: versions, configuration, decisions, metrics and log, without
    /// secrets.
    DebugDump(commands::debug_dump::Args),
}

fn main() -> ExitCode {
    let Cli { command, everywhere } = Cli::parse();
    let color = everywhere.color;
    let Err(error) = run(command, everywhere) else { return ExitCode::SUCCESS };
    let failure = Failure::of(&error);
    let colours = color.are_wanted(std::io::stderr().is_terminal());
    let label = |text: &str, tone: Tone| if colours { tone.paint(text) } else { text.to_owned() };
    eprintln!("{} {}", label("error:", Tone::Bad), words::printable(&failure.message));
    if let Some(hint) = &failure.hint {
        eprintln!("{} {}", label("hint:", Tone::Strong), words::printable(hint));
    }
    failure.exit.into()
}

fn run(command: Command, everywhere: Everywhere) -> anyhow::Result<()> {
    let lang = everywhere.lang.unwrap_or_else(output::lang_of_the_locale);
    let out = Out::new(everywhere.output, everywhere.color, lang);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build();
    match command {
        Command::Guest(guest) => {
            let context = Context { client: connect(everywhere.address.as_deref(), lang)?, out };
            runtime()?.block_on(ask(guest, &context))
        }
        Command::Mcp(args) => {
            let connect = Box::new(move || connect(everywhere.address.as_deref(), lang));
            runtime()?.block_on(commands::mcp::run(&args, connect))
        }
        Command::Config(args) => runtime()?.block_on(commands::config::run(args, out)),
        Command::Serve(args) => commands::serve::run(args),
        Command::Token(args) => commands::token::run(args, out),
        Command::Key(args) => commands::key::run(args, out),
        Command::Store(args) => commands::store::run(args, out),
        Command::Sandbox(args) => commands::sandbox::run(args, out.format),
        Command::Completions(args) => {
            commands::completions::run(&args, &mut Cli::command(), out);
            Ok(())
        }
    }
}

/// A client of the control plane at this address, or of the one that is found.
fn connect(address: Option<&str>, lang: Lang) -> Result<Client, Failure> {
    let given = address.filter(|address| !address.is_empty());
    Client::new(given.map_or_else(Address::find, Address::given), lang)
}

async fn ask(guest: Guest, context: &Context) -> anyhow::Result<()> {
    match guest {
        Guest::Status(args) => commands::status::run(&args, context).await?,
        Guest::Top => commands::top::run(context).await?,
        Guest::Submit(args) => commands::submit::run(&args, context).await?,
        Guest::Jobs(args) => commands::jobs::run(&args, context).await?,
        Guest::Job(args) => commands::job::run(&args, context).await?,
        Guest::Logs(args) => commands::logs::run(&args, context).await?,
        Guest::Stop(args) => commands::stop::run(&args, context).await?,
        Guest::Retry(args) => commands::retry::run(&args, context).await?,
        Guest::Delete(args) => commands::delete::run(&args, context).await?,
        Guest::Why(args) => commands::why::run(&args, context).await?,
        Guest::WhatIf(args) => commands::what_if::run(&args, context).await?,
        Guest::Queue(args) => commands::queue::run(&args, context).await?,
        Guest::Owners => commands::owners::run(context).await?,
        Guest::Clusters(args) => commands::clusters::run(&args, context).await?,
        Guest::Settings(args) => commands::settings::run(&args, context).await?,
        Guest::Policies(args) => commands::policies::run(&args, context).await?,
        Guest::Plane => commands::plane::run(context).await?,
        Guest::Events(args) => commands::events::run(&args, context).await?,
        Guest::Replay(args) => commands::replay::run(&args, context).await?,
        Guest::Advise(args) => commands::advise::run(&args, context).await?,
        Guest::DebugDump(args) => commands::debug_dump::run(&args, context).await?,
    }
    Ok(())
}
