//! `key`, and a control plane that encrypts what it stores.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{shows, world::Done};

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn run(&self, arguments: &[&str]) -> Done {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ray-multicluster"));
        Done::of(command.args(arguments).current_dir(&self.0).env_clear().env("COLUMNS", "80"))
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Names of keys are random.
fn unnamed(text: &str) -> String {
    let is_name = |word: &str| word.len() == 8 && word.bytes().all(|b| b.is_ascii_hexdigit());
    let words = |line: &str| {
        let words = line.split(' ').map(|word| if is_name(word) { "KEY-NAME" } else { word });
        words.collect::<Vec<_>>().join(" ")
    };
    text.lines().map(words).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_key_file_is_made_grows_and_is_listed_without_its_keys() {
    let dir = Dir::new("key");
    let made = dir.run(&["key", "create", "keys"]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    shows!("key-create", unnamed(&(made.out + &made.err)));
    let again = dir.run(&["key", "create", "keys"]);
    assert_eq!(again.code, Some(2));
    shows!("key-create-again.error", again.err);
    let added = dir.run(&["key", "rotate", "keys"]);
    shows!("key-rotate", unnamed(&(added.out + &added.err)));
    let last = dir.run(&["key", "rotate", "keys", "--last"]);
    shows!("key-rotate-last", unnamed(&(last.out + &last.err)));
    let listed = dir.run(&["key", "list", "keys"]).out;
    shows!("key-list", unnamed(&listed));
    let text = fs::read_to_string(dir.0.join("keys")).unwrap();
    let keys: Vec<_> = text.lines().filter(|line| line.starts_with("rmk_")).collect();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| !listed.contains(key)), "{listed}");
}

#[test]
fn a_key_file_that_cannot_be_used_ends_serve_before_anything_is_touched() {
    let dir = Dir::new("bad-key");
    let cluster = "clusters: [{name: a, head_address: '127.0.0.1:1', dashboard: 'http://127.0.0.1:1'}]";
    fs::write(dir.0.join("cluster.yaml"), cluster).unwrap();
    fs::write(dir.0.join("open"), "x").unwrap();
    fs::set_permissions(dir.0.join("open"), std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    for (file, name) in [("none", "key-missing.error"), ("open", "key-open.error")] {
        let arguments =
            ["serve", "--config", "cluster.yaml", "--state-dir", "state", "--listen", "127.0.0.1:0"];
        let ended = dir.run(&[&arguments[..], &["--key-file", file]].concat());
        assert_eq!(ended.code, Some(2), "{}", ended.err);
        shows!(name, ended.err);
        assert!(!dir.0.join("state").exists());
    }
}
