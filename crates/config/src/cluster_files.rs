//! `cluster_files:`, files that describe clusters of their own.
//!
//! A wrong file harms only itself: its clusters stay as they last were valid, and everything else is
//! read. So the result is never an error, but says what was refused.

mod names;
mod pattern;
mod read;

use std::{
    collections::BTreeMap,
    fmt::Write,
    path::{Path, PathBuf},
};

use multicluster_types::{ClusterName, ClusterSpec};

use crate::{
    Config, Env,
    clusters::Names,
    diagnostic::{ConfigError, Diagnostic},
    outside::Outside,
    report::{MAX_DIAGNOSTICS, Report},
    tree::{Key, Node, Value},
};
use pattern::Pattern;
use read::{Content, Problems};

/// The key in `cluster.yaml`.
pub(crate) const KEY: &str = "cluster_files";

/// Many more than there are Ray clusters; a pattern that matches more is a mistake.
const MAX_FILES: usize = 1_000;
const MAX_PATTERNS: usize = 32;

/// The files of `cluster_files`, as they were found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Discovered {
    pub(crate) patterns: Vec<Pattern>,
    own: Own,
    /// In the order of their paths.
    pub files: Vec<ClusterFile>,
    /// What is wrong with files that cannot be used as they are.
    pub refused: Option<ConfigError>,
}

/// A file that describes clusters.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its name in messages.
    origin: String,
    /// The clusters that it stands for.
    pub clusters: Vec<ClusterSpec>,
    /// It cannot be used as it is: the clusters are those of its last valid content.
    pub is_refused: bool,
    /// Files whose content is part of it.
    needs: Vec<PathBuf>,
}

/// How much of a configuration is in `cluster.yaml` itself.
#[derive(Debug, Clone, Default, PartialEq)]
struct Own {
    clusters: usize,
    warnings: usize,
    files: usize,
    /// The lines of its clusters.
    lines: BTreeMap<ClusterName, u32>,
}

/// Reads the list of patterns.
pub(crate) fn patterns(
    key: &Key<'_>,
    node: &Node<'_>,
    outside: &Outside<'_>,
    report: &mut Report<'_>,
) -> Vec<Pattern> {
    const HINT: &str = "write a list of patterns: [clusters.d/*.yaml]";
    let items = match &node.value {
        Value::List(items) => items.as_slice(),
        _ if node.is_null() => &[],
        _ => {
            report.wrong_type(key, node, HINT);
            return Vec::new();
        }
    };
    if items.len() > MAX_PATTERNS {
        let message = format!("{} patterns, at most {MAX_PATTERNS} are allowed", items.len());
        report.error_at_key(key.at, message, "keep the files in few folders");
        return Vec::new();
    }
    let mut patterns = Vec::new();
    for item in items {
        match &item.value {
            Value::Scalar(scalar) if !item.is_null() => match Pattern::new(&scalar.text, outside) {
                Ok(pattern) => patterns.push(pattern),
                Err((message, hint)) => report.error(item.at, message, hint),
            },
            _ => report.error(item.at, format!("a pattern cannot be {}", item.kind()), HINT),
        }
    }
    patterns
}

impl Config {
    /// So far this is what `cluster.yaml` itself says.
    pub(crate) fn only_own(mut self) -> Self {
        let Own { clusters, warnings, files, .. } = &mut self.discovered.own;
        (*clusters, *warnings, *files) = (self.clusters.len(), self.warnings.len(), self.files.len());
        self
    }

    /// With the files of `cluster_files`. `path`: the configuration file; `before`: what was in force
    /// until now.
    pub(crate) fn discover(mut self, path: &Path, env: &Env, before: Option<&Config>) -> Self {
        if self.discovered.patterns.is_empty() {
            return self;
        }
        let before = before.map_or(&[][..], |before| before.discovered.files.as_slice());
        let mut problems = Problems::default();
        let paths = self.discovered.list(path, before, &mut problems, &mut self.warnings);
        let read = paths.into_iter().map(|path| Candidate::read(path, env, before)).collect();
        let own = self.discovered.own.lines.iter().map(|(name, line)| (name.clone(), *line)).collect();
        let config = shown(path);
        for (candidate, clusters) in names::settle(read, own, &config) {
            let is_refused = candidate.content.is_err();
            let mut needs = candidate.held.map_or_else(Vec::new, |held| held.needs.clone());
            match candidate.content {
                Ok(content) => {
                    self.warnings.extend(content.warnings);
                    needs = content.needs;
                }
                Err(wrong) => {
                    problems.add(wrong.error);
                    // A secret that is written after the file that names it.
                    needs.extend(wrong.needs);
                }
            }
            self.clusters.extend(clusters.iter().cloned());
            self.files.extend(needs.iter().cloned());
            let (path, origin) = (candidate.path, candidate.origin);
            self.discovered.files.push(ClusterFile { path, origin, clusters, is_refused, needs });
        }
        self.discovered.refused = problems.finish();
        self
    }

    /// What `cluster.yaml` itself says.
    pub(crate) fn own(&self) -> Self {
        let mut own = self.clone();
        let Own { clusters, warnings, files, .. } = own.discovered.own;
        own.clusters.truncate(clusters);
        own.warnings.truncate(warnings);
        own.files.truncate(files);
        own.discovered.files.clear();
        own.discovered.refused = None;
        own
    }
}

impl Discovered {
    /// The clusters of `cluster.yaml` itself.
    pub(crate) fn note_own(&mut self, names: &Names) {
        self.own.lines = names.iter().map(|(name, at)| (name.clone(), at.line)).collect();
    }

    /// Whether there are patterns: files may come and go.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// The files that are there now, in the order of their paths. Folders that cannot be read are
    /// left out.
    #[must_use]
    pub fn present(&self) -> Vec<PathBuf> {
        let listed = self.patterns.iter().filter_map(|pattern| pattern.list().ok());
        let mut paths: Vec<_> = listed.flatten().collect();
        paths.sort();
        paths.dedup();
        paths
    }

    /// All errors, and what became of the clusters; `None`: every file is in force as it is.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        let mut text = self.refused.as_ref()?.to_string();
        let mut refused = self.files.iter().filter(|file| file.is_refused);
        for file in refused.by_ref().take(MAX_SHOWN) {
            let names: Vec<_> = file.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
            // Writing to a String cannot fail.
            let _ = match names.as_slice() {
                [] => write!(text, "\n\n{}: it adds no cluster until it is valid", file.origin),
                names => write!(text, "\n\n{}: as it last was valid: {}", file.origin, names.join(", ")),
            };
        }
        if let more @ 1.. = refused.count() {
            let _ = write!(text, "\n\n… and {more} more files");
        }
        Some(text)
    }

    /// The files to read, in the order of their paths.
    fn list(
        &self,
        config: &Path,
        before: &[ClusterFile],
        problems: &mut Problems,
        warnings: &mut Vec<Diagnostic>,
    ) -> Vec<PathBuf> {
        let config = config.canonicalize().ok();
        let mut paths = Vec::new();
        for pattern in &self.patterns {
            match pattern.list() {
                Ok(listed) => {
                    // `*.yaml` may match `cluster.yaml` itself.
                    let is_other = |path: &PathBuf| config.is_none() || path.canonicalize().ok() != config;
                    let listed: Vec<_> = listed.filter(is_other).collect();
                    if listed.is_empty() {
                        let hint = "fine if there are no such clusters now; check the pattern otherwise";
                        warnings.push(Diagnostic::about(&pattern.to_string(), "no file matches", hint));
                    }
                    paths.extend(listed);
                }
                Err((message, hint)) => {
                    problems.add(Diagnostic::about(&pattern.to_string(), message, hint).into());
                    // It says nothing about its files: they may well be there.
                    paths
                        .extend(before.iter().map(|file| &file.path).filter(|f| pattern.matches(f)).cloned());
                }
            }
        }
        paths.sort();
        paths.dedup();
        if paths.len() > MAX_FILES {
            let origin: Vec<_> = self.patterns.iter().map(ToString::to_string).collect();
            let message = format!("{} files match, at most {MAX_FILES} are read", paths.len());
            let hint = "check the pattern; one file may describe several clusters";
            problems.add(Diagnostic::about(&origin.join(", "), message, hint).into());
            // Clusters that are there do not leave because of files that come.
            paths.sort_by_cached_key(|path| !before.iter().any(|file| file.path == *path));
            paths.truncate(MAX_FILES);
            paths.sort();
        }
        paths
    }
}

/// A file that was found.
struct Candidate<'a> {
    path: PathBuf,
    origin: String,
    /// As it was until now.
    held: Option<&'a ClusterFile>,
    content: Result<Content, read::Wrong>,
}

impl<'a> Candidate<'a> {
    fn read(path: PathBuf, env: &Env, before: &'a [ClusterFile]) -> Self {
        let origin = shown(&path);
        let content = read::file(&path, &origin, env);
        let held = before.iter().find(|file| file.path == path);
        Self { path, origin, held, content }
    }
}

/// A path for messages: names of files may contain anything.
fn shown(path: &Path) -> String {
    let path = path.strip_prefix(".").unwrap_or(path);
    path.display().to_string().chars().map(crate::source::printable).collect()
}

/// At most this many errors are shown.
const MAX_SHOWN: usize = MAX_DIAGNOSTICS;
