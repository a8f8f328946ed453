//! `cluster.yaml` and the `SCHEDULER_*` environment as typed settings.
//!
//! Text goes in, a [`Config`] or a [`ConfigError`] comes out. Every error points at the line, and all
//! errors of a file are reported at once. Only [`load`] (with the files of secrets that the text names)
//! and [`find`] read files, and nothing here reads the process environment: it is passed in.
//!
//! ```text
//! text ─ tree ─┬─ clusters ─ runtime_env, address, connection ─┐
//!              ├─ scheduler ─ policies ────────────────────────┼─ Config
//!              ├─ shares ──────────────────────────────────────┤
//!              └─ sso ─────────────────────────────────────────┤
//! environment ─ env ───────────────────────────────────────────┘
//! ```
//!
//! [`reference()`] renders the same tables as Markdown for the docs.

mod address;
mod clusters;
mod diagnostic;
mod env;
mod find;
mod outside;
mod policies;
mod reference;
mod report;
mod runtime_env;
mod scalar;
mod scheduler;
mod shares;
mod source;
mod sso;
mod tree;
mod yaml_error;

#[cfg(test)]
mod tests;

use std::{
    cell::RefCell,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use multicluster_types::{ClusterSpec, Settings, Sso};

pub use diagnostic::{ConfigError, Diagnostic, Place};
pub use find::find;
pub use reference::reference;

use outside::Outside;
use report::Report;
use source::{Mark, Source};
use tree::{Node, Value};

/// The operator's configuration: settings and clusters.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The settings of the scheduler: the file, overridden by the environment.
    pub settings: Settings,
    /// The clusters, in the order of the file. At least one, no name twice.
    pub clusters: Vec<ClusterSpec>,
    /// Who is signed on by a proxy or a JWT.
    pub sso: Sso,
    /// Warnings for the operator.
    pub warnings: Vec<Diagnostic>,
    /// Files whose content is part of this: variables of a `runtime_env` come from them. Read the
    /// configuration again when one changes. Files of tokens and headers are not among them: who
    /// uses those reads them again.
    pub files: Vec<PathBuf>,
}

/// The largest file read. A pool of a hundred clusters needs about 50 KiB.
const MAX_FILE_BYTES: usize = 4 << 20;

/// Reads a file. `env` is the environment: `std::env::vars_os()`, without values that are not
/// Unicode (`std::env::vars()` panics on those).
///
/// # Errors
/// If the file cannot be read, or for any error of [`parse`].
pub fn load(path: &Path, env: impl IntoIterator<Item = (String, String)>) -> Result<Config, ConfigError> {
    let origin = path.display().to_string();
    let bytes = read_bounded(path).map_err(|error| {
        let message = format!("cannot be read: {error}");
        ConfigError::from(Diagnostic::about(&origin, message, "check the path and its permissions"))
    })?;
    match std::str::from_utf8(&bytes) {
        Ok(text) => parse_in(text, &origin, path.parent(), env),
        Err(error) => Err(not_text(&origin, &bytes, error.valid_up_to())),
    }
}

/// Reads text. `origin` names it in errors: the file's path as the user knows it. No other file
/// is read: a `token_file` or `{file: …}` is refused, because it would be unclear which folder it
/// is relative to.
///
/// # Errors
/// All errors of the text and the environment, each with its place and a hint.
pub fn parse(
    text: &str,
    origin: &str,
    env: impl IntoIterator<Item = (String, String)>,
) -> Result<Config, ConfigError> {
    parse_in(text, origin, None, env)
}

fn parse_in(
    text: &str,
    origin: &str,
    folder: Option<&Path>,
    env: impl IntoIterator<Item = (String, String)>,
) -> Result<Config, ConfigError> {
    if text.len() > MAX_FILE_BYTES {
        return Err(too_large(origin).into());
    }
    let outside = Outside { env: env.into_iter().collect(), folder, read: RefCell::default() };
    let mut report = Report::new(Source::new(origin, text));
    let mut config = Config {
        settings: Settings::default(),
        clusters: Vec::new(),
        sso: Sso::default(),
        warnings: Vec::new(),
        files: Vec::new(),
    };
    if let Some(root) = tree::parse(text, &mut report) {
        read_file(&root, &outside, &mut config, &mut report);
    }
    env::apply(&outside.env, &mut config.settings, &mut report);
    config.files = outside.read.into_inner();
    report.finish(|warnings| Config { warnings, ..config })
}

/// The keys that a cluster may have.
pub fn cluster_keys() -> impl Iterator<Item = &'static str> {
    clusters::KEYS.iter().map(|key| key.name)
}

/// The keys of the file.
const FILE_KEYS: [&str; 5] = ["clusters", "scheduler", "shares", "trusted_proxy", "jwt"];
const CLUSTERS_HINT: &str = "list your clusters:\n  clusters:\n    - name: centos\n      head_address: 192.168.5.7:10001\n      dashboard: http://192.168.5.7:8265";

fn read_file(root: &Node<'_>, outside: &Outside, config: &mut Config, report: &mut Report<'_>) {
    let Value::Map(entries) = &root.value else {
        let (at, message) = if root.is_null() {
            (Mark::START, "nothing is configured here".to_owned())
        } else {
            (root.at, format!("the file should be a mapping with `clusters:`, not {}", root.kind()))
        };
        return report.error(at, message, CLUSTERS_HINT);
    };
    let mut listed = false;
    for (key, value) in entries {
        match key.text.as_ref() {
            "clusters" => {
                listed = true;
                config.clusters = clusters::read(key, value, outside, report);
            }
            "scheduler" => scheduler::read(key, value, &mut config.settings, report),
            "shares" => {
                if let Some(shares) = shares::read(key, value, report) {
                    config.settings.shares = shares;
                }
            }
            "trusted_proxy" => config.sso.trusted_proxy = sso::trusted_proxy(key, value, report),
            "jwt" => config.sso.jwt = sso::jwt(key, value, outside, report),
            _ => report.unknown_key(key, "the file", FILE_KEYS),
        }
    }
    if !listed {
        report.error(root.at, "there is no `clusters:`", CLUSTERS_HINT);
    }
}

/// Reads at most one byte more than is accepted, whatever the path leads to.
fn read_bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = MAX_FILE_BYTES as u64 + 1;
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn too_large(origin: &str) -> Diagnostic {
    let message = format!("the file is larger than {} MiB", MAX_FILE_BYTES >> 20);
    Diagnostic::about(origin, message, "is this the right file? A cluster.yaml has a few hundred lines")
}

fn not_text(origin: &str, bytes: &[u8], valid: usize) -> ConfigError {
    if bytes.len() > MAX_FILE_BYTES {
        return too_large(origin).into();
    }
    let text = String::from_utf8_lossy(&bytes[..valid]);
    let line = text.rsplit('\n').next().unwrap_or_default();
    let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let at = Mark {
        line: small(text.matches('\n').count() + 1),
        column: small(line.chars().count() + 1),
        start: valid,
        end: valid,
    };
    let place = Some(Source::new(origin, &text).place(at, usize::MAX));
    let hint = "save the file as UTF-8; is this the right file?";
    Diagnostic { place, ..Diagnostic::about(origin, "this is not UTF-8 text", hint) }.into()
}
