//! The configuration, again and again.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use multicluster_config::{Config, ConfigError};
use multicluster_core::Input;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::Notify,
    task::JoinSet,
};

use crate::{
    bounds::Bounds,
    driver::{Driver, Failure},
};

/// Editors write a file in several steps.
const SETTLE: Duration = Duration::from_millis(300);

/// Reads the configuration again when asked.
#[derive(Clone)]
pub struct Reloader {
    path: Option<Arc<Path>>,
    driver: Driver,
    bounds: Bounds,
}

/// What a reload came to.
#[derive(Debug, Clone)]
pub struct Reloaded {
    /// Clusters in the file.
    pub clusters: usize,
    /// What is worth a second look.
    pub warnings: Vec<String>,
}

/// Why the configuration was not reloaded.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// There is nothing to reload.
    #[error("this control plane was started without a file")]
    NoFile,
    /// The file has errors, with lines and hints.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The file has none by itself, but cannot be put into force.
    #[error("{}: {failure}", path.display())]
    Failed {
        /// The file.
        path: Arc<Path>,
        /// Why not.
        failure: Failure,
    },
}

impl Reloader {
    pub(super) fn new(path: Option<PathBuf>, driver: Driver, bounds: Bounds) -> Self {
        Self { path: path.map(Arc::from), driver, bounds }
    }

    /// The file, if there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Reads the file and puts it into force, or leaves everything as it is.
    ///
    /// # Errors
    /// What is wrong with the file, with lines and hints.
    pub async fn reload(&self) -> Result<Reloaded, ReloadError> {
        let path = self.path.as_ref().ok_or(ReloadError::NoFile)?;
        let failed = |failure| ReloadError::Failed { path: Arc::clone(path), failure };
        let file = Arc::clone(path);
        // Files may be on a disk that hangs.
        let read = tokio::task::spawn_blocking(move || read(&file)).await;
        let config = read.map_err(|_| failed(Failure::Stopping))??;
        let clusters = config.clusters.len();
        let warnings = config.warnings.iter().map(ToString::to_string).collect();
        let settings = config.settings;
        let input = Input::Reload { settings: Box::new(settings.clone()), clusters: config.clusters };
        self.driver.act(input).await.map_err(failed)?;
        self.bounds.set(&settings);
        Ok(Reloaded { clusters, warnings })
    }

    async fn reload_and_tell(&self, why: &str) {
        match self.reload().await {
            Ok(reloaded) => {
                tracing::info!(why, clusters = reloaded.clusters, "configuration reloaded");
                reloaded.warnings.iter().for_each(|warning| tracing::warn!(%warning, "configuration"));
            }
            Err(error) => {
                tracing::error!(why, %error, "configuration not reloaded; the old one stays in force")
            }
        }
    }
}

/// The file and the environment as they are now.
pub(super) fn read(path: &Path) -> Result<Config, ConfigError> {
    // Other programs' variables may be anything; ours are text.
    let env = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    multicluster_config::load(path, env)
}

/// Reloads on SIGHUP, and when the file changes. Ends when dropped.
pub(super) struct Watch {
    _folder: Option<RecommendedWatcher>,
    _tasks: JoinSet<()>,
}

/// Reloads from now on. SIGHUP is taken when this returns, even if the file cannot be
/// watched: otherwise it would end the process.
pub(super) fn watch(path: &Path, reloader: Reloader) -> Watch {
    let mut tasks = JoinSet::new();
    match signal(SignalKind::hangup()) {
        Ok(mut hangups) => {
            let reloader = reloader.clone();
            tasks.spawn(async move {
                while hangups.recv().await.is_some() {
                    reloader.reload_and_tell("SIGHUP").await;
                }
            });
        }
        Err(error) => tracing::warn!(%error, "SIGHUP is not taken"),
    }
    let changed = Arc::new(Notify::new());
    let folder = match watch_folder(path, Arc::clone(&changed)) {
        Ok(watcher) => {
            tasks.spawn(reload_on_change(path.to_owned(), changed, reloader));
            Some(watcher)
        }
        Err(error) => {
            tracing::warn!(%error, "changes of the configuration will not be noticed; send SIGHUP instead");
            None
        }
    };
    Watch { _folder: folder, _tasks: tasks }
}

/// The folder, not the file: editors and ConfigMaps replace the file.
fn watch_folder(path: &Path, changed: Arc<Notify>) -> anyhow::Result<RecommendedWatcher> {
    let path = std::path::absolute(path)?;
    let folder = path.parent().context("it is in no folder")?;
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| !event.kind.is_access()) {
            changed.notify_one();
        }
    })?;
    watcher.watch(folder, RecursiveMode::NonRecursive)?;
    Ok(watcher)
}

async fn reload_on_change(path: PathBuf, changed: Arc<Notify>, reloader: Reloader) {
    let mut known = std::fs::read(&path).ok();
    loop {
        changed.notified().await;
        tokio::time::sleep(SETTLE).await;
        // Other files of the folder change too.
        let found = std::fs::read(&path).ok();
        if found.is_some() && found != known {
            known = found;
            reloader.reload_and_tell("the file changed").await;
        }
    }
}
