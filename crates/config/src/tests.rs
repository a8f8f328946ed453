//! Whole files: accepted ones, refused ones with their errors, and what is never shown.

mod cluster_files;
mod connection;
mod elastic;
mod environment;
mod hostile;
mod mistakes;
mod policies;
mod secrets;
mod shares;
mod sso;
mod valid;

use std::{fs, path::PathBuf};

use crate::{Config, ConfigError, Diagnostic};

const NO_ENV: [(String, String); 0] = [];

fn parse(text: &str) -> Result<Config, ConfigError> {
    crate::parse(text, "cluster.yaml", NO_ENV)
}

fn ok(text: &str) -> Config {
    parse(text).unwrap_or_else(|error| panic!("{error}"))
}

fn errors(text: &str) -> Vec<Diagnostic> {
    parse(text).expect_err("should be refused").diagnostics
}

/// The only error.
fn error(text: &str) -> Diagnostic {
    let mut errors = errors(text);
    assert_eq!(errors.len(), 1, "{errors:#?}");
    errors.remove(0)
}

fn line(diagnostic: &Diagnostic) -> u32 {
    diagnostic.place.as_ref().expect("has a place").line
}

/// The file has one error: at `line:column`, with this message and this hint.
fn assert_told(text: &str, place_and_message: &str, hint: &str) {
    let error = error(text);
    let place = error.place.as_ref().unwrap();
    assert_eq!(format!("{}:{} {}", place.line, place.column, error.message), place_and_message, "{text}");
    assert_eq!(error.hint.lines().next(), Some(hint), "{text}");
}

/// A file with one cluster, on lines 1 to 4, and more after it.
fn centos(more: &str) -> String {
    format!(
        "clusters:\n  - name: centos\n    head_address: 192.168.5.7:32546\n    dashboard: http://192.168.5.7:31591\n{more}"
    )
}

/// A folder of one test, with a configuration and the files it refers to.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("multicluster-config-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// The path of a file with this content.
    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
