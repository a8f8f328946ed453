//! Try a workload on a pool before touching production.
//!
//! ```text
//! cargo run --example simulate -- --config examples/cluster.yaml \
//!     --workload examples/workloads/morning.csv --compare submission_interval=5s
//! ```
//!
//! The report goes to stdout, everything else to stderr.

use std::{collections::BTreeMap, error::Error, io::Write, path::PathBuf, process::ExitCode, time::Instant};

use clap::{ArgGroup, Parser, ValueEnum};
use multicluster_simulator::{
    Capacities, Change, Pool, Run, Synthetic, Timing, Variant, Workload, generate, simulate, text,
};
use multicluster_types::{ClusterName, Span, SpanError};

/// Runs a workload through the real scheduler on virtual time, and tells how long things waited
/// and how busy each cluster was.
#[derive(Debug, Parser)]
#[command(name = "simulate", group = ArgGroup::new("work").required(true).args(["workload", "generate"]))]
struct Arguments {
    /// The pool: a cluster.yaml.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// CSV with the columns arrival,duration,cpu,gpu,memory,tags,priority and, if you like,
    /// id,kind,preferred_cluster.
    #[arg(long, value_name = "FILE")]
    workload: Option<PathBuf>,
    /// Make up so many jobs instead.
    #[arg(long, value_name = "JOBS")]
    generate: Option<u32>,
    /// With --generate: the same seed makes up the same jobs.
    #[arg(long, default_value_t = 1, requires = "generate")]
    seed: u64,
    /// With --generate: mean time between arrivals.
    #[arg(long, default_value = "15s", value_parser = span, requires = "generate")]
    gap: Span,
    /// Size of a cluster, such as centos=64cpu,4gpu,256GiB; `*=…` for all others.
    #[arg(long, value_name = "NAME=SIZE")]
    capacity: Vec<String>,
    /// Change a setting: resource_threshold=0.9, or a cluster's own: mac.weight=2.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<Change>,
    /// Score by this policy instead of the configured ones; repeat to combine.
    #[arg(long, value_name = "NAME=WEIGHT")]
    policy: Vec<String>,
    /// Also run with these changes, and show both side by side. Policies of your own are changes
    /// too: filter.small=cpu <= 4.0, expression.mine:0.5=free_cpu / total_cpu, up to the next
    /// semicolon. Repeat for more.
    #[arg(long, value_name = "'NAME=VALUE …'")]
    compare: Vec<Variant>,
    /// From submit request to running entrypoint.
    #[arg(long, default_value = "1.2s", value_parser = span)]
    start_delay: Span,
    /// How to print the result.
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

fn span(text: &str) -> Result<Span, SpanError> {
    text.parse()
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let pool = pool(arguments)?;
    let workload = workload(arguments, &pool)?;
    let begun = Instant::now();
    let mut runs = vec![Run { label: "baseline".to_owned(), report: simulate(&pool, &workload)? }];
    for variant in &arguments.compare {
        let mut changed = pool.clone();
        note(&variant.apply(&mut changed)?);
        runs.push(Run { label: variant.to_string(), report: simulate(&changed, &workload)? });
    }
    eprintln!("simulated in {:.1?}", begun.elapsed());
    print(&runs, arguments.output)
}

/// The configured pool with the changes from the command line.
fn pool(arguments: &Arguments) -> Result<Pool, Box<dyn Error>> {
    let config = multicluster_config::load(&arguments.config, environment())?;
    config.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    let mut capacities = Capacities::default();
    arguments.capacity.iter().try_for_each(|text| capacities.add(text))?;
    let (clusters, assumed) = capacities.apply(config.clusters)?;
    if !assumed.is_empty() {
        let names: Vec<_> = assumed.iter().map(ClusterName::as_str).collect();
        let (names, size) = (names.join(", "), text::size(&Capacities::assumed()));
        eprintln!(
            "note: assuming {size} for each of {names}\n  hint: give their sizes with --capacity NAME=64cpu,4gpu,256GiB"
        );
    }
    let timing = Timing { start: arguments.start_delay, ..Timing::default() };
    let mut pool = Pool { settings: config.settings, clusters, timing };
    note(&Variant(arguments.set.clone()).apply(&mut pool)?);
    if !arguments.policy.is_empty() {
        let policies: Vec<_> = arguments.policy.iter().map(|policy| policy.replacen('=', ":", 1)).collect();
        let policies: Change = format!("policies={}", policies.join(",")).parse()?;
        note(&Variant(vec![policies]).apply(&mut pool)?);
    }
    Ok(pool)
}

fn workload(arguments: &Arguments, pool: &Pool) -> Result<Workload, Box<dyn Error>> {
    let Some(path) = &arguments.workload else {
        let jobs = arguments.generate.unwrap_or_default();
        return Ok(generate(Synthetic { jobs, seed: arguments.seed, gap: arguments.gap }, pool));
    };
    let workload = Workload::load(path)?;
    if !workload.ignored_columns.is_empty() {
        eprintln!("note: columns not used: {}", workload.ignored_columns.join(", "));
    }
    Ok(workload)
}

fn note(notes: &[String]) {
    notes.iter().for_each(|note| eprintln!("note: {note}"));
}

fn print(runs: &[Run], output: Output) -> Result<(), Box<dyn Error>> {
    let out = match (output, runs) {
        (Output::Json, runs) => serde_json::to_string_pretty(&BTreeMap::from([("runs", runs)]))? + "\n",
        (Output::Text, [only]) => text::report(&only.report),
        (Output::Text, runs) => text::comparison(runs),
    };
    std::io::stdout().write_all(out.as_bytes())?;
    Ok(())
}

/// The environment, without values that are not Unicode: no setting of ours is.
fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}
