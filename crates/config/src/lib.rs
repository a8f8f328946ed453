//! `cluster.yaml` and the `SCHEDULER_*` environment as typed settings.
//!
//! Text goes in, a [`Config`] or a [`ConfigError`] comes out. Every error points at the line, and all
//! errors of a file are reported at once. Only [`load`] (with the files of secrets and of clusters that
//! the text names) and [`find`] read files, and nothing here reads the process environment: it is
//! passed in.
//!
//! ```text
//! text ─ tree ─┬─ clusters ─ runtime_env, address, connection ─┐
//!              ├─ cluster_files ─ files, as text above ────────┤
//!              ├─ scheduler ─ policies ────────────────────────┼─ Config
//!              ├─ shares ──────────────────────────────────────┤
//!              └─ sso ─────────────────────────────────────────┤
//! environment ─ env ───────────────────────────────────────────┘
//! ```
//!
//! [`reference()`] renders the same tables as Markdown for the docs.

mod address;
mod cluster_files;
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
    collections::BTreeMap,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use multicluster_types::{ClusterSpec, Settings, Sso};

pub use cluster_files::{ClusterFile, Discovered};
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
    /// The clusters in the order of the file, then those of the files in `discovered`. At least one,
    /// unless the file has `cluster_files`; no name twice.
    pub clusters: Vec<ClusterSpec>,
    /// Who is signed on by a proxy or a JWT.
    pub sso: Sso,
    /// Warnings for the operator.
    pub warnings: Vec<Diagnostic>,
    /// Files whose content is part of this: variables of a `runtime_env` come from them. Read the
    /// configuration again when one changes. Files of tokens and headers are not among them: who
    /// uses those reads them again.
    pub files: Vec<PathBuf>,
    /// Clusters described in files of their own.
    pub discovered: Discovered,
}

/// The largest file read. A pool of a hundred clusters needs about 50 KiB.
const MAX_FILE_BYTES: usize = 4 << 20;

/// The environment as it is passed in.
type Env = BTreeMap<String, String>;

/// Reads a file, and the files of clusters that it names. `env` is the environment:
/// `std::env::vars_os()`, without values that are not Unicode (`std::env::vars()` panics on those).
///
/// # Errors
/// If the file cannot be read, or for any error of [`parse`]. A wrong file of `cluster_files` is no
/// error: see [`Discovered::refused`].
pub fn load(path: &Path, env: impl IntoIterator<Item = (String, String)>) -> Result<Config, ConfigError> {
    let env = env.into_iter().collect();
    Ok(load_own(path, &env)?.discover(path, &env, None))
}

/// Reads a file again. The clusters of a file of `cluster_files` that cannot be used any more are
/// those that `before` has.
///
/// # Errors
/// As [`load`].
pub fn load_again(
    before: &Config,
    path: &Path,
    env: impl IntoIterator<Item = (String, String)>,
) -> Result<Config, ConfigError> {
    let env = env.into_iter().collect();
    Ok(load_own(path, &env)?.discover(path, &env, Some(before)))
}

/// Reads only the files of `cluster_files` again: for a file that itself cannot be used any more.
#[must_use]
pub fn look_again(before: &Config, path: &Path, env: impl IntoIterator<Item = (String, String)>) -> Config {
    before.own().discover(path, &env.into_iter().collect(), Some(before))
}

/// Without the files of `cluster_files`.
fn load_own(path: &Path, env: &Env) -> Result<Config, ConfigError> {
    let origin = path.display().to_string();
    let bytes = read_bounded(path, MAX_FILE_BYTES).map_err(|error| {
        let message = format!("cannot be read: {error}");
        ConfigError::from(Diagnostic::about(&origin, message, "check the path and its permissions"))
    })?;
    match std::str::from_utf8(&bytes) {
        Ok(text) => parse_in(text, &origin, path.parent(), env),
        Err(_) if bytes.len() > MAX_FILE_BYTES => Err(too_large(&origin).into()),
        Err(error) => Err(not_text(&origin, &bytes, error.valid_up_to()).into()),
    }
}

/// Reads text. `origin` names it in errors: the file's path as the user knows it. No other file
/// is read: a `token_file` or `{file: …}` is refused, because it would be unclear which folder it
/// is relative to, and the files of `cluster_files` are left out.
///
/// # Errors
/// All errors of the text and the environment, each with its place and a hint.
pub fn parse(
    text: &str,
    origin: &str,
    env: impl IntoIterator<Item = (String, String)>,
) -> Result<Config, ConfigError> {
    parse_in(text, origin, None, &env.into_iter().collect())
}

fn parse_in(text: &str, origin: &str, folder: Option<&Path>, env: &Env) -> Result<Config, ConfigError> {
    if text.len() > MAX_FILE_BYTES {
        return Err(too_large(origin).into());
    }
    let outside = Outside::new(env, folder);
    let mut report = Report::new(Source::new(origin, text));
    let mut config = Config {
        settings: Settings::default(),
        clusters: Vec::new(),
        sso: Sso::default(),
        warnings: Vec::new(),
        files: Vec::new(),
        discovered: Discovered::default(),
    };
    if let Some(root) = tree::parse(text, &mut report) {
        read_file(&root, &outside, &mut config, &mut report);
    }
    env::apply(env, &mut config.settings, &mut report);
    config.files = outside.read.into_inner();
    report.finish(|warnings| Config { warnings, ..config }.only_own())
}

/// The keys that a cluster may have.
pub fn cluster_keys() -> impl Iterator<Item = &'static str> {
    clusters::KEYS.iter().map(|key| key.name)
}

/// The keys of the file: name, what to write, default, meaning.
const FILE_KEYS: [(&str, &str, Option<&str>, &str); 6] = [
    (
        "clusters",
        "a list of clusters",
        None,
        "The clusters, each with the keys below. May be left out beside `cluster_files`.",
    ),
    (
        "cluster_files",
        "a list of patterns, such as `clusters.d/*.yaml`",
        Some("[]"),
        "Files that describe more clusters: [discovery](discovery.md). A relative pattern begins at the folder of \
         the file.",
    ),
    ("scheduler", "a mapping", Some("{}"), "The settings of the pool."),
    ("shares", "a mapping", Some("{}"), "How owners [share the pool](sharing.md)."),
    ("trusted_proxy", "a mapping", Some("none"), "Single sign-on [by a proxy](access.md)."),
    ("jwt", "a list of issuers", Some("[]"), "Single sign-on [by a JWT](access.md)."),
];
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
    let has_files = entries.iter().any(|(key, _)| key.text == cluster_files::KEY);
    for (key, value) in entries {
        match key.text.as_ref() {
            "clusters" => {
                listed = true;
                if has_files && clusters::is_empty(value) {
                    continue;
                }
                let names;
                (config.clusters, names) = clusters::read(key, value, outside, report);
                config.discovered.note_own(&names);
            }
            cluster_files::KEY => {
                config.discovered.patterns = cluster_files::patterns(key, value, outside, report);
            }
            "scheduler" => scheduler::read(key, value, &mut config.settings, report),
            "shares" => {
                if let Some(shares) = shares::read(key, value, report) {
                    config.settings.shares = shares;
                }
            }
            "trusted_proxy" => config.sso.trusted_proxy = sso::trusted_proxy(key, value, report),
            "jwt" => config.sso.jwt = sso::jwt(key, value, outside, report),
            _ => report.unknown_key(key, "the file", FILE_KEYS.map(|(name, ..)| name)),
        }
    }
    if !listed && !has_files {
        report.error(root.at, "there is no `clusters:`", CLUSTERS_HINT);
    }
}

/// Reads at most one byte more than is accepted, whatever the path leads to.
fn read_bounded(path: &Path, most: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn too_large(origin: &str) -> Diagnostic {
    let message = format!("the file is larger than {} MiB", MAX_FILE_BYTES >> 20);
    Diagnostic::about(origin, message, "is this the right file? A cluster.yaml has a few hundred lines")
}

/// `valid`: how many bytes are text.
fn not_text(origin: &str, bytes: &[u8], valid: usize) -> Diagnostic {
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
    Diagnostic { place, ..Diagnostic::about(origin, "this is not UTF-8 text", hint) }
}
