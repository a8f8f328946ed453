//! The environment variables of the control plane, its command line, its SDK and its jobs, each
//! declared once. `_env.py` of the Python package has those that the SDK reads.

macro_rules! variables {
    ($($(#[doc = $about:literal])+ $name:ident;)+) => {
        $(
            $(#[doc = $about])+
            pub const $name: &str = concat!("RAY_MULTICLUSTER_", stringify!($name));
        )+

        /// All of them: the name, and what it is for.
        pub const ALL: &[(&str, &str)] = &[$(($name, concat!($($about),+))),+];
    };
}

variables! {
    /// The control plane to use, `http://host:port`; several addresses with commas in between, if it has replicas. Also set in jobs, tasks and actors on a cluster with a `plane_address`.
    ADDRESS;
    /// The token to send to the control plane; `ray-multicluster token create` makes one.
    TOKEN;
    /// A PEM file with the only authorities to trust, for a control plane with its own certificate.
    CA_FILE;
    /// The state directory of `ray-multicluster serve`.
    STATE_DIR;
    /// The PostgreSQL database that several `ray-multicluster serve` share, as `--store` takes it.
    STORE;
    /// The file of tokens of `ray-multicluster serve` and `ray-multicluster token`.
    TOKENS;
    /// The key file of `ray-multicluster serve` and `ray-multicluster token`, which encrypts the secrets that they store.
    KEY_FILE;
    /// What `ray-multicluster serve` logs: `error`, `warn`, `info`, `debug`, or a filter per module.
    LOG;
    /// How log lines look: `text` or `json`.
    LOG_FORMAT;
    /// The `ray-multicluster` program that the SDK starts, instead of the one installed with it or on `PATH`.
    BIN;
    /// Where the SDK's background control planes keep their state.
    PLANES_DIR;
    /// How long a background control plane of the SDK stays without work.
    EXIT_WHEN_IDLE;
    /// Where `ray-multicluster sandbox` keeps its files.
    SANDBOX_DIR;
    /// Set in every process of a sandbox cluster: its temporary directory, by which `sandbox down` finds them.
    SANDBOX;
    /// Set in jobs, tasks and actors: the cluster that they run on.
    CURRENT_CLUSTER;
    /// Set in jobs: the id of the job.
    JOB_ID;
    /// Set in jobs: the number of the attempt, from 1.
    ATTEMPT;
    /// Set in jobs, tasks and actors: the version of the control plane.
    VERSION;
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        fs,
        path::{Path, PathBuf},
    };

    use super::*;

    const PREFIX: &str = "RAY_MULTICLUSTER_";

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    /// Files below this folder whose name has this ending, except tests, which contain expected texts.
    fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = entry.file_name().unwrap().to_string_lossy().into_owned();
            if entry.is_dir() && !["tests", "target"].contains(&name.as_str()) {
                found.extend(files(&entry, ending));
            } else if name.ends_with(ending) && name != "tests.rs" {
                found.push(entry);
            }
        }
        found
    }

    /// The variables that a text names; not parts of others, such as those of Airflow.
    fn named(text: &str) -> impl Iterator<Item = String> {
        let is_part = |c: &char| c.is_ascii_uppercase() || *c == '_';
        let begins = move |at: &usize| !text[..*at].ends_with(|c: char| is_part(&c));
        text.match_indices(PREFIX).map(|(at, _)| at).filter(begins).map(move |at| {
            text[at..].chars().take_while(is_part).collect::<String>().trim_end_matches('_').to_owned()
        })
    }

    #[test]
    fn sources_and_docs_name_no_other_variable() {
        let known: BTreeSet<_> = ALL.iter().map(|(name, _)| *name).collect();
        let mut all = files(&root().join("crates"), ".rs");
        all.extend(files(&root().join("python/ray_multicluster_scheduler"), ".py"));
        all.extend(files(&root().join("docs"), ".md"));
        assert!(all.len() > 200, "{}", all.len());
        for file in all {
            for name in named(&fs::read_to_string(&file).unwrap()) {
                let is_prefix = name.len() < PREFIX.len();
                assert!(is_prefix || known.contains(name.as_str()), "{name} in {}", file.display());
            }
        }
    }

    #[test]
    fn no_other_source_file_declares_one() {
        for file in files(&root().join("crates"), ".rs") {
            let text = fs::read_to_string(&file).unwrap();
            let declared = ALL.iter().find(|(name, _)| text.contains(&format!("\"{name}\"")));
            assert_eq!(declared, None, "{}: use multicluster_types::env_vars", file.display());
        }
    }

    #[test]
    fn python_declares_those_that_the_sdk_reads() {
        const ONLY_PROGRAM: [&str; 5] = [TOKENS, KEY_FILE, LOG, LOG_FORMAT, SANDBOX_DIR];
        let file = root().join("python/ray_multicluster_scheduler/_env.py");
        let text = fs::read_to_string(file).unwrap();
        let python: BTreeSet<_> =
            text.lines().filter_map(|line| line.split_once(" = \"")?.1.strip_suffix('"')).collect();
        let rust = ALL.iter().map(|(name, _)| *name).filter(|name| !ONLY_PROGRAM.contains(name));
        assert_eq!(python, rust.collect());
    }
}
