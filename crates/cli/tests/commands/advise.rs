//! `advise`.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    process::Command,
};

use serde_json::{Value, json};

use crate::{
    shows,
    world::{Done, World},
};

#[test]
fn what_would_have_helped_is_shown_with_how_to_try_it() {
    let done = advise(&[working(), done()], &[]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    shows!("advise", done.out);
    shows!("advise.notes", done.err);
    let chinese = advise(&[done_in_chinese()], &["--lang", "zh"]);
    shows!("advise.zh", chinese.out);
    // As JSON it is what the control plane says.
    let json = advise(&[working(), self::done()], &["-o", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&json.out).unwrap(), self::done());
}

#[test]
fn a_pool_that_waits_for_nothing_is_told_so() {
    let world = World::new();
    for id in ["a", "b"] {
        world.ok(&["submit", "--submission-id", id, "--cluster", "centos", "--", "sleep 1"]);
    }
    let advice = world.until(&["advise", "--days", "3"], |advice| advice["jobs"] == 2);
    assert_eq!((&advice["days"], &advice["little"], &advice["items"]), (&json!(3), &json!(true), &json!([])));
    assert!(advice["summary"].as_str().unwrap().starts_with("jobs hardly waited: "), "{advice}");
    assert!(advice["basis"].as_str().unwrap().starts_with("little history: 2 jobs in "), "{advice}");
    assert!(world.fails(2, &["advise", "--days", "32"]).contains("1..=31"));
}

fn working() -> Value {
    json!({"state": "working", "tried": 3, "of": 14, "days": 14, "jobs": 0, "little": false, "basis": "",
        "summary": "replaying the history", "items": [], "notes": []})
}

fn done() -> Value {
    let waits = |mean: f64| json!({"mean_seconds": mean, "median_seconds": 1.2, "p95_seconds": 9.0, "longest_seconds": 90.0});
    let item = |kind: &str, text: &str, sure: &str, set: Option<&str>| {
        let mut item = json!({"kind": kind, "text": text, "sure": sure, "clusters": []});
        if let Some(set) = set {
            item["set"] = json!(set);
            item["command"] = json!(format!("ray-multicluster replay --since 14d --set {set}"));
            item["waits"] = waits(360.0);
        }
        item
    };
    json!({
        "state": "done", "tried": 14, "of": 14, "days": 14, "at": 1_700_000_000_000_u64, "jobs": 4812,
        "little": false, "basis": "4,812 jobs in 14 d", "summary": "mean wait 41 min, longest 3 h 20 min",
        "waited_seconds": 2400.0, "waits": waits(2460.0),
        "items": [
            item("settings", "resource_threshold 0.7 → 0.9, submission_interval 40s → 0s: mean wait 41 min → 4 min, mac at most 96 % full",
                "4,812 jobs in 14 d, better in both halves", Some("'resource_threshold=0.9 submission_interval=0s'")),
            item("settings", "resource_threshold 0.7 → 0.9: mean wait 41 min → 6 min, mac at most 88 % full",
                "4,812 jobs in 14 d, better in one half only", Some("resource_threshold=0.9")),
            item("owners", "research waits 9.1 × longer than trading: 45 min against 5 min; a larger weight would not have changed that",
                "4,812 jobs in 14 d", None),
        ],
        "notes": ["run times are taken as they were", "gpu left out: never seen, so its size is unknown"],
    })
}

fn done_in_chinese() -> Value {
    let mut done = done();
    done["basis"] = json!("14 天内 4,812 个作业");
    done["items"][0]["sure"] = json!("14 天内 4,812 个作业，前后两半均有改善");
    done
}

/// Asks a control plane that gives these answers, one after the other.
fn advise(answers: &[Value], arguments: &[&str]) -> Done {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let answers: Vec<_> = answers.iter().map(ToString::to_string).collect();
    let plane = std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let first = lines.next().unwrap().unwrap();
            assert!(first.starts_with("GET /v1/advice?days=14 "), "{first}");
            while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
            write!(stream, "{head}content-length: {}\r\n\r\n{answer}", answer.len()).unwrap();
        }
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_ray-multicluster"));
    command.arg("advise").args(arguments).env_clear().env("RAY_MULTICLUSTER_ADDRESS", address);
    let done = Done::of(&mut command);
    plane.join().unwrap();
    done
}
