//! `store copy` of a control plane that ran.

use std::fs;

use crate::{shows, world::World};

/// Without numbers and digests.
fn unnumbered(text: &str) -> String {
    let is_number = |word: &str| word.bytes().all(|b| b.is_ascii_digit() || b == b',');
    let word = |word: &str| match word {
        _ if word.starts_with("plane-") => "plane-[name]".to_owned(),
        _ if word.len() == 64 => "[digest]".to_owned(),
        _ if !word.is_empty() && is_number(word) => "[n]".to_owned(),
        _ => word.to_owned(),
    };
    text.lines().map(|line| line.split_whitespace().map(word).collect::<Vec<_>>().join(" ") + "\n").collect()
}

#[test]
fn a_control_plane_is_copied_once_it_is_stopped_and_the_copy_goes_on() {
    let mut world = World::new().with_a_job_that_waits();
    let copy = ["store", "copy", "--from", "sqlite:state", "--to", "sqlite:copy"];
    shows!("store-copy-in-use.error", world.fails(4, &copy));
    assert!(!world.dir.join("copy").exists());
    world.stop();
    let done = world.run(&copy);
    assert_eq!(done.code, Some(0), "{}", done.err);
    shows!("store-copy", unnumbered(&(done.out.clone() + &done.err)));
    shows!("store-copy-not-empty.error", world.fails(4, &copy));
    let again = world.json(&["store", "copy", "--from", "sqlite:copy", "--to", "sqlite:again"]);
    assert!(done.out.contains(again["sha256"].as_str().unwrap()), "{again:#}");
    let tables = again["tables"].as_array().unwrap();
    let jobs = tables.iter().find(|table| table["table"] == "jobs").unwrap();
    assert_eq!((&jobs["rows"], &again["to"]), (&1.into(), &"sqlite:again".into()));
    fs::rename(world.dir.join("state"), world.dir.join("old")).unwrap();
    fs::rename(world.dir.join("again"), world.dir.join("state")).unwrap();
    world.restart();
    assert_eq!(world.json(&["job", "waits"])["state"], "queued");
}

#[test]
fn a_store_that_cannot_be_meant_is_refused_without_showing_its_password() {
    let world = World::new();
    let to = |to: &str, code| world.fails(code, &["store", "copy", "--from", "sqlite:none", "--to", to]);
    let error = to("mysql://u:hunter2@h/d", 2);
    assert!(!error.contains("hunter2"), "{error}");
    shows!("store-copy-place.error", error);
    shows!("store-copy-none.error", to("postgres://u:hunter2@127.0.0.1:1/d", 4));
}
