//! `ray-multicluster config check`: is the file correct, and do all clusters answer?

mod probe;

use std::path::PathBuf;

use clap::Subcommand;
use multicluster_config::{Config, ConfigError, Diagnostic};
use multicluster_types::Shares;
use serde_json::{Value, json};

use crate::{
    exit::{Exit, Failure},
    output::{Cell, Out, Table, Tone, words},
};
use probe::Probe;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Check a file and its cluster files line by line, then connect to each cluster.
    Check {
        /// The file [default: the one that `serve` would use].
        file: Option<PathBuf>,
        /// Do not connect to the clusters.
        #[arg(long)]
        offline: bool,
    },
}

pub(crate) async fn run(args: Args, out: Out) -> anyhow::Result<()> {
    let Verb::Check { file, offline } = args.verb;
    let env: Vec<_> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let here = std::env::current_dir()?;
    let found = multicluster_config::find(file.as_deref(), env.clone(), &here);
    let loaded = found.and_then(|file| Ok((multicluster_config::load(&file, env)?, file)));
    let (config, file) = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return Err(wrong(&error, out).into()),
    };
    if let Some(error) = &config.discovered.refused {
        return Err(wrong(error, out).into());
    }
    let file = file.display().to_string();
    let probes = if offline { Vec::new() } else { probe::all(&config.clusters).await };
    if out.is_json() {
        out.json(&document(&file, &config, &probes));
    } else {
        config.warnings.iter().for_each(|warning| eprintln!("warning: {warning}\n"));
        let mut found = words::count(config.clusters.len(), "cluster");
        let files = &config.discovered.files;
        if config.discovered.is_wanted() {
            let theirs: usize = files.iter().map(|file| file.clusters.len()).sum();
            found += &format!(", {theirs} of them in {}", words::count(files.len(), "cluster file"));
        }
        if config.settings.shares != Shares::default() {
            found += &format!(", {}", words::count(config.settings.shares.named().count(), "share"));
        }
        out.line(format!("{file}: {} ({found})", out.paint("valid", Tone::Good)));
        if !probes.is_empty() {
            out.line("");
            out.table(&table(&probes));
        }
    }
    let failed: Vec<_> =
        probes.iter().filter(|probe| !probe.is_well()).map(|probe| probe.name.as_str()).collect();
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::new(Exit::Failed, format!("problems with {}", failed.join(", ")))
        .hint("the last column says what to do; --offline checks the file alone")
        .into())
}

/// All errors of the file, or of its cluster files.
fn wrong(error: &ConfigError, out: Out) -> Failure {
    if out.is_json() {
        let errors: Vec<_> = error.diagnostics.iter().map(diagnostic).collect();
        out.json(&json!({ "ok": false, "errors": errors, "omitted": error.omitted }));
        let count = words::count(error.diagnostics.len() + error.omitted, "mistake");
        return Failure::new(Exit::BadInput, count);
    }
    // Each error has its own hint.
    Failure::new(Exit::BadInput, error.to_string())
}

fn document(file: &str, config: &Config, probes: &[Probe]) -> Value {
    let warnings: Vec<_> = config.warnings.iter().map(diagnostic).collect();
    let names: Vec<_> = config.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
    let cluster_files: Vec<_> =
        config.discovered.files.iter().map(|file| file.path.display().to_string()).collect();
    let sharers: Vec<_> = config.settings.shares.named().map(|(name, _)| name.as_str()).collect();
    json!({
        "ok": true, "file": file, "clusters": names, "cluster_files": cluster_files, "shares": sharers, "warnings": warnings, "probes": probes,
    })
}

fn diagnostic(diagnostic: &Diagnostic) -> Value {
    let Diagnostic { origin, place, message, hint, .. } = diagnostic;
    let (line, column) = place.as_ref().map(|place| (place.line, place.column)).unzip();
    json!({ "origin": origin, "line": line, "column": column, "message": message, "hint": hint })
}

fn table(probes: &[Probe]) -> Table {
    let mut table =
        Table::new(&["CLUSTER", "DASHBOARD", "HEAD", "RAY", "PYTHON", "#CPU", "#GPU", "~PROBLEM"]);
    for probe in probes {
        let answer = |result: &Result<(), String>| match result {
            Ok(()) => Cell::new("ok").tone(Tone::Good),
            Err(_) => Cell::new("no").tone(Tone::Bad),
        };
        let unknown = |text: &Option<String>| Cell::new(text.clone().unwrap_or_else(|| "–".to_owned()));
        let problems: Vec<_> =
            [&probe.dashboard, &probe.head].into_iter().filter_map(|r| r.as_ref().err().cloned()).collect();
        table.row(vec![
            probe.name.as_str().into(),
            answer(&probe.dashboard),
            answer(&probe.head),
            unknown(&probe.ray),
            unknown(&probe.python),
            unknown(&probe.cpu),
            unknown(&probe.gpu),
            problems.join("\n").into(),
        ]);
    }
    table
}
