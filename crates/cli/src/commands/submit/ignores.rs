//! Which files of a folder are not packed, by Ray's rules.
//!
//! Patterns are those of git: from `excludes` of the runtime_env, from Ray's defaults, and from
//! `.gitignore` and `.rayignore` of every folder on the way. Each list is applied separately: a
//! `!pattern` takes back what its own list excludes, never what another one does.

use std::path::{Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Ray's defaults for a working_dir.
const USUAL: &str = ".git,.venv,venv,__pycache__";
const FILES: [&str; 2] = [".gitignore", ".rayignore"];

/// The patterns of one list, for paths below one folder.
pub(super) struct Ignores {
    /// Relative to the packed folder.
    base: PathBuf,
    patterns: Gitignore,
}

impl Ignores {
    /// For a Python package: files compiled here are useless there.
    pub(super) fn of_module(excludes: &[String]) -> Self {
        let usual = std::iter::once("__pycache__".to_owned());
        Self::new(Path::new(""), usual.chain(excludes.iter().cloned()))
    }

    /// For a working_dir: Ray's defaults and the job's own.
    pub(super) fn of_working_dir(excludes: &[String]) -> Self {
        let usual = std::env::var("RAY_OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES");
        let usual = usual.unwrap_or_else(|_| USUAL.to_owned());
        let usual = usual.split(',').map(|pattern| pattern.trim().to_owned());
        Self::new(Path::new(""), usual.chain(excludes.iter().cloned()))
    }

    /// The ignore lists in a folder; `name` is the folder's path within the package.
    pub(super) fn of_folder(folder: &Path, name: &Path) -> impl Iterator<Item = Self> {
        let without_git = std::env::var_os("RAY_RUNTIME_ENV_IGNORE_GITIGNORE").is_some_and(|set| set == "1");
        let files = FILES.into_iter().filter(move |file| !(without_git && *file == ".gitignore"));
        files.filter_map(|file| {
            let text = std::fs::read(folder.join(file)).ok()?;
            let text = String::from_utf8_lossy(&text);
            Some(Self::new(name, text.lines().map(str::to_owned)))
        })
    }

    fn new(base: &Path, lines: impl Iterator<Item = String>) -> Self {
        let mut builder = GitignoreBuilder::new("");
        // A lone slash matches nothing in git, but everything in this library.
        for line in lines.filter(|line| line.trim() != "/") {
            // A pattern that git cannot parse matches nothing, in git as here.
            let _ = builder.add_line(None, &line);
        }
        Self { base: base.to_owned(), patterns: builder.build().unwrap_or_else(|_| Gitignore::empty()) }
    }

    /// Is this file left out?
    pub(super) fn leaves_out(&self, name: &Path) -> bool {
        let inner = name.strip_prefix(&self.base).unwrap_or(name);
        self.patterns.matched_path_or_any_parents(inner, false).is_ignore()
    }

    /// Is the whole folder left out?
    pub(super) fn leaves_out_all_of(&self, name: &Path) -> bool {
        let inner = name.strip_prefix(&self.base).unwrap_or(name);
        if inner.as_os_str().is_empty() {
            // As in Ray: a `*` also matches the folder that the list is for, and all of its content.
            return self.patterns.matched(".", false).is_ignore();
        }
        // `data/` excludes the files below it one by one, and a pattern may take some of them back.
        let is_left_out = |is_dir| self.patterns.matched_path_or_any_parents(inner, is_dir).is_ignore();
        is_left_out(false) || (self.patterns.num_whitelists() == 0 && is_left_out(true))
    }
}
