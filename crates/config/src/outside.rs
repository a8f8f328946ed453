//! Sources outside of a configuration, where secrets are best kept: environment variables and files.
//!
//! No message contains their values.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use crate::{
    report::{Report, plain},
    tree::{Key, Kind, Node, Scalar, Value},
};

/// The environment and files around a configuration.
#[derive(Debug)]
pub(crate) struct Outside<'a> {
    pub(crate) env: &'a BTreeMap<String, String>,
    /// The configuration's own folder; `None` for text without a file.
    pub(crate) folder: Option<&'a Path>,
    /// The files that variables of a `runtime_env` were read from.
    pub(crate) read: RefCell<Vec<PathBuf>>,
    /// The files that could not be read.
    pub(crate) missed: RefCell<Vec<PathBuf>>,
}

/// The error, and the hint.
pub(crate) type Refused = (String, String);

/// Linux accepts no longer text as a variable, and no proxy a longer header.
const MAX_SECRET_BYTES: usize = 128 << 10;

impl<'a> Outside<'a> {
    pub(crate) fn new(env: &'a BTreeMap<String, String>, folder: Option<&'a Path>) -> Self {
        Self { env, folder, read: RefCell::default(), missed: RefCell::default() }
    }

    /// The text of an entry: as written, or from `{env: VARIABLE}` or `{file: PATH}`, which makes
    /// it a secret. Errors are reported.
    pub(crate) fn text<'n>(
        &self,
        name: &Key<'_>,
        value: &'n Node<'_>,
        hint: &str,
        report: &mut Report<'_>,
    ) -> Option<Text<'n>> {
        let found = match &value.value {
            Value::Scalar(scalar) if scalar.kind != Kind::Null => return Some(Text::Written(scalar)),
            Value::Map(entries) => match entries.as_slice() {
                [(key, Node { value: Value::Scalar(from), .. })] => match key.text.as_ref() {
                    "env" => Some(self.variable(&from.text).map(|secret| (secret, None))),
                    "file" => Some(self.file(&from.text).map(|(secret, path)| (secret, Some(path)))),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        };
        match found {
            // Editors end a file with a newline that is not part of the value.
            Some(Ok((secret, file))) => {
                Some(Text::Secret { text: secret.trim_end_matches(['\n', '\r']).to_owned(), file })
            }
            Some(Err((message, hint))) => {
                report.error_at_key(name.at, format!("{}: {message}", plain(&name.text)), hint);
                None
            }
            None => {
                report.wrong_type(name, value, hint);
                None
            }
        }
    }

    /// The value of a variable.
    pub(crate) fn variable(&self, name: &str) -> Result<String, Refused> {
        // The user may have put the secret itself here: only a plain name is repeated.
        let is_plain =
            name.len() <= 40 && name.bytes().all(|b| matches!(b, b'A'..=b'Z' | b'0'..=b'9' | b'_'));
        let shown = if is_plain && !name.is_empty() { name } else { "named there" };
        self.env.get(name).cloned().ok_or_else(|| {
            if self.folder.is_none() && self.env.is_empty() {
                return not_here();
            }
            let hint =
                "export it before the control plane starts; write the name of a variable, not its value";
            (format!("the environment variable {shown} is not set"), hint.to_owned())
        })
    }

    /// The content of a file, and its absolute path.
    pub(crate) fn file(&self, text: &str) -> Result<(String, PathBuf), Refused> {
        let Some(path) = self.path(text) else {
            return Err((
                "this is not a path".to_owned(),
                "write the path of a file with the secret".to_owned(),
            ));
        };
        if self.folder.is_none() {
            return Err(not_here());
        }
        let content = read_bounded(&path).map_err(|error| {
            self.missed.borrow_mut().push(std::path::absolute(&path).unwrap_or_else(|_| path.clone()));
            let hint = "check the path and its permissions; a relative path begins at this file's folder";
            (format!("the file cannot be read: {error}"), hint.to_owned())
        })?;
        Ok((content, std::path::absolute(&path).unwrap_or(path)))
    }

    /// The program of a command: a name is looked up in `PATH` when it is run; anything with a `/`
    /// is a path.
    pub(crate) fn program(&self, text: &str) -> Result<String, Refused> {
        if self.folder.is_none() {
            let hint = "send the token itself, or describe the cluster in the file of the control plane";
            return Err(("no commands are run from here".to_owned(), hint.to_owned()));
        }
        if !text.contains('/') {
            return Ok(text.to_owned());
        }
        let path = self.path(text).unwrap_or_else(|| text.into());
        Ok(std::path::absolute(&path).unwrap_or(path).to_string_lossy().into_owned())
    }

    /// A path as people write it: `~/…`, or relative to the configuration's folder.
    pub(crate) fn path(&self, text: &str) -> Option<PathBuf> {
        if text.is_empty() || text.contains('\0') {
            return None;
        }
        let home = || self.env.get("HOME").filter(|home| home.starts_with('/'));
        match (text.strip_prefix("~/"), home()) {
            (Some(rest), Some(home)) => Some(Path::new(home).join(rest)),
            // An absolute path stays as it is when joined.
            _ => Some(self.folder.map_or_else(|| text.into(), |folder| folder.join(text))),
        }
    }
}

/// The text of an entry, and whether it may be shown.
pub(crate) enum Text<'n> {
    Written(&'n Scalar<'n>),
    Secret {
        text: String,
        /// The file that it was read from.
        file: Option<PathBuf>,
    },
}

impl Text<'_> {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Text::Written(scalar) => &scalar.text,
            Text::Secret { text, .. } => text,
        }
    }
}

/// A text sent by a caller means the caller's files and variables, not ours.
fn not_here() -> Refused {
    let hint = "send the value itself, or describe the cluster in the file of the control plane";
    ("neither files nor variables are read here".to_owned(), hint.to_owned())
}

fn read_bounded(path: &Path) -> io::Result<String> {
    // Anything but a regular file may block, or never end.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut text = String::new();
    File::open(path)?.take(MAX_SECRET_BYTES as u64 + 1).read_to_string(&mut text)?;
    if text.len() > MAX_SECRET_BYTES {
        return Err(io::Error::other(format!("it is larger than {} KiB", MAX_SECRET_BYTES >> 10)));
    }
    if text.contains('\0') {
        return Err(io::Error::other("it is not a text"));
    }
    Ok(text)
}
