//! `cluster_files`: files that describe clusters of their own, and wrong ones that harm only themselves.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use super::{Folder, NO_ENV, assert_told, centos, ok};
use crate::{Config, Diagnostic};

/// A folder with a `cluster.yaml` and a `clusters.d`, and what was read last.
struct Pool {
    folder: Folder,
    config: Option<Config>,
}

impl Pool {
    fn new(name: &str) -> Self {
        let folder = Folder::new(&format!("files-{name}"));
        fs::create_dir_all(folder.0.join("clusters.d")).unwrap();
        let pool = Self { folder, config: None };
        pool.own("cluster_files: [clusters.d/*.yaml]\n");
        pool
    }

    /// `cluster.yaml`.
    fn own(&self, text: &str) -> PathBuf {
        self.folder.write("cluster.yaml", text)
    }

    fn put(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        self.folder.write(&format!("clusters.d/{name}"), text)
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.folder.0.join("clusters.d").join(name)).unwrap();
    }

    /// Reads everything, again if it was read before: the names of the clusters.
    fn read(&mut self) -> Vec<String> {
        let path = self.folder.0.join("cluster.yaml");
        let config = match &self.config {
            None => crate::load(&path, NO_ENV),
            Some(before) => crate::load_again(before, &path, NO_ENV),
        };
        let config = config.unwrap_or_else(|error| panic!("{error}"));
        let names = config.clusters.iter().map(|cluster| cluster.name.to_string()).collect();
        self.config = Some(config);
        names
    }

    fn last(&self) -> &Config {
        self.config.as_ref().unwrap()
    }

    fn refused(&self) -> &[Diagnostic] {
        self.last().discovered.refused.as_ref().map_or(&[], |error| &error.diagnostics)
    }

    /// The only error: its file within the folder with its line, and its message.
    fn told(&self) -> String {
        let [error] = self.refused() else { panic!("{:#?}", self.refused()) };
        let line = error.place.as_ref().map_or(String::new(), |place| format!(":{}", place.line));
        assert!(!error.hint.is_empty());
        let text = format!("{}{line} {}", error.origin, error.message);
        text.replace(&format!("{}/", self.folder.0.display()), "")
    }
}

fn clusters(names: &[&str]) -> String {
    let one = |name: &&str| {
        format!("  - name: {name}\n    head_address: {name}:10001\n    dashboard: http://{name}:8265\n")
    };
    let list: String = names.iter().map(one).collect();
    if list.is_empty() { "clusters: []\n".to_owned() } else { format!("clusters:\n{list}") }
}

#[test]
fn files_add_their_clusters_and_come_and_go() {
    let mut pool = Pool::new("come-and-go");
    assert_eq!(pool.read(), [""; 0]);
    assert_eq!(pool.last().warnings[0].message, "no file matches");
    pool.own(&format!("{}cluster_files: [clusters.d/*.yaml]\n", clusters(&["own"])));
    pool.put("b.yaml", clusters(&["b1", "b2"]));
    pool.put("a.yaml", clusters(&["a"]));
    for ignored in [".a.yaml.tmp", ".hidden.yaml", "a.yml", "a.yaml~"] {
        pool.put(ignored, "half");
    }
    assert_eq!(pool.read(), ["own", "a", "b1", "b2"]);
    pool.put("b.yaml", clusters(&["b2", "b3"]));
    pool.put("none.yaml", clusters(&[]));
    assert_eq!(pool.read(), ["own", "a", "b2", "b3"]);
    pool.remove("b.yaml");
    assert_eq!(pool.read(), ["own", "a"]);
    assert_eq!((pool.refused(), pool.last().warnings.as_slice()), (&[][..], &[][..]));
    // Without the pattern its files are of no interest.
    pool.own(&clusters(&["own"]));
    assert_eq!(pool.read(), ["own"]);
}

#[test]
fn a_wrong_file_keeps_its_last_valid_clusters_and_harms_nothing_else() {
    let mut pool = Pool::new("wrong");
    pool.put("a.yaml", clusters(&["a"]));
    pool.put("b.yaml", clusters(&["b1", "b2"]));
    pool.read();
    for (text, told) in [
        ("", "clusters.d/b.yaml:1 the file is empty"),
        ("clusters:\n", "clusters.d/b.yaml:1 `clusters:` is empty"),
        ("clusters:\n  - name: b1\n    head_add", "clusters.d/b.yaml:3 a key without its `:`"),
        (
            "clusters:\n  - name: b1\n    head_address: b:1\n",
            "clusters.d/b.yaml:2 cluster b1 has no dashboard",
        ),
        ("- name: b1\n", "clusters.d/b.yaml:1 the file should be a mapping with `clusters:`, not a list"),
        (
            "clusters: []\nscheduler: {}\n",
            "clusters.d/b.yaml:2 scheduler does not belong in a file of cluster_files",
        ),
        (
            "cluster_files: [x]\nclusters: []\n",
            "clusters.d/b.yaml:1 cluster_files does not belong in a file of cluster_files",
        ),
        (
            "clusters: []\nclutsers: []\n",
            "clusters.d/b.yaml:2 unknown key clutsers in a file of cluster_files",
        ),
    ] {
        pool.put("b.yaml", text);
        assert_eq!(pool.read(), ["a", "b1", "b2"], "{text}");
        assert_eq!(pool.told(), told);
    }
    pool.put("a.yaml", clusters(&["a", "a2"]));
    assert_eq!(pool.read(), ["a", "a2", "b1", "b2"], "the others go on");
    let refusal = pool.last().discovered.refusal().unwrap();
    assert!(refusal.ends_with("b.yaml: as it last was valid: b1, b2"), "{refusal}");
    pool.put("b.yaml", clusters(&["b1"]));
    assert_eq!(pool.read(), ["a", "a2", "b1"]);
    assert_eq!(pool.last().discovered.refusal(), None);
}

#[test]
fn at_a_start_a_wrong_file_adds_nothing() {
    let mut pool = Pool::new("start");
    pool.put("a.yaml", clusters(&["a"]));
    pool.put("b.yaml", "clusters: [");
    assert_eq!(pool.read(), ["a"]);
    let refusal = pool.last().discovered.refusal().unwrap();
    assert!(refusal.ends_with("b.yaml: it adds no cluster until it is valid"), "{refusal}");
}

#[test]
fn what_is_not_a_small_text_file_in_the_folder_is_refused_in_bounded_time() {
    let mut pool = Pool::new("kinds");
    pool.put("a.yaml", clusters(&["a"]));
    let outside = pool.folder.write("outside.yaml", clusters(&["out"]));
    let place = pool.folder.0.join("clusters.d/b.yaml");
    type Make = fn(&Path, &Path);
    let cases: [(Make, &str); 6] = [
        (
            |place, _| fs::File::create(place).unwrap().set_len(100 << 20).unwrap(),
            "clusters.d/b.yaml the file is larger than 1 MiB",
        ),
        (
            |place, _| fs::write(place, b"clusters:\n  - name: \xff").unwrap(),
            "clusters.d/b.yaml:2 this is not UTF-8 text",
        ),
        (
            |place, outside| symlink(outside, place).unwrap(),
            "clusters.d/b.yaml a symbolic link that leads out of its folder",
        ),
        (
            |place, _| symlink("gone", place).unwrap(),
            "clusters.d/b.yaml cannot be read: No such file or directory (os error 2)",
        ),
        (|place, _| fs::create_dir(place).unwrap(), "clusters.d/b.yaml this is a folder, not a file"),
        (
            |place, _| assert!(Command::new("mkfifo").arg(place).status().unwrap().success()),
            "clusters.d/b.yaml this is neither a file nor a folder, not a file",
        ),
    ];
    for (make, told) in cases {
        make(&place, &outside);
        assert_eq!(pool.read(), ["a"]);
        assert_eq!(pool.told(), told);
        let _ = fs::remove_file(&place).or_else(|_| fs::remove_dir(&place));
    }
    assert_eq!((pool.read(), pool.refused().len()), (vec!["a".to_owned()], 0));
}

#[test]
fn the_links_of_a_mounted_config_map_are_followed() {
    let mut pool = Pool::new("config-map");
    let folder = pool.folder.0.join("clusters.d");
    let version = |name: &str, text: String| {
        fs::create_dir(folder.join(name)).unwrap();
        fs::write(folder.join(name).join("a.yaml"), text).unwrap();
        symlink(name, folder.join("..data_tmp")).unwrap();
        fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    };
    version("..2026_1", clusters(&["a"]));
    symlink("..data/a.yaml", folder.join("a.yaml")).unwrap();
    assert_eq!(pool.read(), ["a"]);
    version("..2026_2", clusters(&["a", "b"]));
    assert_eq!(pool.read(), ["a", "b"]);
    assert_eq!(pool.refused(), []);
}

#[test]
fn each_cluster_is_described_once() {
    let mut pool = Pool::new("twice");
    let main = |names: &[&str]| format!("{}cluster_files: [clusters.d/*.yaml]\n", clusters(names));
    pool.own(&main(&["own"]));
    pool.put("m.yaml", clusters(&["m", "shared"]));
    pool.read();
    // A file that comes takes nothing from a file that is there, whatever its name.
    pool.put("a.yaml", clusters(&["a", "shared"]));
    assert_eq!(pool.read(), ["own", "m", "shared"]);
    assert_eq!(
        pool.told(),
        "clusters.d/a.yaml:5 cluster shared is described twice: here, and in clusters.d/m.yaml:5"
    );
    // Nor while that one is wrong.
    pool.put("m.yaml", "clusters: [");
    assert_eq!(pool.read(), ["own", "m", "shared"]);
    assert_eq!(pool.refused().len(), 2);
    // A cluster moves from one file to another.
    pool.put("m.yaml", clusters(&["m"]));
    assert_eq!(pool.read(), ["own", "a", "shared", "m"]);
    assert_eq!(pool.refused(), []);
    // The configuration file comes first; a wrong file keeps what is still its own.
    pool.own(&main(&["own", "shared"]));
    assert_eq!(pool.read(), ["own", "shared", "a", "m"]);
    assert_eq!(
        pool.told(),
        "clusters.d/a.yaml:5 cluster shared is described twice: here, and in cluster.yaml:5"
    );
    // At a start the order of the files counts.
    pool.own(&main(&["own"]));
    pool.put("m.yaml", clusters(&["shared"]));
    pool.config = None;
    assert_eq!(pool.read(), ["own", "a", "shared"]);
    assert_eq!(
        pool.told(),
        "clusters.d/m.yaml:2 cluster shared is described twice: here, and in clusters.d/a.yaml:5"
    );
}

#[test]
fn a_folder_that_cannot_be_read_says_nothing_about_its_files() {
    let mut pool = Pool::new("away");
    pool.put("a.yaml", clusters(&["a"]));
    pool.read();
    let (here, away) = (pool.folder.0.join("clusters.d"), pool.folder.0.join("away"));
    fs::rename(&here, &away).unwrap();
    assert_eq!(pool.read(), ["a"]);
    let told: Vec<_> = pool.refused().iter().map(|error| error.message.as_str()).collect();
    assert_eq!(told[0], "the folder cannot be read: No such file or directory (os error 2)");
    assert!(pool.refused()[0].origin.ends_with("clusters.d/*.yaml"));
    fs::rename(&away, &here).unwrap();
    assert_eq!(pool.read(), ["a"]);
    assert_eq!(pool.refused(), []);
    fs::remove_dir_all(&here).unwrap();
    pool.config = None;
    assert_eq!(pool.read(), [""; 0], "nor is it one at a start");
    assert_eq!(pool.refused().len(), 1);
}

#[test]
fn too_many_files_harm_only_those_that_come_last() {
    let mut pool = Pool::new("many");
    pool.put("z.yaml", clusters(&["z"]));
    pool.read();
    for number in 0..1_000 {
        pool.put(&format!("{number:04}.yaml"), clusters(&[&format!("c{number}")]));
    }
    let names = pool.read();
    assert_eq!((names.len(), names.last().unwrap().as_str()), (1_000, "z"));
    assert!(!names.contains(&"c999".to_owned()));
    assert_eq!(pool.told(), "clusters.d/*.yaml 1001 files match, at most 1000 are read");
}

#[test]
fn a_configuration_that_is_wrong_does_not_hold_up_the_files() {
    let mut pool = Pool::new("main-wrong");
    let main = format!("{}cluster_files: [clusters.d/*.yaml]\n", clusters(&["own"]));
    pool.own(&main);
    pool.put("a.yaml", clusters(&["a"]));
    pool.read();
    let path = pool.own("clusters: [");
    pool.put("a.yaml", "clusters: [");
    pool.put("b.yaml", clusters(&["b", "own"]));
    pool.put("c.yaml", clusters(&["c"]));
    let config = crate::look_again(pool.last(), &path, NO_ENV);
    let names: Vec<_> = config.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
    assert_eq!(names, ["own", "a", "c"]);
    assert_eq!(config.discovered.refused.as_ref().unwrap().diagnostics.len(), 2);
    let again = crate::look_again(&config, &path, NO_ENV);
    assert_eq!(again, config);
}

#[test]
fn cluster_yaml_itself_may_match() {
    let mut pool = Pool::new("itself");
    pool.own("cluster_files: ['*.yaml', './more.yaml']\n");
    pool.folder.write("more.yaml", clusters(&["more"]));
    assert_eq!(pool.read(), ["more"]);
    assert_eq!(pool.refused(), []);
}

#[test]
fn a_secret_begins_at_the_folder_of_its_file_and_may_come_after_it() {
    let mut pool = Pool::new("secret");
    let text = |file: &str| {
        format!("{}    runtime_env: {{env_vars: {{KEY: {{file: {file}}}}}}}\n", clusters(&["a"]))
    };
    pool.put("a.yaml", text("key"));
    assert_eq!(pool.read(), [""; 0]);
    assert!(pool.told().starts_with("clusters.d/a.yaml:5 KEY: the file cannot be read"), "{}", pool.told());
    let key = std::path::absolute(pool.folder.0.join("clusters.d/key")).unwrap();
    assert_eq!(pool.last().files, std::slice::from_ref(&key), "it is watched");
    pool.put("key", "s3cret");
    assert_eq!((pool.read(), pool.refused().len()), (vec!["a".to_owned()], 0));
    assert_eq!(pool.last().files, [key]);
    pool.put("a.yaml", "clusters:\n  - name: a\n    token: s3cret\n    tokem: s3cret\n");
    assert_eq!(pool.read(), ["a"]);
    assert!(!pool.last().discovered.refusal().unwrap().contains("s3cret"));
}

#[test]
fn names_of_files_cannot_play_with_the_terminal() {
    let mut pool = Pool::new("names");
    pool.put("\u{1b}[2J\n.yaml", "7");
    pool.read();
    let refusal = pool.last().discovered.refusal().unwrap();
    assert!(refusal.contains("/\u{fffd}[2J\u{fffd}.yaml:1:1: "), "{refusal}");
    assert!(!refusal.contains('\u{1b}'));
}

#[test]
fn patterns_are_checked_where_they_are_written() {
    const EXAMPLE: &str = "write a folder and a pattern for the names in it: clusters.d/*.yaml";
    let told = |pattern: &str, message: &str| {
        assert_told(
            &centos(&format!("cluster_files: [{pattern}]\n")),
            &format!("5:17 cluster_files: {message}"),
            EXAMPLE,
        );
    };
    told("'*/x.yaml'", "`*` and `?` may only be in the name of the file");
    told("'**/x.yaml'", "`*` and `?` may only be in the name of the file");
    told("'d/**'", "only `*` (any characters) and `?` (one) have a meaning");
    told("'d/{a,b}.yaml'", "only `*` (any characters) and `?` (one) have a meaning");
    told("d/", "this names a folder, not files");
    told("..", "this names a folder, not files");
    told("''", "this is not a path");
    assert_told(
        &centos("cluster_files: clusters.d\n"),
        "5:16 cluster_files cannot be text",
        "write a list of patterns: [clusters.d/*.yaml]",
    );
    assert_told(
        &centos("cluster_files: [{a: b}]\n"),
        "5:17 a pattern cannot be a mapping",
        "write a list of patterns: [clusters.d/*.yaml]",
    );
    assert_told(
        &centos(&format!("cluster_files: [{}]\n", "a, ".repeat(33))),
        "5:1 33 patterns, at most 32 are allowed",
        "keep the files in few folders",
    );
    // A pool may have files only.
    for text in
        ["cluster_files: [a]\n", "clusters:\ncluster_files: [a]\n", "clusters: []\ncluster_files: [a]\n"]
    {
        assert_eq!(ok(text).clusters, []);
    }
}
