//! Finding the configuration.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{ConfigError, Diagnostic};

/// The variable that names the file, if no path is given.
const VARIABLE: &str = "CLUSTER_CONFIG_FILE";
const FILE_NAME: &str = "cluster.yaml";
const HOME_DIRECTORY: &str = ".ray_scheduler";
const SYSTEM_DIRECTORY: &str = "/etc/ray_scheduler";

/// The configuration file: the given one, or else the first that exists of
/// `$CLUSTER_CONFIG_FILE`, `cluster.yaml` in the working directory, in `~/.ray_scheduler` and in
/// `/etc/ray_scheduler`.
///
/// # Errors
/// If there is none, with the places that were tried. A file that is given as argument or by the
/// variable must exist: using another one would be a surprise.
pub fn find(
    explicit: Option<&Path>,
    env: impl IntoIterator<Item = (String, String)>,
    working_directory: &Path,
) -> Result<PathBuf, ConfigError> {
    find_in(explicit, env, working_directory, Path::new(SYSTEM_DIRECTORY))
}

fn find_in(
    explicit: Option<&Path>,
    env: impl IntoIterator<Item = (String, String)>,
    working_directory: &Path,
    system_directory: &Path,
) -> Result<PathBuf, ConfigError> {
    let (mut named, mut home) = (None, None);
    for (variable, value) in env {
        match variable.as_str() {
            VARIABLE if !value.is_empty() => named = Some(working_directory.join(value)),
            "HOME" if !value.is_empty() => home = Some(PathBuf::from(value)),
            _ => {}
        }
    }
    if let Some(path) = explicit {
        return must_exist(path, "check the path");
    }
    if let Some(path) = named {
        return must_exist(&path, &format!("${VARIABLE} names this file: correct it, or unset it"));
    }
    let mut candidates = vec![working_directory.to_owned()];
    candidates.extend(home.map(|home| home.join(HOME_DIRECTORY)));
    candidates.push(system_directory.to_owned());

    let mut tried = vec![format!("${VARIABLE} (not set)")];
    for directory in candidates {
        let path = directory.join(FILE_NAME);
        match look_at(&path) {
            Ok(()) => return Ok(path),
            Err(error) => tried.push(format!("{} ({})", path.display(), plain(&error))),
        }
    }
    let hint = format!("name it, or create one of these; looked at\n  {}", tried.join("\n  "));
    Err(Diagnostic::about(FILE_NAME, "no configuration file was found", hint).into())
}

fn must_exist(path: &Path, hint: &str) -> Result<PathBuf, ConfigError> {
    match look_at(path) {
        Ok(()) => Ok(path.to_owned()),
        Err(error) => Err(Diagnostic::about(&path.display().to_string(), plain(&error), hint).into()),
    }
}

fn look_at(path: &Path) -> io::Result<()> {
    if path.metadata()?.is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(()) }
}

fn plain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => "there is no such file".to_owned(),
        kind => kind.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Directories `work`, `home` and `etc` that are removed on drop.
    struct Directories(PathBuf);

    impl Directories {
        fn new(name: &str) -> Self {
            let root = std::env::temp_dir().join(format!("multicluster-find-{name}-{}", std::process::id()));
            for directory in ["work", "home/.ray_scheduler", "etc"] {
                fs::create_dir_all(root.join(directory)).unwrap();
            }
            Self(root)
        }

        fn put(&self, file: &str) -> PathBuf {
            let path = self.0.join(file);
            fs::write(&path, "").unwrap();
            path
        }

        fn find(&self, explicit: Option<&Path>, variable: &str) -> Result<PathBuf, ConfigError> {
            let home = self.0.join("home").display().to_string();
            let env = [("HOME".to_owned(), home), (VARIABLE.to_owned(), variable.to_owned())];
            find_in(explicit, env, &self.0.join("work"), &self.0.join("etc"))
        }
    }

    impl Drop for Directories {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_nearest_file_is_found() {
        let directories = Directories::new("nearest");
        let etc = directories.put("etc/cluster.yaml");
        assert_eq!(directories.find(None, "").unwrap(), etc);
        let home = directories.put("home/.ray_scheduler/cluster.yaml");
        assert_eq!(directories.find(None, "").unwrap(), home);
        let work = directories.put("work/cluster.yaml");
        assert_eq!(directories.find(None, "").unwrap(), work);
        let named = directories.put("named.yaml");
        assert_eq!(directories.find(None, &named.display().to_string()).unwrap(), named);
        assert_eq!(directories.find(Some(&etc), &named.display().to_string()).unwrap(), etc);
    }

    #[test]
    fn a_named_file_that_is_missing_is_not_replaced_by_another() {
        let directories = Directories::new("missing");
        directories.put("work/cluster.yaml");
        let missing = directories.0.join("missing.yaml");
        let error = directories.find(Some(&missing), "").unwrap_err().to_string();
        assert!(error.ends_with("missing.yaml: there is no such file\n  hint: check the path"), "{error}");
        let error = directories.find(None, &missing.display().to_string()).unwrap_err().to_string();
        assert!(error.contains("hint: $CLUSTER_CONFIG_FILE names this file"), "{error}");
        let error = directories.find(Some(&directories.0), "").unwrap_err().to_string();
        assert!(error.contains("is a directory"), "{error}");
    }

    #[test]
    fn where_it_looked_is_told() {
        let directories = Directories::new("nowhere");
        let error = directories.find(None, "").unwrap_err().to_string();
        insta::assert_snapshot!(error.replace(&directories.0.display().to_string(), ""), @"
        cluster.yaml: no configuration file was found
          hint: name it, or create one of these; looked at
            $CLUSTER_CONFIG_FILE (not set)
            /work/cluster.yaml (there is no such file)
            /home/.ray_scheduler/cluster.yaml (there is no such file)
            /etc/cluster.yaml (there is no such file)
        ");
    }
}
