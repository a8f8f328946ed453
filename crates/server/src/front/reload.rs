//! Reads the configuration again and applies it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use multicluster_config::{Config, ConfigError};
use multicluster_core::Input;
use multicluster_types::Owner;
use parking_lot::Mutex;

use super::{access::Access, bounds::Bounds};
use crate::{
    engine::{
        driver::{Driver, Failure},
        off_thread::off_thread,
    },
    redact::redact_text,
};

/// Reads the configuration again on request.
#[derive(Clone)]
pub struct Reloader {
    path: Option<Arc<Path>>,
    /// Files whose content is part of the configuration in force.
    files: Arc<Mutex<Vec<PathBuf>>>,
    driver: Driver,
    bounds: Bounds,
    /// What single sign-on is applied to; `None`: it is ignored.
    access: Option<Access>,
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
    /// Single sign-on cannot be used as the file describes it.
    #[error("{}: {why}", path.display())]
    SignOn {
        /// The file.
        path: Arc<Path>,
        /// Why it cannot be used.
        why: String,
    },
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
        let (path, files) = (path.map(Arc::from), Arc::new(Mutex::new(files)));
        Self { path, files, driver, bounds, access: None }
    }

    /// A reload applies single sign-on to this.
    pub(crate) fn guard_by(&mut self, access: Access) {
        self.access = Some(access);
    }

    /// All files that the configuration in force was read from, besides its own: secrets of jobs.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.files.lock().clone()
    }

    /// The file, if there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Reads the file and applies it completely, or changes nothing. A file that cannot be used is shown to
    /// everyone, until a later reload succeeds. `by`: who asked for it.
    ///
    /// # Errors
    /// When the file has errors, with lines and hints.
    pub(crate) async fn reload_by(&self, by: Option<Owner>) -> Result<Reloaded, ReloadError> {
        let reloaded = self.read_and_apply(by.clone()).await;
        if let Err(error) = &reloaded
            && error.is_in_file()
        {
            let mut text = error.to_string();
            // Everyone sees it, and the folder concerns only who has the machine.
            if let Some(folder) = self.file().and_then(Path::parent).filter(|folder| folder.is_absolute()) {
                text = text.replace(&format!("{}/", folder.display()), "");
            }
            let why = redact_text(&text).into();
            // The caller is to hear what is wrong with the file, not that this could not be noted.
            drop(self.driver.act(asked(by, Input::RefusedConfig { why })).await);
        }
        reloaded
    }

    /// [`reload_by`](Self::reload_by) the control plane itself.
    ///
    /// # Errors
    /// When the file has errors, with lines and hints.
    pub async fn reload(&self) -> Result<Reloaded, ReloadError> {
        self.reload_by(None).await
    }

    async fn read_and_apply(&self, by: Option<Owner>) -> Result<Reloaded, ReloadError> {
        let path = self.path.as_ref().ok_or(ReloadError::NoFile)?;
        let failed = |failure| ReloadError::Failed { path: Arc::clone(path), failure };
        let file = Arc::clone(path);
        // The file may be on a disk that hangs.
        let config = off_thread(move || read(&file)).await.map_err(failed)??;
        let clusters = config.clusters.len();
        let warnings = config.warnings.iter().map(ToString::to_string).collect();
        let sign_on = self.access.as_ref().map(|access| access.sign_on(&config.sso)).transpose();
        let sign_on =
            sign_on.map_err(|why| ReloadError::SignOn { path: Arc::clone(path), why: format!("{why:#}") })?;
        let settings = config.settings;
        let input = Input::Reload { settings: Box::new(settings.clone()), clusters: config.clusters };
        self.driver.act(asked(by, input)).await.map_err(failed)?;
        self.bounds.set(&settings);
        if let Some(apply) = sign_on {
            apply();
        }
        *self.files.lock() = config.files;
        Ok(Reloaded { clusters, warnings })
    }
}

fn asked(by: Option<Owner>, input: Input) -> Input {
    match by {
        Some(owner) => Input::By { owner, input: Box::new(input) },
        None => input,
    }
}

impl ReloadError {
    /// Is the file at fault, and not the control plane?
    fn is_in_file(&self) -> bool {
        match self {
            Self::Config(_) | Self::SignOn { .. } => true,
            Self::Failed { failure, .. } => matches!(failure, Failure::Refused(_)),
            Self::NoFile => false,
        }
    }
}

/// The file and the environment as they are now.
pub(crate) fn read(path: &Path) -> Result<Config, ConfigError> {
    // Variables of other programs may contain anything; ours are text.
    let env = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    multicluster_config::load(path, env)
}
