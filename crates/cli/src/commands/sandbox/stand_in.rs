//! One Ray cluster of one node: how it is started, and when it is ready.

use std::{
    fs::{self, File},
    net::Ipv4Addr,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use multicluster_ray::{Endpoint, RayClient, Timeouts};
use serde::{Deserialize, Serialize};
use tokio::{net::TcpStream, time};
use uuid::Uuid;

use super::{
    ports::BLOCK,
    processes::{Family, Process},
    state::{self, Sandbox},
};

/// What everything that a stand-in starts has in its environment; the value is its temporary
/// directory, whose name nobody else has.
const MARK: &str = "RAY_MULTICLUSTER_SANDBOX";
/// Below it, and short: Ray puts sockets there, and a socket's path may have 103 characters.
const TEMP_PREFIX: &str = "/tmp/ray-sandbox-";
/// The least that Ray takes is 75 MB.
const OBJECT_STORE_BYTES: u32 = 100 * 1024 * 1024;
const MEMORY_PER_CPU: u64 = 2 << 30;
/// Ray gives itself 30 s, which are not enough on a machine that is very busy. What it has
/// loaded once it loads faster.
const TOO_SLOW: &str = "timed out during startup";
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct StandIn {
    pub(super) name: String,
    pub(super) cpus: u32,
    first_port: u16,
    pub(super) temp_dir: PathBuf,
}

impl StandIn {
    pub(super) fn new(name: &str, cpus: u32, first_port: u16) -> Self {
        let random = Uuid::new_v4().simple().to_string();
        let temp_dir = format!("{TEMP_PREFIX}{}", &random[..8]).into();
        Self { name: name.to_owned(), cpus, first_port, temp_dir }
    }

    pub(super) fn first_port(&self) -> u16 {
        self.first_port
    }

    pub(super) fn dashboard(&self) -> String {
        format!("http://127.0.0.1:{}", self.port("dashboard-port"))
    }

    /// Of Ray Client.
    pub(super) fn head_address(&self) -> String {
        format!("127.0.0.1:{}", self.port("ray-client-server-port"))
    }

    /// Its first process, if it runs.
    pub(super) fn leader(&self, sandbox: &Sandbox) -> Option<Process> {
        self.recorded(sandbox).filter(Process::is_running)
    }

    /// Until its node is alive and takes jobs. Starts it with `ray`, if that is given.
    pub(super) async fn bring_up(
        &self,
        sandbox: &Sandbox,
        ray: Option<&Path>,
        timeout: Duration,
    ) -> anyhow::Result<()> {
        let start = || match ray {
            Some(ray) => self.spawn(sandbox, ray).with_context(|| format!("cannot start {}", self.name)),
            None => Ok(self.leader(sandbox)),
        };
        let deadline = Instant::now() + timeout;
        let mut process = start()?;
        let mut may_try_again = ray.is_some();
        while !self.is_ready().await {
            let said = || self.last_words(sandbox);
            if Instant::now() > deadline {
                bail!(
                    "{} does not take jobs after {} s:\n{}\n\
                     hint: only \"ray[default]\" has a dashboard; a busy machine may need a longer --timeout",
                    self.name,
                    timeout.as_secs(),
                    said()
                );
            }
            if !process.as_ref().is_some_and(Process::is_running) {
                if !may_try_again || !said().contains(TOO_SLOW) {
                    bail!("`ray start` for {} ended:\n{}", self.name, said());
                }
                may_try_again = false;
                self.end(sandbox)?;
                process = start()?;
            }
            time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Both ends of the job API answer, and a node is alive.
    pub(super) async fn is_ready(&self) -> bool {
        // The agent comes last, and costs least to ask.
        let agent = (Ipv4Addr::LOCALHOST, self.port("dashboard-agent-listen-port"));
        if TcpStream::connect(agent).await.is_err() {
            return false;
        }
        let call = Duration::from_secs(5);
        let ray = RayClient::new(&Endpoint::new(self.dashboard()), Timeouts { call, ..Default::default() });
        let Ok(ray) = ray else { return false };
        ray.facts().await.is_ok_and(|facts| !facts.nodes.is_empty()) && ray.jobs().await.is_ok()
    }

    /// The end of what `ray start` said.
    pub(super) fn last_words(&self, sandbox: &Sandbox) -> String {
        let log = sandbox.log(&self.name);
        let text =
            fs::read(&log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines.iter().skip(lines.len().saturating_sub(8)).map(|line| format!("  {line}\n"));
        format!("{}hint: all of it is in {}", last.collect::<String>(), log.display())
    }

    /// Ends all that runs on it and removes its traces, but for its log and its home.
    pub(super) fn end(&self, sandbox: &Sandbox) -> anyhow::Result<usize> {
        let ended = self.family(sandbox).end().with_context(|| self.name.clone())?;
        // Only what has a name that we would give; a link there is not ours to follow.
        let is_ours = self.temp_dir.to_string_lossy().starts_with(TEMP_PREFIX);
        if is_ours && fs::symlink_metadata(&self.temp_dir).is_ok_and(|found| found.is_dir()) {
            let removed = fs::remove_dir_all(&self.temp_dir);
            removed.with_context(|| format!("cannot remove {}", self.temp_dir.display()))?;
        }
        state::remove(&sandbox.record(&self.name))?;
        Ok(ended)
    }

    /// How many processes run for it.
    pub(super) fn count(&self, sandbox: &Sandbox) -> usize {
        self.family(sandbox).members().len()
    }

    /// Begins to start it. None if it ended at once.
    fn spawn(&self, sandbox: &Sandbox, ray: &Path) -> anyhow::Result<Option<Process>> {
        state::remove(&sandbox.record(&self.name))?;
        // Not recursive: if somebody has made it, it is not ours.
        let made = fs::DirBuilder::new().mode(0o700).create(&self.temp_dir);
        made.with_context(|| format!("cannot make the temporary directory {}", self.temp_dir.display()))?;
        let home = sandbox.home(&self.name);
        state::make_dir(&home)?;
        let log = File::create(sandbox.log(&self.name)).context("cannot write its log")?;
        let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
        command.args(["sandbox", "keep", "--record"]).arg(sandbox.record(&self.name)).arg("--").arg(ray);
        command.args(self.ray_start()).stdin(Stdio::null());
        command.stdout(log.try_clone()?).stderr(log).current_dir(&home);
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_private(&name.to_string_lossy())) {
            command.env_remove(name);
        }
        command.envs([
            // Ray keeps a token there, and turns authentication on by itself when it finds one.
            ("HOME", home.as_os_str()),
            ("RAY_AUTH_MODE", "disabled".as_ref()),
            ("RAY_USAGE_STATS_ENABLED", "0".as_ref()),
            // Everything on 127.0.0.1, as Ray itself does on macOS. Without it `ray start` takes
            // the machine's address, and anybody in the network could run things here.
            ("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0".as_ref()),
            // No worker before there is work: a laptop has better things to do.
            ("RAY_enable_worker_prestart", "false".as_ref()),
            ("AUTOSCALER_METRIC_PORT", self.port("autoscaler-metrics").to_string().as_ref()),
            ("DASHBOARD_METRIC_PORT", self.port("dashboard-metrics").to_string().as_ref()),
            // Lines of a job's output arrive when they are printed.
            ("PYTHONUNBUFFERED", "1".as_ref()),
            (MARK, self.temp_dir.as_os_str()),
        ]);
        command.env("PATH", path_with(ray)?);
        // Nobody waits for it: it outlives us, or we soon end.
        let child = command.spawn().context("cannot start this program again")?;
        Ok(Process::with(child.id()))
    }

    fn family(&self, sandbox: &Sandbox) -> Family {
        let mark = format!("{MARK}={}", self.temp_dir.display());
        Family { leader: self.recorded(sandbox), mark }
    }

    fn recorded(&self, sandbox: &Sandbox) -> Option<Process> {
        serde_json::from_slice(&fs::read(sandbox.record(&self.name)).ok()?).ok()
    }

    fn ray_start(&self) -> Vec<String> {
        let mut arguments: Vec<String> =
            ["start", "--head", "--block", "--disable-usage-stats"].map(Into::into).into();
        arguments.extend([
            format!("--node-name={}", self.name),
            "--node-ip-address=127.0.0.1".into(),
            "--dashboard-host=127.0.0.1".into(),
            format!("--temp-dir={}", self.temp_dir.display()),
            format!("--num-cpus={}", self.cpus),
            // As the CPUs, whatever the machine has.
            format!("--memory={}", u64::from(self.cpus) * MEMORY_PER_CPU),
            format!("--object-store-memory={OBJECT_STORE_BYTES}"),
        ]);
        arguments.extend(RAY_PORTS.iter().map(|option| format!("--{option}={}", self.port(option))));
        // The last one of the block is our claim to it.
        let workers = self.first_port + 20..=self.first_port + BLOCK - 2;
        arguments.push(format!("--min-worker-port={}", workers.start()));
        arguments.push(format!("--max-worker-port={}", workers.end()));
        arguments
    }

    fn port(&self, use_: &str) -> u16 {
        let place = RAY_PORTS.iter().chain(&OTHER_PORTS).position(|name| *name == use_);
        let place = place.and_then(|place| u16::try_from(place).ok()).expect("every use is in the lists");
        self.first_port + place
    }
}

/// Options of `ray start`, in the order of a block's first ports.
const RAY_PORTS: [&str; 9] = [
    "port",
    "dashboard-port",
    "ray-client-server-port",
    "dashboard-agent-listen-port",
    "dashboard-agent-grpc-port",
    "runtime-env-agent-port",
    "node-manager-port",
    "object-manager-port",
    "metrics-export-port",
];
/// Those that Ray takes from the environment.
const OTHER_PORTS: [&str; 2] = ["autoscaler-metrics", "dashboard-metrics"];

/// Whether a variable of the user's must not reach a stand-in: their own Ray's settings, ours,
/// and proxies, which have no place between processes of one machine.
fn is_private(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    ["ray_", "scheduler_"].iter().any(|prefix| lower.starts_with(prefix))
        || lower.ends_with("_proxy")
        || ["pythonpath", "pythonhome", "cluster_config_file"].contains(&lower.as_str())
}

/// Entrypoints say `python` and mean the one that has Ray.
fn path_with(ray: &Path) -> anyhow::Result<std::ffi::OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = ray.parent().map(Path::to_owned).into_iter().chain(std::env::split_paths(&path));
    std::env::join_paths(folders).with_context(|| format!("{} cannot be on a PATH", ray.display()))
}
