//! A control plane with several addresses: who is asked, what is repeated, and `plane`.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::Value;

use crate::{
    door::{Door, Fault},
    shows,
    world::{Done, World},
};

/// Two doors to one control plane.
struct Pair {
    world: World,
    a: Door,
    b: Door,
}

impl Pair {
    fn new() -> Self {
        let world = World::new();
        let (a, b) = (Door::to(&world.address), Door::to(&world.address));
        Self { world, a, b }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.world.program(arguments);
        command.env("RAY_MULTICLUSTER_ADDRESS", format!("{},{}", self.a.address, self.b.address));
        command
    }

    fn run(&self, arguments: &[&str]) -> Done {
        Done::of(&mut self.command(arguments))
    }

    #[track_caller]
    fn ok(&self, arguments: &[&str]) -> String {
        let done = self.run(arguments);
        assert_eq!(done.code, Some(0), "{arguments:?}: {}{}", done.out, done.err);
        done.out
    }
}

const SUBMIT: &str = "POST /v1/jobs ";
const WAITING: [&str; 5] = ["--no-wait", "--require-cluster", "lab", "--", "x"];

#[test]
fn a_replica_that_refuses_connections_is_passed_over() {
    let pair = Pair::new();
    pair.a.close();
    assert!(pair.ok(&["status"]).contains("2 of 3 clusters available"));
    // By the flag, too.
    let listed = format!("{}, {}", pair.a.address, pair.b.address);
    let done = Done::of(&mut pair.world.program(&["status", "--address", &listed]));
    assert_eq!(done.code, Some(0), "{}", done.err);
}

#[test]
fn what_answers_no_leader_is_asked_elsewhere_and_nothing_is_done_twice() {
    let pair = Pair::new();
    pair.a.only(SUBMIT);
    pair.a.always(Fault::NoLeader);
    pair.ok(&[&["submit"][..], &WAITING].concat());
    assert_eq!((pair.a.asked(SUBMIT), pair.b.asked(SUBMIT)), (1, 1));
    assert_eq!(pair.world.json(&["jobs"])["items"].as_array().unwrap().len(), 1);
}

#[test]
fn while_no_replica_leads_it_goes_round_until_one_does() {
    let pair = Pair::new();
    pair.a.always(Fault::NoLeader);
    pair.b.always(Fault::NoLeader);
    let later = pair.b.clone();
    thread::spawn(move || {
        thread::sleep(Duration::from_secs(1));
        later.next(&[]);
    });
    let began = Instant::now();
    pair.ok(&["clusters"]);
    assert!(began.elapsed() > Duration::from_millis(500));
    assert!(pair.a.asked("GET /v1/clusters") < 8, "with pauses that grow");
}

#[test]
fn after_the_time_for_it_the_error_names_every_address_and_what_each_said() {
    let pair = Pair::new();
    pair.a.close();
    pair.b.always(Fault::NoLeader);
    let began = Instant::now();
    let done = pair.run(&["clusters"]);
    assert_eq!(done.code, Some(5), "{}", done.err);
    let took = began.elapsed();
    assert!((10..30).contains(&took.as_secs()), "{took:?}");
    assert!(done.err.contains("no replica of the control plane answers\n"), "{}", done.err);
    assert!(done.err.contains(&format!("\n  {}: Connection refused", pair.a.address)), "{}", done.err);
    assert!(
        done.err.contains(&format!("\n  {}: the replica says no_leader\n", pair.b.address)),
        "{}",
        done.err
    );
    assert!(done.err.contains("hint: "), "{}", done.err);
}

#[test]
fn a_list_that_cannot_be_meant_is_refused_before_anything_is_asked() {
    let pair = Pair::new();
    for (list, said) in [
        (format!("{},", pair.a.address), "is not the address of a control plane"),
        (format!("{0},{0}/", pair.a.address), "twice"),
    ] {
        let done = Done::of(&mut pair.world.program(&["status", "--address", &list]));
        assert_eq!(done.code, Some(2), "{list}");
        assert!(done.err.contains(said) && done.err.contains("hint: "), "{list}: {}", done.err);
    }
    let mixed = format!("{},https://127.0.0.1:1", pair.a.address);
    let mut command = pair.world.program(&["status", "--address", &mixed]);
    let done = Done::of(command.env("RAY_MULTICLUSTER_TOKEN", "secret"));
    assert_eq!(done.code, Some(2));
    assert!(done.err.contains("mixes http:// and https://") && !done.err.contains("secret"), "{}", done.err);
    assert_eq!(pair.a.asked(""), 0);
}

#[test]
fn a_job_with_an_id_is_submitted_again_elsewhere_and_is_one_job() {
    for (fault, id) in [(Fault::Dies, "dies"), (Fault::LeaderLost, "lost")] {
        let pair = Pair::new();
        pair.a.only(SUBMIT);
        pair.a.next(&[fault]);
        pair.ok(&[&["submit", "--submission-id", id][..], &WAITING].concat());
        assert_eq!((pair.a.asked(SUBMIT), pair.b.asked(SUBMIT)), (1, 1), "{fault:?}");
        assert_eq!(pair.world.json(&["jobs"])["items"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn a_stop_whose_answer_is_lost_is_repeated_and_has_stopped_the_job() {
    let pair = Pair::new();
    pair.ok(&[&["submit", "--submission-id", "j"][..], &WAITING].concat());
    pair.a.only("POST /v1/jobs/j/stop ");
    pair.a.next(&[Fault::Dies]);
    assert_eq!(pair.ok(&["stop", "j"]), "j is stopped\n");
    assert_eq!(pair.b.asked("POST /v1/jobs/j/stop "), 1);
    assert_eq!(pair.run(&["stop", "j"]).code, Some(4), "it had ended before");
}

#[test]
fn what_may_have_been_done_and_must_not_be_done_twice_is_an_error() {
    let pair = Pair::new();
    pair.ok(&[&["submit", "--submission-id", "j"][..], &WAITING].concat());
    pair.ok(&["stop", "j"]);
    pair.a.only("POST /v1/jobs/j/rerun ");
    pair.a.next(&[Fault::LeaderLost]);
    let done = pair.run(&["retry", "j"]);
    assert_eq!(done.code, Some(4), "{}", done.err);
    assert!(done.err.contains("leader_lost"), "{}", done.err);
    assert_eq!(pair.b.asked("POST /v1/jobs/j/rerun "), 0);
}

#[test]
fn an_upload_that_breaks_off_begins_anew_elsewhere() {
    let pair = Pair::new();
    let folder = pair.world.dir.join("code");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("x.py"), "print(1)\n").unwrap();
    pair.a.only("PUT /api/packages/");
    pair.a.next(&[Fault::Dies]);
    pair.ok(&[&["submit", "--working-dir", "code"][..], &WAITING].concat());
    assert_eq!(pair.b.asked("PUT /api/packages/"), 1);
}

#[test]
fn with_one_address_the_next_leader_is_waited_for_and_a_refused_connection_is_an_error_at_once() {
    let pair = Pair::new();
    let one = |arguments: &[&str]| {
        let mut command = pair.world.program(arguments);
        Done::of(command.env("RAY_MULTICLUSTER_ADDRESS", &pair.a.address))
    };
    pair.a.next(&[Fault::NoLeader, Fault::NoLeader]);
    assert_eq!(one(&["clusters"]).code, Some(0));
    pair.a.close();
    let began = Instant::now();
    let done = one(&["clusters"]);
    assert_eq!(done.code, Some(5));
    assert!(done.err.contains("cannot reach a control plane at"), "{}", done.err);
    assert!(began.elapsed() < Duration::from_secs(3));
}

#[test]
fn events_go_on_at_the_next_replica_without_a_gap_and_without_one_twice() {
    let pair = Pair::new();
    let mut follower = pair
        .command(&["events", "-f", "--after", "0", "-o", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut seen = Vec::new();
    let mut until = |job: &str| loop {
        let event: Value = serde_json::from_str(&told.next().unwrap().unwrap()).unwrap();
        seen.push(event["seq"].as_u64().unwrap());
        if event["job"] == job {
            return;
        }
    };
    pair.world.ok(&[&["submit", "--submission-id", "before"][..], &WAITING].concat());
    until("before");
    pair.a.close();
    pair.world.ok(&[&["submit", "--submission-id", "after"][..], &WAITING].concat());
    until("after");
    follower.kill().unwrap();
    follower.wait().unwrap();
    assert_eq!(pair.b.asked("GET /v1/events"), 1);
    let first = seen[0];
    assert_eq!(seen, (first..first + seen.len() as u64).collect::<Vec<_>>());
}

#[test]
fn a_log_and_the_end_of_a_job_are_followed_over_a_failover_without_a_line_twice() {
    let pair = Pair::new();
    let submit = ["submit", "--submission-id", "j", "--cluster", "centos", "--"];
    let script = "echo one; sleep 3; echo two; sleep 2; echo three";
    let mut waiting = pair
        .command(&[&submit[..], &[script]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(waiting.stdout.take().unwrap()).lines().map(Result::unwrap);
    let first: Vec<_> = told.by_ref().take(1).collect();
    pair.a.close();
    let rest: Vec<_> = told.collect();
    assert!(waiting.wait().unwrap().success());
    let all = [first, rest].concat();
    for line in ["one", "two", "three"] {
        assert_eq!(all.iter().filter(|told| *told == line).count(), 1, "{all:?}");
    }
    assert!(pair.b.asked("GET /v1/jobs/j/logs/follow ") > 0);
}

const REPLICATED: &str = r#"{"plane": "plane-7f", "store": "postgres", "role": "follower", "replica": "b-77",
    "leader": {"replica": "a-1234", "address": "http://10.0.0.1:8700", "since": 1700000000000, "epoch": 7},
    "behind_ms": 12, "replicas": [
        {"replica": "a-1234", "address": "http://10.0.0.1:8700", "version": "0.1.0", "role": "leader", "seen_at": 1700000000000},
        {"replica": "b-77", "address": "http://10.0.0.2:8700", "version": "0.1.1", "role": "follower", "seen_at": 1700000000000}]}"#;

#[test]
fn plane_tells_who_leads_since_when_and_which_replicas_there_are() {
    let door = Door::to("127.0.0.1:1");
    let world = World::new();
    let run = |arguments: &[&str]| {
        let mut command = world.program(arguments);
        let done = Done::of(command.env("RAY_MULTICLUSTER_ADDRESS", &door.address));
        assert_eq!(done.code, Some(0), "{}", done.err);
        done.out
    };
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() - 60_000;
    let replicated = REPLICATED.replace("1700000000000", &since.to_string());
    door.answers("/v1/plane", &replicated);
    let table = run(&["plane"]);
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    shows!("plane", table);
    shows!("plane.json", run(&["plane", "-o", "json"]));
    door.answers("/v1/plane", &replicated.replace("\"leader\": {", "\"leader\": null, \"was\": {"));
    assert!(run(&["plane"]).contains("none at the moment"));
    door.answers(
        "/v1/plane",
        r#"{"plane": "plane-7f", "store": "sqlite", "role": "only", "replica": "host-1", "behind_ms": 0}"#,
    );
    shows!("plane.only", run(&["plane"]));
}
