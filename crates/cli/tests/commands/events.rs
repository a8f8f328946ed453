//! `events`, and commands without a control plane: `completions`, `top` without a terminal.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::Value;

use crate::{
    shows,
    world::{Done, World},
};

#[test]
fn events_tell_what_happened() {
    let world = World::new().with_a_job_that_ran();
    shows!("events", world.ok(&["events", "--job", "ran"]));
    shows!("events.json", world.ok(&["events", "--job", "ran", "-o", "json"]));
    let all = world.ok(&["events"]);
    assert!(all.contains("cluster  centos  healthy") && all.contains("ran  succeeded on centos"), "{all}");
    let last = world.run(&["events", "-n", "1"]);
    assert_eq!(last.out.lines().count(), 1);
    assert!(last.err.contains("earlier events are not shown"), "{}", last.err);
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
fn the_past_has_an_end_on_a_control_plane_that_is_slow_to_begin_and_then_never_silent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = asks_for_events(&listener, &["-o", "json"]);
    thread::spawn(move || {
        let mut stream = open_stream(&listener);
        drop(listener);
        thread::sleep(Duration::from_secs(1));
        let mut tell =
            |seq: u64, at: u64| write!(stream, "id: {seq}\ndata: {{\"seq\": {seq}, \"at\": {at}}}\n\n");
        tell(1, 1).unwrap();
        // For long enough to be noticed, but not forever.
        for seq in 2..200 {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
            if tell(seq, u64::try_from(now).unwrap()).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
    });
    let done = Done::of(&mut command);
    assert_eq!((done.code, done.out.lines().count()), (Some(0), 1), "{}{}", done.out, done.err);
    assert_eq!(serde_json::from_str::<Value>(&done.out).unwrap()["seq"], 1);
}

#[test]
fn a_stream_that_ends_at_once_is_not_asked_for_without_a_pause() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut follower = asks_for_events(&listener, &["-f"]).spawn().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    thread::spawn(move || {
        loop {
            drop(open_stream(&listener));
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    thread::sleep(Duration::from_millis(1500));
    follower.kill().unwrap();
    follower.wait().unwrap();
    let asked = asked.load(Ordering::Relaxed);
    assert!((2..=5).contains(&asked), "asked {asked} times");
}

fn asks_for_events(listener: &TcpListener, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ray-multicluster"));
    command.args(["events", "--address", &listener.local_addr().unwrap().to_string()]).args(arguments);
    command
}

/// Accepts one request and begins to answer it.
fn open_stream(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().unwrap();
    let head =
        BufReader::new(&stream).lines().take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty()));
    assert!(head.count() > 0);
    stream
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        .unwrap();
    stream
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
