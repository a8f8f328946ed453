//! Every policy on every trace of a folder: the tables of docs/scheduling-quality.md.
//!
//! ```text
//! cargo run --example traces -- FOLDER --write docs/scheduling-quality.md
//! ```
//!
//! A trace is a file `NAME.csv`, `NAME.swf`, or either with `.gz`. Its pool is described in `NAME.pool`
//! beside it or in `--pools`; `philly.pool` is also the pool of `philly-quarter.csv.gz`. If there is
//! `philly.one-node.pool`, too, the trace is tried on both.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use clap::Parser;
use multicluster_simulator::{Lab, LabError, Policy, Setup, Study, Workload, lineup, text};

/// The generated part of the page is between these lines.
const BEGIN: &str = "<!-- make traces: begin -->";
const END: &str = "<!-- make traces: end -->";
const FORMATS: [&str; 4] = [".csv", ".csv.gz", ".swf", ".swf.gz"];

/// Runs every policy on every trace of a folder, and prints one table per trace.
#[derive(Debug, Parser)]
#[command(name = "traces")]
struct Arguments {
    /// The folder with the traces.
    folder: PathBuf,
    /// Where descriptions of pools are that are not beside their trace.
    #[arg(long, value_name = "FOLDER", default_value = "examples/workloads")]
    pools: PathBuf,
    /// Also try these settings of the scheduler. Repeat for more.
    #[arg(long, value_name = "'NAME=VALUE …'")]
    compare: Vec<Policy>,
    /// Try only these policies: settings, or round-robin, random, least-loaded, least-loaded-fifo,
    /// own-cluster, strict-fifo, fifo, easy, shortest. Repeat for more.
    #[arg(long, value_name = "POLICY")]
    only: Vec<Policy>,
    /// Write the tables into this page, between its markers.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Write all figures here as JSON, one file per trace.
    #[arg(long, value_name = "FOLDER")]
    json: Option<PathBuf>,
    /// Added to the tables, such as the date and the commit.
    #[arg(long, default_value = "")]
    note: String,
    /// How many policies are tried at the same time. Default: one per core.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

/// A trace with its pool.
struct Trace {
    name: String,
    setup: Setup,
    workload: Workload,
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
    let page = arguments.write.as_deref().map(Page::open).transpose()?;
    let policies = match &arguments.only[..] {
        [] => lineup().into_iter().chain(arguments.compare.iter().cloned()).collect(),
        only => only.to_vec(),
    };
    let mut tables = String::new();
    for trace in Trace::load_all(arguments)? {
        let begun = Instant::now();
        let studies = trace.try_all(&policies, arguments.threads)?;
        let took = begun.elapsed().as_secs_f64();
        let Trace { name, setup, workload } = &trace;
        let table = format!(
            "### {name}\n\n{} jobs on {} clusters. {} policies took {took:.0} s.\n\n{}\n",
            workload.arrivals.len(),
            setup.lab.pool.clusters.len(),
            studies.len(),
            text::markdown(&studies),
        );
        print!("{table}");
        tables += &table;
        if let Some(folder) = &arguments.json {
            fs::create_dir_all(folder)?;
            fs::write(folder.join(format!("{name}.json")), serde_json::to_string_pretty(&studies)? + "\n")?;
        }
    }
    match page {
        Some(page) => page.write(&format!("{}\n\n{}", arguments.note, tables.trim_end())),
        None => Ok(()),
    }
}

impl Trace {
    /// The traces of the folder on each of their pools.
    fn load_all(arguments: &Arguments) -> Result<Vec<Self>, Box<dyn Error>> {
        let mut all = Vec::new();
        for (name, path) in traces(&arguments.folder)? {
            let pools = descriptions(&name, &[&arguments.folder, &arguments.pools])?;
            if pools.is_empty() {
                eprintln!(
                    "note: {} left out: no description of its pool\n  hint: write {name}.pool beside it, with lines such as: cluster a=16*8gpu",
                    path.display()
                );
            }
            for (variant, pool) in pools {
                all.push(Self::load(format!("{name}{variant}"), &path, &pool)?);
            }
        }
        if all.is_empty() {
            return Err(format!("{}: no traces that can be tried", arguments.folder.display()).into());
        }
        Ok(all)
    }

    fn load(name: String, path: &Path, pool: &Path) -> Result<Self, Box<dyn Error>> {
        let setup = Setup::read(&fs::read_to_string(pool)?, &pool.display().to_string())?;
        let loaded = setup.reading.load(path)?;
        eprintln!("{}: {} jobs, pool {}", path.display(), loaded.workload.arrivals.len(), pool.display());
        loaded.notes.iter().for_each(|note| eprintln!("note: {note}"));
        Ok(Self { name, setup, workload: loaded.workload })
    }

    /// Several at the same time, each on one core; the results in the order of the policies.
    fn try_all(&self, policies: &[Policy], threads: Option<usize>) -> Result<Vec<Study>, LabError> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.unwrap_or(cores).clamp(1, policies.len().max(1));
        let next = AtomicUsize::new(0);
        let results = Mutex::new(Vec::new());
        let Setup { lab, .. } = &self.setup;
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some((nth, policy)) = take(&next, policies) {
                        let result = try_one(lab, policy, &self.workload);
                        results.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((nth, result));
                    }
                });
            }
        });
        let mut results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        results.sort_by_key(|(nth, _)| *nth);
        results.into_iter().map(|(_, result)| result).collect()
    }
}

fn take<'p>(next: &AtomicUsize, policies: &'p [Policy]) -> Option<(usize, &'p Policy)> {
    let nth = next.fetch_add(1, Ordering::Relaxed);
    policies.get(nth).map(|policy| (nth, policy))
}

fn try_one(lab: &Lab, policy: &Policy, workload: &Workload) -> Result<Study, LabError> {
    let begun = Instant::now();
    let study = lab.run(policy, workload)?;
    eprintln!(
        "  {policy}: mean wait {:.0} s, p95 {:.0} s, slowdown {:.1}, in {:.1?}",
        study.quality.wait_s.mean,
        study.quality.wait_s.p95,
        study.quality.slowdown.mean,
        begun.elapsed()
    );
    Ok(study)
}

/// The traces of a folder with their names, in alphabetical order.
fn traces(folder: &Path) -> Result<Vec<(String, PathBuf)>, Box<dyn Error>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let stem = FORMATS.iter().find_map(|format| name.strip_suffix(format));
        if let Some(stem) = stem {
            found.push((stem.to_owned(), path.clone()));
        }
    }
    found.sort();
    match found.is_empty() {
        true => Err(format!(
            "{}: no traces\n  hint: their names end with {}",
            folder.display(),
            FORMATS.join(", ")
        )
        .into()),
        false => Ok(found),
    }
}

/// `philly-quarter` is described in `philly-quarter.pool` or `philly.pool`, and in `philly.VARIANT.pool`.
/// Returns `""` or `.VARIANT` with each file.
fn descriptions(name: &str, folders: &[&Path]) -> Result<Vec<(String, PathBuf)>, Box<dyn Error>> {
    let mut stem = name;
    loop {
        for folder in folders.iter().filter(|folder| folder.is_dir()) {
            let mut found = Vec::new();
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
                let variant = file.strip_suffix(".pool").and_then(|file| file.strip_prefix(stem));
                if let Some(variant) =
                    variant.filter(|variant| variant.is_empty() || variant.starts_with('.'))
                {
                    found.push((variant.to_owned(), path.clone()));
                }
            }
            if !found.is_empty() {
                found.sort();
                return Ok(found);
            }
        }
        match stem.rsplit_once(['-', '.']) {
            Some((shorter, _)) => stem = shorter,
            None => return Ok(Vec::new()),
        }
    }
}

/// A page with a generated part.
struct Page {
    path: PathBuf,
    before: String,
    after: String,
}

impl Page {
    fn open(path: &Path) -> Result<Self, Box<dyn Error>> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let (before, rest) =
            text.split_once(BEGIN).ok_or_else(|| format!("{}: no line {BEGIN}", path.display()))?;
        let (_, after) = rest.split_once(END).ok_or_else(|| format!("{}: no line {END}", path.display()))?;
        Ok(Self { path: path.to_owned(), before: before.to_owned(), after: after.to_owned() })
    }

    fn write(&self, tables: &str) -> Result<(), Box<dyn Error>> {
        let Self { path, before, after } = self;
        fs::write(path, format!("{before}{BEGIN}\n{}\n{END}{after}", tables.trim()))?;
        eprintln!("wrote {}", path.display());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("traces-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_trace_has_the_pools_of_its_name_or_of_the_beginning_of_its_name() {
        let folder = scratch("pools");
        for file in ["philly.pool", "philly.one-node.pool", "phillyx.pool", "a-b.pool", "a.pool"] {
            fs::write(folder.join(file), "").unwrap();
        }
        let found = |name: &str| -> Vec<String> {
            let found = descriptions(name, &[&folder.join("missing"), &folder]).unwrap();
            found.into_iter().map(|(variant, _)| variant).collect()
        };
        assert_eq!(found("philly-quarter"), ["", ".one-node"]);
        assert_eq!(found("a-b-c"), [""]);
        assert!(found("other").is_empty());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn tables_replace_what_is_between_the_markers_and_nothing_else() {
        let folder = scratch("page");
        let path = folder.join("page.md");
        fs::write(&path, format!("# Page\n\n{BEGIN}\nold\n{END}\n\nmore\n")).unwrap();
        Page::open(&path).unwrap().write("new\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("# Page\n\n{BEGIN}\nnew\n{END}\n\nmore\n"));
        fs::write(&path, "# Page\n").unwrap();
        assert!(Page::open(&path).is_err(), "no markers: nothing is overwritten");
        fs::remove_dir_all(folder).unwrap();
    }
}
