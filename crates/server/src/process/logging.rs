//! Structured logs on standard error; the latest lines are also kept in memory.

use std::str::FromStr;

use tracing_subscriber::{EnvFilter, fmt, prelude::*};

use crate::recent_log::RecentLog;

/// The format of log lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err("expected text or json".into()),
        }
    }
}

/// Starts logging. `filter` has the syntax of `tracing`: `info`, `debug`,
/// `multicluster_server=debug`.
///
/// # Errors
/// When the filter is not valid.
pub fn start_logging(format: LogFormat, filter: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter)
        .map_err(|error| anyhow::anyhow!("log filter {filter:?}: {error}\n  hint: try info or debug"))?;
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    let recent = fmt::layer().with_writer(|| RecentLog).with_ansi(false);
    let registry = tracing_subscriber::registry().with(filter).with(recent);
    let started = match format {
        LogFormat::Text => registry.with(lines).try_init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("cannot log: {error}"))
}
