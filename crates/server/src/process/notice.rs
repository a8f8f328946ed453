//! `plane.json` in the state directory: the address of the control plane that uses this directory,
//! for programs of the same user. The file exists while the control plane serves.

use std::{
    fs,
    io::{self, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

const NAME: &str = "plane.json";

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Notice {
    pub(super) address: String,
    pub(super) pid: u32,
    version: String,
    config: PathBuf,
}

/// A notice that is written but not in place yet.
pub(super) struct Draft {
    path: PathBuf,
    draft: PathBuf,
    text: String,
}

/// A notice that we put in place.
pub(super) struct PutUp {
    path: PathBuf,
    text: String,
}

impl Notice {
    pub(super) fn of(address: &str, config: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            address: address.to_owned(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config: std::path::absolute(config)?,
        })
    }

    /// The notice of the control plane that uses this directory, if there is one.
    pub(super) fn read(state_dir: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(state_dir.join(NAME)).ok()?).ok()
    }

    /// Removes a notice left behind by a crash. It leads nowhere, or to another program.
    pub(super) fn take_down_old(state_dir: &Path) -> anyhow::Result<()> {
        let path = state_dir.join(NAME);
        remove(&path).with_context(|| format!("cannot remove {}", path.display()))
    }

    /// Readable by our user only. Written before anything is started: if the disk does not accept
    /// this file, it accepts nothing else.
    pub(super) fn write(&self, state_dir: &Path) -> anyhow::Result<Draft> {
        let (path, draft) = (state_dir.join(NAME), state_dir.join(".plane.json.new"));
        let text = serde_json::to_string(self)? + "\n";
        let write = || {
            remove(&draft)?;
            let mut options = fs::OpenOptions::new();
            std::os::unix::fs::OpenOptionsExt::mode(options.write(true).create_new(true), 0o600);
            options.open(&draft)?.write_all(text.as_bytes())
        };
        write().with_context(|| format!("cannot write {}", draft.display()))?;
        Ok(Draft { path, draft, text })
    }
}

impl Draft {
    /// Puts the notice in place in one step.
    pub(super) fn put_up(self) -> anyhow::Result<PutUp> {
        let Self { path, draft, text } = self;
        fs::rename(&draft, &path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(PutUp { path, text })
    }
}

impl PutUp {
    /// Removes the notice, unless another control plane has replaced it.
    pub(super) fn take_down(&self) {
        if fs::read(&self.path).is_ok_and(|found| found == self.text.as_bytes()) {
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Removes a file if it exists.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Clients cannot connect to an unspecified address such as 0.0.0.0.
pub(super) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
