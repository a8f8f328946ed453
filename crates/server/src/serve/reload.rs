//! The configuration, again and again.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::bail;
use multicluster_config::Config;
use multicluster_core::Input;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::Notify,
    task::JoinSet,
};

use crate::driver::{Driver, Failure};

/// Editors write a file in several steps.
const SETTLE: Duration = Duration::from_millis(300);

/// Reads the configuration again when asked.
#[derive(Clone)]
pub struct Reloader {
    path: Option<Arc<Path>>,
    driver: Driver,
}

/// What a reload came to.
#[derive(Debug, Clone)]
pub struct Reloaded {
    /// Clusters in the file.
    pub clusters: usize,
    /// What is worth a second look.
    pub warnings: Vec<String>,
}

impl Reloader {
    pub(super) fn new(path: Option<PathBuf>, driver: Driver) -> Self {
        Self { path: path.map(Arc::from), driver }
    }

    /// Reads the file and puts it into force, or leaves everything as it is.
    ///
    /// # Errors
    /// What is wrong with the file, with lines and hints.
    pub async fn reload(&self) -> anyhow::Result<Reloaded> {
        let Some(path) = &self.path else { bail!("this control plane was started without a file") };
        let config = read(path)?;
        let clusters = config.clusters.len();
        let warnings = config.warnings.iter().map(ToString::to_string).collect();
        let input = Input::Reload { settings: Box::new(config.settings), clusters: config.clusters };
        match self.driver.act(input).await {
            Ok(_) => Ok(Reloaded { clusters, warnings }),
            Err(Failure::Refused(refusal)) => bail!("{}: {refusal}", path.display()),
            Err(failure) => Err(failure.into()),
        }
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
pub(super) fn read(path: &Path) -> anyhow::Result<Config> {
    // Other programs' variables may be anything; ours are text.
    let env = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let config = multicluster_config::load(path, env)?;
    Ok(config)
}

/// Reloads when the file changes and on SIGHUP, until dropped.
pub(super) fn watch(path: &Path, reloader: Reloader) -> Option<(RecommendedWatcher, JoinSet<()>)> {
    let changed = Arc::new(Notify::new());
    let path = std::path::absolute(path).ok()?;
    let notify = Arc::clone(&changed);
    // The folder, not the file: editors and ConfigMaps replace the file.
    let folder = path.parent()?.to_owned();
    let started = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| !event.kind.is_access()) {
            notify.notify_one();
        }
    })
    .and_then(|mut watcher| watcher.watch(&folder, RecursiveMode::NonRecursive).map(|()| watcher));
    let watcher = match started {
        Ok(watcher) => watcher,
        Err(error) => {
            tracing::warn!(%error, "changes of the configuration will not be noticed; send SIGHUP instead");
            return None;
        }
    };
    let mut tasks = JoinSet::new();
    let on_change = reloader.clone();
    tasks.spawn(async move {
        let mut known = std::fs::read(&path).ok();
        loop {
            changed.notified().await;
            tokio::time::sleep(SETTLE).await;
            // Other files of the folder change too.
            let found = std::fs::read(&path).ok();
            if found.is_some() && found != known {
                known = found;
                on_change.reload_and_tell("the file changed").await;
            }
        }
    });
    tasks.spawn(async move {
        let Ok(mut hangups) = signal(SignalKind::hangup()) else { return };
        while hangups.recv().await.is_some() {
            reloader.reload_and_tell("SIGHUP").await;
        }
    });
    Some((watcher, tasks))
}
