//! What was started, on disk: enough to find and end it later, whoever asks.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::{stand_in::StandIn, user_home};

/// The directory of one sandbox.
pub(super) struct Sandbox {
    pub(super) dir: PathBuf,
    /// Where it is unless somebody says otherwise: then commands need not name it.
    pub(super) is_default: bool,
}

/// What `up` wrote down before it started anything.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) clusters: Vec<StandIn>,
    /// The user's folder that all of them have.
    pub(super) project: Option<PathBuf>,
    /// Links below the stand-ins' homes, made by us.
    pub(super) links: Vec<PathBuf>,
}

impl Sandbox {
    pub(super) fn at(given: Option<PathBuf>) -> anyhow::Result<Self> {
        let is_default = given.is_none();
        let dir = match given {
            Some(dir) => dir,
            None => user_home()?.join(".ray_scheduler/sandbox"),
        };
        Ok(Self { dir: std::path::absolute(dir)?, is_default })
    }

    /// One command at a time; held until the file is dropped.
    pub(super) fn lock(&self) -> anyhow::Result<File> {
        make_dir(&self.dir)?;
        let path = self.dir.join("lock");
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => {
                bail!("another command works on the sandbox in {}", self.dir.display())
            }
            Err(TryLockError::Error(error)) => Err(error).context(format!("cannot lock {}", path.display())),
        }
    }

    /// Nothing was started: nothing in it.
    pub(super) fn state(&self) -> anyhow::Result<State> {
        let path = self.state_file();
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(State::default()),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        serde_json::from_slice(&bytes).with_context(|| format!("{} is not what was written", path.display()))
    }

    pub(super) fn save(&self, state: &State) -> anyhow::Result<()> {
        write(&self.state_file(), &serde_json::to_vec_pretty(state)?)
    }

    pub(super) fn state_file(&self) -> PathBuf {
        self.dir.join("sandbox.json")
    }

    /// For the control plane.
    pub(super) fn config(&self) -> PathBuf {
        self.dir.join("cluster.yaml")
    }

    /// A stand-in's home directory, the `HOME` of all that runs on it.
    pub(super) fn home(&self, cluster: &str) -> PathBuf {
        self.dir.join("homes").join(cluster)
    }

    /// Who its first process is; see `keep`.
    pub(super) fn record(&self, cluster: &str) -> PathBuf {
        self.dir.join(format!("{cluster}.pid"))
    }

    /// What `ray start` said.
    pub(super) fn log(&self, cluster: &str) -> PathBuf {
        self.dir.join(format!("{cluster}.log"))
    }
}

/// For its owner only: nobody else has a say in what is started or ended.
pub(super) fn make_dir(path: &Path) -> anyhow::Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.with_context(|| format!("cannot make {}", path.display()))
}

/// In one step: nobody ever reads half of it.
pub(super) fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let fresh = path.with_added_extension("new");
    let put = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all(content)?;
        fs::rename(&fresh, path)
    };
    put().with_context(|| format!("cannot write {}", path.display()))
}

/// Gone already is fine.
pub(super) fn remove(path: &Path) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}
