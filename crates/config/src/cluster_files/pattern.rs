//! `clusters.d/*.yaml`: a folder, and which names in it.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use crate::outside::{Outside, Refused};

/// A pattern of `cluster_files`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pattern {
    folder: PathBuf,
    /// Of the files, with `*` and `?`.
    name: String,
}

/// A folder with more entries is not one of cluster files, and is looked through every second.
const MAX_ENTRIES: usize = 10_000;
/// No path is longer on Linux.
const MAX_BYTES: usize = 4_096;

impl Pattern {
    pub(super) fn new(text: &str, outside: &Outside<'_>) -> Result<Self, Refused> {
        let refuse = |message: &str, hint: &str| Err((format!("cluster_files: {message}"), hint.to_owned()));
        const EXAMPLE: &str = "write a folder and a pattern for the names in it: clusters.d/*.yaml";
        if text.len() > MAX_BYTES {
            return refuse("this is too long for a path", EXAMPLE);
        }
        let Some(path) = outside.path(text) else {
            return refuse("this is not a path", EXAMPLE);
        };
        let (above, name) = text.rsplit_once('/').unwrap_or(("", text));
        if name.is_empty() || name == "." || name == ".." {
            return refuse("this names a folder, not files", EXAMPLE);
        }
        if above.contains(['*', '?']) {
            return refuse("`*` and `?` may only be in the name of the file", EXAMPLE);
        }
        if name.contains(['[', ']', '{', '}']) || name.contains("**") {
            return refuse("only `*` (any characters) and `?` (one) have a meaning", EXAMPLE);
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        Ok(Self { folder: folder.unwrap_or(Path::new(".")).to_owned(), name: name.to_owned() })
    }

    /// The files that match, in no order.
    pub(super) fn list(&self) -> Result<impl Iterator<Item = PathBuf> + use<>, Refused> {
        let refused = |error: std::io::Error| {
            let hint = "create the folder, or check its permissions; its clusters stay until it can be read";
            (format!("the folder cannot be read: {error}"), hint.to_owned())
        };
        let mut found = Vec::new();
        for (nth, entry) in fs::read_dir(&self.folder).map_err(refused)?.enumerate() {
            if nth == MAX_ENTRIES {
                let message = format!("the folder has more than {MAX_ENTRIES} entries");
                return Err((message, "keep files of clusters in a folder of their own".to_owned()));
            }
            let name = entry.map_err(refused)?.file_name();
            if self.has_name(&name.to_string_lossy()) {
                found.push(self.folder.join(name));
            }
        }
        Ok(found.into_iter())
    }

    pub(super) fn matches(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default();
        path.parent() == Some(&self.folder) && self.has_name(&name.to_string_lossy())
    }

    /// As in a shell: what begins with a dot is hidden. That is `..data` of Kubernetes, and a file
    /// that is being written.
    fn has_name(&self, name: &str) -> bool {
        name.starts_with('.') == self.name.starts_with('.') && fits(&self.name, name)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&super::shown(&self.folder.join(&self.name)))
    }
}

/// In time `pattern × name`, whatever they are: the last `*` is the only one that may have to take more.
fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == '?' || c == name[n] => (p, n) = (p + 1, n + 1),
            _ => {
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                (p, n) = (at + 1, taken + 1);
            }
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_what_it_means_in_a_shell() {
        let all = |pattern: &str, names: &[&str], fit: bool| {
            for name in names {
                assert_eq!(fits(pattern, name), fit, "{pattern} {name}");
            }
        };
        all("*.yaml", &["a.yaml", ".yaml", "a.yaml.yaml", "é.yaml"], true);
        all("*.yaml", &["a.yml", "a.yaml~", "yaml", "", "a.yamlx"], false);
        all("a?c*", &["abc", "abcd", "aéc"], true);
        all("a?c*", &["ac", "abd", "a"], false);
        all("*a*b", &["ab", "xaxb", "aab", "abab"], true);
        all("*a*b", &["a", "ba", "abx"], false);
        all("plain.yaml", &["plain.yaml"], true);
        // Not in exponential time.
        assert!(!fits(&"*a".repeat(100), &"a".repeat(99)));
    }
}
