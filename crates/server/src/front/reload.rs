//! The configuration, read again and put into force.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use multicluster_config::{Config, ConfigError};
use multicluster_core::Input;

use super::bounds::Bounds;
use crate::engine::{
    driver::{Driver, Failure},
    off_thread::off_thread,
};

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
    #[error("this control plane was started without a configuration file")]
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
    pub(crate) fn new(path: Option<PathBuf>, driver: Driver, bounds: Bounds) -> Self {
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
        let config = off_thread(move || read(&file)).await.map_err(failed)??;
        let clusters = config.clusters.len();
        let warnings = config.warnings.iter().map(ToString::to_string).collect();
        let settings = config.settings;
        let input = Input::Reload { settings: Box::new(settings.clone()), clusters: config.clusters };
        self.driver.act(input).await.map_err(failed)?;
        self.bounds.set(&settings);
        Ok(Reloaded { clusters, warnings })
    }
}

/// The file and the environment as they are now.
pub(crate) fn read(path: &Path) -> Result<Config, ConfigError> {
    // Other programs' variables may be anything; ours are text.
    let env = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    multicluster_config::load(path, env)
}
