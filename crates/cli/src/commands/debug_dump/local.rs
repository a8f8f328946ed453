//! What is on this machine: the configuration, the environment, the log of the SDK's control plane.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use multicluster_config::Discovered;
use multicluster_server::{hidden_texts, redact_config, redact_variables};
use multicluster_types::REDACTED;
use serde_json::Value;

use super::archive::Archive;

/// How much of the end of a file is read.
const MOST_BYTES: u64 = 256 << 10;

/// Adds what can be had, and returns the configuration file, if there is one.
pub(super) fn add(archive: &mut Archive, given: Option<&Path>) -> Option<PathBuf> {
    let variables: BTreeMap<_, _> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let shown = redact_variables(&variables);
    let hidden =
        shown.iter().filter(|(_, value)| *value == REDACTED).map(|(name, _)| variables[name].clone());
    archive.hide(hidden);
    let ours = |name: &str| {
        let prefixes = ["RAY_MULTICLUSTER_", "SCHEDULER_", "CLUSTER_CONFIG_FILE"];
        prefixes.iter().any(|prefix| name.starts_with(prefix))
    };
    let ours: BTreeMap<_, _> = shown.iter().filter(|(name, _)| ours(name)).collect();
    archive.json("environment.json", "variables of this command that matter here", &ours);

    let here = std::env::current_dir().unwrap_or_default();
    let file = match multicluster_config::find(given, variables.clone(), &here) {
        Ok(file) => file,
        Err(error) => {
            archive.miss("cluster.json", &error);
            return None;
        }
    };
    let (discovered, error) = match multicluster_config::load(&file, variables.clone()) {
        Ok(config) => {
            let error = config.discovered.refused.clone();
            (config.discovered, error)
        }
        Err(error) => (Discovered::default(), Some(error)),
    };
    if let Some(error) = error {
        let about = "what `serve` would say about cluster.yaml if it were started here";
        archive.text("config-errors.txt", about, &error.to_string());
    }
    match content(&file) {
        Ok(content) => {
            let mut shown = redacted(archive, &file, &content, &variables);
            // A refused one may be anything, a pipe for example.
            let others = discovered.files.iter().filter(|one| !one.is_refused).map(|one| &one.path);
            let others = others
                .filter_map(|path| Some(redacted(archive, path, &self::content(path).ok()?, &variables)));
            let others: Vec<_> = others.collect();
            if discovered.is_wanted() {
                shown["cluster_files"] = others.into();
            }
            archive.json("cluster.json", "cluster.yaml as it is on this machine, without comments", &shown);
        }
        Err(why) => archive.miss("cluster.json", &why),
    }
    Some(file)
}

/// A file without its secrets, which are hidden everywhere else too.
fn redacted(
    archive: &mut Archive,
    file: &Path,
    content: &Value,
    variables: &BTreeMap<String, String>,
) -> Value {
    let shown = redact_config(content);
    archive.hide(hidden_texts(content, &shown));
    archive.hide(kept_outside(content, file.parent().unwrap_or(Path::new("")), variables));
    serde_json::json!({ "file": file.display().to_string(), "content": shown })
}

/// What a configuration names as `token_file: …`, `{file: …}`, `token_env: …` or `{env: …}`, in whole
/// and word by word: servers often repeat a part of `Basic dXNlcg==` only.
fn kept_outside(content: &Value, folder: &Path, variables: &BTreeMap<String, String>) -> Vec<String> {
    let of = |(key, value): (&String, &Value)| {
        let text = match (key.as_str(), value) {
            ("token_file" | "file", Value::String(path)) => {
                let path = match (path.strip_prefix("~/"), variables.get("HOME")) {
                    (Some(rest), Some(home)) => Path::new(home).join(rest),
                    _ => folder.join(path),
                };
                end_of(&path).unwrap_or_default()
            }
            ("token_env" | "env", Value::String(name)) => variables.get(name).cloned().unwrap_or_default(),
            _ => return kept_outside(value, folder, variables),
        };
        text.split_whitespace().chain([text.as_str()]).map(str::to_owned).collect()
    };
    match content {
        Value::Object(entries) => entries.iter().flat_map(of).collect(),
        Value::Array(items) => items.iter().flat_map(|item| kept_outside(item, folder, variables)).collect(),
        _ => Vec::new(),
    }
}

/// Of the control plane that the SDK keeps in the background: it is there even if that has ended.
pub(super) fn add_log_of_background(archive: &mut Archive, config: &Path) {
    let Some(log) = crate::address::background_folder(config).map(|folder| folder.join("plane.log")) else {
        return;
    };
    match end_of(&log) {
        Ok(text) => {
            archive.text("background.log", "the log of the control plane that the SDK started here", &text)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => archive.miss("background.log", &format!("{}: {error}", log.display())),
    }
}

/// A file that cannot be parsed is left out: where its secrets are is not known.
fn content(file: &Path) -> Result<Value, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    serde_saphyr::from_str(&text)
        .map_err(|_| format!("{} is not valid YAML; see config-errors.txt", file.display()))
}

fn end_of(file: &Path) -> io::Result<String> {
    let mut file = File::open(file)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MOST_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // The first line may have lost its beginning, which says what is secret in it.
    let whole = if length > MOST_BYTES { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
    Ok(whole.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_found_in_files_and_variables_wherever_a_configuration_may_name_them() {
        let home = std::env::temp_dir().join(format!("kept-outside-{}", std::process::id()));
        fs::create_dir_all(home.join("conf")).unwrap();
        fs::write(home.join("at-home"), "one\n").unwrap();
        fs::write(home.join("conf").join("beside"), "Basic two\n").unwrap();
        let variables = [("HOME", home.to_str().unwrap()), ("REGION", "three"), ("OTHER", "four")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let content = json!({"clusters": [
            {"token_file": "~/at-home", "headers": {"authorization": {"file": "beside"}}},
            {"token_env": "OTHER", "runtime_env": {"env_vars": {"ENDPOINT": {"env": "REGION"}}}},
            {"token_file": "gone", "token_env": 7},
        ]});
        let found = kept_outside(&content, &home.join("conf"), &variables);
        fs::remove_dir_all(&home).unwrap();
        for secret in ["one", "two", "Basic two\n", "three", "four"] {
            assert!(found.iter().any(|text| text == secret), "{secret}: {found:?}");
        }
    }
}
