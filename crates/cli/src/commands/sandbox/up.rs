//! `sandbox up`: starts the stand-ins that do not run, and waits until all take jobs.

use std::{
    env,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use futures_util::future::try_join_all;
use tokio::signal::unix;

use super::{
    down, pool,
    ports::Block,
    projects,
    stand_in::StandIn,
    state::{self, Sandbox, State},
    status::Report,
    user_home,
};
use crate::output::Format;

#[derive(clap::Args)]
pub(super) struct Args {
    /// What the clusters are called [default: centos mac].
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Which Ray to start [default: the `ray` on PATH].
    #[arg(long, value_name = "PATH")]
    ray: Option<PathBuf>,
    /// How many CPUs each says it has; the machine need not have them.
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u32).range(1..=1000))]
    cpus: u32,
    /// A folder that each cluster has too, at the same place below its home as below yours, and
    /// on its PYTHONPATH [default: the current directory].
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// How many seconds they may take.
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

const NAMES: [&str; 2] = ["centos", "mac"];

pub(super) fn run(sandbox: &Sandbox, args: &Args, output: Format) -> anyhow::Result<()> {
    let ray = find_ray(args.ray.as_deref())?;
    let _lock = sandbox.lock()?;
    let before = sandbox.state()?;
    let (mut state, blocks) = plan(sandbox, &before, args)?;
    let missing: Vec<String> = blocks.iter().map(|(name, _)| name.clone()).collect();
    let project = link_project(sandbox, &mut state, args.project.as_deref())?;
    // Before anything is started: whatever happens now, `down` knows where to look.
    sandbox.save(&state)?;
    state::write(&sandbox.config(), pool::yaml(sandbox, &state.clusters, project.as_deref()).as_bytes())?;

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let timeout = Duration::from_secs(args.timeout);
    if let Err(error) = runtime.block_on(start(sandbox, &state, &missing, &ray, timeout)) {
        undo(sandbox, &state, &missing);
        return Err(error);
    }
    drop(blocks);
    runtime.block_on(Report::of(sandbox, &state)).print(output)?;
    if output == Format::Table {
        print_next(sandbox);
    }
    Ok(())
}

/// What there shall be, and the ports of those that are to be started.
fn plan(sandbox: &Sandbox, before: &State, args: &Args) -> anyhow::Result<(State, Vec<(String, Block)>)> {
    let known: Vec<&str> = before.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
    let given: Vec<&str> = args.names.iter().map(String::as_str).collect();
    let names = match (given.is_empty(), known.is_empty()) {
        (false, _) => given,
        (true, false) => known.clone(),
        (true, true) => NAMES.to_vec(),
    };
    names.iter().try_for_each(|name| check_name(name, &names))?;
    if let Some(other) = known.iter().find(|name| !names.contains(name)) {
        bail!("there is a sandbox with {other}, too\nhint: ray-multicluster sandbox down, then up again");
    }
    let mut state = State { clusters: Vec::new(), ..before.clone() };
    let mut blocks = Vec::new();
    for name in names {
        let old = before.clusters.iter().find(|cluster| cluster.name == name);
        if let Some(alive) = old.filter(|cluster| cluster.leader(sandbox).is_some()) {
            state.clusters.push(alive.clone());
            continue;
        }
        // What it left behind, say a job's own process, goes first. Then it comes back where it was,
        // so that whoever knows its addresses finds it again.
        down::end(sandbox, old.map_or(&[], std::slice::from_ref))?;
        let block = Block::claim(old.map(StandIn::first_port))?;
        state.clusters.push(StandIn::new(name, args.cpus, block.first));
        blocks.push((name.to_owned(), block));
    }
    Ok((state, blocks))
}

/// Starts those that are missing, all at once, and waits until all are ready.
async fn start(
    sandbox: &Sandbox,
    state: &State,
    missing: &[String],
    ray: &Path,
    timeout: Duration,
) -> anyhow::Result<()> {
    let mut interrupted = unix::signal(unix::SignalKind::interrupt())?;
    let mut terminated = unix::signal(unix::SignalKind::terminate())?;
    if missing.is_empty() {
        eprintln!("already up");
    } else {
        eprintln!("starting {} (about 10 s)", missing.join(" and "));
    }
    let all = state.clusters.iter().map(|cluster| {
        let ray = missing.contains(&cluster.name).then_some(ray);
        cluster.bring_up(sandbox, ray, timeout)
    });
    tokio::select! {
        ready = try_join_all(all) => ready.map(|_| ()),
        _ = interrupted.recv() => bail!("interrupted"),
        _ = terminated.recv() => bail!("terminated"),
    }
}

/// Ends what was started just now. Those that ran before are left alone; without any, nothing
/// is left to remember.
fn undo(sandbox: &Sandbox, state: &State, missing: &[String]) {
    if missing.is_empty() {
        return;
    }
    eprintln!("ending {} again", missing.join(" and "));
    let (new, old): (Vec<StandIn>, Vec<StandIn>) =
        state.clusters.iter().cloned().partition(|cluster| missing.contains(&cluster.name));
    let undone = down::end(sandbox, &new);
    let undone = undone.and_then(|_| if old.is_empty() { down::forget(sandbox, state) } else { Ok(()) });
    if let Err(error) = undone {
        eprintln!("error: {error:#}\nhint: ray-multicluster sandbox down");
    }
}

/// Links the project below every home; says where that is.
fn link_project(
    sandbox: &Sandbox,
    state: &mut State,
    given: Option<&Path>,
) -> anyhow::Result<Option<PathBuf>> {
    let project = match (given, state.project.take()) {
        (Some(dir), _) => std::path::absolute(dir)?,
        (None, Some(before)) => before,
        (None, None) => env::current_dir().context("no current directory")?,
    };
    ensure!(project.is_dir(), "there is no folder {}", project.display());
    let Some(place) = projects::place(&project, user_home().ok().as_deref()) else { return Ok(None) };
    for cluster in &state.clusters {
        let link = projects::link(&project, &sandbox.home(&cluster.name), &place)?;
        if !state.links.contains(&link) {
            state.links.push(link);
        }
    }
    state.project = Some(project);
    Ok(Some(place))
}

fn find_ray(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    const HINT: &str = "hint: pip install \"ray[default]\", or say where it is: --ray /path/to/venv/bin/ray";
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    match given {
        Some(path) if is_program(path) => Ok(std::path::absolute(path)?),
        Some(path) => bail!("{} is not a program\n{HINT}", path.display()),
        None => {
            let path = env::var_os("PATH").unwrap_or_default();
            let found = env::split_paths(&path).map(|dir| dir.join("ray")).find(|path| is_program(path));
            let found = found.with_context(|| format!("there is no `ray` on PATH\n{HINT}"))?;
            Ok(std::path::absolute(found)?)
        }
    }
}

/// A name is part of file names, too.
fn check_name(name: &str, all: &[&str]) -> anyhow::Result<()> {
    let is_fine = (1..=32).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    ensure!(is_fine, "{name:?} cannot be a cluster's name here\nhint: use letters, digits, - and _");
    ensure!(all.iter().filter(|other| **other == name).count() == 1, "{name} is given twice");
    Ok(())
}

fn print_next(sandbox: &Sandbox) {
    let dir = if sandbox.is_default { String::new() } else { format!(" --dir {}", shell_word(&sandbox.dir)) };
    println!(
        "
What next:
  export CLUSTER_CONFIG_FILE={}
  python your_program.py            # the Python SDK starts the control plane by itself
  ray-multicluster serve            # or start it, for `ray job submit` and the API
  ray-multicluster sandbox down{dir}",
        shell_word(&sandbox.config())
    );
}

fn shell_word(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%".contains(c);
    if text.chars().all(is_plain) { text.into_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
