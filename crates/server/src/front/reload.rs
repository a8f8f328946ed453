//! Reads the configuration again and applies it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use multicluster_config::{Config, ConfigError};
use multicluster_core::Input;
use parking_lot::Mutex;

use super::bounds::Bounds;
use crate::engine::{
    driver::{Driver, Failure},
    off_thread::off_thread,
};

/// Reads the configuration again on request.
#[derive(Clone)]
pub struct Reloader {
    path: Option<Arc<Path>>,
    /// Files whose content is part of the configuration in force.
    files: Arc<Mutex<Vec<PathBuf>>>,
    driver: Driver,
    bounds: Bounds,
}

/// The result of a reload.
#[derive(Debug, Clone)]
pub struct Reloaded {
    /// The number of clusters in the file.
    pub clusters: usize,
    /// Warnings about the file.
    pub warnings: Vec<String>,
}

/// Why the configuration was not reloaded.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// There is no file to reload.
    #[error("this control plane was started without a configuration file")]
    NoFile,
    /// The file has errors, with lines and hints.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The file is valid, but cannot be applied.
    #[error("{}: {failure}", path.display())]
    Failed {
        /// The file.
        path: Arc<Path>,
        /// Why it cannot be applied.
        failure: Failure,
    },
}

impl Reloader {
    pub(crate) fn new(path: Option<PathBuf>, files: Vec<PathBuf>, driver: Driver, bounds: Bounds) -> Self {
        Self { path: path.map(Arc::from), files: Arc::new(Mutex::new(files)), driver, bounds }
    }

    /// All files that the configuration in force was read from, besides its own: secrets of jobs.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.files.lock().clone()
    }

    /// The file, if there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Reads the file and applies it completely, or changes nothing.
    ///
    /// # Errors
    /// When the file has errors, with lines and hints.
    pub async fn reload(&self) -> Result<Reloaded, ReloadError> {
        let path = self.path.as_ref().ok_or(ReloadError::NoFile)?;
        let failed = |failure| ReloadError::Failed { path: Arc::clone(path), failure };
        let file = Arc::clone(path);
        // The file may be on a disk that hangs.
        let config = off_thread(move || read(&file)).await.map_err(failed)??;
        let clusters = config.clusters.len();
        let warnings = config.warnings.iter().map(ToString::to_string).collect();
        let settings = config.settings;
        let input = Input::Reload { settings: Box::new(settings.clone()), clusters: config.clusters };
        self.driver.act(input).await.map_err(failed)?;
        self.bounds.set(&settings);
        *self.files.lock() = config.files;
        Ok(Reloaded { clusters, warnings })
    }
}

/// The file and the environment as they are now.
pub(crate) fn read(path: &Path) -> Result<Config, ConfigError> {
    // Variables of other programs may contain anything; ours are text.
    let env = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    multicluster_config::load(path, env)
}
