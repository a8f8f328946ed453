//! `sandbox down`: ends what `up` started, and only that.

use std::thread;

use serde_json::json;

use super::{
    projects,
    stand_in::StandIn,
    state::{self, Sandbox, State},
};
use crate::output::Format;

pub(super) fn run(sandbox: &Sandbox, output: Format) -> anyhow::Result<()> {
    let _lock = sandbox.lock()?;
    let state = sandbox.state()?;
    let ended = end(sandbox, &state.clusters)?;
    forget(sandbox, &state)?;
    let names: Vec<&str> = state.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
    match output {
        Format::Json => println!("{}", json!({ "dir": sandbox.dir, "clusters": names, "processes": ended })),
        Format::Table if names.is_empty() => println!("no sandbox in {}", sandbox.dir.display()),
        Format::Table => println!("{} down: ended {ended} processes", names.join(" and ")),
    }
    Ok(())
}

/// All at once: each may take its time. Says how many processes there were.
pub(super) fn end(sandbox: &Sandbox, clusters: &[StandIn]) -> anyhow::Result<usize> {
    let ended: Vec<anyhow::Result<usize>> = thread::scope(|scope| {
        let threads: Vec<_> = clusters.iter().map(|cluster| scope.spawn(|| cluster.end(sandbox))).collect();
        threads.into_iter().map(|thread| thread.join().expect("ending a stand-in does not panic")).collect()
    });
    ended.into_iter().sum()
}

/// Removes what `up` wrote, but for what jobs left in the homes.
pub(super) fn forget(sandbox: &Sandbox, state: &State) -> anyhow::Result<()> {
    for link in &state.links {
        projects::unlink(link, &sandbox.dir)?;
    }
    for cluster in &state.clusters {
        // Stays if there is anything in it.
        let _ = std::fs::remove_dir(sandbox.home(&cluster.name));
    }
    state::remove(&sandbox.config())?;
    // Last: until then `down` can be tried again.
    state::remove(&sandbox.state_file())
}
