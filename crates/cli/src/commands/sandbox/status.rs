//! `sandbox status`: the stand-ins as they are now.

use serde::Serialize;

use super::{
    stand_in::StandIn,
    state::{Sandbox, State},
};
use crate::output::Format;

pub(super) fn run(sandbox: &Sandbox, output: Format) -> anyhow::Result<()> {
    let state = sandbox.state()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(Report::of(sandbox, &state));
    report.print(output)?;
    if output == Format::Table && report.clusters.is_empty() {
        println!("no sandbox in {}\nhint: ray-multicluster sandbox up", report.dir);
    }
    Ok(())
}

/// What `status` and `up` print.
#[derive(Serialize)]
pub(super) struct Report {
    dir: String,
    /// For the control plane; none if there is no sandbox.
    config: Option<String>,
    clusters: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: String,
    state: Condition,
    pid: Option<u32>,
    /// How many processes run for it.
    processes: usize,
    cpus: u32,
    dashboard: String,
    head_address: String,
    home: String,
    log: String,
    temp_dir: String,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Condition {
    Up,
    /// It runs, but does not answer (yet).
    Silent,
    Down,
}

impl Report {
    pub(super) async fn of(sandbox: &Sandbox, state: &State) -> Self {
        let mut clusters = Vec::new();
        for cluster in &state.clusters {
            clusters.push(Row::of(sandbox, cluster).await);
        }
        let config = sandbox.config();
        Self {
            dir: sandbox.dir.display().to_string(),
            config: config.is_file().then(|| config.display().to_string()),
            clusters,
        }
    }

    /// Text only if there is something to show.
    pub(super) fn print(&self, output: Format) -> anyhow::Result<()> {
        if output == Format::Json {
            println!("{}", serde_json::to_string_pretty(self)?);
            return Ok(());
        }
        if !self.clusters.is_empty() {
            println!("{:<10} {:<7} {:>8} {:>5}  {:<23} HOME", "CLUSTER", "STATE", "PID", "CPUS", "DASHBOARD");
        }
        for row in &self.clusters {
            let state = match row.state {
                Condition::Up => "up",
                Condition::Silent => "silent",
                Condition::Down => "down",
            };
            let pid = row.pid.map_or("-".to_owned(), |pid| pid.to_string());
            println!(
                "{:<10} {state:<7} {pid:>8} {:>5}  {:<23} {}",
                row.name, row.cpus, row.dashboard, row.home
            );
        }
        Ok(())
    }
}

impl Row {
    async fn of(sandbox: &Sandbox, cluster: &StandIn) -> Self {
        let leader = cluster.leader(sandbox);
        let state = match leader {
            None => Condition::Down,
            Some(_) if cluster.is_ready().await => Condition::Up,
            Some(_) => Condition::Silent,
        };
        Self {
            name: cluster.name.clone(),
            state,
            pid: leader.map(|leader| leader.pid),
            processes: cluster.count(sandbox),
            cpus: cluster.cpus,
            dashboard: cluster.dashboard(),
            head_address: cluster.head_address(),
            home: sandbox.home(&cluster.name).display().to_string(),
            log: sandbox.log(&cluster.name).display().to_string(),
            temp_dir: cluster.temp_dir.display().to_string(),
        }
    }
}
