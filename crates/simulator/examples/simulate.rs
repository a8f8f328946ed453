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
    Capacities, Change, Lab, OwnerFrom, Policy, Pool, Processors, Reading, Run, Spread, Study, Synthetic,
    Timing, Variant, Workload, generate, text,
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
    /// id,kind,preferred_cluster,owner,one_node; or SWF. Either may be compressed with gzip.
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
    /// Where the owners of jobs come from: owner (the column, or the user of SWF) or tags (the first).
    #[arg(long, value_name = "FROM", default_value = "owner", requires = "workload")]
    owner_from: OwnerFrom,
    /// What the processors of SWF are: cpu or gpu.
    #[arg(long, value_name = "WHAT", default_value = "cpu", requires = "workload")]
    processors: Processors,
    /// Jobs up to this size must be on one node, such as 8gpu or 64cpu,256GiB, unless the column one_node
    /// says otherwise. Other jobs may use several nodes.
    #[arg(long, value_name = "SIZE")]
    one_node: Option<Spread>,
    /// Size of a cluster, such as centos=64cpu,4gpu,256GiB, or 16*8gpu,64cpu for 16 nodes; `*=…` for all
    /// others.
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
    /// semicolon. Or with what people use instead: round-robin, random, least-loaded,
    /// least-loaded-fifo, own-cluster, strict-fifo, fifo, easy, shortest. Repeat for more.
    #[arg(long, value_name = "'NAME=VALUE …'")]
    compare: Vec<Policy>,
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
    let lab = lab(arguments)?;
    let workload = workload(arguments, &lab)?;
    let begun = Instant::now();
    let mut studies =
        vec![Study { label: "baseline".to_owned(), ..lab.run(&Policy::AsConfigured, &workload)? }];
    for policy in &arguments.compare {
        if let Policy::Changed(variant) = policy {
            note(&lab.with(variant)?.1);
        }
        studies.push(lab.run(policy, &workload)?);
    }
    eprintln!("simulated in {:.1?}", begun.elapsed());
    print(studies, arguments.output)
}

/// The configured pool with the changes from the command line.
fn lab(arguments: &Arguments) -> Result<Lab, Box<dyn Error>> {
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
    let nodes = capacities.nodes(&clusters);
    let lab = Lab { pool: Pool { settings: config.settings, clusters, timing }, nodes };
    let (mut lab, notes) = lab.with(&Variant(arguments.set.clone()))?;
    note(&notes);
    if !arguments.policy.is_empty() {
        let policies: Vec<_> = arguments.policy.iter().map(|policy| policy.replacen('=', ":", 1)).collect();
        let policies: Change = format!("policies={}", policies.join(",")).parse()?;
        note(&Variant(vec![policies]).apply(&mut lab.pool)?);
    }
    Ok(lab)
}

fn workload(arguments: &Arguments, lab: &Lab) -> Result<Workload, Box<dyn Error>> {
    let reading = Reading {
        owner_from: arguments.owner_from,
        processors: arguments.processors,
        spread: (!lab.nodes.is_empty()).then(|| arguments.one_node.clone().unwrap_or_default()),
    };
    let Some(path) = &arguments.workload else {
        let jobs = arguments.generate.unwrap_or_default();
        let mut made = generate(Synthetic { jobs, seed: arguments.seed, gap: arguments.gap }, &lab.pool);
        reading.complete(&mut made);
        return Ok(made);
    };
    let loaded = reading.load(path)?;
    note(&loaded.notes);
    Ok(loaded.workload)
}

fn note(notes: &[String]) {
    notes.iter().for_each(|note| eprintln!("note: {note}"));
}

fn print(studies: Vec<Study>, output: Output) -> Result<(), Box<dyn Error>> {
    let out = match (output, &studies[..]) {
        (Output::Json, studies) => serde_json::to_string_pretty(&BTreeMap::from([("runs", studies)]))? + "\n",
        (Output::Text, [only]) => format!("{}\n{}", text::report(&only.report), text::quality(&only.quality)),
        (Output::Text, several) => {
            let qualities = text::qualities(several);
            let runs = studies.into_iter().map(|study| Run { label: study.label, report: study.report });
            format!("{}\n{qualities}", text::comparison(&runs.collect::<Vec<_>>()))
        }
    };
    std::io::stdout().write_all(out.as_bytes())?;
    Ok(())
}

/// The environment, without values that are not Unicode: no setting of ours is.
fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}
