//! `ray-multicluster sandbox`: a pool to try things on, out of one-node Ray clusters on
//! this machine.
//!
//! The work is done in Python, with Ray: in `ray_multicluster_scheduler/_sandbox` of the SDK that
//! this program carries. This module checks the options and finds the Python that has Ray; this
//! process then becomes that Python, so signals and the exit code are its own.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{self, DirBuilder},
    os::unix::{
        fs::{DirBuilderExt, PermissionsExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail};
use clap::Subcommand;
use multicluster_types::env_vars;
use serde::Serialize;
use uuid::Uuid;

use crate::output::Format;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Action,
    /// Where its files are [default: ~/.ray_scheduler/sandbox].
    #[arg(long, value_name = "DIR", global = true, env = env_vars::SANDBOX_DIR)]
    dir: Option<PathBuf>,
}

#[derive(Subcommand, Serialize)]
#[serde(tag = "command", rename_all = "snake_case")]
enum Action {
    /// Start the clusters; those that run already are left alone.
    Up(Up),
    /// End them and what runs on them, and remove their temporary directories.
    Down,
    /// Show them.
    Status,
}

#[derive(clap::Args, Serialize)]
struct Up {
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

/// The options of `_sandbox/commands.py`.
#[derive(Serialize)]
struct Options {
    #[serde(flatten)]
    action: Action,
    dir: PathBuf,
    is_default: bool,
    output: &'static str,
}

/// Makes the package importable without its `__init__`, which needs more than the standard
/// library, and removes the unpacked copy once everything is loaded.
const START: &str = "
import json, shutil, sys, types
folder, options = sys.argv[1:]
if sys.version_info < (3, 9):
    shutil.rmtree(folder)
    sys.exit('error: %s is older than Python 3.9; activate the environment that has Ray' % sys.executable)
package = types.ModuleType('ray_multicluster_scheduler')
package.__path__ = [folder + '/sdk.zip/ray_multicluster_scheduler']
sys.modules[package.__name__] = package
from ray_multicluster_scheduler._sandbox.commands import main
shutil.rmtree(folder)
sys.exit(main(json.loads(options)))
";

pub(crate) fn run(args: Args, output: Format) -> anyhow::Result<()> {
    let Args { command: mut action, dir: given } = args;
    let is_default = given.is_none();
    let dir = given.map_or_else(default_dir, Ok)?;
    let ray = match &mut action {
        Action::Up(up) => {
            let ray = find_ray(up.ray.as_deref())?;
            up.ray = Some(ray.clone());
            Some(ray)
        }
        Action::Down | Action::Status => on_path("ray"),
    };
    let python = find_python(ray.as_deref())?;
    let options = Options {
        action,
        dir: std::path::absolute(dir)?,
        is_default,
        output: if output == Format::Json { "json" } else { "table" },
    };
    let folder = unpack_sdk()?;
    // Isolated from the user's Python setup. Returns only on failure.
    let arguments = [OsStr::new("-I"), "-c".as_ref(), START.as_ref(), folder.as_os_str()];
    let error = Command::new(&python).args(arguments).arg(serde_json::to_string(&options)?).exec();
    let _ = fs::remove_dir_all(folder);
    Err(error).with_context(|| format!("cannot run {}", python.display()))
}

fn default_dir() -> anyhow::Result<PathBuf> {
    let home = env::var_os("HOME").filter(|home| !home.is_empty());
    let home = home.context("no HOME in the environment\nhint: say where: --dir DIR")?;
    Ok(PathBuf::from(home).join(".ray_scheduler/sandbox"))
}

fn find_ray(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    const HINT: &str = "hint: pip install \"ray[default]\", or say where it is: --ray /path/to/venv/bin/ray";
    match given {
        Some(path) if is_program(path) => Ok(std::path::absolute(path)?),
        Some(path) => bail!("{} is not a program\n{HINT}", path.display()),
        None => on_path("ray").with_context(|| format!("there is no `ray` on PATH\n{HINT}")),
    }
}

/// The Python beside `ray`, whose environment has Ray; else that of the machine.
fn find_python(ray: Option<&Path>) -> anyhow::Result<PathBuf> {
    // Tools install links to `ray`: the Python is beside their target.
    let target = ray.and_then(|ray| ray.canonicalize().ok());
    let folders = [ray, target.as_deref()].into_iter().flatten().filter_map(Path::parent);
    let beside = folders.map(|folder| folder.join("python3")).find(|path| is_program(path));
    beside
        .or_else(|| on_path("python3"))
        .context("there is no `python3` on PATH\nhint: activate the environment that has Ray")
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path: OsString = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|folder| folder.join(name)).find(|path| is_program(path));
    std::path::absolute(found?).ok()
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Into a new folder that only this user can write to, because its content is executed.
fn unpack_sdk() -> anyhow::Result<PathBuf> {
    let folder = env::temp_dir().join(format!("ray-multicluster-{}", Uuid::new_v4().simple()));
    DirBuilder::new().mode(0o700).create(&folder).context("cannot make a temporary folder")?;
    fs::write(folder.join("sdk.zip"), multicluster_server::SDK).context("cannot unpack the sandbox")?;
    Ok(folder)
}
