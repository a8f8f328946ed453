//! Reads the configuration again and applies it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use multicluster_config::{Config, ConfigError, Diagnostic};
use multicluster_core::Input;
use multicluster_types::{Message, Owner};
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
    in_force: Arc<Mutex<Arc<Config>>>,
    /// One reload at a time: what was read first must not be applied last.
    turn: Arc<tokio::sync::Mutex<()>>,
    driver: Driver,
    bounds: Bounds,
    /// What single sign-on is applied to; `None`: it is ignored.
    access: Option<Access>,
}

/// The result of a reload.
#[derive(Debug, Clone)]
pub struct Reloaded {
    /// The number of clusters in the file, and in the files of its `cluster_files`.
    pub clusters: usize,
    /// Warnings about the file.
    pub warnings: Vec<String>,
    /// Errors of `cluster_files`, with lines and hints. Their last valid content is in force.
    pub refused: Vec<String>,
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
    pub(crate) fn new(path: Option<PathBuf>, config: Config, driver: Driver, bounds: Bounds) -> Self {
        let (path, in_force) = (path.map(Arc::from), Arc::new(Mutex::new(Arc::new(config))));
        Self { path, in_force, turn: Arc::default(), driver, bounds, access: None }
    }

    /// A reload applies single sign-on to this.
    pub(crate) fn guard_by(&mut self, access: Access) {
        self.access = Some(access);
    }

    /// The configuration in force.
    pub(crate) fn in_force(&self) -> Arc<Config> {
        Arc::clone(&self.in_force.lock())
    }

    /// The file, if there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Reads the file and applies it completely, or changes nothing. A file that cannot be used is shown to
    /// everyone, until a later reload succeeds. The same is true for each file of `cluster_files` alone: a
    /// wrong one, be it the file itself, does not hold up the others. `by`: who asked for it.
    ///
    /// # Errors
    /// When the file has errors, with lines and hints.
    pub(crate) async fn reload_by(&self, by: Option<Owner>) -> Result<Reloaded, ReloadError> {
        let _turn = self.turn.lock().await;
        let reloaded = self.read_and_apply(by.clone()).await;
        if let Err(error) = &reloaded
            && error.is_in_file()
        {
            self.refuse(error, by).await;
        }
        reloaded
    }

    /// Shows why the file cannot be used, and applies what became of the files of `cluster_files`.
    async fn refuse(&self, error: &ReloadError, by: Option<Owner>) {
        let before = self.in_force();
        let mut found = None;
        if let (Some(path), true) = (self.path.clone(), before.discovered.is_wanted()) {
            let before = before.clone();
            found =
                off_thread(move || multicluster_config::look_again(&before, &path, environment())).await.ok();
        }
        let config = found.map_or_else(|| Arc::clone(&before), Arc::new);
        let mut why = error.to_string();
        if let Some(refusal) = config.discovered.refusal() {
            why = format!("{why}\n\n{refusal}");
        }
        let refused = for_everyone(&why, self.file());
        let input = match config.clusters == before.clusters {
            true => Input::RefusedConfig { why: refused },
            false => Input::ReloadInPart {
                settings: Box::new(config.settings.clone()),
                clusters: config.clusters.clone(),
                refused,
            },
        };
        // The caller is to hear what is wrong with the file, not that this could not be noted.
        if self.driver.act(asked(by, input)).await.is_ok() {
            *self.in_force.lock() = config;
        }
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
        let (file, before) = (Arc::clone(path), self.in_force());
        // The file may be on a disk that hangs.
        let config = off_thread(move || read_again(&before, &file)).await.map_err(failed)??;
        let reloaded = Reloaded {
            clusters: config.clusters.len(),
            warnings: config.warnings.iter().map(ToString::to_string).collect(),
            refused: refused(&config).map(ToString::to_string).collect(),
        };
        let sign_on = self.access.as_ref().map(|access| access.sign_on(&config.sso)).transpose();
        let sign_on =
            sign_on.map_err(|why| ReloadError::SignOn { path: Arc::clone(path), why: format!("{why:#}") })?;
        self.driver.act(asked(by, applying(&config, Some(path)))).await.map_err(failed)?;
        self.bounds.set(&config.settings);
        if let Some(apply) = sign_on {
            apply();
        }
        *self.in_force.lock() = Arc::new(config);
        Ok(reloaded)
    }
}

/// The input that puts a configuration into force.
pub(crate) fn applying(config: &Config, path: Option<&Path>) -> Input {
    let (settings, clusters) = (Box::new(config.settings.clone()), config.clusters.clone());
    match config.discovered.refusal() {
        None => Input::Reload { settings, clusters },
        Some(why) => Input::ReloadInPart { settings, clusters, refused: for_everyone(&why, path) },
    }
}

/// The errors of files of `cluster_files`.
pub(crate) fn refused(config: &Config) -> impl Iterator<Item = &Diagnostic> {
    config.discovered.refused.iter().flat_map(|error| &error.diagnostics)
}

/// Everyone sees it, and the folder concerns only who has the machine.
fn for_everyone(text: &str, path: Option<&Path>) -> Message {
    let folder = path.and_then(Path::parent).filter(|folder| folder.is_absolute());
    let text =
        folder.map_or_else(|| text.to_owned(), |folder| text.replace(&format!("{}/", folder.display()), ""));
    redact_text(&text).into()
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
    multicluster_config::load(path, environment())
}

/// The same, after this one was in force.
pub(crate) fn read_again(before: &Config, path: &Path) -> Result<Config, ConfigError> {
    multicluster_config::load_again(before, path, environment())
}

/// Variables of other programs may contain anything; ours are text.
fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}
