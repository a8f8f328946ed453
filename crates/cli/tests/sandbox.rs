//! `sandbox`, with a script in place of Ray. With real Ray: tests/sdk/test_sandbox.py.

#![allow(clippy::unwrap_used, reason = "tests may")]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

/// Runs until it is terminated, with a child that ignores SIGTERM and has its own session, like
/// Ray's jobs.
const RUNS: &str = "setsid sh -c 'trap \"\" TERM; echo $$ >> ~/pids; sleep 600' &
echo $$ >> ~/pids
wait";
/// The time limit for events that must happen; much longer than they take.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn without_ray_it_says_how_to_get_it() {
    let test = Test::new(RUNS);
    let done = test.run(&["up"], |command| command.env("PATH", "/nowhere"));
    let told = failed(&done);
    assert!(told.contains("there is no `ray` on PATH\nhint: pip install \"ray[default]\""), "{told}");
    let told = failed(&test.sandbox(&["up", "--ray", "/etc"]));
    assert!(told.contains("/etc is not a program"), "{told}");
    assert!(!test.dir().exists(), "nothing was begun");
}

#[test]
fn names_that_cannot_be_are_refused() {
    let test = Test::new(RUNS);
    for (names, expected) in
        [(["../up", "b"], "cannot be a cluster's name"), (["a", "a"], "a is given twice")]
    {
        let told = failed(&test.up(&names));
        assert!(told.contains(expected), "{told}");
    }
    assert!(!test.dir().join("sandbox.json").exists());
}

#[test]
fn when_one_fails_the_other_is_ended_too() {
    let script = format!("case \"$*\" in *--node-name=mac*) echo 'no such thing' >&2; exit 3;; esac\n{RUNS}");
    let test = Test::new(&script);
    let told = failed(&test.up(&[]));
    assert!(told.contains("`ray start` for mac ended:\n  no such thing\nhint: all of it is in "), "{told}");
    test.assert_gone();
}

#[test]
fn one_that_never_answers_is_given_up_in_time() {
    let test = Test::new(RUNS);
    let told = failed(&test.up(&["--timeout", "1", "only"]));
    assert!(told.contains("only does not accept jobs after 1 s"), "{told}");
    assert!(!test.pids().is_empty());
    test.assert_gone();
}

#[test]
fn what_an_up_that_was_killed_left_behind_is_ended_by_down() {
    let test = Test::new(RUNS);
    let mut up = test.command(&["up"]).arg("--ray").arg(test.ray()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(|| test.pids().len() == 4);
    let told = failed(&test.sandbox(&["down"]));
    assert!(told.contains("another command works on the sandbox"), "{told}");
    up.kill().unwrap();
    up.wait().unwrap();

    let status: Value =
        serde_json::from_slice(&test.sandbox(&["status", "--output", "json"]).stdout).unwrap();
    let states: Vec<_> = status["clusters"].as_array().unwrap().iter().map(|row| &row["state"]).collect();
    assert_eq!(states, ["silent", "silent"]);
    // The first process of one of them dies, and leaves its children as orphans.
    let leader = status["clusters"][0]["pid"].to_string();
    assert!(Command::new("kill").args(["-KILL", &leader]).status().unwrap().success());

    let down = test.sandbox(&["down"]);
    assert!(down.status.success(), "{}", text(&down.stderr));
    test.assert_gone();
    assert!(text(&test.sandbox(&["status"]).stdout).starts_with("no sandbox in "));
}

#[test]
fn a_process_that_has_the_number_now_is_left_alone() {
    let test = Test::new(RUNS);
    let mut up =
        test.command(&["up"]).arg("--ray").arg(test.ray()).arg("only").stderr(Stdio::null()).spawn().unwrap();
    wait_for(|| test.pids().len() == 2);
    up.kill().unwrap();
    up.wait().unwrap();
    // The machine was rebooted, and another process has the number.
    let mut other = Command::new("sleep").arg("600").spawn().unwrap();
    let record = test.dir().join("only.pid");
    let mut process: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    process["pid"] = other.id().into();
    fs::write(&record, process.to_string()).unwrap();

    assert!(test.sandbox(&["down"]).status.success());
    assert_eq!(other.try_wait().unwrap(), None);
    other.kill().unwrap();
    other.wait().unwrap();
    test.assert_gone();
}

/// A sandbox's directory, and a script for Ray.
struct Test {
    root: PathBuf,
}

impl Test {
    fn new(script: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("sandbox-test-{}-{number}", std::process::id()));
        fs::create_dir(&root).unwrap();
        let test = Self { root };
        fs::write(test.ray(), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(test.ray(), fs::Permissions::from_mode(0o755)).unwrap();
        test
    }

    fn ray(&self) -> PathBuf {
        self.root.join("ray")
    }

    fn dir(&self) -> PathBuf {
        self.root.join("sandbox")
    }

    fn up(&self, arguments: &[&str]) -> Output {
        self.run(&["up"], |command| command.arg("--ray").arg(self.ray()).args(arguments))
    }

    fn sandbox(&self, arguments: &[&str]) -> Output {
        self.run(arguments, |command| command)
    }

    fn run(&self, arguments: &[&str], change: impl FnOnce(&mut Command) -> &mut Command) -> Output {
        change(&mut self.command(arguments)).output().unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ray-multicluster"));
        command.arg("sandbox").args(arguments).arg("--dir").arg(self.dir()).current_dir(&self.root);
        command
    }

    /// The processes that the script has started, by its own record.
    fn pids(&self) -> Vec<u32> {
        let homes = fs::read_dir(self.dir().join("homes")).into_iter().flatten().flatten();
        let said = homes.filter_map(|home| fs::read_to_string(home.path().join("pids")).ok());
        said.flat_map(|text| text.lines().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>()).collect()
    }

    /// None of its processes and files is left, except logs and files in the homes.
    fn assert_gone(&self) {
        let left: Vec<_> = self.pids().into_iter().filter(|pid| runs(*pid)).collect();
        assert!(left.is_empty(), "still run: {left:?}");
        for name in ["sandbox.json", "cluster.yaml", "centos.pid", "mac.pid", "only.pid"] {
            assert!(!self.dir().join(name).exists(), "{name} is left");
        }
    }
}

impl Drop for Test {
    fn drop(&mut self) {
        // Also if the test fails.
        self.sandbox(&["down"]);
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn failed(done: &Output) -> String {
    let told = text(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{told}");
    assert!(done.stdout.is_empty());
    told
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// False for a process that has ended, even if it is a zombie.
fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn wait_for(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline);
        thread::sleep(Duration::from_millis(20));
    }
}
