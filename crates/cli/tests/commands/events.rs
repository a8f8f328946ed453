//! `events`, and what is not asked of a control plane: `completions`, `top` without a terminal.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use serde_json::Value;

use crate::{shows, world::World};

#[test]
fn events_tell_what_happened() {
    let world = World::new().with_a_job_that_ran();
    shows!("events", world.ok(&["events", "--job", "ran"]));
    shows!("events.json", world.ok(&["events", "--job", "ran", "-o", "json"]));
    let all = world.ok(&["events"]);
    assert!(all.contains("cluster  centos  healthy") && all.contains("ran  succeeded on centos"), "{all}");
    let last = world.run(&["events", "-n", "1"]);
    assert_eq!(last.out.lines().count(), 1);
    assert!(last.err.contains("earlier are left out"), "{}", last.err);
    shows!("events.error", world.fails(3, &["events", "--job", "none"]));
}

#[test]
fn events_are_followed_over_a_restart_without_a_gap_and_without_repeats() {
    let mut world = World::new().with_a_job_that_ran();
    let mut follower = world
        .command(&["events", "-f", "--after", "0", "-o", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut seen = Vec::new();
    let mut until = |job: &str, state: &str| loop {
        let event: Value = serde_json::from_str(&told.next().unwrap().unwrap()).unwrap();
        seen.push(event["seq"].as_u64().unwrap());
        if event["job"] == job && event["state"] == state {
            return;
        }
    };
    until("ran", "succeeded");
    world.restart();
    world.ok(&["submit", "--no-wait", "--submission-id", "after", "--require-cluster", "lab", "--", "x"]);
    until("after", "queued");
    follower.kill().unwrap();
    follower.wait().unwrap();
    let first = seen[0];
    assert_eq!(seen, (first..first + seen.len() as u64).collect::<Vec<_>>());
}

#[test]
fn completions_are_for_a_shell() {
    let world = World::new();
    for (shell, expected) in
        [("bash", "complete -F"), ("zsh", "#compdef ray-multicluster"), ("fish", "complete -c")]
    {
        let script = world.ok(&["completions", shell]);
        assert!(script.contains(expected) && script.contains("what-if"), "{script}");
    }
    assert!(world.fails(2, &["completions", "csh"]).contains("possible values: bash"));
}

#[test]
fn top_needs_a_terminal() {
    let world = World::new();
    shows!("top.error", world.fails(2, &["top"]));
}

#[test]
fn help_tells_the_exit_codes() {
    let world = World::new();
    shows!("help", world.ok(&["--help"]));
    assert!(world.fails(2, &["frobnicate"]).contains("unrecognized subcommand"));
}
