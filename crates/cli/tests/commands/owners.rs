//! `owners`, and what `why` says if another owner goes first.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    shows,
    world::{Done, PATIENCE, World},
};

/// A control plane that knows tokens.
struct Shared {
    world: World,
    admin: String,
}

impl Shared {
    fn new() -> Self {
        let world = World::new();
        let admin = create(&world, "root", "admin");
        let shared = Self { world, admin };
        // From now on a token is required.
        let deadline = Instant::now() + PATIENCE;
        while shared.world.run(&["status"]).code == Some(0) {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(50));
        }
        shared
    }

    fn with(&self, token: &str, arguments: &[&str]) -> Command {
        let mut command = self.world.command(arguments);
        command.env("RAY_MULTICLUSTER_TOKEN", token).env("COLUMNS", "100");
        command
    }

    #[track_caller]
    fn ok(&self, token: &str, arguments: &[&str]) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let done = Done::of(&mut self.with(token, arguments));
            if done.code == Some(0) {
                return done.out;
            }
            // A new token is noticed within moments.
            assert!(Instant::now() < deadline, "{arguments:?}: {}{}", done.out, done.err);
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn create(world: &World, owner: &str, role: &str) -> String {
    let made = world.json(&["token", "create", "--owner", owner, "--role", role, "--state-dir", "state"]);
    made["token"].as_str().unwrap().to_owned()
}

#[test]
fn owners_shows_who_had_how_much_and_whose_turn_is_next() {
    let shared = Shared::new();
    assert_eq!(shared.ok(&shared.admin, &["owners"]), "no owner has or had any of the pool\n");
    let [ann, bob] = ["ann", "bob"].map(|owner| create(&shared.world, owner, "submit"));
    let waits = ["--require-cluster", "lab", "--", "python x.py"];
    for (token, id, cpus) in [(&ann, "a", "cpu=4"), (&bob, "b", "cpu=2")] {
        let submit = ["submit", "--no-wait", "--submission-id", id, "--needs", cpus];
        shared.ok(token, &[&submit[..], &waits].concat());
    }
    let table = shared.ok(&shared.admin, &["owners"]);
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    shows!("owners", table);
    shows!("owners.json", shared.ok(&shared.admin, &["owners", "-o", "json"]));
    shows!("owners.zh", shared.ok(&shared.admin, &["owners", "--lang", "zh"]));
    let own: Value = serde_json::from_str(&shared.ok(&ann, &["owners", "-o", "json"])).unwrap();
    assert_eq!((own["items"].as_array().unwrap().len(), &own["items"][0]["name"]), (1, &"ann".into()));

    let why = shared.ok(&shared.admin, &["why", "a"]);
    assert!(
        why.lines().any(|line| line.starts_with("ann had ") && line.ends_with("bob goes first")),
        "{why}"
    );
    let why = shared.ok(&ann, &["why", "a"]);
    assert!(why.lines().any(|line| line.ends_with(": other work goes first")), "{why}");
}
