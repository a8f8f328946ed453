//! One file of `cluster_files`.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use multicluster_types::{ClusterName, ClusterSpec};

use super::MAX_SHOWN;
use crate::{
    Env, FILE_KEYS,
    clusters::{self, Names},
    diagnostic::{ConfigError, Diagnostic, Place},
    outside::Outside,
    report::Report,
    source::{Mark, Source},
    tree::{self, Node, Value},
};

/// What a valid file says.
pub(super) struct Content {
    pub(super) clusters: Vec<ClusterSpec>,
    /// Where the name of each cluster is.
    pub(super) places: BTreeMap<ClusterName, Place>,
    pub(super) warnings: Vec<Diagnostic>,
    /// Files whose content is part of it.
    pub(super) needs: Vec<PathBuf>,
}

/// Why a file cannot be used.
pub(super) struct Wrong {
    pub(super) error: ConfigError,
    /// Files that it names: one may be missing only for a moment.
    pub(super) needs: Vec<PathBuf>,
}

/// A hundred clusters need about 50 KiB.
const MAX_BYTES: usize = 1 << 20;

const HINT: &str = "list the clusters of this file:\n  clusters:\n    - name: centos\n      head_address: 192.168.5.7:10001\n      dashboard: http://192.168.5.7:8265";

pub(super) fn file(path: &Path, origin: &str, env: &Env) -> Result<Content, Wrong> {
    let bytes = bytes(path).map_err(|(message, hint)| Diagnostic::about(origin, message, hint))?;
    if bytes.len() > MAX_BYTES {
        let message = format!("the file is larger than {} MiB", MAX_BYTES >> 20);
        return Err(Diagnostic::about(origin, message, "is this the right file?").into());
    }
    match std::str::from_utf8(&bytes) {
        Ok(text) => content(text, origin, path.parent(), env),
        Err(error) => Err(crate::not_text(origin, &bytes, error.valid_up_to()).into()),
    }
}

/// At most one byte more than is accepted.
fn bytes(path: &Path) -> Result<Vec<u8>, (String, &'static str)> {
    let unreadable = |error: io::Error| {
        (format!("cannot be read: {error}"), "check the file and its permissions; a link must lead to a file")
    };
    // Links within the folder are how Kubernetes replaces all files of a mount at once. A link to
    // elsewhere would let anyone who may write here show files that only the control plane can read.
    let real = path.canonicalize().map_err(unreadable)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !real.starts_with(folder.canonicalize().map_err(unreadable)?) {
        let hint = "put the file itself there, or name its own folder in cluster_files";
        return Err(("a symbolic link that leads out of its folder".to_owned(), hint));
    }
    let found = fs::metadata(&real).map_err(unreadable)?;
    // Anything but a regular file may block, or never end.
    if !found.is_file() {
        let kind = if found.is_dir() { "a folder" } else { "neither a file nor a folder" };
        return Err((format!("this is {kind}, not a file"), "move it elsewhere, or narrow the pattern"));
    }
    crate::read_bounded(&real, MAX_BYTES).map_err(unreadable)
}

fn content(text: &str, origin: &str, folder: Option<&Path>, env: &Env) -> Result<Content, Wrong> {
    let outside = Outside::new(env, folder);
    let mut report = Report::new(Source::new(origin, text));
    let (mut clusters, mut names) = (Vec::new(), Names::new());
    if let Some(root) = tree::parse(text, &mut report) {
        (clusters, names) = root_of(&root, &outside, &mut report);
    }
    let places = names.iter().map(|(name, at)| (name.clone(), report.place(*at))).collect();
    let mut needs = outside.read.into_inner();
    match report.finish(|warnings| warnings) {
        Ok(warnings) => Ok(Content { clusters, places, warnings, needs }),
        Err(error) => {
            needs.extend(outside.missed.into_inner());
            Err(Wrong { error, needs })
        }
    }
}

/// `clusters:` and nothing else.
fn root_of(root: &Node<'_>, outside: &Outside<'_>, report: &mut Report<'_>) -> (Vec<ClusterSpec>, Names) {
    let mut found = None;
    let Value::Map(entries) = &root.value else {
        // A file that is empty is being written more often than it means that there are no clusters.
        let (at, message) = match root.is_null() {
            true => (Mark::START, "the file is empty".to_owned()),
            false => (root.at, format!("the file should be a mapping with `clusters:`, not {}", root.kind())),
        };
        report.error(at, message, HINT);
        return Default::default();
    };
    for (key, value) in entries {
        match key.text.as_ref() {
            "clusters" if value.is_null() => {
                report.error_at_key(key.at, "`clusters:` is empty", "write `clusters: []` if there are none");
                found = Some(Default::default());
            }
            "clusters" if clusters::is_empty(value) => found = Some(Default::default()),
            "clusters" => found = Some(clusters::read(key, value, outside, report)),
            name if FILE_KEYS.iter().any(|(known, ..)| *known == name) => {
                let message = format!("{name} does not belong in a file of cluster_files");
                report.error_at_key(
                    key.at,
                    message,
                    "move it to cluster.yaml; only `clusters:` is read here",
                );
            }
            _ => report.unknown_key(key, "a file of cluster_files", ["clusters"]),
        }
    }
    if found.is_none() {
        report.error(root.at, "there is no `clusters:`", HINT);
    }
    found.unwrap_or_default()
}

/// What is wrong with all files together.
#[derive(Default)]
pub(super) struct Problems {
    diagnostics: Vec<Diagnostic>,
    omitted: usize,
}

impl Problems {
    pub(super) fn add(&mut self, error: ConfigError) {
        self.omitted += error.omitted;
        for diagnostic in error.diagnostics {
            match self.diagnostics.len() < MAX_SHOWN {
                true => self.diagnostics.push(diagnostic),
                false => self.omitted += 1,
            }
        }
    }

    pub(super) fn finish(self) -> Option<ConfigError> {
        let Self { diagnostics, omitted } = self;
        (!diagnostics.is_empty()).then_some(ConfigError { diagnostics, omitted, in_policies: 0 })
    }
}

impl From<Diagnostic> for Wrong {
    fn from(only: Diagnostic) -> Self {
        Self { error: only.into(), needs: Vec::new() }
    }
}
