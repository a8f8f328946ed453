//! The archive: bounded members without secrets.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs::OpenOptions,
    io::{self, Cursor, Write as _},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use multicluster_server::redact_text;
use multicluster_types::REDACTED;
use serde::Serialize;
use serde_json::Value;
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use crate::exit::{Exit, Failure};

/// The most bytes of one member, before it is compressed.
const MOST_BYTES: usize = 4 << 20;
/// Shorter secrets would match everywhere.
const SHORTEST_SECRET: usize = 6;

const README: &str = "\
What ray-multicluster debug-dump collected, to find out why something does not work.

Secrets are removed and shown as <redacted>: tokens, headers, passwords in URLs, variables and options whose
name suggests a secret. Logs of jobs are not included. A secret that neither its name nor its shape gives away,
such as a bare word in the command of a job, cannot be recognized: look through jobs.jsonl before you send this.
";

/// The members, and what could not be collected.
#[derive(Default)]
pub(super) struct Archive {
    members: Vec<Member>,
    /// What is missing, and why.
    pub(super) missing: Vec<(String, String)>,
    /// Texts that no member may contain.
    secrets: BTreeSet<String>,
}

struct Member {
    name: &'static str,
    about: &'static str,
    text: String,
}

impl Archive {
    /// Texts that are known to be secrets: removed from every member.
    pub(super) fn hide(&mut self, secrets: impl IntoIterator<Item = String>) {
        let secrets = secrets.into_iter().map(|secret| secret.trim().to_owned());
        // Plain, and as it is written within JSON.
        let written =
            |secret: String| [Value::from(&*secret).to_string().trim_matches('"').to_owned(), secret];
        let long = secrets.filter(|secret| secret.len() >= SHORTEST_SECRET);
        self.secrets.extend(long.flat_map(written));
    }

    pub(super) fn text(&mut self, name: &'static str, about: &'static str, text: &str) {
        // Line by line: an open quote in one line says nothing about the next.
        let lines: Vec<_> = text.lines().map(redact_text).collect();
        self.members.push(Member { name, about, text: lines.join("\n") + "\n" });
    }

    /// One document.
    pub(super) fn json(&mut self, name: &'static str, about: &'static str, value: &impl Serialize) {
        let value = redacted(serde_json::to_value(value).expect("answers are JSON"));
        self.members.push(Member { name, about, text: format!("{value:#}\n") });
    }

    /// One document for each line.
    pub(super) fn lines(
        &mut self,
        name: &'static str,
        about: &'static str,
        items: impl IntoIterator<Item = Value>,
    ) {
        let text = items.into_iter().map(|item| format!("{}\n", redacted(item))).collect();
        self.members.push(Member { name, about, text });
    }

    pub(super) fn miss(&mut self, name: &str, why: &impl ToString) {
        self.missing.push((name.to_owned(), why.to_string()));
    }

    /// Writes the file and returns its size. Only its owner may read it.
    pub(super) fn write(mut self, file: &Path) -> Result<usize, Failure> {
        let readme = self.readme();
        self.members.insert(0, Member { name: "README.txt", about: "", text: readme });
        let secrets = std::mem::take(&mut self.secrets);
        let pack = || -> io::Result<Vec<u8>> {
            let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
            let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
            for Member { name, text, .. } in self.members {
                zip.start_file(name, options)?;
                zip.write_all(bounded(hidden(text, &secrets)).as_bytes())?;
            }
            Ok(zip.finish()?.into_inner())
        };
        let save = |packed: &[u8]| {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o600).open(file)?.write_all(packed)
        };
        let written = pack().and_then(|packed| save(&packed).map(|()| packed.len()));
        written.map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::AlreadyExists => "name another file, or remove this one",
                _ => "name a file in a folder that you can write to: ray-multicluster debug-dump FILE",
            };
            Failure::new(Exit::BadInput, format!("cannot write {}: {error}", file.display())).hint(hint)
        })
    }

    fn readme(&self) -> String {
        let mut text =
            format!("{README}\nWritten at {}.\n\n", Timestamp::now().strftime("%Y-%m-%d %H:%M:%S UTC"));
        for Member { name, about, .. } in &self.members {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name:<20} {about}");
        }
        if !self.missing.is_empty() {
            text += "\nMissing:\n";
        }
        for (name, why) in &self.missing {
            let _ = writeln!(text, "{name}: {}", redact_text(why).replace('\n', "\n    "));
        }
        text
    }
}

pub(super) fn default_name() -> PathBuf {
    format!("ray-multicluster-debug-{}.zip", Timestamp::now().strftime("%Y%m%d-%H%M%S")).into()
}

/// Every text in it without secrets. The control plane has redacted its answers already; this covers
/// one of an earlier version too.
fn redacted(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(redact_text(&text)),
        Value::Array(items) => items.into_iter().map(redacted).collect(),
        Value::Object(entries) => entries.into_iter().map(|(key, value)| (key, redacted(value))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// The longest first: it may contain another.
fn hidden(mut text: String, secrets: &BTreeSet<String>) -> String {
    let mut secrets: Vec<_> = secrets.iter().collect();
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    for secret in secrets {
        if text.contains(secret.as_str()) {
            text = text.replace(secret.as_str(), REDACTED);
        }
    }
    text
}

fn bounded(mut text: String) -> String {
    if text.len() > MOST_BYTES {
        let end = text.floor_char_boundary(MOST_BYTES);
        let end = text[..end].rfind('\n').map_or(end, |line| line + 1);
        text.truncate(end);
        text += &format!("[cut after {} MiB]\n", MOST_BYTES >> 20);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_bounded_at_the_end_of_a_line() {
        let text = bounded("0123456789\n".repeat(MOST_BYTES / 10));
        assert!(text.len() < MOST_BYTES + 100);
        assert!(text.ends_with("0123456789\n[cut after 4 MiB]\n"));
        assert_eq!(bounded("x".to_owned()), "x");
    }

    #[test]
    fn known_secrets_are_hidden_wherever_they_are() {
        let mut archive = Archive::default();
        archive.hide(["hunter2", "hunter2-and-more\n", "a \"b\" hunter", "x"].map(str::to_owned));
        let text = r#"a hunter2-and-more b hunter2 {"c": "a \"b\" hunter"} x"#.to_owned();
        let shown = r#"a <redacted> b <redacted> {"c": "<redacted>"} x"#;
        assert_eq!(hidden(text, &archive.secrets), shown);
    }
}
